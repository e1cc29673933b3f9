"""Control-flow graphs: the one form in which routines travel through the profiler.

A graph is a directed multigraph with dense integer vertex ids: blocks are `0 .. n-1`, then
ENTRY is `n` and EXIT is `n + 1`. Edge ids are dense too. The order of a vertex's outgoing edges
is the order in which a depth-first search visits them: fall-through, taken, switch targets by
address (in a graph file: file order).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct


class EdgeKind(StrEnum):
    """Why control follows an edge (docs/SEMANTICS.md, edges)."""

    FALL_THROUGH = "fall-through"
    TAKEN = "taken"
    SWITCH = "switch"
    SLOT = "slot"  # annulled conditional branch -> its slot block
    CALL_RETURN = "call-return"
    ENTRY = "entry"
    EXIT = "exit"
    EARLY = "early"  # virtual edge to EXIT of activations that ended early; never in a graph
    # ENTRY -> where an exception or `longjmp` comes back into a routine: no call of it
    REENTRY = "re-entry"


ENTRIES = EdgeKind.ENTRY, EdgeKind.REENTRY  # Kinds of the edges out of ENTRY


class Block(NamedTuple):
    """A basic block; its identity is (start, is_slot)."""

    id: int
    start: int  # Its first instruction's address (graph files: its index)
    instructions: int  # How many one execution of the block executes
    is_slot: bool = False  # Whether it is the delay slot of an annulled conditional branch
    label: str | None = None  # Its name in graph files

    @property
    def end(self) -> int:
        """Address after the block's last instruction."""
        return self.start + 4 * self.instructions


class VertexName(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of a vertex."""

    start: int | str  # The block's start address (graph files: its label), or "ENTRY" or "EXIT".
    is_slot: bool = False  # Tells a slot block from the block that starts at the same address

    def __str__(self) -> str:
        start = self.start if isinstance(self.start, str) else f"{self.start:#x}"
        return f"slot {start}" if self.is_slot else start


ENTRY = VertexName("ENTRY")
EXIT = VertexName("EXIT")


def _name_of(block: Block) -> VertexName:
    return VertexName(block.start if block.label is None else block.label, block.is_slot)


class Edge(NamedTuple):
    """An edge between vertices `source` and `target`."""

    id: int
    source: int
    target: int
    kind: EdgeKind


def check_vertices(count: int, *ends: Sequence[int]) -> None:
    """Raise IndexError if edges lead from or to another vertex than these, from 0 on."""
    for each in ends:
        if each and not 0 <= min(each) <= max(each) < count:
            raise IndexError("edges between vertices that there are not")


def edges_by_vertex(count: int, ends: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """Return the ids of the edges at each of `count` vertices, ascending, of one end by edge id."""
    table: list[list[int]] = [[] for _ in range(count)]
    for edge, vertex in enumerate(ends):
        table[vertex].append(edge)
    return tuple(map(tuple, table))


def closure(starts: Iterable[int], onward: Callable[[int], Iterable[int]]) -> set[int]:
    """Return `starts` and all that can be reached from them; `onward` gives what follows one."""
    found = set(starts)
    work = list(found)
    while work:
        for other in onward(work.pop()):
            if other not in found:
                found.add(other)
                work.append(other)
    return found


class ControlFlowGraph(Struct, frozen=True, dict=True):
    """One routine."""

    name: str
    address: int  # 0 in graph files
    size: int  # In bytes; 0 in graph files
    blocks: tuple[Block, ...]
    edges: tuple[Edge, ...]
    # The blocks from which control goes to a routine that only the run tells
    indirect: frozenset[int] = frozenset()
    # Whether paths are numbered in the order of the edges, as in papers' figures
    ordered: bool = False

    def __repr__(self) -> str:
        """Return one line: its edges would fill a screen."""
        return (
            f"ControlFlowGraph(name={self.name!r}, blocks={len(self.blocks)}, "
            f"edges={len(self.edges)})"
        )

    @cached_property
    def entry(self) -> int:
        """Vertex id of ENTRY."""
        return len(self.blocks)

    @cached_property
    def exit(self) -> int:
        """Vertex id of EXIT."""
        return len(self.blocks) + 1

    @cached_property
    def vertex_count(self) -> int:
        """Blocks, ENTRY and EXIT."""
        return len(self.blocks) + 2

    @cached_property
    def ends(self) -> tuple[array[int], array[int]]:
        """Sources and targets by edge."""
        _, source, target, _ = zip(*self.edges, strict=True) if self.edges else ((),) * 4
        ends = array("q", source), array("q", target)
        check_vertices(self.vertex_count, *ends)
        return ends

    @cached_property
    def out_edges(self) -> tuple[tuple[int, ...], ...]:
        """Outgoing edge ids by vertex, in depth-first visiting order."""
        return edges_by_vertex(self.vertex_count, self.ends[0])

    @cached_property
    def in_edges(self) -> tuple[tuple[int, ...], ...]:
        """Incoming edge ids by vertex."""
        return edges_by_vertex(self.vertex_count, self.ends[1])

    def targets(self, vertex: int) -> Iterator[int]:
        """Yield where the edges of a vertex lead."""
        return (self.edges[edge].target for edge in self.out_edges[vertex])

    def sources(self, vertex: int) -> Iterator[int]:
        """Yield where the edges to a vertex come from."""
        return (self.edges[edge].source for edge in self.in_edges[vertex])

    def names(self) -> list[VertexName]:
        """Return `name_of` of all vertices."""
        return [*map(_name_of, self.blocks), ENTRY, EXIT]

    def name_of(self, vertex: int) -> VertexName:
        """Return the name of a vertex, as profiles, reports and messages give it."""
        if vertex == self.entry:
            return ENTRY
        if vertex == self.exit:
            return EXIT
        return _name_of(self.blocks[vertex])


KEPT = 16  # Graphs whose results are remembered, for each function

Function = TypeVar("Function", bound=Callable[..., Any])


# Schemes plan one routine after the other, each routine under all schemes, and each of them begins
# with the same searches of the same graph. Graphs and searches are large and never change, so they
# are distinguished by identity; only the last few are kept, so that memory does not grow with the
# program.
def remembers_recent(function: Function) -> Function:
    """Return `function`, which takes values that never change and is a function of them alone."""
    # Its last `KEPT` results are remembered by the identity of all positional arguments.
    known: OrderedDict[tuple[int, ...], tuple[tuple[Any, ...], Any]] = OrderedDict()
    latest: tuple[Any, Any] = (known, None)  # the last of a single argument

    @wraps(function)
    def remembered(*arguments: Any, **options: Any) -> Any:
        nonlocal latest
        if len(arguments) == 1 and arguments[0] is latest[0] and not options:
            return latest[1]
        if options:
            return function(*arguments, **options)
        key = tuple(map(id, arguments))
        found = known.get(key)
        if found is None:
            # holding the arguments keeps their identities theirs
            found = known[key] = arguments, function(*arguments)
            if len(known) > KEPT:
                known.popitem(last=False)
        else:
            known.move_to_end(key)
        if len(arguments) == 1:
            latest = arguments[0], found[1]
        return found[1]

    return remembered  # type: ignore[return-value]
