"""Tables of no paper of path or edge profiling.

- `cs6120`: a course's blog post on edge profiling (Voor and Liu, "Dynamic Edge Profiling with
  Optimal Counter Placement").
- `overheads`: all schemes side by side, those of other distributions too.
- `family`: what each scheme costs on average and how good its profile is, beside published figures.
- `gcov-arcs`: gcc's own edge profiling beside what simprof predicts, a yardstick from outside. The
  program is built once more with `-fprofile-arcs` and run. What its own routines execute more than
  those of the plain build is gcc's counting; the rest of the difference is what libgcov does at the
  start and at the end. `qpt2` and `naive` are predicted for the plain build's own routines. How
  often gcc's counters count is read from the files that the program writes: it is the same whatever
  the compiler makes of the counters, and so tells gcc's placement from its code.
- `rewriting`, `instrumented`: what rewriting a program costs, and how long the result runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

from simprof.profiler.experiments.cells.cells import (
    COMPILER_INCREMENTS,
    REWRITING,
    CellDocument,
    CellKind,
    RoutineFigures,
)
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.suites.suite import CounterBuild
from simprof.profiler.experiments.tables.claims import rule, untestable
from simprof.profiler.experiments.tables.expressions import (
    PROGRAM,
    ColumnSpec,
    Expression,
    Found,
    column,
    columns,
    increments,
    more_columns,
)
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars, Value, percentage, ratio
from simprof.profiler.request.request import DEFAULT_MODE
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import ProfileKind

# -- CS6120 ---------------------------------------------------------------------------------------


CS6120 = TableSpec(
    "cs6120",
    "CS6120: edge profiling by calls, on every edge and on chords only",
    "K. Voor and H. Liu, Dynamic Edge Profiling with Optimal Counter Placement, CS 6120 course "
    "blog, Cornell University",
    "Instructions by those of the run without profiling: two logging calls on every edge; on the "
    "chords of a spanning tree without regard to weights; on those of a maximum spanning tree by "
    "BL94's heuristic weights; a counter on every edge, without calls.",
    {
        "calls": CellNeed(setting("calls")),
        "calls_optimal": CellNeed(setting("calls-optimal", weights="uniform")),
        "calls_maximum": CellNeed(setting("calls-optimal")),
        "naive": CellNeed(setting("naive")),
    },
    columns("""
calls | every edge | ratio | calls.instructions / calls.base | executed
calls_optimal | optimal | ratio | calls_optimal.instructions / calls_optimal.base | executed
calls_maximum | maximum tree | ratio | calls_maximum.instructions / calls_maximum.base | executed
naive | counters | ratio | naive.instructions / naive.base | executed
"""),
    (
        rule(
            "Logging every edge makes programs take several times as long (5 times on average).",
            "ours: mean(calls) >= 2",
        ),
        untestable(
            "Optimal placement is faster (4.8 times).",
            "it cannot be otherwise: the chords are a part of the edges, with the same calls",
        ),
        rule(
            "... but only by a little (4 %).",
            "ours: optimal by every edge: mean(calls_optimal) / mean(calls) >= 0.9",
        ),
        rule(
            "A maximum spanning tree of estimated weights would be faster still (named as next "
            "step).",
            "paper: mean(calls_maximum) < mean(calls_optimal)",
        ),
    ),
    bars=Bars(
        ("calls", "calls_optimal", "calls_maximum"), "times the base instructions", baseline=1.0
    ),
)


# -- all schemes ----------------------------------------------------------------------------------


def _overhead(mode: str) -> Callable[[Found], float | None]:
    shown = Expression(f"{mode.replace('-', '_')}.overhead")
    return lambda row: shown(row) if mode in row else None


@cache
def overheads() -> TableSpec:
    """Return the table; its columns are the modes that are installed."""
    modes = registry.planned_modes()
    return TableSpec(
        "overheads",
        "Overheads of all schemes",
        "simprof",
        "Added instructions in percent of the uninstrumented run's, under each scheme's default "
        "options.",
        {mode: CellNeed(setting(mode)) for mode in modes},
        (PROGRAM, *(column(f"{mode} | {mode} | percent", _overhead(mode)) for mode in modes)),
        is_partial=True,
    )


# -- gcc's counters -------------------------------------------------------------------------------

# How the names of the routines start that gcc makes in each object file: they call libgcov.
CALLS_OF_LIBGCOV = ("_sub_I_00100_", "_sub_D_00100_")
# Routines of the kernels of wcet in whose place the C library's are linked to gcc's counters.
BEFORE_AND_AFTER = ("_start", "system_exit")
# How the names of the routines start that position-independent code calls to find its data.
PROGRAM_COUNTER = "__sparc_get_pc_thunk."


def _own(result: CellDocument) -> list[RoutineFigures]:
    """Return the program's own routines that both builds have, those that its source names."""
    left_out = (*CALLS_OF_LIBGCOV, PROGRAM_COUNTER)
    return [
        row
        for row in result.routines
        if row.own and row.symbol not in BEFORE_AND_AFTER and not row.symbol.startswith(left_out)
    ]


def _executed(result: CellDocument) -> int:
    """Return what own routines executed, with what they call to find their data and counters."""
    helpers = (row for row in result.routines if row.symbol.startswith(PROGRAM_COUNTER))
    return sum(row.instructions for row in (*_own(result), *helpers))


def _counting(found: Found) -> int:
    """Return what own routines execute more than the plain build's: gcc's counting."""
    return _executed(found["arcs"]) - _executed(found["plain"])


def _added(found: Found, mode: str) -> int:
    return sum(row.added for row in _own(found[mode]))


def _in_base(part: Callable[[Found], int]) -> Callable[[Found], float | None]:
    return lambda found: percentage(part(found), found["plain"].base)


GCOV_ARCS = TableSpec(
    "gcov-arcs",
    "gcc's own edge profiling against QPT2 and naive",
    "GCC 12, -fprofile-arcs (manual, section 3.12), and libgcov",
    "Base: instructions of the plain build's run, own: share of the program's own routines in "
    "them. Executed: instructions of the run of the same program built with -fprofile-arcs as "
    "well. Counting: what its own routines execute more than the plain build's. Start, dump: the "
    "rest of the difference, libgcov's work and that of the library routines that it calls. gcc, "
    "QPT2, naive: counting, and what simprof predicts for the plain build's own routines, in "
    "percent of base; then gcc's by theirs. Inc/inc: how often gcc's counters count (the sum of "
    "what they hold in the end), by QPT2's increments.",
    {
        "plain": CellNeed(setting("edges"), whole=True),
        "arcs": CellNeed(setting("edges"), counters=CounterBuild.ARCS, whole=True),
        "qpt2": CellNeed(setting("qpt2"), whole=True),
        "naive": CellNeed(setting("naive"), whole=True),
    },
    (
        *columns("base | base | count! | plain.base"),
        column("own | own % | percent", _in_base(lambda found: _executed(found["plain"]))),
        column("executed | executed | count! | arcs.base"),
        column("counting | counting | count!", _counting),
        column(
            "start_dump | start-up, writing | count!",
            lambda found: found["arcs"].base - found["plain"].base - _counting(found),
        ),
        column("gcc | gcc % | percent", _in_base(_counting)),
        column("qpt2 | QPT2 % | percent", _in_base(lambda found: _added(found, "qpt2"))),
        column("naive | naive % | percent", _in_base(lambda found: _added(found, "naive"))),
        column(
            "gcc_qpt2 | gcc/QPT2 | ratio",
            lambda found: ratio(_counting(found), _added(found, "qpt2")),
        ),
        column(
            "gcc_naive | gcc/naive | ratio",
            lambda found: ratio(_counting(found), _added(found, "naive")),
        ),
        column(
            "increments | inc/inc | ratio",
            lambda found: ratio(
                found["arcs"].counts[COMPILER_INCREMENTS],
                sum(row.edge_increments for row in _own(found["qpt2"])),
            ),
        ),
    ),
    (
        rule(
            "Only arcs that are not on the spanning tree have to be instrumented (GCC manual): "
            "gcc's counting costs less than a counter on every edge.",
            "ours: max(gcc_naive) < 1",
        ),
        rule(
            "gcc's tree, too, has the edges that are estimated to be crossed most, but first those "
            "of calls that may not return: its counters count somewhat more often than QPT2's.",
            "ours: 1 <= mean(increments) <= 2",
        ),
        rule(
            "What QPT2 is predicted to add is of the size of what a compiler's own edge profiling "
            "executes.",
            "ours: 0.5 <= mean(gcc_qpt2) <= 2",
        ),
    ),
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


# -- instrumented programs ------------------------------------------------------------------------

INSTRUMENTED = "simprof, docs/INSTRUMENT.md"
SHORT = {Cause.CALLS: "old returns", Cause.PROGRAM_COUNTERS: "%pc"}


def _cause(cause: Cause) -> ColumnSpec:
    """Return the column of what rewriting executes for a cause, in percent of base."""
    title, count = SHORT.get(cause, cause.replace("-", " ")), f"{REWRITING}:{cause}"
    return column(
        f"{cause} | {title} | share",
        lambda found: percentage(found["pp"].counts[count], found["pp"].base),
    )


REWRITING_COSTS = TableSpec(
    "rewriting",
    "What rewriting a program costs, by cause",
    INSTRUMENTED,
    "The program with PP's code in it, run. Base: instructions of the original. PP: what the "
    "scheme's code executed, in percent of base. Rewriting: what was executed in addition, in "
    "percent of base and in percent of PP's, and its parts by cause, in percent of base "
    "(docs/INSTRUMENT.md says what each is). "
    "Alone: routines that were left alone and so count nothing; then their share of base.",
    {"pp": CellNeed(setting("pp"), kind=CellKind.EXECUTE)},
    (
        *columns("""
base | base | count! | pp.base
pp | PP % | percent | pp.overhead
rewriting | rewriting % | share | 100 * pp.rewriting / pp.base
part | of PP % | percent | 100 * pp.rewriting / pp.added
"""),
        *map(_cause, Cause),
        *more_columns("""
alone | alone | count! | pp.alone_routines
alone_share | alone % | share | 100 * pp.alone_instructions / pp.base
"""),
    ),
    of_instrumented=True,
)
TIMES = TableSpec(
    "instrumented",
    "How long instrumented programs run",
    INSTRUMENTED,
    "Base: instructions of the original. Seconds of processor time, one run each: the original "
    "under qemu-user; the program instrumented with PP under qemu-user; a simulated run with PP, "
    "as by simprof run --mode=pp, without the start of Python. Slower: instrumented by original. "
    "Simulation/instrumented: simprof by instrumented.",
    {"pp": CellNeed(setting("pp"), kind=CellKind.TIME)},
    columns("""
base | base | count! | pp.base
original | original s | seconds | pp.original
instrumented | instrumented s | seconds | pp.instrumented
slower | slower | ratio | pp.instrumented / pp.original
simulated | simprof s | seconds | pp.simulated
quotient | simprof/instrumented | ratio | pp.simulated / pp.instrumented
"""),
    (
        rule(
            "An instrumented program under qemu is faster than the simulation that counts the "
            "same.",
            "ours: min(quotient) > 1",
        ),
    ),
    notes=(
        "Times differ from run to run, and depend on what else the machine does; all others of "
        "our tables do not.",
        "qemu-user translates the program's code when it first comes there: in short runs that is "
        "most of the time. Under simprof it is the same for the compiled kernels and the graphs.",
    ),
    bars=Bars(("original", "instrumented", "simulated"), "seconds", logarithmic=True),
    of_instrumented=True,
)


# -- the family of schemes -------------------------------------------------------------------------


class Published(NamedTuple):
    """What was published of a scheme: an overhead, in short and in words."""

    short: str
    words: str


PUBLISHED: Mapping[str, Published] = {
    "pp": Published("31 % [A]", "SPEC95 (EPP 1996)"),
    "qpt2": Published("16 % [A]", "edges, SPEC95 (EPP 1996)"),
    "tpp": Published("1/2 to 1/3 of PP [A]", "half of PP's on SPEC95, a third on SPEC2000 (2004)"),
    "ppp": Published("5 % (-3 to 13) [M]", "SPEC2000 (2005)"),
    "pref": Published("15 % (to 26) [A]", "its PP 50 % (to 132 %), SPEC2000 (2007)"),
    "sampled": Published(
        "6 %, 3 % [A]", "the latter with yieldpoints; overlap 93 to 98 %, Java (2001)"
    ),
    "pep": Published("1.2 % (to 4.3) [A]", "94 % of paths, 96 % of edges, Java (2005)"),
    "kblpp": Published("about PP's [A]", "about or below PP's with hash tables, Java (2013)"),
    "kiter": Published("several PP's [S]", "several times PP's as k grows (2009)"),
    "pap": Published("2 PP's [S]", "5.6 times PP's in tight loops, small Java programs (2012)"),
}


class OnProgram(NamedTuple):
    """A scheme on a program."""

    result: CellDocument
    exact: CellDocument | None  # `pp` on the same program; None where that has failed


class SchemeRuns(NamedTuple):
    """A scheme on all programs where it did not fail."""

    mode: str
    runs: Sequence[OnProgram]

    def mean(self, value: Callable[[OnProgram], float | None]) -> float | None:
        """Return the mean over the programs that have a value."""
        found = [each for run in self.runs if (each := value(run)) is not None]
        return fmean(found) if found else None


def schemes(programs: Sequence[Found]) -> Iterator[SchemeRuns]:
    """Yield the schemes that ran on some program, in the order of the modes."""
    for mode in registry.planned_modes():
        runs = [OnProgram(each[mode], each.get(DEFAULT_MODE)) for each in programs if mode in each]
        if runs:
            yield SchemeRuns(mode, runs)


def _by_thousand(run: OnProgram) -> float | None:
    """Return increments by thousand instructions of the program."""
    count = increments(run.result)
    return 1000 * count / run.result.base if count and run.result.base else None


def _hashed_of(run: OnProgram) -> float | None:
    counts = run.result.counts
    if not counts["path_increments"]:
        return None
    return 100 * counts["hashed_increments"] / increments(run.result)


def _bytes(run: OnProgram) -> float | None:
    return run.result.sizes.get("counter_bytes") or None


def _in_percent(found: Mapping[str, Any], measure: str) -> float | None:
    value = found.get(measure)
    return None if value is None else 100 * value


def _share(mode: str, name: str) -> Callable[[OnProgram], float | None]:
    """Return what gives a measure of a scheme's profile, in percent."""
    scheme = registry.definition(mode)
    kind = scheme.collected()

    def judged(run: OnProgram) -> float | None:
        return _in_percent(run.result.part("quality"), name)

    def of_edges(run: OnProgram) -> float | None:
        known = run.exact is not None and not run.result.part("lost").get("unknown_edges")
        edges = run.exact.part("edge_quality") if run.exact is not None and known else {}
        return _in_percent(edges, name)

    if scheme.judge is not None:
        return judged
    if kind in (ProfileKind.EDGES, ProfileKind.BLOCKS) and not scheme.writes_paths:
        return of_edges
    return lambda run: None if scheme.estimates else 100.0


def _measure(name: str) -> ColumnSpec:
    return column(
        f"{name} | {name} % | percent",
        lambda scheme: scheme.mean(_share(scheme.mode, name)),
    )


def _rounded(scheme: SchemeRuns) -> Value:
    found = scheme.mean(_bytes)
    return None if found is None else round(found)


@cache
def family() -> TableSpec:
    """Return the table; its rows are the modes that are installed."""
    modes = registry.planned_modes()
    known = {mode: PUBLISHED[mode] for mode in modes if mode in PUBLISHED}
    return TableSpec(
        "family",
        "The family of schemes: cost, and how good the profile is",
        "simprof",
        "Means over the suite's programs, each scheme with its default options. Overhead: added "
        "instructions in percent of the program's own. Inc/1000: increments of counters, by "
        "thousand of its instructions. Hashed: share of increments in hash tables. Bytes: of "
        "counters. Accuracy, coverage: of the paths, by pp in the same run (docs/PROFILES.md): 100 "
        "where all are counted; of edge profiles, what these determine of paths. Published: "
        "overheads, [A] known from the abstract, [S] from a text that cites it, [M] from memory, "
        "unchecked; on other programs and machines.",
        {mode: CellNeed(setting(mode)) for mode in modes},
        (
            column("scheme | scheme | text | mode"),
            column(
                "overhead | overhead % | percent",
                lambda scheme: scheme.mean(lambda run: 100 * run.result.overhead),
            ),
            column("increments | inc/1000 | decimal", lambda scheme: scheme.mean(_by_thousand)),
            column("hashed | hashed % | percent", lambda scheme: scheme.mean(_hashed_of)),
            column("bytes | bytes | count!", _rounded),
            _measure("accuracy"),
            _measure("coverage"),
            column(
                "published | published | text",
                lambda scheme: PUBLISHED[scheme.mode].short if scheme.mode in PUBLISHED else None,
            ),
        ),
        notes=("Published: " + "; ".join(f"{m}: {p.short}, {p.words}" for m, p in known.items()),),
        averaged=False,
        across=schemes,
    )
