"""Stopping a run from outside: Ctrl-C and the wall-clock budget.

While the engine runs, both set the clock's LIMIT to -1, which the block hook sees at its next
event. While the program waits in a system call (reading a terminal), the waiting thread gets a
signal, and the Python handler raises `Interrupt` there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulator.traps import ClockWord, Interruption, SignalHandler

_NUDGE_SECONDS: Final = 0.05


class Interrupt(BaseException):
    """A waiting system call is to be given up."""


class Interruptions:
    """Handles SIGINT for the time of a `with` block (in the main thread), and runs watchdogs."""

    def __init__(self, clock: NDArray[np.int64]) -> None:
        self._clock = clock
        self._waiting = False
        self._handler: SignalHandler | None = None
        self._previous: object = None
        self._thread = 0

    @property
    def _stopping(self) -> bool:
        return bool(self._clock[ClockWord.INTERRUPTED])

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._thread = threading.get_ident()
        self._previous = signal.signal(signal.SIGINT, self._on_signal)
        self._handler = SignalHandler(self._clock, signal.SIGINT)
        self._handler.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._handler is None:
            return
        self._handler.__exit__(*error)
        self._handler = None
        previous = self._previous
        signal.signal(signal.SIGINT, previous if callable(previous) else signal.SIG_DFL)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._waiting:
            self._waiting = False
            raise Interrupt

    @contextmanager
    def blocking(self) -> Iterator[None]:
        """Mark code that may wait for the outside world: it raises `Interrupt` when stopped."""
        self._waiting = True
        try:
            if self._stopping and self._handler is not None:
                raise Interrupt
            yield
        finally:
            self._waiting = False

    @contextmanager
    def watchdog(self, seconds: float | None, stop: Callable[[], None] | None) -> Iterator[None]:
        """Stop the run after `seconds`; by calling `stop` where no block hook looks at LIMIT."""
        if seconds is None:
            yield
            return
        done = threading.Event()
        arguments = (seconds, stop, done)
        thread = threading.Thread(target=self._watch, args=arguments, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _watch(
        self, seconds: float, stop: Callable[[], None] | None, done: threading.Event
    ) -> None:
        if done.wait(seconds):
            return
        clock = self._clock
        if not clock[ClockWord.INTERRUPTED]:
            clock[ClockWord.INTERRUPTED] = Interruption.TIMEOUT
        clock[ClockWord.LIMIT] = -1
        while True:
            if stop is not None:
                stop()
            if self._waiting and self._thread:
                signal.pthread_kill(self._thread, signal.SIGINT)
            if done.wait(_NUDGE_SECONDS):
                return
