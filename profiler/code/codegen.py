"""From plan to code: every edge's and block's actions as SPARC instructions, placed and priced.

1. `find_place` (in `places`) says where the code of each edge goes.
2. `choose_registers` picks the path registers: unused locals of a routine with a window, unused
   caller-saved registers of a leaf without calls; otherwise stack words (EPP 5.1).
3. `snippet_body` (in `snippets`) generates the actions with the registers that are free there.
   Code of a block goes wherever in the block it is cheapest.
4. `_finish` adds the jump of a stub. A price is the number of instructions executed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from profiler.code.block_code import BlockPlace, fold_slot_blocks, place_blocks
from profiler.code.context import ProgramContexts, RoutineContext
from profiler.code.generators import join, needs, snippet_body
from profiler.code.layout import STACK_REGISTERS, CounterLayout, CounterSpace
from profiler.code.places import find_place
from profiler.code.registers import LOCAL_ORDER, mask, members
from profiler.code.sites import Place, Where
from profiler.code.snippet_parts import (
    HASH_REGISTERS,
    Body,
    CounterAccess,
    Generators,
    Needs,
    PathRegister,
)
from profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from profiler.plan.actions import Action
from profiler.plan.plan import InstrumentationPlan
from simulator.binary.program import MachineKind
from simulator.isa import assembler as asm
from simulator.isa.assembler import Instruction

__all__ = [
    "CounterLayout",
    "CounterSpace",
    "ProgramContexts",
    "RoutineCode",
    "RoutineContext",
    "Snippet",
    "choose_registers",
    "generate",
]

STACK = "stack"


@dataclass(frozen=True)
class Snippet:
    """The code of one edge, or of one block.

    Attributes
    ----------
    instructions
        In order; calls and the jump name their targets (`assembler.Fixup`): `hash_count`,
        `hash_count_back` and other routines of `runtime`, `block.N` for the top of block N, `exit`
        behind an EXIT edge.
    cost
        Instructions executed each time the edge is crossed or the block executed; those inside
        the hashing routine are not among them (`hash_routine.hash_costs`).
    where
        A `Where` value: "source-end", "target-top", "fall-through", "stub", "block".
    jump_cost
        How many of `cost` the jump takes: 0, 1, or 2 where its delay slot holds a nop.
    block, position
        Emission puts the code before this instruction of this block; None for code between blocks.
    hash_calls
        Calls of the hashing routine each time the edge is crossed.
    taken_cost
        Instructions that the conditional part adds each time it is executed
        (`plan.Execution.take`).
    actions
        What the code does.
    elsewhere
        How many of `cost` are executed in run-time routines other than the hashing one.
    """

    instructions: tuple[Instruction, ...]
    cost: int
    where: str
    jump_cost: int
    block: int | None
    position: int | None
    hash_calls: int
    taken_cost: int = 0
    actions: tuple[Action, ...] = ()
    elsewhere: int = 0

    @property
    def text(self) -> tuple[str, ...]:
        """The instructions in assembler syntax."""
        return tuple(instruction.text for instruction in self.instructions)


@dataclass(frozen=True)
class RoutineCode:
    """The instrumentation code of one routine under one plan.

    Attributes
    ----------
    snippets
        Edge id -> code; edges without actions are absent. What slot blocks do is done on the edge
        into them (`block_code`).
    path_register
        Assembler name of the path register, "stack", or None where the plan uses none; several
        are separated by commas.
    static_instructions, code_bytes
        Size of all snippets.
    block_snippets, block_end_snippets
        Block id -> code of `plan.blocks`, of `plan.block_ends`.
    layout
        Where the counters are.
    """

    snippets: Mapping[int, Snippet]
    path_register: str | None
    static_instructions: int
    code_bytes: int
    block_snippets: Mapping[int, Snippet] = field(default_factory=dict)
    block_end_snippets: Mapping[int, Snippet] = field(default_factory=dict)
    layout: CounterLayout = field(default_factory=CounterLayout)

    @property
    def count(self) -> int:
        """Number of snippets."""
        return len(self.snippets) + len(self.block_snippets) + len(self.block_end_snippets)


class WordsNeededError(Exception):
    """Path registers need `count` words of memory beside the stack (`CounterLayout.words`)."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def generate(
    cfg: ControlFlowGraph,
    plan: InstrumentationPlan,
    context: RoutineContext,
    layout: CounterLayout,
    generators: Generators,
) -> RoutineCode:
    """Generate the code of `plan`. `pricing.Pricer` is the entry that also lays out the counters.

    Parameters
    ----------
    cfg, plan
        A routine and what is to be done on its edges and blocks.
    context
        What is known of the routine's code.
    layout
        Where its counters are.
    generators
        The code of all kinds of actions that the plan has.

    Raises
    ------
    AssemblyError
        There is no code for an action, or it needs more registers than there are.
    WordsNeededError
        The layout has too few words for path registers.
    """
    folded, blocks, block_ends = fold_slot_blocks(cfg, plan, context.shared_slots)
    actions = {**folded, **dict.fromkeys(runs_into_code(cfg, folded, context), ())}
    needed = {
        edge: needs(actions[edge], plan.table, context.machine, generators) for edge in actions
    }
    places = {edge: _place(cfg, edge, needed[edge], context) for edge in sorted(actions)}
    access = _access(plan, needed, places, context, layout, generators)
    snippets = {}
    for edge, place in places.items():
        body = snippet_body(actions[edge], access, place.site)
        shares = place.edge != edge and place.edge in places
        snippets[edge] = _finish(cfg, place, body, not shares, actions[edge])
    tops, ends = place_blocks(cfg, (blocks, block_ends), places.values(), access)
    block_snippets = {block: _block_snippet(place) for block, place in tops.items()}
    block_end_snippets = {block: _block_snippet(place) for block, place in ends.items()}
    everything = (*snippets.values(), *block_snippets.values(), *block_end_snippets.values())
    size = sum(len(snippet.instructions) for snippet in everything)
    names = [STACK if r is None else r.text for r in access.registers]
    name = ", ".join(dict.fromkeys(names)) if plan.uses_register else None
    return RoutineCode(snippets, name, size, 4 * size, block_snippets, block_end_snippets, layout)


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
) -> Place:
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
    places: Mapping[int, Place],
    context: RoutineContext,
    layout: CounterLayout,
    generators: Generators,
) -> CounterAccess:
    """Choose the path registers."""
    table, addressing = plan.table, plan.addressing
    if not plan.uses_register:
        return CounterAccess(table, addressing, layout, None, context, generators)
    using = [place for edge, place in places.items() if needed[edge].path]
    together = join(needed[edge] for edge in places)
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
    count: int, places: Iterable[Place], clobbered: int, context: RoutineContext
) -> tuple[PathRegister, ...]:
    """Return the registers that hold the path state, None for each that must live on the stack.

    Parameters
    ----------
    count
        How many are needed.
    places
        Where the code goes that uses them.
    clobbered
        Registers that calls of the code destroy.
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


def _finish(
    cfg: ControlFlowGraph, place: Place, body: Body, jumps: bool, actions: tuple[Action, ...]
) -> Snippet:
    """Add the jump of a stub; its delay slot takes the last instruction where that is legal."""
    code, jump_cost = list(body.instructions), 0
    if place.where is Where.STUB and jumps:
        target = cfg.edges[place.edge].target
        jump = asm.branch("a", "exit" if target == cfg.exit else f"block.{target}")
        filled = bool(code) and not body.open_end and not _is_pinned(code)
        code[-1:] = [jump, code[-1]] if filled else [*code[-1:], jump, asm.nop()]
        jump_cost = 1 if filled else 2
    return Snippet(
        tuple(code),
        body.cost + jump_cost,
        place.where,
        jump_cost,
        place.block,
        place.position,
        body.hash_calls,
        body.taken_cost,
        actions,
        body.elsewhere,
    )


def _block_snippet(place: BlockPlace) -> Snippet:
    body = place.body
    return Snippet(
        body.instructions,
        body.cost,
        Where.BLOCK,
        0,
        place.block,
        place.position,
        body.hash_calls,
        body.taken_cost,
        place.actions,
        body.elsewhere,
    )


def _is_pinned(code: list[Instruction]) -> bool:
    """Whether the last instruction cannot move: it is a transfer or in a delay slot."""
    return code[-1].is_transfer or (len(code) > 1 and code[-2].is_transfer)
