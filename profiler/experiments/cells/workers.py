"""Workers that run groups of cells: processes on this machine, or those of a Dask cluster.

A process does one group at a time. One that dies takes only its group with it, whose cells become
failures; one that has grown large, or has done much, is replaced by a fresh one. Processes die with
the one that started them, however that ends.

The workers of a cluster need simprof of the same version and nothing else: programs and inputs are
sent along with the work.
"""

from __future__ import annotations

import gc
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import (
    CellDocument,
    Job,
    engine_digest,
    failure,
    versions,
)
from simprof.profiler.experiments.cells.run import JobGroup, peak_memory, run_group
from simprof.profiler.experiments.suites.suite import Input
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.session.pool import Lost, Pool, Spawned, answer_all
from simprof.simulator.errors import SimulatorError, UsageError

Finished = tuple[int, tuple[CellDocument, ...]]  # Number of a group, and its results

# Bytes after whose use a worker is replaced; a group itself takes some hundred megabytes.
MEMORY = 1 << 30

# New objects between two searches for unused cycles. Nearly all that a group makes lives to its
# end, so that Python's usual 700 would have it spend a quarter of its time on searching.
YOUNG_OBJECTS = 100_000

GROUPS = 25  # Groups after which it is replaced anyway


def run_here(groups: Sequence[JobGroup]) -> Iterator[Finished]:
    """Run groups in this very process, one after the other."""
    for number, group in enumerate(groups):
        yield number, run_group(group)


def run_processes(
    groups: Sequence[JobGroup],
    workers: int,
    # What a worker does with a group; importable by its name.
    run: Callable[[JobGroup], tuple[CellDocument, ...]] = run_group,
) -> Iterator[Finished]:
    """Run groups in so many processes; yield each as it is finished."""
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
    pipe: Connection, directory: str, run: Callable[[JobGroup], tuple[CellDocument, ...]]
) -> None:
    """Do groups as they come, until there is nobody left to do them for."""
    tempfile.tempdir = directory
    gc.set_threshold(YOUNG_OBJECTS)

    def answer(group: JobGroup) -> tuple[tuple[CellDocument, ...], int]:
        return run(group), peak_memory()

    answer_all(pipe, answer, gc.collect)


CONNECT_TIMEOUT = 10.0
AHEAD = 2  # Groups sent out per thread of the cluster: one that runs, one that waits

# Dask's workers may have threads; the emulator's hooks are made for one run in a process.
_ONE_AT_A_TIME = Lock()


class ClusterError(SimulatorError):
    """The cluster cannot do the work."""


class Parcel(NamedTuple):
    """A group with the content of its files, by their paths where it was packed."""

    group: JobGroup
    files: Mapping[Path, bytes]
    directories: frozenset[Path]  # Those that its programs may read


def pack(group: JobGroup) -> Parcel:
    """Read a group's files."""
    group = tuple(_moved(job, Path.absolute) for job in group)
    inputs = [each for job in group for each in (job.given, job.guide) if each is not None]
    roots = frozenset(each.root for each in inputs if each.root is not None)
    paths = {job.program for job in group}
    paths |= {path for each in inputs for path in (each.stdin, each.expected) if path is not None}
    paths |= {path for root in roots for path in root.rglob("*") if path.is_file()}
    return Parcel(group, {path: path.read_bytes() for path in paths}, roots)


def _moved(job: Job, place: Callable[[Path], Path]) -> Job:
    """Return a job whose files are elsewhere."""

    def moved(given: Input) -> Input:
        paths = {name: getattr(given, name) for name in ("stdin", "expected", "root")}
        return replace(given, **{name: path and place(path) for name, path in paths.items()})

    guide = None if job.guide is None else moved(job.guide)
    return replace(job, program=place(job.program), given=moved(job.given), guide=guide)


def run_parcel(parcel: Parcel, engine: str) -> tuple[CellDocument, ...] | None:
    """Run a group on whatever machine this is; None if its simprof is another one."""
    if engine_digest() != engine:
        return None
    with _ONE_AT_A_TIME, scratch_directory("simprof-parcel-") as directory:
        return run_group(unpack(parcel, directory))


def unpack(parcel: Parcel, directory: Path) -> JobGroup:
    """Write a group's files below `directory`, as they lay; return it with their paths."""

    def here(path: Path) -> Path:
        return directory / path.relative_to(path.anchor)

    for path in parcel.directories:
        here(path).mkdir(parents=True, exist_ok=True)
    for path, content in parcel.files.items():
        here(path).parent.mkdir(parents=True, exist_ok=True)
        here(path).write_bytes(content)
    return tuple(_moved(job, here) for job in parcel.group)


def run_on_cluster(groups: Sequence[JobGroup], address: str) -> Iterator[Finished]:
    """Run groups on the Dask cluster at `address`; yield each as it is finished.

    Raises ClusterError, UsageError if Dask is not installed, nobody answers, there are no workers,
    or one has another simprof.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise UsageError(
            "--scheduler needs Dask: install it with `pip install 'simprof[experiments]'`"
        ) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client: Any = Client(
            address,  # type: ignore[no-untyped-call]
            timeout=CONNECT_TIMEOUT,
            set_as_default=False,
        )
    except (OSError, ValueError, TimeoutError) as error:
        reason = " ".join(str(error).split()) or "no answer"
        raise ClusterError(f"no Dask scheduler can be reached at {address}: {reason}") from None
    with client:
        ahead = _check_workers(client, address) * AHEAD
        waiting = iter(enumerate(groups))
        numbers: dict[Any, int] = {}
        running: Any = as_completed(loop=client.loop)  # type: ignore[no-untyped-call]
        for _ in range(ahead):
            _send_next(client, waiting, numbers, running)
        for future in running:
            number = numbers.pop(future)
            results = _outcome(future, groups[number], address)
            _send_next(client, waiting, numbers, running)
            yield number, results


def _check_workers(client: Any, address: str) -> int:
    """Check that all workers have this simprof; return their number of threads."""
    threads = sum(client.nthreads().values())
    if not threads:
        raise ClusterError(f"the Dask cluster at {address} has no workers: start some")
    try:
        engines = client.run(engine_digest)
    except Exception as error:
        raise ClusterError(f"a worker of {address} has no simprof: install it ({error})") from None
    for worker, engine in engines.items():
        if engine != engine_digest():
            raise _other_version(f"the worker {worker}")
    return int(threads)


def _other_version(what: str) -> ClusterError:
    return ClusterError(
        f"{what} has another simprof than this one ({versions().simprof}, code "
        f"{engine_digest()}): install the same everywhere"
    )


def _send_next(
    client: Any, waiting: Iterator[tuple[int, JobGroup]], numbers: dict[Any, int], running: Any
) -> None:
    """Send the next group, if there is one.

    Its parcel goes with the task, to the scheduler: scattered data are on one worker, and lost with
    it. Dask would warn of large ones.
    """
    numbered_group = next(waiting, None)
    if numbered_group is None:
        return
    number, group = numbered_group
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        future = client.submit(run_parcel, pack(group), engine_digest(), pure=False)
    numbers[future] = number
    running.add(future)


def _outcome(future: Any, group: JobGroup, address: str) -> tuple[CellDocument, ...]:
    """Return a group's results; that a worker died again and again is the failure of its cells."""
    from distributed import KilledWorker

    error = future.exception()
    if isinstance(error, KilledWorker):
        return (failure(f"its workers died: {error}"),) * len(group)
    if error is not None or future.cancelled():
        raise ClusterError(f"the Dask cluster at {address} failed: {error}")
    results: tuple[CellDocument, ...] | None = future.result()
    if results is None:
        raise _other_version(f"a worker of {address}")
    return results
