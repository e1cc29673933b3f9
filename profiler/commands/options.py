"""Option types and options that several subcommands share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import click

from simprof.profiler.request.request import LARGEST_STACK_SIZE, SchemeOptions, Weights
from simprof.simulator.errors import UsageError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SIZE = re.compile(r"(\d{1,15})([KMGT]?)(?:iB|B)?", re.IGNORECASE)
STANDARD_STREAM = Path("-")
LONGEST_TIMEOUT = 1e9
SMALLEST_STACK_SIZE = 64 << 10


def size(value: str | int) -> int:
    """Return a number of bytes: 4096, 64K, 512M, 2G."""
    match = SIZE.fullmatch(str(value))
    if match is None or int(match[1]) == 0:
        raise click.BadParameter(f"{value!r} is not a size: write bytes, or 64K, 512M, 2G")
    return int(match[1]) * UNITS[match[2].upper()]


def stack_size(value: str | int) -> int:
    """Return a size of the stack."""
    number = size(value)
    if not SMALLEST_STACK_SIZE <= number <= LARGEST_STACK_SIZE:
        raise click.BadParameter(f"{value!r} is not between 64K and 256M")
    return number


def weights(value: str | Path) -> Weights | Path:
    """Return a source of weights: `heuristic`, `uniform`, `postorder`, or a saved profile."""
    if value in [member.value for member in Weights]:
        return Weights(str(value))
    if not value or not possible_path(str(value)).is_file():
        raise click.BadParameter(
            f"{value!r} is neither heuristic, uniform, postorder nor a profile file"
        )
    return Path(value)


def variable(value: str) -> tuple[bytes, bytes]:
    """Return name and value of `NAME=VALUE` as bytes."""
    name, equals, setting = os.fsencode(value).partition(b"=")
    if not name or not equals:
        raise click.BadParameter(f"{value!r} is not of the form NAME=VALUE")
    return name, setting


def seconds(value: str | float) -> float:
    """Return a positive number of seconds."""
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0.0 < number < LONGEST_TIMEOUT:
        raise click.BadParameter(f"{value!r} is not a positive number of seconds")
    return number


class WholeNumber(click.ParamType[int]):
    """A whole number between bounds, which help texts leave out and errors name."""

    name = "integer"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._range = click.IntRange(least, most)

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number, or refuse it."""
        return int(self._range(value, param, ctx))


class PathType(click.ParamType[Path]):
    """A file or directory, which need not exist, but must be possible to look for."""

    name = "path"

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Return the path."""
        return possible_path(str(value))


class ProgramType(click.ParamType[str]):
    """A program file, kept as it was typed: it is also the program's name for itself."""

    name = "program"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name unchanged."""
        possible_path(value)
        return value


def possible_path(name: str) -> Path:
    """Return a name as a path.

    Raises
    ------
    click.BadParameter
        If the name is empty (as a path it would mean the current directory), too long, a link
        to itself, or in a directory that may not be searched.
    """
    if not name:
        raise click.BadParameter("the name of a file or directory is empty")
    path = Path(name)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise click.BadParameter(f"{name!r} cannot be used ({error.strerror})") from None
    return path


PATH = PathType()
PROGRAM = ProgramType()
COUNT = WholeNumber(1, 1 << 62)

weights_option = click.option(
    "--weights",
    type=weights,
    default=Weights.HEURISTIC.value,
    metavar="heuristic|uniform|postorder|FILE",
    show_default=True,
    help="Edge-frequency estimates: heuristic, uniform, postorder (Goldberg's), or a profile "
    "saved by `simprof run -o`.",
)


def profiles(scheme: SchemeOptions) -> tuple[Path | None, ...]:
    """Return the saved profiles that options name."""
    weights = scheme.weights
    return (weights if isinstance(weights, Path) else None, scheme.edge_profile)


def choice(*values: StrEnum) -> click.Choice[str]:
    """Return the option type for some members of an enum, written as their values."""
    return click.Choice([member.value for member in values])


def check_outputs(*paths: Path | None, inputs: Iterable[Path | None] = ()) -> None:
    """Check early that every output can be written, and is neither an input nor another output.

    Raises
    ------
    UsageError
        Naming the first that cannot be.
    """
    from simprof.profiler.profiles.output import check_writable

    read = {path.resolve() for path in inputs if path is not None and path.is_file()}
    seen: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        if path == STANDARD_STREAM:
            target = path
        else:
            check_writable(path)
            target = path.resolve()
            if target in read:
                raise UsageError(f"{path} is read as well: write to another file")
        if target in seen and (path == STANDARD_STREAM or path.is_file() or not path.exists()):
            raise UsageError(f"{path} is named for two outputs: give each its own file")
        seen.add(target)


def check_directory(path: Path, option: str) -> Path:
    """Return `path` if it is a directory.

    Raises
    ------
    UsageError
        If it is not.
    """
    if not path.is_dir():
        raise UsageError(f"{option} {path} is not a directory: name one that exists")
    return path
