"""Items of work in several processes, which begin as copies of this one.

So they have whatever this process has, however large, and it need not be sent to them. They die
with the process that started them, however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from simprof.profiler.session.forked import become_worker
from simprof.simulator.errors import EngineError, SimulatorError

T = TypeVar("T")
Begin = Callable[[int], Callable[[int], T]]
"""Number of a worker, from 0 -> what it does with an item, by the item's number."""


def shared_out(items: int, workers: int, begin: Begin[T]) -> Iterator[tuple[int, T]]:
    """Have workers do `items` items; yield the number of each and its result as it is finished.

    Parameters
    ----------
    workers
        How many processes; with one, or one item, all is done in this process.
    begin
        Called in each worker. Results must be what can be pickled.

    Raises
    ------
    SimulatorError
        What a worker raised; the others are then ended.
    EngineError
        A worker died.
    """
    if min(items, workers) <= 1:
        do = begin(0)
        yield from ((number, do(number)) for number in range(items))
        return
    team = _Team(items, min(items, workers), begin)
    try:
        yield from team.results()
    finally:
        team.end()


class _Team:
    """The processes, and the pipes on which their results come."""

    def __init__(self, items: int, workers: int, begin: Begin[Any]) -> None:
        context = multiprocessing.get_context("fork")
        self._next = context.Value("l", 0)
        self._items, self._begin = items, begin
        self._working: dict[Connection, BaseProcess] = {}
        for worker in range(workers):
            self._start(context, worker)

    def _start(self, context: ForkContext, worker: int) -> None:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=self._serve, args=(worker, theirs, os.getpid()), daemon=True
        )
        process.start()
        theirs.close()
        self._working[ours] = process

    def results(self) -> Iterator[tuple[int, Any]]:
        """Yield results until no worker is left."""
        while self._working:
            for pipe in wait(list(self._working)):
                assert isinstance(pipe, Connection)
                try:
                    number, result = pipe.recv()
                except EOFError:
                    self._gone(pipe)
                    continue
                if isinstance(result, SimulatorError):
                    raise result
                yield number, result

    def _gone(self, pipe: Connection) -> None:
        process = self._working.pop(pipe)
        pipe.close()
        process.join()
        code = process.exitcode or 0
        if code:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
            raise EngineError(f"a process of simprof ended {how} before its work was done")

    def end(self) -> None:
        """End what still works."""
        for process in self._working.values():
            process.kill()
        for pipe, process in self._working.items():
            process.join()
            pipe.close()

    # -- in a worker

    def _serve(self, worker: int, pipe: Connection, parent: int) -> None:
        become_worker(parent)
        with suppress(BrokenPipeError):
            try:
                do = self._begin(worker)
                while (number := self._take()) < self._items:
                    pipe.send((number, do(number)))
            except SimulatorError as error:
                pipe.send((-1, error))

    def _take(self) -> int:
        """Return the number of the next item that nobody does."""
        with self._next.get_lock():
            number = int(self._next.value)
            self._next.value = number + 1
        return number
