"""Which registers an instruction reads and writes, for whole arrays of words at once.

Terms: sets are masks as in `simprof.simulator.isa.effects`.
*reads* may contain more than the instruction needs; *writes* contains only what it surely
replaces whole (so a conditional move writes rd and reads it too); *names* contains everything
that the word mentions or may change. An instruction that is not known here reads and names
everything and writes nothing.

Floating-point registers are not tracked: no snippet uses them. Sources: The SPARC Architecture
Manual, Versions 8 and 9, appendices A and E; VIS Instruction Set User's Manual.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.simulator.cpu import compiled
from simprof.simulator.isa.effects import ALL, CC, FCC, FCC0, ICC, XCC, Y
from simprof.simulator.isa.sparc import LOADS_AND_STORES

SAVE, RESTORE = 1, 2  # `effects.Window`, as the kernel takes it

Masks = npt.NDArray[np.uint64]
Words = Any  # an array of numbers, and where it is machine code, its kind (`compiled.kernel`)
Bytes = Any
Longs = Any


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


# What an `opf` means: of FPop2 (compares write an fcc, moves read one, or icc, xcc, a register),
# and of VIS 1 and 2 (edge, array, alignaddr and bmask use integer registers, compares write one).
_COMPARE, _MOVE, _MOVE_BY_REGISTER, _EDGE, _INTEGER, _TO_INTEGER, _FLOATING = (
    1, 2, 4, 8, 16, 32, 64
)  # fmt: skip
_VIS = (
    (_EDGE, range(0x0C)),
    (_INTEGER, (*range(0x0C), 0x10, 0x12, 0x14, 0x18, 0x19, 0x1A)),
    (_TO_INTEGER, (0x20, 0x22, 0x24, 0x26, 0x28, 0x2A, 0x2C, 0x2E)),
    (_FLOATING, (0x31, 0x33, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x3B, 0x3D, 0x3E)),
    (_FLOATING, (0x48, 0x4B, 0x4C, 0x4D, *range(0x50, 0x58), *range(0x60, 0x82))),
)
_FPOP2 = (
    (_COMPARE, (0x51, 0x52, 0x53, 0x55, 0x56, 0x57)),
    (_MOVE, [which << 6 | form for which in (0, 1, 2, 3, 4, 6) for form in (1, 2, 3)]),
    (
        _MOVE_BY_REGISTER,
        [which << 5 | form for which in (1, 2, 3, 5, 6, 7) for form in (5, 6, 7)],
    ),
)


class _Tables(NamedTuple):
    """What opcodes of format 3 are, by op and op3, and what an opf means."""

    fields: Bytes
    reads: Longs
    writes: Longs
    # floating, vis: By opf
    floating: Bytes
    vis: Bytes


@cache
def _tables() -> _Tables:
    fields, meant = np.zeros(256, np.uint8), np.zeros((2, 512), np.uint8)
    reads, writes = np.zeros(256, np.int64), np.zeros(256, np.int64)
    for op, forms in ((2, _arithmetic_forms()), (3, _memory_forms())):
        for op3, form in forms.items():
            fields[op << 6 | op3], reads[op << 6 | op3], writes[op << 6 | op3] = form
    for of, meanings in zip(meant, (_FPOP2, _VIS), strict=True):
        for meaning, numbers in meanings:
            of[list(numbers)] |= meaning
    return _Tables(fields, reads, writes, *meant)


def effects(words: npt.NDArray[np.uint32], trap_reads: int = ALL) -> Effects:
    """Return what each of `words`, in native byte order, shape (n,), reads, writes and names.

    `trap_reads`: What the system reads at a trap, besides what the instruction names.
    """
    words = np.ascontiguousarray(words, np.uint32)
    reads, writes, names = np.zeros((3, len(words)), np.int64)
    window = np.zeros(len(words), np.uint8)
    compiled.run(find_effects, words, _tables(), trap_reads, reads, writes, names, window)
    kind = np.uint64
    return Effects(reads.view(kind), writes.view(kind), names.view(kind), window)


@compiled.kernel
def find_effects(
    words: Words, tables: _Tables, trap_reads: int,
    reads: Longs, writes: Longs, names: Longs, window: Bytes,
) -> int:  # fmt: skip
    """Find the effects of words."""
    for at in range(len(words)):
        word = words[at]
        op, op3 = word >> 30, word >> 19 & 63
        if op == 0:
            read, written, is_known = _of_branch(word)
        elif op == 1:
            read, written, is_known = 0, 1 << 15, True
        else:
            opcode = op << 6 | op3
            read, written, is_known = _of_fields(
                word, tables.fields[opcode], tables.reads[opcode], tables.writes[opcode]
            )
        if op == 2 and (op3 == 0x35 or op3 == 0x36):
            meant = tables.floating if op3 == 0x35 else tables.vis
            read, written, is_known = _of_opf(word, meant[word >> 5 & 0x1FF])
        elif op == 2:
            read, written, is_known = _of_state(word, op3, read, written, is_known)
        elif op == 3 and op3 == 0x21:  # ld %fsr
            written |= FCC if word >> 25 & 31 == 1 else FCC0
        names[at] = (read | written if is_known else ALL) & ~1
        if op == 2 and op3 == 0x3A and word >> 25 & 15:  # a trap, other than never
            read |= trap_reads
        reads[at] = read & ~1 if is_known else ALL
        writes[at] = written & ~1 if is_known else 0
        if op == 2 and op3 == 0x3C:
            window[at] = SAVE
        elif op == 2 and (op3 == 0x3D or op3 == 0x39):
            window[at] = RESTORE
    return 0


def _bit(word: int, shift: int) -> int:
    """Return the set of the register that the field at `shift` names."""
    return 1 << (word >> shift & 31)


def _cc(two: int) -> int:
    """Condition-code set of a two-bit field: 00 is icc, 10 is xcc."""
    if two & 3 == 0:
        return ICC
    return XCC if two & 3 == 2 else CC


def _decides(word: int) -> bool:
    return word >> 25 & 7 != 0  # neither always nor never


def _of_fields(word: int, fields: int, read: int, written: int) -> tuple[int, int, bool]:
    """Return what an instruction of format 3 reads and writes, and whether it is known."""
    op, op3, rd = word >> 30, word >> 19 & 63, _bit(word, 25)
    if fields & PAIR:
        rd = 3 << (word >> 25 & 30)
    # casa, casxa: i selects %asi, rs2 stays
    swaps = op == 3 and (op3 == 0x3C or op3 == 0x3E)
    if fields & RS1:
        read |= _bit(word, 14)
    if fields & RS2 and (swaps or word >> 13 & 1 == 0):
        read |= _bit(word, 0)
    if fields & RD:
        read |= rd
    if fields & WRITE:
        written |= rd
    return read, written, fields & KNOWN != 0


def _of_branch(word: int) -> tuple[int, int, bool]:
    """Return the same of branches and sethi."""
    op2, read = word >> 22 & 7, 0
    if op2 == 3:  # on a register, or on two
        read = _bit(word, 14)
        if word >> 28 & 1 and word >> 13 & 1 == 0:
            read |= _bit(word, 0)
    elif not _decides(word) and op2 != 4:
        read = 0
    elif op2 == 1:
        read = _cc(word >> 20)
    elif op2 == 2:
        read = ICC
    elif op2 == 5:
        read = FCC0 << (word >> 20 & 3)
    elif op2 == 6:
        read = FCC0
    written = _bit(word, 25) if op2 == 4 else 0
    return read, written, op2 != 7  # illtrap ends the program


def _of_state(
    word: int, op3: int, read: int, written: int, is_known: bool
) -> tuple[int, int, bool]:
    """Return the same of rd, wr, flushw, movcc and traps, or else what is given."""
    rd, rs1 = word >> 25 & 31, word >> 14 & 31
    if op3 == 0x28:  # rd; a barrier writes nothing
        if rs1 == 0:
            read |= Y
        elif rs1 == 2:
            read |= CC
        return read, written if rs1 == 15 and rd == 0 else written | 1 << rd, True
    if op3 == 0x30:  # wr
        if rd == 0:
            written |= Y
        elif rd == 2:
            written |= CC
    elif op3 == 0x2B:
        is_known = is_known or rd == 0
    elif op3 == 0x2C:
        # movcc: bit 18 selects integer condition codes, bits 12..11 which. The condition is in the
        # low four bits of the rs1 field.
        read |= _cc(word >> 11) if word >> 18 & 1 else FCC0 << (word >> 11 & 3)
    elif op3 == 0x3A:
        read |= 1 << rs1
        if word >> 13 & 1 == 0:
            read |= _bit(word, 0)
        if _decides(word):
            read |= _cc(word >> 11)
        is_known = True
    return read, written, is_known


def _of_opf(word: int, meant: int) -> tuple[int, int, bool]:
    """Return the same of an FPop2 or a VIS instruction whose opf means `meant`."""
    opf, read, written = word >> 5 & 0x1FF, 0, 0
    if meant & _COMPARE:
        written |= FCC0 << (word >> 25 & 3)
    if meant & _MOVE:
        which = opf >> 6
        read |= FCC0 << which if which < 4 else _cc(which)
    if meant & (_MOVE_BY_REGISTER | _INTEGER):
        read |= _bit(word, 14)
    if meant & _INTEGER:
        read |= _bit(word, 0)
    if meant & (_INTEGER | _TO_INTEGER):
        written |= _bit(word, 25)
    if meant & _EDGE and opf & 1 == 0:
        written |= CC
    return read, written, meant != 0
