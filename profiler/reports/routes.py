"""Ways through a program as people read them: long ones shortened, source files by short names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from simprof.profiler.reports.display import visible
from simprof.simulator.binary.program import SourceLine

SHOWN = 12
"""Blocks or lines of a way that are shown; of longer ones the middle is left out."""


def shorten(names: Sequence[str]) -> list[str]:
    """Leave out the middle of a long list and say how much."""
    if len(names) <= SHOWN:
        return list(names)
    head = SHOWN - 4
    return [*names[:head], f"({len(names) - head - 3} more)", *names[-3:]]


class ShortNames:
    """Source files by the last components of their paths, as many as tell them apart.

    Parameters
    ----------
    files
        All that are shown.
    """

    def __init__(self, files: Iterable[str]) -> None:
        names = set(files)
        self._short: dict[str, str] = {}
        for components in range(1, 2 + max((file.count("/") for file in names), default=0)):
            ends = Counter(_end(file, components) for file in names)
            for file in names - self._short.keys():
                end = _end(file, components)
                if end and ends[end] == 1:
                    self._short[file] = end

    def short(self, file: str) -> str:
        """Return how a file is shown."""
        return visible(self._short.get(file, file))

    def route(self, lines: Iterable[SourceLine]) -> str:
        """Return "FILE:LINE > LINE > ...", repeats left out, and files that stay the same."""
        parts: list[str] = []
        file = None
        for line, _ in groupby(lines):
            shown = f"{line.line}" if line.file == file else f"{self.short(line.file)}:{line.line}"
            parts.append(shown)
            file = line.file
        return " > ".join(shorten(parts))


def _end(file: str, components: int) -> str:
    """Return the last components of a path; all of it where it has no more."""
    parts = file.split("/")
    return file if components >= len(parts) else "/".join(parts[-components:])
