"""Claims about path profiles that stand in the papers' text and in no table of theirs.

`bittrace`: EPP section 2, the case against bit tracing. `definite`: how much of a path profile the
edge profile alone tells, which TPP's section 1 reports of Ball, Mataga and Sagiv.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median

from simprof.profiler.experiments.cells.cells import CellResult, RoutineRow
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    compare_groups,
    count_of,
    each_is,
    judge,
    mean_within,
    most,
    ordered,
    pairs,
)
from simprof.profiler.experiments.tables.epp import overhead
from simprof.profiler.experiments.tables.spec import CellNeed, Found, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    Form,
    ReportTable,
    TableColumn,
    Value,
    percentage,
    ratio,
)

PP, BITTRACE = CellNeed(setting("pp")), CellNeed(setting("bittrace"))
NEAR = 10.0
"""Percentage points within which shares of definite flow are called the paper's."""

# -- EPP section 2 --------------------------------------------------------------------------------


def bit_tracing(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of the table of bit tracing; routines are those entered, each weighs the same.

    Counters by path: of a routine whose codes index an array of any size, how many counters that
    has by path. `over_twice`: routines where these are more than two, or no word can index it.
    """
    pp, bits = found["pp"], found["bittrace"]
    both = [(a, b) for a, b in zip(pp.routines, bits.routines, strict=True) if a.num_paths]
    sizes = [_by_path(a, b) for a, b in both]
    indexed = [size for size in sizes if size is not None]
    yield (
        program.name,
        len(both),
        fmean(a.name_bits for a, _ in both) if both else None,
        fmean(b.name_bits for _, b in both) if both else None,
        percentage(sum(b.name_bits == a.name_bits for a, b in both), len(both)),
        median(indexed) if indexed else None,
        max(indexed, default=None),
        percentage(sum(size is None or size > 2 for size in sizes), len(sizes)),
        ratio(_code(bits), _code(pp)),
        _hashed(pp),
        _hashed(bits),
        overhead(pp),
        overhead(bits),
    )


def _by_path(pp: RoutineRow, bits: RoutineRow) -> float | None:
    return ratio(bits.name_counters, pp.name_counters)


def _code(result: CellResult) -> int:
    return sum(row.instrumented_edges for row in result.routines)


def _hashed(result: CellResult) -> float | None:
    counts = result.counts
    return percentage(counts["hashed_increments"], counts["path_increments"])


def judge_bit_tracing(table: ReportTable) -> Iterator[Claim]:
    """Judge section 2's claims."""
    yield judge(
        "Bit tracing uses the minimal number of bits necessary to distinguish paths.",
        each_is(
            table,
            "same_bits",
            AT_LEAST,
            99,
            " %",
            what="routines with as few bits as numbers have,",
            others=("pp_bits", "bits"),
        ),
    )
    yield judge(
        "In the worst case an array takes twice the counters of path profiling.",
        each_is(
            table, "most_counters", AT_MOST, 2, what="counters by path,", others=("over_twice",)
        ),
    )
    dearer = ordered(pairs(table, "bittrace", "pp"), ABOVE, ("bit tracing", "path profiling"), " %")
    yield judge(
        "Bit tracing is likely to have higher run-time overhead: every predicate is instrumented, "
        "and appending takes more than adding.",
        count_of(dearer, "programs where it has", most(len(dearer))),
    )


BIT_TRACING = TableSpec(
    "bittrace",
    "EPP section 2: bit tracing's counters against path numbers",
    "T. Ball and J. R. Larus, Efficient Path Profiling, MICRO-29, 1996, section 2",
    "Routines: those entered. Bits: of a routine's greatest path number, and of its longest code, "
    "on average; same: routines where both are equal. Counters by path: those of an array that "
    "the codes index, median and greatest of the routines whose codes fit a word; over 2: "
    "routines with more than two a path, or whose codes fit none. Edges: edges with code, by "
    "those of PP. Hashed: share of path increments.",
    (
        TableColumn("program", "program"),
        TableColumn("routines", "routines", Form.COUNT, average=False),
        TableColumn("pp_bits", "PP bits", Form.DECIMAL),
        TableColumn("bits", "bits", Form.DECIMAL),
        TableColumn("same_bits", "same %", Form.PERCENT),
        TableColumn("median_counters", "counters/path", Form.RATIO),
        TableColumn("most_counters", "greatest", Form.RATIO, average=False),
        TableColumn("over_twice", "over 2 %", Form.PERCENT),
        TableColumn("edges", "edges/PP", Form.RATIO),
        TableColumn("pp_hashed", "PP hashed %", Form.PERCENT),
        TableColumn("hashed", "hashed %", Form.PERCENT),
        TableColumn("pp", "PP %", Form.PERCENT),
        TableColumn("bittrace", "bit tracing %", Form.PERCENT),
    ),
    {"pp": PP, "bittrace": BITTRACE},
    bit_tracing,
    judge_bit_tracing,
    notes=("The paper measures no bit tracing: it gives the reasons, and a factor of two.",),
    bars=Bars(("pp", "bittrace"), "overhead, % of base instructions"),
)

# -- TPP section 1 --------------------------------------------------------------------------------


def definite(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of the table of definite flow."""
    facts = found["pp"].facts
    if facts is None or facts.definite is None:
        return
    flow = facts.definite
    yield (
        program.name,
        flow.executions,
        percentage(flow.definite_executions, flow.executions),
        percentage(flow.definite_blocks, flow.blocks),
    )


def judge_definite(table: ReportTable) -> Iterator[Claim]:
    """Judge what TPP reports of definite flow."""
    yield judge(
        "An edge profile attributes some 80 % of the execution to paths.",
        mean_within(table, "blocks", 80 - NEAR, 80 + NEAR, " %", others=("executions_share",)),
    )
    yield compare_groups(
        "It attributes more in FP programs (84 %) than in integer programs (76 %).",
        table,
        "blocks",
        " %",
        higher="FP",
    )


DEFINITE = TableSpec(
    "definite",
    "TPP section 1: definite flow of edge profiles",
    "R. Joshi, M. D. Bond and C. Zilles, Targeted Path Profiling, CGO 2004, section 1, which cites "
    "T. Ball, P. Mataga and M. Sagiv, Edge Profiling versus Path Profiling, POPL 1998",
    "Executions: of whole paths. Definite: what of these follows from the edge profile of the same "
    "run, whatever the paths were; by executions, and weighted by the lengths of paths in blocks.",
    (
        TableColumn("program", "program"),
        TableColumn("executions", "executions", Form.COUNT, average=False),
        TableColumn("executions_share", "definite %", Form.PERCENT),
        TableColumn("blocks", "definite % of blocks", Form.PERCENT),
    ),
    {"pp": PP},
    definite,
    judge_definite,
    notes=("TPP gives averages only: 76 % for SPEC95 INT, 84 % for SPEC95 FP.",),
    bars=Bars(("blocks",), "blocks in paths that edges tell, %"),
)

TABLES = (BIT_TRACING, DEFINITE)
