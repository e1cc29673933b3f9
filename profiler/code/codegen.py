"""From plan to code: every edge's and block's actions as SPARC instructions, placed and priced.

1. `arrange` (in `arrangement`) says where the code of each edge and block goes, and which
   registers hold the path state.
2. `snippet_body` (in `generators`) generates the actions with the registers that are free there.
3. `_finish` adds the jump. A price is the number of instructions executed; `pricing`
   knows it without the instructions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.code.arrangement import (
    Arrangement,
    arrange,
    arrange_both,
    choose_registers,
)
from simprof.profiler.code.body_costs import measured, snippet_cost
from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.frames import EdgePlace, Site, Where
from simprof.profiler.code.layout import CounterLayout, CounterSpace
from simprof.profiler.code.places import (
    JUMP,
    NO_WEIGHTS,
    BlockCodePlace,
    LayoutRule,
    find_place,
)
from simprof.profiler.code.snippet_parts import (
    Body,
    CounterAccess,
    Generators,
)
from simprof.profiler.code.spilling import NO_SPILL, Edit, Spill
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
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


class Snippet(Struct, frozen=True):
    """The code of one edge, or of one block."""

    # In order; calls and the jump name their targets (`assembler.Fixup`): `hash_count`,
    # `hash_count_back` and other routines of `runtime`, `block.N` for the top of block N, `exit`
    # behind an EXIT edge.
    instructions: tuple[Instruction, ...]
    # Instructions executed each time the edge is crossed or the block executed; those inside the
    # hashing routine are not among them (`hash_routine.hash_costs`).
    cost: int
    where: str  # A `Where` value
    jump_cost: int  # How many of `cost` the jump takes: 0 or 1
    # block, position: Emission puts the code before this instruction of this block; None for code
    # between blocks.
    block: int | None
    position: int | None
    hash_calls: int  # Calls of the hashing routine each time the edge is crossed
    # By action: instructions that its conditional part adds each time it is executed
    # (`plan.Execution.take`); empty if none has one
    taken_costs: tuple[int, ...] = ()
    actions: tuple[Action, ...] = ()  # What the code does
    # How many of `cost` are executed in run-time routines other than the hashing one
    elsewhere: int = 0

    @property
    def taken_cost(self) -> int:
        """What all conditional parts add together."""
        return sum(self.taken_costs)

    @property
    def text(self) -> tuple[str, ...]:
        """The instructions in assembler syntax."""
        return tuple(instruction.text for instruction in self.instructions)


class RoutineCode(Struct, frozen=True):
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
    spill: Spill = NO_SPILL  # Registers of the program that are the code's instead
    # Block, and number in it -> code that records an address of data (`references`).
    address_snippets: Mapping[tuple[int, int], Snippet] = field(default_factory=dict)
    # The code of the second copy of the routine's blocks, which are among the sizes; None: there is
    # one copy.
    copy: RoutineCode | None = None

    @property
    def spill_costs(self) -> Mapping[int, int]:
        """Block id -> instructions that spilled registers take each time."""
        return self.spill.costs

    @property
    def count(self) -> int:
        """Number of snippets."""
        in_blocks = len(self.block_snippets) + len(self.block_end_snippets)
        copied = 0 if self.copy is None else self.copy.count
        return len(self.snippets) + in_blocks + len(self.address_snippets) + copied


def generate(
    # cfg, plan: A routine and what is to be done on its edges and blocks
    cfg: ControlFlowGraph,
    plan: InstrumentationPlan,
    context: RoutineContext,  # What is known of the routine's code
    layout: CounterLayout,  # Where its counters are
    generators: Generators,  # The code of all kinds of actions that the plan has
    rule: LayoutRule = NO_WEIGHTS,  # Where code goes that would need a jump
) -> RoutineCode:
    """Generate the code of `plan`; `RoutineCode.copy` is that of a second copy of the routine.

    Raises
    ------
    AssemblyError
        There is no code for an action, or it needs more registers than there are.
    WordsNeededError
        The layout has too few words for path registers.
    """
    # `pricing.Pricer` is the entry that also lays out the counters.
    if plan.is_duplicated:
        both = arrange_both(cfg, plan, context, layout, generators, rule)
        first, second = (_generated(cfg, arranged, layout) for arranged in both)
        blocks = sum(block.instructions for block in cfg.blocks)
        size = first.static_instructions + second.static_instructions + blocks
        return replace(first, copy=second, static_instructions=size, code_bytes=4 * size)
    return _generated(cfg, arrange(cfg, plan, context, layout, generators, rule), layout)


def _generated(cfg: ControlFlowGraph, arranged: Arrangement, layout: CounterLayout) -> RoutineCode:
    access, actions = arranged.access, arranged.actions
    snippets = {}
    for edge, place in arranged.places.items():
        body = _body(actions[edge], access, place.site)
        snippets[edge] = _finish(cfg, place, body, edge in arranged.jumping, actions[edge])
    block_snippets = {b: _block_snippet(place, access) for b, place in arranged.tops.items()}
    block_end_snippets = {b: _block_snippet(place, access) for b, place in arranged.ends.items()}
    addresses = {n: _block_snippet(place, access) for n, place in arranged.addresses.items()}
    at_blocks = (*block_snippets.values(), *block_end_snippets.values(), *addresses.values())
    everything = (*snippets.values(), *at_blocks)
    size = sum(len(snippet.instructions) for snippet in everything) + arranged.spill.size
    return RoutineCode(
        snippets,
        arranged.path_register,
        size,
        4 * size,
        block_snippets,
        block_end_snippets,
        layout,
        arranged.spill,
        addresses,
    )


def _body(actions: tuple[Action, ...], access: CounterAccess, site: Site) -> Body:
    """Generate the code of a place, and see that it is what such places are priced at."""
    body = snippet_body(actions, access, site)
    if measured(body) != snippet_cost(actions, access, site):
        kinds = ", ".join(type(action).__name__ for action in actions)
        raise AssemblyError(f"the shapes of {kinds} do not tell how much code they are")
    return body


def _finish(
    cfg: ControlFlowGraph, place: EdgePlace, body: Body, jumps: bool, actions: tuple[Action, ...]
) -> Snippet:
    """Add the jump; its delay slot takes the last instruction where that is legal."""
    code = list(body.instructions)
    if jumps:
        target = cfg.edges[place.edge].target
        name = "exit" if target == cfg.exit else f"block.{target}"
        fills_slot = bool(code) and not body.open_end and not body.is_pinned
        # Control may come from the other copy, behind the code and before the jump.
        fills_slot = fills_slot and not any(action.changes_copy for action in actions)
        jump = asm.branch("a", name, annul=not fills_slot)
        code[len(code) - fills_slot : len(code) - fills_slot] = [jump]
    return Snippet(
        tuple(code),
        body.cost + JUMP * jumps,
        place.where,
        JUMP * jumps,
        place.block,
        place.position,
        body.hash_calls,
        body.taken_costs,
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
        body.taken_costs,
        place.actions,
        body.elsewhere,
    )


# -- Code in place: where an editor of executables would put it
#
# Code *before the label* of an instruction is executed by falling into the instruction; transfers
# to the instruction pass it by. Code *at* an instruction is executed in both cases. A *stub* stands
# behind the routine, or in line before its target; a transfer is sent to it in place of that.


class PieceKind(StrEnum):
    """What a piece of code belongs to."""

    EDGE = "edge"
    BLOCK = "block"
    BLOCK_END = "block end"
    ADDRESS = "address in"


class Piece(Struct, frozen=True):
    """The code of edge or block `number`."""

    kind: PieceKind
    number: int
    snippet: Snippet


class Stub(Struct, frozen=True):
    """Code to which transfers are sent in place of their target."""

    # Addresses of the transfers that are sent here; none where the routine's callers do that (an
    # ENTRY edge).
    transfers: tuple[int, ...]
    edge: int  # The edge whose crossing executes the stub; into a slot block, the edge out of it.
    # In the order of their edges, that of the edge into a slot block first; the last ends with the
    # jump, or runs on into `before`.
    pieces: tuple[Piece, ...]
    before: int | None = None  # Block before whose label the code stands; None: behind the routine
    # Address of a delay slot's instruction, to which branches lead too: a copy of it is the stub's
    # first instruction, and they lead to the copy.
    copied: int | None = None


class Emission(Struct, frozen=True):
    """The code of a routine by place; addresses are those of the original instructions."""

    # An instruction may be a delay slot and the top of a block; an editor makes two of it, and the
    # code at it belongs to the one in the block (`Snippet.block`).

    before_label: Mapping[int, tuple[Piece, ...]]
    at: Mapping[int, tuple[Piece, ...]]
    stubs: tuple[Stub, ...]
    spill: Spill = NO_SPILL

    @property
    def edits(self) -> Mapping[int, Edit]:
        """What stands in place of instructions that name spilled registers."""
        return self.spill.edits

    @property
    def pieces(self) -> Iterator[Piece]:
        """All pieces, those in line first."""
        for places in (self.before_label, self.at):
            for address in sorted(places):
                yield from places[address]
        for stub in self.stubs:
            yield from stub.pieces


def emit(cfg: ControlFlowGraph, context: RoutineContext, code: RoutineCode) -> Emission:
    """Return where the snippets of a routine go."""
    before: dict[int, list[Piece]] = defaultdict(list)
    tops: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    ends: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    stubs: dict[int, list[Piece]] = defaultdict(list)
    for edge, snippet in sorted(code.snippets.items()):
        place = find_place(cfg, edge, context)
        piece = Piece(PieceKind.EDGE, edge, snippet)
        if snippet.where in (Where.STUB, Where.BEFORE_TARGET):
            stubs[place.edge].append(piece)
        elif snippet.block is None or snippet.position is None:
            before[_fall_through_address(cfg, place)].append(piece)
        else:
            places = tops if snippet.where == Where.TARGET_TOP else ends
            places[snippet.block, snippet.position].append(piece)
    at: dict[int, list[Piece]] = defaultdict(list)
    for places in (tops, _block_pieces(code), _address_pieces(code), ends):
        for (block, position), pieces in places.items():
            behind = position == cfg.blocks[block].instructions  # no transfer passes by there
            (before if behind else at)[cfg.blocks[block].start + 4 * position] += pieces
    for last, pieces in stubs.items():
        pieces.sort(key=lambda piece: -_edges_before(cfg, piece.number, last))
    placed = tuple(_stubs(cfg, context, stubs))
    return Emission(_frozen(before), _frozen(at), placed, code.spill)


def _edges_before(cfg: ControlFlowGraph, edge: int, last: int) -> int:
    """Return how many edges are crossed from `edge` to `last`, to which only one way leads."""
    count = 0
    while edge != last:
        (edge,) = cfg.out_edges[cfg.edges[edge].target]
        count += 1
    return count


def _frozen(places: Mapping[int, list[Piece]]) -> dict[int, tuple[Piece, ...]]:
    return {address: tuple(pieces) for address, pieces in places.items()}


def _block_pieces(code: RoutineCode) -> dict[tuple[int, int], list[Piece]]:
    places: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    for kind, snippets in (
        (PieceKind.BLOCK, code.block_snippets),
        (PieceKind.BLOCK_END, code.block_end_snippets),
    ):
        for block, snippet in sorted(snippets.items()):
            assert snippet.position is not None
            places[block, snippet.position].append(Piece(kind, block, snippet))
    return places


def _address_pieces(code: RoutineCode) -> dict[tuple[int, int], list[Piece]]:
    places: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    for (block, _), snippet in sorted(code.address_snippets.items()):
        assert snippet.position is not None
        places[block, snippet.position].append(Piece(PieceKind.ADDRESS, block, snippet))
    return places


def _fall_through_address(cfg: ControlFlowGraph, place: EdgePlace) -> int:
    edge = cfg.edges[place.edge]
    if edge.target == cfg.exit:
        return cfg.blocks[edge.source].end if edge.source != cfg.entry else cfg.address
    return cfg.blocks[edge.target].start


def _stubs(
    cfg: ControlFlowGraph, context: RoutineContext, stubs: Mapping[int, list[Piece]]
) -> Iterator[Stub]:
    for edge, pieces in stubs.items():
        source, target = cfg.edges[edge].source, cfg.edges[edge].target
        before = target if pieces[-1].snippet.where == Where.BEFORE_TARGET else None
        if source in context.shared_slots:
            into = [
                inner for inner in cfg.in_edges[source] if inner not in stubs
            ]  # those with stubs of their own jump here
            addresses = {_transfer(cfg, context, inner) for inner in into}
            copied = cfg.blocks[source].start
            yield Stub(_addresses(addresses), edge, tuple(pieces), before, copied)
        else:
            yield Stub(_addresses({_transfer(cfg, context, edge)}), edge, tuple(pieces), before)


def _addresses(addresses: set[int | None]) -> tuple[int, ...]:
    return tuple(sorted(address for address in addresses if address is not None))


def _transfer(cfg: ControlFlowGraph, context: RoutineContext, edge: int) -> int | None:
    source = cfg.edges[edge].source
    if source == cfg.entry:
        return None
    block = cfg.blocks[source]
    if block.is_slot:
        return block.start - 4
    position = None
    if context.analysis is not None:
        position = context.analysis.liveness.blocks[source].transfer
    if position is None:
        position = max(block.instructions - 1, 0)
    return block.start + 4 * position


def target_of(cfg: ControlFlowGraph, edge: int) -> int | None:
    """Return the address that a stub of `edge` jumps to, None for another routine's."""
    target = cfg.edges[edge].target
    return None if target == cfg.exit else cfg.blocks[target].start


def describe_edge(cfg: ControlFlowGraph, edge: int) -> str:
    """Return `source -> target (kind)`."""
    ends = cfg.edges[edge]
    kind = "" if ends.kind is EdgeKind.EXIT else f" ({ends.kind.value})"
    return f"{cfg.name_of(ends.source)} -> {cfg.name_of(ends.target)}{kind}"
