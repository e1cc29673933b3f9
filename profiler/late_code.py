"""The words of code that start-up writes, found by running the program up to their first use.

Static programs call indirect functions through stubs (`.iplt`) that their start-up code patches.
The graphs need those words, and recovering graphs is the slow part of a short run; so a probe
looks for them first, with a plain Python hook, for as long as start-up can last.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from simulator.machine import Machine, NativeHook
from simulator.program import Range
from simulator.traps import CLOCK_WORDS, ClockWord

MAXIMUM_EVENTS = 100_000
"""Blocks after which start-up is surely over."""

_HOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p)
_STOP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class LateCodeProbe:
    """A machine's observer that stops the run at the first block in late code."""

    def __init__(self, spans: Sequence[Range]) -> None:
        self._spans = spans
        self._clock = np.zeros(CLOCK_WORDS, np.int64)
        self._events = 0
        self._callback = _HOOK(self._on_block)
        self._machine: Machine | None = None
        self.words: frozenset[tuple[int, int]] = frozenset()
        self.hook = NativeHook(
            address=ctypes.cast(self._callback, ctypes.c_void_p).value or 0,
            user_data=0,
            clock=self._clock,
            keepalive=self._callback,
        )

    def attach(self, machine: Machine) -> None:
        """Remember whom to read from."""
        self._machine = machine

    def signal_delivered(self, interrupted_pc: int, stack_pointer: int, handler: int) -> None:
        """Nothing to do."""

    def signal_returned(self, resumed_pc: int) -> None:
        """Nothing to do."""

    def context_replaced(self, pc: int) -> None:
        """Nothing to do."""

    def _on_block(self, engine: int, address: int, size: int, user_data: int) -> None:
        clock = self._clock
        self._events += 1
        if self._events == MAXIMUM_EVENTS or any(address in span for span in self._spans):
            if self._machine is not None and self._events < MAXIMUM_EVENTS:
                self.words = read_words(self._machine.read, self._spans)
            clock[ClockWord.LIMIT] = -1
        if clock[ClockWord.LIMIT] < clock[ClockWord.INSTRUCTIONS]:
            npc = ctypes.c_uint64.from_address(int(clock[ClockWord.NPC_POINTER])).value
            if npc == address + 4:
                clock[ClockWord.STOPPED] = 1
                clock[ClockWord.INTERRUPTED] = 1
                _STOP(int(clock[ClockWord.STOP_FUNCTION]))(int(clock[ClockWord.ENGINE]))
                return
        clock[ClockWord.INSTRUCTIONS] += size >> 2
        clock[ClockWord.BLOCK_ADDRESS], clock[ClockWord.BLOCK_SIZE] = address, size


def read_words(
    read: Callable[[int, int], bytes], spans: Sequence[Range]
) -> frozenset[tuple[int, int]]:
    """(address, word) of everything in `spans`, as it is in memory now."""
    found = set()
    for span in spans:
        data = read(span.start, span.end - span.start)
        found |= {
            (span.start + at, int.from_bytes(data[at : at + 4], "big"))
            for at in range(0, len(data) - 3, 4)
        }
    return frozenset(found)
