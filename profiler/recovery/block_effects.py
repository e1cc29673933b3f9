"""What each block of a routine does to its locations, for `slices`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from profiler.recovery.block_graph import BlockGraph, Extent
from profiler.recovery.effects import (
    CONDITION,
    FIRST_SLOT,
    GLOBALS,
    OUTS,
    Effect,
    Kind,
    bit,
    effect_of,
    operands,
    pc_thunk,
)
from profiler.recovery.exploration import Exploration, Flow
from profiler.recovery.symbolic import FP, O7, SP
from simulator.isa.decode import TransferKind

_K = TransferKind
Body = list[tuple[int, Effect]]
"""(word index, effect) of what does something."""

_WIDEST = 16
"""Bytes that a store writes at most."""

_EVERYTHING = ~0
_TRAP_RESULTS = bit(1) | bit(8) | bit(9)
_CALL_RESULTS = GLOBALS | OUTS | CONDITION


class Step(NamedTuple):
    """An instruction that does something, as masks of locations.

    `reads` counts if any of `writes` is needed; `touches` is what it may name an atom for, or
    overlap. `moves` is 1 for a `save`, -1 for a `restore`.
    """

    index: int
    writes: int
    reads: int
    touches: int
    moves: int


class Block(NamedTuple):
    """A block; what it does as masks, where it goes as leaders (-1 for none).

    Attributes
    ----------
    steps
        Without its control transfer.
    writes, reads, touched
        Of all steps, delay slot included in `touched` only; everything, where the window moves.
    delay
        What the delay slot does, if it is executed at least on one edge.
    successors, call_return, falls_past
        What follows; `falls_past` is the successor whose edge leaves out the delay slot.
    kept, left_by_call, links
        What control transfer leaves as it is on the way to `successors`, and to `call_return`;
        what it writes before its delay slot.
    uses, compared
        What an indirect jump needs, and what a conditional branch compares.
    """

    steps: list[Step]
    writes: int
    reads: int
    touched: int
    delay: list[Step]
    successors: tuple[int, ...]
    call_return: int
    falls_past: int
    kept: int
    left_by_call: int
    links: int
    uses: int
    compared: int


class BlockEffects:
    """The blocks of one routine, and its frame slots.

    Parameters
    ----------
    exploration, graph, escapes
        See `slices.Slice`.
    """

    def __init__(
        self, exploration: Exploration, graph: BlockGraph, escapes: dict[int, int]
    ) -> None:
        self._x = exploration
        self._slots: dict[tuple[int, int], int] = {}
        self._frames = {SP: 0, FP: 0}
        self._unsafe = self._exposed = 0  # slots that pointers surely, and perhaps, reach
        self._overlaps: dict[tuple[tuple[int, int], int], int] = {}
        bodies = {
            leader: self._effects(leader, extent.end) for leader, extent in graph.extents.items()
        }
        delays = {leader: self._delay(extent) for leader, extent in graph.extents.items()}
        effects = [
            effect for part in (bodies, delays) for body in part.values() for _, effect in body
        ]
        self._number_slots(effects, escapes)
        self.blocks = {
            leader: self._block(graph, extent, bodies[leader], delays[leader])
            for leader, extent in graph.extents.items()
        }

    def locations_in(self, mask: int) -> frozenset[Hashable]:
        """Return the locations of a mask, as `symbolic` calls them."""
        locations: list[Hashable] = [each for each in range(1, 32) if mask >> each & 1]
        if mask & CONDITION:
            locations.append("cc")
        if mask >> FIRST_SLOT:
            locations += [slot for slot, place in self._slots.items() if mask & place]
        return frozenset(locations)

    def slots_moved(self, mask: int, source: int, to: int) -> int:
        """Return the slots of frame register `source` in a mask as those of another one."""
        moved = 0
        if mask & self._frames[source]:
            for (register, offset), place in self._slots.items():
                if register == source and mask & place:
                    moved |= self._slots[to, offset]
        return moved

    def _effects(self, start: int, end: int) -> Body:
        words = self._x.words
        indices = range(start, end)
        return [(i, effect) for i in indices if (effect := effect_of(words[i])) is not None]

    def _delay(self, extent: Extent) -> Body:
        flow = extent.flow
        if flow is None or not (flow.has_slot or flow.slot_block):
            return []
        return self._effects(extent.at + 1, extent.at + 2)

    def _number_slots(self, effects: list[Effect], escapes: dict[int, int]) -> None:
        """Give a bit to each slot that is accessed, before and after windows move."""
        slots = dict.fromkeys(effect.slot for effect in effects if effect.slot is not None)
        if any(effect.kind in (Kind.SAVE, Kind.RESTORE) for effect in effects):
            slots |= dict.fromkeys((SP + FP - register, offset) for register, offset in slots)
        for number, slot in enumerate(slots):
            register, offset = slot
            place = 1 << FIRST_SLOT + number
            self._slots[slot] = place
            self._frames[register] |= place
            if register in escapes:
                self._exposed |= place
                if offset >= escapes[register]:
                    self._unsafe |= place

    def _step(self, index: int, effect: Effect) -> Step:
        kind, writes, reads, touches, slot, size = effect
        moves = 0
        if slot is not None:
            place = self._slots[slot]
            touches |= place
            if kind is Kind.STORE:
                writes |= place
                touches |= self._overlapping(slot, size)
            else:
                reads |= place
        elif kind is Kind.CLOBBER:
            writes |= self._unsafe
            touches |= self._exposed
        elif kind is Kind.SAVE:
            moves = 1
        elif kind is Kind.RESTORE:
            moves = -1
        if kind is Kind.FRAME:
            for register, places in self._frames.items():
                writes |= places if writes & bit(register) else 0
        return Step(index, writes, reads, touches, moves)

    def _overlapping(self, slot: tuple[int, int], size: int) -> int:
        """All slots that a store may change."""
        if (slot, size) not in self._overlaps:
            register, offset = slot
            others = range(offset - _WIDEST + 1, offset + size)
            places = (self._slots.get((register, other), 0) for other in others)  # different bits
            self._overlaps[slot, size] = sum(places)
        return self._overlaps[slot, size]

    def _block(self, graph: BlockGraph, extent: Extent, body: Body, delay: Body) -> Block:
        steps = [self._step(*each) for each in body]
        slot = [self._step(*each) for each in delay]
        writes = reads = touched = 0
        for step in steps:
            writes |= step.writes
            reads |= step.reads
            touched |= step.touches
        if any(step.moves for step in (*steps, *slot)):
            writes = reads = touched = _EVERYTHING
        for step in slot:
            touched |= step.writes | step.touches
        inside = graph.extents
        flow = extent.flow
        if flow is None:
            follows = tuple(to for to in (extent.falls_to,) if to in inside)
            return Block(
                steps, writes, reads, writes | touched, slot,
                follows, -1, -1, _EVERYTHING, _EVERYTHING, 0, 0, 0,
            )  # fmt: skip
        past = flow.fall if flow.slot_block else -1
        after = (
            (flow.taken, *flow.switch) if flow.slot_block else (flow.fall, flow.taken, *flow.switch)
        )
        return Block(
            steps, writes, reads, writes | touched, slot,
            tuple(to for to in after if to in inside),
            flow.call_return if flow.call_return in inside else -1,
            past if past in inside else -1,
            ~(_TRAP_RESULTS | self._unsafe) if flow.kind == _K.TRAP_ALWAYS else _EVERYTHING,
            self._left_by_call(extent.at),
            bit(O7) if flow.kind in (_K.CALL, _K.INDIRECT_CALL) else 0,
            operands(self._x.words[extent.at]) if flow.kind == _K.JUMP else 0,
            self._compared(extent.at, flow),
        )  # fmt: skip

    def _left_by_call(self, at: int) -> int:
        """The locations that a call leaves as they are: all, if it only reads the PC."""
        target = self._x.targets[at] if self._x.kinds[at] == _K.CALL else -1
        is_thunk = pc_thunk(self._x.words, target) is not None
        return _EVERYTHING if is_thunk else ~(_CALL_RESULTS | self._unsafe)

    def _compared(self, at: int, flow: Flow) -> int:
        """What a conditional branch tells about, if its two ways are different ones."""
        if flow.kind != _K.BRANCH or flow.fall == flow.taken:
            return 0
        word = self._x.words[at]
        group = word >> 22 & 7
        if group == 3:
            return bit(word >> 14 & 31)
        return CONDITION if group in (1, 2) else 0
