"""Instructions that the engine computes wrongly, and what is executed in their place.

Which ones these are was found by comparing every instruction with its definition
(`docs/SEMANTICS.md`). The engine executes a trap in place of most (`codewatch.Shadows`), which
`execute` answers; three VIS subtractions have their operands exchanged, which costs nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.cpu import quads, traps, vis
from simprof.simulator.cpu.compiled import c_function, types
from simprof.simulator.cpu.cpu_state import CpuState
from simprof.simulator.cpu.native import (
    call1,
    get_word,
    load32,
    load64,
    native,
    region_of,
    store64,
    swap32,
)

# `ta` with a number of our own; a program's own such trap is told from it by the word in memory.
_TRAP_WORD: Final = 0x91D02000 | traps.Trap.OPERATION & 0x7F
_PC, _NPC = CpuState.pc.offset, CpuState.npc.offset
_TRAP_PC: Final = CpuState.trap_states.offset
_STORE_QUAD: Final = 0xC1300000  # stq, of which the engine stores the first half twice


def _table(*functions: int) -> NDArray[np.bool_]:
    table = np.zeros(512, np.bool_)
    table[[*functions]] = True
    return table


_VIS, _EXCHANGED = _table(*vis.DONE_HERE), _table(*vis.EXCHANGED)
_FP1, _FP2 = _table(*quads.FPOP1), _table(*quads.FPOP2)


def _are_done_here(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    kind, function = words & 0xC1F80000, words >> 5 & 0x1FF
    result: NDArray[np.bool_] = (kind == 0x81B00000) & _VIS[function] | (kind == _STORE_QUAD)
    result |= (kind == 0x81A00000) & _FP1[function] | (kind == 0x81A80000) & _FP2[function]
    return result


def as_executed(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return `words` as the engine is to have them so that it does what they mean."""
    exchanged = words & ~np.uint32(0x7C01F) | (words & 31) << 14 | words >> 14 & 31
    is_exchanged = (words & 0xC1F80000 == 0x81B00000) & _EXCHANGED[words >> 5 & 0x1FF]
    result = np.where(is_exchanged, exchanged, words)
    return np.where(_are_done_here(words), np.uint32(_TRAP_WORD), result)


def is_done_here(word: int) -> bool:
    """Whether a trap stands for an instruction."""
    return bool(_are_done_here(np.array([word], np.uint32))[0])


def is_quad_store(word: int) -> bool:
    """Whether it is one that Python does."""
    return word & 0xC1F80000 == _STORE_QUAD


@native(types.boolean(types.uint64, types.uint64, types.int64))
def _executed(state: Any, cpu: Any, word: Any) -> Any:
    # False: it is Python's, or it raises an exception, which Python delivers.
    kind, operation = word & 0xC1F80000, vis.lane(word >> 5, 0, 9)
    rd, rs1, rs2 = vis.lane(word >> 25, 0, 5), vis.lane(word >> 14, 0, 5), vis.lane(word, 0, 5)
    if kind == 0x81A00000:
        helpers = get_word(state, np.uint64(traps.TrapWord.HELPERS))
        return quads.compute(cpu, helpers, operation, rd, rs1, rs2)
    if kind == 0x81A80000:
        return quads.compare(cpu, operation, rd, rs1, rs2)
    if kind != 0x81B00000:
        return False
    if operation <= vis.ARRAY32:
        is64 = get_word(state, np.uint64(traps.TrapWord.IS64)) != np.uint64(0)
        vis.execute_integer(cpu, operation, rd, rs1, rs2, is64)
    else:
        vis.execute_floating(cpu, operation, rd, rs1, rs2)
    return True


@c_function(types.void(types.uint64, types.uint64))
def execute(state: Any, number: Any) -> None:
    """Answer the trap in place of an instruction; give to Python what is not one of these."""
    # `state` is the address of the trap hook's words. The engine has set pc to what follows.
    cpu = get_word(state, traps.TrapWord.CPU)
    pc = load64(cpu + np.uint64(_TRAP_PC))
    region = region_of(get_word(state, traps.TrapWord.REGIONS), pc)
    word = np.int64(0)
    if region != np.uint64(0):
        word = np.int64(swap32(load32(load64(region + np.uint64(16)) + pc - load64(region))))
    if not _executed(state, cpu, word):
        raised = word >> 30 == 2 and word >> 19 & 63 != 0x3A  # an operation, and no `ta`
        call1(get_word(state, traps.TrapWord.PYTHON), np.uint64(0x21) if raised else number)
        return
    following = load64(cpu + np.uint64(_PC)) + np.uint64(4)
    if get_word(state, traps.TrapWord.IS64) == np.uint64(0):
        following &= np.uint64(0xFFFFFFFF)
    store64(cpu + np.uint64(_NPC), following)
