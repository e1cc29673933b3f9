"""Option types and options that several subcommands share."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path

import click

from profiler.request import Weights
from simulator.errors import UsageError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SIZE = re.compile(r"(\d{1,15})([KMGT]?)(?:iB|B)?", re.IGNORECASE)
STANDARD_STREAM = Path("-")
LONGEST_TIMEOUT = 1e9


def size(value: str | int) -> int:
    """Return a number of bytes: 4096, 64K, 512M, 2G."""
    match = SIZE.fullmatch(str(value))
    if match is None or int(match[1]) == 0:
        raise click.BadParameter(f"{value!r} is not a size: write bytes, or 64K, 512M, 2G")
    return int(match[1]) * UNITS[match[2].upper()]


def weights(value: str | Path) -> Weights | Path:
    """Return a source of weights: `heuristic`, `uniform`, or a saved profile."""
    if value in [each.value for each in Weights]:
        return Weights(str(value))
    path = Path(value)
    if not path.is_file():
        raise click.BadParameter(f"{value!r} is neither heuristic, uniform nor a profile file")
    return path


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


PATH = click.Path(path_type=Path)
COUNT = click.IntRange(min=1, max=1 << 62)


def choice(*values: StrEnum) -> click.Choice[str]:
    """Return the option type for some members of an enum, written as their values."""
    return click.Choice([each.value for each in values])


def check_outputs(*paths: Path | None) -> None:
    """Check early that every output can be written and that no two are one file.

    Raises
    ------
    UsageError
        Naming the first that cannot be.
    """
    from profiler.output import check_writable

    seen: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        if path == STANDARD_STREAM:
            target = path
        else:
            check_writable(path)
            target = path.resolve()
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
