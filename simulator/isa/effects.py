"""Which registers an instruction reads and writes, for whole arrays of words at once.

Terms: a *register set* is a 64-bit mask: bits 1..31 are the integer registers of the window in
which the instruction starts (bit 0, %g0, is never set), then the condition codes and %y.
*reads* may contain more than the instruction needs; *writes* contains only what it surely
replaces whole (so a conditional move writes rd and reads it too); *names* contains everything
that the word mentions or may change. An instruction that is not known here reads and names
everything and writes nothing.

Floating-point registers are not tracked: no snippet uses them. Sources: The SPARC Architecture
Manual, Versions 8 and 9, appendices A and E; VIS Instruction Set User's Manual.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.simulator.isa.sparc import LOADS_AND_STORES

Masks = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint32]
Fields = npt.NDArray[np.integer[Any]]

ICC = 1 << 32
XCC = 1 << 33
FCC0 = 1 << 34
FCC = 0xF << 34
Y = 1 << 38
CC = ICC | XCC
INTEGER = 0xFFFFFFFE
ALL = INTEGER | CC | FCC | Y

OUTS = 0x0000FF00
LOCALS = 0x00FF0000
INS = 0xFF000000


class Window(IntEnum):
    """What an instruction does to the register window."""

    NONE = 0
    SAVE = 1
    RESTORE = 2  # restore, and V9's return


class Effects(NamedTuple):
    """Register sets by instruction word (module docstring), and the window shifts."""

    # For a save or restore, `reads` are registers of the old window and `writes` those of the new.

    reads: Masks
    writes: Masks
    names: Masks
    window: npt.NDArray[np.uint8]


RS1, RS2, RD, WRITE, PAIR, KNOWN = 1, 2, 4, 8, 16, 32
_ALU = RS1 | RS2 | WRITE | KNOWN
_ADDRESS = RS1 | RS2 | KNOWN


class _Form(NamedTuple):
    """How the fields of a format-3 opcode are used, and what it touches besides."""

    fields: int
    reads: int = 0
    writes: int = 0


def _arithmetic_forms() -> dict[int, _Form]:
    forms = {op3: _Form(_ALU) for op3 in (*range(0x08), 0x09, 0x0D, 0x25, 0x26, 0x27, 0x2D)}
    forms |= {op3: _Form(_ALU, 0, CC) for op3 in (*range(0x10, 0x18), *range(0x20, 0x24))}
    forms |= {op3: _Form(_ALU, ICC) for op3 in (0x08, 0x0C)}
    forms |= {op3: _Form(_ALU, ICC, CC) for op3 in (0x18, 0x1C)}
    forms |= {op3: _Form(_ALU, 0, Y) for op3 in (0x0A, 0x0B)}
    forms |= {op3: _Form(_ALU, 0, Y | CC) for op3 in (0x1A, 0x1B)}
    forms |= {op3: _Form(_ALU, Y) for op3 in (0x0E, 0x0F)}
    forms |= {op3: _Form(_ALU, Y, CC) for op3 in (0x1E, 0x1F)}
    return forms | {
        0x24: _Form(_ALU, Y | ICC, Y | CC),  # mulscc
        0x2C: _Form(RS2 | RD | WRITE | KNOWN),  # movcc: the rs1 field holds the condition
        0x2E: _Form(RS2 | WRITE | KNOWN),  # popc
        0x2F: _Form(_ALU | RD),  # movr
        0x30: _Form(_ADDRESS),  # wr: the rd field names a state register
        0x34: _Form(KNOWN),  # FPop1
        0x38: _Form(_ALU),  # jmpl
        0x39: _Form(_ADDRESS),  # return
        0x3B: _Form(_ADDRESS),  # flush
        0x3C: _Form(_ALU),  # save
        0x3D: _Form(_ALU),  # restore
    }


def _memory_forms() -> dict[int, _Form]:
    forms: dict[int, _Form] = {}
    for op3, access in LOADS_AND_STORES.items():
        fields = _ADDRESS
        if access.size and not access.floating:
            fields |= WRITE if access.loads else 0
            fields |= RD if access.stores and access.name != "ldstub" else 0
            fields |= PAIR if access.name in ("ldd", "std") else 0
        forms[op3] = _Form(fields)
        if not access.name.endswith("fsr"):
            forms[op3 | 0x10] = forms[op3]
    forms[0x25] = _Form(_ADDRESS, FCC)  # st %fsr
    return forms


def _tables() -> tuple[npt.NDArray[np.uint8], Masks, Masks]:
    fields = np.zeros(256, np.uint8)
    reads = np.zeros(256, np.uint64)
    writes = np.zeros(256, np.uint64)
    for op, forms in ((2, _arithmetic_forms()), (3, _memory_forms())):
        for op3, form in forms.items():
            fields[op << 6 | op3], reads[op << 6 | op3], writes[op << 6 | op3] = form
    return fields, reads, writes


_FIELDS, _READS, _WRITES = _tables()
_ONE = np.uint64(1)


# Words looked at together: the dozens of arrays that this takes should fit the caches.
_PIECE = 1 << 16


class _Decoded:
    """Fields of every word; the register fields also as one-bit masks."""

    def __init__(self, words: Words) -> None:
        self.word, self.op, self.op2 = words, words >> 30, words >> 22 & 7
        self.op3, self.opf, self.condition = words >> 19 & 63, words >> 5 & 0x1FF, words >> 25 & 15
        self.rd_number, self.rs1_number = words >> 25 & 31, words >> 14 & 31
        numbers = (self.rd_number, self.rs1_number, words & 31)
        self.rd, self.rs1, self.rs2 = (_ONE << each.astype(np.uint64) for each in numbers)


def effects(words: Words) -> Effects:
    """Return what each of `words`, in native byte order, shape (n,), reads, writes and names."""
    starts = range(0, max(len(words), 1), _PIECE)
    pieces = [_effects(words[start : start + _PIECE]) for start in starts]
    return Effects(*map(np.concatenate, zip(*pieces, strict=True)))


def _effects(words: Words) -> Effects:
    d = _Decoded(np.ascontiguousarray(words, dtype=np.uint32))
    reads, writes, known = _format3(d)
    for special in (_branches, _state, _floating, _vis):
        special(d, reads, writes, known)
    traps = (d.op == 2) & (d.op3 == 0x3A)
    never = traps & (d.condition == 0)
    known |= traps
    names = reads | writes
    reads[(traps & ~never) | ~known] = ALL
    writes[~known] = 0
    names[~known] = ALL
    window = np.zeros(len(d.word), np.uint8)
    window[(d.op == 2) & (d.op3 == 0x3C)] = Window.SAVE
    window[(d.op == 2) & ((d.op3 == 0x3D) | (d.op3 == 0x39))] = Window.RESTORE
    zero = ~_ONE
    return Effects(reads & zero, writes & zero, names & zero, window)


def _format3(d: _Decoded) -> tuple[Masks, Masks, npt.NDArray[np.bool_]]:
    row = np.where(d.op >= 2, d.op << 6 | d.op3, 0)
    fields = _FIELDS[row]
    pair = (fields & PAIR) != 0
    even = _ONE << (d.rd_number & ~np.uint32(1)).astype(np.uint64)
    rd = np.where(pair, even | even << _ONE, d.rd)
    immediate = (d.word >> 13 & 1) != 0
    swap = (d.op == 3) & ((d.op3 == 0x3C) | (d.op3 == 0x3E))  # i selects %asi, rs2 stays
    rs2 = np.where(immediate & ~swap, np.uint64(0), d.rs2)
    none = np.uint64(0)
    reads = _READS[row] | np.where(fields & RS1, d.rs1, none)
    reads |= np.where(fields & RS2, rs2, none) | np.where(fields & RD, rd, none)
    writes = _WRITES[row] | np.where(fields & WRITE, rd, none)
    return reads, writes, (fields & KNOWN) != 0


def _cc_set(two: Fields) -> Masks:
    """Condition-code set of a two-bit field: 00 is icc, 10 is xcc."""
    return np.where(two == 0, np.uint64(ICC), np.where(two == 2, np.uint64(XCC), np.uint64(CC)))


def _fcc_set(number: Fields) -> Masks:
    return np.uint64(FCC0) << (number & 3).astype(np.uint64)


def _branches(d: _Decoded, reads: Masks, writes: Masks, known: npt.NDArray[np.bool_]) -> None:
    o0 = d.op == 0
    decides = (d.condition != 0) & (d.condition != 8)
    field = d.word >> 20 & 3
    bpcc, bicc, bpr = o0 & (d.op2 == 1), o0 & (d.op2 == 2), o0 & (d.op2 == 3)
    fbpfcc, fbfcc, sethi = o0 & (d.op2 == 5), o0 & (d.op2 == 6), o0 & (d.op2 == 4)
    compare = bpr & ((d.word >> 28 & 1) == 1)  # CBcond
    reads |= np.where(bpcc & decides, _cc_set(field), np.uint64(0))
    reads[bicc & decides] |= np.uint64(ICC)
    reads |= np.where(fbpfcc & decides, _fcc_set(field), np.uint64(0))
    reads[fbfcc & decides] |= np.uint64(FCC0)
    reads |= np.where(bpr, d.rs1, np.uint64(0))
    register = (d.word >> 13 & 1) == 0
    reads |= np.where(compare & register, d.rs2, np.uint64(0))
    writes |= np.where(sethi, d.rd, np.uint64(0))
    writes[d.op == 1] |= np.uint64(1 << 15)
    known |= bpcc | bicc | bpr | fbpfcc | fbfcc | sethi | (d.op == 1)
    known |= o0 & (d.op2 == 0)  # illtrap ends the program


def _state(d: _Decoded, reads: Masks, writes: Masks, known: npt.NDArray[np.bool_]) -> None:
    """Rd, wr, movcc's and traps' conditions, flushw, and loads of %fsr."""
    o2 = d.op == 2
    # movcc: bit 18 selects integer condition codes, bits 12..11 which. The condition is in the low
    # four bits of the rs1 field.
    field, integer = d.word >> 11 & 3, (d.word >> 18 & 1) == 1
    selected = np.where(integer, _cc_set(field), _fcc_set(field))
    reads |= np.where(o2 & (d.op3 == 0x2C), selected, np.uint64(0))
    rd = o2 & (d.op3 == 0x28)
    barrier = rd & (d.rs1_number == 15) & (d.rd_number == 0)
    reads[rd & (d.rs1_number == 0)] |= np.uint64(Y)
    reads[rd & (d.rs1_number == 2)] |= np.uint64(CC)
    writes |= np.where(rd & ~barrier, d.rd, np.uint64(0))
    wr = o2 & (d.op3 == 0x30)
    writes[wr & (d.rd_number == 0)] |= np.uint64(Y)
    writes[wr & (d.rd_number == 2)] |= np.uint64(CC)
    flushw = o2 & (d.op3 == 0x2B) & (d.rd_number == 0)
    known |= rd | flushw
    trap = o2 & (d.op3 == 0x3A)
    register = (d.word >> 13 & 1) == 0
    decides = trap & (d.condition != 0) & (d.condition != 8)
    reads |= np.where(trap, d.rs1 | np.where(register, d.rs2, np.uint64(0)), np.uint64(0))
    reads |= np.where(decides, _cc_set(field), np.uint64(0))
    fsr = (d.op == 3) & (d.op3 == 0x21)
    writes[fsr] |= np.uint64(FCC0)
    writes[fsr & (d.rd_number == 1)] |= np.uint64(FCC)


def _floating(d: _Decoded, reads: Masks, writes: Masks, known: npt.NDArray[np.bool_]) -> None:
    """FPop2: compares write an fcc, conditional moves read one (or icc, xcc, a register)."""
    fpop2 = (d.op == 2) & (d.op3 == 0x35)
    if not fpop2.any():  # as in most pieces
        return
    compare = fpop2 & np.isin(d.opf, (0x51, 0x52, 0x53, 0x55, 0x56, 0x57))
    writes |= np.where(compare, _fcc_set(d.rd_number), np.uint64(0))
    which = d.opf >> 6
    move = fpop2 & np.isin(d.opf & 0x3F, (1, 2, 3)) & np.isin(which, (0, 1, 2, 3, 4, 6))
    source = np.where(which < 4, _fcc_set(which), _cc_set(which & 3))
    reads |= np.where(move, source, np.uint64(0))
    by_register = fpop2 & np.isin(d.opf & 0x1F, (5, 6, 7)) & ((d.opf >> 8) == 0)
    by_register &= np.isin(d.opf >> 5, (1, 2, 3, 5, 6, 7))
    reads |= np.where(by_register, d.rs1, np.uint64(0))
    known |= compare | move | by_register


_VIS_FLOATING = (
    *(0x31, 0x33, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x3B, 0x3D, 0x3E),
    *(0x48, 0x4B, 0x4C, 0x4D, *range(0x50, 0x58), *range(0x60, 0x80), 0x80, 0x81),
)


def is_integer_vis(word: int) -> bool:
    """Whether a VIS instruction may write an integer register (VIS 1 to 3, and what may follow)."""
    function = (word >> 5) & 0x1FF
    return function < 0x1C or 0x20 <= function < 0x30 or function == 0x3F or function >= 0x110


def _vis(d: _Decoded, reads: Masks, writes: Masks, known: npt.NDArray[np.bool_]) -> None:
    """VIS 1 and 2: edge, array, alignaddr and bmask use integer registers, compares write one."""
    vis = (d.op == 2) & (d.op3 == 0x36)
    if not vis.any():
        return
    edge = vis & (d.opf <= 0x0B)
    integer = edge | vis & np.isin(d.opf, (0x10, 0x12, 0x14, 0x18, 0x19, 0x1A))
    compare = vis & np.isin(d.opf, (0x20, 0x22, 0x24, 0x26, 0x28, 0x2A, 0x2C, 0x2E))
    reads |= np.where(integer, d.rs1 | d.rs2, np.uint64(0))
    writes |= np.where(integer | compare, d.rd, np.uint64(0))
    writes[edge & ((d.opf & 1) == 0)] |= np.uint64(CC)
    known |= integer | compare | vis & np.isin(d.opf, _VIS_FLOATING)
