"""Instructions of a LEON3 among the engine's, those of a V9, and its answers to the others.

Sources: SPARC Architecture Manual, Version 8, appendix B and F; GRLIB IP Core User's Manual, LEON3
(`CASA` is implemented, multiply-and-accumulate and a coprocessor are not) and GRFPU (singles and
doubles; every other operation is an unimplemented FPop).
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.isa.disassembly import disassemble


class Answer(IntEnum):
    """What the processor does with a word."""

    EXECUTES = 0
    ILLEGAL = 1  # trap 0x02
    COPROCESSOR = 2  # trap 0x24: there is none
    UNIMPLEMENTED = 3  # trap 0x08, floating-point type 3
    READS_OTHERWISE = 4  # V8 reserves bits that tell V9's instruction from one of V8


# -- by op3, where op is 2 or 3

_FP1, _FP2 = 0x34, 0x35
# V9's mulx, udivx, movcc, sdivx, popc, movr; umac and smac; and what no version defines.
_ILLEGAL_OPERATIONS: Final = (0x09, 0x0D, 0x19, 0x1D, *range(0x2C, 0x30), 0x3E, 0x3F)
_COPROCESSOR_OPERATIONS: Final = (0x36, 0x37)  # CPop1 and CPop2; VIS on other processors
# V9's ldsw, ldx, stx, in any space, quads, prefetch, casx; and what no version defines.
_ILLEGAL_ACCESSES: Final = (
    *(0x08, 0x0B, 0x0C, 0x0E, 0x18, 0x1B, 0x1C, 0x1E, 0x22, *range(0x28, 0x30), 0x32),
    *(*range(0x38, 0x3C), 0x3D, 0x3E, 0x3F),
)
# ldc, ldcsr, lddc, stc, stcsr, stdcq, stdc; V9's floating-point accesses to alternate spaces.
_COPROCESSOR_ACCESSES: Final = (0x30, 0x31, 0x33, 0x34, 0x35, 0x36, 0x37)
_READ, _WRITE, _SHIFTS, _TRAPS = 0x28, 0x30, (0x25, 0x26, 0x27), 0x3A
_STATES: Final = (0x21, 0x25)  # ldfsr, stfsr
_STORE_QUEUE: Final = 0x26  # stdfq; V9 has stqf there
_PAIRS: Final = (0x23, 0x27)  # lddf, stdf

# -- by opf, which of the operands are doubles: rd, rs1, rs2

_RD, _RS1, _RS2 = 4, 2, 1
_OPERATIONS: Final = {
    **dict.fromkeys((0x01, 0x05, 0x09, 0x29), 0),  # fmovs, fnegs, fabss, fsqrts
    **dict.fromkeys((0x41, 0x45, 0x49, 0x4D), 0),  # fadds, fsubs, fmuls, fdivs
    **dict.fromkeys((0x42, 0x46, 0x4A, 0x4E), _RD | _RS1 | _RS2),  # the same of doubles
    **{0x2A: _RD | _RS2, 0x69: _RD},  # fsqrtd, fsmuld
    **{0xC4: 0, 0xD1: 0, 0xC8: _RD, 0xC9: _RD, 0xC6: _RS2, 0xD2: _RS2},  # conversions
}
_COMPARISONS: Final = {0x51: 0, 0x55: 0, 0x52: _RS1 | _RS2, 0x56: _RS1 | _RS2}


def _by_function(operations: dict[int, int]) -> NDArray[np.int8]:
    table = np.full(512, -1, np.int8)
    table[list(operations)] = list(operations.values())
    return table


_DOUBLES_1, _DOUBLES_2 = _by_function(_OPERATIONS), _by_function(_COMPARISONS)


def answers(words: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return what the processor does with each of `words`, an `Answer`."""
    op, op2, op3 = words >> 30, words >> 22 & 7, words >> 19 & 63
    rd, rs1 = words >> 25 & 31, words >> 14 & 31
    result = np.zeros(len(words), np.uint8)
    # Of branches, V8 has Bicc, FBfcc, and CBccc, which is of the coprocessor.
    result[(op == 0) & np.isin(op2, (1, 3, 5))] = Answer.ILLEGAL
    result[(op == 0) & (op2 == 7)] = Answer.COPROCESSOR
    # -- fields that V8 reserves, and no processor of it looks at
    x = words >> 12 & 1  # a shift of 64 bits
    otherwise = np.isin(op3, _SHIFTS) & (x == 1)
    otherwise |= (op3 == _TRAPS) & (words >> 11 & 3 != 0)  # %xcc
    # %ccr, %asi, %tick, %pc, %fprs; `membar` is `stbar` or nothing, where there is one processor
    otherwise |= (op3 == _READ) & (rs1 > 0) & (rs1 < 16) & ((rs1 != 15) | (rd != 0))
    otherwise |= (op3 == _WRITE) & (rd > 0) & (rd < 16)
    result[(op == 2) & otherwise] = Answer.READS_OTHERWISE
    otherwise = np.isin(op3, _STATES) & (rd != 0) | (op3 == _STORE_QUEUE)
    otherwise |= np.isin(op3, _PAIRS) & (rd & 1 == 1)  # V9's %f32 to %f62
    result[(op == 3) & otherwise] = Answer.READS_OTHERWISE
    # -- operations that are not there
    result[(op == 2) & np.isin(op3, _ILLEGAL_OPERATIONS)] = Answer.ILLEGAL
    result[(op == 2) & np.isin(op3, _COPROCESSOR_OPERATIONS)] = Answer.COPROCESSOR
    result[(op == 3) & np.isin(op3, _ILLEGAL_ACCESSES)] = Answer.ILLEGAL
    result[(op == 3) & np.isin(op3, _COPROCESSOR_ACCESSES)] = Answer.COPROCESSOR
    # -- floating point
    function = words >> 5 & 0x1FF
    doubles = np.where(op3 == _FP1, _DOUBLES_1[function], _DOUBLES_2[function])
    odd = (rd & 1) << 2 | (rs1 & 1) << 1 | words & 1
    is_other = (doubles & odd.astype(np.int8) != 0) | (op3 == _FP2) & (rd != 0)  # %fcc1 to %fcc3
    floating = (op == 2) & ((op3 == _FP1) | (op3 == _FP2))
    result[floating & is_other] = Answer.READS_OTHERWISE
    result[floating & (doubles < 0)] = Answer.UNIMPLEMENTED
    return result


@lru_cache(maxsize=4096)
def answer(word: int) -> Answer:
    """Return what the processor does with one word."""
    return Answer(int(answers(np.array([word], np.uint32))[0]))


def refusal(word: int, pc: int) -> str:
    """Say why a word that V8 reads otherwise is not executed."""
    return (
        f"the instruction {word:#010x} at {pc:#x} is one of SPARC V9 ({disassemble(word, pc)}), "
        "which a LEON3 takes for another one: compile for it (-mcpu=leon3)"
    )
