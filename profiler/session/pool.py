"""Processes for parts of one session: forks that share memory, and fresh ones for what may crash.

`Forked` processes know what this process knew when they began. They are asked to do one thing after
the other, and hand back values. What one of them cannot do, for whatever reason, this process does
itself: an error is then raised here, and a process that is killed for its memory costs time and
nothing else.

A `Spawned` process shares nothing with the process that starts it, so that this may have threads,
and what crashes there ends there alone. Unlike a process of `multiprocessing` it does not execute
the caller's main script.

Both die with the process that started them, however that ends, and leave signals to it.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from simprof.profiler.profiles.scratch import die_with

_Wish = tuple[str, tuple[Any, ...]]
"""A method of a part, and its arguments."""


class Forked:
    """Processes with one part each, which live as long as the `with` block.

    `parts`: Objects whose methods take and return what can be pickled.
    """

    def __init__(self, parts: Sequence[object]) -> None:
        self._parts = parts
        self._asked: list[list[_Wish]] = [[] for _ in parts]
        self._started: list[tuple[BaseProcess, Connection]] = []
        self._here: set[int] = set()  # the parts that this process has taken over

    def __enter__(self) -> Forked:
        if multiprocessing.current_process().daemon:
            return self  # which may have no children
        context = multiprocessing.get_context("fork")
        try:
            for part in self._parts:
                ours, other = context.Pipe()
                process = context.Process(target=_serve, args=(part, other, ours, os.getpid()))
                process.daemon = True
                process.start()
                other.close()
                self._started.append((process, ours))
        except OSError:  # no more processes: what has none is done here
            pass
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process, pipe in self._started:
            process.kill()
            pipe.close()
        for process, _ in self._started:
            process.join()

    def ask(self, method: str, *arguments: Sequence[Any]) -> None:
        """Have each part do something.

        `method`: Of the parts. `arguments`: For each of its parameters the values, one a part.
        """
        for number, asked in enumerate(self._asked):
            wish = method, tuple(values[number] for values in arguments)
            asked.append(wish)
            with suppress(IndexError, OSError):  # it has none, or has died: `answers` finds out
                self._started[number][1].send(wish)

    def answers(self) -> list[Any]:
        """Wait for all parts; return what they answer to what they were asked last.

        Raises
        ------
        Exception
            What a part raises.
        """
        return [self._answer(number) for number in range(len(self._parts))]

    def _answer(self, number: int) -> Any:
        missed = self._asked[number]
        try:
            if number not in self._here:
                return self._started[number][1].recv()
            missed = missed[-1:]
        except Exception:
            self._here.add(number)
        found = None
        for method, arguments in missed:
            found = getattr(self._parts[number], method)(*arguments)
        return found


def become_worker(parent: int) -> None:
    """Leave to the process that has forked this one what concerns both: signals, crashes, its end.

    `parent`: Its number.
    """
    from simprof.simulator import stopping
    from simprof.simulator.cpu import crash  # has native code

    die_with(parent)
    crash.leave_to_parent()
    stopping.leave_to_parent()
    gc.freeze()  # what is there stays, and remains one memory with the parent's


def _serve(part: object, pipe: Connection, other: Connection, parent: int) -> None:
    """Do what is asked, until something fails or nobody asks any more."""
    try:
        become_worker(parent)
        other.close()
        while True:
            method, arguments = pipe.recv()
            pipe.send(getattr(part, method)(*arguments))
    finally:
        os._exit(0)  # without a word, and without touching what the parent's threads may hold


_BEGIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from simprof.profiler.session.pool import begin
begin(*map(int, sys.argv[2:]))
"""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)


class Spawned:
    """A process that does one thing.

    `serve`: What it does, importable by its name: called with its end of the pipe and `arguments`,
    which can be pickled. `files`: Descriptors of this process that it has, too, besides the
    standard streams.

    Attributes
    ----------
    pipe
        Our end of the pipe.
    """

    def __init__(
        self, serve: Callable[..., None], *arguments: object, files: Sequence[int] = ()
    ) -> None:
        self.pipe, other = Pipe()
        with other:
            words = json.dumps(sys.path), str(other.fileno()), str(os.getpid())
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BEGIN, *words], pass_fds=(other.fileno(), *files)
            )
        with suppress(OSError):  # it has died: who reads from the pipe finds out
            self.pipe.send((serve, arguments))

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self.dismiss()

    def dismiss(self) -> None:
        """Close the pipe, and wait until it has ended."""
        self.pipe.close()
        self._process.wait()

    def obituary(self) -> str:
        """Dismiss it, and return how it ended: "was ended by SIGSEGV: ..."."""
        self.dismiss()
        code = self._process.returncode
        if code >= 0:
            return f"ended with status {code}"
        cause = ": the emulator crashed; please report this program" if -code in _CRASHES else ""
        return f"was ended by {signal.Signals(-code).name}{cause}"


def begin(descriptor: int, parent: int) -> None:
    """Do what this process is for.

    `descriptor`: Of its end of the pipe. `parent`: Number of the process that started it.
    """
    die_with(parent)
    from simprof.profiler.engine import kernel_cache
    from simprof.simulator import stopping

    stopping.leave_to_parent()
    kernel_cache.ensure()
    from simprof.simulator.cpu import crash  # has native code

    crash.leave_to_parent()
    pipe = Connection(descriptor)
    serve, arguments = pipe.recv()
    serve(pipe, *arguments)
