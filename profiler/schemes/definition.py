"""What a scheme says of itself: everything that the rest of simprof needs to know of it.

A scheme is a package with one `SchemeDefinition`. simprof's own are listed in `registry`; an
installed distribution brings more through the entry point group `simprof.schemes`, each entry
named as its mode. `docs/SCHEMES.md` walks through a small one.

The definition is what command lines, reports and help texts read, so importing it must be quick:
planners and code generators are imported inside the functions that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from simprof.profiler.request.request import OptionValue, RegisterUse, SchemeOptions, TableChoice

if TYPE_CHECKING:
    from simprof.profiler.code.cost_samples import Samples
    from simprof.profiler.code.layout import BufferSlot, CounterLayout
    from simprof.profiler.code.runtime_code import Routines
    from simprof.profiler.code.snippet_parts import Generator
    from simprof.profiler.graphs.cfg import ControlFlowGraph
    from simprof.profiler.plan.decoders import GuidedDecoder, PathDecoder, RoutinePlan, TraceWriter
    from simprof.profiler.plan.plan import CounterTable
    from simprof.simulator.binary.program import MachineKind


class ProfileKind(StrEnum):
    """What a scheme collects, in a word; help texts and reports group schemes by it."""

    PATHS = "paths"
    ITERATION_PATHS = "k-paths"
    EDGES = "edges"
    BLOCKS = "blocks"
    TRACE = "trace"


class StateScope(StrEnum):
    """What shares the state that a scheme's code keeps between two places, beside its counters."""

    ACTIVATION = "activation"  # path registers
    THREAD = "thread"
    PROGRAM = "program"  # words and buffers (`InstrumentationPlan.words`, `buffers`)


PLANNING = ("path_limit", "weights", "table")
"""The common options that a planner of paths reads."""


@dataclass(frozen=True)
class SchemeOption:
    """An option of a scheme's own.

    Attributes
    ----------
    name
        Its name in `SchemeOptions`, in settings and in JSON.
    kind
        `int`, `float`, `bool` or a `StrEnum`.
    default
        Its value where none is given.
    help
        What it means, for help texts, without the mode's name.
    hint
        What to write, for the message that refuses a value ("give a percentage from 0 to 100").
    metavar
        What stands for the value in help texts.
    word
        What is written behind the mode in place of the name (`kiter:k=3`); empty: the name, with
        dashes for underscores.
    shared
        Whether it is an option of commands (`--registers`), for all modes that declare it.
    least, greatest
        Bounds of a number, inclusive; None: none.
    default_text
        What help texts say of the default; empty: the default itself.
    fallback
        The value where none is given behind the mode, as a function of the values of the scheme's
        other options; None: the default.
    """

    name: str
    kind: type
    default: OptionValue
    help: str
    hint: str
    metavar: str | None = None
    word: str = ""
    shared: bool = False
    least: float | None = None
    greatest: float | None = None
    default_text: str = ""
    fallback: Callable[[Mapping[str, OptionValue]], OptionValue] | None = None

    @property
    def spelling(self) -> str:
        """How it is written behind a mode, and behind the dashes of a command's option."""
        return self.word or self.name.replace("_", "-")

    def of(self, options: SchemeOptions) -> Any:
        """Return its value in `options`: an instance of `kind`."""
        value = options.given(self.name)
        return self.default if value is None else value

    def fits(self, value: OptionValue) -> bool:
        """Whether a value of the right type is within the bounds; not-a-number is not."""
        if self.least is None and self.greatest is None:
            return True
        number = float(value)
        above = self.least is None or self.least <= number
        return above and (self.greatest is None or number <= self.greatest)


def plain(value: OptionValue) -> OptionValue:
    """Return the value of an option as files and reports show it: text for that of an enum."""
    return str(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Loss:
    """Something that a scheme can lose, and how reports say so.

    Attributes
    ----------
    name
        Its key in `Reading.lost`: a number of events.
    about
        What the loss is about ("cold paths").
    text
        What became of the events ("counted together").
    unit
        What is counted, in the singular.
    of_paths
        Whether reports also give it as a share of all path executions.
    """

    name: str
    about: str
    text: str
    unit: str = "execution"
    of_paths: bool = False


@dataclass(frozen=True)
class PlanOrder:
    """What a planner is given.

    Attributes
    ----------
    cfg
        The routine.
    options
        What the user wants. `weights` and `edge_profile` of it are not read: they are
    weights
        edge weights by edge id, None for BL94's heuristic, and
    edge_counts
        an edge profile by edge id, for guided schemes.
    """

    cfg: ControlFlowGraph
    options: SchemeOptions
    weights: Sequence[float] | None = None
    edge_counts: Sequence[int] | None = None

    @property
    def table(self) -> CounterTable | None:
        """The kind of counter table that the user insists on, None where the planner chooses."""
        from simprof.profiler.plan.plan import CounterTable

        tables = {TableChoice.ARRAY: CounterTable.ARRAY, TableChoice.HASH: CounterTable.HASH}
        return tables.get(self.options.table)


def _no_costs(machine: MachineKind) -> Iterator[tuple[str, str]]:
    """No run-time routine with counted costs."""
    return iter(())


def _no_cost(machine: MachineKind, sizes: Mapping[str, int]) -> int:
    """Nothing besides the snippets."""
    return 0


def _no_slots(plan: RoutinePlan, layout: CounterLayout) -> tuple[BufferSlot, ...]:
    """No slots in buffers."""
    return ()


@dataclass(frozen=True)
class StreamBuffer:
    """A buffer that a scheme's code appends to, and a routine of its own writes when it is full.

    A rewritten program opens the file, says so in the buffer, and writes what is left at its end.

    Attributes
    ----------
    start, size
        Its address, and the bytes in it when it is written; one `sethi` makes where these end.
    position
        Bytes behind that end: the word with the units that were appended, less those of `size`.
    descriptor
        Bytes behind that end: the word with the file's descriptor.
    packing
        Symbol of the routine that code calls which appends bits; units are bytes without it.
    flush
        Instructions of a flush, its call included.
    """

    start: int
    size: int
    position: int
    descriptor: int
    packing: str
    flush: Callable[[MachineKind], int]

    @property
    def end(self) -> int:
        """Where it is full."""
        return self.start + self.size


@dataclass(frozen=True)
class SchemeCode:
    """A scheme's own SPARC code; the code of `plan.plan`'s actions is there already.

    Attributes
    ----------
    generators
        Kind of action -> its code.
    samples
        Kind of action -> the samples that the cost model's digest is made of.
    routines
        Run-time routines that the code calls.
    routine_costs
        For a machine, what is counted in these routines, by symbol, as text for the digest.
    callers
        Beginning of a run-time routine's symbol -> kinds of own actions whose code may call it.
    run_cost
        Instructions that a whole run adds besides snippets, of the run's `sizes`.
    slots
        Of a routine's plan and the layout of its counters: its slots in buffers, in the order of
        `InstrumentationPlan.slot_edges`.
    stream
        The buffer that its code appends to; None: it appends to none.
    """

    generators: Mapping[type, Generator] = field(default_factory=dict)
    samples: Mapping[type, Sequence[Samples]] = field(default_factory=dict)
    routines: tuple[Routines, ...] = ()
    routine_costs: Callable[[MachineKind], Iterator[tuple[str, str]]] = _no_costs
    callers: Mapping[str, tuple[type, ...]] = field(default_factory=dict)
    run_cost: Callable[[MachineKind, Mapping[str, int]], int] = _no_cost
    slots: Callable[[RoutinePlan, CounterLayout], tuple[BufferSlot, ...]] = _no_slots
    stream: StreamBuffer | None = None


def _no_limit(plan: RoutinePlan) -> int | None:
    return None


def _nothing(plan: RoutinePlan) -> dict[str, Any]:
    """Nothing but what every plan has."""
    return {}


def _dead_ones(options: SchemeOptions) -> RegisterUse:
    """Those that liveness says are dead."""
    return RegisterUse.LIVENESS


def _itself(plan: RoutinePlan) -> ControlFlowGraph:
    """The routine's own graph."""
    return plan.cfg


def _no_text(options: Mapping[str, object]) -> str:
    """Nothing beside the mode's name."""
    return ""


@dataclass(frozen=True, kw_only=True)
class SchemeDefinition:
    """One scheme.

    Attributes
    ----------
    mode
        Its name on command lines, in reports and in files.
    description
        What it does, with its source, in one line.
    collects
        The kind of its profile, or a function that tells it from the options of a measurement.
    plan
        The planner; None for a mode that instruments nothing.
    reads
        Common options that the planner reads: some of `PLANNING`.
    options
        Options of its own.
    guided
        Whether planning needs an edge profile of the routine.
    judged_by
        Mode whose exact profile says how good this one's is (TPP 5), measured beside it; None:
        it is exact.
    code
        Its own actions as SPARC code.
    describe
        What its plan was made from, for `static` of `simprof explain`.
    iterations
        How many iterations of a loop a path of a plan spans at most (k); None: no such limit.
    losses
        What it can lose.
    placed_on
        The graph whose blocks and edges a plan chose counters from.
    registers
        Which registers its code may take without saving them, of the options.
    setting_text
        What reports add to its name, of the options of a measurement (" with k = 2").
    scope
        What shares the state that its code keeps. Words and buffers are the program's.
    depends_on_order
        Whether its counters depend on the order of what different routines execute: as guards do
        (`plan.actions.Guard`). It then needs runs of its own program: recordings lack that order.
    estimates
        Whether what it reads of its counters is an estimate of what was executed, and not exact.
    """

    mode: str
    description: str
    collects: ProfileKind | Callable[[Mapping[str, object]], ProfileKind] = ProfileKind.EDGES
    plan: Callable[[PlanOrder], RoutinePlan] | None
    reads: tuple[str, ...] = ()
    options: tuple[SchemeOption, ...] = ()
    guided: bool = False
    judged_by: str | None = None
    code: Callable[[], SchemeCode] = SchemeCode
    describe: Callable[[RoutinePlan], dict[str, Any]] = _nothing
    iterations: Callable[[RoutinePlan], int | None] = _no_limit
    losses: tuple[Loss, ...] = ()
    placed_on: Callable[[RoutinePlan], ControlFlowGraph] = _itself
    registers: Callable[[SchemeOptions], RegisterUse] = _dead_ones
    setting_text: Callable[[Mapping[str, object]], str] = _no_text
    scope: StateScope = StateScope.ACTIVATION
    depends_on_order: bool = False
    estimates: bool = False

    def collected(self, options: Mapping[str, object] = MappingProxyType({})) -> ProfileKind:
        """Return the kind of the profile that it collects under a measurement's options."""
        return self.collects(options) if callable(self.collects) else self.collects

    @property
    def instruments(self) -> bool:
        """Whether it adds code at all."""
        return self.plan is not None

    @property
    def counts_paths(self) -> bool:
        """Whether its plans have path counters, and decode their numbers."""
        return self.collected() in (ProfileKind.PATHS, ProfileKind.ITERATION_PATHS)

    @property
    def writes_trace(self) -> bool:
        """Whether its plans write a trace."""
        return self.collected() is ProfileKind.TRACE

    def path_decoder(self, plan: RoutinePlan | None) -> PathDecoder | None:
        """Return `plan`, one of its own, as a decoder of paths; None where it counts none."""
        return cast("PathDecoder", plan) if plan is not None and self.counts_paths else None

    def trace_writer(self, plan: RoutinePlan | None) -> TraceWriter | None:
        """Return `plan`, one of its own, as a writer of a trace; None where it writes none."""
        return cast("TraceWriter", plan) if plan is not None and self.writes_trace else None

    def guided_decoder(self, plan: RoutinePlan | None) -> GuidedDecoder | None:
        """Return `plan`, one of its own, as guided by an edge profile; None where it is not."""
        return cast("GuidedDecoder", plan) if plan is not None and self.guided else None
