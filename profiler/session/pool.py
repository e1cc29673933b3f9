"""Processes that share out the work of one session: forks of this one, and fresh ones.

Terms
forked
    A process that has whatever this one has, however large, without being sent it (`Forked`).
spawned
    A process that shares nothing with this one, so that this may have threads; what crashes there
    ends there alone (`Spawned`). Unlike a process of `multiprocessing` it does not execute the
    caller's main script.

Both die with the process that started them, however that ends, and leave signals to it.

Steps -> functions
1. start a process when there is something to ask it       `Pool.ask`
2. hand out things to do, to whoever is idle               `Pool.share_out`
3. in the process: answer                                  `answer_all`
4. wait for answers; a process that has died gives `Lost`  `Pool.answer`
"""

# `concurrent.futures.ProcessPoolExecutor` does not do: one process that is killed, for its memory
# say, breaks the whole executor, and fresh processes execute the caller's main script.

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from msgspec import Struct

from simprof.profiler.profiles.scratch import die_with
from simprof.simulator.errors import SimulatorError

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)


class Lost(Struct, frozen=True):
    """What comes in the place of an answer from a process that has died."""

    how: str  # "was ended by SIGSEGV"
    cause: str = ""

    @classmethod
    def with_status(cls, code: int) -> Lost:
        """Return how a process ended that has this status, which is negative for a signal."""
        if code >= 0:
            return cls(f"ended with status {code}")
        cause = ": the emulator crashed; please report this program" if -code in _CRASHES else ""
        return cls(f"was ended by {signal.Signals(-code).name}", cause)

    def __str__(self) -> str:
        """Return all that can be said of it."""
        return self.how + self.cause


class Forked:
    """A copy of this process; `pipe` is our end of the pipe to it."""

    def __init__(self, serve: Callable[[Connection], None]) -> None:
        # serve: What it does, called with its end of the pipe. OSError: there can be no children.
        if multiprocessing.current_process().daemon:
            raise OSError("a process of a pool has no pool of its own")
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        with other:
            process = context.Process(target=_forked, args=(serve, other, self.pipe, os.getpid()))
            process.daemon = True
            process.start()
        self.process = process

    def dismiss(self) -> Lost:
        """Close the pipe, wait until it has ended, and return how it did."""
        self.pipe.close()
        self.process.join()
        return Lost.with_status(self.process.exitcode or 0)


def _forked(
    serve: Callable[[Connection], None], pipe: Connection, other: Connection, parent: int
) -> None:
    from simprof.simulator import stopping
    from simprof.simulator.cpu import crash  # has native code

    status = 1
    try:
        die_with(parent)
        crash.leave_to_parent()
        stopping.leave_to_parent()
        gc.freeze()  # what is there stays, and remains one memory with the parent's
        other.close()
        serve(pipe)
        status = 0
    finally:
        os._exit(status)  # without a word, and without touching what the parent's threads may hold


_BEGIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from simprof.profiler.session.pool import begin
begin(*map(int, sys.argv[2:]))
"""


class Spawned:
    """A fresh process; `pipe` is our end of the pipe to it."""

    def __init__(
        self, serve: Callable[..., None], *arguments: object, files: Sequence[int] = ()
    ) -> None:
        # serve: What it does, importable by its name: called with its end of the pipe and
        # `arguments`, which can be pickled.
        # files: Descriptors of this process that it has, too, besides the standard streams.
        self.pipe, other = Pipe()
        with other:
            words = json.dumps(sys.path), str(other.fileno()), str(os.getpid())
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BEGIN, *words], pass_fds=(other.fileno(), *files)
            )
        with suppress(OSError):  # it has died: who reads from the pipe finds out
            self.pipe.send((serve, arguments))

    def kill(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.dismiss()

    def dismiss(self) -> Lost:
        """Close the pipe, wait until it has ended, and return how it did."""
        self.pipe.close()
        return Lost.with_status(self.process.wait())


def begin(descriptor: int, parent: int) -> None:
    """Do what a spawned process is for: at its end of the pipe, until `parent` ends."""
    die_with(parent)
    from simprof.simulator import stopping
    from simprof.simulator.cpu import crash

    stopping.leave_to_parent()
    crash.leave_to_parent()
    pipe = Connection(descriptor)
    serve, arguments = pipe.recv()
    serve(pipe, *arguments)


def answer_all(
    pipe: Connection, answer: Callable[[Any], Any], afterwards: Callable[[], object] | None = None
) -> None:
    """Answer what is asked, until nobody asks any more; errors for the user are answers, too.

    `afterwards`: What to do after each answer, while nobody waits.
    """
    with suppress(EOFError, BrokenPipeError):
        while True:
            question = pipe.recv()
            try:
                found = answer(question)
            except SimulatorError as error:
                found = error
            pipe.send(found)
            del found  # it can be large, and the next question is long in coming
            if afterwards is not None:
                afterwards()


class Pool:
    """Processes that answer questions, one at a time; they are ended with the `with` block."""

    def __init__(self, start: Callable[[int], Forked | Spawned], size: int) -> None:
        # start: Starts one, by its number; it does `answer_all`. size: How many there may be.
        self._start = start
        self._processes: list[Forked | Spawned | None] = [None] * size
        self._lost: dict[int, Lost] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes, whatever they do."""
        alive = [process for process in self._processes if process is not None]
        for process in alive:
            process.process.kill()  # all of them, before any is waited for
        for process in alive:
            process.dismiss()

    def ask(self, number: int, question: object) -> None:
        """Ask one process, which is started if there is none yet."""
        process = self._processes[number]
        try:
            if process is None:
                process = self._processes[number] = self._start(number)
            process.pipe.send(question)
        except OSError as error:  # there can be no more processes, or it has died
            if process is None:
                self._lost[number] = Lost("could not be started", f": {error}")

    def answer(self, number: int) -> Any:
        """Wait for what a process answers; `Lost` if it has died.

        Raises SimulatorError if it answers with that.
        """
        process = self._processes[number]
        if process is None:
            return self._lost.pop(number)
        try:
            found = process.pipe.recv()
        except (EOFError, OSError):
            return self.dismiss(number)
        if isinstance(found, SimulatorError):
            raise found
        return found

    def dismiss(self, number: int) -> Lost:
        """Let a process end; another one takes its place when it is asked next."""
        process, self._processes[number] = self._processes[number], None
        assert process is not None
        return process.dismiss()

    def share_out(self, questions: Iterable[object]) -> Iterator[tuple[int, int, Any]]:
        """Ask whoever is idle; yield the numbers of question and process, and the answer."""
        waiting = iter(enumerate(questions))
        idle, busy = list(reversed(range(len(self._processes)))), dict[int, int]()
        while True:
            while idle and (next_ := next(waiting, None)) is not None:
                number = idle.pop()
                busy[number], question = next_
                self.ask(number, question)
            if not busy:
                return
            for number in self._ready(busy):
                asked = busy.pop(number)
                idle.append(number)
                yield asked, number, self.answer(number)

    def _ready(self, busy: Iterable[int]) -> list[int]:
        """Wait until one or more of the processes that have been asked have answered or died."""
        asked = [(number, self._processes[number]) for number in busy]
        lost = [number for number, process in asked if process is None]
        pipes = {process.pipe: number for number, process in asked if process is not None}
        return lost or [pipes[pipe] for pipe in wait(list(pipes)) if isinstance(pipe, Connection)]
