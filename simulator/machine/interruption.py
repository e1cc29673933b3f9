"""Stopping a run from outside: Ctrl-C, other signals, and the wall-clock budget.

All set the clock's INTERRUPTED and LIMIT words. The block hook sees LIMIT at its next event; a
system call that waits for the outside world asks for INTERRUPTED several times a second. Should the
engine hear of neither, a loop within one block say, the budget's thread ends the process; so does
the third Ctrl-C (`simprof.simulator.cpu.crash`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.cpu.traps import ClockWord, Interruption, SignalHandler
from simprof.simulator.errors import SimulatorError
from simprof.simulator.stopping import that_stop_a_run

_NUDGE_SECONDS: Final = 0.05
STUCK_SECONDS = 10.0
"""How long native code may go on without an event after it has been told to stop."""
_PLEASE: Final = "please report this program"


@contextmanager
def stop_on_interrupt(clock: NDArray[np.int64]) -> Iterator[None]:
    """Let signals stop the run that `clock` belongs to, for the time of a `with` block."""
    with SignalHandler(clock, that_stop_a_run()):
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
    stuck_since = time.monotonic()
    executed = -1
    while not done.wait(_NUDGE_SECONDS):
        if stop is not None:
            stop()
        if int(clock[ClockWord.INSTRUCTIONS]) != executed or not _is_in_engine():
            executed, stuck_since = int(clock[ClockWord.INSTRUCTIONS]), time.monotonic()
        elif time.monotonic() - stuck_since > STUCK_SECONDS:
            _give_up(int(clock[ClockWord.BLOCK_ADDRESS]))


def _is_in_engine() -> bool:
    """Whether the main thread is in the engine's native code, not in Python that it has called."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and frame.f_code.co_name == "emu_start"


def _give_up(block: int) -> None:
    """End the process: native code that loops cannot be ended otherwise."""
    line = f"simprof: the emulator does not stop in or behind the block at {block:#x}: "
    os.write(2, f"{line}{_PLEASE}\n".encode())
    os._exit(SimulatorError.exit_status)
