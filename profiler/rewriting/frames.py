"""Room for the stack words of snippets: the frames of a routine's copy are larger.

Snippets keep words in a frame between the area at %sp, which the routine's callees and window traps
use, and what the routine reaches through %fp (`code.frames`). So the copy's `save` takes more off
%sp: the words of snippets, and above them what the routine stores for its callees beyond six words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.emission import Emission
from simprof.profiler.code.frames import FRAME_SLOTS
from simprof.profiler.rewriting.draft import Draft, NotRewritableError
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register, fits_simm13
from simprof.simulator.isa.decode import simm13

R = Register

_SAVE = 0x3C
_WORD = 8
_BLOCK = 64
"""Frames grow by multiples of this: memcpy and memset go other ways for other alignments of what
lies on the stack."""


def uses_stack_words(emission: Emission) -> bool:
    """Whether code keeps anything on the stack."""
    return any(
        instruction.word >> 30 == 3 and instruction.word >> 14 & 31 in (R.SP, R.FP)
        for piece in emission.pieces
        for instruction in piece.snippet.instructions
    )


def growth(words: Iterable[int], context: RoutineContext, more: int = 0) -> int:
    """Return by how many bytes a routine's frames grow.

    Parameters
    ----------
    words
        The routine's instructions.
    more
        How many words the copy needs beside those of snippets.
    """
    abi = context.abi
    outgoing = 0
    for word in words:
        if word >> 30 in (2, 3) and word >> 14 & 31 == R.SP and word & 1 << 13:
            outgoing = max(outgoing, simm13(word) - abi.bias - abi.minimum_frame + _WORD)
    return -(-(_WORD * (FRAME_SLOTS + more) + outgoing) // _BLOCK) * _BLOCK


def more_room(words: Sequence[int], draft: Draft, emission: Emission, asked: int) -> int:
    """Return by how many bytes frames of a copy are larger.

    Parameters
    ----------
    words
        The routine's instructions.
    emission
        The scheme's code.
    asked
        How many words the copy needs beside those of snippets.

    Raises
    ------
    NotRewritableError
        If nothing tells where there is room.
    """
    context = draft.context
    if not draft.frames.has_window or not (asked or uses_stack_words(emission)):
        return 0
    more = growth(words, context, asked)
    by_sp = any(slot.base is R.SP for slot in context.free_site.slots)
    if by_sp and (more > growth((), context) or _varies(draft)):
        raise NotRewritableError("its frames have no constant size, and code needs room there")
    return more


def _varies(draft: Draft) -> bool:
    """Whether something moves %sp in a frame that is complete."""
    return any(
        moves_stack(draft.word(block.start + 4 * position))
        and not draft.frames.ends_frame(block.id, position)
        for block in draft.cfg.blocks
        for position in range(block.instructions)
    )


def is_save(word: int) -> bool:
    """Whether a word is `save %sp, ..., %sp`."""
    is_op = word >> 30 == 2 and word >> 19 & 63 == _SAVE
    return is_op and word >> 14 & 31 == R.SP and word >> 25 & 31 == R.SP


def moves_stack(word: int) -> bool:
    """Whether an instruction that is no `save` or `restore` changes %sp."""
    is_arithmetic = word >> 30 == 2 and word >> 19 & 63 < _SAVE
    return is_arithmetic and word >> 25 & 31 == R.SP and word >> 19 & 63 not in (0x34, 0x35, 0x30)


def larger_save(word: int, more: int) -> tuple[Instruction, ...]:
    """Return a `save` that takes `more` bytes more off %sp."""
    if word & 1 << 13 and fits_simm13(simm13(word) - more):
        return (asm.arithmetic("save", R.SP, simm13(word) - more, R.SP),)
    return (Instruction(f".word {word:#010x}", word), asm.arithmetic("add", R.SP, -more, R.SP))
