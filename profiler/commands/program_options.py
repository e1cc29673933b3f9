"""Arguments and options of every command that runs a program: what it sees, what it may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from simprof.profiler.commands import options, shared_options, streams
from simprof.profiler.commands.options import STANDARD_STREAM
from simprof.profiler.profiles import cache_files
from simprof.profiler.request.request import GuestOptions, RunRequest, seen_file
from simprof.simulator.binary.dynamic import DEFAULT_SYSROOT
from simprof.simulator.binary.program import Platform
from simprof.simulator.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def program_options(command: F) -> F:
    """Add the program, its arguments and the options of a run to a command."""
    return _with(command, [*_PROGRAM_OR_REPLAY, *_RESULTS, *_RUN, *_CHECKS])


def recorded_options(command: F) -> F:
    """Add the program, its arguments and the options of a run that nothing is reported of."""
    return _with(command, [*_PROGRAM, *_RUN])


def _with(command: F, table: list[Any]) -> F:
    for option in reversed(table):
        command = option(command)
    return command


_ARGUMENTS = click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARG...]")
_PROGRAM = [click.argument("elf", type=options.PROGRAM), _ARGUMENTS]
_PROGRAM_OR_REPLAY = [
    click.argument("elf", type=options.PROGRAM, required=False),
    _ARGUMENTS,
    click.option(
        "--replay",
        type=options.PATH,
        metavar="RUN",
        help="Measure the run that `simprof record` has kept there; the program is not run.",
    ),
    click.option(
        "--partial",
        is_flag=True,
        help="With --replay: measure a recording that is cut or damaged as far as it is whole.",
    ),
]
_RESULTS = [
    shared_options.selection_options("Profile"),
    shared_options.json_option(
        "Write the result as JSON; - is stdout (the program's stdout then goes to stderr)."
    ),
    shared_options.report_option(" (the program's stdout then goes to stderr)"),
    click.option(
        "-q",
        "--quiet",
        is_flag=True,
        help="No report and no progress: only what -o, --json and --report ask for. Errors stay.",
    ),
]
_RUN = [
    shared_options.stdin_option("The program's input."),
    click.option(
        "--machine",
        type=click.Choice([each.value for each in Platform]),
        help="What the program runs on: Linux, or a bare LEON3.  [default: by where it is linked]",
    ),
    click.option(
        "--root",
        type=options.PATH,
        metavar="DIR",
        help="The directory that the program may read, and sees as /. It starts in the current one "
        "where that is below DIR, else in DIR.  [default: the current one]",
    ),
    click.option(
        "--writable", type=options.PATH, metavar="DIR", help="Let the program write below DIR."
    ),
    click.option(
        "--sysroot",
        type=options.PATH,
        metavar="DIR",
        help="Where a dynamically linked program finds its interpreter and its libraries.  "
        f"[default: {DEFAULT_SYSROOT}]",
    ),
    shared_options.env_option("the program, which inherits none"),
    click.option(
        "--argv0",
        metavar="NAME",
        help="The program's name for itself, argv[0].  [default: the last component of --exe]",
    ),
    click.option(
        "--exe",
        metavar="PATH",
        help="The path of the program's file, as the program sees it.  [default: its path below "
        "--root DIR, /NAME where that is not given or elsewhere]",
    ),
    click.option(
        "--cwd",
        metavar="PATH",
        help="The path of the directory that the program starts in, as the program sees it.  "
        "[default: its path below --root]",
    ),
    shared_options.max_instructions_option("Stop"),
    shared_options.timeout_option("Stop after so much time."),
    shared_options.memory_limit_option("the program"),
    shared_options.stack_size_option("the program", "; Linux gives 8M"),
    shared_options.progress_option("if stderr is a terminal, after two seconds"),
    click.option(
        "--strict",
        is_flag=True,
        help="End the run at the first refused system call, with the profile so far (status 125).",
    ),
    click.option(
        "--thread-seed",
        type=options.WholeNumber(0),
        default=0,
        show_default=True,
        metavar="N",
        help="Scheduler seed: which of the program's threads runs next, and for how long; with 0 "
        "they take turns in order.",
    ),
    click.option(
        "--no-cache",
        is_flag=True,
        envvar=cache_files.VARIABLE,
        help="Use nothing that earlier runs have shown of the program, and keep nothing.",
    ),
]
_OF_RUNS = (
    ("stdin_file", "--stdin"),
    ("machine", "--machine"),
    ("root", "--root"),
    ("writable", "--writable"),
    ("sysroot", "--sysroot"),
    ("environment", "--env"),
    ("argv0", "--argv0"),
    ("exe", "--exe"),
    ("cwd", "--cwd"),
    ("max_instructions", "--max-instructions"),
    ("timeout", "--timeout"),
    ("memory_limit", "--memory-limit"),
    ("stack_size", "--stack-size"),
    ("strict", "--strict"),
    ("thread_seed", "--thread-seed"),
)
"""Options that say how a program is run: parameter, option."""

_CHECKS = [
    click.option("--self-check", is_flag=True, help="Check every intermediate result; slower."),
]


def program_file(elf: str | None, arguments: tuple[str, ...], chosen: Mapping[str, Any]) -> str:
    """Return the program: as it was named, or else the one whose recorded run is replayed.

    Raises
    ------
    UsageError
        If there is neither, if the recording cannot be read, or if options say how to run a
        program that is not run.
    """
    replay = chosen["replay"]
    if replay is None:
        if chosen["partial"]:
            raise UsageError("--partial without --replay: name the recording")
        if elf is None:
            raise click.UsageError("Missing argument 'ELF'.")
        return elf
    context = click.get_current_context()
    given = [
        option
        for name, option in _OF_RUNS
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if arguments or given:
        what = given[0] if given else f"the argument {arguments[0]}"
        raise UsageError(f"{what} beside --replay: the recorded run had its own; leave it out")
    if elf is not None:
        return elf
    from simprof.profiler.trace.recording_format import Recording

    return Recording(replay).header.file


def check_files(
    elf: str, chosen: Mapping[str, Any], *outputs: Path | None, inputs: tuple[Path | None, ...] = ()
) -> None:
    """Check early that all files named by options can be used.

    `outputs`, `inputs`: Those of the command beyond the ones that all share.

    Raises
    ------
    UsageError
        Naming the first that cannot be.
    """
    given, report = chosen["stdin_file"], chosen["report"]
    read = (Path(elf), given, chosen.get("replay"), *inputs)
    options.check_outputs(chosen["json_file"], report, *outputs, inputs=read)
    if STANDARD_STREAM in outputs:
        raise UsageError("only --json and --report can write to stdout (-): name a file")
    if given is not None and not os.access(given, os.R_OK):
        raise UsageError(f"--stdin {given} cannot be read: name a readable file")


def progress(chosen: Mapping[str, Any]) -> bool | None:
    """Return whether progress is shown; None where the user has not said."""
    choice: bool | None = False if chosen.get("quiet") else chosen["progress"]
    return choice


def takes_stdout(chosen: Mapping[str, Any]) -> bool:
    """Whether simprof itself writes to stdout, so that the program's goes to stderr."""
    return STANDARD_STREAM in (chosen["json_file"], chosen["report"])


def current_directory() -> Path | None:
    """Return the shell's directory; None where it is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _own_file(elf: Path, exe: str | None, root: Path | None) -> bytes:
    """Return the path of its file that the program sees.

    The current directory, which the program may read where no `--root` is given, has no part in it:
    counts would depend on where simprof is started.

    Raises
    ------
    UsageError
        If `--exe` is no absolute path.
    """
    if exe is None:
        return seen_file(elf, root)
    if not exe.startswith("/"):
        raise UsageError(f"--exe {exe}: give an absolute path, as /{exe}")
    return os.fsencode(exe)


def make_request(elf: str, arguments: tuple[str, ...], chosen: Mapping[str, Any]) -> RunRequest:
    """Return the request for a run with these options, its scheme left at the default.

    Raises
    ------
    UsageError
        If a directory does not exist.
    """
    writable = chosen["writable"]
    sysroot = chosen["sysroot"]
    root = chosen["root"]
    if root is not None:
        options.check_directory(root, "--root")
    guest = GuestOptions(
        machine=None if chosen["machine"] is None else Platform(chosen["machine"]),
        root=Path() if root is None else root,
        writable=None if writable is None else options.check_directory(writable, "--writable"),
        working=current_directory(),
        stdin=chosen["stdin_file"],
        environment=chosen["environment"],
        argv0=_encoded(chosen["argv0"]),
        exe=_own_file(Path(elf), chosen["exe"], root),
        cwd=_encoded(chosen["cwd"]),
        stdout=streams.STDERR if takes_stdout(chosen) else streams.STDOUT,
        max_instructions=chosen["max_instructions"],
        timeout=chosen["timeout"],
        memory_limit=chosen["memory_limit"],
        stack_size=chosen["stack_size"],
        strict=chosen["strict"],
        thread_seed=chosen["thread_seed"],
        sysroot=None if sysroot is None else options.check_directory(sysroot, "--sysroot"),
    )
    return RunRequest(
        program=Path(elf),
        guest=guest,
        arguments=tuple(map(os.fsencode, arguments)),
        selection=shared_options.selection(chosen),
        self_check=chosen["self_check"],
        remember=not chosen["no_cache"],
        replay=chosen.get("replay"),
        partial=chosen.get("partial", False),
    )


@contextmanager
def watched(request: RunRequest, progress: bool | None) -> Iterator[RunRequest]:
    """Make kernels ready; yield the request with a progress bar where one is wanted."""
    from simprof.profiler.commands.progress import progress_bar, ready_engine, wanted
    from simprof.profiler.engine import kernel_cache

    ready_engine(progress)
    with progress_bar(wanted(progress)) as bar:
        give_way = None if bar is None else bar.give_way
        guest = replace(request.guest, before_output=give_way)
        yield replace(request, guest=guest, progress=bar)
    kernel_cache.keep()


def write_json(text: Callable[[], str], file: Path | None) -> None:
    """Write the JSON where it is wanted; `text` is called only then."""
    from simprof.profiler.profiles.output import write_atomically

    if file == STANDARD_STREAM:
        streams.write(streams.STDOUT, text())
    elif file is not None:
        write_atomically(file, text().encode(errors="backslashreplace"))


def write_report(
    render: Callable[[int, bool], str], file: Path | None, quiet: bool = False
) -> None:
    """Write the report to its file, to stdout (`-`) or to stderr.

    - `render`: Makes the text from the columns of the terminal and whether it has colours.
    - `file`: Where it was asked for; None: nowhere.
    - `quiet`: Whether only what was asked for is written.
    """
    if quiet and file is None:
        return
    from simprof.profiler.profiles.output import write_atomically

    if file is None or file == STANDARD_STREAM:
        stream = streams.STDERR if file is None else streams.STDOUT
        streams.write(stream, render(streams.width(stream), streams.colored(stream)))
        return
    text = render(streams.width(None), False)
    write_atomically(file, text.encode(errors="backslashreplace"))
