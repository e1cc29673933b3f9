"""Pages that are executed from a copy, since the engine dies of translating some of their words.

SPARC V9 reserves two conditions of instructions that test a register (`traps.is_reserved`). A
processor raises an illegal instruction; the engine has no translation for them, and ends the whole
process. A page that holds such words may hold them as data, too, so that they stay where they are:
the page's *shadow* has `illtrap` in their place, and code is fetched from there.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.cpu.address_space import SHADOWED, AddressSpace
from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.cpu.cpu_state import SHADOWS
from simprof.simulator.cpu.guest import PAGE_SIZE


class Shadows:
    """The shadows of one program's pages.

    Parameters
    ----------
    cpu, memory
        What executes them, and what they are copies of.
    are_others
        Says of an array of words which of them are not for the engine, for other reasons.
    """

    def __init__(
        self,
        cpu: Cpu,
        memory: AddressSpace,
        are_others: Callable[[NDArray[np.uint32]], NDArray[np.bool_]] | None = None,
    ) -> None:
        self._cpu = cpu
        self._memory = memory
        self._are_others = are_others
        self._pages: dict[int, tuple[mmap.mmap, int]] = {}  # address -> copy, its host address

    def make(self, page: int) -> None:
        """Execute the page at `page` from a shadow from now on."""
        if page not in self._pages:
            copy = mmap.mmap(-1, PAGE_SIZE)
            host = ctypes.addressof(ctypes.c_char.from_buffer(copy))
            self._pages[page] = copy, host
            self._cpu.map(page + SHADOWS, PAGE_SIZE, host)
        self._memory.set_page_bits(page, self._memory.page_bits(page) | SHADOWED)
        self.refresh(page)

    def refresh(self, page: int) -> None:
        """Bring the shadow of the page at `page` up to date, if it has one."""
        if page not in self._pages:
            return
        words = np.frombuffer(self._memory.peek(page, PAGE_SIZE), ">u4").copy()
        removed = are_reserved(words)
        if self._are_others is not None:
            removed |= self._are_others(words)
        words[removed] = 0
        self._pages[page][0][:] = words.tobytes()


def are_reserved(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Say of each of `words` whether it is reserved (`traps.is_reserved` in native code)."""
    size = words >> 5 & 31
    of_floats = (words & 0xC1F82C00 == 0x81A80000) & (size >= 5) & (size <= 7)
    branches = (words & 0xC7C00000 == 0x00C00000) | (words & 0xD1C00000 == 0x10C00000)
    result: NDArray[np.bool_] = branches | (words & 0xC1F80C00 == 0x81780000) | of_floats
    return result


def is_reserved(word: int) -> bool:
    """Say whether one word is reserved."""
    return bool(are_reserved(np.array([word], np.uint32))[0])
