"""Texts and JSON of reports, from measurements made by hand: numbers, units, marks, warnings."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.plan.decoders import LoopLimit
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.profiles.profile import Ending, PathCount
from simprof.profiler.reports import display, doctor, graph_run, mode_facts, run_json, run_text
from simprof.profiler.reports.display import visible
from simprof.profiler.schemes import registry
from simprof.profiler.session.diagnosis import Diagnosis, SystemCheck
from tests.support.samples import FAULT, REFUSAL, measurement, routine

# --- numbers


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (10**15 - 1, "999,999,999,999,999"),
        (10**15, "1.00e15"),
        (2**100, "1.26e30"),
        (-(2**100), "-1.26e30"),
        (999 * 10**28, "9.99e30"),
        pytest.param(10**6000, "1.00e6000", id="huge"),
        pytest.param(10**6000 - 1, "9.99e5999", id="huge-1"),
    ],
)
def test_group_digits(number: int, shown: str) -> None:
    assert display.group_digits(number) == shown


def test_percent_and_plural() -> None:
    assert display.percent(1, 3) == "33.33 %"
    assert display.percent(1, 0) == "-"
    assert display.plural(1, "edge") == "1 edge"
    assert display.plural(2000, "edge") == "2,000 edges"


def test_a_share_is_all_only_if_it_is() -> None:
    assert display.share(Fraction(1)) == "100.00 %"
    assert display.share(Fraction(999_999, 1_000_000)) == "99.99 %"
    assert display.share(Fraction(2, 3)) == "66.67 %"
    assert display.share(Fraction(-1, 4)) == "-25.00 %"


# --- JSON

RUN_FIELDS = {
    "format", "version", "simprof", "measured_by", "input_sha256", "program", "mode",
    "options", "edge_profile_sha256", "exit", "partial", "warnings", "instructions",
    "overhead", "counts", "sizes", "lost", "refused_calls", "routines", "edges", "paths",
}  # fmt: skip
ROUTINE_FIELDS = {
    "routine", "symbol", "module", "routine_address", "alias", "entered", "instructions", "share",
    "added", "overhead", "blocks", "edges", "back_edges", "irreducible", "potential_paths",
    "numbered_paths", "iterations", "limited_loops", "executed_paths", "path_coverage", "cut_edges",
    "table", "addressing", "path_register", "file", "line",
}  # fmt: skip


def test_json_has_the_fields_of_the_schema() -> None:
    data = json.loads(run_json.render(measurement()))
    assert (data["format"], data["version"]) == ("simprof/run", 4)
    assert data.keys() == RUN_FIELDS
    assert data["program"] == {
        "file": "loop.elf",
        "sha256": "ab" * 32,
        "machine": "sparcv9",
        "arguments": ["7", "a b"],
        "routines": 3,
    }
    assert data["exit"] == {"status": 3, "reason": "exit"}
    assert data["instructions"] == {"base": 59, "added": 40}
    assert data["overhead"] == 40 / 59
    assert data["options"]["routines"] == ["main"]
    assert data["routines"][0].keys() == ROUTINE_FIELDS
    assert data["routines"][0]["addressing"] == "addressing"


def test_json_edges_and_paths() -> None:
    data = json.loads(run_json.render(measurement()))
    assert data["edges"][1] == {
        "routine": "main",
        "symbol": "main",
        "module": None,
        "routine_address": "0x1000",
        "source": "0x1000",
        "target": "slot 0x100c",
        "kind": "slot",
        "executions": 5,
        "added": 0,
        "instrumented": False,
        "address": "0x1008",
        "file": "loop.c",
        "line": 4,
    }
    assert data["edges"][4]["source"] == "ENTRY"
    assert data["edges"][5]["target"] == "EXIT"
    assert data["paths"][2] == {
        "routine": "main",
        "symbol": "main",
        "module": None,
        "routine_address": "0x1000",
        "path": 2,
        "executions": 2,
        "instructions": 14,
        "instructions_per_execution": 7,
        "share": 14 / 59,
        "partial": False,
        "inferred": False,
        "inferred_from": None,
        "start": None,
        "end": None,
        "shortened": False,
        "blocks": ["0x1000", "0x1020"],
        "edges": None,
        "file": "loop.c",
        "line": 4,
        "lines": ["loop.c:4", "loop.c:8"],
    }
    assert data["paths"][0]["blocks"] == ["0x1000", "slot 0x100c", "0x1010"]


def test_json_tells_paths_of_the_same_blocks_apart() -> None:
    """Paths 0 and 1 have the same blocks; only their edges differ."""
    paths = json.loads(run_json.render(measurement()))["paths"]
    assert [path.get("edges") for path in paths] == [[4, 1, 2], [1, 2], None]


def test_json_of_a_mode_without_paths() -> None:
    data = json.loads(run_json.render(measurement(mode="qpt2")))
    assert data.keys() == RUN_FIELDS - {"paths"}


def test_json_of_sizes_and_losses() -> None:
    """Code is also in instructions, traces in bytes; shares of flow stand beside the numbers."""
    lost = {"flow_blocks": 200, "overcounted_blocks": 3, "undercounted_blocks": 7, "cold_paths": 9}
    sizes = {"code_bytes": 8, "trace_bits": 17, "minimal_trace_bits": 16}
    data = json.loads(run_json.render(measurement(mode="tpp", lost=lost, sizes=sizes)))
    assert data.keys() == RUN_FIELDS | {"attribution"}
    assert data["attribution"] == {
        "definite": 0.95, "overcount": 0.015, "undercount": 0.035,
        "attributed": 0.95, "overlap": 0.965,
    }  # fmt: skip
    assert data["lost"] == lost
    assert data["sizes"] == sizes | {
        "snippet_instructions": 2,
        "trace_bytes": 3,
        "minimal_trace_bytes": 2,
    }


def test_json_of_blocks() -> None:
    """Blocks of a block profile: each once, executed as often as it is entered."""
    options = {"placement": "redundant"}
    data = json.loads(run_json.render(measurement(mode="qpt", options=options)))
    assert data.keys() == (RUN_FIELDS - {"paths"}) | {"blocks"}
    found = {entry["block"]: entry["executions"] for entry in data["blocks"]}
    assert found == {"0x1000": 7, "slot 0x100c": 5, "0x1010": 5, "0x1020": 2}
    assert len(data["blocks"]) == 4
    edges = json.loads(run_json.render(measurement(mode="qpt", options={"placement": "edge"})))
    assert edges.keys() == RUN_FIELDS - {"paths"}


@pytest.mark.parametrize(
    ("ending", "status", "reason", "signal"),
    [
        (Ending(0, "budget"), 124, "budget", None),
        (Ending(0, "interrupted"), 130, "signal", 2),
        (Ending(0, "interrupted", 15), 143, "signal", 15),
        (Ending(125, "refused", refusal=REFUSAL), 125, "refused", None),
        (Ending(0, "signal", 6), 134, "signal", 6),
        (Ending(0, "fault", 11, FAULT), 139, "fault", 11),
    ],
)
def test_json_endings(ending: Ending, status: int, reason: str, signal: int | None) -> None:
    found = json.loads(run_json.render(measurement(ending=ending)))["exit"]
    assert (found["status"], found["reason"], found.get("signal")) == (status, reason, signal)
    if ending.fault:
        assert (found["fault"]["routine"], found["fault"]["line"]) == ("main", 5)
    if ending.refusal:
        assert found["refusal"] == {
            "name": "socket",
            "pc": "0x1014",
            "routine": "main",
            "offset": 0x14,
            "file": "loop.c",
            "line": 5,
        }


def test_json_integers_are_exact() -> None:
    large = 3**20000
    rendered = run_json.render(measurement(routines=(routine(potential_paths=large),)))
    digits = rendered.split('"potential_paths": ')[1].split(",")[0]
    assert len(digits) == 9543
    assert int(digits[-18:]) == large % 10**18


# --- text


def test_text_says_what_matters() -> None:
    report = run_text.render(measurement(), details=True)
    for phrase in (
        "loop.elf 7 a b (sparcv9)",
        "exit status 3",
        "59 instructions",
        "67.80 %",
        "path counter increments",
        "0x1000 > slot 0x100c > 0x1010",
        "loop.c:4 > 5",
        "fall-through",
    ):
        assert phrase in report, phrase
    assert "PARTIAL" not in report
    assert "\x1b" not in report
    assert all(len(line) <= 100 for line in report.splitlines())


def test_text_of_targeted_paths() -> None:
    found = measurement(
        mode="tpp",
        options={"cold": 5.0, "loop": 12.5},
        counts={"path_increments": 6, "inferred_paths": 5},
        sizes={"counter_bytes": 1234, "snippets": 3, "code_bytes": 48},
        lost={
            "cold_paths": 4,
            "overcounted_paths": 1,
            "unknown_unfinished": 2,
            "flow_blocks": 300_000,
            "overcounted_blocks": 0,
            "undercounted_blocks": 1,
        },
    )
    report = run_text.render(found, details=True)
    rows = [" ".join(line.split()) for line in report.splitlines()]
    for row in (
        "mode tpp:loop=12.5: acyclic paths, targeted by an edge profile (Joshi, Bond and Zilles "
        "2004)",
        "2 path executions, each counted (20.00 %)",
        "5 of obvious paths (determined by the edge profile) (50.00 %)",
        "4 of cold paths, counted together (40.00 %)",
        "3 different paths",
        "1,234 bytes of counters",
        "48 bytes of code added",
        "overlap with pp 99.99 % of path flow",
        "AoDF 99.99 % (0.00 % overcounted, 0.00 % undercounted)",
        "cold paths 4 executions (40.00 %) counted together",
        "obvious paths 1 execution too many",
        "unfinished paths 2 executions not identified",
    ):
        assert row in rows, row


def test_text_of_long_paths() -> None:
    path = routine().path_counts[0]
    twice = PathCount(5, 4, 18, path.blocks * 2, (1, 4), False, path.edges * 2)
    found = routine(path_counts=(path, twice))
    run = measurement(mode="kiter", options={"iterations": 3}, routines=(found,))
    report = run_text.render(run, details=True)
    assert "kiter:k=3: " in report
    assert "4  of those finished pass a block more than once (66.67 %)" in report
    assert "once" not in run_text.render(measurement(), details=True)


def test_text_of_limited_loops() -> None:
    head = routine().path_counts[0].blocks[0]
    limits = tuple(LoopLimit(VertexName(int(head) + 4 * n), 4, 1, "irreducible") for n in range(5))
    run = measurement(mode="kiter", options={"iterations": 4})
    told = "fewer than asked for in"
    for found, text in (
        (routine(limited_loops=limits[:1]), f"{told} 1 loop: main {head:#x}: 1 of 4 (irreducible)"),
        (routine(limited_loops=limits), f"{told} 5 loops: main {head:#x}: 1 of 4 (irreducible); "),
    ):
        made = replace(run, routines=(found,))
        report = " ".join(run_text.render(made, width=400).split())
        assert f"Precision lost iterations {text}" in report
        assert ("2 more" in report) == (len(found.limited_loops) == 5)
        assert json.loads(run_json.render(made))["routines"][0]["limited_loops"] == "; ".join(
            map(str, found.limited_loops)
        )
    mangled = "_ZNSt6vectorI" + "St6vectorI" * 9 + "i" + "E" * 9 + "E3fooEv"
    long = replace(run, routines=(routine(name=mangled, limited_loops=limits[:1]),))
    (line,) = [line for line in run_text.render(long, 400).splitlines() if told in line]
    assert len(line) < 200
    assert "_ZN" not in line
    unused = replace(run, routines=(routine(limited_loops=limits, activations=0, instructions=0),))
    assert told not in run_text.render(unused)


def test_text_of_blocks_and_of_traces() -> None:
    blocks = run_text.render(
        measurement(mode="qpt", options={"placement": "redundant"}, lost={"unknown_edges": 6}),
        details=True,
    )
    table = blocks.split("Hot blocks")[1]
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["7", "5", "5", "2"]
    assert "slot 0x100c" in table
    assert "Hot edges" not in blocks
    assert "edge counts cannot be derived from block counts (all 6 edges)" in blocks
    partly = measurement(mode="qpt", lost={"unknown_edges": 2})
    told = "edge counts cannot be derived from block counts in some routines (2 of 6 edges)"
    assert told in run_text.render(partly)
    sizes = {"counter_bytes": 0, "trace_bits": 80_001, "minimal_trace_bits": 70_000}
    run = measurement(mode="bits", counts={"trace_tokens": 90_000}, sizes=sizes)
    traced = run_text.render(run, details=True)
    assert "90,000  tokens written to the trace" in traced
    assert "10,001  bytes of trace\n" in traced
    assert "bytes of counters" not in traced
    assert "Hot edges" in traced


@pytest.mark.parametrize("mode", [str(mode) for mode in registry.modes()])
def test_every_mode_is_described(mode: str) -> None:
    text = mode_facts.description(measurement(mode=mode))
    assert text.startswith(mode)
    assert text.endswith(f": {registry.definition(mode).description}")


def test_text_top_limits_the_tables() -> None:
    details = True
    assert "0x1000 > 0x1020" in run_text.render(measurement(), top=3, details=details)
    assert "0x1000 > 0x1020" not in run_text.render(measurement(), top=1, details=details)
    assert "Hot" not in run_text.render(measurement(), top=0, details=details)


def test_hot_paths_are_sorted_by_instructions() -> None:
    table = run_text.render(measurement(), details=True).split("Hot paths")[1].splitlines()[2:]
    shares = [line.split()[0] for line in table if "%" in line]
    assert shares == ["45.76", "30.51", "23.73"]


def test_text_of_a_fault() -> None:
    report = run_text.render(
        measurement(ending=Ending(0, "fault", 11, FAULT), partial=True), width=160
    )
    assert "SIGSEGV, bad address 0x8, at 0x1014 in main+0x14 (loop.c:5)" in report
    assert "PARTIAL" in report


def test_text_of_a_refused_system_call() -> None:
    report = run_text.render(measurement(ending=Ending(125, "refused", refusal=REFUSAL)), width=160)
    assert "(--strict): socket at 0x1014 in main+0x14 (loop.c:5)" in report


def test_text_shows_warnings_and_cut_edges() -> None:
    cut = routine(cut_edges=2, potential_paths=10**30, table=CounterTable.HASH, addressing=None)
    report = run_text.render(measurement(routines=(cut,), warnings=("mind the gap",)), details=True)
    assert "warning: mind the gap" in report
    assert "1.00e30" in report
    (row,) = [line.split() for line in report.splitlines() if "1.00e30" in line]
    assert row[5:9] == ["1.00e30", "2", "hash", "%l3"]


def test_text_leaves_out_the_middle_of_long_paths() -> None:
    path = routine().path_counts[0]
    long = routine(
        path_counts=(type(path)(0, 1, 99, tuple(range(0x2000, 0x2400, 16)), (), False, ()),)
    )
    report = run_text.render(measurement(routines=(long,)), width=160, details=True)
    assert "(53 more)" in report
    assert "23f0" in report


def test_markup_in_names_is_shown_as_it_is() -> None:
    assert "[red]main" in run_text.render(measurement(routines=(routine(name="[red]main"),)))


# --- graph answers


def test_graph_answer_table() -> None:
    answer: dict[str, Any] = {
        "mode": "pp",
        "instructions": {"base": 30, "added": 6},
        "routines": [
            {
                "symbol": "EPP figure 1",
                "blocks": 3,
                "edges": 4,
                "back_edges": 1,
                "potential_paths": 2,
                "cut_edges": 0,
                "irreducible": False,
                "path_register": None,
                "addressing": "none",
            }
        ],
        "edges": [
            {"source": "A", "target": "B", "executions": 7},
            {"source": "A", "target": "C", "executions": 12},
            {"source": "ENTRY", "target": "A", "executions": 19},
        ],
        "static": {
            "back_edges": [["C", "A"]],
            "values": [0, 1],
            "tree": [True, False],
            "code": [[], ["r=1", "count[r]++"]],
            "dummy_edges": [{"from": "ENTRY", "to": "A", "for": [2], "value": 1}],
        },
        "warnings": [],
        "paths": [{"path": 1, "executions": 4, "blocks": ["A", "C"]}],
        "all_paths": [{"path": 0, "blocks": ["A", "B"]}, {"path": 1, "blocks": ["A", "C"]}],
    }
    lines = graph_run.render(answer).splitlines()
    rows = [line.split() for line in lines]
    assert "EPP figure 1: pp" in lines
    assert "back edges: C > A" in lines
    assert ["A", ">", "C", "12", "1", "no", "r=1;", "count[r]++"] in rows
    assert ["1", "4", "A", "C"] in rows
    assert ["0", "A", "B"] in rows
    assert "more" not in " ".join(lines)
    many = answer | {"edges": answer["edges"] * 400, "static": {}}
    lines = graph_run.render(many).splitlines()
    assert "(200 more: see --json)" in lines
    assert sum(" > " in line for line in lines) == graph_run.SHOWN_ROWS


# --- diagnoses

DIAGNOSIS = Diagnosis(
    (
        SystemCheck("python", True, True, "3.11.2"),
        SystemCheck("engine", False, True, "refused", "pip install x"),
        SystemCheck("qemu", False, False, "not installed", "apt-get install y"),
        SystemCheck("gcc", False, False, "not installed", "apt-get install y"),
    )
)


def test_doctor_text_gives_each_remedy_once() -> None:
    report = doctor.render_text(DIAGNOSIS)
    assert report.count("apt-get install y") == 1
    assert "To get qemu, gcc:" in report
    assert report.endswith("simprof does not work here.\n")
    assert not DIAGNOSIS.ok


def test_doctor_is_content_without_optional_tools() -> None:
    healthy = Diagnosis(tuple(check for check in DIAGNOSIS.checks if check.name != "engine"))
    assert healthy.ok
    data = json.loads(doctor.render_json(healthy))
    assert (data["format"], data["ok"]) == ("simprof/doctor", True)
    assert data["checks"][1]["remedy"] == "apt-get install y"


@pytest.mark.parametrize(
    ("mode", "options", "said"),
    [
        ("tpp", {"cold": 5.0, "loop": 15.0}, "tpp: "),
        ("tpp", {"cold": 5.0, "loop": 0.0, "count_obvious": True}, "tpp:loop=0:count-obvious: "),
        ("tpp", {"cold": 5.0, "loop": 15.0, "no_cold_counter": True}, "tpp:no-cold-counter: "),
        ("tpp", {"cold": 5.0, "loop": 15.0, "cold_always": True}, "tpp:cold-always: "),
        ("kiter", {"iterations": 3, "hash_above": None}, "kiter:k=3: "),
        ("kiter", {"iterations": 3, "unoptimised": True, "hash_above": 6000},
         "kiter:k=3:unoptimised:hash-above=6000: "),
        ("qpt2", {"blocks": "split", "registers": "liveness"}, "qpt2: "),
        ("qpt2", {"blocks": "folded", "registers": "saved"},
         "qpt2:blocks=folded:registers=saved: "),
    ],
)  # fmt: skip
def test_the_mode_is_named_with_the_options_that_shape_it(
    mode: str, options: dict[str, str | float], said: str
) -> None:
    assert said in mode_facts.description(measurement(mode=mode, options=options))


def test_bytes_that_are_no_utf8_are_shown_as_bytes() -> None:
    assert visible(os.fsdecode(b"gr\xfc\xdf.c")) == r"gr\xfc\xdf.c"
    assert visible("grüß.c") == "grüß.c"
    assert visible("\ud800") == r"\ud800"
