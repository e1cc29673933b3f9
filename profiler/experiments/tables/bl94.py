"""BL94's tables and graphs (Ball and Larus, "Optimally Profiling and Tracing Programs", 1994, 6).

Tables 1 to 3, graphs 1 to 5, and section 6.3, "Register scavenging", made a table: what free
registers save.
"""

from __future__ import annotations

from statistics import fmean, median

from simprof.profiler.experiments.cells.cells import CellKind, TreeCost
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns, conditions
from simprof.profiler.experiments.tables.claims import Requirement, rule
from simprof.profiler.experiments.tables.columns import (
    PROGRAM,
    ColumnSpec,
    Found,
    Quantity,
    ResultOf,
)
from simprof.profiler.experiments.tables.conditions import (
    Between,
    Condition,
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


def _instrumenting(result: ResultOf) -> Quantity[Found]:
    # Reading the file and recovering graphs is the same for both and counted in both.
    return result.seconds("recovery") + result.seconds("planning") + result.seconds("generation")


_REDUNDANT, _OPTIMAL = ResultOf("redundant"), ResultOf("optimal")

TABLE1 = TableSpec[Found](
    "bl94-table1",
    "BL94 table 1: time to instrument",
    f"{PAPER}, table 1",
    "Wall-clock seconds of this machine to recover the graphs of all routines, place counters and "
    "generate their code: in every block (redundant), on the chords of a spanning tree (optimal).",
    {"redundant": _folded("qpt", CellKind.PLAN), "optimal": _folded("qpt2", CellKind.PLAN)},
    (
        PROGRAM,
        columns.seconds("redundant", "redundant (s)", _instrumenting(_REDUNDANT)),
        columns.seconds("optimal", "optimal (s)", _instrumenting(_OPTIMAL)),
        columns.factor(
            "increase", "optimal/redundant", _instrumenting(_OPTIMAL) / _instrumenting(_REDUNDANT)
        ),
        columns.seconds("plan_redundant", "placing: redundant", _REDUNDANT.seconds("planning")),
        columns.seconds("plan_optimal", "optimal", _OPTIMAL.seconds("planning")),
        columns.seconds("code_redundant", "code: redundant", _REDUNDANT.seconds("generation")),
        columns.seconds("code_optimal", "optimal", _OPTIMAL.seconds("generation")),
    ),
    (
        rule(
            "Instrumenting for optimal profiling is slightly (22-38 %) slower than for redundant "
            "profiling.",
            claims.mean_is(
                "increase", papers(Between(1.22, 1.38)), others=("redundant", "optimal")
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


def _sums(name: str) -> tuple[Quantity[Found], Quantity[Found]]:
    """Return the sums of a figure over all routines of the file, and over the program's own."""
    plan = ResultOf("plan")
    return plan.total(name), plan.total(name, columns.own_routines)


_EDGES, _OWN_EDGES = _sums("placed_edges")
_PROFILED, _OWN_PROFILED = _sums("instrumented_edges")
_NO_JUMP, _OWN_NO_JUMP = _sums("no_jump_edges")

PAPERS_EDGES = papers(Between(39.0, 46.0, " %"))  # Those with counters in table 2


def _width(table: ReportTable) -> Condition | None:
    shares = table.values("profiled_share")
    width = max(shares) - min(shares) if shares else None
    bound = papers(at_most(PAPERS_EDGES.high - PAPERS_EDGES.low, " %"))
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
        columns.count("edges", "edges", _EDGES),
        columns.count("profiled", "profiled", _PROFILED),
        columns.percent("profiled_share", "% of edges", 100 * _PROFILED / _EDGES),
        columns.count("no_jump", "no jump", _NO_JUMP),
        columns.percent("no_jump_share", "% of profiled", 100 * _NO_JUMP / _PROFILED),
        columns.factor("density", "edges/block", _EDGES / _sums("placed_blocks")[0]),
        columns.percent("own_share", "own: % of edges", 100 * _OWN_PROFILED / _OWN_EDGES),
        columns.percent(
            "own_no_jump_share",
            "own: % of profiled without jump",
            100 * _OWN_NO_JUMP / _OWN_PROFILED,
        ),
    ),
    (
        rule(
            "The share of edges that are profiled is in the narrow range of 39-46 %.",
            claims.mean_is("profiled_share", PAPERS_EDGES, others=("density",)),
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


def _bytes(need: str, size: str = "trace_bits") -> Quantity[Found]:
    return ResultOf(need).of(lambda result: (result.sizes[size] + 7) // 8)


# AE's first way: the outcome of every conditional branch, a byte each: the tokens of `bits`
_OLD = ResultOf("bits").of(lambda result: result.counts.get("trace_tokens", 0))
_NEW, _BITS = _bytes("witness"), _bytes("bits")
_ADDRESSES = _bytes("witness_addresses", "address_bits")


def _times_faster(old: str, new: str) -> Quantity[Found]:
    return ResultOf(old).instructions / ResultOf(new).instructions


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
        columns.total("old", "old (bytes)", _OLD),
        columns.total("new", "new (bytes)", _NEW),
        columns.decimal("old_new", "old/new", _OLD / _NEW, quotient=True),
        columns.total("fewest", "fewest (bytes)", _bytes("witness", "minimal_trace_bits")),
        columns.total("bit", "bits (bytes)", _BITS),
        columns.decimal("new_bit", "new/bits", _NEW / _BITS, quotient=True),
        columns.total("addresses", "addresses (bytes)", _ADDRESSES),
        columns.factor("file_ratio", "file old/new", (_OLD + _ADDRESSES) / (_NEW + _ADDRESSES)),
        columns.of_overhead("bits", "bits %", key="bits_overhead"),
        columns.of_overhead("witness", "witness %", key="witness_overhead"),
        columns.of_overhead("bytes", "bytes %"),
        columns.of_overhead("witness_addresses", "witness + addresses %"),
        columns.of_overhead("bytes_addresses", "bytes + addresses %"),
        columns.factor(
            "run_ratio", "run old/new", _times_faster("bytes_addresses", "witness_addresses")
        ),
        columns.factor("run_old_new", "alone: run old/new", _times_faster("bytes", "witness")),
    ),
    (
        rule(
            "Witness placement makes traces smaller: 1.2 to 3.0 times.",
            claims.mean_is("old_new", papers(Between(1.2, 3)), others=("old", "new", "fewest")),
            claims.each_is("old_new", papers(at_least(1)), others=("old", "new", "fewest")),
        ),
        rule(
            "Bit tracing makes traces 3-7 times smaller than witnesses of a byte and more.",
            claims.mean_is("new_bit", papers(Between(3, 7)), others=("new", "bit")),
        ),
        rule(
            "Files with data addresses become 1.0 to 1.3 times smaller.",
            claims.mean_is(
                "file_ratio", papers(Between(1, 1.3)), others=("old", "new", "addresses")
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
            claims.mean_is(
                "run_ratio",
                papers(Between(0.9, 1.2)),
                others=("bytes_addresses", "witness_addresses"),
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
    lower = claims.ordered(both, at_most, ("optimal", "redundant"))
    return conditions.count_of(lower, "programs have no more overhead", len(lower))


def _counted(need: str) -> Quantity[Found]:
    return ResultOf(need).counts("edge_increments")


def _each(need: str, title: str) -> ColumnSpec[Found]:
    return columns.factor(f"{need}_each", title, ResultOf(need).added / _counted(need))


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
        _each("redundant", "inst/counter"),
        _each("saved", "saved"),
        _each("pixie", "pixie"),
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
                at_most,
                "pixie",
            ),
            claims.count_ordered(
                "programs run shorter than with every register saved",
                claims.every,
                "pixie",
                at_most,
                "saved",
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


def _reduction(need: str) -> Quantity[Found]:
    """Return (5 * blocks) / (5 * increments + jumps), as the caption of graph 2 has it."""
    instrumentation = INCREMENT * _counted(need) + ResultOf(need).counts("jumps")
    return INCREMENT * _counted("redundant") / instrumentation


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
        at_least,
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
        columns.decimal("block", "inst/block", ResultOf("redundant").base / _counted("redundant")),
        columns.factor("increments", "increments", _counted("redundant") / _counted("optimal")),
        columns.factor("instructions", "instructions", _reduction("optimal")),
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
                at_most,
                "increments",
            ),
        ),
        rule(
            "For the four C programs increments are reduced by a factor of 3-4, instructions by "
            "2-3.",
            *(
                claims.mean_is(
                    key,
                    papers(Between(low, high)),
                    what=f"mean reduction of {key} (INT)",
                    group="INT",
                    others=("block",),
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
        columns.factor("edge", "Eprof(Ecnt)", _reduction("edge")),
        columns.factor("edge_heuristic", "Vprof(Ecnt)", _reduction("edge_heuristic")),
        columns.factor("vertex", "Vprof(Vcnt)", _reduction("vertex")),
        columns.factor("mixed", "Eprof(Mcnt)", _reduction("mixed")),
    ),
    (
        rule(
            "Eprof(Ecnt) is superior to Vprof(Vcnt) for all programs.",
            claims.count_ordered("programs", claims.every, "edge", at_least, "vertex"),
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
            claims.count_ordered("programs", claims.every, "heuristic-max", above, "heuristic-min"),
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
                above,
                "postorder-max",
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
            claims.count_ordered("programs", claims.all_but_one, "exact", at_most, "heuristic"),
        ),
        rule(
            "Exceptions are due to cache behaviour: without caches, as here, there are none.",
            claims.count_ordered("programs", claims.every, "exact", at_most, "heuristic"),
        ),
    ),
    bars=Bars(("heuristic", "exact"), "times the base instructions", baseline=1.0),
)


# -- section 6.3 ----------------------------------------------------------------------------------


_SAVED, _SCAVENGED = ResultOf("saved"), ResultOf("scavenged")


def _less(result: ResultOf) -> Quantity[Found]:
    """Return by how many percent the added instructions are fewer."""
    return 100 * (_SAVED.added - result.added) / _SAVED.added


def _greatest_saving(table: ReportTable) -> Condition | None:
    parts = claims.column("less", others=("saved", "scavenged"))(table)
    return conditions.value_is(
        "greatest reduction",
        max(part.value for part in parts) if parts else None,
        papers(Between(6, 21, " %")),
        remark=conditions.extremes((part.value for part in parts), " %"),
        # many may have little effect: on the wrong side are only those with too much
        parts=claims.members(parts, papers(at_most(21, " %"))),
    )


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
        columns.percent("less", "scavenging: less overhead %", _less(_SCAVENGED)),
        columns.percent(
            "less_run",
            "less run %",
            100 * (_SAVED.instructions - _SCAVENGED.instructions) / _SAVED.instructions,
        ),
        columns.percent("less_live", "liveness: less overhead %", _less(ResultOf("live"))),
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
