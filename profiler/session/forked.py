"""Parts of one piece of work, each in a process of its own.

The processes are forks: they know what this process knew when they began. They are asked to do one
thing after the other, and hand back values. What one of them cannot do, for whatever reason, this
process does itself: an error is then raised here, and a process that is killed for its memory costs
time and nothing else.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from simprof.profiler.profiles.scratch import die_with

_Wish = tuple[str, tuple[Any, ...]]
"""A method of a part, and its arguments."""


class Forked:
    """Processes with one part each, which live as long as the `with` block.

    Parameters
    ----------
    parts
        Objects whose methods take and return what can be pickled.
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

        Parameters
        ----------
        method
            Of the parts.
        arguments
            For each of its parameters the values, one a part.
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

    Parameters
    ----------
    parent
        Its number.
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
