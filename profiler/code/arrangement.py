"""Where the code of a plan goes, and which registers hold its path state.

1. `find_place` (in `places`) says where the code of each edge goes.
2. `choose_registers` picks the path registers: unused locals of a routine with a window, unused
   caller-saved registers of a leaf without calls; otherwise stack words (EPP 5.1).
3. Code of a block goes wherever in the block it is cheapest (`block_code`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from simprof.profiler.code.block_code import BlockCodePlace, fold_slot_blocks, place_blocks
from simprof.profiler.code.body_costs import BodyCost, needs_of
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import EdgePlace, Where
from simprof.profiler.code.layout import STACK_REGISTERS, CounterLayout
from simprof.profiler.code.places import find_place
from simprof.profiler.code.registers import LOCAL_ORDER, mask, members
from simprof.profiler.code.snippet_parts import (
    HASH_REGISTERS,
    CounterAccess,
    Generators,
    Needs,
    PathRegister,
)
from simprof.profiler.code.writer import join
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.plan.actions import Action
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.simulator.binary.program import MachineKind

STACK = "stack"


class WordsNeededError(Exception):
    """Path registers need `count` words of memory beside the stack (`CounterLayout.words`)."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Where the code of a plan goes, and what it may use there."""

    cfg: ControlFlowGraph
    # actions, places: Edge -> what is done on it; where its code goes.
    actions: Mapping[int, tuple[Action, ...]]
    places: Mapping[int, EdgePlace]
    access: CounterAccess  # How code reaches path registers and counters
    # tops, ends: The code of blocks, of block ends.
    tops: Mapping[int, BlockCodePlace]
    ends: Mapping[int, BlockCodePlace]
    path_register: str | None  # See `RoutineCode`

    def jumps(self, edge: int) -> bool:
        """Whether the code of an edge ends with a jump of its own, out of line."""
        place = self.places[edge]
        return place.where is Where.STUB and not (place.edge != edge and place.edge in self.places)


def arrange(
    cfg: ControlFlowGraph,
    plan: InstrumentationPlan,
    context: RoutineContext,
    layout: CounterLayout,
    generators: Generators,
) -> Arrangement:
    """Choose places and registers for the code of `plan`.

    Parameters are those of `codegen.generate`, which raises the same.
    """
    folded, blocks, block_ends = fold_slot_blocks(cfg, plan, context.shared_slots)
    actions = {**folded, **dict.fromkeys(runs_into_code(cfg, folded, context), ())}
    table, machine = plan.table, context.machine
    needed = {edge: needs_of(actions[edge], table, machine, generators) for edge in actions}
    places = {edge: _place(cfg, edge, needed[edge], context) for edge in sorted(actions)}
    access = _access(plan, needed, places, context, layout, generators)
    tops, ends = place_blocks(cfg, (blocks, block_ends), places.values(), access)
    names = [STACK if r is None else r.text for r in access.registers]
    name = ", ".join(dict.fromkeys(names)) if plan.uses_register else None
    return Arrangement(cfg, actions, places, access, tops, ends, name)


def runs_into_code(
    cfg: ControlFlowGraph, actions: Collection[int], context: RoutineContext
) -> list[int]:
    """Return edges without code out of shared slots that would run into another edge's code.

    A branch with its slot falls through into the block that the slot by itself falls into. Code
    of the former edge stands in line between them, so the latter needs a copy of the slot, too.
    """
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


def _place(
    cfg: ControlFlowGraph,
    edge: int,
    needed: Needs,
    context: RoutineContext,
) -> EdgePlace:
    """Return where the code of an edge goes."""
    place = find_place(cfg, edge, context)
    if place.where is not Where.SOURCE_END or place.block is None or context.analysis is None:
        return place
    transfer = context.analysis.liveness.blocks[place.block].transfer
    if transfer is None or not needed.at_transfer:
        return place
    return replace(place, position=transfer, site=context.before(place.block, transfer))


def _access(
    plan: InstrumentationPlan,
    needed: Mapping[int, Needs],
    places: Mapping[int, EdgePlace],
    context: RoutineContext,
    layout: CounterLayout,
    generators: Generators,
) -> CounterAccess:
    """Choose the path registers."""
    table, addressing = plan.table, plan.addressing
    if not plan.uses_register:
        return CounterAccess(table, addressing, layout, None, context, generators)
    using = [place for edge, place in places.items() if needed[edge].path]
    together = join({id(piece): piece for piece in needed.values()}.values())
    clobbered = together.clobbers
    if together.conditions and context.machine is MachineKind.SPARCV8:
        clobbered = (*clobbered, *HASH_REGISTERS)  # by restoring condition codes
    first, *others = choose_registers(plan.registers, using, mask(*clobbered), context)
    registers = (first, *others)
    depths = {place.site.frame.depth for place in using}
    mixed = len(depths) > 1
    words = STACK_REGISTERS if depths == {1} else context.argument_words
    if registers.count(None) - words > layout.words:
        raise WordsNeededError(registers.count(None) - words)
    return CounterAccess(
        table, addressing, layout, first, context, generators, tuple(others), mixed, words
    )


def choose_registers(
    count: int, places: Iterable[EdgePlace], clobbered: int, context: RoutineContext
) -> tuple[PathRegister, ...]:
    """Return the registers that hold the path state, None for each that must live on the stack.

    - `count`: How many are needed.
    - `places`: Where the code goes that uses them.
    - `clobbered`: Registers that calls of the code destroy.
    """
    analysis = context.analysis
    if analysis is None:
        chosen: tuple[PathRegister, ...] = LOCAL_ORDER[:count]
        return (*chosen, *(None,) * (count - len(chosen)))
    sites = [place.site for place in places]
    taken = analysis.liveness.named | analysis.busy | clobbered
    for site in sites:
        taken |= site.live
    if analysis.frames.has_window:
        order = LOCAL_ORDER if all(site.frame.depth for site in sites) else ()
    else:
        order = () if analysis.liveness.makes_calls else context.abi.caller_saved
    chosen = tuple(members(~taken, order))[:count]
    return (*chosen, *(None,) * (count - len(chosen)))


def jump_of_stub(cost: BodyCost) -> int:
    """Return what the jump takes that leaves code out of line: 1, or 2 with a nop in its slot."""
    return 1 if cost.size and not cost.open_end and not cost.is_pinned else 2
