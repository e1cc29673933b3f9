"""Arguments and options of every command that runs a program: what it sees, what it may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from profiler.commands import options, streams
from profiler.commands.options import STANDARD_STREAM
from profiler.request.request import GuestOptions, RunRequest
from simulator.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def program_options(command: F) -> F:
    """Add the program, its arguments and the options of a run to a command."""
    for option in reversed(_TABLE):
        command = option(command)
    return command


_TABLE = [
    click.argument("elf", type=options.PROGRAM),
    click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARG...]"),
    click.option(
        "--routine",
        "routines",
        multiple=True,
        metavar="GLOB",
        help="Profile only routines whose name matches; repeatable.",
    ),
    click.option(
        "--json",
        "json_file",
        type=options.PATH,
        metavar="FILE",
        help="Write the result as JSON; - is stdout (the program's stdout then goes to stderr).",
    ),
    click.option(
        "--report", type=options.PATH, metavar="FILE", help="Write the report there, not to stderr."
    ),
    click.option(
        "--stdin", "stdin_file", type=options.PATH, metavar="FILE", help="The program's input."
    ),
    click.option(
        "--root",
        type=options.PATH,
        default=Path(),
        metavar="DIR",
        help="The directory that the program may read.  [default: the current one]",
    ),
    click.option(
        "--writable", type=options.PATH, metavar="DIR", help="Let the program write below DIR."
    ),
    click.option(
        "--env",
        "environment",
        type=options.variable,
        metavar="NAME=VALUE",
        multiple=True,
        help="Set a variable for the program, which inherits none; repeatable.",
    ),
    click.option("--argv0", metavar="NAME", help="The program's name for itself.  [default: ELF]"),
    click.option(
        "--max-instructions", type=options.COUNT, metavar="N", help="Stop after N instructions."
    ),
    click.option(
        "--timeout", type=options.seconds, metavar="SECONDS", help="Stop after so much time."
    ),
    click.option(
        "--memory-limit",
        type=options.size,
        default="2G",
        show_default=True,
        metavar="SIZE",
        help="Memory that the program may use: bytes, or 64K, 512M, 2G.",
    ),
    click.option(
        "--stack-size",
        type=options.stack_size,
        default="64M",
        show_default=True,
        metavar="SIZE",
        help="Stack of the program, at most 256M and a quarter of its memory; Linux gives 8M.",
    ),
    click.option(
        "--progress/--no-progress",
        default=None,
        help="Show a progress bar.  "
        "[default: if stderr is a terminal and the program's stdout none]",
    ),
    click.option("--self-check", is_flag=True, help="Check every intermediate result; slower."),
]


def check_files(
    elf: str, chosen: Mapping[str, Any], *outputs: Path | None, inputs: tuple[Path | None, ...] = ()
) -> None:
    """Check early that all files named by options can be used.

    Parameters
    ----------
    outputs, inputs
        Those of the command beyond the ones that all share.

    Raises
    ------
    UsageError
        Naming the first that cannot be.
    """
    given, report = chosen["stdin_file"], chosen["report"]
    options.check_outputs(chosen["json_file"], report, *outputs, inputs=(Path(elf), given, *inputs))
    if STANDARD_STREAM in (report, *outputs):
        raise UsageError("only --json can write to stdout (-): name a file")
    if given is not None and not os.access(given, os.R_OK):
        raise UsageError(f"--stdin {given} cannot be read: name a readable file")


def make_request(elf: str, arguments: tuple[str, ...], chosen: Mapping[str, Any]) -> RunRequest:
    """Return the request for a run with these options, its scheme left at the default.

    Raises
    ------
    UsageError
        If a directory does not exist.
    """
    writable, argv0 = chosen["writable"], chosen["argv0"]
    guest = GuestOptions(
        root=options.check_directory(chosen["root"], "--root"),
        writable=None if writable is None else options.check_directory(writable, "--writable"),
        stdin=chosen["stdin_file"],
        environment=chosen["environment"],
        argv0=os.fsencode(elf if argv0 is None else argv0),
        stdout=streams.STDERR if chosen["json_file"] == STANDARD_STREAM else streams.STDOUT,
        max_instructions=chosen["max_instructions"],
        timeout=chosen["timeout"],
        memory_limit=chosen["memory_limit"],
        stack_size=chosen["stack_size"],
    )
    return RunRequest(
        program=Path(elf),
        guest=guest,
        arguments=tuple(map(os.fsencode, arguments)),
        routines=chosen["routines"],
        self_check=chosen["self_check"],
    )


@contextmanager
def watched(request: RunRequest, progress: bool | None) -> Iterator[RunRequest]:
    """Make kernels ready; yield the request with a progress bar where one is wanted."""
    from profiler.commands.progress import progress_bar, wanted
    from profiler.engine import kernel_cache

    kernel_cache.ensure()
    with progress_bar(wanted(progress, request.guest.stdout)) as callback:
        yield replace(request, progress=callback)


def write_json(text: Callable[[], str], file: Path | None) -> None:
    """Write the JSON where it is wanted; `text` is called only then."""
    from profiler.profiles.output import write_atomically

    if file == STANDARD_STREAM:
        streams.write(streams.STDOUT, text())
    elif file is not None:
        write_atomically(file, text().encode())


def write_report(render: Callable[[int, bool], str], file: Path | None) -> None:
    """Write the report to its file or to stderr.

    Parameters
    ----------
    render
        Makes the text from the columns of the terminal and whether it has colours.
    """
    from profiler.profiles.output import write_atomically

    if file is not None:
        write_atomically(file, render(PLAIN_WIDTH, False).encode(errors="backslashreplace"))
        return
    streams.write(streams.STDERR, render(terminal_width(), sys.stderr.isatty()))


PLAIN_WIDTH = 100
NARROWEST = 60


def terminal_width() -> int:
    """Columns of the terminal on stderr; 100 where it is none."""
    try:
        return max(os.get_terminal_size(streams.STDERR).columns, NARROWEST)
    except OSError:
        return PLAIN_WIDTH
