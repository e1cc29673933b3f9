"""One input for one target: read, and judged.

A reader may return, or refuse the input with an error for users, which `cli` makes one line with
exit status 125. All else is a *find*: another exception, a message that calls itself a defect of
simprof, more than `TIME_LIMIT` seconds of processor time, more than `MEMORY_LIMIT` bytes of memory,
the end of the process.
"""

from __future__ import annotations

import re
import resource
import signal
import time
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType, TracebackType

import click

from simprof.simulator.errors import SimulatorError

TIME_LIMIT = 10.0
"""Seconds of processor time for one input."""
MEMORY_LIMIT = 1 << 30
"""Bytes that reading one input may add to those of the process."""
ADDRESS_SPACE = 3 << 30
"""Bytes of address space that a process may have beyond those it begins with: what asks for more
at once fails there, and does not take the machine along."""

_ROOT = Path(__file__).resolve().parents[2]
_OWN = ("simprof",)
_DEFECT = "defect of simprof"
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'")

Reader = Callable[[bytes, Path], Hashable]
"""Reads an input, with a directory for files; returns what tells inputs apart (`Verdict.kind`)."""


class Fate(StrEnum):
    """What became of an input."""

    READ = "read"
    REFUSED = "refused"
    FIND = "find"


@dataclass(frozen=True)
class Verdict:
    """What became of an input.

    Attributes
    ----------
    kind
        Equal for inputs that took the same way, as far as that shows: the message without its
        numbers, what the reader returned, or where the exception was raised.
    story
        Of a find: what happened, with a traceback where there is one.
    """

    fate: Fate
    kind: Hashable
    story: str = ""


class HangError(BaseException):
    """Too much time: no `except Exception` may catch it."""


class Limits:
    """Limits of time and memory for the inputs of a process; a context manager.

    The time is looked at once in a second of processor time, so that an input costs no system call.
    """

    def __init__(self) -> None:
        self._since = time.process_time()
        self._most = 0

    def __enter__(self) -> Limits:
        here = _address_space()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (here + ADDRESS_SPACE, hard))
        self._most = _peak() + MEMORY_LIMIT
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, 1.0, 1.0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))

    def begin(self) -> None:
        """Begin with an input."""
        self._since = time.process_time()

    @property
    def is_exceeded(self) -> bool:
        """Whether the process has had more memory than an input may take."""
        return _peak() > self._most

    def _look(self, number: int, frame: FrameType | None) -> None:
        if time.process_time() - self._since > TIME_LIMIT:
            self._since = time.process_time()
            raise HangError


def judge(read: Reader, data: bytes, where: Path, limits: Limits) -> Verdict:
    """Have a target read an input, and say what became of it.

    Parameters
    ----------
    read
        The target.
    data
        The input.
    where
        A directory for its files.
    limits
        Those of this process, entered.
    """
    limits.begin()
    try:
        verdict = Verdict(Fate.READ, read(data, where))
    except SimulatorError as error:
        verdict = _refusal(str(error), error)
    except click.ClickException as error:
        verdict = _refusal(error.format_message(), error)
    except HangError as error:
        verdict = _find(f"more than {TIME_LIMIT:g} seconds", error)
    except (Exception, SystemExit) as error:
        verdict = _find(f"{type(error).__name__}: {error}", error)
    if limits.is_exceeded:
        return Verdict(Fate.FIND, "memory", f"more than {MEMORY_LIMIT >> 20} MiB of memory")
    return verdict


def _refusal(message: str, error: Exception) -> Verdict:
    if _DEFECT in message:
        return _find(message, error)
    if not message.split():
        return _find("an error without a message", error)
    return Verdict(Fate.REFUSED, _NUMBERS.sub("#", message)[-80:])


def _find(what: str, error: BaseException) -> Verdict:
    trace = "".join(traceback.format_exception(error, limit=-30))
    return Verdict(Fate.FIND, f"{type(error).__name__} at {_place(error)}", f"{what}\n\n{trace}")


def _place(error: BaseException) -> str:
    """Return the innermost line of simprof's own that an exception came through."""
    place = "?"
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(_ROOT) and file.relative_to(_ROOT).parts[0] in _OWN:
            place = f"{file.relative_to(_ROOT)}:{line}"
    return place


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
