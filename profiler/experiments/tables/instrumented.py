"""Instrumented programs: what rewriting costs, and how long they run. Tables of no paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from simprof.profiler.experiments.cells.cells import (
    ALONE_INSTRUCTIONS,
    ALONE_ROUTINES,
    REWRITING,
    CellKind,
)
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import ABOVE, each_is, judge
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
from simprof.profiler.rewriting.draft import Cause

SOURCE = "simprof, docs/INSTRUMENT.md"
SHORT = {Cause.CALLS: "old returns", Cause.PROGRAM_COUNTERS: "%pc"}
TITLES = {cause: SHORT.get(cause, cause.value.replace("-", " ")) for cause in Cause}
"""Cause -> the title of its column."""


def costs(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return what rewriting a program costs in its run, with PP's code in it."""
    pp = found["pp"]
    yield (
        program.name,
        pp.base,
        overhead(pp),
        percentage(pp.counts[REWRITING], pp.base),
        percentage(pp.counts[REWRITING], pp.added),
        *(percentage(pp.counts[f"{REWRITING}:{cause}"], pp.base) for cause in TITLES),
        pp.counts[ALONE_ROUTINES],
        percentage(pp.counts[ALONE_INSTRUCTIONS], pp.base),
    )


def judge_costs(table: ReportTable) -> Iterable[Claim]:
    """Nobody claims anything."""
    return ()


REWRITING_COSTS = TableSpec(
    "rewriting",
    "What rewriting a program costs, by cause",
    SOURCE,
    "The program with PP's code in it, run. Base: instructions of the original. PP: what the "
    "scheme's code executed, in percent of base. Rewriting: what was executed besides, in percent "
    "of base and in percent of PP's, and its parts by cause, in percent of base "
    "(docs/INSTRUMENT.md says what each is). "
    "Alone: routines that were left alone and so count nothing; then their share of base.",
    (
        TableColumn("program", "program"),
        TableColumn("base", "base", Form.COUNT, average=False),
        TableColumn("pp", "PP %", Form.PERCENT),
        TableColumn("rewriting", "rewriting %", Form.SHARE),
        TableColumn("part", "of PP %", Form.PERCENT),
        *(TableColumn(cause.value, title, Form.SHARE) for cause, title in TITLES.items()),
        TableColumn("alone", "alone", Form.COUNT, average=False),
        TableColumn("alone_share", "alone %", Form.SHARE),
    ),
    {"pp": CellNeed(setting("pp"), kind=CellKind.EXECUTE)},
    costs,
    judge_costs,
    of_instrumented=True,
)


def times(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return how long a program runs in three ways."""
    result = found["pp"]
    spent = result.timing
    yield (
        program.name,
        result.base,
        spent.original,
        spent.instrumented,
        ratio(spent.instrumented, spent.original),
        spent.simulated,
        ratio(spent.simulated, spent.instrumented),
    )


def judge_times(table: ReportTable) -> Iterator[Claim]:
    """Judge what docs/INSTRUMENT.md says of times."""
    yield judge(
        "An instrumented program under qemu is faster than the simulation that counts the same.",
        each_is(table, "quotient", ABOVE, 1, others=("instrumented", "simulated")),
        absent="qemu-user is not installed, and nothing was run under it",
    )


TIMES = TableSpec(
    "instrumented",
    "How long instrumented programs run",
    SOURCE,
    "Base: instructions of the original. Seconds of processor time, one run each: the original "
    "under qemu-user; the program instrumented with PP under qemu-user; a simulated run with PP, "
    "as by simprof run --mode=pp, without the start of Python. Slower: instrumented by original. "
    "Simulation/instrumented: simprof by instrumented.",
    (
        TableColumn("program", "program"),
        TableColumn("base", "base", Form.COUNT, average=False),
        TableColumn("original", "original s", Form.SECONDS),
        TableColumn("instrumented", "instrumented s", Form.SECONDS),
        TableColumn("slower", "slower", Form.RATIO),
        TableColumn("simulated", "simprof s", Form.SECONDS),
        TableColumn("quotient", "simprof/instrumented", Form.RATIO),
    ),
    {"pp": CellNeed(setting("pp"), kind=CellKind.TIME)},
    times,
    judge_times,
    notes=(
        "Times differ from run to run, and depend on what else the machine does; all others of "
        "our tables do not.",
        "qemu-user translates the program's code when it first comes there: in short runs that is "
        "most of the time. Under simprof it is the same for the compiled kernels and the graphs.",
    ),
    bars=Bars(("original", "instrumented", "simulated"), "seconds", logarithmic=True),
    of_instrumented=True,
)

TABLES = (REWRITING_COSTS, TIMES)
