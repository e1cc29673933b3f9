"""Routines that look at where they were called from: by `__builtin_return_address`, for example.

Calls of them stay at their old places (`draft.CallPlaces`), so that they find old addresses. Two
kinds differ in whose calls that concerns:

- `asks`: it reads its own return address, other than to return: %o7 without a window, %i7 in its
  own. Its callers' calls stay, and those of routines that end with a jump to it.
- `walks`: it reads return addresses further up: its caller's %i7, or a frame's word that a window
  trap stores %i7 in, behind `flushw` or following saved frame pointers (`frame_chains`). All calls
  that may lead to it stay, as those to an unwinder.

Neither is code that keeps its return address while it calls something (`mov %o7, %g1; call; mov
%g1, %o7`), that saves all registers (a store of its caller's %i7), or is `setjmp`, whose `longjmp`
leads to the copy.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.registers import abi
from simprof.profiler.recovery.calls import CONTEXTS, RETURNING_TWICE
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.rewriting.frame_chains import FrameChains
from simprof.simulator.isa.sparc import WINDOW_SAVE_WORDS

_O7, _FP, _I7 = 15, 30, 31
_IMMEDIATE = 1 << 13
_TO_O7 = 0x9E100000  # or ..., %o7
_SETS_FLAGS = 0x10
_FLUSH_WINDOWS, _TRAP_3 = 0x81580000, 0x91D02003
# `rd` and `membar`; operations on other registers; `jmpl`, `return`
_NO_READS = frozenset((0x28, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39))
# What the C library does with the address does not matter: for LD_PROFILE, which static programs do
# not read, and to find the namespace of the caller, of which they have one.
_LIBRARY = ("_dl_mcount_wrapper", "_dl_runtime_profile", "__dlmopen", "__libc_dlopen_mode")
_UNWINDING = ("_Unwind_", "uw_")  # `draft.UNWINDERS` says whose callers' addresses it reads
_TWICE = RETURNING_TWICE | CONTEXTS
_LEAVING = frozenset(
    ("longjmp", "_longjmp", "__longjmp", "siglongjmp", "__libc_longjmp", "__libc_siglongjmp")
)


class _Instruction(NamedTuple):
    """An instruction of a routine."""

    word: int
    depth: int  # Windows that the routine has saved before it
    live: int  # Registers that are live behind it (mask as in `simulator.isa.effects`)

    def reads(self, register: int) -> bool:
        """Whether it reads an integer register, other than to go where that leads, for a result
        that somebody needs.
        """
        word, op3 = self.word, self.word >> 19 & 63
        if word >> 30 == 3:
            return op3 < 0x20 and bool(op3 & 4) and word >> 25 & 31 == register
        if word >> 30 != 2 or op3 in _NO_READS:
            return False
        is_needed = bool(self.live >> (word >> 25 & 31) & 1 or op3 & _SETS_FLAGS)
        return is_needed and register in (word >> 14 & 31, -1 if word & _IMMEDIATE else word & 31)

    def asks(self, words: Container[int]) -> bool:
        """Whether it reads the return address, and none of the routine's words puts it back."""
        if not self.reads(_I7 if self.depth else _O7):
            return False
        to = self.word >> 25 & 31
        return _TO_O7 | to not in words and _TO_O7 | to << 14 not in words


def looking(recovered: ProgramGraphs, contexts: ProgramContexts) -> tuple[set[int], set[int]]:
    """Return the routines that ask for their return address, and those that walk up the stack."""
    asks: set[int] = set()
    walks: set[int] = set()
    rules = abi(recovered.program.is64)
    offset = rules.bias + (WINDOW_SAVE_WORDS - 1) * (8 if recovered.program.is64 else 4)
    for routine in _candidates(recovered, _IMMEDIATE | offset):
        cfg, analysis = recovered.routines[routine], contexts.of(routine).analysis
        if analysis is None or cfg.name in _TWICE:
            continue
        frames, live = analysis.frames, analysis.liveness
        code = [
            _Instruction(word, frames.before(block.id, k).depth, live.live_before(block.id, k + 1))
            for block in cfg.blocks
            for k, word in enumerate(recovered.code.words_of(block))
        ]
        words = {each.word for each in code}
        if not cfg.name.startswith(_LIBRARY + _UNWINDING) and any(i.asks(words) for i in code):
            asks.add(routine)
        if _walks(code, _IMMEDIATE | offset):
            walks.add(routine)
    return asks, walks | _following(recovered)


def _following(recovered: ProgramGraphs) -> set[int]:
    """Return the routines that follow saved frame pointers."""
    # What a routine reads from a pointer is taken for a frame's only in programs that flush the
    # windows for a purpose that is not known: many structures have a word at that distance.
    is64 = recovered.program.is64
    chains = FrameChains(recovered.code, is64, of_pointers=is64 or bool(flushing(recovered)))
    routines = ((n, recovered.routines[n]) for n in _having(recovered, chains.may_walk()))
    return {n for n, cfg in routines if cfg.name not in _TWICE and chains.walks(cfg)}


def flushing(recovered: ProgramGraphs) -> set[int]:
    """Return the routines that save all windows in frames, and may walk up these or have it done.

    `setjmp` and unwinders, whose callers' calls stay, are not among them.
    """
    names = recovered.arrays.names
    return {
        n
        for n in _having(recovered, np.isin(recovered.code.words, (_FLUSH_WINDOWS, _TRAP_3)))
        if names[n] not in _TWICE | _LEAVING and not names[n].startswith(_UNWINDING)
    }


def _having(recovered: ProgramGraphs, words: NDArray[np.bool_]) -> list[int]:
    """Return the routines with any of some words, which are given as flags, ascending."""
    places = map(recovered.code.address, np.flatnonzero(words).tolist())
    return sorted(set(map(recovered.routine_at, places)) - {-1})


def _candidates(recovered: ProgramGraphs, frame_word: int) -> list[int]:
    """Return the routines with words that may read a return address."""
    words = recovered.code.words
    operation, op3, registers = words >> 30, words >> 19 & 63, (_O7, _I7)
    read = np.isin(words >> 14 & 31, registers)
    read |= (words & _IMMEDIATE == 0) & np.isin(words & 31, registers)
    stored = np.isin(words >> 25 & 31, registers) | (words & 0x3FFF == frame_word)
    found = (operation == 2) & ~np.isin(op3, tuple(_NO_READS)) & read | (operation == 3) & stored
    return _having(recovered, found)


def _walks(code: Sequence[_Instruction], frame_word: int) -> bool:
    flushes = any(each.word in (_FLUSH_WINDOWS, _TRAP_3) for each in code)
    for each in code:
        word = each.word
        if each.depth == 0 and word >> 30 == 2 and each.reads(_I7):
            return True
        is_load = word >> 30 == 3 and word >> 19 & 63 < 0x20 and not word >> 19 & 4
        if is_load and word & 0x3FFF == frame_word and (flushes or word >> 14 & 31 == _FP):
            return True
    return False
