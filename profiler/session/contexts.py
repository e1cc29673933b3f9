"""Calling contexts of a run: what is to be told apart, from the user's words to the engine's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.profiler.recovery.selection import UNKNOWN_CODE, RoutineNames, did_you_mean
from simprof.profiler.request.request import Contexts
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.engine.contexts import ContextCounting
    from simprof.profiler.engine.walk import GraphIndex


def counting_of(index: GraphIndex, wanted: Contexts | None) -> ContextCounting | None:
    """Return what counts by context in a run on these graphs; None where nothing is to.

    Raises
    ------
    UsageError
        If the routine of the window, or the one to be followed, is none of the program's.
    """
    if wanted is None:
        return None
    from simprof.profiler.engine.contexts import (
        ContextCounting,
        ContextOptions,
    )  # which few runs need

    check_contexts(index.recovered, wanted)
    entry = None if wanted.entry is None else routine_number(index.recovered, wanted.entry)
    options = ContextOptions(wanted.tree, wanted.limit, entry, wanted.calls)
    return ContextCounting(index, options)


def check_contexts(recovered: RecoveredProgram, wanted: Contexts | None) -> None:
    """Check that a program has the routine of a window, and the one to be followed.

    Raises
    ------
    UsageError
        If it has not.
    """
    if wanted is None:
        return
    if wanted.follow is not None:
        check_followed(recovered, wanted.follow)
    if wanted.entry is not None:
        routine_number(recovered, wanted.entry)


def routine_number(recovered: RecoveredProgram, name: str) -> int:
    """Return the number of the routine that has a name.

    Raises
    ------
    UsageError
        If there is none, or there are several.
    """
    found = RoutineNames(recovered.program).named(recovered.arrays, name)
    if not found:
        raise _no_such_routine(recovered, "--entry", name)
    if len(found) > 1:
        raise UsageError(f"--entry {name}: the program has {len(found)} routines of this name")
    return found[0]


def check_followed(recovered: RecoveredProgram, name: str) -> None:
    """Check that a call tree may have a routine of a name.

    Raises
    ------
    UsageError
        If it cannot. Names of code without a symbol (`sub_...`) are let pass: a run may still
        find it.
    """
    if name.startswith(UNKNOWN_CODE):
        return
    names = RoutineNames(recovered.program)
    found = [recovered.arrays.names[number] for number in names.named(recovered.arrays, name)]
    if not found:
        raise _no_such_routine(recovered, "--follow", name)
    if not any(name in names.forms(own) for own in found):
        raise UsageError(f"--follow {name}: reports call that routine {found[0]}: name it so")


def _no_such_routine(recovered: RecoveredProgram, option: str, name: str) -> UsageError:
    """Say that neither the program nor a library that it has loaded has a routine."""
    meant = did_you_mean(RoutineNames(recovered.program).like(recovered.arrays, name))
    has = "the program has"
    if recovered.program.modules:
        has = "the program and the libraries that it loads have"
    return UsageError(
        f"{option} {name}: {has} no such routine:{meant} `simprof cfg` lists them all"
    )
