"""Registers stolen from the program (BL94 6.1, 7.1.1: pixie and Goldberg's tool).

A counter has two registers to itself in the whole program, the least used of those that carry
nothing between routines. In a routine that uses one of them the register's value lives in a *word*
of the routine's stack frame instead: a block loads it where it first reads it, behind the block's
counter, and stores it at its end, or behind its delay slot, if it has replaced it and the value is
still needed. So the word has the value on every edge, and code there may destroy the register.

That cannot be done everywhere. In routines where it cannot (`Spills.kept`) the register stays the
program's, and code that stands where it is live saves and restores it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from simprof.profiler.code.context import RoutineAnalysis, RoutineContext
from simprof.profiler.code.frames import FRAME_PATH_SLOTS, EdgePlace, FrameState, Site, Slot, Where
from simprof.profiler.code.registers import mask
from simprof.profiler.code.snippet_parts import Generator, Generators, Needs
from simprof.profiler.code.writer import Writer
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.plan.actions import Action, Event
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import AssemblyError, Register

R = Register


class LoadStolen(Event, frozen=True):
    """`load R`: a register gets the value that the program keeps in word `number`."""

    register: Register
    word: int

    def __str__(self) -> str:
        return f"load {self.register.text}"


class StoreStolen(LoadStolen, frozen=True):
    """`store R`: the word gets the register's value."""

    def __str__(self) -> str:
        return f"store {self.register.text}"


# -- What the program does with the registers


class Spills(Struct, frozen=True):
    """Where a routine's code loads and stores the stolen registers that it uses."""

    spilled: tuple[Register, ...]  # Those whose values live in words
    kept: tuple[Register, ...]  # Others that the routine names
    # loads, stores: Block -> registers, at its top and at its end; of a slot's, behind it.
    loads: Mapping[int, tuple[Register, ...]]
    stores: Mapping[int, tuple[Register, ...]]
    # Edge -> registers that are stored on it, as the delay slot before it has replaced them
    behind: Mapping[int, tuple[Register, ...]]

    def number(self, register: Register) -> int:
        """Return which word has a register's value."""
        # Of one register it is the second: what saves another takes the first (`save_slots`).
        return self.spilled.index(register) + 2 - len(self.spilled)

    def at_tops(self, block: int) -> tuple[Action, ...]:
        """Return what is done at the top of a block, behind its counter."""
        return tuple(LoadStolen(r, self.number(r)) for r in self.loads.get(block, ()))

    def at_end(self, block: int) -> tuple[Action, ...]:
        """Return what is done at the end of a block."""
        return self.stored(self.stores.get(block, ()))

    def stored(self, registers: Iterable[Register]) -> tuple[Action, ...]:
        """Return the stores of some registers."""
        return tuple(StoreStolen(r, self.number(r)) for r in registers)


NO_SPILLS = Spills((), (), {}, {}, {})


def find_spills(
    cfg: ControlFlowGraph, context: RoutineContext, edge_places: Iterable[EdgePlace]
) -> Spills:
    """Return what becomes of the routine's uses; `edge_places` are those of code on edges."""
    if context.analysis is None:
        return NO_SPILLS
    places = tuple(edge_places)
    uses = [
        _Uses(cfg, context, context.analysis, register)
        for register in R
        if context.stolen & context.analysis.liveness.named & mask(register)
    ]
    spilled = tuple(each for each in uses if each.can_be_spilled(places))
    return Spills(
        tuple(each.register for each in spilled),
        tuple(each.register for each in uses if each not in spilled),
        _by_place((each.register, each.loads) for each in spilled),
        _by_place((each.register, each.stores) for each in spilled),
        _by_place((each.register, each.behind) for each in spilled),
    )


def _by_place(
    places: Iterable[tuple[Register, Collection[int]]],
) -> dict[int, tuple[Register, ...]]:
    found: dict[int, tuple[Register, ...]] = {}
    for register, each in places:
        for place in sorted(each):
            found[place] = (*found.get(place, ()), register)
    return found


class _Uses:
    """What the blocks of one routine do with one register."""

    def __init__(
        self,
        cfg: ControlFlowGraph,
        context: RoutineContext,
        analysis: RoutineAnalysis,
        register: Register,
    ) -> None:
        self._cfg, self._context, self._frames = cfg, context, analysis.frames
        self.register = register
        self._liveness = liveness = analysis.liveness
        self._reads = [liveness.positions(b.id, register, written=False) for b in cfg.blocks]
        self._writes = [liveness.positions(b.id, register, written=True) for b in cfg.blocks]
        self.loads = frozenset(b.id for b in cfg.blocks if self._is_loaded(b.id))
        stored = frozenset(b.id for b in cfg.blocks if self._is_stored(b.id))
        slots = frozenset(filter(self._is_written_in_slot, stored))
        self.stores, self._slots = stored - slots, slots
        edges = (edge for block in slots for edge in cfg.out_edges[block])
        self.behind = frozenset(filter(self._is_live_on, edges))

    def _is_live_on(self, edge: int) -> bool:
        return bool(self._liveness.live_on_edge(edge) >> self.register & 1)

    def _slots_behind(self, block: int) -> list[int]:
        """Return the slot blocks to which a block leads: code in between does not exist."""
        targets = (self._cfg.edges[edge].target for edge in self._cfg.out_edges[block])
        return [t for t in targets if t < len(self._cfg.blocks) and self._cfg.blocks[t].is_slot]

    def _is_loaded(self, block: int) -> bool:
        """Whether a block, or an annulled slot behind it, reads what the block has not written."""
        if self._cfg.blocks[block].is_slot:
            return False
        reads, writes = self._reads[block], self._writes[block]
        if reads and (not writes or reads[0] <= writes[0]):
            return True
        return not writes and any(self._reads[slot] for slot in self._slots_behind(block))

    def _is_stored(self, block: int) -> bool:
        if not self._writes[block]:
            return False
        edges = [
            onward for edge in self._cfg.out_edges[block] for onward in self._past_slot(block, edge)
        ]
        return any(map(self._is_live_on, edges))

    def _is_written_in_slot(self, block: int) -> bool:
        transfer = self._liveness.blocks[block].transfer
        return transfer is not None and self._writes[block][-1] > transfer

    def _past_slot(self, block: int, edge: int) -> Sequence[int]:
        """Return the edges on which the value may be needed that a block leaves."""
        slot = self._cfg.edges[edge].target
        if slot not in self._slots_behind(block):
            return [edge]
        return [] if self._writes[slot] else self._cfg.out_edges[slot]

    def can_be_spilled(self, places: Iterable[EdgePlace]) -> bool:
        """Whether the register's value can live in a word all over the routine."""
        cfg = self._cfg
        for edge in cfg.edges:
            # Other routines hand over values in registers, and a word at depth 0 is the callee's.
            leaves = cfg.entry == edge.source or cfg.exit == edge.target
            if (leaves or edge.kind is EdgeKind.CALL_RETURN) and self._is_live_on(edge.id):
                return False
        # Nothing can stand before a delay slot that branches lead to.
        if any(self._reads[block] or self._writes[block] for block in self._context.shared_slots):
            return False
        if any(self._is_destroyed(place) for place in places):
            return False
        words = {self._word_kind(state) for state in self._states()}
        return len(words) <= 1 and None not in words

    def _is_destroyed(self, place: EdgePlace) -> bool:
        """Whether code of an edge inside a block stands where the register has the value."""
        if place.block is None or place.position is None:
            return False
        block, position = place.block, place.position
        reads, writes = self._reads[block], self._writes[block]
        if place.where is Where.TARGET_TOP:
            return any(at < position for at in (*reads, *writes))
        if any(at >= position for at in reads):
            return True
        is_before = any(at < position for at in writes)
        return block in self.stores and is_before and position != end_of(self._context, block)

    def _states(self) -> Iterable[FrameState]:
        yield from (self._frames.before(block, 0) for block in self.loads)
        for block in self.stores:
            slot = self._cfg.blocks[block].is_slot
            end = end_of(self._context, block)
            yield self._frames.after(block) if slot else self._frames.before(block, end)
        yield from map(self._frames.after, self._slots)

    def _word_kind(self, state: FrameState) -> int | None:
        """Return the depth of the frame that has the word; None if there is no word."""
        # At depth 1 it must be one that stays where it is when %sp moves.
        slots = self._context.slots_at(state)
        fits = slots and (not state.depth or slots[0].base is R.FP)
        return state.depth if fits and state.depth <= 1 else None


def end_of(context: RoutineContext, block: int) -> int:
    """Return the position at which a block's stores stand; 0 for a graph that has no code."""
    if context.analysis is None:
        return 0
    code = context.analysis.liveness.blocks[block]
    return code.count if code.transfer is None else code.transfer


Actions = Mapping[int, tuple[Action, ...]]


def with_spills(
    cfg: ControlFlowGraph, spills: Spills, edges: Actions, tops: Actions, ends: Actions
) -> tuple[dict[int, tuple[Action, ...]], ...]:
    """Return the actions of edges, blocks and block ends with loads and stores."""
    edges, tops, ends = dict(edges), dict(tops), dict(ends)
    for block in spills.loads:
        tops[block] = (*tops.get(block, ()), *spills.at_tops(block))
    for edge, registers in spills.behind.items():
        edges[edge] = (*spills.stored(registers), *edges.get(edge, ()))
    for block in spills.stores:
        if not cfg.blocks[block].is_slot:
            ends[block] = (*spills.at_end(block), *ends.get(block, ()))
            continue
        for edge in cfg.in_edges[block]:  # whose code stands behind the slot
            edges[edge] = (*spills.at_end(block), *edges.get(edge, ()))
    return edges, tops, ends


# -- Code


def _word(site: Site, number: int) -> Slot:
    place = FRAME_PATH_SLOTS[number] if site.frame.depth else number
    if place >= len(site.slots):
        raise AssemblyError("no word of the frame is known here")
    return site.slots[place]


def load_stolen(writer: Writer, action: LoadStolen) -> None:
    """`R = word`."""
    slot = _word(writer.site, action.word)
    mnemonic = "ld" if writer.machine is MachineKind.SPARCV8 else "ldx"
    writer.emit(asm.load(mnemonic, slot.base, slot.offset, action.register))


def store_stolen(writer: Writer, action: StoreStolen) -> None:
    """`word = R`."""
    slot = _word(writer.site, action.word)
    mnemonic = "st" if writer.machine is MachineKind.SPARCV8 else "stx"
    writer.emit(asm.store(mnemonic, action.register, slot.base, slot.offset))


# Without shapes: whether there is code at all is a matter of the place, which has the word or not.
STOLEN_GENERATORS: Generators = {
    LoadStolen: Generator(load_stolen),
    StoreStolen: Generator(store_stolen, Needs(at_transfer=True)),
}
