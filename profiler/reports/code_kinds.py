"""What kind of code a routine is, as far as a measurement tells: the program's own, a library's.

Terms
-----
helper of position-independent code
    A routine that compilers generate where code may stand anywhere (`-fPIC`, `-fPIE`):
    `__sparc_get_pc_thunk.l7` and its like hand over the program counter, in two or three
    instructions that are executed at the entry of nearly every routine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from simprof.profiler.profiles.profile import Measurement, RoutineProfile
from simprof.profiler.reports.names import known_as
from simprof.profiler.request.library_sources import is_library_source

HELPER_MARK = "[PIC]"
"""Stands behind the name of a helper of position-independent code."""

HELPER_NOTE = f"{HELPER_MARK} a PC thunk (get_pc_thunk)"

_HELPER = re.compile(r"__sparc_get_pc_thunk(\..+)?")


class CodeKind(Enum):
    """Kinds of code, in the order in which reports list them."""

    OWN = "the program's own"
    LIBRARY = "libraries, compiled with -g"
    UNKNOWN = "no debug information (mostly libraries)"
    HELPER = "PC thunks (get_pc_thunk)"


@dataclass(frozen=True)
class KindTotal:
    """The routines of one kind that ran: how many, what they executed, what was added to them."""

    kind: CodeKind
    routines: int
    instructions: int
    added: int


def is_helper(name: str) -> bool:
    """Whether a routine is a helper of position-independent code.

    Examples
    --------
    >>> is_helper("__sparc_get_pc_thunk.l7")
    True
    >>> is_helper("get_pc")
    False
    """
    return _HELPER.fullmatch(name) is not None


def marked(routine: RoutineProfile) -> str:
    """Return the name that people know a routine by, helpers marked."""
    return with_mark(known_as(routine.name, routine.alias), routine.name)


def with_mark(shown: str, name: str) -> str:
    """Return what a report calls the routine of a symbol, helpers marked."""
    return f"{shown} {HELPER_MARK}" if is_helper(name) else shown


def kind_of(routine: RoutineProfile, measurement: Measurement) -> CodeKind:
    """Return the kind of a routine; by the source file of its first instruction, where known."""
    if is_helper(routine.name):
        return CodeKind.HELPER
    line = measurement.lines.get(routine.address)
    if line is None:
        return CodeKind.UNKNOWN
    return CodeKind.LIBRARY if is_library_source(line.file) else CodeKind.OWN


def kind_totals(measurement: Measurement) -> Iterator[KindTotal]:
    """Yield a total for each kind of which a routine ran, in the order of `CodeKind`."""
    ran = [routine for routine in measurement.routines if routine.activations]
    kinds = [kind_of(routine, measurement) for routine in ran]
    for kind in CodeKind:
        those = [routine for routine, each in zip(ran, kinds, strict=True) if each is kind]
        if those:
            yield KindTotal(
                kind,
                len(those),
                sum(routine.instructions for routine in those),
                sum(routine.added for routine in those),
            )
