"""gcc's own edge profiling beside what simprof predicts: a yardstick from outside, of no paper.

The program is built once more with `-fprofile-arcs` and run. What its own routines execute more
than those of the plain build is gcc's counting; the rest of the difference is what libgcov does at
the start and at the end. `qpt2` and `naive` are predicted for the plain build's own routines.

How often gcc's counters count is read from the files that the program writes. It is the same
whatever the compiler makes of the counters, and so tells gcc's placement from its code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simprof.profiler.experiments.cells.cells import COMPILER_INCREMENTS, CellResult, RoutineRow
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.suites.suite import CounterBuild
from simprof.profiler.experiments.tables.claims import (
    BELOW,
    each_is,
    judge,
    mean_within,
)
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

SOURCE = "GCC 12, -fprofile-arcs (manual, section 3.12), and libgcov"
CALLS_OF_LIBGCOV = ("_sub_I_00100_", "_sub_D_00100_")
"""How the names of the routines start that gcc makes in each object file: they call libgcov."""
BEFORE_AND_AFTER = ("_start", "system_exit")
"""Routines of the kernels of wcet in whose place the C library's are linked to gcc's counters."""
PROGRAM_COUNTER = "__sparc_get_pc_thunk."
"""How the names of the routines start that position-independent code calls to find its data."""

NEEDS = {
    "plain": CellNeed(setting("edges"), whole=True),
    "arcs": CellNeed(setting("edges"), counters=CounterBuild.ARCS, whole=True),
    "qpt2": CellNeed(setting("qpt2"), whole=True),
    "naive": CellNeed(setting("naive"), whole=True),
}


def own(result: CellResult) -> list[RoutineRow]:
    """Return the program's own routines that both builds have, those that its source names."""
    left_out = (*CALLS_OF_LIBGCOV, PROGRAM_COUNTER)
    return [
        row
        for row in result.routines
        if row.own and row.name not in BEFORE_AND_AFTER and not row.name.startswith(left_out)
    ]


def executed(result: CellResult) -> int:
    """Return what own routines executed, with what they call to find their data and counters."""
    helpers = (row for row in result.routines if row.name.startswith(PROGRAM_COUNTER))
    return sum(row.instructions for row in (*own(result), *helpers))


def rows(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return the row of one program."""
    plain, arcs = found["plain"], found["arcs"]
    before = executed(plain)
    counting = executed(arcs) - before
    qpt2, naive = (sum(row.added for row in own(found[mode])) for mode in ("qpt2", "naive"))
    increments = sum(row.edge_increments for row in own(found["qpt2"]))
    yield (
        program.name,
        plain.base,
        percentage(before, plain.base),
        arcs.base,
        counting,
        arcs.base - plain.base - counting,
        *(percentage(added, plain.base) for added in (counting, qpt2, naive)),
        ratio(counting, qpt2),
        ratio(counting, naive),
        ratio(arcs.counts[COMPILER_INCREMENTS], increments),
    )


def claims(table: ReportTable) -> Iterator[Claim]:
    """Judge what GCC says of its counters, and whether simprof's predictions are alike."""
    yield judge(
        "Only arcs that are not on the spanning tree have to be instrumented (GCC manual): gcc's "
        "counting costs less than a counter on every edge.",
        each_is(table, "gcc_naive", BELOW, 1, others=("gcc", "naive")),
    )
    yield judge(
        "gcc's tree, too, has the edges that are estimated to be crossed most, but first those of "
        "calls that may not return: its counters count somewhat more often than QPT2's.",
        mean_within(table, "increments", 1, 2, others=("gcc_qpt2",)),
    )
    yield judge(
        "What QPT2 is predicted to add is of the size of what a compiler's own edge profiling "
        "executes.",
        mean_within(table, "gcc_qpt2", 0.5, 2, others=("gcc", "qpt2")),
    )


GCOV_ARCS = TableSpec(
    "gcov-arcs",
    "gcc's own edge profiling against QPT2 and naive",
    SOURCE,
    "Base: instructions of the plain build's run, own: share of the program's own routines in "
    "them. Executed: instructions of the run of the same program built with -fprofile-arcs as "
    "well. Counting: what its own routines execute more than the plain build's. Start, dump: the "
    "rest of the difference, libgcov's work and that of the library routines that it calls. gcc, "
    "QPT2, naive: counting, and what simprof predicts for the plain build's own routines, in "
    "percent of base; then gcc's by theirs. Inc/inc: how often gcc's counters count (the sum of "
    "what they hold in the end), by QPT2's increments.",
    (
        TableColumn("program", "program"),
        TableColumn("base", "base", Form.COUNT, average=False),
        TableColumn("own", "own %", Form.PERCENT),
        TableColumn("executed", "executed", Form.COUNT, average=False),
        TableColumn("counting", "counting", Form.COUNT, average=False),
        TableColumn("start_dump", "start, dump", Form.COUNT, average=False),
        TableColumn("gcc", "gcc %", Form.PERCENT),
        TableColumn("qpt2", "QPT2 %", Form.PERCENT),
        TableColumn("naive", "naive %", Form.PERCENT),
        TableColumn("gcc_qpt2", "gcc/QPT2", Form.RATIO),
        TableColumn("gcc_naive", "gcc/naive", Form.RATIO),
        TableColumn("increments", "inc/inc", Form.RATIO),
    ),
    NEEDS,
    rows,
    claims,
    notes=(
        "gcc instruments early: what it inlines, unrolls or moves later takes its counters along. "
        "A loop may keep them in registers, or add all turns at once where it knows their number; "
        "other optimisations are not made for their sake. Counting is the sum of all that.",
        "QPT2 and naive edit the finished program, on its own graph: they take the registers that "
        "it leaves, and each increment is a load, an addition and a store.",
        "gcc's counters have 64 bits, those of simprof 32: in 32-bit programs its increments "
        "are longer.",
        "Only routines that gcc compiles have its counters: those of libraries count in no column "
        "but base and executed. The kernels of wcet have a run-time of their own, which counts as "
        "theirs, and a C library for gcc's counters alone: its start and end are with libgcov's.",
    ),
    bars=Bars(("gcc", "qpt2", "naive"), "percent of the base instructions"),
)
