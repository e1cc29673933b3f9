"""Locations that an instruction reads and writes, as far as constant propagation goes.

Terms
-----
location
    A register, the condition codes, or a frame slot (`symbolic`); here a bit. Bits 1 to 31 are
    registers, bit 32 is the condition codes, and the slots of a routine follow.
touches
    Of an instruction: what it gives a name to, though it only reads it. A register of which
    nothing is known becomes an atom when it is used.

What an instruction makes of its operands is the matter of `instructions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from simprof.profiler.recovery.instructions import ATOMIC, LOADS, STORES
from simprof.profiler.recovery.symbolic import FP, O7, SP
from simprof.simulator.isa.decode import simm13
from simprof.simulator.isa.effects import INTEGER, is_integer_vis

GLOBALS = 0xFE
CONDITION = 1 << 32  # The condition codes

FIRST_SLOT = 33  # Bit of a routine's first frame slot

_RETL = 0x81C3E008
_UNKNOWN_VALUES = (0x28, 0x2A, 0x2C, 0x2D, 0x2E, 0x2F)


class EffectKind(IntEnum):
    """How an instruction changes locations other than those that it names."""

    PLAIN = 0
    FRAME = 1  # writes a frame register: its slots are lost
    SAVE = 2
    RESTORE = 3
    STORE = 4  # to a frame slot, and what overlaps it
    CLOBBER = 5  # writes memory that may be the frame's


class Effect(NamedTuple):
    """The locations of one instruction, as masks of registers and condition codes."""

    kind: EffectKind
    writes: int = 0
    reads: int = 0  # a value that is always unknown (a product, say) depends on nothing here
    touches: int = 0
    slot: tuple[int, int] | None = None  # the frame slot accessed, (frame register, offset)
    size: int = 0  # bytes, of a store


@lru_cache(maxsize=1 << 16)
def effect_of(word: int) -> Effect | None:
    """Return what an instruction that transfers no control does, None where that is nothing."""
    op = word >> 30
    if op == 2:
        return _arithmetic(word)
    if op == 3:
        return _memory_access(word)
    if op == 0 and (word >> 22) & 7 == 4:  # sethi
        return _writing(word, 0, 0)
    return None


def bit(register: int) -> int:
    """Return a register's bit, 0 for %g0."""
    return 1 << register & INTEGER


def operands(word: int) -> int:
    """Return the registers that a format 3 instruction names as sources."""
    return bit(word >> 14 & 31) | (0 if word & 0x2000 else bit(word & 31))


def pc_thunk(words: Sequence[int], target: int) -> tuple[int, bool] | None:
    """`retl; add %o7, %rX, %rX` or `retl; mov %o7, %rX`: (register, whether it adds)."""
    if target < 0 or target + 1 >= len(words) or words[target] != _RETL:
        return None
    word = words[target + 1]
    op3, rd = (word >> 19) & 63, (word >> 25) & 31
    sources = {(word >> 14) & 31, word & 31}
    if word >> 30 != 2 or word & 0x2000 or O7 not in sources or op3 not in (0, 2):  # add, or
        return None
    if op3 == 0 and sources == {O7, rd} and rd != O7:
        return rd, True
    return (rd, False) if sources == {O7, 0} else None


def _writing(word: int, reads: int, touches: int, also: int = 0) -> Effect | None:
    register = word >> 25 & 31
    writes = bit(register) | also
    if not writes | touches:
        return None
    kind = EffectKind.FRAME if register in (SP, FP) else EffectKind.PLAIN
    return Effect(kind, writes, reads, touches)


def _arithmetic(word: int) -> Effect | None:
    op3 = word >> 19 & 63
    if op3 < 0x20:  # the ALU; bit 4: sets the condition codes
        function = op3 & 15  # from 8 on: addx, mulx, umul and so on: results unknown
        reads = operands(word) if function < 8 else 0
        touches = reads if function in (0, 2, 4) else 0  # add, or, sub: they name a value
        return _writing(word, reads, touches, CONDITION if op3 & 0x10 else 0)
    if op3 in (0x25, 0x26, 0x27):  # sll, srl, sra; no constant shift: unknown
        source = bit(word >> 14 & 31) if word & 0x2000 else 0
        return _writing(word, source, source)
    if op3 == 0x3C:  # save
        return Effect(EffectKind.SAVE, bit(word >> 25 & 31))
    if op3 == 0x3D:  # restore
        return Effect(EffectKind.RESTORE, bit(word >> 25 & 31), operands(word))
    if op3 <= 0x24:  # tagged arithmetic, mulscc
        return _writing(word, 0, 0, CONDITION)
    if op3 in _UNKNOWN_VALUES or (op3 == 0x36 and is_integer_vis(word)):
        return _writing(word, 0, 0)
    return None


def _memory_access(word: int) -> Effect | None:
    op3, register, base = word >> 19 & 63, word >> 25 & 31, word >> 14 & 31
    slot = None
    if base in (SP, FP) and word & 0x2000:
        slot = base, simm13(word)
    if op3 in STORES:
        if slot is None:
            return Effect(EffectKind.CLOBBER)
        source = bit(register) if op3 in (0x04, 0x0E) else 0  # st, stx
        return Effect(EffectKind.STORE, 0, source, source, slot, STORES[op3])
    pair = bit(register | 1) if op3 in (0x03, 0x13) else 0  # ldd, ldda
    if op3 in LOADS:
        loading = _writing(word, 0 if slot else operands(word), 0, pair)
        if slot is not None:
            return (loading or Effect(EffectKind.PLAIN))._replace(slot=slot)
        return loading
    if op3 in ATOMIC or op3 & 0x34 == 0x14:
        return Effect(EffectKind.CLOBBER, bit(register) if op3 in ATOMIC else 0)
    return _writing(word, 0, 0, pair) if op3 & 0x30 == 0x10 else None  # alternate spaces
