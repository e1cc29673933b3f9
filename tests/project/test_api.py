"""`import simprof`: the numbers, checks and messages of the command line, and nothing printed."""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints
from xml.etree import ElementTree

import networkx as nx
import pytest
from msgspec.structs import replace

import simprof
from simprof._arguments import OUTPUTS, keyword
from simprof._graphs import GraphOptions
from simprof._programs import RunOptions
from simprof.profiler.cli import run as command
from simprof.profiler.commands.compare import compare_command
from simprof.profiler.commands.explain import explain_command
from simprof.profiler.commands.run import run_command
from simprof.profiler.reports import run_json
from simprof.profiler.schemes import registry
from simprof.simulator.errors import SimulatorError
from tests.support.graphs_modes import KITER_1
from tests.support.turns import first

Find = Callable[..., Path]


def test_importing_is_quick_and_imports_little() -> None:
    script = (
        "import sys, time\nstart = time.perf_counter()\nimport simprof\n"
        "took = time.perf_counter() - start\n"
        "loaded = {'numpy', 'numba', 'simprof.simulator.cpu.engine', 'networkx', 'click'}\n"
        "loaded |= {'simprof.profiler', 'simprof.simulator'}\n"
        "loaded &= set(sys.modules)\n"
        "assert not loaded, loaded\nassert took < 0.5, took\n"
        "assert set(dir(simprof)) == set(simprof.__all__)\n"
        "for name in simprof.__all__: getattr(simprof, name)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_names() -> None:
    assert simprof.SimprofError is SimulatorError
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        simprof.nosuch  # noqa: B018
    for name in simprof.__all__:
        assert inspect.getdoc(getattr(simprof, name)), name


@pytest.mark.parametrize(
    ("commands", "options", "own"),
    [
        ([run_command, compare_command], RunOptions, {"mode", "jobs", "sort"}),
        ([explain_command], GraphOptions, {"mode"}),
    ],
)
def test_every_option_of_the_commands_is_typed(
    commands: list[Any], options: type, own: set[str]
) -> None:
    offered = {
        keyword(parameter)
        for each in commands
        for parameter in each.params
        if parameter.param_type_name == "option"
    }
    modes = {each.spelling.replace("-", "_") for each in registry.options() if not each.shared}
    assert set(get_type_hints(options)) == (offered - OUTPUTS - own) | modes


def from_the_command_line(tmp_path: Path, *arguments: str | Path) -> dict[str, Any]:
    output = tmp_path / "answer.json"
    options = ["--json", str(output), "--no-progress", "--stdin", "/dev/null"]
    name, *rest = map(str, arguments)
    status = command([name, *options, "--report", str(tmp_path / "report"), *rest])
    assert status == 0
    answer: dict[str, Any] = json.loads(output.read_text())
    return answer


@pytest.mark.parametrize(
    ("options", "words"),
    first(3, [
        ({}, []),
        ({"mode": "qpt2", "weights": "uniform"}, ["--mode=qpt2", "--weights=uniform"]),
        ({"mode": "tpp", "cold": 1, "loop": 2.5, "cold_always": True, "table": "hash"},
         ["--mode=tpp:cold=1:loop=2.5:cold-always", "--table=hash"]),
        ({"mode": "kiter", "k": 3, "routine": "ma*"},
         ["--mode=kiter:k=3", "--routine=ma*"]),
        ({"routine": ["main", "fibonacci"], "memory_limit": "64M", "stack_size": 1 << 20},
         ["--routine=main", "--routine=fibonacci", "--memory-limit=64M", "--stack-size=1M"]),
        ({"env": {"A": "1", "B": "x y"}, "argv0": "me", "self_check": True, "cold_always": False},
         ["--env=A=1", "--env=B=x y", "--argv0=me", "--self-check"]),
    ], at=2),
)  # fmt: skip
def test_runs_are_those_of_the_command(
    fixture_elf: Find,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    options: dict[str, Any],
    words: list[str],
) -> None:
    elf = fixture_elf("calls")
    measurement = simprof.run(elf, arguments=["3"], **options)
    assert capfd.readouterr() == ("", "")
    expected = from_the_command_line(tmp_path, "run", *words, elf, "3")
    assert json.loads(run_json.render(measurement)) == expected


@pytest.mark.long
def test_comparisons_are_those_of_the_command(fixture_elf: Find, tmp_path: Path) -> None:
    elf = fixture_elf("sieve")
    comparison = simprof.compare(
        str(elf), ["pp", "tpp", "tpp:cold=1:loop=1", "tpp:cold=.5:loop=20"]
    )
    expected = from_the_command_line(
        tmp_path, "compare", "--mode=pp,tpp,tpp:cold=1:loop=1,tpp:cold=0.5:loop=20", elf
    )
    rows = {name: row["instructions"]["added"] for name, row in expected["modes"].items()}
    assert rows == {name: one.added for name, one in comparison.measurements.items()}
    assert list(rows) == ["pp", "tpp", "tpp:cold=1:loop=1", "tpp:cold=0.5:loop=20"]
    assert comparison.emulations == expected["emulations"]
    assert list(simprof.compare(elf, "qpt2,pp").measurements) == ["qpt2", "pp"]
    assert list(simprof.compare(elf).measurements) == list(registry.planned_modes())


def test_streams(fixture_elf: Find, tmp_path: Path) -> None:
    elf, text = fixture_elf("sieve"), b"2 rounds: 9592 primes below 100000\n"
    memory, path = io.BytesIO(b""), tmp_path / "output"
    simprof.run(elf, stdout=memory)
    assert memory.getvalue() == text
    simprof.run(elf, stdout=path)
    assert path.read_bytes() == text
    with path.open("ab") as file:
        file.write(b"before\n")
        simprof.run(elf, stdout=file)
    assert path.read_bytes() == text + b"before\n" + text
    for unusable in (io.StringIO(), 1):
        with pytest.raises(simprof.UsageError, match="is no open file"):
            simprof.run(elf, stderr=unusable)  # type: ignore[arg-type]
    with pytest.raises(simprof.UsageError, match="nosuch"):
        simprof.run(elf, stdout=tmp_path / "nosuch" / "file")


def test_the_programs_input(fixture_elf: Find, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text("one two two three\n")
    elf = fixture_elf("words")
    given, empty = io.BytesIO(), io.BytesIO()
    simprof.run(elf, stdin=path, stdout=given)
    simprof.run(elf, stdout=empty)
    assert given.getvalue() != empty.getvalue()


def test_saved_profiles(fixture_elf: Find, tmp_path: Path) -> None:
    elf, profile = fixture_elf("calls"), tmp_path / "calls.profile"
    measurement = simprof.run(elf, "edges")
    simprof.save(measurement, str(profile))
    assert simprof.load(profile) == measurement
    guided = simprof.run(elf, "tpp", edge_profile=profile)
    assert guided.added == simprof.run(elf, "tpp").added


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "nosuch"}, "Invalid value for '--mode': unknown mode 'nosuch'"),
        ({"mode": "tpp", "cold": "much"}, "Invalid value for '--mode': tpp: cold=much: give"),
        (
            {"path_limit": 0},
            "'--path-limit': 0 is too small: it must be at least 1",
        ),
        ({"max_instructions": 1.5}, "'1.5' is not a whole number"),
        ({"timeout": -1}, "'-1' is not a positive number of seconds"),
        ({"root": "/nosuch"}, "--root /nosuch is not a directory"),
        ({"stdin": "/nosuch"}, "--stdin /nosuch cannot be read"),
        ({"routine": "nosuch"}, "no routine matches 'nosuch'"),
        (
            {"colour": 1},
            "unknown option 'colour': choose from addresses, argv0, bits, blocks, branching, ",
        ),
        ({"json": "file"}, "unknown option 'json'"),
    ],
)
def test_errors_are_the_commands(fixture_elf: Find, options: dict[str, Any], message: str) -> None:
    with pytest.raises(simprof.SimprofError) as caught:
        simprof.run(fixture_elf("calls"), **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


UNCHECKED: Any = simprof
"""The functions for callers that check no types."""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda elf: UNCHECKED.plan(None),
            "graph must be a routine of simprof.recover, a graph of",
        ),
        (lambda elf: UNCHECKED.plan([1]), "or a graph file's content or name, not [1]"),
        (lambda elf: UNCHECKED.plan(simprof.recover(elf)), "plan takes one routine, as recovered."),
        (lambda elf: UNCHECKED.to_networkx("x"), "or a graph file's content, not 'x'"),
        (lambda elf: UNCHECKED.to_networkx(simprof.recover(elf)), "graph must be a routine of"),
        (lambda elf: UNCHECKED.from_networkx("x"), "graph must be a graph of networkx, not 'x'"),
        (lambda elf: UNCHECKED.call_graph(elf), "recovered must be what simprof.recover gives"),
        (lambda elf: UNCHECKED.recover(None), "elf must be the name of a file, not None"),
        (lambda elf: UNCHECKED.load(3), "profile must be the name of a file, not 3"),
        (lambda elf: UNCHECKED.run(None), "elf must be the name of a program file, not None"),
        (lambda elf: UNCHECKED.run(elf, arguments="abc"), "['abc'], not 'abc'"),
        (lambda elf: UNCHECKED.run(elf, arguments=b"abc"), "[b'abc'], not b'abc'"),
        (lambda elf: UNCHECKED.run(elf, arguments=None), "arguments must be a list, not None"),
        (lambda elf: UNCHECKED.compare(3), "elf must be the name of a program file, not 3"),
        (lambda elf: UNCHECKED.compare(elf, arguments="a"), "arguments must be a list, with each"),
        (lambda elf: UNCHECKED.compare(elf, 3), "modes must be a list, not 3"),
    ],
)
def test_wrong_arguments_are_said_in_one_line(
    fixture_elf: Find, call: Callable[[Path], object], message: str
) -> None:
    with pytest.raises(simprof.UsageError) as caught:
        call(fixture_elf("calls"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_are_one_for_each_edge(fixture_elf: Find) -> None:
    cfg = simprof.recover(fixture_elf("calls")).routines[0]
    wanted = f"None or a list of {len(cfg.edges)} weights, one for each edge of main"
    weights: Any
    for weights in ([1], range(len(cfg.edges) + 1), {0: 1}, 3, "x" * len(cfg.edges)):
        with pytest.raises(simprof.UsageError, match=wanted):
            simprof.to_networkx(cfg, weights)


def test_what_is_no_measurement_is_not_saved(fixture_elf: Find, tmp_path: Path) -> None:
    path = tmp_path / "profile"
    with pytest.raises(simprof.UsageError, match=r"measurement must be a Measurement, .* not 3"):
        simprof.save(3, path)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    measurement = simprof.run(fixture_elf("calls"))
    with pytest.raises(simprof.UsageError, match="profile must be the name of a file, not None"):
        simprof.save(measurement, None)  # type: ignore[arg-type]


def test_values_are_shown_in_one_line(fixture_elf: Find) -> None:
    elf = fixture_elf("calls")
    measurement = simprof.run(elf)
    shown = f"program={str(elf)!r}, mode='pp', base=127977, added=51936"
    assert repr(measurement) == f"Measurement({shown})"
    assert repr(simprof.compare(elf, ["pp"]).measurements) == f"{{'pp': {measurement!r}}}"
    recovered = simprof.recover(elf)
    routines, blocks = len(recovered.routines), recovered.block_count
    shown = f"program={str(elf)!r}, routines={routines}, blocks={blocks}"
    assert repr(recovered) == f"RecoveredProgram({shown})"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["--version"]) == 0
    assert capsys.readouterr().out == f"simprof {simprof.__version__}\n"


def test_what_is_no_program(tmp_path: Path) -> None:
    for function in (simprof.run, simprof.compare, simprof.recover, simprof.load):
        with pytest.raises(simprof.SimprofError, match="nosuch"):
            function(tmp_path / "nosuch")


@pytest.mark.parametrize("mode", registry.planned_modes())
def test_plans_are_those_of_the_command(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "figure.json"
    path.write_text(json.dumps(KITER_1))
    output = tmp_path / "answer.json"
    assert command(["explain", "--mode", str(mode), "--json", str(output), str(path)]) == 0
    expected = json.loads(output.read_text())
    assert simprof.plan(path, mode).answer == expected
    for graph in (KITER_1, simprof.to_networkx(KITER_1)):
        planned = simprof.plan(graph, mode)
        assert {**planned.answer, "program": None} == {**expected, "program": None}
        assert planned.added == expected["instructions"]["added"]
        assert planned.base == expected["instructions"]["base"]
        assert [edge.cost for edge in planned.edges] == expected["static"]["costs"]
        assert [edge.count for edge in planned.edges] == [
            e["executions"] for e in expected["edges"]
        ]


@pytest.mark.parametrize("mode", first(3, registry.planned_modes()))
def test_recovered_routines_can_be_planned(fixture_elf: Find, mode: str) -> None:
    for cfg in simprof.recover(fixture_elf("switches")).routines:
        planned = simprof.plan(cfg, mode)
        assert planned.cfg == cfg
        assert len(planned.edges) == len(cfg.edges)
        assert planned.potential_paths == simprof.plan(simprof.to_networkx(cfg)).potential_paths


def test_graphs_through_networkx(fixture_elf: Find) -> None:
    cfg = simprof.recover(fixture_elf("calls")).routines[0]
    graph = simprof.to_networkx(cfg, range(len(cfg.edges)))
    assert simprof.from_networkx(graph) == cfg
    assert dict(graph.edges)[cfg.edges[3].source, cfg.edges[3].target, 3]["weight"] == 3
    with pytest.raises(simprof.SimprofError, match="no node has the role 'entry'"):
        simprof.from_networkx(nx.MultiDiGraph())
    with pytest.raises(simprof.SimprofError, match="entry: block 'x' is not"):
        simprof.plan(nx.MultiDiGraph(entry="x", exit="y"))
    with pytest.raises(simprof.UsageError, match="unknown option 'stdin'"):
        simprof.plan(cfg, stdin="file")  # type: ignore[call-arg]


def test_a_budget(fixture_elf: Find) -> None:
    measurement = simprof.run(fixture_elf("sieve"), max_instructions=1000)
    assert (measurement.ending.reason, measurement.ending.code) == ("budget", 124)
    assert measurement.partial


def test_calling_contexts_are_counted_when_asked_for(fixture_elf: Find) -> None:
    program = fixture_elf("calls")
    assert simprof.run(program, arguments=["3"]).call_tree is None
    assert simprof.run(program, arguments=["3"], call_tree=True).call_tree is not None
    compared = simprof.compare(program, ["pp"], ["3"], call_tree=True)
    assert compared.measurements["pp"].call_tree is not None


def test_routines_and_schemes_have_names(fixture_elf: Find, tmp_path: Path) -> None:
    measurement = simprof.run(fixture_elf("bench", "v9"), "pp", ["1"])
    sort = measurement.routines["quick_sort"]
    assert sort is measurement.routines[measurement.routines.index(sort)]
    assert sort.name == "quick_sort"
    with pytest.raises(simprof.SimprofError, match="'quik_sort': did you mean 'quick_sort'"):
        measurement.routines["quik_sort"]
    simprof.save(measurement, tmp_path / "p")
    assert simprof.load(tmp_path / "p").routines["quick_sort"] == sort
    again = replace(sort, address=sort.address + 4)
    with pytest.raises(simprof.SimprofError, match="2 routines are called 'quick_sort'"):
        type(measurement.routines)([sort, again])["quick_sort"]
    comparison = simprof.compare(fixture_elf("loops", "v9"), ["pp", "qpt2"])
    assert comparison["pp"] is comparison.measurements["pp"]
    with pytest.raises(simprof.SimprofError, match="unknown mode 'qpt': did you mean 'qpt2'"):
        comparison["qpt"]
    assert repr(comparison) == "Comparison(pp 64.45%, qpt2 49.66%)"


def test_misspelt_options_are_named(fixture_elf: Find) -> None:
    with pytest.raises(simprof.SimprofError, match="unknown option 'mod': did you mean 'mode'"):
        simprof.run(fixture_elf("loops", "v9"), mod="pp")  # type: ignore[call-arg]


@pytest.mark.toolchain
def test_what_a_program_was_refused_is_said(compile_c: Find, tmp_path: Path) -> None:
    elf = compile_c(
        "#include <stdio.h>\n"
        "int main(int n, char **words) {\n"
        '    return (fopen(words[1], "r") != 0) + 2 * (fopen("out", "w") != 0)\n'
        '        + 4 * (fopen("/etc/passwd", "r") != 0 || fopen("/none", "r") != 0);\n'
        "}\n"
    )
    (tmp_path / "in").write_text("text")
    change = "a change of a file was refused (out): --writable DIR lets the program write below DIR"
    refused = simprof.run(elf, "pp", ["away"], root=tmp_path)
    assert refused.ending.status == 0
    assert [each for each in refused.warnings if "refused" in each] == [change]
    missed = "not found by the program: /etc/passwd, away: it sees the files below --root alone"
    assert missed in refused.warnings
    found = simprof.run(elf, "pp", ["in"], root=tmp_path, writable=tmp_path)
    assert found.ending.status in (1, 3)
    assert [each for each in found.warnings if "not found" in each] == [
        missed.replace(", away", "")
    ]


def test_commands_are_functions(fixture_elf: Find, tmp_path: Path) -> None:
    """They take measurements and files alike, and return what the commands write."""
    elf = fixture_elf("sieve")
    saved, output = tmp_path / "pp", tmp_path / "output"
    measured = simprof.run(elf, mode="qpt2")
    simprof.save(simprof.run(elf, mode="pp"), saved)
    simprof.save(measured, tmp_path / "qpt2")
    assert command(["diff", str(saved), str(tmp_path / "qpt2"), "--json", f"-o{output}"]) == 0
    assert simprof.diff(saved, measured) == json.loads(output.read_text())
    assert command(["export", str(saved), "--format=csv", "--table=paths", f"-o{output}"]) == 0
    assert simprof.export(saved, "csv", table="paths") == output.read_bytes()
    results = simprof.sweep(tmp_path / "sweep.db", [elf], mode=["pp", "qpt2"], input="ref")
    with pytest.warns(UserWarning, match="sieve: no result of sieve ref"):  # tpp is not there
        made = simprof.table("cs6120", **{"from": results})
    assert made["tables"][0]["name"] == "cs6120"
    with pytest.raises(simprof.SimprofError, match="unknown table 'cs612': did you mean"):
        simprof.table("cs612")


def test_errors_begin_at_the_public_function() -> None:
    with pytest.raises(simprof.SimprofError) as raised:
        simprof.run("nothing.elf", mode="tp")
    assert [each.name for each in raised.traceback] == [
        "test_errors_begin_at_the_public_function",
        "called",
    ]


@pytest.mark.parametrize("step", [5, "Spanning tree"])
def test_a_plan_is_drawn_and_explained(step: int | str) -> None:
    pairs = [list(pair) for pair in "AB AC BC BD CD DF DE EF".split()]
    figure = {"entry": "A", "exit": "F", "edges": pairs, "runs": [["A C D F", 90]]}
    planned = simprof.plan(figure)
    assert repr(planned) == "PlannedGraph('graph', mode='pp', 6 paths, added=360)"
    assert [(path["blocks"], path["executions"]) for path in planned.paths] == [(list("ACDF"), 90)]
    assert len(simprof.plan(figure, enumerate=True).paths) == 6
    frame = planned.to_frame().set_index(["source", "target"])
    assert frame.T[("D", "F")].to_list() == ["count[r]++", 3, 90]
    picture = planned.draw(step)
    assert picture._repr_svg_() == picture
    edges = ElementTree.fromstring(picture).findall(".//{*}g[@class='edge']")
    assert len(edges) == len(pairs) + 3
    with pytest.raises(simprof.SimprofError, match=r"unknown step 'kode': did you mean 'code'\?"):
        planned.draw("kode")
    assert "\n5. Spanning tree\nA maximum-weight spanning tree. It" in simprof.explain(figure)


def test_values_take_a_line(fixture_elf: Find) -> None:
    measured = simprof.run(fixture_elf("sieve"), mode="tpp", cold_always=True)
    for value in (measured, measured.routines, measured.routines[0], measured.quality):
        assert "\n" not in repr(value) and len(repr(value)) < 240
    assert len(repr(simprof.recover(fixture_elf("sieve")).routines[0])) < 100
