"""Source lines of a program, read from its file once and then kept in the user's cache."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from simprof.profiler.profiles.cache_files import CacheFiles
from simprof.profiler.session.memory import BinaryMemory
from simprof.simulator.binary.program import LineTable, Program, Range, SourceLine


@dataclass(frozen=True)
class LineRows:
    """A line table, one entry a stretch of code, by address.

    Attributes
    ----------
    starts, ends
        Addresses: of the first instruction, and behind the last.
    files
        Places in `names`.
    lines
        In the file.
    names
        Paths of source files, each once.
    """

    starts: Sequence[int]
    ends: Sequence[int]
    files: Sequence[int]
    lines: Sequence[int]
    names: tuple[str, ...]


class KeptLines:
    """`LineTable` that asks the cache before the file, and keeps what the file said.

    Parameters
    ----------
    table
        The lines as the file has them.
    memory
        What is known of the program.
    """

    def __init__(self, table: LineTable, memory: BinaryMemory) -> None:
        self._table, self._memory = table, memory

    def find(self, address: int) -> SourceLine | None:
        """Return the line that `address` was compiled from, or None where it is unknown."""
        rows = self._rows
        at = bisect_right(rows.starts, address) - 1
        return self._line(at) if at >= 0 and address < rows.ends[at] else None

    def stretches(self) -> Iterator[tuple[Range, SourceLine]]:
        """Yield stretches of code with the line that each was compiled from, by address."""
        for at, (start, end) in enumerate(zip(self._rows.starts, self._rows.ends, strict=True)):
            yield Range(start, end), self._line(at)

    def _line(self, at: int) -> SourceLine:
        rows = self._rows
        return SourceLine(rows.names[rows.files[at]], rows.lines[at])

    @cached_property
    def _rows(self) -> LineRows:
        known = self._memory.lines()
        if isinstance(known, LineRows):
            return known
        rows = _packed(self._table)
        if isinstance(rows.starts, array):
            self._memory.keep_lines(rows)
        return rows


def _packed(table: LineTable) -> LineRows:
    """Return a table as arrays, as lists where damaged sections have numbers that fit into none."""
    starts: list[int] = []
    ends: list[int] = []
    files: list[int] = []
    lines: list[int] = []
    names: dict[str, int] = {}
    for span, line in table.stretches():
        starts.append(span.start)
        ends.append(span.end)
        files.append(names.setdefault(line.file, len(names)))
        lines.append(line.line)
    try:
        columns = [array("Q", column) for column in (starts, ends, files, lines)]
    except OverflowError:
        return LineRows(starts, ends, files, lines, tuple(names))
    return LineRows(columns[0], columns[1], columns[2], columns[3], tuple(names))


def with_kept_lines(program: Program, files: CacheFiles | None) -> Program:
    """Return a program whose lines are kept; as it is where nothing is, or if it is many files.

    Parameters
    ----------
    program
        As it was loaded.
    files
        The cache; None: nothing is kept.
    """
    if files is None or program.parts:
        return program
    return replace(program, lines=KeptLines(program.lines, BinaryMemory(program, files)))
