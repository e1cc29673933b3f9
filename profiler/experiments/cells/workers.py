"""Worker processes on this machine.

Each does one group of cells at a time. One that dies takes only its group with it, whose cells
become failures; one that has grown large, or has done much, is replaced by a fresh one. Workers
die with the process that started them, however that ends.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection

from simprof.profiler.experiments.cells.cells import CellResult, failure
from simprof.profiler.experiments.cells.run import JobGroup, peak_memory, run_group
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.session.pool import Lost, Pool, Spawned, answer_all

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
    done = [0] * workers
    # workers that are ended cannot remove their temporary files: they are all in one directory
    with (
        scratch_directory("simprof-workers-") as directory,
        Pool(lambda _: Spawned(_serve, str(directory), run), workers) as pool,
    ):
        for number, worker, answer in pool.share_out(groups):
            if isinstance(answer, Lost):
                lost = failure(f"the worker process {answer}")
                done[worker] = 0
                yield number, (lost,) * len(groups[number])
                continue
            results, memory = answer
            done[worker] += 1
            if memory > MEMORY or done[worker] >= GROUPS:
                pool.dismiss(worker)
                done[worker] = 0
            yield number, results


def _serve(
    pipe: Connection, directory: str, run: Callable[[JobGroup], tuple[CellResult, ...]]
) -> None:
    """Do groups as they come, until there is nobody left to do them for."""
    from simprof.profiler.engine import kernel_cache

    tempfile.tempdir = directory
    gc.set_threshold(YOUNG_OBJECTS)

    def answer(group: JobGroup) -> tuple[tuple[CellResult, ...], int]:
        return run(group), peak_memory()

    def tidy_up() -> None:
        kernel_cache.keep()
        gc.collect()

    answer_all(pipe, answer, tidy_up)
