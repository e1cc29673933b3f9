"""Which routines of a program are profiled, of those that were recovered.

A routine is the program's own if debug information says from which source file its first
instruction was compiled, and if that file is not one of a C, C++ or Fortran library. Distributions
deliver their static libraries without debug information, so that this alone tells most of them
from the program; libraries that somebody compiled with it, and templates and inline functions
of system headers, are known by the names of their directories.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.recovery.names import RoutineNames
from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.profiler.request.library_sources import is_library_source
from simprof.profiler.request.request import Selection
from simprof.simulator.errors import UsageError

UNKNOWN_CODE = "sub_"
"""How routines without a symbol are called: a run may still find some."""


class SelectedRoutines:
    """Tells which routines of a program a selection takes.

    Parameters
    ----------
    recovered
        All graphs.

    Raises
    ------
    UsageError
        If a pattern matches no routine, the program has no debug information though the selection
        asks for its own routines, or nothing is left.
    """

    def __init__(self, recovered: RecoveredProgram, selection: Selection) -> None:
        self._selection = selection
        self._lines = recovered.program.lines
        self._names = RoutineNames(recovered.program)
        if not selection.tolerant:
            self._check_patterns(recovered, (*selection.routines, *selection.exclude))
        if selection.is_all:
            return
        if selection.user_only and not any(
            self._lines.find(cfg.address) for cfg in recovered.routines
        ):
            raise UsageError(
                f"--user-only: {recovered.program.path} has no debug information to know its own "
                "routines by: compile it with -g, or leave out libraries by --exclude"
            )
        named = any(pattern.startswith(UNKNOWN_CODE) for pattern in selection.routines)
        if not named and not any(map(self.takes, recovered.routines)):
            raise UsageError(
                f"no routine of {recovered.program.path} is left: `simprof cfg` lists them all"
            )

    def takes(self, cfg: ControlFlowGraph) -> bool:
        """Whether a routine is among those selected."""
        wanted, unwanted = self._selection.routines, self._selection.exclude
        return (
            (not wanted or self._names.match(cfg, wanted) is not None)
            and self._names.match(cfg, unwanted) is None
            and (not self._selection.user_only or self.is_own(cfg))
        )

    def alias(self, cfg: ControlFlowGraph) -> str | None:
        """Return the name that selects a routine, None where that is its own."""
        return self._names.alias(cfg, self._selection.routines)

    def is_own(self, cfg: ControlFlowGraph) -> bool:
        """Whether a routine is the program's own, and no library's."""
        line = self._lines.find(cfg.address)
        return line is not None and not is_library_source(line.file)

    def _check_patterns(self, recovered: RecoveredProgram, patterns: Iterable[str]) -> None:
        for pattern in patterns:
            known = any(self._names.match(cfg, [pattern]) for cfg in recovered.routines)
            if not known and not pattern.startswith(UNKNOWN_CODE):
                meant = did_you_mean(self._names.like(recovered.arrays, pattern))
                raise UsageError(
                    f"no routine matches {pattern!r}:{meant} `simprof cfg` lists them all"
                )


def did_you_mean(names: Sequence[str]) -> str:
    """Return the question whether one of some names was meant; empty where there are none."""
    return f" did you mean {' or '.join(map(repr, names))}?" if names else ""
