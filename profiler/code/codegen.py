"""From plan to code: every edge's and block's actions as SPARC instructions, placed and priced.

1. `arrange` (in `arrangement`) says where the code of each edge and block goes, and which
   registers hold the path state.
2. `snippet_body` (in `generators`) generates the actions with the registers that are free there.
3. `_finish` adds the jump of a stub. A price is the number of instructions executed; `pricing`
   knows it without the instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simprof.profiler.code.arrangement import arrange, choose_registers, jump_of_stub
from simprof.profiler.code.block_code import BlockCodePlace
from simprof.profiler.code.body_costs import body_cost, measured
from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.frames import EdgePlace, Site, Where
from simprof.profiler.code.layout import CounterLayout, CounterSpace
from simprof.profiler.code.snippet_parts import (
    Body,
    CounterAccess,
    Generators,
)
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import Action
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import AssemblyError, Instruction

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


@dataclass(frozen=True)
class Snippet:
    """The code of one edge, or of one block."""

    # In order; calls and the jump name their targets (`assembler.Fixup`): `hash_count`,
    # `hash_count_back` and other routines of `runtime`, `block.N` for the top of block N, `exit`
    # behind an EXIT edge.
    instructions: tuple[Instruction, ...]
    # Instructions executed each time the edge is crossed or the block executed; those inside the
    # hashing routine are not among them (`hash_routine.hash_costs`).
    cost: int
    where: str  # A `Where` value: "source-end", "target-top", "fall-through", "stub", "block".
    # How many of `cost` the jump takes: 0, 1, or 2 where its delay slot holds a nop.
    jump_cost: int
    # block, position: Emission puts the code before this instruction of this block; None for code
    # between blocks.
    block: int | None
    position: int | None
    hash_calls: int  # Calls of the hashing routine each time the edge is crossed
    # Instructions that the conditional part adds each time it is executed (`plan.Execution.take`)
    taken_cost: int = 0
    actions: tuple[Action, ...] = ()  # What the code does
    # How many of `cost` are executed in run-time routines other than the hashing one
    elsewhere: int = 0

    @property
    def text(self) -> tuple[str, ...]:
        """The instructions in assembler syntax."""
        return tuple(instruction.text for instruction in self.instructions)


@dataclass(frozen=True)
class RoutineCode:
    """The instrumentation code of one routine under one plan."""

    # Edge id -> code; edges without actions are absent. What slot blocks do is done on the edge
    # into them (`block_code`).
    snippets: Mapping[int, Snippet]
    # Assembler name of the path register, "stack", or None where the plan uses none; several are
    # separated by commas.
    path_register: str | None
    # static_instructions, code_bytes: Size of all snippets.
    static_instructions: int
    code_bytes: int
    # block_snippets, block_end_snippets: Block id -> code of `plan.blocks`, of `plan.block_ends`.
    block_snippets: Mapping[int, Snippet] = field(default_factory=dict)
    block_end_snippets: Mapping[int, Snippet] = field(default_factory=dict)
    layout: CounterLayout = field(default_factory=CounterLayout)  # Where the counters are

    @property
    def count(self) -> int:
        """Number of snippets."""
        return len(self.snippets) + len(self.block_snippets) + len(self.block_end_snippets)


def generate(
    cfg: ControlFlowGraph,
    plan: InstrumentationPlan,
    context: RoutineContext,
    layout: CounterLayout,
    generators: Generators,
) -> RoutineCode:
    """Generate the code of `plan`. `pricing.Pricer` is the entry that also lays out the counters.

    - `cfg`, `plan`: A routine and what is to be done on its edges and blocks.
    - `context`: What is known of the routine's code.
    - `layout`: Where its counters are.
    - `generators`: The code of all kinds of actions that the plan has.

    Raises
    ------
    AssemblyError
        There is no code for an action, or it needs more registers than there are.
    WordsNeededError
        The layout has too few words for path registers.
    """
    arranged = arrange(cfg, plan, context, layout, generators)
    access, actions = arranged.access, arranged.actions
    snippets = {}
    for edge, place in arranged.places.items():
        body = _body(actions[edge], access, place.site)
        snippets[edge] = _finish(cfg, place, body, arranged.jumps(edge), actions[edge])
    block_snippets = {b: _block_snippet(place, access) for b, place in arranged.tops.items()}
    block_end_snippets = {b: _block_snippet(place, access) for b, place in arranged.ends.items()}
    everything = (*snippets.values(), *block_snippets.values(), *block_end_snippets.values())
    size = sum(len(snippet.instructions) for snippet in everything)
    return RoutineCode(
        snippets,
        arranged.path_register,
        size,
        4 * size,
        block_snippets,
        block_end_snippets,
        layout,
    )


def _body(actions: tuple[Action, ...], access: CounterAccess, site: Site) -> Body:
    """Generate the code of a place, and see that it is what such places are priced at."""
    body = snippet_body(actions, access, site)
    if measured(body) != body_cost(actions, access, site):
        kinds = ", ".join(type(action).__name__ for action in actions)
        raise AssemblyError(f"the shapes of {kinds} do not tell how much code they are")
    return body


def _finish(
    cfg: ControlFlowGraph, place: EdgePlace, body: Body, jumps: bool, actions: tuple[Action, ...]
) -> Snippet:
    """Add the jump of a stub; its delay slot takes the last instruction where that is legal."""
    code, jump_cost = list(body.instructions), 0
    if jumps:
        target = cfg.edges[place.edge].target
        jump = asm.branch("a", "exit" if target == cfg.exit else f"block.{target}")
        jump_cost = jump_of_stub(measured(body))
        code[-1:] = [jump, code[-1]] if jump_cost == 1 else [*code[-1:], jump, asm.nop()]
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


def _block_snippet(place: BlockCodePlace, access: CounterAccess) -> Snippet:
    body = _body(place.actions, access, place.site)
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
