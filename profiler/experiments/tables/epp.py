"""EPP tables 1 to 3 (Ball and Larus, "Efficient Path Profiling", 1996, section 6), and text.

Claims about path profiles that stand in papers' text and in no table of theirs are tables here:
`bittrace`, EPP section 2, the case against bit tracing; `definite`, how much of a path profile the
edge profile alone tells, which TPP's section 1 reports of Ball, Mataga and Sagiv.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median
from typing import NamedTuple

from simprof.profiler.experiments.cells.cells import (
    CellResult,
    CommonPaths,
    PathFacts,
    PredictedPaths,
    RoutineRow,
    common_paths,
)
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns, conditions
from simprof.profiler.experiments.tables.claims import of_hashing, rule, untestable
from simprof.profiler.experiments.tables.columns import PROGRAM, Found
from simprof.profiler.experiments.tables.conditions import (
    ABOVE,
    BELOW,
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
from simprof.profiler.profiles.accuracy import DefiniteFlow

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


def _hash_increments(row: Found) -> float | None:
    """Return what a call of the hashing routine costs, in simple memory increments."""
    counts = row["pp"].counts
    calls = counts["hashed_increments"]
    return ratio(counts["hashing"] + CALL * calls, INCREMENT * calls)


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
        columns.total("base", "base", lambda row: row["pp"].base),
        columns.of_overhead("pp", "PP %", executed=True),
        columns.of_overhead("qpt2", "QPT2 %", executed=True),
        columns.factor(
            "pp_qpt2",
            "PP/QPT2",
            lambda row: ratio(columns.overhead(row["pp"]), columns.overhead(row["qpt2"])),
        ),
        columns.total("path_increments", "path inc", lambda row: columns.increments(row["pp"])),
        columns.factor(
            "edge_ratio",
            "edge inc/path inc",
            lambda row: ratio(row["qpt2"].counts["edge_increments"], columns.increments(row["pp"])),
        ),
        columns.percent("hashed", "hashed %", lambda row: columns.hashed(row["pp"])),
        columns.decimal(
            "spacing", "inst/inc", lambda row: ratio(row["pp"].base, columns.increments(row["pp"]))
        ),
        columns.decimal("hash_cost", "hash cost", _hash_increments, quotient=True),
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


class _Characteristics(NamedTuple):
    facts: PathFacts
    predicted: PredictedPaths
    potential: int  # Paths of the routines executed, before truncation
    own: PathFacts  # Of the program's own routines


def _characteristics(program: SuiteMember, found: Found) -> Iterator[_Characteristics]:
    result = found["pp"]
    facts = result.facts
    if facts is not None and facts.predicted is not None:
        potential = sum(row.potential_paths for row in result.routines)
        yield _Characteristics(facts, facts.predicted, potential, result.own_facts or facts)


def _own_correct(row: _Characteristics) -> float | None:
    predicted = row.own.predicted
    return None if predicted is None else percentage(predicted.correct, row.own.paths)


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
        BELOW,
        (
            "predicted edges by measured ones",
            percentage(table.mean("predicted_edges"), table.mean("average_edges")),
        ),
        " %",
        claims.ordered(shares, BELOW, ("instructions", "edges"), " %"),
    )


EPP2 = TableSpec[_Characteristics](
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
        columns.count("paths", "paths", lambda row: row.facts.paths),
        columns.count("longest_edges", "longest: edges", lambda row: row.facts.longest_edges),
        columns.count(
            "longest_instructions", "longest: inst", lambda row: row.facts.longest_instructions
        ),
        columns.decimal("average_edges", "average: edges", lambda row: row.facts.average_edges),
        columns.decimal(
            "average_instructions", "average: inst", lambda row: row.facts.average_instructions
        ),
        # Of the paths, not of their executions, those that are predicted to their end.
        columns.percent(
            "correct", "correct %", lambda row: percentage(row.predicted.correct, row.facts.paths)
        ),
        columns.count(
            "predicted_longest_edges",
            "pred. longest: edges",
            lambda row: row.predicted.longest_edges,
        ),
        columns.count(
            "predicted_longest_instructions",
            "pred. longest: inst",
            lambda row: row.predicted.longest_instructions,
        ),
        columns.decimal(
            "predicted_edges",
            "pred. average: edges",
            lambda row: ratio(row.predicted.edges, row.facts.executions),
        ),
        columns.decimal(
            "predicted_instructions",
            "pred. average: inst",
            lambda row: ratio(row.predicted.instructions, row.facts.executions),
        ),
        columns.count("routines", "routines", lambda row: row.facts.routines),
        columns.count("most_paths", "most paths", lambda row: row.facts.most_paths),
        columns.decimal(
            "average_paths", "paths/routine", lambda row: ratio(row.facts.paths, row.facts.routines)
        ),
        columns.total("potential", "potential", lambda row: row.potential),
        columns.count("own_paths", "own: paths", lambda row: row.own.paths),
        columns.decimal(
            "own_instructions", "own: average inst", lambda row: row.own.average_instructions
        ),
        columns.percent("own_correct", "own: correct %", _own_correct),
        columns.count("own_routines", "own: routines", lambda row: row.own.routines),
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
    compared=(
        "paths",
        "average_edges",
        "average_instructions",
        "correct",
        "routines",
        "average_paths",
    ),
    originals="epp2",
    rows=_characteristics,
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


class _Naming(NamedTuple):
    """What names of paths cost under PP and under bit tracing."""

    pp: CellResult
    bits: CellResult
    merged: CellResult  # Bit tracing whose initialisation and counts are merged with branches
    both: list[tuple[RoutineRow, RoutineRow]]  # Routines entered, each weighs the same
    # Counters by path of an array of any size that the codes index; None: no word can index it.
    sizes: list[float | None]

    @property
    def indexed(self) -> list[float]:
        return [size for size in self.sizes if size is not None]


def _naming(program: SuiteMember, found: Found) -> Iterator[_Naming]:
    pp, bits = found["pp"], found["bittrace"]
    both = [(a, b) for a, b in zip(pp.routines, bits.routines, strict=True) if a.num_paths]
    merged = found["merged"]
    yield _Naming(
        pp, bits, merged, both, [ratio(b.name_counters, a.name_counters) for a, b in both]
    )


def _code(result: CellResult) -> int:
    return sum(row.instrumented_edges for row in result.routines)


def _hashed_paths(result: CellResult) -> float | None:
    return percentage(result.counts["hashed_increments"], result.counts["path_increments"])


BIT_TRACING = TableSpec[_Naming](
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
        columns.total("routines", "routines", lambda row: len(row.both)),
        columns.decimal(
            "pp_bits",
            "PP bits",
            lambda row: fmean(a.name_bits for a, _ in row.both) if row.both else None,
        ),
        columns.decimal(
            "bits",
            "bits",
            lambda row: fmean(b.name_bits for _, b in row.both) if row.both else None,
        ),
        columns.percent(
            "same_bits",
            "same %",
            lambda row: percentage(
                sum(b.name_bits == a.name_bits for a, b in row.both), len(row.both)
            ),
        ),
        columns.factor(
            "median_counters",
            "counters/path",
            lambda row: median(row.indexed) if row.indexed else None,
        ),
        columns.factor(
            "most_counters", "greatest", lambda row: max(row.indexed, default=None), average=False
        ),
        columns.percent(
            "over_twice",
            "over 2 %",
            lambda row: percentage(
                sum(size is None or size > 2 for size in row.sizes), len(row.sizes)
            ),
        ),
        columns.factor("edges", "edges/PP", lambda row: ratio(_code(row.bits), _code(row.pp))),
        columns.factor(
            "merged_edges", "merged", lambda row: ratio(_code(row.merged), _code(row.pp))
        ),
        columns.percent("pp_hashed", "PP hashed %", lambda row: _hashed_paths(row.pp)),
        columns.percent("hashed", "hashed %", lambda row: _hashed_paths(row.bits)),
        columns.percent("pp", "PP %", lambda row: columns.overhead(row.pp)),
        columns.percent("bittrace", "bit tracing %", lambda row: columns.overhead(row.bits)),
        columns.percent("merged", "merged %", lambda row: columns.overhead(row.merged)),
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
                    ABOVE,
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
    rows=_naming,
)


# -- TPP section 1: definite flow -----------------------------------------------------------------

NEAR = 10.0  # Percentage points within which shares of definite flow are called the paper's


class _Definite(NamedTuple):
    flow: DefiniteFlow
    # Turns of self-loops: paths of one block that edge counts tell; `flow` does not have them,
    # since a self-loop is on no path (EPP 4.1).
    turns: int


def _definite(program: SuiteMember, found: Found) -> Iterator[_Definite]:
    facts = found["pp"].facts
    if facts is not None and facts.definite is not None:
        turns = sum(row.self_loop_increments for row in found["pp"].routines)
        yield _Definite(facts.definite, turns)


DEFINITE = TableSpec[_Definite](
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
        columns.total("executions", "executions", lambda row: row.flow.executions + row.turns),
        columns.total("turns", "turns of self-loops", lambda row: row.turns),
        columns.percent(
            "executions_share",
            "definite %",
            lambda row: percentage(
                row.flow.definite_executions + row.turns, row.flow.executions + row.turns
            ),
        ),
        columns.percent(
            "blocks",
            "definite % of blocks",
            lambda row: percentage(
                row.flow.definite_blocks + row.turns, row.flow.blocks + row.turns
            ),
        ),
        columns.percent(
            "paths_share",
            "without turns: definite %",
            lambda row: percentage(row.flow.definite_executions, row.flow.executions),
        ),
        columns.percent(
            "paths_blocks",
            "without turns: definite % of blocks",
            lambda row: percentage(row.flow.definite_blocks, row.flow.blocks),
        ),
    ),
    (
        rule(
            "An edge profile attributes some 80 % of the execution to paths.",
            claims.mean_within(
                "executions_share",
                80 - NEAR,
                80 + NEAR,
                " %",
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
    rows=_definite,
    originals="epp1",
)

TABLES = (EPP1, EPP2, EPP3, BIT_TRACING, DEFINITE)
