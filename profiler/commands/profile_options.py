"""What the commands that look at saved profiles share: options, loading, writing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from profiler.commands import options, streams
from profiler.commands.options import STANDARD_STREAM

if TYPE_CHECKING:
    from profiler.profiles.profile import Measurement
    from simulator.binary.program import Program

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


def load_profile(path: Path) -> Measurement:
    """Return a saved profile."""
    from profiler.profiles.storage import load

    return load(path)


def find_program(
    measurement: Measurement, elf: Path | None, profile: Path
) -> tuple[Program | None, tuple[str, ...]]:
    """Return the program of a profile and notes: why it is not at hand."""
    from profiler.profiles.program_files import find_program as find

    found = find(measurement, elf, profile)
    return found.program, () if found.note is None else (found.note,)


def write_text(text: str, output: Path | None) -> None:
    """Write a text that programs read, or people, to a file or to stdout."""
    from profiler.profiles.output import write_atomically

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

    Parameters
    ----------
    render
        Makes the text from the columns that there are and whether it has colours.
    output
        The file; None or `-`: stdout.
    plain
        How many columns there are where neither the user nor a terminal says.
    """
    on_stdout = output is None or output == STANDARD_STREAM
    width = streams.width(streams.STDOUT if on_stdout else None, plain)
    write_text(render(width, on_stdout and streams.colored(streams.STDOUT)), output)
