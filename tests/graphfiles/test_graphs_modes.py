"""`simprof explain` in every mode: the papers' figures, invariants of the answer, bad options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.cli import run as simprof
from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse
from simprof.profiler.graphfiles.execution import MACHINE
from simprof.profiler.graphfiles.reader import parse
from simprof.profiler.reports.graph_run import render
from simprof.profiler.request.request import RegisterUse, SchemeOptions, TableChoice
from simprof.profiler.schemes.qpt.options import VertexPlacement
from simprof.profiler.schemes.registry import definition, path_modes, planned_modes, trace_modes
from simprof.profiler.schemes.tracing.code import flush_cost
from simprof.simulator.errors import UsageError
from tests.support.graphs_modes import KITER_1, TPP_7

PLAIN_FIELDS = {
    "format", "version", "simprof", "measured_by", "input_sha256", "program", "mode",
    "options", "edge_profile_sha256", "exit", "partial", "warnings", "instructions",
    "overhead", "counts", "routines", "edges", "sizes", "static",
}  # fmt: skip


def answer(document: dict[str, Any], mode: str, **options: Any) -> dict[str, Any]:
    enumerate_paths = options.pop("enumerate", False)
    chosen = AnalysisOptions(mode, enumerate_paths, None, SchemeOptions.of(**options))
    result = analyse(parse(document, "graph.json"), chosen)
    assert json.loads(json.dumps(result)) == result
    return result


@pytest.mark.parametrize("mode", planned_modes())
@pytest.mark.parametrize("document", [KITER_1, TPP_7], ids=lambda each: each["name"])
def test_every_mode_answers_with_the_run_object(mode: str, document: dict[str, Any]) -> None:
    result = answer(document, mode)
    optional = {"paths", "blocks", "lost", "definite_flow", "attribution", "estimate"}
    assert result.get("estimate") == (True if definition(mode).estimates else None)
    assert ("definite_flow" in result) == (mode in ("pp", "bittrace", "pref", "wpp"))
    assert ("attribution" in result) == (definition(mode).judged_by is not None)
    assert set(result) - optional == PLAIN_FIELDS
    assert ("paths" in result) == (mode in path_modes())
    traced = definition(mode).code().stream is not None
    assert ("trace_bits" in result["sizes"]) == traced
    plain = answer(document, "pp")
    assert [edge["executions"] for edge in result["edges"]] == [
        e["executions"] for e in plain["edges"]
    ]
    assert result["instructions"]["base"] == plain["instructions"]["base"]
    flushing = flush_cost(MACHINE, result["sizes"]["trace_bits"]) if traced else 0
    assert (flushing > 0) == traced
    assert result["instructions"]["added"] == result["routines"][0]["added"] + flushing
    static, edges = result["static"], len(result["edges"])
    for key in ("weights", "code", "sparc", "costs"):
        assert len(static[key]) == edges
    assert [bool(code) for code in static["code"]] == [bool(code) for code in static["sparc"]]
    snippets = [code for code in static["sparc"] if code]
    for place in ("block_sparc", "block_end_sparc"):
        snippets += static.get(place, {}).values()
    assert result["sizes"]["snippets"] == len(snippets)
    assert result["sizes"]["snippet_instructions"] == sum(map(len, snippets))
    assert result["sizes"]["code_bytes"] == 4 * sum(map(len, snippets))


def test_kiter_figure_1_numbers_by_iteration() -> None:
    result = answer(KITER_1, "kiter", enumerate=True)
    static = result["static"]
    # Table 1; edges 1>2 2>3 2>4 3>5 4>5 4>6 5>2 5>6, ENTRY>1, 6>EXIT.
    assert static["values"] == [[0], [0, 0], [6, 2], [0, 0], [0, 0], [6, 2], [0], [5, 0], [0], [0]]
    assert static["compensation"] == [
        [0], [0, 0], [1, 0], [0, 0], [0, 0], [1, 0], [0], [0, 0], [0], [0],
    ]  # fmt: skip
    assert static["num_paths"]["2"] == 13
    assert static["invalid_paths"]["2"] == 3
    assert static["valid_paths"] == 23 == len(result["all_paths"])
    assert [loop["blocks"] for loop in static["loops"]] == [["2", "3", "4", "5"]]
    starts = [dummy for dummy in static["dummy_edges"] if dummy["from"] == "ENTRY"]
    assert [dummy["value"] for dummy in starts] == [13]
    paths = {"".join(path["blocks"]): path["executions"] for path in result["paths"]}
    assert paths == {"1235245": 1, "235245": 98, "245235": 99, "2352456": 1}
    inner = next(path for path in result["paths"] if path["executions"] == 98)
    assert inner["edges"] == [1, 3, 6, 2, 4]  # the back edge inside, not that which ended it


def test_one_iteration_is_pp() -> None:
    once, plain = (answer(KITER_1, mode, iterations=1) for mode in ("kiter", "pp"))
    paths = [
        {key: value for key, value in path.items() if key != "definite"} for path in plain["paths"]
    ]
    assert once["paths"] == paths


def test_figure_1_is_told_by_edges_in_small_part() -> None:
    """EPP figure 1: of its 270 activations, 40 at least executed ACDEF."""
    edges = [edge.split(">") for edge in "A>B A>C B>C B>D C>D D>E D>F E>F".split()]
    runs = [["A C D F", 90], ["A C D E F", 60], ["A B C D E F", 100], ["A B D F", 20]]
    figure = {"name": "figure 1", "entry": "A", "exit": "F", "edges": edges, "runs": runs}
    for mode in ("pp", "bittrace"):
        result = answer(figure, mode)
        assert result["definite_flow"] == {
            "executions": 270, "definite_executions": 40,
            "blocks": 1340, "definite_blocks": 200, "share": 200 / 1340,
        }  # fmt: skip
        told = {"".join(path["blocks"]): path["definite"] for path in result["paths"]}
        assert told == {"ABCDEF": 0, "ACDF": 0, "ACDEF": 40, "ABDF": 0}
        assert "edges alone determine 40 of 270 path executions, 14.93 %" in render(result)


def test_tpp_is_judged_as_in_a_run() -> None:
    """Cold edges cost attribution: D>E is taken by 1 of 100, and its path is not counted."""
    edges = [edge.split(">") for edge in "A>B A>C B>D C>D D>E D>F E>F".split()]
    runs = [["A B D F", 50], ["A C D F", 49], ["A C D E F", 1]]
    figure = {"name": "cold", "entry": "A", "exit": "F", "edges": edges, "runs": runs}
    whole = answer(figure, "tpp", cold=0.0)
    assert whole["attribution"] == {
        "definite": 1.0, "overcount": 0.0, "undercount": 0.0, "attributed": 1.0, "overlap": 1.0
    }  # fmt: skip
    less = answer(figure, "tpp", cold=5.0, cold_always=True)["attribution"]
    assert less["definite"] == 1 - less["overcount"] - less["undercount"]
    assert less["undercount"] == 5 / (4 * 99 + 5)


def test_bittrace_names_the_paths_of_pp_by_branch_outcomes() -> None:
    codes = answer(KITER_1, "bittrace", enumerate=True)
    plain = answer(KITER_1, "pp", enumerate=True)

    def unnamed(result: dict[str, Any]) -> set[tuple[tuple[str, ...], int]]:
        return {(tuple(path["blocks"]), path["executions"]) for path in result["paths"]}

    assert unnamed(codes) == unnamed(plain)
    assert {tuple(path["blocks"]) for path in codes["all_paths"]} == {
        tuple(path["blocks"]) for path in plain["all_paths"]
    }
    # 2 and 4 are two-way; 5 is three-way: its back edge is one way more.
    assert codes["static"]["bits"] == [0, 1, 1, 0, 1, 1, None, 1, 0, 0]


def test_tpp_figure_7_has_obvious_paths_only() -> None:
    result = answer(TPP_7, "tpp", loop=100.0)
    assert {tuple(path["blocks"]): path["executions"] for path in result["paths"]} == {
        ("A",): 100, ("B",): 102, ("C",): 100,
    }  # fmt: skip
    assert result["instructions"]["added"] == 0
    assert result["static"]["obvious"] == [0, 1, 2]
    assert [loop["blocks"] for loop in result["static"]["disconnected_loops"]] == [["B"]]


STACKED = {
    "name": "two choices",
    "entry": "A",
    "exit": "G",
    "edges": [edge.split(">") for edge in "A>B A>C B>D C>D D>E D>F E>G F>G".split()],
    "runs": [["A B D E G", 990], ["A C D E G", 2], ["A B D F G", 8], ["A C D F G", 40]],
}


def test_tpp_is_guided_by_the_runs() -> None:
    result = answer(STACKED, "tpp", cold=4.1, cold_always=True)
    assert result["static"]["edge_profile"] == [e["executions"] for e in result["edges"]]
    assert result["static"]["locally_cold"] == [["A", "C"]]
    assert [ends for ends, cold in edges_where(result, "cold") if cold] == ["A>C", "C>D"]
    assert result["static"]["counted_paths"] + len(result["static"]["obvious"]) == 2


def test_tpp_says_that_a_back_edge_is_cold_which_ends_cold_paths_only() -> None:
    """TPP figure 6b, `cold++; r=0` on T>H: hot paths begin with it, and none ends with it."""
    document = {
        "entry": "A",
        "exit": "X",
        "edges": [edge.split(">") for edge in "A>H H>P H>Q P>H P>T Q>T T>H T>X".split()],
        "runs": [["A H P H P H Q T X", 400], ["A H P H P H P T X", 400], ["A H Q T H P T X", 10]],
    }
    result = answer(document, "tpp", cold=5.0, loop=0.0, cold_always=True)
    assert [ends for ends, cold in edges_where(result, "cold") if cold] == ["T>H"]
    assert sum(path["executions"] for path in result["paths"]) == 810 + 1600
    assert result["lost"]["cold_paths"] == 10


def edges_where(result: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    names = [f"{edge['source']}>{edge['target']}" for edge in result["edges"]]
    return list(zip(names, result["static"][key], strict=True))


def test_tpp_is_guided_by_weights_where_there_are_no_runs() -> None:
    weights = (0.5, 99.5, 0.5, 99.5, 50, 50, 50, 50)
    edges = [[*edge, weight] for edge, weight in zip(STACKED["edges"], weights, strict=True)]
    document = STACKED | {"edges": edges, "runs": []}
    result = answer(document, "tpp", cold=5.0, cold_always=True)
    assert result["static"]["locally_cold"] == [["A", "B"]]
    assert result["static"]["edge_profile"] == [1, 199, 1, 199, 100, 100, 100, 100, 200, 200]


def test_tpp_is_guided_by_a_saved_answer(tmp_path: Path) -> None:
    document, runs, profile = tmp_path / "g.json", tmp_path / "other.json", tmp_path / "p.json"
    document.write_text(json.dumps(STACKED))
    runs.write_text(json.dumps(STACKED | {"runs": [["A C D F G", 100], ["A B D E G", 1]]}))
    assert simprof(["explain", str(runs), "--mode=qpt2", f"--json={profile}"]) == 0
    other = tmp_path / "a.json"
    options = ["--mode=tpp:cold-always", f"--edge-profile={profile}", f"--json={other}"]
    assert simprof(["explain", str(document), *options]) == 0
    result = json.loads(other.read_text())
    assert result["static"]["locally_cold"] == [["A", "B"], ["D", "E"]]
    assert result["edges"][0]["executions"] == 998


def test_trace_modes_say_how_many_bits_they_write() -> None:
    for mode in trace_modes():
        sizes = answer(KITER_1, mode)["sizes"]
        assert sizes["trace_bits"] >= sizes["minimal_trace_bits"] > 0


def test_qpt_counts_blocks() -> None:
    for placement in VertexPlacement:
        result = answer(KITER_1, "qpt", placement=placement)
        if placement in (VertexPlacement.EDGE, VertexPlacement.MIXED):
            assert "blocks" not in result
            continue
        counts = {block["block"]: block["executions"] for block in result["blocks"]}
        assert counts == {"1": 1, "2": 200, "3": 100, "4": 100, "5": 200, "6": 1}


def test_enormous_counts_are_exact() -> None:
    many = 10**60
    document = KITER_1 | {"runs": [["1 2 3 5 2 4 5 6", many]]}
    for mode in (*path_modes(), "naive"):
        if definition(mode).depends_on_order:
            with pytest.raises(UsageError, match="depend on the order of all activations"):
                answer(document, mode, table=TableChoice.HASH)
            continue
        result = answer(document, mode, table=TableChoice.HASH)
        assert result["instructions"]["base"] == 8 * many
        assert result["instructions"]["added"] > many
        if mode in path_modes():
            assert sum(path["executions"] for path in result["paths"]) % many == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode", "edges"], "edges adds nothing to a graph; use one of pp"),
        (["--mode", "tpp2"], "'tpp2'"),
        (["--mode", "tpp:cold=nan"], "cold=nan: give a percentage"),
        (["--mode", "tpp:cold=100.5"], "give a percentage"),
        (["--mode", "tpp:loop=-1"], "give a percentage"),
        (["--mode", "kiter:k=0"], "from 1 to 1000"),
        (["--mode", "kiter:k=1.5"], "1.5"),
        (["--mode", "qpt:placement=nowhere"], "placement=nowhere"),
        (["--mode", "bits:addresses"], "a graph's blocks refer to no data"),
        (["--mode", "naive", "--enumerate"], "--enumerate lists paths"),
        (["--mode", "tpp", "--edge-profile", "missing.json"], "missing.json"),
        (["--mode", "tpp", "--edge-profile", "{graph}"], "is not an edge profile of the graph"),
    ],
)
def test_bad_options_are_refused_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps(KITER_1))
    command = ["explain", str(graph), *(each.replace("{graph}", str(graph)) for each in arguments)]
    assert simprof(command) == 125
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("simprof: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_registers_have_no_effect_on_a_graph(capsys: pytest.CaptureFixture[str]) -> None:
    """The command has no such option; who calls the function is told."""
    assert simprof(["explain", "graph.json", "--registers", "spilled"]) == 125
    assert "No such option '--registers'" in capsys.readouterr().err
    spilled = SchemeOptions.of(registers=RegisterUse.SPILLED)
    with pytest.raises(UsageError, match="registers=spilled has no effect on graphs"):
        analyse(parse(KITER_1, "graph.json"), AnalysisOptions(scheme=spilled))


@pytest.mark.parametrize("mode", planned_modes())
def test_every_mode_has_a_report(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps(KITER_1))
    assert simprof(["explain", "--summary", str(graph), f"--mode={mode}"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"KITER figure 1: {mode}\n")
    assert "2 > 4" in text
