"""EPP tables 1 to 3 (Ball and Larus, "Efficient Path Profiling", 1996, section 6), and text.

Claims about path profiles that stand in papers' text and in no table of theirs are tables here:
`bittrace`, EPP section 2, the case against bit tracing; `definite`, how much of a path profile the
edge profile alone tells, which TPP's section 1 reports of Ball, Mataga and Sagiv.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from simprof.profiler.experiments.cells.cells import CellDocument, RoutineFigures
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import of_hashing, rule, untestable
from simprof.profiler.experiments.tables.expressions import (
    PROGRAM,
    Found,
    column,
    columns,
    more_columns,
)
from simprof.profiler.experiments.tables.spec import CellNeed, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import Bars, percentage, ratio
from simprof.profiler.plan.plan import CounterTable

PAPER = "T. Ball and J. R. Larus, Efficient Path Profiling, MICRO-29, 1996"
PP, QPT2, BITTRACE = (CellNeed(setting(mode)) for mode in ("pp", "qpt2", "bittrace"))
MERGED = CellNeed(setting("bittrace", merged=True))
TRAIN = CellNeed(setting("pp"), "train")


# -- table 1 --------------------------------------------------------------------------------------


def _cheaper(row: Found) -> float | None:
    """Return the share of the routines with an array to which PP adds less than QPT2."""
    edges = {each.routine_address: each.added for each in row["qpt2"].routines}
    arrays = [each for each in row["pp"].routines if each.table == CounterTable.ARRAY]
    return percentage(sum(each.added < edges[each.routine_address] for each in arrays), len(arrays))


# A simple memory increment takes 3 instructions: load, add, store. A call takes 2, with its delay
# slot, which the instructions inside the hashing routine leave out.
EPP1 = TableSpec(
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
        *columns("""
base | base | count! | pp.base
pp | PP % | percent | pp.overhead | executed
qpt2 | QPT2 % | percent | qpt2.overhead | executed
pp_qpt2 | PP/QPT2 | ratio | pp.overhead / qpt2.overhead
path_increments | path inc | count! | pp.increments
edge_ratio | edge inc/path inc | ratio | qpt2.edge_increments / pp.increments
hashed | hashed % | percent | pp.hashed
spacing | inst/inc | decimal | pp.base / pp.increments
hash_cost | hash cost | quotient | \
(pp.hashing + 2 * pp.hashed_increments) / (3 * pp.hashed_increments)
"""),
        column("cheaper | PP cheaper % | percent", _cheaper),
    ),
    (
        rule(
            "PP's overhead averages 2.8 times QPT2's (0.7-14.5): less than 3 times on average.",
            "paper: mean(pp_qpt2) < 3",
        ),
        rule(
            "PP's overhead is higher for integer programs (44.8 %) than for FP programs (19.8 %).",
            "paper: INT(pp) > FP(pp) %",
        ),
        rule(
            "Programs with little hashing have PP overhead comparable to QPT2's or lower.",
            "ours: median(pp_qpt2, hashed < 2) <= 1.5",
        ),
        # 20 % of increments are "considerable": EPP's tomcatv, fpppp and wave5 have more.
        of_hashing(
            "Programs with considerable hashing can still have low overhead, where path "
            "increments are rare.",
            "ours: count(pp < mean(pp), hashed >= 20) >= 1",
        ),
        rule(
            "Path profiling executes fewer increments than edge profiling (1.3 edge increments to "
            "a path increment).",
            "paper: mean(edge_ratio) > 1",
        ),
        of_hashing(
            "A hash table is an order of magnitude more costly than a simple memory increment "
            "(EPP 5.3).",
            "paper: mean(hash_cost) >= 10",
        ),
        rule(
            "There are many procedures with arrays for which path profiling incurs less overhead "
            "than edge profiling (EPP 2).",
            "ours: mean(cheaper) >= 10 %",
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
    originals="epp1",
)


# -- table 2 --------------------------------------------------------------------------------------


def _results_with(facts: str) -> Callable[[SuiteMember, Found], Iterable[CellDocument]]:
    """Return what makes a row of PP's result, where it has this fact."""

    def rows(program: SuiteMember, found: Found) -> Iterable[CellDocument]:
        result = found["pp"]
        return (result,) if facts in result.part("facts") else ()

    return rows


EPP2 = TableSpec(
    "epp2",
    "EPP table 2: characteristics of executed acyclic paths",
    f"{PAPER}, table 2",
    "Paths: different ones executed. Averages are weighted by execution frequency. Predicted "
    "paths follow the most frequent edges (of equal ones the branch not taken); their lengths are "
    "up to the first misprediction. Routines: those with an executed path. Potential: paths of "
    "the routines executed, before truncation. Own: of the program's own routines alone, without "
    "the libraries'.",
    {"pp": PP},
    # Correct: of the paths, not of their executions, those that are predicted to their end.
    columns("""
paths | paths | count | facts.paths
longest_edges | longest: edges | count | facts.longest_edges
longest_instructions | longest: inst | count | facts.longest_instructions
average_edges | average: edges | decimal | facts.edges / facts.executions
average_instructions | average: inst | decimal | facts.instructions / facts.executions
correct | correct % | percent | 100 * facts.predicted_correct / facts.paths
predicted_longest_edges | pred. longest: edges | count | facts.predicted_longest_edges
predicted_longest_instructions | pred. longest: inst | count | facts.predicted_longest_instructions
predicted_edges | pred. average: edges | decimal | facts.predicted_edges / facts.executions
predicted_instructions | pred. average: inst | decimal | \
facts.predicted_instructions / facts.executions
routines | routines | count | facts.routines
most_paths | most paths | count | facts.most_paths
average_paths | paths/routine | decimal | facts.paths / facts.routines
potential | potential | count! | all.potential_paths
own_paths | own: paths | count | (own_facts or facts).paths
own_instructions | own: average inst | decimal | \
(own_facts or facts).instructions / (own_facts or facts).executions
own_correct | own: correct % | percent | \
100 * (own_facts or facts).predicted_correct / (own_facts or facts).paths
own_routines | own: routines | count | (own_facts or facts).routines
"""),
    (
        rule(
            "Few paths are executed, and they are dwarfed by the potential paths.",
            "ours: median(100 * paths / potential) < 1 %",
            "ours: max(100 * paths / potential) < 50 %",
        ),
        rule(
            "Paths of FP programs are longer (91.7 instructions by the text, 142.1 by the table) "
            "than those of integer programs (21.4).",
            "paper: FP(average_instructions) > INT(average_instructions) instructions",
        ),
        rule(
            "Edge profiles predict a minority of paths completely: 37.9 % on average (4.3-57.1 %).",
            "paper: mean(correct) < 50 %",
        ),
        rule(
            "Predicted paths are nearly as long as measured ones in edges (5.1 of 6.9), but hold "
            "significantly fewer instructions (33.6 of 88.4).",
            "ours: predicted edges by measured ones: "
            "100 * mean(predicted_edges) / mean(average_edges) >= 60 %",
            "paper: predicted instructions by measured ones: "
            "100 * mean(predicted_instructions) / mean(average_instructions) < "
            "100 * mean(predicted_edges) / mean(average_edges) %",
        ),
        rule(
            "Routines execute few paths: 7.7 on average (2.6-60.0).",
            "ours: mean(average_paths) <= 20",
        ),
    ),
    notes=(
        "The paper's totals are of the whole binary: tomcatv, which is one routine, executes paths "
        "of 146. So are ours.",
        "The paper does not say what its predicted instructions are: mgrid predicts 2.1 of 2.3 "
        "edges, and 15.8 of 133.5 instructions.",
    ),
    bars=Bars(("correct",), "paths predicted completely by edges, %"),
    originals="epp2",
    rows=_results_with("predicted_correct"),
)


def _common(ref: CellDocument, train: CellDocument) -> dict[str, int]:
    """Return the paths of a run that another executed too, and all of them; each once, as often as
    it was executed, and with its instructions.
    """
    facts = {}
    for prefix, kept in (
        ("common_", ref.paths.keys() & train.paths.keys()),
        ("", ref.paths.keys()),
    ):
        found = [ref.paths[key] for key in kept]
        facts[f"{prefix}paths"] = len(found)
        facts[f"{prefix}executions"] = sum(count for count, _ in found)
        facts[f"{prefix}instructions"] = sum(count * size for count, size in found)
    return facts


EPP3 = TableSpec(
    "epp3",
    "EPP table 3: paths that ref and train have in common",
    f"{PAPER}, table 3",
    "Common: paths executed with both inputs. Static: share of the ref run's paths that the train "
    "run executes too; dynamic: the same, weighted by executions. Common instructions: those that "
    "the ref run executes along common paths, and their share of all along paths.",
    {"ref": PP, "train": TRAIN},
    columns("""
common | common paths | count | common_paths
static | static % | percent | 100 * common_paths / paths
dynamic | dynamic % | percent | 100 * common_executions / executions
instructions | common instructions | count! | common_instructions
instructions_share | instructions % | percent | 100 * common_instructions / instructions
"""),
    (
        rule(
            "For integer programs train finds 41.8-96.0 % of the paths of ref.",
            "paper: min(static, INT) >= 41.8 %",
        ),
        rule(
            "The common paths are the important ones: 71.9-100 % of path executions.",
            "paper: min(dynamic) >= 71.9 %",
        ),
        rule(
            "For FP programs train finds at least 87.5 % of the paths of ref.",
            "paper: min(static, FP) >= 87.5 %",
        ),
        rule(
            "In FP programs the common paths account for 99 % and more of instructions, but in "
            "one.",
            "paper: count(instructions_share >= 99, FP) >= all_but_one",
        ),
    ),
    notes=(
        "A program with one input only has everything in common with itself.",
        "The paper's own table has two FP programs below 99 % of instructions, apsi (74.3) and "
        "wave5 (96.9), where its text has one.",
    ),
    bars=Bars(("static", "dynamic"), "paths of ref found by train, %"),
    originals="epp3",
    rows=lambda program, found: (_common(found["ref"], found["train"]),),
)


# -- section 2: bit tracing -----------------------------------------------------------------------


def _both(row: Found) -> list[tuple[RoutineFigures, RoutineFigures]]:
    """Return the routines entered, each of which weighs the same, under PP and bit tracing."""
    rows = zip(row["pp"].routines, row["bittrace"].routines, strict=True)
    return [(a, b) for a, b in rows if a.numbered_paths]


def _sizes(row: Found) -> list[float | None]:
    """Return counters by path of an array of any size that codes index; None: no word can."""
    return [ratio(b.name_counters, a.name_counters) for a, b in _both(row)]


def _indexed(row: Found) -> list[float]:
    return [size for size in _sizes(row) if size is not None]


def _average(
    value: Callable[[RoutineFigures, RoutineFigures], int],
) -> Callable[[Found], float | None]:
    """Return what gives the average over the routines entered."""
    return lambda row: ratio(sum(value(*each) for each in _both(row)), len(_both(row)))


def _over_twice(row: Found) -> float | None:
    return percentage(sum(each is None or each > 2 for each in _sizes(row)), len(_both(row)))


BIT_TRACING = TableSpec(
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
        column("routines | routines | count!", lambda row: len(_both(row))),
        column("pp_bits | PP bits | decimal", _average(lambda pp, bits: pp.name_bits)),
        column("bits | bits | decimal", _average(lambda pp, bits: bits.name_bits)),
        column(
            "same_bits | same % | percent",
            _average(lambda pp, bits: 100 * (pp.name_bits == bits.name_bits)),
        ),
        column(
            "median_counters | counters/path | ratio",
            lambda row: median(_indexed(row)) if _indexed(row) else None,
        ),
        column("most_counters | greatest | ratio!", lambda row: max(_indexed(row), default=None)),
        column("over_twice | over 2 % | percent", _over_twice),
        *more_columns("""
edges | edges/PP | ratio | bittrace.all.instrumented_edges / pp.all.instrumented_edges
merged_edges | merged | ratio | merged.all.instrumented_edges / pp.all.instrumented_edges
pp_hashed | PP hashed % | percent | 100 * pp.hashed_increments / pp.path_increments
hashed | hashed % | percent | 100 * bittrace.hashed_increments / bittrace.path_increments
pp | PP % | percent | pp.overhead
bittrace | bit tracing % | percent | bittrace.overhead
merged | merged % | percent | merged.overhead
"""),
    ),
    (
        rule(
            "Bit tracing uses the minimal number of bits necessary to distinguish paths.",
            "paper: min(same_bits) >= 100 %",
        ),
        rule(
            "In the worst case an array takes twice the counters of path profiling.",
            "paper: max(most_counters) <= 2",
        ),
        rule(
            "Bit tracing is likely to have higher run-time overhead: every predicate is "
            "instrumented, and appending takes more than adding.",
            "paper: count(bittrace > pp) >= most %",
        ),
        rule(
            "... also where it merges as path profiling does (3.4).",
            "paper: count(merged > pp) >= most %",
        ),
    ),
    notes=("The paper measures no bit tracing: it gives the reasons, and a factor of two.",),
    bars=Bars(("pp", "bittrace", "merged"), "overhead, % of base instructions"),
    originals="epp1",
)


# -- TPP section 1: definite flow -----------------------------------------------------------------

# Turns of self-loops: paths of one block that edge counts tell; `definite` does not have them, for
# a self-loop is on no path (EPP 4.1).
_TURNS = "all.self_loop_increments"
# 80 %: within 10 percentage points shares of definite flow are called the paper's.
DEFINITE = TableSpec(
    "definite",
    "TPP section 1: definite flow of edge profiles",
    "R. Joshi, M. D. Bond and C. Zilles, Targeted Path Profiling, CGO 2004, section 1, which cites "
    "T. Ball, P. Mataga and M. Sagiv, Edge Profiling versus Path Profiling, POPL 1998",
    "Executions of whole paths, each turn of a self-loop a path of one block (as epp1, tpp-fig3 "
    "and tpp-lengths count them). Definite: what of these follows from the edge profile of the "
    "same run, whatever the paths were; by executions, and weighted by the lengths of paths in "
    "blocks; then both without the turns of self-loops, which are on no path of PP.",
    {"pp": PP},
    columns(f"""
executions | executions | count! | facts.executions + {_TURNS}
turns | turns of self-loops | count! | {_TURNS}
executions_share | definite % | percent | \
100 * (facts.definite_executions + {_TURNS}) / (facts.executions + {_TURNS})
blocks | definite % of blocks | percent | \
100 * (facts.definite_blocks + {_TURNS}) / (facts.flow_blocks + {_TURNS})
paths_share | without turns: definite % | percent | \
100 * facts.definite_executions / facts.executions
paths_blocks | without turns: definite % of blocks | percent | \
100 * facts.definite_blocks / facts.flow_blocks
"""),
    (
        rule(
            "An edge profile attributes some 80 % of the execution to paths.",
            "ours: 70 <= mean(executions_share) <= 90 %",
        ),
        rule(
            "It attributes more in FP programs (84 %) than in integer programs (76 %).",
            "paper: FP(executions_share) > INT(executions_share) %",
        ),
    ),
    notes=(
        "TPP gives averages only: 76 % for SPEC95 INT, 84 % for SPEC95 FP.",
        "It does not say how flow is weighted, nor whether turns of self-loops are among it; "
        "verdicts are by executions, with them.",
    ),
    bars=Bars(("executions_share", "blocks"), "paths that edges determine, %"),
    rows=_results_with("definite_blocks"),
    originals="epp1",
)

TABLES = (EPP1, EPP2, EPP3, BIT_TRACING, DEFINITE)
