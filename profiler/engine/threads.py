"""The activations of several threads: each has a stack of its own, on which one kernel works.

Counters, states and transitions are the program's. What belongs to a thread is where it is, which
the machine keeps for it (`simulator.machine.threads`), and what is here: its frames, in which one
it is, in which contexts they are, and what is to be done where it arrives next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simprof.profiler.engine import context_kernel, kernels
from simprof.profiler.engine.memory import Array, EngineMemory
from simprof.profiler.engine.walk import UNKNOWN

if TYPE_CHECKING:
    from simprof.profiler.engine.contexts import ContextCounting

DEPTH = 1 << 20
"""Activations that can be live at once in each thread but the first."""


class Arrival(NamedTuple):
    """What is to be done where control arrives next."""

    begin: Callable[[int], None]  # called with the address of the next block, wherever that is
    # Called if no block comes; returns that in which the current activation ends, or UNKNOWN.
    abandon: Callable[[], int]


@dataclass
class _Stack:
    """What a thread has for itself while another one runs."""

    # Its activations, and the contexts of each where these are told apart.
    frames: Array
    contexts: Array | None
    frame: int  # its current activation
    words: Array  # the state it is in, and what that continues
    arrival: Arrival | None  # what is to be done where it arrives next


_WORDS = [kernels.STATE, kernels.RESUMED_STATE, kernels.RESUME_PC, kernels.RESUME_END]


class ThreadStacks:
    """The stacks of the threads that do not run.

    `memory`, `contexts`: Of the run.
    """

    def __init__(self, memory: EngineMemory, contexts: ContextCounting | None) -> None:
        self._memory = memory
        self._contexts = contexts
        self._stacks: dict[int, _Stack] = {}
        self._current: int | None = None

    def start(self, number: int, current: int, begin: Callable[[int], None]) -> None:
        """Note that thread `current` has started another one, which begins by `begin`."""
        self._current = current
        frames = np.zeros(kernels.STRIDE * (DEPTH + 1), np.int64)
        contexts = None
        if self._contexts is not None:
            contexts = np.zeros(context_kernel.FRAME * (DEPTH + 1), np.int64)
        words = np.array([kernels.ABNORMAL, 0, 0, 0])
        arrival = Arrival(begin, lambda: UNKNOWN)
        self._stacks[number] = _Stack(frames, contexts, 0, words, arrival)

    def switch(self, number: int, arrival: Arrival | None) -> Arrival | None:
        """Let thread `number` go on; return its arrival. `arrival`: that of the current one."""
        if self._current is not None:
            self._stacks[self._current] = self._save(arrival)
        self._current = number
        stack = self._stacks.pop(number)
        self._memory.use_frames(stack.frames)
        self._memory.clock[kernels.FRAME] = stack.frame
        self._memory.clock[_WORDS] = stack.words
        if self._contexts is not None and stack.contexts is not None:
            self._contexts.use_frames(stack.contexts)
        return stack.arrival

    def end(self) -> None:
        """Forget the current thread."""
        self._current = None

    def others(self) -> Iterator[int]:
        """Yield the threads that do not run."""
        yield from sorted(self._stacks)

    def _save(self, arrival: Arrival | None) -> _Stack:
        memory = self._memory
        contexts = None if self._contexts is None else self._contexts.frames
        frame = int(memory.clock[kernels.FRAME])
        return _Stack(memory.state.frames, contexts, frame, memory.clock[_WORDS], arrival)
