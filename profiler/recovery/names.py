"""The names by which a routine can be selected: those of all symbols at its address.

A graph keeps one of them (`routines`); the C library knows `malloc` as `__libc_malloc`, too. A C++
function is also known by its declaration, as reports show it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from profiler.graphs.cfg import ControlFlowGraph
from simulator.binary.demangling import demangle
from simulator.binary.program import Program


class RoutineNames:
    """All names of the routines of a program."""

    def __init__(self, program: Program) -> None:
        self._symbols: dict[int, set[str]] = defaultdict(set)
        for symbol in program.symbols:
            self._symbols[symbol.address].add(symbol.name)

    def of(self, routine: ControlFlowGraph) -> tuple[str, ...]:
        """Return the names of a routine: its own, then the others in alphabetical order."""
        others = self._symbols.get(routine.address, set()) - {routine.name, ""}
        return (routine.name, *sorted(others))

    def match(self, routine: ControlFlowGraph, patterns: Iterable[str]) -> str | None:
        """Return the first name of a routine that any glob pattern matches, None without one."""
        wanted = tuple(patterns)
        if not wanted:
            return None  # most runs select nothing: then no name is looked up or demangled
        for name in self.of(routine):
            for text in dict.fromkeys((name, demangle(name))):
                if any(fnmatchcase(text, pattern) for pattern in wanted):
                    return name
        return None

    def alias(self, routine: ControlFlowGraph, patterns: Sequence[str]) -> str | None:
        """Return the name that selects a routine, None where that is its own."""
        name = self.match(routine, patterns)
        return None if name == routine.name else name
