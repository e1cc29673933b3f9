"""Programs: run one, compare schemes on it, keep the profile."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypedDict, Unpack

from msgspec.structs import replace

from simprof._arguments import ModeOptions, parse
from simprof._checks import file_path, program, public, words, wrong
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof._results import Comparison, Measurement
    from simprof.profiler.profiles.measures import Quality
    from simprof.profiler.request.request import RunRequest, SchemeOptions, Setting
    from simprof.profiler.session.observation import SchemeComparison

StrPath = str | os.PathLike[str]
Stream = StrPath | IO[bytes] | None


class ProgramOptions(TypedDict, total=False):
    """Options of `run` and `compare`: those of the command line, which docs/GUIDE.md describes."""

    path_limit: int
    weights: StrPath
    table: str
    edge_profile: StrPath
    registers: str
    layout: str
    replay: StrPath
    call_tree: bool
    follow: str
    entry: str
    calls: int
    routine: str | Sequence[str]
    exclude: str | Sequence[str]
    user_only: bool
    stdin: StrPath
    root: StrPath
    writable: StrPath
    sysroot: StrPath
    debug_dir: StrPath | Sequence[StrPath]
    machine: str
    env: Mapping[str, str]
    argv0: str
    exe: str
    cwd: str
    max_instructions: int
    timeout: float
    memory_limit: int | str
    stack_size: int | str
    strict: bool
    thread_seed: int
    no_cache: bool
    self_check: bool


class RunOptions(ProgramOptions, ModeOptions, total=False):
    """Options of `run`: those of `compare`, and of the modes."""


@public
def run(
    elf: StrPath,
    mode: str = "pp",
    arguments: Sequence[str | bytes] = (),
    *,
    stdout: Stream = None,
    stderr: Stream = None,
    isolated: bool = False,
    **options: Unpack[RunOptions],
) -> Measurement:
    r"""Run a SPARC program under one scheme and measure what profiling it costs.

    - `elf`: The program: a static SPARC ELF file.
    - `mode`: The scheme, as for `simprof run --mode`.
    - `arguments`: The program's arguments, without its own name.
    - `stdout`, `stderr`: Where the program's output goes: a file to be written, or a binary file
      object (of the system, or `io.BytesIO`). None: nowhere.
    - `isolated`: Whether to run the program in a process of its own: a crash of the emulator is
      then an error, and not the end of this process. It takes about a second longer.
    - `options`: Those of `simprof run`, `_` for `-`. Without `stdin` the program's input is empty.

    How the program ended is in the measurement's `ending`; a program that fails is no error. Raises
    SimprofError with one line that says what is wrong: an option, the program file, ..., or how the
    process of an `isolated` run ended.

    Examples
    --------
    >>> import io, simprof
    >>> output = io.BytesIO()
    >>> measurement = simprof.run("fixtures/bin/v9/sieve.elf", mode="qpt2", stdout=output)
    >>> output.getvalue()
    b'2 rounds: 9592 primes below 100000\n'
    >>> measurement.added, measurement.counts["edge_increments"]
    (3043168, 753425)
    >>> try:
    ...     simprof.run("fixtures/bin/v9/sieve.elf", mode="tpp", cold=200)
    ... except simprof.SimprofError as error:
    ...     print(error)
    Invalid value for '--mode': tpp: cold=200: give a percentage from 0 to 100
    """
    from simprof._results import shown
    from simprof.profiler.commands.modes import collect
    from simprof.profiler.commands.run import run_command

    chosen = parse(run_command, program(elf, arguments), {"mode": mode, **options})
    setting = chosen["mode"].setting(collect(chosen, chosen["weights"]))
    with _request(chosen, setting.options, stdout, stderr) as request:
        wanted = replace(request, mode=setting.mode, scheme=setting.options)
        found = _measure(wanted, (wanted.setting,), 1, isolated)
    return shown(found.measurements[0])


@public
def compare(
    elf: StrPath,
    modes: Sequence[str] | None = None,
    arguments: Sequence[str | bytes] = (),
    *,
    jobs: int = 1,
    stdout: Stream = None,
    stderr: Stream = None,
    isolated: bool = False,
    **options: Unpack[ProgramOptions],
) -> Comparison:
    """Run a SPARC program once for several schemes and measure what each costs.

    Parameters that `run` has, and errors, are as there.

    - `modes`: The schemes with their options ("tpp:cold=20"), in a list or as in `--mode`; None:
      all but `edges`.
    - `jobs`: How many processes may measure a large program. With more than one, this process
      forks, or that of an `isolated` comparison: let it have no threads then.

    Examples
    --------
    >>> import simprof
    >>> comparison = simprof.compare("fixtures/bin/v9/sieve.elf", ["pp", "qpt2"])
    >>> {name: one.added for name, one in comparison.measurements.items()}
    {'pp': 3293685, 'qpt2': 3043168}
    """
    from simprof._results import Comparison, shown
    from simprof.profiler.commands.compare import compare_command
    from simprof.profiler.commands.modes import collect, settings
    from simprof.profiler.schemes.mode_options import read
    from simprof.profiler.schemes.registry import tried_modes

    given = program(elf, arguments)
    wanted = modes if modes is None or isinstance(modes, str) else words(modes, "modes")
    chosen = parse(compare_command, given, {"mode": wanted, "jobs": jobs, **options})
    scheme = collect(chosen, chosen["weights"])
    compared = chosen["modes"]
    if compared is None:
        working, failing = tried_modes()
        compared = tuple(map(read, working))
        for broken in failing:
            warnings.warn(f"left out: {broken.reason}", stacklevel=3)
    wanted_settings = settings(compared, scheme)
    with _request(chosen, scheme, stdout, stderr) as request:
        comparison = _measure(request, wanted_settings, chosen["jobs"], isolated)
    rows, refused = comparison.rows(wanted_settings)
    for name, why in refused.items():
        warnings.warn(f"left out: {name}: {why}", stacklevel=3)
    measurements = {name: shown(measurement) for name, measurement in rows}
    return Comparison(measurements, comparison.emulations, comparison.whole_emulations)


def _measure(
    request: RunRequest, wanted: Sequence[Setting], jobs: int, isolated: bool
) -> SchemeComparison:
    if isolated:
        from simprof._isolated import compare_isolated

        return compare_isolated(request, wanted, jobs=jobs)
    from simprof.profiler.session.session import compare_program

    return compare_program(request, wanted, jobs=jobs)


@public
def load(profile: StrPath) -> Measurement:
    """Read a profile that `save` or `simprof run -o` wrote.

    Raises SimprofError if the file cannot be read or is no profile.
    """
    from simprof._results import shown
    from simprof.profiler.profiles import storage

    return shown(storage.load(file_path(profile, "profile")))


@public
def save(measurement: Measurement, profile: StrPath) -> None:
    """Write a profile, whole or not at all.

    Raises SimprofError if the file cannot be written, or `measurement` is none; no file is touched
    then.

    Examples
    --------
    >>> import simprof, tempfile
    >>> measurement = simprof.run("fixtures/bin/v9/sieve.elf")
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     simprof.save(measurement, file.name)
    ...     simprof.load(file.name) == measurement
    True
    """
    from simprof.profiler.profiles import storage
    from simprof.profiler.profiles.profile import RunMeasurement

    if not isinstance(measurement, RunMeasurement):
        raise wrong("measurement", "a Measurement, as run, compare and load give", measurement)
    storage.save(measurement, file_path(profile, "profile"))


@public
def quality(
    profile: Measurement, truth: Measurement, *, hot: float = 0.125, flow: str = "branch"
) -> Quality:
    """Say how good a profile is by another one of the same program, as `simprof diff` does.

    - `truth`: The profile that is taken as exact: `pp`'s, or any.
    - `hot`: Percent of all flow above which a path is hot.
    - `flow`: What an execution of a path weighs: "unit", its branches ("branch") or its blocks
      ("block").

    Raises SimprofError if the programs differ, or an option has a value that it cannot have.

    Examples
    --------
    >>> import simprof
    >>> edges, paths = (simprof.run("fixtures/bin/v9/control.elf", mode) for mode in ("qpt2", "pp"))
    >>> found = simprof.quality(edges, paths)
    >>> f"{found.accuracy:.2%} {found.coverage:.2%} {found.edge_overlap:.2%}"
    '43.82% 40.67% 100.00%'
    """
    from simprof.profiler.profiles.measures import PathFlow
    from simprof.profiler.profiles.profile import RunMeasurement
    from simprof.profiler.reports.quality import judge

    for name, each in (("profile", profile), ("truth", truth)):
        if not isinstance(each, RunMeasurement):
            raise wrong(name, "a Measurement, as run, compare and load give", each)
    if isinstance(hot, bool) or not isinstance(hot, int | float) or not 0 <= hot <= 100:
        raise wrong("hot", "a percentage from 0 to 100", hot)
    if flow not in tuple(PathFlow):
        raise wrong("flow", "one of unit, branch, block", flow)
    return judge(profile, truth, hot=hot, flow=PathFlow(flow))


@contextmanager
def _request(
    chosen: dict[str, Any], scheme: SchemeOptions, stdout: Stream, stderr: Stream
) -> Iterator[RunRequest]:
    """Yield the request that options make, the program's streams open."""
    from simprof.profiler.commands import options, program_options
    from simprof.simulator.binary import debug_info

    elf = chosen["elf"]
    program_options.check_files(elf, chosen, inputs=options.profiles(scheme))
    request = program_options.make_request(elf, chosen["arguments"], chosen)
    contexts = program_options.contexts(chosen, chosen.get("follow"))
    request = replace(request, contexts=contexts)
    with ExitStack() as stack:
        stack.enter_context(debug_info.searching(chosen[options.DEBUG_DIR]))
        guest = replace(
            request.guest,
            stdin=request.guest.stdin or Path(os.devnull),
            stdout=stack.enter_context(_descriptor(stdout)),
            stderr=stack.enter_context(_descriptor(stderr)),
        )
        yield stack.enter_context(
            program_options.watched(replace(request, guest=guest), progress=False)
        )


@contextmanager
def _descriptor(stream: Stream) -> Iterator[int]:
    """Yield a file descriptor whose content ends up in `stream`."""
    from simprof.profiler.profiles.output import check_writable

    if stream is None or isinstance(stream, str | os.PathLike):
        path = Path(os.devnull if stream is None else stream)
        if stream is not None:
            check_writable(path)
        with path.open("wb") as file:
            yield file.fileno()
    elif isinstance(stream, BytesIO):
        with tempfile.TemporaryFile() as file:
            try:
                yield file.fileno()
            finally:
                file.seek(0)
                stream.write(file.read())
    else:
        try:
            stream.flush()
            descriptor = stream.fileno()
        except (AttributeError, OSError, ValueError) as error:
            raise UsageError(
                f"{stream!r:.60} is no open file: give the name of one, or an io.BytesIO"
            ) from error
        yield descriptor
