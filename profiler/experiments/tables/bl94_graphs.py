"""BL94 graphs 1 to 5 (Ball and Larus, "Optimally Profiling and Tracing Programs", 1994, 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median

from simprof.profiler.experiments.cells.cells import TREES, CellResult
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.bl94 import FOLDED, PAPER
from simprof.profiler.experiments.tables.claims import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    Member,
    beside,
    count_of,
    differs,
    extremes,
    judge,
    mean_is,
    member,
    most,
    ordered,
    pairs,
    programs,
    untestable,
    value,
    value_is,
)
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

REDUNDANT = CellNeed(setting("qpt", blocks=FOLDED))
VERTEX = CellNeed(setting("qpt", blocks=FOLDED, placement="vertex-optimal"))
EDGE_HEURISTIC = CellNeed(setting("qpt", blocks=FOLDED, placement="edge-heuristic"))
EDGE = CellNeed(setting("qpt", blocks=FOLDED, placement="edge"))
MIXED = CellNeed(setting("qpt", blocks=FOLDED, placement="mixed"))
OPTIMAL = CellNeed(setting("qpt2", blocks=FOLDED))
EXACT = CellNeed(setting("qpt2", blocks=FOLDED, weights="exact"))

INCREMENT = 5
"""Instructions of a counter increment, one for a jump: what graphs 2 and 3 assume."""

PROGRAM = TableColumn("program", "program")


def normalised(result: CellResult) -> float | None:
    """Return the instrumented run's instructions by the uninstrumented run's."""
    return ratio(result.base + result.added, result.base)


def instrumentation(result: CellResult) -> int:
    """Return 5 * increments + jumps (BL94 graph 2)."""
    return INCREMENT * result.counts["edge_increments"] + result.counts["jumps"]


# -- graph 1 --------------------------------------------------------------------------------------


def profiling(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 graph 1."""
    yield program.name, normalised(found["redundant"]), normalised(found["optimal"])


def judge_profiling(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.1's claims about graph 1."""
    both = [row for row in pairs(table, "redundant", "optimal") if row[1] > 1]
    left = [(name, (two - 1) / (one - 1)) for name, one, two in both]
    before = extremes((100 * (one - 1) for _, one, _ in both), " %")
    after = extremes((100 * (two - 1) for _, _, two in both), " %")
    lower = ordered(
        ((name, two, one) for name, one, two in both), AT_MOST, ("optimal", "redundant")
    )
    yield judge(
        "Optimal profiling reduces overhead dramatically, from 10-225 % to 5-91 %.",
        value_is(
            "mean of optimal by redundant overhead",
            fmean(part for _, part in left) if left else None,
            AT_MOST,
            0.75,
            remark=f"overheads of {before} become {after}",
            parts=[member(name, part, AT_MOST, 0.75) for name, part in left],
        ),
        count_of(lower, "programs have no more overhead", len(lower)),
    )
    yield untestable(
        "Pixie, with 6 instructions a block, lies between the two.",
        "pixie rewrites MIPS programs; it is no scheme of simprof",
    )


GRAPH1 = TableSpec(
    "bl94-graph1",
    "BL94 graph 1: normalised times of profiling",
    f"{PAPER}, graph 1",
    "Instructions of the profiled run by those of the run without profiling: a counter in every "
    "block (redundant), on the chords of a spanning tree (optimal).",
    (
        PROGRAM,
        TableColumn("redundant", "redundant", Form.RATIO),
        TableColumn("optimal", "optimal", Form.RATIO),
    ),
    {"redundant": REDUNDANT, "optimal": OPTIMAL},
    profiling,
    judge_profiling,
    bars=Bars(("redundant", "optimal"), "times the base instructions", baseline=1.0),
)


# -- graph 2 --------------------------------------------------------------------------------------


def reductions(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
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
    below = ordered(
        pairs(table, "instructions", "increments"), AT_MOST, ("instructions", "increments")
    )
    yield judge(
        "The reduction in instructions is in general less than in increments, for edges may need "
        "jumps.",
        count_of(below, "programs reduce instructions no more than increments", most(len(below))),
    )
    means = {key: f"mean reduction of {key} (INT)" for key in ("increments", "instructions")}
    yield judge(
        "For the four C programs increments are reduced by a factor of 3-4, instructions by 2-3.",
        *(
            mean_is(table, key, AT_LEAST, bound, what=means[key], group="INT", others=("block",))
            for key, bound in (("increments", 2), ("instructions", 1.5))
        ),
    )
    yield _judge_greatest(table)


def _judge_greatest(table: ReportTable) -> Claim:
    rows = sorted(pairs(table, "redundant", "increments"), key=lambda row: row[1])
    half = len(rows) // 2
    less, more = rows[:half], rows[len(rows) - half :]
    low = median(row[2] for row in less) if half else None
    high = median(row[2] for row in more) if half else None
    parts = [
        member(name, reduction, relation, bound, more=f"in the half with {which}")
        for part, which, relation, bound in (
            (more, "more", AT_LEAST, low),
            (less, "less", AT_MOST, high),
        )
        for name, _, reduction in part
        if bound is not None
    ]
    return judge(
        "The greatest improvements are in programs whose profiling overhead is largest.",
        differs(
            ("median reduction of increments in the half with more overhead", high),
            AT_LEAST,
            ("that in the half with less", low),
            parts=parts,
        ),
        absent="the table has results of fewer than two programs",
    )


GRAPH2 = TableSpec(
    "bl94-graph2",
    "BL94 graph 2: reduction of increments and of instrumentation",
    f"{PAPER}, graph 2",
    "Redundant by optimal: counter increments; instructions at 5 an increment and 1 a jump, as "
    "the paper counts. Inst/block: instructions of a dynamic block.",
    (
        PROGRAM,
        TableColumn("block", "inst/block", Form.DECIMAL),
        TableColumn("increments", "increments", Form.RATIO),
        TableColumn("instructions", "instructions", Form.RATIO),
        TableColumn("redundant", "redundant time", Form.RATIO),
    ),
    {"redundant": REDUNDANT, "optimal": OPTIMAL},
    reductions,
    judge_reductions,
    bars=Bars(("increments", "instructions"), "times fewer", baseline=1.0),
)


# -- graph 3 --------------------------------------------------------------------------------------


def placements(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 graph 3: (5 * blocks) / (5 * increments + jumps) by placement."""
    blocks = INCREMENT * found["redundant"].counts["edge_increments"]
    names = ("edge", "edge_heuristic", "vertex", "mixed")
    yield (program.name, *(ratio(blocks, instrumentation(found[name])) for name in names))


def judge_placements(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.1's claims about graph 3."""
    better = ordered(pairs(table, "edge", "vertex"), AT_LEAST, ("Eprof(Ecnt)", "Vprof(Vcnt)"))
    yield judge(
        "Eprof(Ecnt) is superior to Vprof(Vcnt) for all programs.",
        count_of(better, "programs", len(better)),
    )
    gains = [
        (name, 100 * (two - one) / one)
        for name, one, two in pairs(table, "edge", "edge_heuristic")
        if one
    ]
    yield judge(
        "The heuristic for Vprof(Ecnt) yields almost no improvement over Eprof(Ecnt).",
        value_is(
            "mean improvement",
            fmean(gain for _, gain in gains) if gains else None,
            AT_MOST,
            5,
            " %",
            remark=extremes((gain for _, gain in gains), " %"),
            parts=[member(name, gain, AT_MOST, 5, " %") for name, gain in gains],
        ),
    )
    yield _judge_mixed(table)


def _judge_mixed(table: ReportTable) -> Claim:
    """Judge what section 3 says of mixed placements."""
    both = [row for row in pairs(table, "edge", "mixed") if row[1]]
    gains = [(name, 100 * (mixed - edge) / edge) for name, edge, mixed in both]
    return judge(
        "Mixed placements provide little benefit over edge placements (Samples, section 3).",
        value_is(
            "mean improvement",
            fmean(gain for _, gain in gains) if gains else None,
            AT_MOST,
            5,
            " %",
            remark=extremes((gain for _, gain in gains), " %"),
            parts=[member(name, gain, AT_MOST, 5, " %") for name, gain in gains],
        ),
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
        TableColumn("edge", "Eprof(Ecnt)", Form.RATIO),
        TableColumn("edge_heuristic", "Vprof(Ecnt)", Form.RATIO),
        TableColumn("vertex", "Vprof(Vcnt)", Form.RATIO),
        TableColumn("mixed", "Eprof(Mcnt)", Form.RATIO),
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


def trees(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 graph 4: redundant increments by those of each spanning tree."""
    costs = found["optimal"].trees
    redundant = costs["redundant"].increments
    yield (
        program.name,
        *(ratio(redundant, costs[name].increments) for name in TREES if name != "redundant"),
    )


def judge_trees(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.4's claims about graph 4."""
    better = ordered(
        pairs(table, "heuristic-max", "heuristic-min"), ABOVE, ("Heuristic-Max", "Heuristic-Min")
    )
    yield judge(
        "Heuristic-Max always produces a greater reduction than Heuristic-Min.",
        count_of(better, "programs", len(better)),
    )
    lost = [
        (name, 100 * (1 - two / one))
        for name, one, two in pairs(table, "exact-max", "heuristic-max")
    ]
    yield judge(
        "Heuristic weights reduce increments usually little less than exact ones (1-34 %).",
        value_is(
            "median of what is reduced less",
            median(part for _, part in lost) if lost else None,
            AT_MOST,
            34,
            " %",
            remark=extremes((part for _, part in lost), " %"),
            parts=[member(name, part, AT_MOST, 34, " %") for name, part in lost],
        ),
    )
    factors = [
        (name, one / two) for name, one, two in pairs(table, "exact-max", "exact-min") if two
    ]
    between = _between(table)
    yield judge(
        "The reduction varies greatly with the spanning tree: Exact-Min is the worst, Exact-Max "
        "the best.",
        value_is(
            "median of Exact-Max by Exact-Min",
            median(factor for _, factor in factors) if factors else None,
            AT_LEAST,
            1.5,
            remark=extremes(factor for _, factor in factors),
            parts=[member(name, factor, AT_LEAST, 1.5) for name, factor in factors],
        ),
        count_of(between, "programs have all others between the two", len(between)),
    )
    dearer = ordered(
        pairs(table, "heuristic-max", "postorder-max"), ABOVE, ("Heuristic-Max", "Post-order-Max")
    )
    yield judge(
        "Goldberg's post-order weights will not always lead to the best placement (7.1.4).",
        count_of(dearer, "programs are reduced more by the heuristic", 1),
    )


def _between(table: ReportTable) -> list[Member]:
    """Return whether each program's heuristic trees lie between Exact-Min and Exact-Max."""
    made = []
    for row in programs(table):
        worst, best, *others = (
            value(table, row, key)
            for key in ("exact-min", "exact-max", "heuristic-max", "heuristic-min")
        )
        if worst is None or best is None:
            continue
        known = [each for each in others if each is not None]
        outside = max(max(known, default=best) - best, worst - min(known, default=worst))
        keys = ("exact-min", "heuristic-min", "heuristic-max", "exact-max")
        made.append(Member(str(row.values[0]), beside(table, row, keys), outside <= 0, outside))
    return made


GRAPH4 = TableSpec(
    "bl94-graph4",
    "BL94 graph 4: heuristic and exact weights, greatest and least spanning trees",
    f"{PAPER}, graph 4",
    "Increments of a counter in every block by those on the chords of the spanning tree. Exact "
    "weights are the edge counts of the same run. Post-order: Goldberg's weights (7.1.4, without "
    "numbers).",
    (
        PROGRAM,
        TableColumn("heuristic-max", "Heuristic-Max", Form.RATIO),
        TableColumn("heuristic-min", "Heuristic-Min", Form.RATIO),
        TableColumn("exact-max", "Exact-Max", Form.RATIO),
        TableColumn("exact-min", "Exact-Min", Form.RATIO),
        TableColumn("postorder-max", "Post-order-Max", Form.RATIO),
    ),
    {"optimal": OPTIMAL},
    trees,
    judge_trees,
    bars=Bars(
        ("heuristic-max", "heuristic-min", "exact-max", "exact-min"), "times fewer", baseline=1.0
    ),
)


def weightings(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 graph 5."""
    yield program.name, normalised(found["heuristic"]), normalised(found["exact"])


def judge_weightings(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.4's claims about graph 5."""
    below = ordered(pairs(table, "exact", "heuristic"), AT_MOST, ("exact", "heuristic"))
    yield judge(
        "With exact weights programs run as fast or faster, but one (fpppp).",
        count_of(below, "programs", max(1, len(below) - 1)),
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
        TableColumn("heuristic", "heuristic", Form.RATIO),
        TableColumn("exact", "exact", Form.RATIO),
    ),
    {"heuristic": OPTIMAL, "exact": EXACT},
    weightings,
    judge_weightings,
    bars=Bars(("heuristic", "exact"), "times the base instructions", baseline=1.0),
)

TABLES = (GRAPH1, GRAPH2, GRAPH3, GRAPH4, GRAPH5)
