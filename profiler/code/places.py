"""Places for the code of edges, and the jumps that they cost (BL94 6.3).

Rules, the first that fits:

1. an entry edge: at the top of its target (behind its `save`) if that has no other
   predecessor, else in line before it;
2. a call-return edge: at the return point, where the callee returns to: at the top of the
   target if it has no other predecessor, else in line before it;
3. the source has one successor: at the end of the source, before its transfer and delay slot;
4. the target has one predecessor: at the top of the target;
5. a fall-through edge: in line between the two;
6. otherwise out of line: in line before the target, jumped over by what runs on into that, or
   in a stub, reached in place of the target and left by a jump (`place_edges`).

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

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from simprof.profiler.code.blocks import BARRED, NO_EDGE
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import EdgePlace, Site, Where
from simprof.profiler.code.snippet_parts import Body, CounterAccess
from simprof.profiler.code.snippets import JUMP, Snippet, like_bodies, like_body, needs_of
from simprof.profiler.code.stolen import end_of
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.plan.actions import Action
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.request.request import CodeLayout


def find_place(cfg: ControlFlowGraph, edge_id: int, context: RoutineContext) -> EdgePlace:
    """Return where code for edge `edge_id` goes (module docstring, `sites_kernel.place`)."""
    return context.places(cfg, (edge_id,))[edge_id]


# -- Before the target, or in a stub
#
# One edge's code can stand in line before a block's label: transfers along that edge are sent to
# the code, which runs on into the block and needs no jump. What ran on into the block jumps over
# the code instead.


class LayoutRule(NamedTuple):
    """How to choose between stubs and places before targets."""

    layout: CodeLayout = CodeLayout.BEST
    weights: Sequence[float] = ()  # By edge id; none: all edges are alike

    def weight(self, edge: int) -> float:
        """How often control is expected to come along an edge."""
        return self.weights[edge] if self.weights else 0.0


NO_WEIGHTS = LayoutRule()


class PlacedEdges(NamedTuple):
    """Where the code of edges goes."""

    # By edge, those that have nothing but a jump included
    places: Mapping[int, EdgePlace]
    jumping: frozenset[int]  # Edges whose code ends with a jump of its own


def place_edges(
    cfg: ControlFlowGraph, actions: Collection[int], context: RoutineContext, rule: LayoutRule
) -> PlacedEdges:
    """Return where the code of the edges `actions` goes."""
    edges, running = cfg.edges, context.places_of(cfg).running
    stub, falling = Where.STUB, Where.FALL_THROUGH
    coded = {*actions, *runs_into_code(cfg, actions, context)}
    places = context.places(cfg, sorted(coded))
    leaving = {place.edge for place in places.values() if place.where is stub}
    if not leaving:
        return PlacedEdges(places, frozenset())
    # Code of an entry that stands before a block takes that place.
    in_line = (edge for edge, place in places.items() if place.where is falling)
    entered = {edges[edge].target for edge in in_line if edges[edge].source == cfg.entry}
    by_target: dict[int, list[int]] = {}
    for edge in sorted(leaving):
        by_target.setdefault(edges[edge].target, []).append(edge)
    before: set[int] = set()
    jumping_over: list[int] = []
    for target, stubs in by_target.items():
        into = BARRED if target in entered or target == cfg.exit else running[target]
        over = () if into == NO_EDGE else (into,)
        chosen = None if into == BARRED else _choose(stubs, over, rule)
        if chosen is not None:
            before.add(chosen)
            jumping_over += over
    leaving.update(jumping_over)
    places |= context.places(cfg, jumping_over)
    leaving -= before
    jumping = {
        edge
        for edge, place in places.items()
        if place.edge in leaving and (place.edge == edge or place.edge not in places)
    }
    if before:
        for edge, place in places.items():
            if place.edge in before:
                places[edge] = place._replace(where=Where.BEFORE_TARGET)
        places = dict(sorted(places.items()))
    return PlacedEdges(places, frozenset(jumping))


def _choose(stubs: Sequence[int], running: Sequence[int], rule: LayoutRule) -> int | None:
    """Return the edge whose code stands before its target; None: none of `stubs` does."""
    if rule.layout is CodeLayout.STUBS:
        return None
    weight = rule.weight
    chosen = stubs[0] if len(stubs) == 1 else max(stubs, key=lambda edge: (weight(edge), -edge))
    saved = JUMP * (weight(chosen) - sum(map(weight, running)))
    return chosen if rule.layout is CodeLayout.BEFORE_TARGET or saved > 0 else None


def runs_into_code(
    cfg: ControlFlowGraph, actions: Collection[int], context: RoutineContext
) -> list[int]:
    """Return edges without code out of shared slots that would run into another edge's code."""
    # A branch with its slot falls through into the block that the slot by itself falls into. Code
    # of the former edge stands in line between them, so the latter needs a copy of the slot, too.
    behind = {
        cfg.edges[edge].target
        for edge in (actions if context.shared_slots else ())
        if find_place(cfg, edge, context).where is Where.FALL_THROUGH
    }
    onward = (edge for slot in sorted(context.shared_slots) for edge in cfg.out_edges[slot])
    return [
        edge
        for edge in onward
        if edge not in actions
        and cfg.edges[edge].kind is EdgeKind.FALL_THROUGH
        and cfg.edges[edge].target in behind
    ]


Actions = Mapping[int, tuple[Action, ...]]


# -- Code of blocks
#
# A block is executed as a whole, so it does not matter to a counter where in the block its code
# stands, but to its price: elsewhere other registers are dead. Code stays between what is done on
# the edge into the block and on the edge out of it where these have their code in the block, and
# before the block's control transfer. Code of `plan.block_ends` stands behind that of
# `plan.blocks`.
#
# A slot block is a delay slot's instruction: nothing can stand before it in line. Its actions are
# those of the edge into it, behind the edge's own. Those of a delay slot that branches lead to as
# well (`RoutineContext.shared_slots`) are those of the edge out of it.


def fold_slot_blocks(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, shared: frozenset[int]
) -> tuple[Actions, Actions, Actions]:
    """Return the actions of edges, blocks and block ends, none of them of slots."""
    # `shared` are the slots that branches lead to.
    edges = {edge: tuple(actions) for edge, actions in plan.actions.items() if actions}
    kept: list[dict[int, tuple[Action, ...]]] = []
    for at_blocks in (plan.blocks, plan.block_ends):
        blocks = {block: tuple(actions) for block, actions in at_blocks.items() if actions}
        for block in [b for b in sorted(blocks) if cfg.blocks[b].is_slot]:
            actions = blocks.pop(block)
            for edge in cfg.in_edges[block]:
                edges[edge] = (*edges.get(edge, ()), *actions)
        kept.append(blocks)
    for block in sorted(shared):
        own = (*kept[0].pop(block, ()), *kept[1].pop(block, ()))
        for edge in cfg.out_edges[block] if own else ():
            edges[edge] = (*own, *edges.get(edge, ()))
    return edges, kept[0], kept[1]


def place_blocks(
    cfg: ControlFlowGraph,
    at_blocks: tuple[Actions, Actions],
    edge_places: Iterable[EdgePlace],
    access: CounterAccess,
) -> tuple[dict[int, Snippet], dict[int, Snippet]]:
    """Return the blocks' code and the block ends' code, each at its cheapest place."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place in edge_places:
        if place.block is not None and place.position is not None:
            bounds = first if place.where is Where.TARGET_TOP else last
            bounds[place.block] = place.position
    tops: dict[int, Snippet] = {}
    ends: dict[int, Snippet] = {}
    if not any(at_blocks):
        return tops, ends
    for actions_at, places in zip(at_blocks, (tops, ends), strict=True):
        coded = sorted(actions_at.items())
        of_blocks = (actions for _, actions in coded)
        needed = needs_of(of_blocks, access.table, access.machine, access.generators)
        for (block, actions), needs in zip(coded, needed, strict=True):
            start = tops[block].place.position or 0 if places is ends and block in tops else 0
            start = max(start, first.get(block, 0))
            end = _last_position(access.context, block)
            if needs.at_transfer:
                start = max(start, end_of(access.context, block))
            elif places is tops and access.context.spilled:
                end = start  # what the block itself does with its registers comes behind
            elif block in last:
                end = min(end, last[block])
            places[block] = _cheapest(block, range(start, max(start, end) + 1), actions, access)
    return tops, ends


def _last_position(context: RoutineContext, block: int) -> int:
    if context.analysis is None:
        return 0
    code = context.analysis.liveness.blocks[block]
    return max(code.count - 1, 0) if code.transfer is None else code.transfer


def _cheapest(
    block: int, positions: range, actions: tuple[Action, ...], access: CounterAccess
) -> Snippet:
    context = access.context
    sites = (context.free_site,) if context.analysis is None else context.sites(block)
    at, *others = positions
    least, body = like_bodies(((actions, context.free_site), (actions, sites[at])), access)
    for position in others:
        if body.cost <= least.cost:
            break
        other = like_body(actions, access, sites[position])
        if other.cost < body.cost:
            at, body = position, other
    return block_snippet(block, at, sites[at], actions, access, body)


def block_snippet(
    block: int,
    position: int,
    site: Site,
    actions: tuple[Action, ...],
    access: CounterAccess,
    like: Body,
) -> Snippet:
    """Return the code before instruction `position` of block `block`."""
    return Snippet(EdgePlace(Where.BLOCK, -1, block, position, site), actions, access, like)
