"""The definition of a scheme: everything that the rest of simprof needs to know of it.

A scheme is a package with one `SchemeDefinition`. simprof's own are listed in `registry`; an
installed distribution brings more through the entry point group `simprof.schemes`, each entry
named as its mode. `docs/SCHEMES.md` walks through a small one.

The definition is what command lines, reports and help texts read, so importing it must be quick:
planners and code generators are imported inside the functions that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from simprof.profiler.request.request import OptionValue, SchemeOptions, TableChoice
from simprof.profiler.schemes.options import Options

if TYPE_CHECKING:
    from simprof.profiler.code.layout import BufferSlot, CounterLayout
    from simprof.profiler.code.runtime_code import Routines
    from simprof.profiler.code.snippet_parts import Generator
    from simprof.profiler.graphs.cfg import ControlFlowGraph
    from simprof.profiler.graphs.paths import PathPiece
    from simprof.profiler.plan.decoders import Plan
    from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
    from simprof.simulator.binary.program import MachineKind


class ProfileKind(StrEnum):
    """What a scheme collects, in a word; help texts and reports group schemes by it."""

    PATHS = "paths"
    ITERATION_PATHS = "k-paths"
    WINDOWS = "windows"
    EDGES = "edges"
    BLOCKS = "blocks"
    TRACE = "trace"


class StateScope(StrEnum):
    """What shares the state that a scheme's code keeps between two places, beside its counters."""

    ACTIVATION = "activation"  # path registers
    THREAD = "thread"
    PROGRAM = "program"  # words and buffers (`InstrumentationPlan.words`, `buffers`)


JUDGE = "pp"  # Mode whose profile is the truth where a scheme names no other


def plain(value: OptionValue) -> OptionValue:
    """Return the value of an option as files and reports show it: text for that of an enum."""
    return str(value) if isinstance(value, str) else value


class Loss(Struct, frozen=True):
    """Something that a scheme can lose, and how reports say so."""

    name: str  # Its key in `Reading.lost`: a number of events
    about: str  # What the loss is about ("cold paths")
    text: str  # What became of the events ("counted together")
    unit: str = "execution"  # What is counted, in the singular
    of_paths: bool = False  # Whether reports also give it as a share of all path executions


class PlanOrder(Struct, frozen=True):
    """What a planner is given."""

    cfg: ControlFlowGraph  # The routine
    # What the user wants. Its `weights` and `edge_profile` are not read, but those here.
    options: SchemeOptions
    weights: Sequence[float] | None = None  # By edge id; None for BL94's heuristic
    # By edge id, for schemes that an edge profile guides
    edge_counts: Sequence[int] | None = None
    # Of the executed paths, by blocks and edges as in `PathRecord`, for those that paths guide
    path_counts: Mapping[PathPiece, int] | None = None
    # How many acyclic paths the whole program began by the edge profile (`graphs.flow.unit_flow`,
    # all routines together), for schemes that read it (`SchemeDefinition.whole_program`)
    unit_flow: int | None = None

    @property
    def table(self) -> CounterTable | None:
        """The kind of counter table that the user insists on, None where the planner chooses."""
        from simprof.profiler.plan.plan import CounterTable

        tables = {TableChoice.ARRAY: CounterTable.ARRAY, TableChoice.HASH: CounterTable.HASH}
        return tables.get(self.options.table)


class StreamBuffer(Struct, frozen=True):
    """A buffer that a scheme's code appends to, and a routine of its own writes when it is full."""

    # A rewritten program opens the file, says so in the buffer, and writes what is left at its end.
    #
    # start, size: Its address, and the bytes in it when it is written; one `sethi` makes where
    # these end.
    start: int
    size: int
    # Bytes behind that end: the word with the units that were appended, less those of `size`.
    position: int
    descriptor: int  # Bytes behind that end: the word with the file's descriptor
    # Symbol of the routine that code calls which appends bits; units are bytes without it.
    packing: str
    flush: Callable[[MachineKind], int]  # Instructions of a flush, its call included

    @property
    def end(self) -> int:
        """Where it is full."""
        return self.start + self.size


ReadMemory = Callable[[int, int], bytes]  # (address, size in bytes) -> memory


class OwnTable(Struct, frozen=True):
    """Path counters that a run-time routine of a scheme's own keeps (`CounterTable.OWN`)."""

    # Numbers of path counters name what the routine counts, and what it executes follows from the
    # numbers, their counts, and the order in which they were counted first. It has the words of
    # `InstrumentationPlan.path_counters` at the layout's `path_base`, and may have a pool.
    #
    # cost: Instructions that it executes for a routine's plan: of counters, as number -> count, in
    # that order.
    cost: Callable[[MachineKind, InstrumentationPlan, Mapping[int, int]], int]
    # Bytes of a pool that it takes for them.
    size: Callable[[InstrumentationPlan, Mapping[int, int]], int]
    # Counters in memory, as number -> count.
    read: Callable[[InstrumentationPlan, CounterLayout, ReadMemory], Mapping[int, int]]


class SchemeCode(Struct, frozen=True):
    """A scheme's own SPARC code; the code of `plan.plan`'s actions is there already."""

    generators: Mapping[type, Generator] = field(default_factory=dict)  # Kind of action -> its code
    routines: tuple[Routines, ...] = ()  # Run-time routines that the code calls
    # Instructions that a whole run adds besides snippets, of the run's `sizes`.
    run_cost: Callable[[MachineKind, Mapping[str, int]], int] = lambda machine, sizes: 0
    # Of a routine's plan and the layout of its counters: its slots in buffers, in the order of
    # `InstrumentationPlan.slot_edges`.
    slots: Callable[[Plan, CounterLayout], tuple[BufferSlot, ...]] = lambda plan, layout: ()
    # The buffer that its code appends to; None: it appends to none.
    stream: StreamBuffer | None = None
    table: OwnTable | None = None  # How it keeps the counters of OWN tables


class SchemeDefinition(Struct, frozen=True, kw_only=True):
    """One scheme."""

    mode: str  # Its name on command lines, in reports and in files
    description: str  # What it does, with its source, in one line
    # The kind of its profile, or a function that tells it from the options of a measurement.
    collects: ProfileKind | Callable[[Mapping[str, object]], ProfileKind] = ProfileKind.EDGES
    # The planner; None for a mode that instruments nothing.
    plan: Callable[[PlanOrder], Plan] | None
    options: type[Options] = Options  # The structure of its options
    # The kind of profile of the routine that planning needs, EDGES or PATHS; None: it needs none.
    guided: ProfileKind | None = None
    # Whether a routine's plan depends on the whole program's edge profile, too: on
    # `PlanOrder.unit_flow`, which its plans have as a member of that name.
    whole_program: bool = False
    # Mode whose exact profile says how good this one's is (TPP 5), measured beside it; None: it is
    # exact, or one that `estimates` (`judge`).
    judged_by: str | None = None
    code: Callable[[], SchemeCode] = SchemeCode  # Its own actions as SPARC code
    # What its plan was made from, for `static` of `simprof explain`: what the plan itself says.
    describe: Callable[[Plan], dict[str, Any]] = lambda plan: plan.describe()
    # What the user has to know of the options on a program's routines, a line each.
    notes: Callable[[SchemeOptions, Iterable[ControlFlowGraph]], Iterable[str]] = (
        lambda options, routines: ()
    )
    losses: tuple[Loss, ...] = ()  # What it can lose
    # What shares the state that its code keeps. Words and buffers are the program's.
    scope: StateScope = StateScope.ACTIVATION
    # Whether its counters depend on the order of what different routines execute: as guards do
    # (`plan.actions.Guard`).
    depends_on_order: bool = False
    # Whether its code writes what its registers hold to the trace, where it counts no paths: its
    # actions are then executed as those of path schemes are (`CounterTable.STREAM`).
    writes_paths: bool = False
    # Whether its trace has all acyclic paths in the order of the program (`trace.sequitur`).
    orders_paths: bool = False
    # Whether what it reads of its counters is an estimate of what was executed, and not exact: it
    # is not compared with the run.
    estimates: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """Common options that the planner reads: some of `options.PLANNING`."""
        return self.options.reads

    def collected(self, options: Mapping[str, object] = MappingProxyType({})) -> ProfileKind:
        """Return the kind of the profile that it collects under a measurement's options."""
        return self.collects(options) if callable(self.collects) else self.collects

    @property
    def instruments(self) -> bool:
        """Whether it adds code at all."""
        return self.plan is not None

    @property
    def judge(self) -> str | None:
        """Mode whose profile is the truth that this one's is judged by; None: nothing judges it."""
        if self.judged_by is None and self.estimates and self.collected() is ProfileKind.PATHS:
            return JUDGE
        return self.judged_by

    @property
    def counts_paths(self) -> bool:
        """Whether its plans have path counters, and decode their numbers."""
        kinds = ProfileKind.PATHS, ProfileKind.ITERATION_PATHS, ProfileKind.WINDOWS
        return self.collected() in kinds

    @property
    def executes(self) -> bool:
        """Whether its actions have registers, or guards, that decide what they count or write."""
        return self.counts_paths or self.writes_paths or self.depends_on_order

    @property
    def writes_trace(self) -> bool:
        """Whether its plans write a trace."""
        return self.collected() is ProfileKind.TRACE

    @property
    def traces_paths(self) -> bool:
        """Whether instrumented programs write a trace that the profile is read of."""
        return self.writes_paths or self.orders_paths

    def path_decoder(self, plan: Plan | None) -> Plan | None:
        """Return `plan`, one of its own; None where it counts no paths."""
        return plan if self.counts_paths else None

    def trace_writer(self, plan: Plan | None) -> Plan | None:
        """Return `plan`, one of its own; None where it writes no trace."""
        return plan if self.writes_trace else None


def own_table(scheme: SchemeDefinition, plan: InstrumentationPlan) -> OwnTable | None:
    """Return how a scheme keeps the path counters of a plan; None where simprof's tables do."""
    from simprof.profiler.plan.plan import CounterTable

    return scheme.code().table if plan.table is CounterTable.OWN else None
