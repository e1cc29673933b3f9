"""The finished exploration as control-flow graphs.

Blocks are ordered by address, a slot block after an ordinary block of the same start. Edges:
those of ENTRY first (by address), then by block: fall-through, taken (or slot), call-return,
switch targets by address, exit.
"""

from __future__ import annotations

from profiler.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from profiler.exploration import Exploration, Flow
from simulator.decode import TransferKind

_FALLS_OUT = Flow(TransferKind.NONE, leaves=True)


def build_graph(exploration: Exploration, number: int) -> ControlFlowGraph:
    """Build the graph of routine `number`, which has at least one leader."""
    routine = exploration.layout.routines[number]
    address = exploration.code.address
    extents = _extents(exploration, number)
    slots = [flow_at + 1 for _, flow_at, flow in extents if flow.slot_block]
    names = [(leader, False) for leader, _, _ in extents] + [(slot, True) for slot in slots]
    ids = {name: number for number, name in enumerate(sorted(names))}
    lengths = {(slot, True): 1 for slot in slots}
    for leader, last, flow in extents:
        lengths[leader, False] = last - leader + 1 + (1 if flow.has_slot else 0)
    blocks = tuple(
        Block(ids[name], address(name[0]), lengths[name], name[1]) for name in sorted(names)
    )
    edges = _edges(exploration, number, extents, ids)
    end = max(block.end for block in blocks)
    size = routine.size or max(4, end - address(routine.start))
    return ControlFlowGraph(routine.name, address(routine.start), size, blocks, tuple(edges))


def _extents(exploration: Exploration, number: int) -> list[tuple[int, int, Flow]]:
    """(first word, last word without delay slot, flow) of every ordinary block, by address."""
    leaders = sorted(exploration.leaders[number])
    following = [*leaders[1:], 1 << 62]
    extents = []
    for leader, after in zip(leaders, following, strict=True):
        last = exploration.next_end[leader]
        _, end, _ = exploration.layout.region(leader)
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
    extents: list[tuple[int, int, Flow]],
    ids: dict[tuple[int, bool], int],
) -> list[Edge]:
    entry, leave = len(ids), len(ids) + 1
    edges: list[Edge] = []

    def connect(source: int, target: int, kind: EdgeKind) -> None:
        edges.append(Edge(len(edges), source, target, kind))

    start = exploration.layout.routines[number].start
    for index in sorted(exploration.entries[number], key=lambda i: (i != start, i)):
        connect(entry, ids[index, False], EdgeKind.ENTRY)
    for leader, last, flow in extents:
        block = ids[leader, False]
        if flow.fall >= 0:
            connect(block, ids[flow.fall, False], EdgeKind.FALL_THROUGH)
        if flow.slot_block:
            slot = ids[last + 1, True]
            connect(block, slot, EdgeKind.SLOT)
            if flow.taken >= 0:
                connect(slot, ids[flow.taken, False], EdgeKind.TAKEN)
            else:
                connect(slot, leave, EdgeKind.EXIT)
        elif flow.taken >= 0:
            connect(block, ids[flow.taken, False], EdgeKind.TAKEN)
        if flow.call_return >= 0:
            connect(block, ids[flow.call_return, False], EdgeKind.CALL_RETURN)
        for target in sorted(flow.switch):
            connect(block, ids[target, False], EdgeKind.SWITCH)
        if _leaves(flow):
            connect(block, leave, EdgeKind.EXIT)
    return edges


def _leaves(flow: Flow) -> bool:
    """Whether the block itself has an exit edge."""
    if flow.slot_block:  # the taken side leaves from the slot block
        return flow.fall < 0
    return flow.leaves or not any(True for _ in flow.successors())
