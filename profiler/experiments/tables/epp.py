"""EPP tables 1 to 3 (Ball and Larus, "Efficient Path Profiling", 1996, section 6), and text.

Claims about path profiles that stand in papers' text and in no table of theirs are tables here:
`bittrace`, EPP section 2, the case against bit tracing; `definite`, how much of a path profile the
edge profile alone tells, which TPP's section 1 reports of Ball, Mataga and Sagiv.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from statistics import median

from simprof.profiler.experiments.cells.cells import (
    CellResult,
    CommonPaths,
    RoutineRow,
    common_paths,
)
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns, conditions
from simprof.profiler.experiments.tables.claims import of_hashing, rule, untestable
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
    Whose,
    above,
    at_least,
    at_most,
    below,
    number,
    papers,
)
from simprof.profiler.experiments.tables.spec import CellNeed, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import Bars, ReportTable, percentage, ratio
from simprof.profiler.plan.plan import CounterTable

PAPER = "T. Ball and J. R. Larus, Efficient Path Profiling, MICRO-29, 1996"
PP, QPT2, BITTRACE = (CellNeed(setting(mode)) for mode in ("pp", "qpt2", "bittrace"))
MERGED = CellNeed(setting("bittrace", merged=True))
TRAIN = CellNeed(setting("pp"), "train")


# -- table 1 --------------------------------------------------------------------------------------

CONSIDERABLE = 20.0  # Percent of hashed increments: EPP's tomcatv, fpppp and wave5 have more.
COMPARABLE = 1.5  # PP/QPT2 up to which overheads are called comparable
MANY = 10.0  # Percent of routines that are called many
# Instructions of a simple memory increment: load, add, store; and of a call with its delay slot,
# which the instructions inside the hashing routine leave out.
INCREMENT, CALL = 3, 2
_PP, _QPT2 = ResultOf("pp"), ResultOf("qpt2")
_CALLS = _PP.counts("hashed_increments")


def _cheaper(row: Found) -> float | None:
    """Return the share of the routines with an array to which PP adds less than QPT2."""
    edges = {each.address: each.added for each in row["qpt2"].routines}
    arrays = [each for each in row["pp"].routines if each.table is CounterTable.ARRAY]
    return percentage(sum(each.added < edges[each.address] for each in arrays), len(arrays))


def _considerable_hashing(table: ReportTable) -> Condition | None:
    mean = table.mean("pp")
    many = [
        conditions.member(name, cost, below(mean, " %"))
        for name, share, cost in claims.pairs(table, "hashed", "pp")
        if share >= CONSIDERABLE and mean is not None
    ]
    what = (
        f"programs with at least {number(CONSIDERABLE)} % hashed are below the mean overhead of "
        f"{number(mean)} %"
    )
    return conditions.count_of(many, what, 1, whose=Whose.OURS)


EPP1 = TableSpec[Found](
    "epp1",
    "EPP table 1: path profiling (PP) against edge profiling (QPT2)",
    f"{PAPER}, table 1",
    "Base: instructions of the uninstrumented run. Overheads in percent of them. Path inc: "
    "increments of path counters, of self-loops' counters too. Edge inc: QPT2's increments by "
    "PP's. Hashed: share of path increments that are hashed. Inst/inc: base instructions by path "
    "increments. Hash cost: instructions of a call of the hashing routine by the three of a simple "
    "memory increment (load, add, store). PP cheaper: of the executed routines with an array the "
    "share to which PP adds less than QPT2.",
    {"pp": PP, "qpt2": QPT2},
    (
        PROGRAM,
        columns.total("base", "base", _PP.base),
        columns.of_overhead("pp", "PP %", executed=True),
        columns.of_overhead("qpt2", "QPT2 %", executed=True),
        columns.factor("pp_qpt2", "PP/QPT2", _PP.overhead / _QPT2.overhead),
        columns.total("path_increments", "path inc", _PP.increments),
        columns.factor(
            "edge_ratio", "edge inc/path inc", _QPT2.counts("edge_increments") / _PP.increments
        ),
        columns.percent("hashed", "hashed %", _PP.hashed),
        columns.decimal("spacing", "inst/inc", _PP.base / _PP.increments),
        columns.decimal(
            "hash_cost",
            "hash cost",
            (_PP.counts("hashing") + CALL * _CALLS) / (INCREMENT * _CALLS),
            quotient=True,
        ),
        columns.percent("cheaper", "PP cheaper %", _cheaper),
    ),
    (
        rule(
            "PP's overhead averages 2.8 times QPT2's (0.7-14.5): less than 3 times on average.",
            claims.mean_is(
                "pp_qpt2", papers(below(3)), what="mean PP/QPT2", others=("pp", "qpt2", "hashed")
            ),
        ),
        claims.compare_groups(
            "PP's overhead is higher for integer programs (44.8 %) than for FP programs (19.8 %).",
            "pp",
            " %",
        ),
        rule(
            "Programs with little hashing have PP overhead comparable to QPT2's or lower.",
            claims.statistic_is(
                f"median PP/QPT2 of {{}} programs with less than {number(claims.LITTLE)} % hashed",
                median,
                claims.combined(
                    "hashed",
                    "pp_qpt2",
                    lambda share, factor: factor if share < claims.LITTLE else None,
                ),
                at_most(COMPARABLE),
            ),
        ),
        of_hashing(
            "Programs with considerable hashing can still have low overhead, where path "
            "increments are rare.",
            _considerable_hashing,
            absent=f"the table has no program that hashes {number(CONSIDERABLE)} % of its "
            "increments",
        ),
        rule(
            "Path profiling executes fewer increments than edge profiling (1.3 edge increments to "
            "a path increment).",
            claims.mean_is("edge_ratio", papers(above(1))),
        ),
        of_hashing(
            "A hash table is an order of magnitude more costly than a simple memory increment "
            "(EPP 5.3).",
            claims.mean_is("hash_cost", papers(at_least(10)), others=("hashed",)),
            absent="the table has no program with hash tables under PP",
        ),
        rule(
            "There are many procedures with arrays for which path profiling incurs less overhead "
            "than edge profiling (EPP 2).",
            claims.mean_is("cheaper", at_least(MANY, " %")),
        ),
        untestable(
            "Part of the overhead is interference in the caches.",
            "instructions are counted, not cycles: there are no caches in the model",
        ),
    ),
    notes=(
        "The paper's overheads are elapsed times on an UltraSPARC with caches; ours are "
        "instructions.",
        "The compress of spec-like hashes nearly all of its paths, SPEC's none: version 4.2 has "
        "input, table and output of bits in one routine of 144,205 paths (output is a macro, in it "
        "three times); 4.0, which SPEC's is, has a routine for each, all of 2,700 paths together "
        "(TPP table 4). The kernel of wcet has these routines, and hashes none.",
    ),
    bars=Bars(("pp", "qpt2"), "overhead, % of base instructions"),
    compared=("pp", "qpt2", "pp_qpt2", "edge_ratio", "hashed", "spacing"),
    originals="epp1",
)


# -- table 2 --------------------------------------------------------------------------------------


def _results_with(facts: str) -> Callable[[SuiteMember, Found], Iterable[CellResult]]:
    """Return what makes a row of PP's result, where its path facts have this part."""

    def rows(program: SuiteMember, found: Found) -> Iterable[CellResult]:
        result = found["pp"]
        return () if getattr(result.facts, facts, None) is None else (result,)

    return rows


def _facts(name: str) -> Quantity[CellResult]:
    return Quantity(attrgetter(f"facts.{name}"))


def _own(name: str) -> Quantity[CellResult]:
    """Return a fact of the program's own routines."""
    return Quantity(lambda result: getattr(result.own_facts or result.facts, name))


# Of own paths those that are predicted to their end
_OWN_CORRECT = Quantity[CellResult](lambda row: (made := _own("predicted")(row)) and made.correct)
# Paths of the routines executed, before truncation
_POTENTIAL = Quantity[CellResult](lambda row: sum(each.potential_paths for each in row.routines))
EXECUTED_SHARE = claims.combined(
    "paths", "potential", lambda paths, potential: 100 * paths / potential
)


def _shorter_predictions(table: ReportTable) -> Condition | None:
    edges = claims.pairs(table, "predicted_edges", "average_edges")
    code = claims.pairs(table, "predicted_instructions", "average_instructions")
    whole = {name: 100 * one / two for name, one, two in edges if two}
    shares = [
        (name, 100 * one / two, whole[name]) for name, one, two in code if name in whole and two
    ]
    return claims.differs(
        (
            "predicted instructions by measured ones",
            percentage(table.mean("predicted_instructions"), table.mean("average_instructions")),
        ),
        below,
        (
            "predicted edges by measured ones",
            percentage(table.mean("predicted_edges"), table.mean("average_edges")),
        ),
        " %",
        claims.ordered(shares, below, ("instructions", "edges"), " %"),
    )


EPP2 = TableSpec[CellResult](
    "epp2",
    "EPP table 2: characteristics of executed acyclic paths",
    f"{PAPER}, table 2",
    "Paths: different ones executed. Averages are weighted by execution frequency. Predicted "
    "paths follow the most frequent edges (of equal ones the branch not taken); their lengths are "
    "up to the first misprediction. Routines: those with an executed path. Potential: paths of "
    "the routines executed, before truncation. Own: of the program's own routines alone, without "
    "the libraries'.",
    {"pp": PP},
    (
        PROGRAM,
        columns.count("paths", "paths", _facts("paths")),
        columns.count("longest_edges", "longest: edges", _facts("longest_edges")),
        columns.count("longest_instructions", "longest: inst", _facts("longest_instructions")),
        columns.decimal("average_edges", "average: edges", _facts("average_edges")),
        columns.decimal("average_instructions", "average: inst", _facts("average_instructions")),
        # Of the paths, not of their executions, those that are predicted to their end.
        columns.percent(
            "correct", "correct %", 100 * _facts("predicted.correct") / _facts("paths")
        ),
        columns.count(
            "predicted_longest_edges", "pred. longest: edges", _facts("predicted.longest_edges")
        ),
        columns.count(
            "predicted_longest_instructions",
            "pred. longest: inst",
            _facts("predicted.longest_instructions"),
        ),
        columns.decimal(
            "predicted_edges",
            "pred. average: edges",
            _facts("predicted.edges") / _facts("executions"),
        ),
        columns.decimal(
            "predicted_instructions",
            "pred. average: inst",
            _facts("predicted.instructions") / _facts("executions"),
        ),
        columns.count("routines", "routines", _facts("routines")),
        columns.count("most_paths", "most paths", _facts("most_paths")),
        columns.decimal("average_paths", "paths/routine", _facts("paths") / _facts("routines")),
        columns.total("potential", "potential", _POTENTIAL),
        columns.count("own_paths", "own: paths", _own("paths")),
        columns.decimal("own_instructions", "own: average inst", _own("average_instructions")),
        columns.percent("own_correct", "own: correct %", 100 * _OWN_CORRECT / _own("paths")),
        columns.count("own_routines", "own: routines", _own("routines")),
    ),
    (
        rule(
            "Few paths are executed, and they are dwarfed by the potential paths.",
            claims.statistic_is(
                "executed paths by the potential ones of the routines executed: median",
                median,
                EXECUTED_SHARE,
                below(1, " %"),
                remark=lambda values: conditions.extremes(values, " %", 1),
            ),
            claims.statistic_is(
                "highest", max, EXECUTED_SHARE, below(50, " %"), remark=lambda values: ""
            ),
        ),
        claims.compare_groups(
            "Paths of FP programs are longer (91.7 instructions by the text, 142.1 by the table) "
            "than those of integer programs (21.4).",
            "average_instructions",
            " instructions",
            higher="FP",
        ),
        rule(
            "Edge profiles predict a minority of paths completely: 37.9 % on average (4.3-57.1 %).",
            claims.mean_is("correct", papers(below(50, " %")), others=("average_paths",)),
        ),
        rule(
            "Predicted paths are nearly as long as measured ones in edges (5.1 of 6.9), but hold "
            "significantly fewer instructions (33.6 of 88.4).",
            claims.means_give(
                "predicted edges by measured ones",
                percentage,
                "predicted_edges",
                "average_edges",
                at_least(60, " %"),
                more=None,
            ),
            _shorter_predictions,
        ),
        rule(
            "Routines execute few paths: 7.7 on average (2.6-60.0).",
            claims.mean_is("average_paths", at_most(20), others=("paths", "routines")),
        ),
    ),
    notes=(
        "The paper's totals are of the whole binary: tomcatv, which is one routine, executes paths "
        "of 146. So are ours.",
        "The paper does not say what its predicted instructions are: mgrid predicts 2.1 of 2.3 "
        "edges, and 15.8 of 133.5 instructions.",
    ),
    bars=Bars(("correct",), "paths predicted completely by edges, %"),
    compared=tuple(
        "paths average_edges average_instructions correct routines average_paths".split()
    ),
    originals="epp2",
    rows=_results_with("predicted"),
)


# -- table 3 --------------------------------------------------------------------------------------

EPP3 = TableSpec[CommonPaths](
    "epp3",
    "EPP table 3: paths that ref and train have in common",
    f"{PAPER}, table 3",
    "Common: paths executed with both inputs. Static: share of the ref run's paths that the train "
    "run executes too; dynamic: the same, weighted by executions. Common instructions: those that "
    "the ref run executes along common paths, and their share of all along paths.",
    {"ref": PP, "train": TRAIN},
    (
        PROGRAM,
        columns.count("common", "common paths", lambda row: row.common),
        columns.percent("static", "static %", lambda row: percentage(row.common, row.paths)),
        columns.percent(
            "dynamic", "dynamic %", lambda row: percentage(row.common_executions, row.executions)
        ),
        columns.total("instructions", "common instructions", lambda row: row.common_instructions),
        columns.percent(
            "instructions_share",
            "instructions %",
            lambda row: percentage(row.common_instructions, row.instructions),
        ),
    ),
    (
        rule(
            "For integer programs train finds 41.8-96.0 % of the paths of ref.",
            claims.each_is(
                "static", papers(at_least(41.8, " %")), group="INT", others=("dynamic",)
            ),
        ),
        rule(
            "The common paths are the important ones: 71.9-100 % of path executions.",
            claims.each_is("dynamic", papers(at_least(71.9, " %")), others=("static",)),
        ),
        rule(
            "For FP programs train finds at least 87.5 % of the paths of ref.",
            claims.each_is("static", papers(at_least(87.5, " %")), group="FP", others=("dynamic",)),
        ),
        rule(
            "In FP programs the common paths account for 99 % and more of instructions, but in "
            "one.",
            claims.count_is(
                "FP programs at 99 % or more",
                claims.all_but_one,
                claims.column("instructions_share", "FP", ("static", "dynamic")),
                papers(at_least(99, " %")),
            ),
        ),
    ),
    notes=(
        "A program with one input only has everything in common with itself.",
        "The paper's own table has two FP programs below 99 % of instructions, apsi (74.3) and "
        "wave5 (96.9), where its text has one.",
    ),
    bars=Bars(("static", "dynamic"), "paths of ref found by train, %"),
    compared=("static", "dynamic", "instructions_share"),
    originals="epp3",
    rows=lambda program, found: (common_paths(found["ref"], found["train"]),),
)


# -- section 2: bit tracing -----------------------------------------------------------------------


def _both(row: Found) -> list[tuple[RoutineRow, RoutineRow]]:
    """Return the routines entered, each of which weighs the same, under PP and bit tracing."""
    rows = zip(row["pp"].routines, row["bittrace"].routines, strict=True)
    return [(a, b) for a, b in rows if a.num_paths]


def _sizes(row: Found) -> list[float | None]:
    """Return counters by path of an array of any size that codes index; None: no word can."""
    return [ratio(b.name_counters, a.name_counters) for a, b in _both(row)]


def _indexed(row: Found) -> list[float]:
    return [size for size in _sizes(row) if size is not None]


def _in_both(value: Callable[[RoutineRow, RoutineRow], int]) -> Quantity[Found]:
    return Quantity(lambda row: sum(value(*each) for each in _both(row)))


_ENTERED = _in_both(lambda pp, bits: 1)
_OVER_TWICE = Quantity[Found](lambda row: sum(each is None or each > 2 for each in _sizes(row)))


def _code(need: str, title: str, key: str) -> ColumnSpec[Found]:
    code, of_pp = (ResultOf(each).total("instrumented_edges") for each in (need, "pp"))
    return columns.factor(key, title, code / of_pp)


def _hashed_paths(need: str, title: str, key: str) -> ColumnSpec[Found]:
    result = ResultOf(need)
    hashed, paths = result.counts("hashed_increments"), result.counts("path_increments")
    return columns.percent(key, title, 100 * hashed / paths)


BIT_TRACING = TableSpec[Found](
    "bittrace",
    "EPP section 2: bit tracing's counters against path numbers",
    f"{PAPER}, section 2",
    "Routines: those entered. Bits: of a routine's greatest path number, and of its longest code, "
    "on average; same: routines where both are equal. Counters by path: those of an array that "
    "the codes index, median and greatest of the routines whose codes fit a word; over 2: "
    "routines with more than two a path, or whose codes fit none. Edges: edges with code, by "
    "those of PP. Hashed: share of path increments. Merged: initialisation and counts are merged "
    "with branches, as PP merges them with increments (3.4); codes and counters are the same.",
    {"pp": PP, "bittrace": BITTRACE, "merged": MERGED},
    (
        PROGRAM,
        columns.total("routines", "routines", _ENTERED),
        columns.decimal("pp_bits", "PP bits", _in_both(lambda pp, bits: pp.name_bits) / _ENTERED),
        columns.decimal("bits", "bits", _in_both(lambda pp, bits: bits.name_bits) / _ENTERED),
        columns.percent(
            "same_bits",
            "same %",
            100 * _in_both(lambda pp, bits: pp.name_bits == bits.name_bits) / _ENTERED,
        ),
        columns.factor(
            "median_counters",
            "counters/path",
            lambda row: median(_indexed(row)) if _indexed(row) else None,
        ),
        columns.factor(
            "most_counters", "greatest", lambda row: max(_indexed(row), default=None), average=False
        ),
        columns.percent("over_twice", "over 2 %", 100 * _OVER_TWICE / _ENTERED),
        _code("bittrace", "edges/PP", "edges"),
        _code("merged", "merged", "merged_edges"),
        _hashed_paths("pp", "PP hashed %", "pp_hashed"),
        _hashed_paths("bittrace", "hashed %", "hashed"),
        columns.of_overhead("pp", "PP %"),
        columns.of_overhead("bittrace", "bit tracing %"),
        columns.of_overhead("merged", "merged %"),
    ),
    (
        rule(
            "Bit tracing uses the minimal number of bits necessary to distinguish paths.",
            claims.each_is(
                "same_bits",
                papers(at_least(100, " %")),
                what="routines with as few bits as numbers have,",
                others=("pp_bits", "bits"),
            ),
        ),
        rule(
            "In the worst case an array takes twice the counters of path profiling.",
            claims.each_is(
                "most_counters",
                papers(at_most(2)),
                what="counters by path,",
                others=("over_twice",),
            ),
        ),
        *(
            rule(
                text,
                claims.count_ordered(
                    "programs where it has",
                    claims.most,
                    key,
                    above,
                    "pp",
                    (title, "path profiling"),
                    " %",
                ),
            )
            for key, title, text in (
                (
                    "bittrace",
                    "bit tracing",
                    "Bit tracing is likely to have higher run-time overhead: every predicate is "
                    "instrumented, and appending takes more than adding.",
                ),
                (
                    "merged",
                    "merged",
                    "... also where it merges as path profiling does (3.4).",
                ),
            )
        ),
    ),
    notes=("The paper measures no bit tracing: it gives the reasons, and a factor of two.",),
    bars=Bars(("pp", "bittrace", "merged"), "overhead, % of base instructions"),
    originals="epp1",
)


# -- TPP section 1: definite flow -----------------------------------------------------------------

NEAR = 10.0  # Percentage points within which shares of definite flow are called the paper's


def _flow(name: str) -> Quantity[CellResult]:
    return Quantity(attrgetter(f"facts.definite.{name}"))


# Turns of self-loops: paths of one block that edge counts tell; `definite` does not have them, for
# a self-loop is on no path (EPP 4.1).
_TURNS = Quantity[CellResult](lambda row: sum(each.self_loop_increments for each in row.routines))


DEFINITE = TableSpec[CellResult](
    "definite",
    "TPP section 1: definite flow of edge profiles",
    "R. Joshi, M. D. Bond and C. Zilles, Targeted Path Profiling, CGO 2004, section 1, which cites "
    "T. Ball, P. Mataga and M. Sagiv, Edge Profiling versus Path Profiling, POPL 1998",
    "Executions of whole paths, each turn of a self-loop a path of one block (as epp1, tpp-fig3 "
    "and tpp-lengths count them). Definite: what of these follows from the edge profile of the "
    "same run, whatever the paths were; by executions, and weighted by the lengths of paths in "
    "blocks; then both without the turns of self-loops, which are on no path of PP.",
    {"pp": PP},
    (
        PROGRAM,
        columns.total("executions", "executions", _flow("executions") + _TURNS),
        columns.total("turns", "turns of self-loops", _TURNS),
        columns.percent(
            "executions_share",
            "definite %",
            100 * (_flow("definite_executions") + _TURNS) / (_flow("executions") + _TURNS),
        ),
        columns.percent(
            "blocks",
            "definite % of blocks",
            100 * (_flow("definite_blocks") + _TURNS) / (_flow("blocks") + _TURNS),
        ),
        columns.percent(
            "paths_share",
            "without turns: definite %",
            100 * _flow("definite_executions") / _flow("executions"),
        ),
        columns.percent(
            "paths_blocks",
            "without turns: definite % of blocks",
            100 * _flow("definite_blocks") / _flow("blocks"),
        ),
    ),
    (
        rule(
            "An edge profile attributes some 80 % of the execution to paths.",
            claims.mean_is(
                "executions_share",
                Between(80 - NEAR, 80 + NEAR, " %"),
                others=("blocks", "paths_share", "paths_blocks"),
            ),
        ),
        claims.compare_groups(
            "It attributes more in FP programs (84 %) than in integer programs (76 %).",
            "executions_share",
            " %",
            higher="FP",
        ),
    ),
    notes=(
        "TPP gives averages only: 76 % for SPEC95 INT, 84 % for SPEC95 FP.",
        "It does not say how flow is weighted, nor whether turns of self-loops are among it; "
        "verdicts are by executions, with them.",
    ),
    bars=Bars(("executions_share", "blocks"), "paths that edges tell, %"),
    rows=_results_with("definite"),
    originals="epp1",
)

TABLES = (EPP1, EPP2, EPP3, BIT_TRACING, DEFINITE)
