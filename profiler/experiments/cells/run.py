"""Running cells: a group of jobs that share one program and input, in as few runs as possible.

All settings of a group are measured in one emulation; two where one of them needs an edge profile
first (`tpp`, exact weights), and one more with the input that guides some of them. Whatever goes
wrong becomes the error of the cells that it concerns: `run_group` does not raise.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import (
    COMPILER_INCREMENTS,
    CellDocument,
    CellKind,
    Job,
    failure,
)
from simprof.profiler.experiments.cells.executed import arc_increments
from simprof.profiler.experiments.cells.settings import WeightChoice, setting
from simprof.profiler.experiments.suites.suite import ANY_STATUS, Input
from simprof.profiler.profiles.cache_files import is_wanted
from simprof.profiler.profiles.codec import DIGITS
from simprof.profiler.profiles.fingerprint import file_sha256
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.reports.run_json import ending_object
from simprof.profiler.request.request import (
    ALL_ROUTINES,
    NO_SCHEME,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
)
from simprof.profiler.schemes.definition import ProfileKind
from simprof.profiler.schemes.registry import PATH_PROFILER, beginning, guided_by
from simprof.profiler.trace.recording_format import Recording
from simprof.simulator.errors import SimulatorError, UsageError

if TYPE_CHECKING:
    from simprof.profiler.profiles.profile import RunMeasurement

JobGroup = tuple[Job, ...]  # Jobs that `run_group` does together

LARGE_PROGRAM = 256 << 10
# Bytes of a program file above which no more than so many settings share a run: each takes some 40
# MB with a program like SQLite, and a worker must stay below 2 GB.
AT_ONCE = 24

_ANY = setting("edges")


def groups(jobs: Iterable[Job]) -> tuple[JobGroup, ...]:
    """Put jobs together that one group of runs can do, in the order of their first members.

    Settings with different path limits are kept apart: `tpp` is judged by a `pp` of the same run,
    which must not depend on what else runs. So are those that select other routines. Large
    programs have several groups (`AT_ONCE`).
    """
    alike: dict[object, list[Job]] = {}
    for job in jobs:
        cell = job.cell
        limit = 0 if cell.kind is CellKind.PLAN else cell.setting.path_limit
        # equal though `replay` may differ
        alone = replace(job, cell=replace(cell, setting=_ANY), guide=None)
        shared = (alone, job.replay, limit, cell.setting.selection)
        alike.setdefault(shared, []).append(job)
    parts: list[JobGroup] = []
    for together in alike.values():
        program = together[0].program
        is_large = program.is_file() and program.stat().st_size > LARGE_PROGRAM
        size = AT_ONCE if is_large else len(together)
        if together[0].cell.kind is CellKind.TIME:
            size = 1
        parts += (tuple(together[at : at + size]) for at in range(0, len(together), size))
    return tuple(parts)


def run_group(group: JobGroup) -> tuple[CellDocument, ...]:
    """Run the jobs of a group (see `groups`); results in their order, errors among them."""
    started = time.perf_counter()
    results = _attempt(group)
    if len(group) > 1 and all(result.failed and not result.base for result in results):
        results = tuple(_attempt((job,))[0] for job in group)
    seconds, memory = time.perf_counter() - started, peak_memory()
    return tuple(result.timed(run=seconds, peak_memory=memory) for result in results)


def peak_memory(process: int | None = None) -> int:
    """Return the most bytes of memory that this process has used so far, or another one.

    `getrusage` would count what the parent used before the process was made of it. Of another
    process that has ended, the result is 0.
    """
    with suppress(OSError):
        status = Path("/proc", "self" if process is None else str(process), "status")
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if process is not None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _attempt(group: JobGroup) -> tuple[CellDocument, ...]:
    sys.set_int_max_str_digits(DIGITS)  # path counts may be long
    try:
        if group[0].cell.kind is CellKind.PLAN:
            from simprof.profiler.experiments.cells.measure import plan_group

            return plan_group(group)
        if group[0].cell.kind is CellKind.ANALYSE:
            return _analysed(group)
        return _instrumented(group) if group[0].cell.kind.of_instrumented else _run(group)
    except SimulatorError as error:
        message = str(error)
    except MemoryError:
        message = "out of memory"
    except Exception as error:
        message = f"internal error: {type(error).__name__}: {error}"
    return (failure(message),) * len(group)


def _run(group: JobGroup) -> tuple[CellDocument, ...]:
    from simprof.profiler.experiments.cells.measure import measure

    job = group[0]
    with ExitStack() as stack:
        directory = stack.enter_context(scratch_directory("simprof-cell-"))
        profiles = _profiles(group, stack, directory)
        request = _request(job, directory, open_outputs(stack, directory))
        results = measure(request, [_scheme(each, profiles) for each in group])
        replay, written = request.replay, request.guest.writable
        digest = file_sha256(directory / "stdout")
        if replay is not None:  # which prints nothing
            digest = Recording(replay).end.output
        error = _wrong(job, results[0].part("exit"), results[0].base, digest)
        # how often the counters that a compiler put into the program count
        more = {} if error or written is None else {COMPILER_INCREMENTS: arc_increments(written)}
        return tuple(
            result.but(output=digest, error=error, counts={**result.counts, **more})
            for result in results
        )


def _analysed(group: JobGroup) -> tuple[CellDocument, ...]:
    from simprof.profiler.experiments.cells.measure import analyse

    job = group[0]
    with ExitStack() as stack:
        directory = stack.enter_context(scratch_directory("simprof-cell-"))
        request = _request(job, directory, open_outputs(stack, directory))
        guide = _guide(group, stack, directory)
        results = analyse(request, [each.cell.setting for each in group], guide)
        digest = file_sha256(directory / "stdout")
        error = _wrong(job, results[0].part("exit"), results[0].base, digest)
        return tuple(result.but(output=digest, error=result.error or error) for result in results)


def _instrumented(group: JobGroup) -> tuple[CellDocument, ...]:
    """Run instrumented programs; what the original does is judged by cells of `CellKind.RUN`."""
    from simprof.profiler.experiments.cells.executed import execute, timed

    job = group[0]
    with ExitStack() as stack:
        directory = stack.enter_context(scratch_directory("simprof-cell-"))
        outputs = open_outputs(stack, directory)
        timing = job.cell.kind is CellKind.TIME
        profiles = _profiles(group, stack, directory, guiding=timing)
        if timing:
            fresh = partial(_request, replace(job, writable=True), directory, outputs)
            return (timed(fresh, _scheme(job, profiles), directory),)
        request = _request(job, directory, outputs)
        return execute(request, [_scheme(each, profiles) for each in group])


class _Profiles(NamedTuple):
    """Files of profiles that runs before the measured one gave; None: none was needed."""

    own: Path | None  # With the same input
    guide: Path | None  # With the input that guides


def _profiles(
    group: JobGroup,
    stack: ExitStack,
    directory: Path,
    *,
    guiding: bool = False,  # Whether one of the same input is to be there for modes that need it
) -> _Profiles:
    needed = any(
        each.cell.setting.weights == WeightChoice.EXACT
        or (guiding and each.guide is None and guided_by(each.cell.setting.mode))
        for each in group
    )
    has_paths = any(guided_by(each.cell.setting.mode) is ProfileKind.PATHS for each in group)
    first = partial(_saved_profile, group[0], stack, directory, "first-", has_paths=has_paths)
    own = first()[0] if needed else None
    return _Profiles(own, _guide(group, stack, directory))


def _guide(group: JobGroup, stack: ExitStack, directory: Path) -> Path | None:
    """Run the program with the input that guides some of a group; return the profile's file.

    Raises SimulatorError if that run is no good one.
    """
    guided = next((job for job in group if job.guide is not None), None)
    if guided is None or guided.guide is None:
        return None
    cell = replace(guided.cell, input=guided.guide.name)
    job = replace(guided, cell=cell, given=guided.guide, replay=None)
    has_paths = any(guided_by(each.cell.setting.mode) is ProfileKind.PATHS for each in group)
    profile, measured = _saved_profile(job, stack, directory, "guide-", has_paths=has_paths)
    ended = ending_object(measured.ending)
    error = _wrong(job, ended, measured.base, file_sha256(directory / "guide-stdout"))
    if error is not None:
        raise SimulatorError(f"the run that guides {guided.cell.setting.mode} failed: {error}")
    return profile


def _saved_profile(
    job: Job, stack: ExitStack, directory: Path, prefix: str, *, has_paths: bool
) -> tuple[Path, RunMeasurement]:
    from simprof.profiler.profiles.storage import save
    from simprof.profiler.session.session import compare_program

    profile = directory / f"{prefix}edges.profile"
    request = _request(job, directory, open_outputs(stack, directory, prefix))
    everything = replace(request, selection=ALL_ROUTINES)
    paths = Setting(PATH_PROFILER, PATH_PROFILER, SchemeOptions(job.cell.setting.path_limit))
    scheme = paths if has_paths else NO_SCHEME
    measured = compare_program(everything, (scheme,)).measurements[0]
    save(measured, profile)
    return profile, measured


def open_outputs(stack: ExitStack, directory: Path, prefix: str = "") -> list[int]:
    """Open new files "stdout" and "stderr" for as long as `stack` lasts; return descriptors."""
    paths = (directory / f"{prefix}{name}" for name in ("stdout", "stderr"))
    return [stack.enter_context(path.open("xb")).fileno() for path in paths]


def run_request(
    program: Path,
    given: Input,
    directory: Path,
    outputs: Sequence[int],
    *,
    writable: bool = False,
    **limits: Any,
) -> RunRequest:
    """Return the request for a run; what the program sees is the same wherever it is run.

    - `directory`: For what the run needs: an empty root, or a copy of one that it may write into.
    - `outputs`: Descriptors of its standard output and its standard error.
    - `limits`: Further `GuestOptions`.

    Raises UsageError if the directory of its files is missing.
    """
    root = given.root
    if root is None:
        root = directory / "empty"
        root.mkdir(exist_ok=True)
    if not root.is_dir():
        raise UsageError(f"the directory of input files {root} is missing: make it again")
    if writable:
        copy = Path(tempfile.mkdtemp(prefix="root-", dir=directory))
        root = shutil.copytree(root, copy, symlinks=True, dirs_exist_ok=True)
    guest = GuestOptions(
        root=root,
        writable=root if writable else None,
        stdin=Path(os.devnull) if given.stdin is None else given.stdin,
        environment=tuple((os.fsencode(k), os.fsencode(v)) for k, v in given.environment),
        stdout=outputs[0],
        stderr=outputs[1],
        **limits,
    )
    return RunRequest(
        program, guest, tuple(map(os.fsencode, given.arguments)), remember=is_wanted()
    )


def _request(job: Job, directory: Path, outputs: Sequence[int]) -> RunRequest:
    request = run_request(
        job.program,
        job.given,
        directory,
        outputs,
        writable=job.writable,
        exe=b"/" + os.fsencode(job.cell.benchmark),
        max_instructions=job.max_instructions,
    )
    # the time of a cell is that of a first run
    remember = request.remember and job.cell.kind is not CellKind.TIME
    selection = job.cell.setting.selection
    return replace(request, selection=selection, remember=remember, replay=job.replay)


def _scheme(job: Job, profiles: _Profiles) -> Setting:
    """Return a job's setting; a profile of its own input that is there guides `tpp` too."""
    chosen = job.cell.setting.scheme(profiles.own, profiles.guide)
    options = chosen.options
    is_guided = options.edge_profile is not None or beginning(chosen.mode, options)
    if is_guided or not guided_by(chosen.mode):
        return chosen
    return replace(chosen, options=replace(options, edge_profile=profiles.own))


def _wrong(job: Job, ended: Mapping[str, Any], base: int, output: str) -> str | None:
    """Say what is wrong with how the program ended, or with what it wrote; None if nothing is.

    `ended`: `exit` of its document. `output`: The SHA-256 of what it wrote.
    """
    name = f"{job.cell.benchmark} ({job.cell.build}, {job.cell.input or 'no'} input)"
    status = ended["status"]
    match ended["reason"]:
        case "exit" if job.given.status not in (ANY_STATUS, status):
            return f"{name} ended with status {status}, not {job.given.status}"
        case "budget" | "timeout":
            return f"{name} was not done after {base} instructions"
        case "exit":
            pass
        case reason:
            return f"{name} was ended by a {reason} (status {status})"
    expected = job.given.expected
    if expected is None:
        return None
    if not expected.is_file():
        return f"{name}: {expected} is missing, which its output is compared with"
    if file_sha256(expected) != output:
        return f"{name} wrote something else than {expected.name}"
    return None
