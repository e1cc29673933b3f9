"""Signals that ask simprof to end: Ctrl-C, and those of `timeout`, `kill` and a closed terminal.

While a program runs, each of them ends the run, whose profile is kept (`machine.base`). At
other moments Python's handler raises `Stopped`, as it raises KeyboardInterrupt for Ctrl-C: what is
half done goes, and simprof exits with 128 plus the signal's number. A signal that simprof was
started with ignored stays ignored (`nohup`), and one that somebody else handles stays theirs.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Final

# Signals that end a process which does not handle them; SIGINT is Python's own.
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


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def handle() -> None:
    """Have this process end in good order at the signals of `ENDING`; called by a main thread."""
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)


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
