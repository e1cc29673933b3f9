"""The options that shape instrumentation, the same for every command that plans schemes.

`--weights`, whose values differ by command, is not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from profiler.commands import options
from profiler.request.request import (
    DEFAULT_COLD,
    DEFAULT_ITERATIONS,
    DEFAULT_LOOP,
    DEFAULT_PATH_LIMIT,
    SchemeOptions,
    TableChoice,
    VertexPlacement,
    Weights,
)

F = TypeVar("F", bound=Callable[..., Any])

GREATEST_ITERATIONS = 1000


def percentage(value: str | float) -> float:
    """Return a number from 0 to 100."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 100.0:  # not a number fails this too
        raise click.BadParameter(f"{value!r} is not a percentage: write a number from 0 to 100")
    return number


def scheme_options(edge_profile: str) -> Callable[[F], F]:
    """Return a decorator that adds the options to a command; `collect` reads them.

    Parameters
    ----------
    edge_profile
        What `--edge-profile` takes, for the help text.
    """
    table = [
        click.option(
            "--path-limit",
            type=options.COUNT,
            default=DEFAULT_PATH_LIMIT,
            show_default=True,
            metavar="N",
            help="Truncate the paths of routines with more potential paths.",
        ),
        click.option(
            "--table",
            type=options.choice(*TableChoice),
            default=TableChoice.AUTO.value,
            show_default=True,
            help="How path counters are kept.",
        ),
        click.option(
            "--cold",
            type=percentage,
            default=DEFAULT_COLD,
            show_default=True,
            metavar="I",
            help="tpp: percentage of its source's executions below which an edge is cold.",
        ),
        click.option(
            "--loop",
            type=percentage,
            show_default=f"{DEFAULT_LOOP:g}, with --cold 0 also 0",
            metavar="J",
            help="tpp: percentage of its head's executions below which entries disconnect a loop.",
        ),
        click.option(
            "--cold-always",
            is_flag=True,
            help="tpp: leave out cold edges even where no hash table becomes an array by that.",
        ),
        click.option(
            "--edge-profile", type=options.PATH, metavar="FILE", help=f"tpp: {edge_profile}"
        ),
        click.option(
            "-k",
            "--iterations",
            type=click.IntRange(min=1, max=GREATEST_ITERATIONS),
            default=DEFAULT_ITERATIONS,
            show_default=True,
            metavar="K",
            help="kiter: iterations of innermost loops that a path spans.",
        ),
        click.option(
            "--placement",
            type=options.choice(*VertexPlacement),
            default=VertexPlacement.REDUNDANT.value,
            show_default=True,
            help="qpt: where the counters are.",
        ),
    ]

    def decorate(command: F) -> F:
        for option in reversed(table):
            command = option(command)
        return command

    return decorate


def collect(
    chosen: Mapping[str, Any], weights: Weights | Path = Weights.HEURISTIC
) -> SchemeOptions:
    """Return the values of the options, as the command was called with them, as one value.

    `--cold 0` alone removes nothing, loops' entries included: the paths are those of `pp`.
    """
    loop = chosen["loop"]
    if loop is None:
        loop = DEFAULT_LOOP if chosen["cold"] else 0.0
    return SchemeOptions(
        path_limit=chosen["path_limit"],
        weights=weights,
        table=TableChoice(chosen["table"]),
        cold=chosen["cold"],
        loop=loop,
        cold_always=chosen["cold_always"],
        edge_profile=chosen["edge_profile"],
        iterations=chosen["iterations"],
        placement=VertexPlacement(chosen["placement"]),
    )
