"""From cells to their results: programs built, the store asked, the rest run and stored.

`obtain` is for cells of a suite, `sweep` for a grid of programs x modes x options x weights
(docs/EXPERIMENTS.md, Sweeps, has a grid file). Options that a mode does not read make no cell of
their own.
"""

from __future__ import annotations

import fcntl
import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import (
    Cell,
    CellDocument,
    CellKey,
    CellKind,
    Job,
    Keys,
    RunFiles,
    failure,
    missing_key,
    plan_cell,
    row_key,
)
from simprof.profiler.experiments.cells.recordings import replayed
from simprof.profiler.experiments.cells.run import JobGroup, groups
from simprof.profiler.experiments.cells.settings import (
    CellSetting,
    GuideChoice,
    combinations,
    refuse_unread,
)
from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.experiments.cells.workers import Finished, run_here, run_processes
from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import (
    DEFAULT_BUILD,
    NO_INPUT,
    BuildReport,
    BuiltProgram,
    CounterBuild,
    Input,
    Suite,
    parse_build,
)
from simprof.profiler.experiments.suites.suite_file import (
    Text,
    TomlTable,
    as_table,
    load_suite,
    load_toml,
)
from simprof.profiler.request.request import Phase, ProgressCallback, report_progress
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.simulator.errors import UsageError

# Does groups in any order; yields each one's number and results when it is finished.
Runner = Callable[[Sequence[JobGroup]], Iterator[Finished]]


class JobOrder(Struct, frozen=True):
    """Jobs to run, and those that cannot be run with the reason.

    Both in the order in which they were asked for.
    """

    jobs: tuple[Job, ...]
    failures: tuple[tuple[Job, str], ...] = ()


class Outcome(Struct, frozen=True):
    """What became of an order."""

    results: Mapping[Job, CellDocument]  # A result for every job, failures among them
    reused: int  # How many of them the store had
    keys: Mapping[Job, CellKey] = field(default_factory=dict)  # Of every job

    @property
    def cells(self) -> Mapping[Cell, CellDocument]:
        """The results by their cells."""
        return {job.cell: result for job, result in self.results.items()}

    @property
    def files(self) -> tuple[RunFiles, ...]:
        """What was run, each once."""
        found = (
            RunFiles(job.cell.benchmark, job.cell.build, job.cell.input, key.program, key.stdin)
            for job, key in self.keys.items()
        )
        return tuple(dict.fromkeys(found))

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
    workers: int = 2,  # Processes; 0: everything is done in this one
    # A recording of the one run that cells are of; None: they see their own world.
    replay: Path | None = None,
    progress: ProgressCallback | None = None,
) -> Outcome:
    """Return a result for each of `cells`, which are of one suite.

    What the store has is not run again, and what is run is stored. Whatever fails, be it to
    build or to run, is a result with an error.

    Raises UsageError if a cell names a benchmark or an input that the suite lacks, the store or the
    cache cannot be written, or the recording is of another run.
    """
    order = suite_order(suite, cells, progress=progress)
    run = local_runner(workers)
    return carry_out(order, run, store=store, replay=replay, progress=progress)


def suite_order(
    suite: Suite,
    cells: Iterable[Cell],
    *,
    progress: ProgressCallback | None = None,
) -> JobOrder:
    """Build the programs that `cells` need and say what is to be run.

    Raises UsageError as `obtain`.
    """
    wanted = tuple(dict.fromkeys(cells))
    report = _build(suite, wanted, progress)
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


def _build(suite: Suite, cells: Sequence[Cell], progress: ProgressCallback | None) -> BuildReport:
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
    if cell.kind is CellKind.PLAN:
        return job
    if cell.input not in benchmark.inputs:
        names = ", ".join(benchmark.inputs)
        raise UsageError(f"{benchmark.name} has no input {cell.input!r}: name one of {names}")
    is_counted = parse_build(cell.build)[1] is not CounterBuild.NONE
    own = cell.setting.guide is GuideChoice.OWN
    guide = None if own else benchmark.inputs[cell.setting.guide.value]
    return replace(job, given=benchmark.inputs[cell.input], guide=guide, writable=is_counted)


def carry_out(
    order: JobOrder,
    run: Runner,
    *,
    store: Store | None = None,
    replay: Path | None = None,  # See `obtain`
    progress: ProgressCallback | None = None,
    retry: bool = False,  # Run again what failed before
) -> Outcome:
    """Return a result for every job of an order: from the store, or run now and then stored.

    Each group of cells is stored as soon as it is finished.

    Raises UsageError if a file of a job cannot be read, the store cannot be written, or the
    recording is of another run.
    """
    made = Keys()
    keys = {job: made.key(job) for job in order.jobs}
    keys |= {job: missing_key(job) for job, _ in order.failures}
    given = None if replay is None else replayed(replay, {job: keys[job] for job in order.jobs})
    stored: dict[Job, CellDocument] = {}
    if store is not None:
        known = ((job, store.get(job, key)) for job, key in keys.items())
        stored = {job: result for job, result in known if result is not None}
        again = [job for job, result in stored.items() if retry and result.failed]
        if again:
            store.forget(row_key(job, keys[job]) for job in again)
        stored = {job: result for job, result in stored.items() if job not in again}
    results = dict(stored)
    report_progress(progress, Phase.MEASURING_CELLS, len(results), len(keys))

    def take(fresh: Mapping[Job, CellDocument]) -> None:
        if store is not None:
            store.put((job, keys[job], result) for job, result in fresh.items())
        results.update(fresh)
        first = next(iter(fresh)).cell
        name = " ".join(filter(None, (first.benchmark, first.input)))
        report_progress(progress, Phase.MEASURING_CELLS, len(results), len(keys), text=name)

    broken = {job: failure(text) for job, text in order.failures if job not in results}
    if broken:
        take(broken)
    left = [job for job in order.jobs if job not in results]
    work = groups(left if given is None else map(given, left))
    for number, group_results in run(work):
        take(dict(zip(work[number], group_results, strict=True)))
    return Outcome({job: results[job] for job in keys}, len(stored), keys)


FILE_BUILD = "file"  # Name of the build of programs that belong to no suite


class GridProgram(Struct, frozen=True):
    """A program that belongs to no suite, with one input."""

    file: Path
    name: str
    given: Input = field(default_factory=lambda: Input("ref"))


class Grid(Struct, frozen=True):
    """What a sweep combines, as the keys of a grid file."""

    suite: str | None = None
    programs: tuple[GridProgram, ...] = ()
    benchmarks: tuple[str, ...] = ()
    builds: tuple[str, ...] = (DEFAULT_BUILD,)
    inputs: tuple[str, ...] = ("ref",)
    kinds: tuple[CellKind, ...] = (CellKind.RUN,)
    modes: tuple[str, ...] = field(default_factory=registry.planned_modes)
    options: tuple[Mapping[str, object], ...] = ({},)
    weights: tuple[str, ...] = ()  # None: the heuristic's
    max_instructions: int | None = None

    def settings(self) -> tuple[CellSetting, ...]:
        """Return modes x options x weights, each once.

        Raises UsageError if one is not known, has a value that it cannot have, or has no effect on
        any of the modes.
        """
        wanted = tuple(combinations(self.modes, self.options, self.weights or (Weights.HEURISTIC,)))
        given = dict.fromkeys(name for each in self.options for name in each)
        refuse_unread(self.modes, given if not self.weights else {**given, "weights": None})
        return wanted


class _ProgramTable(TomlTable, frozen=True):
    file: Text
    name: Text | None = None
    arguments: tuple[str, ...] = ()
    stdin: Text | None = None
    root: Text | None = None


_Names = Annotated[tuple[str, ...], Meta(min_length=1)] | None


class _GridTable(TomlTable, frozen=True):
    suite: Text | None = None
    program: tuple[_ProgramTable, ...] = ()
    settings: tuple[dict[str, Any], ...] = ()
    benchmarks: tuple[str, ...] = ()
    builds: _Names = None
    inputs: _Names = None
    kinds: _Names = None
    modes: _Names = None
    weights: _Names = None
    max_instructions: Annotated[int, Meta(ge=1)] | None = None


def read_grid(path: Path) -> Grid:
    """Read a grid file; raises UsageError if it cannot be read or is not as it should be."""
    table, plain, here = as_table(_GridTable, load_toml(path), str(path)), Grid(), path.parent
    suite = table.suite
    return Grid(
        suite=str(here / suite) if suite and suite.endswith(".toml") else suite,
        programs=tuple(_program(each, here) for each in table.program),
        benchmarks=table.benchmarks,
        builds=table.builds or plain.builds,
        inputs=table.inputs or plain.inputs,
        kinds=tuple(map(kind, table.kinds or ())) or plain.kinds,
        modes=table.modes or plain.modes,
        options=table.settings or plain.options,
        weights=table.weights or plain.weights,
        max_instructions=table.max_instructions,
    )


def _program(table: _ProgramTable, here: Path) -> GridProgram:
    stdin, root = (None if name is None else here / name for name in (table.stdin, table.root))
    given = Input("ref", table.arguments, stdin, root)
    return GridProgram(here / table.file, table.name or Path(table.file).stem, given)


def kind(name: str) -> CellKind:
    """Return a kind of cells by its name."""
    try:
        return CellKind(name)
    except ValueError:
        raise UsageError(
            f"{name!r} is no kind of cells: write one of {', '.join(CellKind)}"
        ) from None


def make_order(
    grid: Grid,
    *,
    progress: ProgressCallback | None = None,
    # Whether a suite's file that does not come with simprof may have commands executed.
    allow_commands: bool = False,
) -> JobOrder:
    """Return the jobs of a grid, its programs built.

    Raises UsageError if the grid is empty, or names what is not there.
    """
    settings = grid.settings()
    order = JobOrder(tuple(_program_jobs(grid, settings)))
    if grid.suite is not None:
        suite = load_suite(grid.suite, allow_commands=allow_commands)
        built = suite_order(suite, _suite_cells(grid, suite, settings), progress=progress)
        order = JobOrder((*built.jobs, *order.jobs), built.failures)
    if not (order.jobs or order.failures):
        raise UsageError("the grid has no programs: name a suite or some [[program]]")
    limit = grid.max_instructions
    return replace(order, jobs=tuple(replace(job, max_instructions=limit) for job in order.jobs))


def _suite_cells(grid: Grid, suite: Suite, settings: Sequence[CellSetting]) -> Iterator[Cell]:
    names = [benchmark.name for benchmark in suite.benchmarks]
    for pattern in grid.benchmarks:
        if not fnmatch.filter(names, pattern):
            raise UsageError(f"suite {suite.name} has no benchmark {pattern!r}: see `suite list`")
    patterns = grid.benchmarks or ("*",)
    for name in names:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            for build in grid.builds:
                yield from _cells(grid, name, build, grid.inputs, settings)


def _cells(
    grid: Grid, name: str, build: str, inputs: Sequence[str], settings: Sequence[CellSetting]
) -> Iterator[Cell]:
    for running in (kind for kind in CellKind if kind is not CellKind.PLAN and kind in grid.kinds):
        for input_ in inputs:
            for setting in settings:
                yield Cell(name, setting, input_, running, build)
    if CellKind.PLAN in grid.kinds:
        for setting in settings:
            yield plan_cell(name, setting, build)


def _program_jobs(grid: Grid, settings: Sequence[CellSetting]) -> Iterator[Job]:
    seen: set[str] = set()
    for place, program in enumerate(grid.programs):
        if program.name in seen:
            raise UsageError(f"two programs are called {program.name}: give each its own name")
        seen.add(program.name)
        for cell in _cells(grid, program.name, FILE_BUILD, ("ref",), settings):
            if cell.setting.guide is not GuideChoice.OWN:
                raise UsageError(
                    f"{program.name} is in no suite, so it has no input {cell.setting.guide} to "
                    f"guide {cell.setting.mode}: sweep a suite, or leave out the option guide"
                )
            given = NO_INPUT if cell.kind is CellKind.PLAN else program.given
            yield Job(cell, program.file, given, position=place)


def sweep(
    order: JobOrder,
    path: Path,
    run: Runner,
    *,
    replay: Path | None = None,
    progress: ProgressCallback | None = None,
    retry: bool = False,
) -> Outcome:
    """Run what of an order the file at `path` has not got yet, and put it there.

    Started again after whatever ended it, it goes on where it was; `replay`: see `obtain`.

    Raises UsageError if the file cannot be used, is no results file, or another sweep writes to it,
    or the recording is of another run.
    """
    with ExitStack() as stack:
        with Store(path):
            pass  # made where there was none; checked where there was one
        stack.enter_context(_alone(path))
        store = stack.enter_context(Store(path))
        return carry_out(order, run, store=store, replay=replay, progress=progress, retry=retry)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other sweeps away from the file; the system forgets this when the process ends."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(f"{path} is being written by another sweep: wait for its end") from None
    finally:
        os.close(descriptor)
