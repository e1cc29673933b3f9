"""Values that a run measured: edge profiles, path profiles, and the whole measurement.

A `RunMeasurement` is what `simprof run` produces and what a profile file holds; `storage` saves
and loads it, `combine` merges and compares. Counts are exact. Instruction counts are
user-mode instructions (docs/SEMANTICS.md, instructions).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self, cast

from msgspec import Struct, field

from simprof.profiler.graphs.cfg import (
    ENTRY,
    EXIT,
    Block,
    ControlFlowGraph,
    Edge,
    EdgeKind,
    VertexName,
)
from simprof.profiler.graphs.paths import PathEnd, PathPiece, PathRecord, PathStart
from simprof.profiler.plan.decoders import LoopLimit
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.profiler.profiles.calls import CallTree
from simprof.profiler.profiles.codec import written
from simprof.profiler.profiles.measures import Quality
from simprof.simulator.binary.program import MachineKind, Module, SourceLine
from simprof.simulator.errors import SimulatorError

Reason = Literal[
    "exit", "signal", "fault", "budget", "timeout", "interrupted", "refused", "deadlock"
]
Option = str | int | float | bool | None | tuple[str, ...]
# Begins the names of losses that an edge profile of another run says (`RunMeasurement.lost`).
INFERRED = "inferred_"
SIGINT = 2
BUDGET_STATUS = 124


class EdgeCount(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How often one edge was crossed."""

    source: VertexName
    target: VertexName
    kind: EdgeKind
    count: int
    instrumented: bool  # Whether a counter of the scheme sat on it
    # Instructions that the scheme's code on this edge executed in all, with the jump and the saves
    # that it needs, and without those of run-time routines that depend on the order of events
    # (`RoutineProfile.unplaced`)
    added: int = written(0)
    told: bool = True  # Whether the scheme's counters give the count

    @property
    def key(self) -> tuple[VertexName, VertexName, EdgeKind]:
        """Identity among the routine's edges, up to parallel edges of one kind."""
        return (self.source, self.target, self.kind)


class BlockCount(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How often one block was executed, and where its instructions are."""

    # start, is_slot: As in `VertexName`.
    start: int
    # How many instructions one execution of it executes, those at `start`, `start + 4`, ..
    instructions: int
    is_slot: bool
    delayed: bool  # Whether the last of them is in the delay slot of the one before it
    count: int  # How often it was entered
    # Instructions that the scheme's code of the block itself, which is on no edge, executed
    added: int
    told: bool = True  # Whether the scheme's counters give the count

    @property
    def end(self) -> int:
        """Address after the last instruction."""
        return self.start + 4 * self.instructions

    @property
    def name(self) -> VertexName:
        """As the edges name it."""
        return VertexName(self.start, self.is_slot)

    @property
    def transfer(self) -> int:
        """Address of the instruction after which control leaves the block."""
        return self.end - (8 if self.delayed else 4)


class CutBlock(Struct, frozen=True, forbid_unknown_fields=True):
    """Executions of a block that ended within it: by a fault, a signal, or the end of the run.

    Two say that a signal's handler stepped over an instruction: `count` executions ended before it,
    and -`count` behind it, as they went on there.
    """

    block: int  # Position in `RoutineProfile.block_counts`
    executed: int  # How many of its instructions each of them executed
    count: int  # How many there were; negative: how many went on there


class PathCount(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How often one path was executed."""

    id: int | None  # Path number (EPP 3.2); None where it has none (partial paths).
    count: int
    # What one execution of the path executes, delay slots included; of a partial one as far as it
    # came
    instructions: int
    blocks: tuple[int | str, ...]  # Start addresses (graph files: labels) in order
    slots: tuple[int, ...]  # Positions in `blocks` of slot blocks
    # The activation ended in the path's last block, so the path is a prefix of one or more.
    partial: bool
    edges: tuple[int, ...]  # Indices into the routine's `edge_counts` of the edges followed
    # The scheme has no counter for the path: the edge profile that guided it determines `count`.
    # Where that is of another run (`RunMeasurement.guide`), so is the count.
    inferred: bool = False
    # The scheme cuts paths at the edge where this one begins or ends, which is no back edge: it
    # also counts executions that would be parts of longer paths.
    shortened: bool = False
    # start, end: Why it starts and ends where it does; None: its profile was saved before that
    # was kept.
    start: PathStart | None = None
    end: PathEnd | None = None
    # Positions in `blocks` of the heads of collapsed loops, each of which stands for its loop
    collapsed: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        cfg: ControlFlowGraph,
        record: PathRecord,
        number: int | None,
        count: int,
        edges: tuple[int, ...],
        *,
        inferred: bool,
        shortened: bool = False,
        unexecuted: int = 0,  # How many instructions of its last block were not reached
    ) -> PathCount:
        """Return the count of a path of `cfg`."""
        blocks, start = [cfg.blocks[block] for block in record.blocks], record.start
        if start is PathStart.ENTRY and record.edges:
            again = cfg.edges[record.edges[0]].kind is EdgeKind.REENTRY
            start = PathStart.REENTRY if again else start
        return cls(
            number,
            count,
            record.instructions(cfg) - unexecuted,
            tuple(block.start if block.label is None else block.label for block in blocks),
            tuple(place for place, block in enumerate(blocks) if block.is_slot),
            record.partial,
            edges,
            inferred,
            shortened,
            start,
            record.end,
            record.collapsed,
        )

    @property
    def shape(self) -> tuple[object, ...]:
        """What two paths of a routine share that differ in their edges alone."""
        # The edges from ENTRY and to EXIT tell the other starts and ends.
        loop = self.start is PathStart.LOOP_ENTRY, self.end is PathEnd.LOOP_EXIT
        return (self.blocks, self.slots, self.collapsed, *loop, self.partial)


class Rows(Sequence[Any]):
    """A tuple that is made when it is first asked for, and is saved and sent as one."""

    def __init__(self, make: Callable[[], tuple[Any, ...]]) -> None:
        self._make = make

    @cached_property
    def _rows(self) -> tuple[Any, ...]:
        rows = self._make()
        self._make = lambda: rows  # what it was made of takes memory
        return rows

    def __getitem__(self, at: Any) -> Any:
        return self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return self._rows == (other._rows if isinstance(other, Rows) else other)

    def __hash__(self) -> int:
        return hash(self._rows)

    def __repr__(self) -> str:
        return repr(self._rows)

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        return tuple, (list(self),)


class RoutineProfile(
    Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, dict=True
):
    """Everything measured about one routine."""

    name: str
    address: int
    # The graph: its sizes, its potential paths before truncation, and how many edges that cut
    blocks: int
    edges: int
    back_edges: int
    irreducible: bool
    potential_paths: int
    cut_edges: int
    # How the scheme counts here
    table: CounterTable
    addressing: Addressing | None
    path_register: str | None  # A register name, "stack" or None
    activations: int  # How often the routine was entered, re-entries not counted
    added: int  # Instructions that the scheme's code executed here
    instructions: int  # The routine's own instructions executed, without its callees'
    edge_counts: tuple[EdgeCount, ...]
    path_counts: tuple[PathCount, ...]
    # By which other name the user selected it; None: by its own, or not at all.
    alias: str | None = written(None)
    block_counts: tuple[BlockCount, ...] = written(())  # By address
    # Executions of blocks that did not come to their end
    cut_blocks: tuple[CutBlock, ...] = written(())
    # numbered_paths: those that the scheme tells apart after truncation; None: it counts no paths.
    numbered_paths: int | None = None
    # How many iterations of a loop a path spans at most here (k of `kiter`)
    iterations: int | None = None
    limited_loops: tuple[LoopLimit, ...] = ()
    # Positions in `edge_counts` of the edges at which the scheme ends paths, back edges other than
    # self-loops excepted
    split_edges: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Return one line: its counts would fill a screen."""
        return (
            f"RoutineProfile(name={self.name!r}, activations={self.activations}, "
            f"instructions={self.instructions}, added={self.added})"
        )

    @classmethod
    def of_rows(
        cls,
        edge_counts: Callable[[], tuple[EdgeCount, ...]],
        block_counts: Callable[[], tuple[BlockCount, ...]],
        edge_addresses: Callable[[], Sequence[int]],
        **others: Any,
    ) -> Self:
        """Return a profile whose edge and block counts are made when they are first asked for.

        Most are not: a large program has a million of them, and a report shows a few.
        """
        rows: dict[str, Any] = {
            "edge_counts": Rows(edge_counts),
            "block_counts": Rows(block_counts),
        }
        made = cls(**others, **rows)
        made.__dict__["_edge_addresses"] = edge_addresses
        return made

    @property
    def ran(self) -> bool:
        """Whether anything of it was executed: some code is only reached by exceptions."""
        return self.activations > 0 or self.instructions > 0

    @cached_property
    def edge_addresses(self) -> Sequence[int]:
        """The instruction that the code of each edge is charged to, in the order of the edges."""
        # An edge into a slot block is charged to the annulled branch, one out of it to the slot's
        # instruction. It makes no difference whether the code stands at the end of the source, at
        # the top of the target, between the two, or in a stub.
        if (made := self.__dict__.get("_edge_addresses")) is not None:
            return cast(Sequence[int], made())
        left = {block.name: block.transfer for block in self.block_counts}
        entered = {block.name: block.start for block in self.block_counts}
        return [
            left[edge.source] if edge.source in left else entered.get(edge.target, self.address)
            for edge in self.edge_counts
        ]

    def graph(self) -> tuple[ControlFlowGraph, list[EdgeCount]]:
        """Return its graph, made again, with the counts of the graph's edges, by id."""
        return rebuilt_graph(self.name, self.address, self.block_counts, self.edge_counts)

    @property
    def key(self) -> tuple[int, str]:
        """Identity within the program (static functions may share a name)."""
        return (self.address, self.name)

    @property
    def unplaced(self) -> int:
        """Instructions among `added` that are known for the whole routine only."""
        # They execute in run-time routines that look up hash tables: how many depends on the order
        # of events.
        placed = sum(edge.added for edge in self.edge_counts)
        return self.added - placed - sum(block.added for block in self.block_counts)


def unplanned(
    name: str,
    address: int,
    blocks: Sequence[BlockCount] = (),
    edges: Sequence[EdgeCount] = (),
    *,
    activations: int = 0,
    instructions: int = 0,
) -> RoutineProfile:
    """Return a routine that no scheme has planned: it was never entered, or has no graph."""
    return RoutineProfile(
        name=name,
        address=address,
        blocks=len(blocks),
        edges=len(edges),
        back_edges=0,
        irreducible=False,
        potential_paths=0,
        cut_edges=0,
        table=CounterTable.NONE,
        addressing=None,
        path_register=None,
        activations=activations,
        added=0,
        instructions=instructions,
        edge_counts=tuple(edges),
        path_counts=(),
        block_counts=tuple(blocks),
    )


def rebuilt_graph(
    name: str, address: int, blocks: Sequence[BlockCount], edges: Iterable[EdgeCount]
) -> tuple[ControlFlowGraph, list[EdgeCount]]:
    """Return the graph of these blocks and edges; early ends are no edges of it."""
    made = tuple(
        Block(number, block.start, block.instructions, block.is_slot)
        for number, block in enumerate(blocks)
    )
    numbers = {block.name: number for number, block in enumerate(blocks)}
    numbers |= {ENTRY: len(made), EXIT: len(made) + 1}
    counted = [edge for edge in edges if edge.kind is not EdgeKind.EARLY]
    between = tuple(
        Edge(number, numbers[edge.source], numbers[edge.target], edge.kind)
        for number, edge in enumerate(counted)
    )
    return ControlFlowGraph(name, address, 0, made, between), counted


class FaultInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """Where and how a program faulted."""

    name: str
    pc: int  # The instruction that faulted, or the jump to where nothing can be executed
    address: int | None  # What it accessed or jumped to, where there is such a thing
    description: str
    routine: str | None = None
    offset: int = 0
    source: SourceLine | None = None


class RefusedCalls(Struct, frozen=True, forbid_unknown_fields=True):
    """A system call that was refused because simprof lacks the service."""

    name: str
    error: str  # Name of the errno that answered it
    count: int  # How often


class RefusalInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """The refused system call that ended a run (`--strict`), and where it was made."""

    name: str
    pc: int
    routine: str | None = None
    offset: int = 0
    source: SourceLine | None = None


class WaitInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a thread waits for ever: its number from 1 on, the system call, and the place."""

    thread: int
    name: str
    pc: int
    routine: str | None = None
    offset: int = 0
    source: SourceLine | None = None


class ThreadInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """A thread, numbered from 1 in the order of their starts, and what it has executed."""

    thread: int
    instructions: int


class Ending(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a run ended."""

    status: int  # The program's own exit status, 0 where it has none
    reason: Reason
    # What killed the program, or asked simprof to end (None: Ctrl-C)
    signal: int | None = written(None)
    fault: FaultInfo | None = written(None)
    refusal: RefusalInfo | None = written(None)
    # What each thread waits for at a deadlock
    waits: tuple[WaitInfo, ...] = ()

    @property
    def code(self) -> int:
        """The exit status that simprof passes on."""
        match self.reason:
            case "exit":
                return self.status
            case "budget" | "timeout":
                return BUDGET_STATUS
            case "interrupted":
                return 128 + (self.signal or SIGINT)
            case "refused" | "deadlock":  # simprof cannot go on
                return SimulatorError.exit_status
            case "signal" | "fault":
                return 128 + (self.signal or 0)


class Guide(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The profile that guided a scheme."""

    file: str | None  # The saved profile; None: the counts of the same run.
    same_run: bool  # Whether its counts are those of this run, in every routine that was entered
    # mode, added: The scheme that collects edge profiles, and the instructions that it would add to
    # this run; None where that is not known.
    mode: str | None = written(None)
    added: int | None = written(None)
    sha256: str | None = None  # Of the file
    # How many instructions at the run's beginning it is of; 0: of a whole run.
    first: int = 0
    of_paths: bool = False  # Whether it is a path profile

    @property
    def kind(self) -> str:
        """What reports call such a profile."""
        return "path profile" if self.of_paths else "edge profile"

    def __str__(self) -> str:
        """Return where its counts come from: "this same run", its beginning, or its file."""
        if self.first:
            return f"this run's first {self.first:,} instructions"
        return "this same run" if self.file is None else self.file


class ProgramInfo(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which program ran."""

    file: str
    sha256: str
    machine: MachineKind
    arguments: tuple[str, ...] = written(())  # As text, undecodable bytes escaped
    routines: int = written(0)  # How many routines it has, entered or not
    # What it had loaded, if it is dynamically linked
    modules: tuple[Module, ...] = ()


class Origin(Struct, frozen=True, forbid_unknown_fields=True):
    """Which simprof measured: its version, and that of its cost model."""

    simprof: str
    cost_model: str


class RunMeasurement(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One run (or several, merged) of one program under one scheme."""

    program: ProgramInfo
    # The scheme, and the options that shape its result
    mode: str
    options: Mapping[str, Option]
    ending: Ending
    base: int  # Instructions of the uninstrumented run
    added: int  # Instructions that the scheme's code would have executed besides
    # Totals by name: `path_increments`, `hashed_increments`, `edge_increments`, `blocks`,
    # `transfers`, `unattributed_transfers`, `unattributed_instructions`, ...
    counts: Mapping[str, int]
    # By address. A routine without activations has counts of zero.
    routines: tuple[RoutineProfile, ...]
    warnings: tuple[str, ...] = written(())  # What the reader of the numbers must know, a line each
    # Whether the run was cut short, so that this is a profile of its beginning
    partial: bool = written(False)
    # Block start address -> source line, where the program has line information
    lines: Mapping[int, SourceLine] = written({})
    runs: int = written(1)  # How many runs were merged
    # What the scheme takes, by name: `counter_bytes`, `snippets` (instrumentation sites),
    # `code_bytes` (theirs, without run-time routines), and where it writes a trace `trace_bits` and
    # `minimal_trace_bits` (with witnesses of as few bits as their number allows), `address_bits`
    sizes: Mapping[str, int] = written({})
    # What the scheme is known to have lost, by name: `cold_paths`, `unknown_edges`, and where a
    # path profile is judged by an exact one `flow_blocks`, `overcounted_blocks` and
    # `undercounted_blocks` (`measures.Attribution`). What an edge profile of another run says has a
    # name of its own: `inferred_cold_paths`, `inferred_overcounted_paths`.
    lost: Mapping[str, int] = written({})
    # System calls that were refused because simprof lacks the service, by name
    refused_calls: tuple[RefusedCalls, ...] = written(())
    # What was executed in each calling context, where that was asked for
    call_tree: CallTree | None = written(None)
    # The program's threads, where it had more than one
    threads: tuple[ThreadInfo, ...] = ()
    # The edge profile that guided the scheme, where one did
    guide: Guide | None = None
    origin: Origin | None = None  # Which simprof measured
    # Of the file that was its standard input; None: that was simprof's own.
    input_sha256: str | None = None
    # How good the profile is, where a true one of the same run judges it
    quality: Quality | None = None
    # Of `pp`: how good as a path profile the edge profile of the same run is
    edge_quality: Quality | None = None
    # What the run showed that the program's file does not: the fields of `recovery.Discoveries`, as
    # lists. The graphs follow from it and the file. None in profiles of earlier versions.
    discoveries: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """Return what the run was and what it cost: all counts would fill a screen many times."""
        return (
            f"Measurement(program={self.program.file!r}, mode={self.mode!r}, "
            f"base={self.base}, added={self.added})"
        )

    @property
    def overhead(self) -> float:
        """Added instructions per instruction of the uninstrumented run."""
        return self.added / self.base if self.base else 0.0

    def is_of_another_run(self, path: PathCount) -> bool:
        """Whether a path's count is one of the run that made the edge profile, not of this run."""
        return path.inferred and self.guide is not None and not self.guide.same_run

    def edge_profile(self) -> EdgeProfile:
        """Return the edge counts, and the paths for whom these guide, alone."""
        return EdgeProfile(
            {routine.key: routine.edge_counts for routine in self.routines},
            {routine.key: routine.path_counts for routine in self.routines},
        )


def _begun(routine: tuple[int, str], counts: Sequence[EdgeCount]) -> int:
    """Return how many acyclic paths one routine began, on the graph that its edges make."""
    if not any(edge.count for edge in counts):
        return 0
    from simprof.profiler.graphs.flow import unit_flow  # what reads no profile need not load it

    edges = [edge for edge in counts if edge.kind is not EdgeKind.EARLY]
    ends = (end for edge in edges for end in (edge.source, edge.target))
    names = [name for name in dict.fromkeys(ends) if name not in (ENTRY, EXIT)]
    numbers = {name: number for number, name in enumerate((*names, ENTRY, EXIT))}
    cfg = ControlFlowGraph(
        name=routine[1],
        address=routine[0],
        size=0,
        blocks=tuple(Block(number, number, 0) for number in range(len(names))),
        edges=tuple(
            Edge(number, numbers[edge.source], numbers[edge.target], edge.kind)
            for number, edge in enumerate(edges)
        ),
    )
    return unit_flow(cfg, [edge.count for edge in edges])


class EdgeProfile(Struct, frozen=True):
    """Edge counts by routine (address, name)."""

    routines: Mapping[tuple[int, str], tuple[EdgeCount, ...]]
    # The paths that were counted, where the scheme counts any
    paths: Mapping[tuple[int, str], tuple[PathCount, ...]] = field(default_factory=dict)

    @property
    def unit_flow(self) -> int:
        """How many acyclic paths the program began (`graphs.flow.unit_flow`)."""
        return sum(_begun(key, counts) for key, counts in self.routines.items())

    def __iter__(self) -> Iterator[tuple[tuple[int, str], EdgeCount]]:
        for key, counts in self.routines.items():
            for count in counts:
                yield key, count

    def counts_for(self, cfg: ControlFlowGraph) -> tuple[int, ...] | None:
        """Return counts by edge id of `cfg`, or None if the profile does not know the routine.

        Edges are matched by the names of their ends and their kind; parallel edges of one kind
        in order. Edges that the profile lacks were not known when it was taken: they count 0.
        """
        known = self.routines.get((cfg.address, cfg.name))
        if known is None:
            return None
        queues: dict[object, list[int]] = defaultdict(list)
        for count in reversed(known):
            queues[count.key].append(count.count)
        names = cfg.names()
        keys = [(names[source], names[target], kind) for _, source, target, kind in cfg.edges]
        return tuple(queues[key].pop() if queues[key] else 0 for key in keys)

    def path_counts_for(self, cfg: ControlFlowGraph) -> dict[PathPiece, int] | None:
        """Return the counts of finished paths by blocks and edges of `cfg`, or None if the profile
        does not know the routine.

        Paths over edges or blocks that `cfg` lacks are left out.
        """
        key = cfg.address, cfg.name
        if key not in self.paths:
            return None
        names = cfg.names()
        queues: dict[object, list[int]] = defaultdict(list)
        for edge, source, target, kind in reversed(cfg.edges):
            queues[names[source], names[target], kind].append(edge)
        ids = [queues[edge.key].pop() if queues[edge.key] else -1 for edge in self.routines[key]]
        blocks = {names[block.id]: block.id for block in cfg.blocks}
        found: dict[PathPiece, int] = {}
        for path in (path for path in self.paths[key] if not path.partial):
            edges = tuple(ids[edge] for edge in path.edges)
            named = (
                VertexName(start, place in path.slots) for place, start in enumerate(path.blocks)
            )
            through = tuple(blocks.get(name, -1) for name in named)
            if -1 not in (*edges, *through):
                found[through, edges] = found.get((through, edges), 0) + path.count
        return found
