"""Stopping a run from outside: Ctrl-C and the wall-clock budget.

Both set the clock's INTERRUPTED and LIMIT words. The block hook sees LIMIT at its next event; a
system call that waits for the outside world asks for INTERRUPTED several times a second.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulator.cpu.traps import ClockWord, Interruption, SignalHandler

_NUDGE_SECONDS: Final = 0.05


@contextmanager
def stop_on_interrupt(clock: NDArray[np.int64]) -> Iterator[None]:
    """Let SIGINT stop the run that `clock` belongs to, for the time of a `with` block."""
    with SignalHandler(clock, signal.SIGINT):
        yield


@contextmanager
def stop_after(
    clock: NDArray[np.int64], seconds: float | None, stop: Callable[[], None] | None
) -> Iterator[None]:
    """Stop the run that `clock` belongs to after `seconds`.

    Where no block hook looks at the clock, by calling `stop`.
    """
    if seconds is None:
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(clock, seconds, stop, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _watch(
    clock: NDArray[np.int64],
    seconds: float,
    stop: Callable[[], None] | None,
    done: threading.Event,
) -> None:
    if done.wait(seconds):
        return
    if not clock[ClockWord.INTERRUPTED]:
        clock[ClockWord.INTERRUPTED] = Interruption.TIMEOUT
    clock[ClockWord.LIMIT] = -1
    while stop is not None:
        stop()
        if done.wait(_NUDGE_SECONDS):
            return
