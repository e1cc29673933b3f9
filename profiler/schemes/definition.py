"""The definition of a scheme: everything that the rest of simprof needs to know of it.

A scheme is a package with one `SchemeDefinition`. simprof's own are listed in `registry`; an
installed distribution brings more through the entry point group `simprof.schemes`, each entry
named as its mode. `docs/SCHEMES.md` walks through a small one.

The definition is what command lines, reports and help texts read, so importing it must be quick:
planners and code generators are imported inside the functions that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.request.request import (
    CodeLayout,
    OptionValue,
    RegisterUse,
    SchemeOptions,
    TableChoice,
)
from simprof.simulator.errors import UsageError

# -- Options
#
# Options of schemes: fields of one structure, with their help, their bounds and what they imply.
#
#     class Options(PathOptions):
#         cold = percentage(5.0, "percent of its source's executions below which an edge is cold.")
#
# The command line, grids of sweeps, suites, JSON, the API and `explain` read `Options.declared`. A
# planner reads its values: `Options(order.options).cold` is a number.


T = TypeVar("T", bound=OptionValue)
E = TypeVar("E", bound=StrEnum)
PLANNING = ("path_limit", "weights", "table")  # The common options that a planner of paths reads


class SchemeOption(Struct, Generic[T], frozen=True):
    """An option of a scheme's own: a field of its `Options`."""

    default: T  # Its value where none is given: an `int`, `float`, `bool`, `str` or `StrEnum`
    help: str  # What it means, for help texts, without the mode's name
    # What to write, for the message that refuses a value ("give a percentage from 0 to 100").
    hint: str
    metavar: str | None = None  # What stands for the value in help texts
    # What is written behind the mode in place of the field's name (`kiter:k=3`); empty: the name,
    # with dashes for underscores.
    word: str = ""
    # Whether it is an option of commands (`--registers`), for all modes that declare it.
    shared: bool = False
    # least, greatest: Bounds of a number, inclusive; None: none.
    least: float | None = None
    greatest: float | None = None
    pattern: str = ""  # What the whole of a text has to match; empty: anything
    default_text: str = ""  # What help texts say of the default; empty: the default itself
    # The value where none is given behind the mode, as a function of the structure with the values
    # of the other options; None: the default.
    implied: Callable[[Any], T] | None = None
    name: str = ""  # That of the field: in `SchemeOptions`, in settings and in JSON

    @overload
    def __get__(self, instance: None, owner: type[Options]) -> SchemeOption[T]: ...

    @overload
    def __get__(self, instance: Options, owner: type[Options]) -> T: ...

    def __get__(self, instance: Options | None, owner: type[Options]) -> SchemeOption[T] | T:
        """Return the value that a structure has, or the declaration."""
        return self if instance is None else self.of(instance.chosen)

    @property
    def kind(self) -> type[T]:
        """The type of its values."""
        return type(self.default)

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
        if self.pattern and not re.fullmatch(self.pattern, str(value)):
            return False
        above = self.least is None or self.least <= float(value)
        return above and (self.greatest is None or float(value) <= self.greatest)


def flag(help: str) -> SchemeOption[bool]:
    """Declare an option that is there or not."""
    return SchemeOption(False, help, "give true or false")


def choice(default: E, help: str, *, shared: bool = False) -> SchemeOption[E]:
    """Declare an option whose values are those of an enum."""
    return SchemeOption(default, help, f"give one of {', '.join(type(default))}", shared=shared)


def whole_number(
    default: int, help: str, least: int, greatest: int, hint: str = "", **more: Any
) -> SchemeOption[int]:
    """Declare an option that is a whole number; `hint`, `more`: members of `SchemeOption`."""
    hint = hint or f"give a whole number from {least} to {greatest}"
    return SchemeOption(default, help, hint, least=least, greatest=greatest, **more)


def percentage(default: float, help: str, **more: Any) -> SchemeOption[float]:
    """Declare an option that is a percentage; `more`: members of `SchemeOption`."""
    hint = "give a percentage from 0 to 100"
    return SchemeOption(default, help, hint, least=0, greatest=100, **more)


class Options:
    """What a user chose for one scheme; a scheme with options of its own extends it."""

    declared: ClassVar[tuple[SchemeOption[Any], ...]] = ()  # Its options, then those of its bases
    reads: ClassVar[tuple[str, ...]] = ()  # Common options that the planner reads, of `PLANNING`

    def __init__(self, chosen: SchemeOptions) -> None:
        self.chosen = chosen

    def __init_subclass__(cls) -> None:
        fields = ((n, each) for n, each in vars(cls).items() if isinstance(each, SchemeOption))
        own = {name: replace(each, name=name) for name, each in fields}
        for name, option in own.items():
            setattr(cls, name, option)
        bases = (each for base in cls.__bases__ for each in getattr(base, "declared", ()))
        inherited = {each.name: each for each in bases if each.name not in own}
        cls.declared = (*own.values(), *inherited.values())

    @property
    def register_use(self) -> RegisterUse:
        """Which registers code may take without saving them; UsageError where that cannot be."""
        return RegisterUse.LIVENESS

    @property
    def beginning(self) -> int:
        """How many instructions of the run give the edge profile that guides it; 0: all."""
        return 0


class EdgeOptions(Options):
    """Of schemes with code on edges (BL94 6.3)."""

    layout = choice(
        CodeLayout.BEST,
        "where code goes that would need a jump: after the routine, before its target, or "
        "whichever the weights say is cheaper.",
        shared=True,
    )


class RegisterOptions(EdgeOptions):
    """Of schemes whose registers the user chooses, too."""

    registers = choice(
        RegisterUse.LIVENESS,
        "registers that code uses without saving them. liveness: dead ones; scavenged: "
        "caller-saved ones that the routine never names; saved: none; stolen: two taken from the "
        "program (qpt, qpt2); spilled: dead ones, else the routine's least used local.",
        shared=True,
    )

    @property
    def register_use(self) -> RegisterUse:
        """See `Options`."""
        return self.registers


class PathOptions(RegisterOptions):
    """Of schemes whose state is in path registers, which steal none."""

    reads: ClassVar[tuple[str, ...]] = PLANNING

    @property
    def register_use(self) -> RegisterUse:
        """See `Options`."""
        if self.registers is RegisterUse.STOLEN:
            raise UsageError(
                "--registers stolen: only qpt and qpt2 steal registers: give liveness or spilled"
            )
        return self.registers


class VertexLimitOptions(PathOptions):
    """Of schemes that cut edges as `paths.truncated_dag` does."""

    per_vertex = flag("the path limit is each block's, not the routine's, as EPP 5.3 has it.")


LAYOUT = EdgeOptions.layout


# -- Definitions


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
        """Common options that the planner reads: some of `PLANNING`."""
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
