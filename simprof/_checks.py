"""Arguments of the public functions that are of the wrong type, refused by UsageError.

Types are annotated, but nothing makes callers check them; what is passed on unchecked ends in an
error about simprof's own code, or in a file that holds no profile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from simprof.simulator.errors import SimulatorError, UsageError

if TYPE_CHECKING:
    from simprof.profiler.graphs.cfg import ControlFlowGraph


P = ParamSpec("P")
T = TypeVar("T")


def public(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function whose errors begin at itself: what it calls is not the caller's matter."""

    @wraps(function)
    def called(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return function(*arguments, **options)
        except SimulatorError as error:
            raise error.with_traceback(None) from None

    return called


def file_path(value: object, what: str) -> Path:
    """Return the path of a file that a caller names; `what` is the argument's meaning."""
    if not isinstance(value, str | os.PathLike):
        raise wrong(what, "the name of a file", value)
    return Path(value)


def program(elf: object, arguments: object) -> list[Any]:
    """Return a program's file and its arguments as the words of a command line."""
    if not isinstance(elf, str | bytes | os.PathLike):
        raise wrong("elf", "the name of a program file", elf)
    return [elf, *words(arguments, "arguments")]


def words(values: object, what: str) -> list[Any]:
    """Return the items of a list that a caller gives."""
    if isinstance(values, str | bytes):  # whose characters would be the items
        given = shown(values)
        raise UsageError(
            f"{what} must be a list, with each text an item of its own: [{given}], not {given}"
        )
    if not isinstance(values, Iterable):
        raise wrong(what, "a list", values)
    return list(values)


def wrong(what: str, wanted: str, value: object) -> UsageError:
    """Return the error for an argument that is not what the function takes."""
    return UsageError(f"{what} must be {wanted}, not {shown(value)}")


def shown(value: object) -> str:
    """Return a value as a message shows it: one line, cut where it is long.

    Examples
    --------
    >>> shown([1, "a b"])
    "[1, 'a b']"
    >>> len(shown("a" * 1000))
    60
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def check_weights(cfg: ControlFlowGraph, weights: Any) -> None:
    """Refuse weights that are not one for each edge of `cfg`."""
    if weights is None:
        return
    wanted = f"None or a list of {len(cfg.edges)} weights, one for each edge of {cfg.name}"
    if isinstance(weights, str) or not hasattr(weights, "__getitem__"):
        raise wrong("weights", wanted, weights)
    if isinstance(weights, Mapping) or len(weights) != len(cfg.edges):
        raise UsageError(f"weights must be {wanted}, and holds {len(weights)}")


def check_networkx(graph: object, wanted: str) -> None:
    """Refuse what is no graph of networkx; `wanted`: what to pass."""
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise wrong("graph", wanted, graph)
