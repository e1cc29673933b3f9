"""Every text report about what is hard to show: hostile names, huge counts, any width.

The values are written by hand, as a run, a comparison or a suite could give them; only the graphs
of `graph` and `cfg` are computed. `numbers` says what a report must show.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from simprof.profiler.experiments.regress.causes import ChangeCause, RoutineChange
from simprof.profiler.experiments.regress.file import Baseline
from simprof.profiler.experiments.regress.regress import Check, MetricChange, RunCheck, SettingCheck
from simprof.profiler.experiments.reports import regress as regress_reports
from simprof.profiler.experiments.reports import suites as suite_reports
from simprof.profiler.experiments.reports.tables import render_text as render_tables
from simprof.profiler.experiments.suites.suite import Benchmark, BuildReport, Recipe, Suite
from simprof.profiler.experiments.tables.spec import TableReport, View
from simprof.profiler.experiments.tables.table import (
    Claim,
    Form,
    ReportTable,
    TableColumn,
    TableRow,
    Verdict,
)
from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
from simprof.profiler.profiles.code_counts import Branch
from simprof.profiler.profiles.differences import difference
from simprof.profiler.profiles.lines import LineCounts, Placing, SourceCounts
from simprof.profiler.profiles.profile import BlockCount, Ending, Guide, PathCount, RunMeasurement
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.profiler.reports import (
    annotation,
    cfg_formats,
    comparison_report,
    difference_report,
    doctor,
    graph_run,
    listings,
    run_text,
)
from simprof.profiler.reports.annotation import Annotation, CodeRow, CodeView, SourceRow, SourceView
from simprof.profiler.reports.listings import RowChoice
from simprof.profiler.session.diagnosis import Diagnosis, SystemCheck
from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import SourceLine
from tests.support.report_tables import document_of
from tests.support.samples import FAULT, HEAD, TAIL, measurement, routine

WIDTHS = (60, 80, 100, 140, 200)
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

LONG = "routine_" + 292 * "x"
TEMPLATE = (
    "_ZNSt6vectorIiSaIiEE17_M_realloc_insertIJRKiEEEvN9__gnu_cxx17__normal_iteratorIPiS1_EEDpOT_"
)
WIDE = "経路の数を数える関数" * 5
COMBINING = "re\u0301sume\u0301_" * 9
ESCAPES = "\x1b[31mred\x1b[0m\x07\rover\nline\u202egnp\u200b"
NAMES = (LONG, TEMPLATE, WIDE, COMBINING, ESCAPES, "main")

MANY = 79_540_859_444_884
"""Potential paths of a routine of the C library."""

HUGE = (571_224, MANY, 10**12, 10**15, 10**45 + 1, 999_999_999_999)


def _routines() -> tuple[Any, ...]:
    return tuple(
        routine(
            name=name,
            address=0x1000 + 0x100 * at,
            potential_paths=paths,
            numbered_paths=paths,
            cut_edges=at,
            added=10**9 + at,
            instructions=987_654_321_012 + at,
            activations=571_224 * (at + 1),
            path_counts=(PathCount(10**at, 10**9 + at, 17, (0x1000, 0x1020), (), False, (0, 5)),),
            alias="another_name" if at == 5 else None,
        )
        for at, (name, paths) in enumerate(zip(NAMES, HUGE, strict=True))
    )


def hostile_run(**changes: Any) -> RunMeasurement:
    """Return a run with six routines that all have a name that is hard to show."""
    whole = measurement(
        base=10**12 + 571_224,
        added=10**15 - 1,
        routines=_routines(),
        ending=Ending(0, "fault", 11, replace(FAULT, routine=ESCAPES)),
        lines={0x1000: SourceLine(f"{WIDE}.c", 4), 0x1020: SourceLine("a\x1b[2J\n.c", 8)},
        warnings=(f"32-bit counters would have wrapped in {ESCAPES}",),
        counts={"path_increments": 10**15 - 1, "blocks": MANY, "runs": 3, "whole_runs": 2},
    )
    program = replace(whole.program, file=f"{WIDE}.elf", arguments=(ESCAPES,), routines=1_234)
    return replace(whole, program=program, **changes)


def guided_run(guide: Guide) -> RunMeasurement:
    """Return a run whose paths have no counters, but for one, and are parts of longer ones."""
    run = hostile_run(mode="tpp", guide=guide, lost={"inferred_cold_paths": MANY})
    routines = tuple(
        replace(
            each,
            path_counts=tuple(
                replace(path, inferred=at > 0, shortened=True) for path in each.path_counts
            ),
        )
        for at, each in enumerate(run.routines)
    )
    return replace(run, routines=routines)


def _runs() -> tuple[RunMeasurement, ...]:
    """Runs in a mode of paths, two that lose something, and one of blocks."""
    lost = {"flow_blocks": 200, "overcounted_blocks": 3, "undercounted_blocks": 7, "cold_paths": 9}
    return (
        hostile_run(),
        hostile_run(mode="tpp", lost=lost, sizes={"counter_bytes": 10**13}),
        guided_run(Guide(f"{WIDE}.edges", False, "qpt2", 10**15 - 1)),
        hostile_run(mode="qpt", options={"placement": "redundant"}),
    )


def answer_report(width: int) -> str:
    """`simprof run`: its first screen."""
    return "\n".join(run_text.render(run, width=width) for run in _runs())


def run_report(width: int) -> str:
    """`simprof run --details`."""
    return "\n".join(run_text.render(run, width=width, details=True) for run in _runs())


def compare_report(width: int) -> str:
    """`simprof compare`, its first screen, and then with details."""
    sizes = {"trace_bits": 8 * MANY, "minimal_trace_bits": 8 * 10**12, "code_bytes": 571_224}
    rows = (
        ("pp", hostile_run()),
        ("witness", hostile_run(mode="witness", sizes=sizes, counts={"trace_tokens": MANY})),
        ("tpp(12.5,33.25)", hostile_run(mode="tpp", lost={"cold_paths": MANY})),
        ("tpp", guided_run(Guide(None, True, "qpt2", 10**12))),
        ("calls-optimal", hostile_run(mode="calls-optimal")),
    )
    return "\n".join(
        (
            comparison_report.render_text(rows, 5, 2, width),
            comparison_report.render_text(rows, 5, 2, width, top=2, details=True),
        )
    )


@cache
def _answers() -> tuple[Mapping[str, Any], ...]:
    start, middle, side, end = LONG, WIDE, COMBINING, "x" * 24
    assert not ESCAPES.isprintable()  # a graph file with such a label is refused
    document = {
        "name": LONG, "entry": start, "exit": end,
        "edges": [[start, middle], [start, side], [middle, side], [side, middle], [side, end]],
        "runs": [[{"edges": [0, 2, 4]}, 10**15 - 1], [{"edges": [1, 3, 2, 4]}, MANY]],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "graph.json"
        file.write_text(json.dumps(document))
        return tuple(
            analyse_file(file, AnalysisOptions(mode=mode)) for mode in ("pp", "kiter", "bits")
        )


def graph_report(width: int) -> str:
    """`simprof explain`."""
    return "\n".join(graph_run.render(answer, width) for answer in _answers())


def table_report(width: int) -> str:
    """`simprof table`."""
    heads = (
        TableColumn("program", "program"),
        *(TableColumn(f"c{at}", f"potential paths {at}", Form.COUNT) for at in range(6)),
        TableColumn("share", "% of edges", Form.PERCENT),
        TableColumn("why", "routine"),
    )
    rows = [TableRow((name, *HUGE, 12.25, name)) for name in NAMES]
    rows += [TableRow(("average", *map(float, HUGE), None, None), "average")]
    rows += [TableRow((ESCAPES, *[None] * 8), "failed", error=f"ended with {ESCAPES}")]
    claims = (
        Claim(f"{MANY:,} paths are too many", Verdict.HOLDS, f"{MANY:,} paths", "571,224 loops"),
        Claim("about elapsed time", Verdict.UNTESTABLE, WIDE),
    )
    table = ReportTable(
        "t", "Table 1: everything", "somewhere", "Counts. " * 30, heads, tuple(rows),
        claims=claims, notes=("a note " * 40,),
    )  # fmt: skip
    view = View("ref", "v9-O2")
    report = TableReport("micro", "Micro", view, "0", "0", "1", (), (table,), ("other",) * 20)
    return render_tables(report, width)


def regress_report(width: int) -> str:
    """`simprof regress check`."""
    differences = (
        MetricChange("base", MANY, MANY + 571_224, "exact", True),
        MetricChange("counts.path_increments", 10**15 - 1, 571_224, "at most 5", False),
        MetricChange(f"counts.{LONG}", None, 10**45, "1 %", True),
    )
    changes = tuple(
        RoutineChange(name=name, address=0x1000, numbers={"added": (1, MANY)}, profile_differs=True)
        for name in NAMES
    )
    causes = (ChangeCause("binary", f"the program is {ESCAPES}", (LONG, WIDE)),)
    check = Check(
        f"{WIDE}.baseline",
        (
            RunCheck(ESCAPES, error=f"cannot be run: {LONG}"),
            RunCheck(WIDE, settings=(SettingCheck("pp", differences, changes, causes, True),)),
        ),
        Baseline({}, {}, {}, {}),
    )
    return regress_reports.render_text(check, width, color=False)


def suite_report(width: int) -> str:
    """All of `simprof suite`."""
    names = [name.replace("\n", " ") for name in NAMES]
    benchmarks = tuple(
        Benchmark(name, "INT", WIDE, "because " * 30, Recipe(committed="x"), {}) for name in names
    )
    suite = Suite(ESCAPES, "A suite of what is hard to show " * 4, benchmarks, Path("x"))
    build = BuildReport("s", {}, {(name, "v9-O2"): f"no compiler: {ESCAPES}" for name in names})
    good = document_of(base=MANY, added=10**15 - 1)
    rows = [(each, (good, document_of(error=f"ended with {LONG}"))) for each in benchmarks]
    return "\n".join(
        (
            suite_reports.render_suites([suite], width),
            suite_reports.render_suite(suite, width),
            suite_reports.render_build(build, width),
            suite_reports.render_runs(rows, ["qpt2", "tpp(12.5,33.25)"], width),
        )
    )


def doctor_report(width: int) -> str:
    """`simprof doctor`."""
    remedy = "apt-get install gcc-12-sparc64-linux-gnu g++-12-sparc64-linux-gnu qemu-user"
    checks = (
        SystemCheck("python", True, True, "3.11.7 on Linux x86_64"),
        SystemCheck("machine code", False, False, f"none: {ESCAPES}", "export XDG_CACHE_HOME=x"),
        SystemCheck("sparc64-linux-gnu-gcc-12", False, True, f"not installed; {WIDE}", remedy),
    )
    return doctor.render_text(Diagnosis(checks), width)


@cache
def _recovered() -> ProgramGraphs:
    program = recover(load(FIXTURES / "bin" / "v9" / "loops.elf"))
    renamed = (
        replace(each, name=NAMES[at]) if at < len(NAMES) else each
        for at, each in enumerate(program.routines)
    )
    return replace(program, routines=tuple(renamed))


def cfg_report(width: int) -> str:
    """`simprof cfg`, as text."""
    return cfg_formats.render_text(_recovered(), range(len(NAMES)), width, {0: "another_name"})


def _counted() -> RunMeasurement:
    """A run whose routines have blocks, hostile names, and counts of 10^15 and more."""
    blocks = (
        BlockCount(0x1000, 3, False, False, 10**15, 571_224),
        BlockCount(0x1020, 2, False, True, MANY, 0),
    )
    routines = tuple(
        replace(
            each,
            added=10**17 - 7,
            edge_counts=tuple(
                replace(edge, count=10**15 + at, added=10**15 - at)
                for at, edge in enumerate(each.edge_counts)
            ),
            block_counts=blocks,
        )
        for each in _routines()
    )
    return hostile_run(routines=routines, base=10**17 + 7, added=10**16 + 9)


def listing_report(width: int) -> str:
    """`simprof show PROFILE routines`, `edges`, `paths`; a listing with nothing in it."""
    run = _counted()
    made = (
        *(
            listings.listing(subject, run, RowChoice(top=7))
            for subject in ("routines", "edges", "paths")
        ),
        listings.listing("edges", run, RowChoice(routines=("nothing",))),
    )
    return "\n".join(listings.render_text(listing, width) for listing in made)


def annotation_report(width: int) -> str:
    """`simprof show PROFILE source`, of source and of code."""
    counts = SourceCounts(_counted(), None)
    branch = Branch(0x1008, 10**15, MANY, TAIL, HEAD)
    place = SourceLine(f"{WIDE}.c", 4)
    line = LineCounts(place, 10**15, 10**16 + 1, MANY, [0x1000], [branch], [0])
    never = LineCounts(SourceLine(f"{WIDE}.c", 5))
    texts = (f"\tif ({ESCAPES})", f"        return {LONG};", f"/* {WIDE} */", "", None)
    rows = tuple(
        SourceRow(at, text, counted, Placing.SHARED if counted is line else Placing.OWN)
        for at, (text, counted) in enumerate(
            zip(texts, (line, never, None, None, line), strict=True), 1
        )
    )
    code = tuple(
        CodeRow(
            0x1000 + 4 * at,
            None if at == 2 else "or %g1, %lo(0x100c08), %g1",
            10**15 - at,
            MANY,
            branch if at == 1 else None,
            place if at < 2 else None,
            texts[0],
        )
        for at in range(3)
    )
    views = (SourceView(place.file, rows), CodeView(counts.routines[4], code))
    whole = annotation.render_text(Annotation(counts, views), width)
    return whole + annotation.render_text(Annotation(counts, ()), width)


def diff_report(width: int) -> str:
    """`simprof diff`, of one program and of two builds."""
    before, after = hostile_run(), _counted()
    other = replace(after, program=replace(after.program, sha256="cd" * 32))
    pairs = ((before, after), (before, other), (before, before))
    return "\n".join(
        difference_report.render_text(difference(*pair), top=4, width=width) for pair in pairs
    )


REPORTS: Mapping[str, Callable[[int], str]] = {
    "answer": answer_report,
    "run": run_report,
    "compare": compare_report,
    "graph": graph_report,
    "table": table_report,
    "regress": regress_report,
    "suite": suite_report,
    "doctor": doctor_report,
    "cfg": cfg_report,
    "listings": listing_report,
    "annotate": annotation_report,
    "diff": diff_report,
}
"""Command -> what it prints at some width."""


def golden(name: str) -> str:
    """Return what a report is at all of `WIDTHS`, each under a line that says the width."""
    make = REPORTS[name]
    return "\n".join(f"=== {width} columns\n{make(width)}" for width in WIDTHS)
