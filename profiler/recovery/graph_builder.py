"""The finished exploration as control-flow graphs.

Blocks are ordered by address, a slot block after an ordinary block of the same start. Edges:
those of ENTRY first (by address), then by block: fall-through, taken (or slot), call-return,
switch targets by address, exit.
"""

from __future__ import annotations

from typing import NamedTuple

from profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from profiler.recovery.exploration import Exploration, Flow
from profiler.recovery.routines import Routine
from simulator.isa.decode import TransferKind

_FALLS_OUT = Flow(TransferKind.NONE, leaves=True)

Extent = tuple[int, int, Flow]
"""(first word, last word without delay slot, flow) of an ordinary block."""


class Built(NamedTuple):
    """A graph and all that it was made from."""

    routine: Routine
    entries: set[int]
    extents: list[Extent]
    graph: ControlFlowGraph


def build_graph(
    exploration: Exploration, number: int, known: dict[int, Built] | None = None
) -> ControlFlowGraph:
    """Build the graph of routine `number`, which has at least one leader.

    Parameters
    ----------
    known
        Graphs of earlier explorations of the same program by the word where their routine starts,
        extended here. A routine that has not changed keeps its graph.
    """
    routine, entries = exploration.routine_map.routines[number], exploration.entries[number]
    extents = _extents(exploration, number)
    known = {} if known is None else known
    before = known.get(routine.start)
    if before is not None and before[:3] == (routine, entries, extents):
        return before.graph
    graph = _build(exploration, number, extents)
    known[routine.start] = Built(routine, entries, extents, graph)
    return graph


def _build(exploration: Exploration, number: int, extents: list[Extent]) -> ControlFlowGraph:
    routine = exploration.routine_map.routines[number]
    address = exploration.code.address
    lengths = {}
    for leader, last, flow in extents:
        lengths[2 * leader] = last - leader + 1 + flow.has_slot
        if flow.slot_block:
            lengths[2 * (last + 1) + 1] = 1
    names = sorted(lengths)
    ids = {name: block for block, name in enumerate(names)}
    blocks = tuple(
        Block(block, address(name >> 1), lengths[name], bool(name & 1))
        for block, name in enumerate(names)
    )
    edges = _edges(exploration, number, extents, ids)
    end = max(block.end for block in blocks)
    size = routine.size or max(4, end - address(routine.start))
    indirect = frozenset(ids[2 * leader] for leader, _, flow in extents if _is_indirect(flow))
    start = address(routine.start)
    return ControlFlowGraph(routine.name, start, size, blocks, tuple(edges), indirect)


def _extents(exploration: Exploration, number: int) -> list[Extent]:
    """The ordinary blocks, by address."""
    leaders = sorted(exploration.leaders[number])
    following = [*leaders[1:], 1 << 62]
    extents = []
    for leader, after in zip(leaders, following, strict=True):
        last = exploration.next_end[leader]
        _, end, _ = exploration.routine_map.region(leader)
        if after <= last and after < end:
            extents.append((leader, after - 1, Flow(TransferKind.NONE, fall=after)))
        elif last >= end:
            extents.append((leader, end - 1, _FALLS_OUT))
        else:
            extents.append((leader, last, exploration.flows[last]))
    return extents


def _edges(
    exploration: Exploration,
    number: int,
    extents: list[Extent],
    ids: dict[int, int],
) -> list[Edge]:
    """The edges; `ids` are the blocks' by twice their first word, plus 1 for slot blocks."""
    entry, leave = len(ids), len(ids) + 1
    edges: list[Edge] = []

    def connect(source: int, target: int, kind: EdgeKind) -> None:
        edges.append(Edge(len(edges), source, target, kind))

    start = exploration.routine_map.routines[number].start
    for index in sorted(exploration.entries[number], key=lambda i: (i != start, i)):
        connect(entry, ids[2 * index], EdgeKind.ENTRY)
    for leader, last, flow in extents:
        block = ids[2 * leader]
        if flow.fall >= 0:
            connect(block, ids[2 * flow.fall], EdgeKind.FALL_THROUGH)
        if flow.slot_block:
            slot = ids[2 * (last + 1) + 1]
            connect(block, slot, EdgeKind.SLOT)
            if flow.taken >= 0:
                connect(slot, ids[2 * flow.taken], EdgeKind.TAKEN)
            else:
                connect(slot, leave, EdgeKind.EXIT)
        elif flow.taken >= 0:
            connect(block, ids[2 * flow.taken], EdgeKind.TAKEN)
        if flow.call_return >= 0:
            connect(block, ids[2 * flow.call_return], EdgeKind.CALL_RETURN)
        for target in sorted(flow.switch):
            connect(block, ids[2 * target], EdgeKind.SWITCH)
        if _leaves(flow):
            connect(block, leave, EdgeKind.EXIT)
    return edges


def _leaves(flow: Flow) -> bool:
    """Whether the block itself has an exit edge."""
    if flow.slot_block:  # the taken side leaves from the slot block
        return flow.fall < 0
    goes_on = flow.fall >= 0 or flow.taken >= 0 or flow.call_return >= 0 or bool(flow.switch)
    return flow.leaves or not goes_on


def _is_indirect(flow: Flow) -> bool:
    """Whether control may go to a routine that the code does not name."""
    if flow.kind == TransferKind.JUMP:
        return _leaves(flow)
    return flow.kind in (TransferKind.INDIRECT_CALL, TransferKind.JUMP_AND_LINK)
