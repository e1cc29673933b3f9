"""From plan to code: every edge's actions as SPARC instructions, placed and priced.

1. `find_place` (in `places`) says where the code of each edge goes.
2. `choose_register` picks the path register: an unused local of a routine with a window, an unused
   caller-saved register of a leaf without calls; otherwise a stack word (EPP 5.1).
3. `snippet_body` (in `snippets`) generates the actions with the registers that are free there.
4. `_finish` adds the jump of a stub. A price is the number of instructions executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from profiler.cfg import ControlFlowGraph
from profiler.context import ProgramContexts, RoutineContext
from profiler.frames import Slot
from profiler.layout import CounterLayout, CounterSpace
from profiler.places import Place, Where, find_place
from profiler.plan import (
    Action,
    AddRegister,
    CountPath,
    InstrumentationPlan,
    SetRegister,
    Table,
)
from profiler.registers import LOCAL_ORDER, mask, members
from profiler.snippets import (
    HASH_REGISTERS,
    PATH_SLOT,
    Body,
    PathRegister,
    Scheme,
    snippet_body,
)
from simulator import assembler as asm
from simulator.assembler import Instruction, Register

__all__ = [
    "CounterLayout",
    "CounterSpace",
    "ProgramContexts",
    "RoutineCode",
    "RoutineContext",
    "Snippet",
    "choose_register",
    "generate",
]

STACK = "stack"


@dataclass(frozen=True)
class Snippet:
    """The code of one edge.

    Attributes
    ----------
    instructions
        In order; calls and the jump name their targets (`assembler.Fixup`): `hash_count`,
        `hash_count_back`, `block.N` for the top of block N, `exit` behind an EXIT edge.
    cost
        Instructions executed each time the edge is crossed; those inside the hashing routine are
        not among them (`hash_routine.hash_costs`).
    where
        A `Where` value: "source-end", "target-top", "fall-through", "stub".
    jump_cost
        How many of `cost` the jump takes: 0, 1, or 2 where its delay slot holds a nop.
    block, position
        Emission puts the code before this instruction of this block; None for code between blocks.
    hash_calls
        Calls of the hashing routine each time the edge is crossed.
    """

    instructions: tuple[Instruction, ...]
    cost: int
    where: str
    jump_cost: int
    block: int | None
    position: int | None
    hash_calls: int

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
        Edge id -> code; edges without actions are absent.
    path_register
        Assembler name of the register, "stack", or None where the plan uses none.
    static_instructions, code_bytes
        Size of all snippets.
    """

    snippets: Mapping[int, Snippet]
    path_register: str | None
    static_instructions: int
    code_bytes: int


def generate(
    cfg: ControlFlowGraph,
    plan: InstrumentationPlan,
    context: RoutineContext,
    layout: CounterLayout,
) -> RoutineCode:
    """Generate the code of `plan`.

    Parameters
    ----------
    cfg, plan
        A routine and what is to be done on its edges.
    context
        What is known of the routine's code.
    layout
        Where its counters are.
    """
    edges = sorted(edge for edge, actions in plan.actions.items() if actions)
    places = {edge: find_place(cfg, edge, context) for edge in edges}
    register = choose_register(plan, places, context)
    scheme = Scheme(plan.table, plan.addressing, layout, register, context)
    mixed = len({place.site.frame.depth for place in places.values()}) > 1
    snippets = {}
    for edge, place in places.items():
        slot = _path_slot(place, mixed, context)
        body = snippet_body(plan.actions[edge], scheme, place.site, slot)
        shares = place.edge != edge and place.edge in places
        snippets[edge] = _finish(cfg, place, body, jumps=not shares)
    size = sum(len(snippet.instructions) for snippet in snippets.values())
    name = None
    if plan.uses_register:
        name = STACK if register is None else register.text
    return RoutineCode(snippets, name, size, 4 * size)


def uses_register(action: Action) -> bool:
    """Whether `action` reads or writes the path register."""
    return isinstance(action, SetRegister | AddRegister | CountPath)


def choose_register(
    plan: InstrumentationPlan, places: Mapping[int, Place], context: RoutineContext
) -> PathRegister:
    """Return the register that holds the path number, None if it must live on the stack."""
    if not plan.uses_register:
        return None
    analysis = context.analysis
    if analysis is None:
        return Register.L0
    sites = [
        places[edge].site
        for edge, actions in plan.actions.items()
        if any(uses_register(action) for action in actions)
    ]
    taken = analysis.liveness.named | analysis.busy
    for site in sites:
        taken |= site.live
    hashing = plan.table is Table.HASH
    if analysis.frames.has_window:
        order = LOCAL_ORDER if all(site.frame.depth for site in sites) else ()
    else:
        order = () if analysis.liveness.makes_calls else context.abi.caller_saved
    taken |= mask(*HASH_REGISTERS) if hashing else 0
    return next(members(~taken, order), None)


def _path_slot(place: Place, mixed: bool, context: RoutineContext) -> Slot:
    """Return the stack word of the path register.

    Where code is needed both inside and outside the routine's window it must be in the caller's
    frame, which both can reach.
    """
    slot = place.site.slots[PATH_SLOT]
    if not mixed or not place.site.frame.depth:
        return slot
    offset = context.abi.bias + 128 + 8 * PATH_SLOT if context.is64 else 88
    return Slot(Register.FP, offset)


def _finish(cfg: ControlFlowGraph, place: Place, body: Body, jumps: bool) -> Snippet:
    """Add the jump of a stub; its delay slot takes the last instruction where that is legal."""
    code, jump_cost = list(body.instructions), 0
    if place.where is Where.STUB and jumps:
        target = cfg.edges[place.edge].target
        jump = asm.branch("a", "exit" if target == cfg.exit else f"block.{target}")
        filled = bool(code) and not _is_pinned(code)
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
    )


def _is_pinned(code: list[Instruction]) -> bool:
    """Whether the last instruction cannot move: it is a transfer or in a delay slot."""
    return code[-1].is_transfer or (len(code) > 1 and code[-2].is_transfer)
