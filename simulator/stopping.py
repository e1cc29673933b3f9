"""Signals that ask simprof to end: Ctrl-C, and those of `timeout`, `kill` and a closed terminal.

While a program runs, each of them ends the run, whose profile is kept (`machine.base`). At
other moments Python's handler raises `Stopped`, a KeyboardInterrupt: what is half done goes, and
simprof exits with 128 plus the signal's number. A signal that simprof was
started with ignored stays ignored (`nohup`), and one that somebody else handles stays theirs.

What `Stopped` is raised in may lose it: ctypes prints what a callback raises and goes on, and
Python 3.11 makes a RuntimeError of what is raised while a class is made, which code that expects
damaged files takes for damage. `check` raises it again, before anything is written or kept.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any, Final

# Signals that end a process which does not handle them; Python itself handles SIGINT.
ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Stopped(KeyboardInterrupt):
    """A signal has asked simprof to end; `number`: which."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def status(self) -> int:
        """The exit status that says so."""
        return 128 + self.number

    def __str__(self) -> str:
        name = "" if self.number == signal.SIGINT else f" ({signal.Signals(self.number).name})"
        return f"interrupted{name}"


_asked: list[int] = []


def _stop(number: int, frame: FrameType | None) -> None:
    _asked.append(number)
    raise Stopped(number)


def check() -> None:
    """Raise Stopped if a signal has asked simprof to end, whatever became of that."""
    if _asked:
        raise Stopped(_asked[0])


def _show_lost(lost: Any) -> None:
    # in place of a traceback on stderr: `check` tells of it in one line
    if not isinstance(lost.exc_value, Stopped):
        sys.__unraisablehook__(lost)


def handle() -> None:
    """Have this process end in good order at Ctrl-C and `ENDING`; called by a main thread."""
    for number in (signal.SIGINT, *ENDING):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)
    sys.unraisablehook = _show_lost


def ignore() -> None:
    """Let signals come too late: the process is about to end."""
    for number in (signal.SIGINT, *ENDING):
        if signal.getsignal(number) in (_stop, signal.default_int_handler):
            signal.signal(number, signal.SIG_IGN)


def leave_to_parent() -> None:
    """Have a worker process not see what a terminal sends to its parent, too, which ends it."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def that_stop_a_run() -> tuple[int, ...]:
    """Return the signals that end a run which is going on in this process."""
    ours = [number for number in ENDING if signal.getsignal(number) is _stop]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        ours.append(signal.SIGINT)
    return tuple(ours)
