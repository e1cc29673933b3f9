"""Code of blocks: anywhere in the block, where it is cheapest.

A block is executed as a whole, so it does not matter to a counter where in the block its code
stands, but to its price: elsewhere other registers are dead. Code stays between what is done on
the edge into the block and on the edge out of it where these have their code in the block, and
before the block's control transfer. Code of `plan.block_ends` stands behind that of `plan.blocks`.

A slot block is a delay slot's instruction: nothing can stand before it in line. Its actions are
those of the edge into it, behind the edge's own. Those of a delay slot that branches lead to as
well (`RoutineContext.shared_slots`) are those of the edge out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from simprof.profiler.code.body_costs import BodyCost, cost_at, known_kind, needs_of
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import EdgePlace, Site, Where
from simprof.profiler.code.snippet_parts import CounterAccess
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import Action
from simprof.profiler.plan.plan import InstrumentationPlan

Actions = Mapping[int, tuple[Action, ...]]


@dataclass(frozen=True, slots=True)
class BlockCodePlace:
    """Code before instruction `position` of block `block`, at `site`."""

    block: int
    position: int
    site: Site
    actions: tuple[Action, ...]
    cost: BodyCost


def fold_slot_blocks(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, shared: frozenset[int]
) -> tuple[Actions, Actions, Actions]:
    """Return the actions of edges, blocks and block ends, none of them of slots.

    `shared` are the slots that branches lead to.
    """
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
) -> tuple[dict[int, BlockCodePlace], dict[int, BlockCodePlace]]:
    """Return the cheapest places of the blocks' code, and of the block ends' code."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place in edge_places:
        if place.block is not None and place.position is not None:
            bounds = first if place.where is Where.TARGET_TOP else last
            bounds[place.block] = place.position
    tops: dict[int, BlockCodePlace] = {}
    ends: dict[int, BlockCodePlace] = {}
    for actions_at, places in zip(at_blocks, (tops, ends), strict=True):
        for block, actions in sorted(actions_at.items()):
            start = tops[block].position if places is ends and block in tops else 0
            start = max(start, first.get(block, 0))
            end = _last_position(access.context, block)
            needed = needs_of(actions, access.table, access.machine, access.generators)
            if needed.at_transfer:
                start = max(start, end)
            elif block in last:
                end = min(end, last[block])
            places[block] = _cheapest(block, range(start, max(start, end) + 1), actions, access)
    return tops, ends


def _last_position(context: RoutineContext, block: int) -> int:
    """Return the last position in `block` that code can have."""
    if context.analysis is None:
        return 0
    code = context.analysis.liveness.blocks[block]
    return max(code.count - 1, 0) if code.transfer is None else code.transfer


def _cheapest(
    block: int, positions: range, actions: tuple[Action, ...], access: CounterAccess
) -> BlockCodePlace:
    """Return the first place where the code is cheapest."""
    kind = known_kind(actions, access)
    least = cost_at(access.context.free_site, actions, access, kind).cost
    best: BlockCodePlace | None = None
    for position, site in zip(positions, access.context.sites(block, positions), strict=True):
        cost = cost_at(site, actions, access, kind)
        if best is None or cost.cost < best.cost.cost:
            best = BlockCodePlace(block, position, site, actions, cost)
        if cost.cost <= least:
            break
    assert best is not None
    return best
