"""A routine's register window and stack frame, and the stack slots of instrumentation code.

Terms: the *depth* of a point is how many windows the routine has saved there: 0 before its `save`
and in leaves, 1 in the body of a routine with a window. *Slots* are stack words of snippets' own.

`context.RoutineContext` says what is known at a site; `places.find_place` chooses an `EdgePlace`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec import Struct

from simprof.profiler.code import sites_kernel as k
from simprof.profiler.code.blocks import BlockCode
from simprof.profiler.code.layout import STACK_REGISTERS
from simprof.profiler.code.liveness import Liveness
from simprof.profiler.code.registers import Abi
from simprof.simulator.isa.assembler import Register, fits_simm13
from simprof.simulator.isa.decode import simm13
from simprof.simulator.isa.effects import CC, Window

_SP, _FP = int(Register.SP), int(Register.FP)
_ADD_TO_SP = 0x9C03A000  # add %sp, constant, %sp, without the constant
# At depth 0: three for registers that a snippet frees, one for a path register in memory, and one
# more for a register of V8 code (in 32-bit leaves it overlaps the first, which is wider only in
# V8+).
SLOTS = 5
ARGUMENT_WORDS = 6  # That a caller keeps for its callee, whatever that is
FRAME_SLOTS = 28  # At depth 1, where `path_words` and `save_slots` divide them


class FrameState(NamedTuple):
    """State of a point: `depth` (module docstring), and bytes that %sp went down at depth 0."""

    depth: int
    lowered: int


class Slot(Struct, frozen=True):
    """A stack word at `base` + `offset`."""

    base: Register
    offset: int


# At depth 1 slots lie in the routine's frame, made larger: between the area at %sp that window
# traps and callees use (which moves down with %sp) and the part that the code reaches through
# %fp (which stays), so that neither `alloca` nor outgoing arguments meet them. At depth 0 they are
# the argument words that every caller keeps for its callee above its own save area (6 words at
# %sp + 128, with 32 bits 6 words at %sp + 68), unless the routine uses these itself.
@lru_cache(maxsize=1 << 12)
def slots(state: FrameState, frame_size: int | None, abi: Abi) -> tuple[Slot, ...]:
    """Return the stack slots of snippets at a point."""
    # `frame_size`: Bytes of the routine's frame, None where they are no constant.
    if state.depth == 0:
        if abi.is64:
            offsets = [abi.bias + 128 + 8 * k + state.lowered for k in range(SLOTS)]
        else:
            offsets = [o + state.lowered for o in (72, 80, 68, 88, 76)]
        return tuple(Slot(Register.SP, offset) for offset in offsets)
    if frame_size is not None:
        top = abi.bias - frame_size + abi.minimum_frame
        if fits_simm13(top - 8 * FRAME_SLOTS):
            return tuple(Slot(Register.FP, top - 8 * (k + 1)) for k in range(FRAME_SLOTS))
    bottom = abi.bias + abi.minimum_frame
    return tuple(Slot(Register.SP, bottom + 8 * k) for k in range(FRAME_SLOTS))


class Frames:
    """Frame states of one routine: forward data flow from its entries (`sites_kernel.flows`)."""

    def __init__(self, liveness: Liveness) -> None:
        self._facts, self._blocks, self._flow = liveness.facts, liveness.blocks, liveness.flow
        self.has_window = bool(self._flow.saves)
        self._inside: dict[int, Sequence[FrameState]] = {}

    @cached_property
    def frame_size(self) -> int | None:
        """Bytes of the routine's frame, None where they are no constant."""
        sizes = {size for block in self._flow.saves for _, _, size in self._saves(block)}
        return sizes.pop() if len(sizes) == 1 else None

    def named_argument_words(self, abi: Abi) -> frozenset[int]:
        """Depths at which the routine itself names argument words that its caller keeps."""
        # Routines with `...` store their arguments there, leaves by %sp (depth 0) and others by
        # %fp. The 32-bit longjmp closes the windows of its callers: its %sp is not its own (depth
        # 0).
        first, last = (abi.bias + 128, abi.bias + 175) if abi.is64 else (68, 91)
        depths = set()
        for block, code in enumerate(self._blocks):
            for position in _positions(self._facts.names_stack, code):
                state = self.before(block, position)
                word = int(self._facts.words[code.first + position])
                offset = simm13(word) - (0 if state.depth else state.lowered)
                # a routine without windows (-mflat) copies its caller's %sp to %fp, too
                bases = (_FP,) if state.depth else (_SP, _FP)
                if first <= offset <= last and word >> 14 & 31 in bases:
                    depths.add(min(state.depth, 1))
            for position in _positions(self._facts.moves, code):
                closes = self._facts.window[code.first + position] == Window.RESTORE
                if closes and self.before(block, position).depth == 0:
                    depths.add(0)
                # a leaf with arrays lowers %sp so far that no immediate reaches above them
                state = self.before(block, position + 1)
                if state.depth == 0 and not fits_simm13(last + state.lowered):
                    depths.add(0)
        return frozenset(depths)

    def before(self, block: int, position: int) -> FrameState:
        """State before instruction `position` of `block`."""
        return self.in_block(block)[position]

    def in_block(self, block: int) -> Sequence[FrameState]:
        """States before the instructions of `block`, and at its end."""
        known = self._inside.get(block)
        if known is None:
            code, state = (
                self._blocks[block],
                FrameState(self._flow.depth[block], self._flow.lowered[block]),
            )
            found = [state] * (code.count + 1)
            for place in _positions(self._facts.moves, code):
                state = self._after(code.first + place, state)
                found[place + 1 :] = [state] * (code.count - place)
            known = self._inside[block] = found
        return known

    def after(self, block: int) -> FrameState:
        """State at the end of `block`, its delay slot executed."""
        return self.in_block(block)[-1]

    def ends_frame(self, block: int, position: int) -> bool:
        """Whether an instruction lowers %sp to the end of a frame that a `save` has begun."""
        return any(begun < position <= made for begun, made, _ in self._saves(block))

    def _saves(self, block: int) -> list[tuple[int, int, int | None]]:
        # A frame of more than 4096 bytes takes constants off %sp behind the `save`, too.
        code = self._blocks[block]
        first = code.first
        found: list[tuple[int, int, int | None]] = []
        if self._facts.shifts.find(Window.SAVE, first, first + code.count) < 0:
            return found
        for position in _positions(self._facts.moves, code):
            word = int(self._facts.words[first + position])
            constant = bool(word >> 13 & 1)
            if self._facts.window[first + position] == Window.SAVE:
                found.append((position, position, -simm13(word) if constant else None))
            elif found and word & ~0x1FFF == _ADD_TO_SP and simm13(word) < 0:
                begun, _, size = found[-1]
                found[-1] = (begun, position, None if size is None else size - simm13(word))
        return found

    def _after(self, index: int, state: FrameState) -> FrameState:
        shift, word = self._facts.shifts[index], int(self._facts.words[index])
        lowered = k.moved_stack(shift, word, *state)
        return FrameState(k.moved_depth(shift, state.depth), lowered)


def _positions(flags: bytes, code: BlockCode) -> Iterator[int]:
    """Yield the positions in a block of the words that have a flag, as `CodeFacts` tells."""
    index, end = flags.find(1, code.first, code.first + code.count), code.first + code.count
    while index >= 0:
        yield index - code.first
        index = flags.find(1, index + 1, end)


class Site(NamedTuple):
    """A point where code can be put."""

    # Registers that the code must leave as they are (mask as in `simprof.simulator.isa.effects`)
    live: int
    frame: FrameState  # Window depth and stack pointer
    slots: tuple[Slot, ...]  # Stack words that the code can use

    @property
    def keeps_conditions(self) -> bool:
        """Whether condition codes are live."""
        return bool(self.live & CC)


class Where(StrEnum):
    """Kinds of places."""

    SOURCE_END = "source-end"
    TARGET_TOP = "target-top"
    FALL_THROUGH = "fall-through"  # in line between source and target
    BEFORE_TARGET = "before-target"  # in line before its target; what runs on into that jumps over
    STUB = "stub"  # out of line; ends with a jump
    BLOCK = "block"  # code of a block itself, anywhere in it


class EdgePlace(NamedTuple):
    """Where the code of an edge goes."""

    where: Where
    # The edge that the code is on. For the edge into a slot block that is the edge out of it.
    edge: int
    # block, position: The code goes before this instruction of this block; None off the blocks.
    block: int | None
    position: int | None
    site: Site


R = Register

PATH_SLOT = 3  # Which of a site's slots holds the first path register in memory
# Slots of a frame for path registers in memory; the others save registers.
FRAME_PATH_SLOTS = (PATH_SLOT, *range(13, 28))
SAVED_AT_MOST = 12
_STATIC_WORD = 8


def temporary_frame(abi: Abi) -> int:
    """Bytes by which a snippet lowers %sp where it needs more stack words than there are."""
    return abi.minimum_frame + 8 * SAVED_AT_MOST + 15 & -16


# With at most one path register in memory a snippet has the slots of its `Site`. More of them take,
# at depth 0 and in routines that use them at both depths, the six argument words that every caller
# keeps for its callee; a snippet that then frees registers lowers %sp for its own time, as does one
# that frees more than there are slots for. Path registers beyond six live at fixed addresses
# instead, as do all where the routine uses those argument words itself: a routine that is entered
# again while it is active would need them on the stack, so this is exact only without recursion.
def path_words(
    site: Site,
    abi: Abi,
    count: int,
    mixed: bool,  # Whether both depths use them, so that they must be in the caller's frame
    static: int,  # Address of the words beside the stack; their slots' base is %g0.
    argument_words: int = STACK_REGISTERS,  # How many of the words that the caller keeps are free
) -> tuple[Slot, ...]:
    """Return the words of `count` path registers in memory."""
    if site.frame.depth and not mixed:
        words = [site.slots[k] for k in FRAME_PATH_SLOTS[:count]]
        on_stack = STACK_REGISTERS
    else:
        base, lowered = (R.FP, 0) if site.frame.depth else (R.SP, site.frame.lowered)
        order = (3, 0, 1, 2, 4, 5) if abi.is64 else (5, 0, 1, 2, 3, 4)
        first, size = (abi.bias + 128, 8) if abi.is64 else (68, 4)
        on_stack = argument_words
        words = [Slot(base, first + size * k + lowered) for k in order[: min(count, on_stack)]]
    beyond = range(len(words) - on_stack, count - on_stack)
    return (*words, *(Slot(R.G0, static + _STATIC_WORD * k) for k in beyond))


def save_slots(
    site: Site, abi: Abi, wide: Sequence[bool], in_memory: int, lowered: int
) -> tuple[Slot, ...] | None:
    """Return where the registers are saved that a snippet frees; None if slots are too few."""
    # `wide`: For each register whether 64 bits are saved.
    # `in_memory`: Number of path registers in memory.
    # `lowered`: Bytes by which the snippet has lowered %sp.
    if lowered:
        if len(wide) > SAVED_AT_MOST:
            return None
        bottom = abi.bias + abi.minimum_frame
        return tuple(Slot(R.SP, bottom + 8 * k) for k in range(len(wide)))
    if site.frame.depth:
        slots = [s for k, s in enumerate(site.slots) if k not in FRAME_PATH_SLOTS]
        return tuple(slots[: len(wide)]) if len(wide) <= len(slots) else None
    slots = [s for k, s in enumerate(site.slots) if k != PATH_SLOT]
    narrow_only = not abi.is64 and any(wide[2:])
    overlaps = not abi.is64 and any(wide[:1]) and len(wide) > 3
    if len(wide) > len(slots) or narrow_only or overlaps or (wide and in_memory > 1):
        return None
    return tuple(slots[: len(wide)])
