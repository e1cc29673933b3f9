"""Worker processes on this machine.

Each does one group of cells at a time. One that dies takes only its group with it, whose cells
become failures; one that has grown large, or has done much, is replaced by a fresh one. Workers
die with the process that started them, however that ends.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType

from simprof.profiler.experiments.cells.cells import CellResult, failure
from simprof.profiler.experiments.cells.run import JobGroup, peak_memory, run_group
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.session.pool import Spawned

Finished = tuple[int, tuple[CellResult, ...]]
"""Number of a group, and its results."""

MEMORY = 1 << 30
"""Bytes after whose use a worker is replaced; a group itself takes some hundred megabytes."""

YOUNG_OBJECTS = 100_000
"""New objects between two searches for unused cycles. Nearly all that a group makes lives to its
end, so that Python's usual 700 would have it spend a quarter of its time on searching."""

GROUPS = 25
"""Groups after which it is replaced anyway."""


def run_here(groups: Sequence[JobGroup]) -> Iterator[Finished]:
    """Run groups in this very process, one after the other."""
    for number, group in enumerate(groups):
        yield number, run_group(group)


def run_processes(
    groups: Sequence[JobGroup],
    workers: int,
    run: Callable[[JobGroup], tuple[CellResult, ...]] = run_group,
) -> Iterator[Finished]:
    """Run groups in so many processes; yield each as it is finished.

    `run`: What a worker does with a group; importable by its name.
    """
    with _Team(run) as team:
        waiting = iter(enumerate(groups))
        while True:
            while len(team.busy) < workers and (next_ := next(waiting, None)) is not None:
                team.give(*next_)
            if not team.busy:
                return
            yield from team.collect()


@dataclass
class _Worker:
    """A process, and what it is doing: the number and size of a group."""

    process: Spawned
    number: int = -1
    size: int = 0
    done: int = 0


class _Team:
    """The workers, idle and busy."""

    def __init__(self, run: Callable[[JobGroup], tuple[CellResult, ...]]) -> None:
        self._run = run
        # Workers that are ended cannot remove their temporary files: they are all in here.
        self._scratch = ExitStack()
        self._directory = self._scratch.enter_context(scratch_directory("simprof-workers-"))
        self._idle: list[_Worker] = []
        self.busy: list[_Worker] = []

    def __enter__(self) -> _Team:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in (*self._idle, *self.busy):
            worker.process.kill()
        self._scratch.close()

    def give(self, number: int, group: JobGroup) -> None:
        """Have a worker do a group."""
        worker = self._idle.pop() if self._idle else self._start()
        worker.number, worker.size = number, len(group)
        self.busy.append(worker)
        with suppress(OSError):  # it has died: `collect` finds out
            worker.process.pipe.send(group)

    def _start(self) -> _Worker:
        return _Worker(Spawned(_serve, str(self._directory), self._run))

    def collect(self) -> Iterator[Finished]:
        """Wait until one or more workers are done; yield what they did."""
        ready = wait([worker.process.pipe for worker in self.busy])
        for worker in [worker for worker in self.busy if worker.process.pipe in ready]:
            self.busy.remove(worker)
            try:
                results, memory = worker.process.pipe.recv()
            except (EOFError, OSError):
                lost = failure(f"the worker process {worker.process.obituary()}")
                yield worker.number, (lost,) * worker.size
                continue
            worker.done += 1
            if memory > MEMORY or worker.done >= GROUPS:
                worker.process.dismiss()
            else:
                self._idle.append(worker)
            yield worker.number, results


def _serve(
    pipe: Connection, directory: str, run: Callable[[JobGroup], tuple[CellResult, ...]]
) -> None:
    """Do groups as they come, until there is nobody left to do them for."""
    from simprof.profiler.engine import kernel_cache

    tempfile.tempdir = directory
    gc.set_threshold(YOUNG_OBJECTS)
    while True:
        try:
            group = pipe.recv()
        except EOFError:
            return
        pipe.send((run(group), peak_memory()))
        kernel_cache.keep()
        gc.collect()
