"""The bars of CS6120 (Voor and Liu, "Dynamic Edge Profiling with Optimal Counter Placement")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.bl94_graphs import normalised
from simprof.profiler.experiments.tables.claims import (
    AT_LEAST,
    BELOW,
    differs,
    judge,
    mean_is,
    number,
    ordered,
    pairs,
    within,
)
from simprof.profiler.experiments.tables.executed import Prediction
from simprof.profiler.experiments.tables.spec import CellNeed, Found, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    Form,
    ReportTable,
    TableColumn,
    Value,
    ratio,
)

NEEDS = {
    "calls": CellNeed(setting("calls")),
    "calls_optimal": CellNeed(setting("calls-optimal", weights="uniform")),
    "calls_maximum": CellNeed(setting("calls-optimal")),
    "naive": CellNeed(setting("naive")),
}


def bars(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return the bars of one program: instructions by those of the run without profiling."""
    yield (program.name, *(normalised(found[name]) for name in NEEDS))


def judge_bars(table: ReportTable) -> Iterator[Claim]:
    """Judge what the post concludes from its bars."""
    calls, optimal, maximum = (
        table.mean(key) for key in ("calls", "calls_optimal", "calls_maximum")
    )
    yield judge(
        "Logging every edge makes programs take several times as long (5 times on average).",
        mean_is(table, "calls", AT_LEAST, 2, others=("calls_optimal",)),
    )
    both = pairs(table, "calls_optimal", "calls")
    names = ("optimal", "every edge")
    yield judge(
        "Optimal placement is faster (4.8 times).",
        differs(
            ("mean of optimal placement", optimal),
            BELOW,
            ("mean of every edge", calls),
            parts=ordered(both, BELOW, names),
        ),
    )
    left = ratio(optimal, calls)
    yield judge(
        "... but only by a little (4 %).",
        within(
            "optimal by every edge",
            left,
            0.9,
            1,
            remark=f"means {number(optimal)} and {number(calls)}",
            parts=[(name, one / two, "") for name, one, two in both if two],
        ),
    )
    trees = pairs(table, "calls_maximum", "calls_optimal")
    yield judge(
        "A maximum spanning tree of estimated weights would be faster still (named as next step).",
        differs(
            ("mean of BL94's maximum tree", maximum),
            BELOW,
            ("mean of an arbitrary tree", optimal),
            parts=ordered(trees, BELOW, ("maximum", "arbitrary")),
        ),
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
        TableColumn("program", "program"),
        TableColumn("calls", "every edge", Form.RATIO),
        TableColumn("calls_optimal", "optimal", Form.RATIO),
        TableColumn("calls_maximum", "maximum tree", Form.RATIO),
        TableColumn("naive", "counters", Form.RATIO),
    ),
    NEEDS,
    bars,
    judge_bars,
    bars=Bars(
        ("calls", "calls_optimal", "calls_maximum"), "times the base instructions", baseline=1.0
    ),
    compared=("calls", "calls_optimal"),
    predictions={name: Prediction(name, normalised) for name in NEEDS},
)

TABLES = (CS6120,)
