"""Source files as the page of a report quotes them: line by line, as far as they are there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from profiler.reports.display import visible
from simulator.binary.program import SourceLine

LARGEST_FILE = 32 << 20
"""Bytes of a source file that is read; longer ones were hardly written by people."""


class SourceTexts:
    """The lines of source files.

    Parameters
    ----------
    moved
        Beginnings of the names that the program has for files -> what they are now.
    """

    def __init__(self, moved: Mapping[str, str] = {}) -> None:
        self._moved = dict(moved)
        self._files: dict[str, tuple[str, ...]] = {}

    def text(self, line: SourceLine) -> str | None:
        """Return a line's text, with nothing in it that is not shown; None if it is not there."""
        lines = self._lines(line.file)
        return visible(lines[line.line - 1]) if 0 < line.line <= len(lines) else None

    def _lines(self, name: str) -> tuple[str, ...]:
        if name not in self._files:
            self._files[name] = self._read(Path(self._place(name)))
        return self._files[name]

    def _place(self, name: str) -> str:
        for before, now in self._moved.items():
            if name.startswith(before):
                return now + name.removeprefix(before)
        return name

    def _read(self, path: Path) -> tuple[str, ...]:
        try:
            if not path.is_file() or path.stat().st_size > LARGEST_FILE:
                return ()
            text = path.read_text(encoding="utf-8", errors="backslashreplace")
        except (OSError, ValueError):
            return ()
        return tuple(line.expandtabs() for line in text.split("\n"))
