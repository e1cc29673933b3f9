"""Where the code of an edge goes, and whether that costs a jump (BL94 6.3).

Rules, the first that fits:

1. an entry edge: at the top of its target (behind its `save`) if that has no other
   predecessor, else in line before it;
2. a call-return edge: at the return point, where the callee returns to: at the top of the
   target if it has no other predecessor, else in line before it;
3. the source has one successor: at the end of the source, before its transfer and delay slot;
4. the target has one predecessor: at the top of the target;
5. a fall-through edge: in line between the two;
6. otherwise a stub, reached in place of the target and left by a jump.

BL94's jump optimisation moves code from the outgoing to the incoming edge of a block that has one
of each. Rule 3 puts such code at the end of the block, where it never needs a jump, so nothing
is left for it but slot blocks, which are single delay-slot instructions: code cannot follow one
without leaving the line. Code of the edge into a slot block goes where that of the edge out of
it goes (behind the slot's instruction), and both share one stub and its jump.

A delay slot's instruction that is also the target of branches (`RoutineContext.shared_slots`) is
treated likewise: code of its own needs a copy of it out of line, which ends with a jump. A slot
block may lead to one: then the code of three edges shares one stub.
"""

from __future__ import annotations

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import EdgePlace, Where
from simprof.profiler.graphs.cfg import ControlFlowGraph, Edge, EdgeKind


def find_place(cfg: ControlFlowGraph, edge_id: int, context: RoutineContext) -> EdgePlace:
    """Return where code for edge `edge_id` goes (module docstring)."""
    known = context.places.get(edge_id)
    if known is None:
        known = context.places[edge_id] = _find(cfg, edge_id, context)
    return known


def _find(cfg: ControlFlowGraph, edge_id: int, context: RoutineContext) -> EdgePlace:
    edge = cfg.edges[edge_id]
    if edge.source == cfg.entry:
        return _entry_place(cfg, edge, context)
    if edge.source in context.shared_slots:
        return _between(cfg, edge, Where.STUB, context)
    into_shared = edge.target in context.shared_slots and _only_way_in(cfg, edge)
    if edge.kind is EdgeKind.SLOT or into_shared:
        (onward,) = cfg.out_edges[edge.target]
        return find_place(cfg, onward, context)
    if edge.kind is EdgeKind.CALL_RETURN:
        if _only_way_in(cfg, edge):
            return _top(edge, 0, context)
        return _between(cfg, edge, Where.FALL_THROUGH, context)
    if len(cfg.out_edges[edge.source]) == 1 and not cfg.blocks[edge.source].is_slot:
        position = context.end_position(edge)
        if position is not None:
            site = context.before(edge.source, position)
            return EdgePlace(Where.SOURCE_END, edge.id, edge.source, position, site)
    if edge.target != cfg.exit and _only_way_in(cfg, edge):
        return _top(edge, 0, context)
    where = Where.FALL_THROUGH if _falls_through(cfg, edge) else Where.STUB
    return _between(cfg, edge, where, context)


def _top(edge: Edge, position: int, context: RoutineContext) -> EdgePlace:
    site = context.before(edge.target, position)
    return EdgePlace(Where.TARGET_TOP, edge.id, edge.target, position, site)


def _between(cfg: ControlFlowGraph, edge: Edge, where: Where, context: RoutineContext) -> EdgePlace:
    return EdgePlace(where, edge.id, None, None, context.on_edge(cfg, edge))


def _only_way_in(cfg: ControlFlowGraph, edge: Edge) -> bool:
    return len(cfg.in_edges[edge.target]) == 1


def _entry_place(cfg: ControlFlowGraph, edge: Edge, context: RoutineContext) -> EdgePlace:
    if edge.target != cfg.exit and _only_way_in(cfg, edge):
        return _top(edge, context.entry_position(edge.target), context)
    in_line = len(cfg.out_edges[cfg.entry]) == 1 or not _is_fallen_into(cfg, edge.target)
    return _between(cfg, edge, Where.FALL_THROUGH if in_line else Where.STUB, context)


def _is_fallen_into(cfg: ControlFlowGraph, block: int) -> bool:
    """Whether the code before `block` runs on into it."""
    if block == cfg.exit or cfg.blocks[block].start == cfg.address:
        return False
    return any(_falls_through(cfg, cfg.edges[e]) for e in cfg.in_edges[block])


def _falls_through(cfg: ControlFlowGraph, edge: Edge) -> bool:
    if edge.kind is EdgeKind.EXIT:  # of a block with other edges: to another routine
        others = {cfg.edges[e].kind for e in cfg.out_edges[edge.source]} - {EdgeKind.EXIT}
        branches = others & {EdgeKind.TAKEN, EdgeKind.SLOT}
        is_last = bool(branches) or not others
        return is_last and EdgeKind.FALL_THROUGH not in others and not _is_slot(cfg, edge.source)
    return edge.kind in (EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)


def _is_slot(cfg: ControlFlowGraph, vertex: int) -> bool:
    return vertex < len(cfg.blocks) and cfg.blocks[vertex].is_slot
