"""BL94's tables and graphs (Ball and Larus, "Optimally Profiling and Tracing Programs", 1994, 6).

Tables 1 to 3, graphs 1 to 5, and section 6.3, "Register scavenging", made a table: what free
registers save.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, median

from simprof.profiler.experiments.cells.cells import CellKind, CellResult, TreeCost
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns, conditions
from simprof.profiler.experiments.tables.claims import Requirement, rule
from simprof.profiler.experiments.tables.columns import PROGRAM, ColumnSpec, Found
from simprof.profiler.experiments.tables.conditions import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    Condition,
    Whose,
    above,
    at_least,
    at_most,
    papers,
)
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars, ReportTable, percentage, ratio

PAPER = "T. Ball and J. R. Larus, Optimally Profiling and Tracing Programs, TOPLAS 16(4), 1994"


def _folded(mode: str, kind: CellKind = CellKind.RUN, **options: object) -> CellNeed:
    # The blocks of BL94: calls and delay slots end none (`schemes.qpt.options.BlockBasis`).
    return CellNeed(setting(mode, blocks="folded", **options), kind=kind)


REDUNDANT, OPTIMAL = _folded("qpt"), _folded("qpt2")


# -- table 1 --------------------------------------------------------------------------------------


def _instrumenting(row: Found, need: str) -> float:
    # Reading the file and recovering graphs is the same for both and counted in both.
    spent = row[need].timing
    return spent.recovery + spent.planning + spent.generation


TABLE1 = TableSpec[Found](
    "bl94-table1",
    "BL94 table 1: time to instrument",
    f"{PAPER}, table 1",
    "Wall-clock seconds of this machine to recover the graphs of all routines, place counters and "
    "generate their code: in every block (redundant), on the chords of a spanning tree (optimal).",
    {"redundant": _folded("qpt", CellKind.PLAN), "optimal": _folded("qpt2", CellKind.PLAN)},
    (
        PROGRAM,
        columns.seconds("redundant", "redundant (s)", lambda row: _instrumenting(row, "redundant")),
        columns.seconds("optimal", "optimal (s)", lambda row: _instrumenting(row, "optimal")),
        columns.factor(
            "increase",
            "optimal/redundant",
            lambda row: ratio(_instrumenting(row, "optimal"), _instrumenting(row, "redundant")),
        ),
        columns.seconds(
            "plan_redundant", "placing: redundant", lambda row: row["redundant"].timing.planning
        ),
        columns.seconds("plan_optimal", "optimal", lambda row: row["optimal"].timing.planning),
        columns.seconds(
            "code_redundant", "code: redundant", lambda row: row["redundant"].timing.generation
        ),
        columns.seconds("code_optimal", "optimal", lambda row: row["optimal"].timing.generation),
    ),
    (
        rule(
            "Instrumenting for optimal profiling is slightly (22-38 %) slower than for redundant "
            "profiling.",
            claims.mean_within(
                "increase", 1.22, 1.38, others=("redundant", "optimal"), whose=Whose.PAPER
            ),
        ),
    ),
    notes=(
        "These are times: they differ from run to run.",
        "Here generating code takes longer than placing counters, and optimal placement has less "
        "of it; what the paper's tool spent its time on is not said.",
    ),
    bars=Bars(("redundant", "optimal"), "seconds to instrument"),
    compared=("increase",),
)


# -- table 2 --------------------------------------------------------------------------------------


def _sum(name: str, *, own: bool = False) -> Callable[[Found], int]:
    """Return the sum of a figure over all routines of the file, or over the program's own."""
    return lambda row: sum(
        getattr(each, name) for each in columns.scope(row["plan"].routines, own=own)
    )


_edges, _blocks = _sum("placed_edges"), _sum("placed_blocks")
_profiled, _no_jump = _sum("instrumented_edges"), _sum("no_jump_edges")
_own_edges = _sum("placed_edges", own=True)
_own_profiled = _sum("instrumented_edges", own=True)
_own_no_jump = _sum("no_jump_edges", own=True)


PAPERS_EDGES = 39.0, 46.0  # Percent of edges with counters, the least and the greatest of table 2


def _width(table: ReportTable) -> Condition | None:
    shares = table.values("profiled_share")
    width = max(shares) - min(shares) if shares else None
    bound = papers(at_most(PAPERS_EDGES[1] - PAPERS_EDGES[0], " %"))
    return conditions.value_is("width of the range", width, bound, behind=len(shares))


TABLE2 = TableSpec[Found](
    "bl94-table2",
    "BL94 table 2: edges with counters",
    f"{PAPER}, table 2",
    "Edges of all routines, run or not; those with a counter; those of them whose code needs no "
    "unconditional jump.",
    {"plan": _folded("qpt2", CellKind.PLAN)},
    (
        PROGRAM,
        columns.count("edges", "edges", _edges),
        columns.count("profiled", "profiled", _profiled),
        columns.percent(
            "profiled_share", "% of edges", lambda row: percentage(_profiled(row), _edges(row))
        ),
        columns.count("no_jump", "no jump", _no_jump),
        columns.percent(
            "no_jump_share", "% of profiled", lambda row: percentage(_no_jump(row), _profiled(row))
        ),
        columns.factor("density", "edges/block", lambda row: ratio(_edges(row), _blocks(row))),
        columns.percent(
            "own_share",
            "own: % of edges",
            lambda row: percentage(_own_profiled(row), _own_edges(row)),
        ),
        columns.percent(
            "own_no_jump_share",
            "own: % of profiled without jump",
            lambda row: percentage(_own_no_jump(row), _own_profiled(row)),
        ),
    ),
    (
        rule(
            "The share of edges that are profiled is in the narrow range of 39-46 %.",
            claims.mean_within(
                "profiled_share", *PAPERS_EDGES, " %", others=("density",), whose=Whose.PAPER
            ),
            _width,
        ),
        rule(
            "Less than half of the profiled edges need an unconditional jump.",
            claims.count_is(
                "programs have more than 50 % of edges without a jump",
                claims.every,
                claims.column("no_jump_share", others=("profiled", "no_jump")),
                papers(above(50, " %")),
            ),
        ),
    ),
    notes=(
        "The paper's totals are of the whole binary: matrix300 and tomcatv, of a page of source "
        "each, have some 4,700 edges. Own: routines of the program itself.",
        "The paper's programs are MIPS code, which annuls no delay slot: here the slot of an "
        "annulled branch is taken for a part of its edge.",
    ),
    bars=Bars(("profiled_share", "no_jump_share"), "%"),
    compared=("profiled_share", "no_jump_share"),
)


# -- table 3 --------------------------------------------------------------------------------------


def _old(row: Found) -> int:
    # AE's first way: the outcome of every conditional branch, a byte each: the tokens of `bits`
    return row["bits"].counts.get("trace_tokens", 0)


def _bytes(row: Found, need: str, size: str = "trace_bits") -> int:
    return (row[need].sizes[size] + 7) // 8


def _addresses(row: Found) -> int:
    return _bytes(row, "witness_addresses", "address_bits")


def _times_faster(row: Found, old: str, new: str) -> float | None:
    return ratio(*(row[need].base + row[need].added for need in (old, new)))


TABLE3 = TableSpec[Found](
    "bl94-table3",
    "BL94 table 3: traces of every conditional (old) and of witnesses (new)",
    f"{PAPER}, table 3",
    "Bytes of trace. Old: the outcome of every predicate in a byte. New: witnesses. Fewest: "
    "witnesses of as few bits as their number allows. Bits: bit tracing. Addresses: those of "
    "data, a file of their own; file old/new: of both files. Overheads in percent of "
    "base instructions, writing the trace to memory: as bytes (mode bytes), as bits, witnesses; "
    "+ addresses: with those of data. "
    "Run old/new: instructions of the run that writes bytes by those of the one that writes "
    "witnesses, both with addresses, as the paper's; alone: without.",
    {
        **{name: CellNeed(setting(name)) for name in ("bits", "witness", "bytes")},
        "witness_addresses": CellNeed(setting("witness", addresses=True)),
        "bytes_addresses": CellNeed(setting("bytes", addresses=True)),
    },
    (
        PROGRAM,
        columns.total("old", "old (bytes)", _old),
        columns.total("new", "new (bytes)", lambda row: _bytes(row, "witness")),
        columns.decimal(
            "old_new",
            "old/new",
            lambda row: ratio(_old(row), _bytes(row, "witness")),
            quotient=True,
        ),
        columns.total(
            "fewest",
            "fewest (bytes)",
            lambda row: _bytes(row, "witness", "minimal_trace_bits"),
        ),
        columns.total("bit", "bits (bytes)", lambda row: _bytes(row, "bits")),
        columns.decimal(
            "new_bit",
            "new/bits",
            lambda row: ratio(_bytes(row, "witness"), _bytes(row, "bits")),
            quotient=True,
        ),
        columns.total("addresses", "addresses (bytes)", _addresses),
        columns.factor(
            "file_ratio",
            "file old/new",
            lambda row: ratio(
                _old(row) + _addresses(row), _bytes(row, "witness") + _addresses(row)
            ),
        ),
        columns.of_overhead("bits", "bits %", key="bits_overhead"),
        columns.of_overhead("witness", "witness %", key="witness_overhead"),
        columns.of_overhead("bytes", "bytes %"),
        columns.of_overhead("witness_addresses", "witness + addresses %"),
        columns.of_overhead("bytes_addresses", "bytes + addresses %"),
        columns.factor(
            "run_ratio",
            "run old/new",
            lambda row: _times_faster(row, "bytes_addresses", "witness_addresses"),
        ),
        columns.factor(
            "run_old_new", "alone: run old/new", lambda row: _times_faster(row, "bytes", "witness")
        ),
    ),
    (
        rule(
            "Witness placement makes traces smaller: 1.2 to 3.0 times.",
            claims.mean_within(
                "old_new", 1.2, 3, others=("old", "new", "fewest"), whose=Whose.PAPER
            ),
            claims.each_is("old_new", papers(at_least(1)), others=("old", "new", "fewest")),
        ),
        rule(
            "Bit tracing makes traces 3-7 times smaller than witnesses of a byte and more.",
            claims.mean_within("new_bit", 3, 7, others=("new", "bit"), whose=Whose.PAPER),
        ),
        rule(
            "Files with data addresses become 1.0 to 1.3 times smaller.",
            claims.mean_within(
                "file_ratio", 1, 1.3, others=("old", "new", "addresses"), whose=Whose.PAPER
            ),
            claims.count_is(
                "programs have smaller files",
                claims.most,
                claims.column("file_ratio", others=("old", "new", "addresses")),
                above(1),
            ),
        ),
        rule(
            "Recording witnesses runs up to 1.2 times faster than recording every conditional (0.9 "
            "to 1.2).",
            claims.mean_within(
                "run_ratio",
                0.9,
                1.2,
                others=("bytes_addresses", "witness_addresses"),
                whose=Whose.PAPER,
            ),
            claims.count_is(
                "programs run faster",
                claims.most,
                claims.column("run_ratio", others=("bytes_addresses", "witness_addresses")),
                above(1),
            ),
        ),
    ),
    notes=(
        "The paper's programs write files, too: what both ways have in common brings the quotient "
        "of their times nearer to 1.",
        "The paper does not say which addresses AE records. Here it is each that neither the code "
        "nor another one of the same execution of a block tells, as wide as a register.",
    ),
    bars=Bars(("old_new", "new_bit"), "times smaller", baseline=1.0),
    compared=("old_new", "file_ratio", "run_ratio"),
)


# -- graph 1 --------------------------------------------------------------------------------------


def _overheads(table: ReportTable) -> list[tuple[str, float, float]]:
    """Return the programs whose redundant profiling costs anything, with both normalised times."""
    return [row for row in claims.pairs(table, "redundant", "optimal") if row[1] > 1]


def _overhead_left(table: ReportTable) -> Condition | None:
    both = _overheads(table)
    left = [claims.ProgramNumber(name, (two - 1) / (one - 1)) for name, one, two in both]
    before = conditions.extremes((100 * (one - 1) for _, one, _ in both), " %")
    after = conditions.extremes((100 * (two - 1) for _, _, two in both), " %")
    return conditions.value_is(
        "mean of optimal by redundant overhead",
        fmean(part.value for part in left) if left else None,
        at_most(0.75),
        remark=f"overheads of {before} become {after}",
        parts=claims.members(left, at_most(0.75)),
    )


def _no_more_overhead(table: ReportTable) -> Condition | None:
    both = ((name, two, one) for name, one, two in _overheads(table))
    lower = claims.ordered(both, AT_MOST, ("optimal", "redundant"))
    return conditions.count_of(lower, "programs have no more overhead", len(lower))


def _each(result: CellResult) -> float | None:
    return ratio(result.added, _counted(result))


GRAPH1 = TableSpec[Found](
    "bl94-graph1",
    "BL94 graph 1: normalised times of profiling",
    f"{PAPER}, graph 1",
    "Instructions of the profiled run by those of the run without profiling: a counter in every "
    "block (redundant), on the chords of a spanning tree (optimal). Saved: redundant, and every "
    "counter saves and restores its two registers, as the paper's code of 11 instructions does. "
    "Pixie: a counter in every block, two registers taken from the program. Inst/counter: what "
    "these add by their increments.",
    {
        "redundant": REDUNDANT,
        "optimal": OPTIMAL,
        "saved": _folded("qpt", registers="saved"),
        "pixie": _folded("qpt", registers="stolen"),
    },
    (
        PROGRAM,
        columns.of_normalised("redundant", "redundant"),
        columns.of_normalised("optimal", "optimal"),
        columns.of_normalised("saved", "saved"),
        columns.of_normalised("pixie", "pixie"),
        columns.factor("redundant_each", "inst/counter", lambda row: _each(row["redundant"])),
        columns.factor("saved_each", "saved", lambda row: _each(row["saved"])),
        columns.factor("pixie_each", "pixie", lambda row: _each(row["pixie"])),
    ),
    (
        rule(
            "Optimal profiling reduces overhead dramatically, from 10-225 % to 5-91 %.",
            _overhead_left,
            _no_more_overhead,
        ),
        rule(
            "Pixie, with 6 instructions a block and not 11, lies between optimal profiling and "
            "redundant profiling that saves its registers.",
            claims.count_ordered(
                "programs run longer than under optimal profiling",
                claims.every,
                "optimal",
                AT_MOST,
                "pixie",
                ("optimal", "pixie"),
            ),
            claims.count_ordered(
                "programs run shorter than with every register saved",
                claims.every,
                "pixie",
                AT_MOST,
                "saved",
                ("pixie", "saved"),
            ),
        ),
    ),
    notes=(
        "The paper's redundant code saves what it uses: its 11 instructions are 8 here, and "
        "pixie's 6 are 4, with what the program's own uses of the registers take on top. Where "
        "registers are dead, redundant code takes 4, too.",
    ),
    bars=Bars(("redundant", "optimal"), "times the base instructions", baseline=1.0),
)


# -- graphs 2 and 3 -------------------------------------------------------------------------------

INCREMENT = 5  # Instructions of a counter increment, one for a jump: what graphs 2 and 3 assume


def _counted(result: CellResult) -> int:
    return result.counts["edge_increments"]


def _reduction(row: Found, need: str) -> float | None:
    """Return (5 * blocks) / (5 * increments + jumps), as the caption of graph 2 has it."""
    placed = row[need]
    instrumentation = INCREMENT * _counted(placed) + placed.counts["jumps"]
    return ratio(INCREMENT * _counted(row["redundant"]), instrumentation)


def _greatest(table: ReportTable) -> Condition | None:
    rows = sorted(claims.pairs(table, "redundant", "increments"), key=lambda row: row[1])
    size = len(rows) // 2
    if not size:
        return None
    less, more = rows[:size], rows[len(rows) - size :]
    low, high = (median(row[2] for row in part) for part in (less, more))
    parts = [
        *(
            conditions.member(name, x, at_least(low), more="in the half with more")
            for name, _, x in more
        ),
        *(
            conditions.member(name, x, at_most(high), more="in the half with less")
            for name, _, x in less
        ),
    ]
    return claims.differs(
        ("median reduction of increments in the half with more overhead", high),
        AT_LEAST,
        ("that in the half with less", low),
        parts=parts,
    )


GRAPH2 = TableSpec[Found](
    "bl94-graph2",
    "BL94 graph 2: reduction of increments and of instrumentation",
    f"{PAPER}, graph 2",
    "Redundant by optimal: counter increments; instructions at 5 an increment and 1 a jump, as "
    "the paper counts. Inst/block: instructions of a dynamic block.",
    {"redundant": REDUNDANT, "optimal": OPTIMAL},
    (
        PROGRAM,
        columns.decimal(
            "block",
            "inst/block",
            lambda row: ratio(row["redundant"].base, _counted(row["redundant"])),
        ),
        columns.factor(
            "increments",
            "increments",
            lambda row: ratio(_counted(row["redundant"]), _counted(row["optimal"])),
        ),
        columns.factor("instructions", "instructions", lambda row: _reduction(row, "optimal")),
        columns.of_normalised("redundant", "redundant time"),
    ),
    (
        rule(
            "The reduction in instructions is in general less than in increments, for edges may "
            "need jumps.",
            claims.count_ordered(
                "programs reduce instructions no more than increments",
                claims.most,
                "instructions",
                AT_MOST,
                "increments",
                ("instructions", "increments"),
            ),
        ),
        rule(
            "For the four C programs increments are reduced by a factor of 3-4, instructions by "
            "2-3.",
            *(
                claims.mean_within(
                    key,
                    low,
                    high,
                    what=f"mean reduction of {key} (INT)",
                    group="INT",
                    others=("block",),
                    whose=Whose.PAPER,
                )
                for key, low, high in (("increments", 3, 4), ("instructions", 2, 3))
            ),
        ),
        rule(
            "The greatest improvements are in programs whose profiling overhead is largest.",
            _greatest,
            absent="the table has results of fewer than two programs",
        ),
    ),
    bars=Bars(("increments", "instructions"), "times fewer", baseline=1.0),
)


def _placement(need: str, title: str) -> ColumnSpec[Found]:
    return columns.factor(need, title, lambda row: _reduction(row, need))


def _little_improvement(key: str) -> Requirement:
    return claims.statistic_is(
        "mean improvement",
        fmean,
        claims.combined("edge", key, lambda edge, other: percentage(other - edge, edge)),
        at_most(5, " %"),
    )


GRAPH3 = TableSpec[Found](
    "bl94-graph3",
    "BL94 graph 3: placements of counters",
    f"{PAPER}, graph 3",
    "Reduction of instrumentation against a counter in every block, (5 blocks)/(5 increments + "
    "jumps), with the same heuristic weights. Greater is better. Eprof(Mcnt), counters on edges "
    "and in blocks, is what section 3 names and leaves aside.",
    {
        "redundant": REDUNDANT,
        "edge": _folded("qpt", placement="edge"),
        "edge_heuristic": _folded("qpt", placement="edge-heuristic"),
        "vertex": _folded("qpt", placement="vertex-optimal"),
        "mixed": _folded("qpt", placement="mixed"),
    },
    (
        PROGRAM,
        _placement("edge", "Eprof(Ecnt)"),
        _placement("edge_heuristic", "Vprof(Ecnt)"),
        _placement("vertex", "Vprof(Vcnt)"),
        _placement("mixed", "Eprof(Mcnt)"),
    ),
    (
        rule(
            "Eprof(Ecnt) is superior to Vprof(Vcnt) for all programs.",
            claims.count_ordered(
                "programs", claims.every, "edge", AT_LEAST, "vertex", ("Eprof(Ecnt)", "Vprof(Vcnt)")
            ),
        ),
        rule(
            "The heuristic for Vprof(Ecnt) yields almost no improvement over Eprof(Ecnt).",
            _little_improvement("edge_heuristic"),
        ),
        rule(
            "Mixed placements provide little benefit over edge placements (Samples, section 3).",
            _little_improvement("mixed"),
        ),
    ),
    bars=Bars(("edge", "edge_heuristic", "vertex", "mixed"), "times fewer", baseline=1.0),
)


# -- graphs 4 and 5 -------------------------------------------------------------------------------


def _tree(name: str, title: str) -> ColumnSpec[dict[str, TreeCost]]:
    """Return the column of redundant increments by those of a spanning tree."""
    return columns.factor(
        name, title, lambda trees: ratio(trees["redundant"].increments, trees[name].increments)
    )


GRAPH4 = TableSpec[dict[str, TreeCost]](
    "bl94-graph4",
    "BL94 graph 4: heuristic and exact weights, greatest and least spanning trees",
    f"{PAPER}, graph 4",
    "Increments of a counter in every block by those on the chords of the spanning tree. Exact "
    "weights are the edge counts of the same run. Post-order: Goldberg's weights (7.1.4, without "
    "numbers).",
    {"optimal": OPTIMAL},
    (
        PROGRAM,
        _tree("heuristic-max", "Heuristic-Max"),
        _tree("heuristic-min", "Heuristic-Min"),
        _tree("exact-max", "Exact-Max"),
        _tree("exact-min", "Exact-Min"),
        _tree("postorder-max", "Post-order-Max"),
    ),
    (
        rule(
            "Heuristic-Max always produces a greater reduction than Heuristic-Min.",
            claims.count_ordered(
                "programs",
                claims.every,
                "heuristic-max",
                ABOVE,
                "heuristic-min",
                ("Heuristic-Max", "Heuristic-Min"),
            ),
        ),
        rule(
            "Heuristic weights reduce increments usually little less than exact ones (1-34 %).",
            claims.statistic_is(
                "median of what is reduced less",
                median,
                claims.combined(
                    "exact-max", "heuristic-max", lambda one, two: 100 * (1 - two / one)
                ),
                papers(at_most(34, " %")),
            ),
        ),
        rule(
            "The reduction varies greatly with the spanning tree.",
            claims.statistic_is(
                "median of Exact-Max by Exact-Min",
                median,
                claims.combined("exact-max", "exact-min", ratio),
                at_least(1.5),
            ),
        ),
        rule(
            "Goldberg's post-order weights will not always lead to the best placement (7.1.4).",
            claims.count_ordered(
                "programs are reduced more by the heuristic",
                claims.some,
                "heuristic-max",
                ABOVE,
                "postorder-max",
                ("Heuristic-Max", "Post-order-Max"),
            ),
        ),
    ),
    notes=(
        "That Exact-Min is the worst and Exact-Max the best of all (6.4) could not be otherwise: "
        "these are the greatest and the least trees by the very counts that are summed up.",
    ),
    bars=Bars(
        ("heuristic-max", "heuristic-min", "exact-max", "exact-min"), "times fewer", baseline=1.0
    ),
    rows=lambda program, found: (dict(found["optimal"].trees),),
)
GRAPH5 = TableSpec[Found](
    "bl94-graph5",
    "BL94 graph 5: normalised times with heuristic and exact weights",
    f"{PAPER}, graph 5",
    "Instructions of the profiled run by those of the run without profiling; counters on the "
    "chords of a greatest spanning tree.",
    {"heuristic": OPTIMAL, "exact": _folded("qpt2", weights="exact")},
    (
        PROGRAM,
        columns.of_normalised("heuristic", "heuristic"),
        columns.of_normalised("exact", "exact"),
    ),
    (
        rule(
            "With exact weights programs run as fast or faster, but one (fpppp).",
            claims.count_ordered(
                "programs",
                claims.all_but_one,
                "exact",
                AT_MOST,
                "heuristic",
                ("exact", "heuristic"),
            ),
        ),
        rule(
            "Exceptions are due to cache behaviour: without caches, as here, there are none.",
            claims.count_ordered(
                "programs",
                claims.every,
                "exact",
                AT_MOST,
                "heuristic",
                ("exact", "heuristic"),
            ),
        ),
    ),
    bars=Bars(("heuristic", "exact"), "times the base instructions", baseline=1.0),
)


# -- section 6.3 ----------------------------------------------------------------------------------


def _less(key: str, title: str, need: str) -> ColumnSpec[Found]:
    """Return the column of by how many percent the added instructions are fewer."""
    return columns.percent(
        key,
        title,
        lambda row: percentage(row["saved"].added - row[need].added, row["saved"].added),
    )


def _less_run(row: Found) -> float | None:
    before, after = (row[need].base + row[need].added for need in ("saved", "scavenged"))
    return percentage(before - after, before)


def _greatest_saving(table: ReportTable) -> Condition | None:
    parts = claims.column("less", others=("saved", "scavenged"))(table)
    made = conditions.within(
        "greatest reduction",
        max(part.value for part in parts) if parts else None,
        6,
        21,
        " %",
        remark=conditions.extremes((part.value for part in parts), " %"),
        whose=Whose.PAPER,
    )
    # many may have little effect: on the wrong side are only those with too much
    return made and replace(made, members=claims.members(parts, papers(at_most(21, " %"))))


REGISTERS = TableSpec[Found](
    "bl94-registers",
    "BL94 section 6.3: register scavenging",
    f"{PAPER}, section 6.3",
    "Overhead of counters on the chords of a spanning tree, in percent of base instructions: with "
    "every register saved and restored, with unused caller-saved registers free (scavenged), and "
    "with all that are dead at the counter free (liveness, as everywhere else here). Reductions "
    "are of the overhead and of the whole run, against the first.",
    {
        "saved": _folded("qpt2", registers="saved"),
        "scavenged": _folded("qpt2", registers="scavenged"),
        "live": OPTIMAL,
    },
    (
        PROGRAM,
        columns.of_overhead("saved", "saved %"),
        columns.of_overhead("scavenged", "scavenged %"),
        columns.of_overhead("live", "liveness %"),
        _less("less", "scavenging: less overhead %", "scavenged"),
        columns.percent("less_run", "less run %", _less_run),
        _less("less_live", "liveness: less overhead %", "live"),
    ),
    (
        rule(
            "Register scavenging has little effect on the overhead of many programs, and reduces "
            "that of others by a few percent or by 6-21 %.",
            _greatest_saving,
        ),
    ),
    notes=(
        "The paper prints no table: little effect for many programs, FORTRAN ones above all; a few "
        "percent less, and 6-21 % less, for others.",
        "A counter takes 4 instructions here and 8 where it saves two registers; on the paper's "
        "MIPS 5 and 11.",
    ),
    bars=Bars(("saved", "scavenged", "live"), "% of base instructions"),
)

TABLES = (TABLE1, TABLE2, TABLE3, GRAPH1, GRAPH2, GRAPH3, GRAPH4, GRAPH5, REGISTERS)
