"""Options of calling contexts: a call tree, and windows of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from simprof.profiler.commands import options
from simprof.profiler.request.request import ContextChoice
from simprof.simulator.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option(
        "--call-tree",
        is_flag=True,
        help="Also count by calling context: calls, and instructions with all that is called.",
    ),
    click.option(
        "--entry",
        metavar="ROUTINE",
        help="Count in calls of ROUTINE only, from its entry to its return.",
    ),
    click.option(
        "--calls",
        type=options.WholeNumber(1, (1 << 62) - 1),
        metavar="N",
        help="With --entry: in its first N calls only.",
    ),
]
FOLLOW = click.option(
    "--follow",
    metavar="ROUTINE",
    help="Show what calls of ROUTINE execute, as a tree (with --call-tree implied).",
)


def context_options(command: F) -> F:
    """Add the options of calling contexts to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def contexts(chosen: Mapping[str, Any], follow: str | None = None) -> ContextChoice | None:
    """Return what is to be told apart by calling context; None: nothing.

    Raises
    ------
    UsageError
        If options contradict each other.
    """
    tree, entry, calls = chosen["call_tree"] or follow is not None, chosen["entry"], chosen["calls"]
    if calls is not None and entry is None:
        raise UsageError("--calls without --entry: name the routine whose calls these are")
    if not tree and entry is None:
        return None
    given = "--entry" if entry is not None else "--follow" if follow is not None else "--call-tree"
    if chosen["replay"] is not None:
        raise UsageError(
            f"{given} beside --replay: a recording does not tell who calls whom; run the program"
        )
    return ContextChoice(tree=tree, entry=entry, calls=calls, follow=follow)
