"""Control transfers of SPARC V8 and V9, decoded for whole code images at once.

Formats and field positions: The SPARC Architecture Manual, Version 9, appendix A and tables
33-38 (V8's Bicc, FBfcc, CALL, JMPL and Ticc are the same encodings). A *transfer* is any
instruction after which the next instruction may not be the one that follows it; software traps
and illegal words are listed too, because graphs need to know them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

RETURN_OFFSETS = (8, 12)  # callers are resumed after the delay slot, or after it and `unimp`
NOP = 0x01000000
_O7, _I7 = 15, 31


class TransferKind(IntEnum):
    """What a word does to the flow of control."""

    NONE = 0
    BRANCH = 1  # conditional: Bicc, BPcc, FBfcc, FBPfcc, BPr
    BRANCH_ALWAYS = 2
    BRANCH_NEVER = 3
    CALL = 4  # call disp30
    INDIRECT_CALL = 5  # jmpl address, %o7
    JUMP = 6  # jmpl address, %g0 that is no return
    RETURN_JUMP = 7  # jmpl %i7 or %o7 + 8 or 12, %g0
    RETURN = 8  # V9 return
    JUMP_AND_LINK = 9  # jmpl with any other link register
    TRAP_ALWAYS = 10  # ta
    TRAP_CONDITIONAL = 11  # Tcc that may or may not trap
    COMPARE_BRANCH = 12  # CBcond (OSA 2011); has no delay slot
    TRAP_RETURN = 13  # done, retry: privileged
    ILLEGAL = 14  # illtrap (V8: unimp) and unassigned branch encodings
    RETURN_FROM_TRAP = 15  # V8: jmpl with rett in its delay slot; privileged


def _kinds(*members: TransferKind) -> NDArray[np.bool_]:
    table = np.zeros(len(TransferKind), dtype=np.bool_)
    table[list(members)] = True
    table.flags.writeable = False
    return table


# By `TransferKind`: whether the word after it is a delay slot.
HAS_DELAY_SLOT = _kinds(
    *map(TransferKind, range(TransferKind.BRANCH, TransferKind.JUMP_AND_LINK + 1)),
    TransferKind.RETURN_FROM_TRAP,
)

# By `TransferKind`: whether control is expected to come back behind the delay slot.
IS_CALL = _kinds(TransferKind.CALL, TransferKind.INDIRECT_CALL, TransferKind.JUMP_AND_LINK)


class Transfers(Struct, frozen=True, eq=False):
    """Decoded transfers, one entry per instruction word."""

    kind: NDArray[np.uint8]  # uint8, a `TransferKind`
    # int64, address of a direct branch's or call's target; -1 where there is none.
    target: NDArray[np.int64]
    annulled: NDArray[np.bool_]  # bool, the annul bit of a branch


def decode_transfers(
    words: NDArray[np.uint32], base: int, address_bits: int = 64, *, supervisor: bool = False
) -> Transfers:
    """Decode `words` (in native order, shape (n,)), the first of which is at address `base`.

    `address_bits`: 64, or 32 for a program whose addresses wrap at 2**32. `supervisor`: Whether
    this is V8 code for supervisor mode: its `rett` has the encoding of V9's `return`.
    """
    words = np.ascontiguousarray(words, dtype=np.uint32)
    kind = np.zeros(len(words), dtype=np.uint8)
    target = np.full(len(words), -1, dtype=np.int64)
    annulled = np.zeros(len(words), dtype=np.bool_)
    calls = np.flatnonzero((words & 0xC0000000) == 0x40000000)  # format 1
    kind[calls] = TransferKind.CALL
    direct = (calls, _signed(words[calls] & 0x3FFFFFFF, 30))
    for where, displacement in (direct, _decode_branches(words, kind, annulled)):
        leads = base + 4 * (where + displacement)
        if address_bits == 32:
            leads &= 0xFFFFFFFF
        # Targets that wrap below zero or beyond 2**63 cannot be code.
        target[where] = np.where(leads < 0, -1, leads)
    _decode_register_transfers(words, kind)
    if supervisor:
        # One transfer of each couple `jmpl; rett` (SPARC V8 B.26): `rett` is its delay slot.
        couple = (kind[:-1] == TransferKind.JUMP) & (kind[1:] == TransferKind.RETURN)
        jumps = np.flatnonzero(couple)
        kind[jumps], kind[jumps + 1] = TransferKind.RETURN_FROM_TRAP, TransferKind.NONE
    return Transfers(kind, target, annulled)


def simm13(word: int) -> int:
    """Return the signed immediate of a word of format 3."""
    return (word & 0x1FFF ^ 0x1000) - 0x1000


def _signed(values: NDArray[np.integer[Any]], bits: int) -> NDArray[np.int64]:
    wide = values.astype(np.int64)
    sign = np.int64(1 << (bits - 1))
    return (wide ^ sign) - sign


def _decode_branches(
    words: NDArray[np.uint32],
    kind: NDArray[np.uint8],
    annulled: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Format 2 (op = 0): fill in the branches, and illtrap and its unassigned neighbours; return
    where the branches are, and how many words they lead ahead.
    """
    where = np.flatnonzero(words < 0x40000000)
    where = where[(words[where] >> 22) & 7 != 4]
    w = words[where]
    op2 = (w >> 22) & 7
    condition = (w >> 25) & 15
    k = np.full(len(where), TransferKind.BRANCH, dtype=np.uint8)
    k[condition == 8] = TransferKind.BRANCH_ALWAYS
    k[condition == 0] = TransferKind.BRANCH_NEVER
    disp = np.where((op2 == 1) | (op2 == 5), _signed(w & 0x7FFFF, 19), _signed(w & 0x3FFFFF, 22))

    on_register = op2 == 3
    compare = on_register & ((w >> 28) & 1 == 1)
    on_register &= ~compare
    k[on_register] = TransferKind.BRANCH
    k[compare] = TransferKind.COMPARE_BRANCH
    disp16 = _signed(((w >> 6) & 0xC000) | (w & 0x3FFF), 16)
    disp10 = _signed(((w >> 11) & 0x300) | ((w >> 5) & 0xFF), 10)
    disp = np.where(on_register, disp16, np.where(compare, disp10, disp))

    illegal = (op2 == 0) | (op2 == 7)
    illegal |= on_register & (((w >> 25) & 3) == 0)  # reserved register conditions
    illegal |= (op2 == 1) & (((w >> 20) & 1) == 1)  # reserved condition-code selectors
    k[illegal] = TransferKind.ILLEGAL
    kind[where] = k
    annulled[where] = ((w >> 29) & 1 == 1) & ~illegal & ~compare
    return where[~illegal], disp[~illegal]


def _decode_register_transfers(words: NDArray[np.uint32], kind: NDArray[np.uint8]) -> None:
    """Format 3 (op = 2): jmpl, return, Tcc, done, retry."""
    where = np.flatnonzero((words & 0xC1C00000) == 0x81C00000)  # op = 2, op3 = 0x38 to 0x3f
    w = words[where]
    op3 = (w >> 19) & 0x3F
    rd = (w >> 25) & 31
    source = (w >> 14) & 31
    immediate = ((w >> 13) & 1) == 1
    condition = rd & 15
    k = np.zeros(len(where), dtype=np.uint8)

    jump = op3 == 0x38
    back = jump & (rd == 0) & immediate & np.isin(w & 0x1FFF, RETURN_OFFSETS)
    back &= (source == _I7) | (source == _O7)
    k[jump] = TransferKind.JUMP_AND_LINK
    k[jump & (rd == _O7)] = TransferKind.INDIRECT_CALL
    k[jump & (rd == 0)] = TransferKind.JUMP
    k[back] = TransferKind.RETURN_JUMP
    k[op3 == 0x39] = TransferKind.RETURN
    trap = op3 == 0x3A
    k[trap & (condition != 0)] = TransferKind.TRAP_CONDITIONAL
    k[trap & (condition == 8)] = TransferKind.TRAP_ALWAYS
    k[op3 == 0x3E] = TransferKind.TRAP_RETURN
    kind[where] = k
