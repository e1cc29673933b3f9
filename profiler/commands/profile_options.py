"""What the commands that look at saved profiles share: options, loading, writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from simprof.profiler.commands import options, streams
from simprof.profiler.commands.options import STANDARD_STREAM
from simprof.profiler.request.request import Phase
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.profiles.profile import RunMeasurement
    from simprof.simulator.binary.program import Program

_LARGE = 1 << 19
"""Bytes of a profile that takes more than a moment to read."""

Command = TypeVar("Command", bound=Callable[..., Any])

profile_argument = click.argument("profile", type=options.PATH, metavar="PROFILE")
"""A file that `simprof run -o` has written."""

program_option = click.option(
    "--program",
    "elf",
    type=options.PATH,
    metavar="FILE",
    help="The program that ran, if it has moved.  [default: as the profile says]",
)


def routine_options(command: Command) -> Command:
    """Add the options that choose routines of a profile: `routines` and `exclude`, of globs."""
    only = click.option(
        "--routine",
        "routines",
        multiple=True,
        metavar="GLOB",
        help="Only routines of which a name matches; repeatable.",
    )
    none = click.option(
        "--exclude",
        multiple=True,
        metavar="GLOB",
        help="No routine of which a name matches; repeatable.",
    )
    return only(none(command))


def row_options(command: Command) -> Command:
    """Add the options that choose and sort rows of a listing."""
    added: tuple[Callable[[Command], Command], ...] = (
        click.option(
            "--file",
            "files",
            multiple=True,
            metavar="GLOB",
            help="Only code from source files whose path, or its last part, matches; repeatable.",
        ),
        click.option(
            "--min-count",
            "least",
            type=options.WholeNumber(0),
            default=1,
            show_default=True,
            metavar="N",
            help="Executed at least N times; 0 shows what never was, too.",
        ),
        click.option(
            "--sort",
            metavar="COLUMN",
            help="Sort by a column, as its heading or CSV names it.  [default: added, count or "
            "flow]",
        ),
        click.option(
            "--ascending/--descending",
            "ascending",
            default=None,
            help="Begin with the smallest, or with the largest.  [default: numbers descending, "
            "texts ascending]",
        ),
    )
    for option in reversed(added):
        command = option(command)
    return command


def form_options(remark: str = "") -> Callable[[Command], Command]:
    """Return the options that say in which form something is written, and where.

    `remark`: What CSV and JSON have that text has not: ", which has all differences".
    """
    output = click.option(
        "-o", "--output", type=options.PATH, metavar="FILE", help="Write there, not to stdout."
    )
    as_json = click.option("--json", "as_json", is_flag=True, help=f"Write JSON{remark}.")
    as_csv = click.option("--csv", "as_csv", is_flag=True, help=f"Write CSV{remark}.")
    return lambda command: as_csv(as_json(output(command)))


def source_directory(value: str) -> tuple[str, str]:
    """Return the two directories of `FROM=TO`."""
    before, equals, now = value.partition("=")
    if not before or not equals or not now:
        raise click.BadParameter(f"{value!r} is not of the form FROM=TO")
    return before, now


source_dir_option = click.option(
    "--source-dir",
    "moved",
    type=source_directory,
    multiple=True,
    metavar="FROM=TO",
    help="Look for source files below directory FROM in directory TO; repeatable, the first that "
    "fits is used.",
)


def load_profile(path: Path) -> RunMeasurement:
    """Return a saved profile; a bar says that a large one is being read."""
    from simprof.profiler.profiles.storage import load

    if not path.is_file() or path.stat().st_size < _LARGE:
        return load(path)
    from simprof.profiler.commands.progress import phase_bar

    with phase_bar(None, Phase.READING):
        return load(path)


def find_program(
    measurement: RunMeasurement, elf: Path | None, profile: Path
) -> tuple[Program | None, tuple[str, ...]]:
    """Return the program of a profile and notes: why it is not at hand."""
    from simprof.profiler.profiles.program_files import find_program as find

    found = find(measurement, elf, profile)
    return found.program, () if found.note is None else (found.note,)


def check_form(*, as_csv: bool, as_json: bool) -> None:
    """Check that at most one form other than the text for people is asked for.

    Raises
    ------
    UsageError
        If both are.
    """
    if as_csv and as_json:
        raise UsageError("--csv and --json: give one of them")


def write_notes(notes: Iterable[str]) -> None:
    """Write to stderr what the reader of an output must know beside it, one line each."""
    from simprof.profiler.reports.display import visible

    for note in notes:
        streams.write(streams.STDERR, f"simprof: note: {visible(note)}\n")


def write_text(text: str, output: Path | None) -> None:
    """Write a text that programs read, or people, to a file or to stdout."""
    from simprof.profiler.profiles.output import write_atomically

    if output is None or output == STANDARD_STREAM:
        streams.write(streams.STDOUT, text)
    else:
        write_atomically(output, text.encode(errors="backslashreplace"))


def show(
    render: Callable[[int, bool], str],
    output: Path | None = None,
    plain: int = streams.PLAIN_WIDTH,
) -> None:
    """Write what people read to stdout or a file.

    - `render`: Makes the text from the columns that there are and whether it has colours.
    - `output`: The file; None or `-`: stdout.
    - `plain`: How many columns there are where neither the user nor a terminal says.
    """
    on_stdout = output is None or output == STANDARD_STREAM
    width = streams.width(streams.STDOUT if on_stdout else None, plain)
    write_text(render(width, on_stdout and streams.colored(streams.STDOUT)), output)
