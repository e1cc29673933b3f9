"""The emulator's SPARC64 state structure, as Unicorn 2.1 lays it out."""

from __future__ import annotations

import ctypes
from enum import IntEnum

MAX_WINDOWS = 32
# A page of our own, beyond what programs can map: self-test and trampolines live here.
SYSTEM_PAGE = 1 << 43
# How far above a page of the program its shadow lies, from which its code is then executed.
SHADOWS = 1 << 44
REGISTERS_PER_WINDOW = 16
# Offset in the engine's handle of the address of the structure that holds the state structure.
PROCESSOR_WORD = 0x1B8
_U32 = ctypes.c_uint32
_U64 = ctypes.c_uint64


class _TrapState(ctypes.Structure):
    _fields_ = (("tpc", _U64), ("tnpc", _U64), ("tstate", _U64), ("tt", _U32))


class _Definition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("iu_version", _U64),
        ("fpu_version", _U32),
        ("mmu_version", _U32),
        ("mmu_bm", _U32),
        ("mmu_ctpr_mask", _U32),
        ("mmu_cxr_mask", _U32),
        ("mmu_sfsr_mask", _U32),
        ("mmu_trcr_mask", _U32),
        ("mxcc_version", _U32),
        ("features", _U32),
        ("nwindows", _U32),
        ("maxtl", _U32),
    )


# Unicorn offers no public way to reach the window registers, PSTATE or the FPU enable bits, so
# `cpu` works on the structure itself. This is the structure's description and nothing else; that it
# describes the build at hand is checked by `cpu` each time an engine is made.
class CpuState(ctypes.Structure):
    """The state of one SPARC64 processor. Registers are host integers."""

    _fields_ = (
        ("globals", _U64 * 8),
        ("window", _U64),  # host address of the current window's %o0
        ("pc", _U64),
        ("npc", _U64),
        ("y", _U64),
        ("cc_src", _U64),
        ("cc_src2", _U64),
        ("cc_dst", _U64),
        ("cc_op", _U32),
        ("condition", _U64),
        ("psr", _U32),  # icc in bits 20..23
        ("fsr", _U64),
        ("fp", _U64 * 32),  # double registers; %f0 is the upper half of the first
        ("cwp", _U32),
        ("tbr", _U64),
        ("psrpil", _U32),
        ("pil_in", _U32),
        ("interrupt_index", ctypes.c_int32),
        ("registers", _U64 * (MAX_WINDOWS * REGISTERS_PER_WINDOW + 8)),
        ("version", _U64),
        ("nwindows", _U32),
        ("lsu", _U64),
        ("immu", _U64 * 16),
        ("dmmu", _U64 * 16),
        ("itlb", _U64 * 128),
        ("dtlb", _U64 * 128),
        ("mmu_version", _U32),
        ("qt0", _U64 * 2),
        ("qt1", _U64 * 2),
        ("fp_status", ctypes.c_uint8 * 8),  # byte 1: rounding mode
        ("trap_states", _TrapState * 8),
        ("xcc", _U32),  # in bits 20..23
        ("asi", _U32),
        ("pstate", _U32),
        ("tl", _U32),
        ("maxtl", _U32),
        ("cansave", _U32),
        ("canrestore", _U32),
        ("otherwin", _U32),
        ("wstate", _U32),
        ("cleanwin", _U32),
        ("agregs", _U64 * 8),
        ("bgregs", _U64 * 8),
        ("igregs", _U64 * 8),
        ("mgregs", _U64 * 8),
        ("glregs", _U64 * 64),
        ("fprs", _U64),
        ("tick_cmpr", _U64),
        ("stick_cmpr", _U64),
        ("tick", _U64),
        ("stick", _U64),
        ("gsr", _U64),
        ("gl", _U32),
        ("hpstate", _U64),
        ("htstate", _U64 * 8),
        ("hintp", _U64),
        ("htba", _U64),
        ("hver", _U64),
        ("hstick_cmpr", _U64),
        ("ssr", _U64),
        ("scratch", _U64 * 8),
        ("hstick", _U64),
        ("ivec_status", _U64),
        ("ivec_data", _U64 * 3),
        ("softint", _U32),
        ("definition", _Definition),
        ("cache_control", _U32),
        ("irq_manager", _U64),
        ("irq_ack", _U64),
        ("engine", _U64),
    )


class Pstate:
    """Bits of PSTATE."""

    AM = 0x8  # addresses are 32 bits wide
    PEF = 0x10  # the FPU is enabled


FPRS_FEF = 4  # the FPU is enabled (user's bit)
ASI_PRIMARY_NO_FAULT = 0x82
FEATURE_QUAD_FLOAT = 2


# Condition codes are kept lazily: `cc_op` says how to compute them from `cc_src`, `cc_src2` and
# `cc_dst`; see `native.condition_codes`.
class CcOp(IntEnum):
    """What the lazily kept condition codes are to be computed from."""

    DYNAMIC = 0
    FLAGS = 1
    DIV = 2
    ADD = 3
    ADDX = 4
    TADD = 5
    TADDTV = 6
    SUB = 7
    SUBX = 8
    TSUB = 9
    TSUBTV = 10
    LOGIC = 11  # flags of the result only, as every operation has


def set_condition_codes(state: CpuState, icc: int, xcc: int) -> None:
    """Set the condition codes; each is four bits N Z V C."""
    state.psr = icc << 20
    state.xcc = xcc << 20
    state.cc_op = CcOp.FLAGS
