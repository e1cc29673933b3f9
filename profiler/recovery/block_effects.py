"""What each block of a routine does to its locations, for `slices`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from simprof.profiler.recovery.block_graph import BlockGraph, Extent
from simprof.profiler.recovery.effects import (
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
from simprof.profiler.recovery.exploration import Exploration, Flow
from simprof.profiler.recovery.symbolic import FP, O7, SP
from simprof.simulator.isa.decode import TransferKind

_K = TransferKind
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

    writes: int
    reads: int
    touches: int
    moves: int


class Block(NamedTuple):
    """A block; what it does as masks, where it goes as leaders (-1 for none).

    Attributes
    ----------
    steps
        (Word index, step), without its control transfer.
    writes, reads, touched
        Of all steps; everything, where the window moves. `touched` includes what is written.
    successors, call_return, falls_past
        What follows; `falls_past` is the successor whose edge leaves out the delay slot.
    delay
        What the delay slot does, if it is executed at least on one edge.
    kept, left_by_call, links
        What control transfer leaves as it is on the way to `successors`, and to `call_return`;
        what it writes before its delay slot.
    uses, compared
        What an indirect jump needs, and what a conditional branch compares.
    """

    steps: list[tuple[int, Step]]
    writes: int
    reads: int
    touched: int
    successors: tuple[int, ...]
    delay: tuple[Step, ...] = ()
    call_return: int = -1
    falls_past: int = -1
    kept: int = _EVERYTHING
    left_by_call: int = _EVERYTHING
    links: int = 0
    uses: int = 0
    compared: int = 0


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
        self._steps: dict[int, Step | None] = {}
        self._number_slots(graph, escapes)
        self.blocks = {
            leader: self._block(graph, leader, extent) for leader, extent in graph.extents.items()
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

    def _number_slots(self, graph: BlockGraph, escapes: dict[int, int]) -> None:
        """Give a bit to each slot that is accessed, before and after windows move."""
        words: set[int] = set()
        for leader, extent in graph.extents.items():
            words.update(self._x.words[leader : extent.end + 2])  # with the delay slot
        effects = {word: effect_of(word) for word in sorted(words)}
        known = [effect for effect in effects.values() if effect is not None]
        slots = dict.fromkeys(effect.slot for effect in known if effect.slot is not None)
        if any(effect.kind in (Kind.SAVE, Kind.RESTORE) for effect in known):
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
        self._steps = {
            word: None if effect is None else self._step(effect) for word, effect in effects.items()
        }

    def _step(self, effect: Effect) -> Step:
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
        return Step(writes, reads, touches, moves)

    def _overlapping(self, slot: tuple[int, int], size: int) -> int:
        """All slots that a store may change."""
        register, offset = slot
        places = 0
        for other in range(offset - _WIDEST + 1, offset + size):
            places |= self._slots.get((register, other), 0)
        return places

    def _block(self, graph: BlockGraph, leader: int, extent: Extent) -> Block:
        words, known = self._x.words, self._steps
        body = [
            (index, step)
            for index in range(leader, extent.end)
            if (step := known[words[index]]) is not None
        ]
        writes = reads = touched = 0
        for _, (written, read, touches, moves) in body:
            writes |= written
            reads |= read
            touched |= written | touches
            if moves:
                writes = reads = touched = _EVERYTHING
        inside = graph.extents
        flow, at = extent.flow, extent.at
        if flow is None:
            follows = (extent.falls_to,) if extent.falls_to in inside else ()
            return Block(body, writes, reads, touched, follows)
        past = flow.fall if flow.slot_block else -1
        after = (flow.taken, *flow.switch, -1 if flow.slot_block else flow.fall)
        in_slot = known[words[at + 1]] if flow.has_slot or flow.slot_block else None
        return Block(
            body,
            writes,
            reads,
            touched,
            successors=tuple([to for to in after if to in inside]),
            delay=() if in_slot is None else (in_slot,),
            call_return=flow.call_return if flow.call_return in inside else -1,
            falls_past=past if past in inside else -1,
            kept=~(_TRAP_RESULTS | self._unsafe) if flow.kind == _K.TRAP_ALWAYS else _EVERYTHING,
            left_by_call=self._left_by_call(at) if flow.call_return >= 0 else 0,
            links=bit(O7) if flow.kind in (_K.CALL, _K.INDIRECT_CALL) else 0,
            uses=operands(words[at]) if flow.kind == _K.JUMP else 0,
            compared=self._compared(at, flow) if flow.kind == _K.BRANCH else 0,
        )

    def _left_by_call(self, at: int) -> int:
        """The locations that a call leaves as they are: all, if it only reads the PC."""
        target = self._x.targets[at] if self._x.kinds[at] == _K.CALL else -1
        is_thunk = pc_thunk(self._x.words, target) is not None
        return _EVERYTHING if is_thunk else ~(_CALL_RESULTS | self._unsafe)

    def _compared(self, at: int, flow: Flow) -> int:
        """What a conditional branch tells about, if its two ways are different ones."""
        if flow.fall == flow.taken:
            return 0
        word = self._x.words[at]
        group = word >> 22 & 7
        if group == 3:
            return bit(word >> 14 & 31)
        return CONDITION if group in (1, 2) else 0
