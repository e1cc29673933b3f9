"""Remember what was last worked out of a few graphs.

Schemes plan one routine after the other, each routine under all schemes, and each of them begins
with the same searches of the same graph. Graphs and searches are large and never change, so they
are told apart by identity; only the last few are kept, so that memory does not grow with the
program.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

KEPT = 16
"""Graphs whose results are remembered, for each function."""

Function = TypeVar("Function", bound=Callable[..., Any])


def remembers_recent(function: Function) -> Function:
    """Return `function`, which takes values that never change and is a function of them alone.

    Its last `KEPT` results are remembered by the identity of all positional arguments.
    """
    known: OrderedDict[tuple[int, ...], tuple[tuple[Any, ...], Any]] = OrderedDict()

    @wraps(function)
    def remembered(*arguments: Any, **options: Any) -> Any:
        if options:
            return function(*arguments, **options)
        key = tuple(map(id, arguments))
        found = known.get(key)
        if found is not None:
            known.move_to_end(key)
            return found[1]
        result = function(*arguments)
        known[key] = arguments, result  # holding the arguments keeps their identities theirs
        if len(known) > KEPT:
            known.popitem(last=False)
        return result

    return remembered  # type: ignore[return-value]
