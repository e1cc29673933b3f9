"""Options that take one thing or several, repeated or with commas: inputs, builds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import click

from simprof.profiler.commands.shared_options import Decorator

INPUTS = ("train", "ref")
BUILDS = {"64": "v9-O2", "32": "v8plus-O2"}
"""Width -> name of the build, as `experiments.suites.suite.BUILDS` has them."""


def width_of(build: str) -> Literal[32, 64]:
    """Return how many bits the addresses of a build have."""
    return 64 if build == BUILDS["64"] else 32


def parts(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a list such as "pp,tpp"."""
    if not isinstance(value, str):
        return tuple(value)
    found = tuple(part.strip() for part in value.split(","))
    if not all(found):
        raise click.BadParameter(f"{value!r} is no list: write NAME,NAME,...")
    return found


def one_of(names: Collection[str]) -> Callable[[str | Sequence[str]], tuple[str, ...]]:
    """Return what reads a list of which every part is one of `names`."""

    def read(value: str | Sequence[str]) -> tuple[str, ...]:
        found = parts(value)
        for each in found:
            if each not in names:
                raise click.BadParameter(f"{each!r} is not one of {', '.join(names)}")
        return found

    return read


def several(
    flag: str,
    name: str,
    read: Callable[[Any], tuple[Any, ...]],
    metavar: str,
    text: str,
) -> Decorator[Any]:
    """Return an option of several values; the command is given a tuple, None for none.

    - `flag`, `name`: The option, and the parameter that takes its values.
    - `read`: Makes values of one text, which may have commas.
    - `metavar`, `text`: What `--help` says.
    """

    def joined(
        ctx: click.Context, param: click.Parameter, value: tuple[tuple[Any, ...], ...]
    ) -> tuple[Any, ...] | None:
        flat = tuple(each for group in value for each in group)
        for each in flat:
            if flat.count(each) > 1:
                raise click.BadParameter(
                    f"{getattr(each, 'name', each)} is named twice", ctx, param
                )
        return flat or None

    return click.option(
        flag,
        name,
        type=read,
        multiple=True,
        callback=joined,
        metavar=f"{metavar},...",
        help=text,
    )
