"""Calling contexts of a run: what is to be told apart, from the user's words to the engine's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiler.recovery.recovery import RecoveredProgram
from profiler.request.request import Contexts
from simulator.binary.demangling import demangle
from simulator.errors import UsageError

if TYPE_CHECKING:
    from profiler.engine.contexts import ContextCounting
    from profiler.engine.walk import GraphIndex


def counting_of(index: GraphIndex, wanted: Contexts | None) -> ContextCounting | None:
    """Return what counts by context in a run on these graphs; None where nothing is to.

    Raises
    ------
    UsageError
        If the routine of the window is none of the program's.
    """
    if wanted is None:
        return None
    from profiler.engine.contexts import ContextCounting, ContextOptions  # which few runs need

    entry = None if wanted.entry is None else routine_number(index.recovered, wanted.entry)
    options = ContextOptions(wanted.tree, wanted.limit, entry, wanted.calls)
    return ContextCounting(index, options)


def routine_number(recovered: RecoveredProgram, name: str) -> int:
    """Return the number of the routine that has a name.

    Raises
    ------
    UsageError
        If there is none, or there are several.
    """
    symbols = recovered.program.symbols
    named = {each.address for each in symbols if name in (each.name, demangle(each.name))}
    graphs = recovered.arrays
    found = [
        number
        for number, (address, own) in enumerate(
            zip(graphs.addresses.tolist(), graphs.names, strict=True)
        )
        if own == name or address in named
    ]
    if not found:
        raise UsageError(
            f"--entry {name}: the program has no such routine: `simprof cfg` lists them"
        )
    if len(found) > 1:
        raise UsageError(f"--entry {name}: the program has {len(found)} routines of this name")
    return found[0]
