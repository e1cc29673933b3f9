"""From cells by name to their results: programs built, the store asked, the rest run and stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from simprof.profiler.experiments.cells.cells import (
    Cell,
    CellKey,
    CellKind,
    CellResult,
    Job,
    failure,
)
from simprof.profiler.experiments.cells.provenance import Keys, missing_key, row_key
from simprof.profiler.experiments.cells.replays import find, stages
from simprof.profiler.experiments.cells.run import JobGroup, groups
from simprof.profiler.experiments.cells.store import Record, Store
from simprof.profiler.experiments.cells.workers import Finished, run_here, run_processes
from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import (
    Benchmark,
    BuildProgress,
    BuildReport,
    BuiltProgram,
    CounterBuild,
    Suite,
    parse_build,
)
from simprof.simulator.errors import UsageError

Runner = Callable[[Sequence[JobGroup]], Iterator[Finished]]
"""Does groups in any order; yields each one's number and results when it is finished."""


@dataclass(frozen=True)
class CellProgress:
    """`done` of `total` cells have a result; `finished` are those that came last, as text."""

    done: int
    total: int
    finished: str = ""


@dataclass(frozen=True)
class JobOrder:
    """Jobs to run, and those that cannot be run with the reason.

    Both in the order in which they were asked for.
    """

    jobs: tuple[Job, ...]
    failures: tuple[tuple[Job, str], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of an order."""

    results: Mapping[Job, CellResult]  # A result for every job, failures among them
    reused: int  # How many of them the store had

    @property
    def failures(self) -> tuple[tuple[Job, str], ...]:
        """The jobs that failed with their errors."""
        return tuple((job, r.error) for job, r in self.results.items() if r.error is not None)


def local_runner(workers: int) -> Runner:
    """Return what runs groups on this machine: in so many processes, or with 0 in this one."""
    if workers == 0:
        return run_here
    return partial(run_processes, workers=workers)


def obtain(
    suite: Suite,
    cells: Iterable[Cell],
    *,
    store: Store | None = None,
    workers: int = 2,
    replay: Path | None = None,
    progress: Callable[[CellProgress], None] | None = None,
    building: Callable[[BuildProgress], None] | None = None,
) -> Mapping[Cell, CellResult]:
    """Return a result for each of `cells`, which are of one suite.

    What the store has is not run again, and what is run is stored. Whatever fails, be it to
    build or to run, is a result with an error.

    `workers`: Processes; 0: everything is done in this one. `replay`: A recording, or a directory
    of recordings, that cells are measured by (`replays.find`); None: they are run.

    Raises
    ------
    UsageError
        If a cell names a benchmark or an input that the suite lacks, the store or the cache
        cannot be written, or the recording is of another run.
    """
    order = suite_order(suite, cells, building=building)
    run = local_runner(workers)
    outcome = carry_out(order, run, store=store, replay=replay, progress=progress)
    return {job.cell: result for job, result in outcome.results.items()}


def suite_order(
    suite: Suite,
    cells: Iterable[Cell],
    *,
    building: Callable[[BuildProgress], None] | None = None,
) -> JobOrder:
    """Build the programs that `cells` need and say what is to be run.

    Raises
    ------
    UsageError
        As `obtain`.
    """
    wanted = tuple(dict.fromkeys(cells))
    report = _build(suite, wanted, building)
    jobs: list[Job] = []
    failures: list[tuple[Job, str]] = []
    for cell in wanted:
        built = report.programs.get((cell.benchmark, cell.build))
        job = _job(suite, cell, built)
        if built is None:
            reason = report.failures.get((cell.benchmark, cell.build), "it was not built")
            failures.append((job, f"{cell.benchmark} ({cell.build}) is not there: {reason}"))
        else:
            jobs.append(job)
    return JobOrder(tuple(jobs), tuple(failures))


def _build(
    suite: Suite, cells: Sequence[Cell], progress: Callable[[BuildProgress], None] | None
) -> BuildReport:
    """Build what the cells need and no more."""
    names = {suite.benchmark(cell.benchmark).name for cell in cells}
    needed = tuple(benchmark for benchmark in suite.benchmarks if benchmark.name in names)
    builds = [parse_build(name) for name in sorted({cell.build for cell in cells}, reverse=True)]
    if not needed:
        return BuildReport(suite.name)
    return build_suite(
        replace(suite, benchmarks=needed),
        widths=tuple(dict.fromkeys(width for width, _ in builds)),
        counters=tuple(dict.fromkeys(counters for _, counters in builds)),
        progress=progress,
    )


def _job(suite: Suite, cell: Cell, built: BuiltProgram | None) -> Job:
    benchmark = suite.benchmark(cell.benchmark)
    job = Job(
        cell,
        Path() if built is None else built.path,
        compiler="" if built is None else built.compiler,
        group=benchmark.group,
        suite=suite.name,
        position=suite.benchmarks.index(benchmark),
    )
    return job if cell.kind is CellKind.PLAN else _with_input(job, benchmark)


def _with_input(job: Job, benchmark: Benchmark) -> Job:
    program_input = benchmark.inputs.get(job.cell.input)
    if program_input is None:
        names = ", ".join(benchmark.inputs)
        raise UsageError(f"{benchmark.name} has no input {job.cell.input!r}: name one of {names}")
    return replace(
        job,
        arguments=program_input.arguments,
        environment=program_input.environment,
        stdin=program_input.stdin,
        root=program_input.root,
        writable=parse_build(job.cell.build)[1] is not CounterBuild.NONE,
        status=program_input.status,
        expected=program_input.expected,
    )


def carry_out(
    order: JobOrder,
    run: Runner,
    *,
    store: Store | None = None,
    replay: Path | None = None,
    progress: Callable[[CellProgress], None] | None = None,
    retry: bool = False,
) -> Outcome:
    """Return a result for every job of an order: from the store, or run now and then stored.

    Each group of cells is stored as soon as it is finished.

    `replay`: See `obtain`. `retry`: Run again what failed before.

    Raises
    ------
    UsageError
        If a file of a job cannot be read, the store cannot be written, or the recording is of
        another run.
    """
    keys = _keys(order)
    replays = None if replay is None else find(replay, {job: keys[job] for job in order.jobs})
    stored = {} if store is None else _stored(store, keys, retry)
    results: dict[Job, CellResult] = dict(stored)
    teller = _Teller(len(keys), len(stored), progress)
    broken = {job: failure(text) for job, text in order.failures if job not in results}
    if broken:
        _save(store, keys, broken)
        results |= broken
        teller.tell(broken)
    left = (job for job in order.jobs if job not in results)
    if replays is not None:
        left = (replays.of(job, keys[job]) for job in left)
    for work in stages(groups(left)):
        for number, group_results in run(work):
            fresh = dict(zip(work[number], group_results, strict=True))
            _save(store, keys, fresh)
            results |= fresh
            teller.tell(fresh)
    return Outcome({job: results[job] for job in keys}, len(stored))


def _keys(order: JobOrder) -> dict[Job, CellKey]:
    keys = Keys()
    return {job: keys.key(job) for job in order.jobs} | {
        job: missing_key(job) for job, _ in order.failures
    }


def _stored(store: Store, keys: Mapping[Job, CellKey], retry: bool) -> dict[Job, CellResult]:
    pairs = ((job, store.get(job, key)) for job, key in keys.items())
    stored = {job: result for job, result in pairs if result is not None}
    again = [job for job, result in stored.items() if retry and result.failed]
    if again:
        store.forget(row_key(job, keys[job]) for job in again)
    return {job: result for job, result in stored.items() if job not in again}


def _save(
    store: Store | None, keys: Mapping[Job, CellKey], results: Mapping[Job, CellResult]
) -> None:
    if store is not None:
        store.put(Record(job, keys[job], result) for job, result in results.items())


class _Teller:
    """Tells how far things are."""

    def __init__(
        self, total: int, done: int, progress: Callable[[CellProgress], None] | None
    ) -> None:
        self._total, self._done, self._progress = total, done, progress
        self.tell({})

    def tell(self, fresh: Mapping[Job, CellResult]) -> None:
        """Tell that these cells have got their results."""
        self._done += len(fresh)
        first = next(iter(fresh), None)
        name = ""
        if first is not None:
            name = " ".join(filter(None, (first.cell.benchmark, first.cell.input)))
        if self._progress is not None:
            self._progress(CellProgress(self._done, self._total, name))
