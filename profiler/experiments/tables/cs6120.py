"""The bars of CS6120 (Voor and Liu, "Dynamic Edge Profiling with Optimal Counter Placement")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiler.experiments.cells.settings import setting
from profiler.experiments.tables.bl94_graphs import normalised
from profiler.experiments.tables.claims import extremes, judge, number, pairs, share_of, top
from profiler.experiments.tables.spec import Found, Need, Program, TableSpec
from profiler.experiments.tables.table import Bars, Claim, Column, Form, ReportTable, Value

NEEDS = {
    "calls": Need(setting("calls")),
    "calls_optimal": Need(setting("calls-optimal", weights="uniform")),
    "calls_maximum": Need(setting("calls-optimal")),
    "naive": Need(setting("naive")),
}


def bars(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return the bars of one program: instructions by those of the run without profiling."""
    yield (program.name, *(normalised(found[name]) for name in NEEDS))


def judge_bars(table: ReportTable) -> Iterator[Claim]:
    """Judge what the post concludes from its bars."""
    calls, optimal = table.mean("calls"), table.mean("calls_optimal")
    yield judge(
        "Logging every edge makes programs take several times as long (5 times on average).",
        None if calls is None else calls >= 2,
        f"mean {number(calls)} ({extremes(table.values('calls'))}); rule: at least 2",
        lambda: "most: " + top(table, "calls", ("calls_optimal",)),
    )
    both = pairs(table, "calls", "calls_optimal")
    lower, count = share_of(two <= one for _, one, two in both)
    yield judge(
        "Optimal placement is faster (4.8 times).",
        None if calls is None or optimal is None else optimal < calls,
        f"mean {number(optimal)}; faster in {lower} of {count} programs; rule: on average",
        lambda: "dearest: " + top(table, "calls_optimal", ("calls",)),
    )
    left = None if not calls or optimal is None else optimal / calls
    yield judge(
        "... but only by a little (4 %).",
        None if left is None else 0.9 <= left <= 1,
        f"optimal by every edge {number(left)}; rule: 0.9 to 1",
        lambda: (
            "a logging call costs its instructions here and nothing else, so that cost falls with "
            "the edges logged: " + top(table, "calls", ("calls_optimal", "calls_maximum"))
        ),
    )
    maximum = table.mean("calls_maximum")
    yield judge(
        "A maximum spanning tree of estimated weights would be faster still (named as next step).",
        None if maximum is None or optimal is None else maximum < optimal,
        f"arbitrary tree {number(optimal)}, maximum tree by BL94's heuristic {number(maximum)}",
        lambda: "dearest: " + top(table, "calls_maximum", ("calls_optimal",)),
    )


CS6120 = TableSpec(
    "cs6120",
    "CS6120: edge profiling by calls, on every edge and on chords only",
    "K. Voor and H. Liu, Dynamic Edge Profiling with Optimal Counter Placement, CS 6120 course "
    "blog, Cornell University",
    "Instructions by those of the run without profiling: two logging calls on every edge; on the "
    "chords of a spanning tree without regard to weights; on those of a maximum spanning tree by "
    "BL94's heuristic weights; a counter on every edge, without calls.",
    (
        Column("program", "program"),
        Column("calls", "every edge", Form.RATIO),
        Column("calls_optimal", "optimal", Form.RATIO),
        Column("calls_maximum", "maximum tree", Form.RATIO),
        Column("naive", "counters", Form.RATIO),
    ),
    NEEDS,
    bars,
    judge_bars,
    bars=Bars(
        ("calls", "calls_optimal", "calls_maximum"), "times the base instructions", baseline=1.0
    ),
    compared=("calls", "calls_optimal"),
)

TABLES = (CS6120,)
