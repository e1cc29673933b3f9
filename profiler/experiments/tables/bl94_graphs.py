"""BL94 graphs 1 to 5 (Ball and Larus, "Optimally Profiling and Tracing Programs", 1994, 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median

from profiler.experiments.cells.cells import TREES, CellResult
from profiler.experiments.cells.settings import setting
from profiler.experiments.tables.bl94 import MERGED, PAPER
from profiler.experiments.tables.claims import (
    extremes,
    judge,
    number,
    pairs,
    share_of,
    top,
    untestable,
)
from profiler.experiments.tables.spec import Found, Need, Program, TableSpec
from profiler.experiments.tables.table import Bars, Claim, Column, Form, ReportTable, Value, ratio

REDUNDANT = Need(setting("qpt", blocks=MERGED))
VERTEX = Need(setting("qpt", blocks=MERGED, placement="vertex-optimal"))
EDGE_HEURISTIC = Need(setting("qpt", blocks=MERGED, placement="edge-heuristic"))
EDGE = Need(setting("qpt", blocks=MERGED, placement="edge"))
MIXED = Need(setting("qpt", blocks=MERGED, placement="mixed"))
OPTIMAL = Need(setting("qpt2", blocks=MERGED))
EXACT = Need(setting("qpt2", blocks=MERGED, weights="exact"))

INCREMENT = 5
"""Instructions of a counter increment, one for a jump: what graphs 2 and 3 assume."""

PROGRAM = Column("program", "program")


def normalised(result: CellResult) -> float | None:
    """Return the instrumented run's instructions by the uninstrumented run's."""
    return ratio(result.base + result.added, result.base)


def instrumentation(result: CellResult) -> int:
    """Return 5 * increments + jumps (BL94 graph 2)."""
    return INCREMENT * result.counts["edge_increments"] + result.counts["jumps"]


# -- graph 1 --------------------------------------------------------------------------------------


def profiling(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 graph 1."""
    yield program.name, normalised(found["redundant"]), normalised(found["optimal"])


def judge_profiling(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.1's claims about graph 1."""
    both = pairs(table, "redundant", "optimal")
    lower, count = share_of(two <= one for _, one, two in both)
    before = extremes((100 * (one - 1) for _, one, _ in both), " %")
    after = extremes((100 * (two - 1) for _, _, two in both), " %")
    yield judge(
        "Optimal profiling reduces overhead dramatically, from 10-225 % to 5-91 %.",
        fmean((two - 1) / (one - 1) for _, one, two in both if one > 1) <= 0.75 and lower == count
        if any(one > 1 for _, one, _ in both)
        else None,
        f"from {before} to {after}; lower in {lower} of {count} programs; rule: in all, by a "
        "quarter on average",
        lambda: "least reduced: " + _least_reduced(both),
    )
    yield untestable(
        "Pixie, with 6 instructions a block, lies between the two.",
        "pixie rewrites MIPS programs; it is no scheme of simprof",
    )


def _least_reduced(both: list[tuple[str, float, float]]) -> str:
    rows = sorted((row for row in both if row[1] > 1), key=lambda row: (1 - row[2]) / (row[1] - 1))
    return "; ".join(f"{name} {number(one)} to {number(two)}" for name, one, two in rows[:3])


GRAPH1 = TableSpec(
    "bl94-graph1",
    "BL94 graph 1: normalised times of profiling",
    f"{PAPER}, graph 1",
    "Instructions of the profiled run by those of the run without profiling: a counter in every "
    "block (redundant), on the chords of a spanning tree (optimal).",
    (
        PROGRAM,
        Column("redundant", "redundant", Form.RATIO),
        Column("optimal", "optimal", Form.RATIO),
    ),
    {"redundant": REDUNDANT, "optimal": OPTIMAL},
    profiling,
    judge_profiling,
    bars=Bars(("redundant", "optimal"), "times the base instructions", baseline=1.0),
)


# -- graph 2 --------------------------------------------------------------------------------------


def reductions(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 graph 2.

    Reduction in increments: redundant increments by optimal ones. In instrumentation:
    (5 * blocks) / (5 * increments + jumps), as the graph's caption has it.
    """
    redundant, optimal = found["redundant"], found["optimal"]
    blocks = redundant.counts["edge_increments"]
    yield (
        program.name,
        ratio(redundant.base, blocks),
        ratio(blocks, optimal.counts["edge_increments"]),
        ratio(INCREMENT * blocks, instrumentation(optimal)),
        normalised(redundant),
    )


def judge_reductions(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.1's claims about graph 2."""
    both = pairs(table, "increments", "instructions")
    below, count = share_of(two <= one for _, one, two in both)
    yield judge(
        "The reduction in instructions is in general less than in increments, for edges may need "
        "jumps.",
        2 * below > count if both else None,
        f"in {below} of {count} programs; rule: most",
        lambda: (
            "counters need few jumps where reductions agree: "
            + top(table, "instructions", ("increments",))
        ),
    )
    one, two = table.mean("increments", "INT"), table.mean("instructions", "INT")
    yield judge(
        "For the four C programs increments are reduced by a factor of 3-4, instructions by 2-3.",
        None if one is None or two is None else one >= 2 and two >= 1.5,
        f"INT means {number(one)} and {number(two)}; rule: at least 2 and 1.5"
        if one is not None
        else "",
        lambda: (
            "instructions a block and reductions: "
            + top(table, "increments", ("instructions", "block"))
        ),
    )
    yield _judge_greatest(table)


def _judge_greatest(table: ReportTable) -> Claim:
    rows = sorted(pairs(table, "redundant", "increments"), key=lambda row: row[1])
    half = len(rows) // 2
    low = median(row[2] for row in rows[:half]) if half else None
    high = median(row[2] for row in rows[-half:]) if half else None
    return judge(
        "The greatest improvements are in programs whose profiling overhead is largest.",
        None if low is None or high is None else high >= low,
        f"median reduction of increments: {number(high)} in the half with more overhead, "
        f"{number(low)} in the other"
        if half
        else "fewer than two programs",
        lambda: "greatest reductions: " + top(table, "increments", ("redundant", "block")),
    )


GRAPH2 = TableSpec(
    "bl94-graph2",
    "BL94 graph 2: reduction of increments and of instrumentation",
    f"{PAPER}, graph 2",
    "Redundant by optimal: counter increments; instructions at 5 an increment and 1 a jump, as "
    "the paper counts. Inst/block: instructions of a dynamic block.",
    (
        PROGRAM,
        Column("block", "inst/block", Form.DECIMAL),
        Column("increments", "increments", Form.RATIO),
        Column("instructions", "instructions", Form.RATIO),
        Column("redundant", "redundant time", Form.RATIO),
    ),
    {"redundant": REDUNDANT, "optimal": OPTIMAL},
    reductions,
    judge_reductions,
    bars=Bars(("increments", "instructions"), "times fewer", baseline=1.0),
)


# -- graph 3 --------------------------------------------------------------------------------------


def placements(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 graph 3: (5 * blocks) / (5 * increments + jumps) by placement."""
    blocks = INCREMENT * found["redundant"].counts["edge_increments"]
    names = ("edge", "edge_heuristic", "vertex", "mixed")
    yield (program.name, *(ratio(blocks, instrumentation(found[name])) for name in names))


def judge_placements(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.1's claims about graph 3."""
    both = pairs(table, "edge", "vertex")
    better, count = share_of(one >= two for _, one, two in both)
    yield judge(
        "Eprof(Ecnt) is superior to Vprof(Vcnt) for all programs.",
        better == count if both else None,
        f"in {better} of {count}",
        lambda: (
            "counters in blocks need no jump; where they win (edge, vertex): "
            + "; ".join(
                f"{name} {number(one)}, {number(two)}" for name, one, two in both if one < two
            )
        ),
    )
    gains = [two / one - 1 for _, one, two in pairs(table, "edge", "edge_heuristic") if one]
    yield judge(
        "The heuristic for Vprof(Ecnt) yields almost no improvement over Eprof(Ecnt).",
        fmean(gains) <= 0.05 if gains else None,
        f"mean {number(100 * fmean(gains)) if gains else '-'} % "
        f"({extremes((100 * gain for gain in gains), ' %')}); rule: at most 5 %",
        lambda: "most: " + top(table, "edge_heuristic", ("edge",)),
    )


GRAPH3 = TableSpec(
    "bl94-graph3",
    "BL94 graph 3: placements of counters",
    f"{PAPER}, graph 3",
    "Reduction of instrumentation against a counter in every block, (5 blocks)/(5 increments + "
    "jumps), with the same heuristic weights. Greater is better. Eprof(Mcnt), counters on edges "
    "and in blocks, is what section 3 names and leaves aside.",
    (
        PROGRAM,
        Column("edge", "Eprof(Ecnt)", Form.RATIO),
        Column("edge_heuristic", "Vprof(Ecnt)", Form.RATIO),
        Column("vertex", "Vprof(Vcnt)", Form.RATIO),
        Column("mixed", "Eprof(Mcnt)", Form.RATIO),
    ),
    {
        "redundant": REDUNDANT,
        "edge": EDGE,
        "edge_heuristic": EDGE_HEURISTIC,
        "vertex": VERTEX,
        "mixed": MIXED,
    },
    placements,
    judge_placements,
    bars=Bars(("edge", "edge_heuristic", "vertex", "mixed"), "times fewer", baseline=1.0),
)


# -- graphs 4 and 5 -------------------------------------------------------------------------------


def trees(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 graph 4: redundant increments by those of each spanning tree."""
    costs = found["optimal"].trees
    redundant = costs["redundant"].increments
    yield (
        program.name,
        *(ratio(redundant, costs[name].increments) for name in TREES if name != "redundant"),
    )


def judge_trees(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.4's claims about graph 4."""
    both = pairs(table, "heuristic-max", "heuristic-min")
    better, count = share_of(one > two for _, one, two in both)
    yield judge(
        "Heuristic-Max always produces a greater reduction than Heuristic-Min.",
        better == count if both else None,
        f"in {better} of {count} programs",
        lambda: (
            "elsewhere: "
            + "; ".join(
                f"{name} {number(one)} and {number(two)}" for name, one, two in both if one <= two
            )
        ),
    )
    lost = [100 * (1 - two / one) for _, one, two in pairs(table, "exact-max", "heuristic-max")]
    yield judge(
        "Heuristic weights reduce increments usually little less than exact ones (1-34 %).",
        median(lost) <= 34 if lost else None,
        f"median {number(median(lost)) if lost else '-'} % less ({extremes(lost, ' %')}); rule: "
        "median at most 34 %",
        lambda: (
            "branches are biased, and the heuristic takes both ways as equally likely; most "
            "to gain: " + top(table, "exact-max", ("heuristic-max",))
        ),
    )
    spread = pairs(table, "exact-max", "exact-min")
    factors = [one / two for _, one, two in spread if two]
    yield judge(
        "The reduction varies greatly with the spanning tree: Exact-Min is the worst, Exact-Max "
        "the best.",
        _is_ordered(table) and median(factors) >= 1.5 if factors else None,
        f"Exact-Max is {extremes(factors)} times Exact-Min, and all others lie between; rule: "
        "median at least 1.5",
        lambda: (
            "programs whose time goes into straight loops leave no choice: "
            + top(table, "exact-min", ("exact-max",))
        ),
    )


def _is_ordered(table: ReportTable) -> bool:
    close = 1e-9
    return all(
        low <= value + close and value <= high + close
        for key in ("heuristic-max", "heuristic-min")
        for (_, high, value), (_, low, _) in zip(
            pairs(table, "exact-max", key), pairs(table, "exact-min", key), strict=True
        )
    )


GRAPH4 = TableSpec(
    "bl94-graph4",
    "BL94 graph 4: heuristic and exact weights, greatest and least spanning trees",
    f"{PAPER}, graph 4",
    "Increments of a counter in every block by those on the chords of the spanning tree. Exact "
    "weights are the edge counts of the same run. Post-order: Goldberg's weights (7.1.4, without "
    "numbers).",
    (
        PROGRAM,
        Column("heuristic-max", "Heuristic-Max", Form.RATIO),
        Column("heuristic-min", "Heuristic-Min", Form.RATIO),
        Column("exact-max", "Exact-Max", Form.RATIO),
        Column("exact-min", "Exact-Min", Form.RATIO),
        Column("postorder-max", "Post-order-Max", Form.RATIO),
    ),
    {"optimal": OPTIMAL},
    trees,
    judge_trees,
    bars=Bars(
        ("heuristic-max", "heuristic-min", "exact-max", "exact-min"), "times fewer", baseline=1.0
    ),
)


def weightings(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 graph 5."""
    yield program.name, normalised(found["heuristic"]), normalised(found["exact"])


def judge_weightings(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.4's claims about graph 5."""
    both = pairs(table, "heuristic", "exact")
    below, count = share_of(two <= one for _, one, two in both)
    yield judge(
        "With exact weights programs run as fast or faster, but one (fpppp).",
        below >= count - 1 if both else None,
        f"in {below} of {count} programs; rule: all but one",
        lambda: (
            "weights rank increments, not the jumps that code on an edge may need: "
            + "; ".join(f"{name} {number(a)} to {number(b)}" for name, a, b in both if b > a)
        ),
    )
    yield untestable(
        "Exceptions are due to cache behaviour.",
        "instructions are counted: there are no caches in the model",
    )


GRAPH5 = TableSpec(
    "bl94-graph5",
    "BL94 graph 5: normalised times with heuristic and exact weights",
    f"{PAPER}, graph 5",
    "Instructions of the profiled run by those of the run without profiling; counters on the "
    "chords of a greatest spanning tree.",
    (
        PROGRAM,
        Column("heuristic", "heuristic", Form.RATIO),
        Column("exact", "exact", Form.RATIO),
    ),
    {"heuristic": OPTIMAL, "exact": EXACT},
    weightings,
    judge_weightings,
    bars=Bars(("heuristic", "exact"), "times the base instructions", baseline=1.0),
)

TABLES = (GRAPH1, GRAPH2, GRAPH3, GRAPH4, GRAPH5)
