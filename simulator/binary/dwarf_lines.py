"""Source lines from DWARF, read when they are first asked for.

`debug_info` reads the compilation units, `line_header` and `line_program` the tables that these
name. Debug information never stops a run: whatever is made of damaged sections, the answer is then
"line unknown".
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from elftools.elf.elffile import ELFFile

from simprof.simulator.binary.debug_info import read_debug_info, section_data, top_attributes
from simprof.simulator.binary.line_header import STRINGS, LineHeader, Names, read_header
from simprof.simulator.binary.line_program import rows as line_rows
from simprof.simulator.binary.program import Range, SourceLine

MOST_NAMES = 64 << 20
"""Characters of the paths of all source files."""

_Row = tuple[int, int, str, int]  # start, end (addresses), file, line


class DwarfLineTable:
    """`LineTable` over the DWARF sections of an ELF file.

    Parameters
    ----------
    data
        The whole file.
    bias
        Load bias in bytes, added to the file's addresses.
    code
        Where the code is, sorted. Linkers leave the lines of routines that they have dropped, at
        address 0; such rows are ignored.
    """

    def __init__(self, data: bytes, bias: int, code: Sequence[Range]) -> None:
        self._data = data
        self._bias = bias
        self._code = code

    def find(self, address: int) -> SourceLine | None:
        """Return the line that `address` was compiled from, or None where it is unknown."""
        starts, rows = self._rows
        index = bisect_right(starts, address) - 1
        if index < 0:
            return None
        _, end, file, line = rows[index]
        return SourceLine(file, line) if address < end else None

    def stretches(self) -> Iterator[tuple[Range, SourceLine]]:
        """Yield stretches of code with the line that each was compiled from, by address."""
        for start, end, file, line in self._rows[1]:
            yield Range(start, end), SourceLine(file, line)

    @cached_property
    def _rows(self) -> tuple[list[int], list[_Row]]:
        rows: list[_Row] = []
        # Damaged DWARF raises a dozen kinds in pyelftools; what precedes the damage is kept.
        with suppress(Exception):
            rows.extend(_line_rows(self._data))
        bias = self._bias
        rows = sorted(
            (start + bias, end + bias, file, line)
            for start, end, file, line in rows
            if self._is_code(start + bias)
        )
        return [row[0] for row in rows], rows

    @cached_property
    def _code_starts(self) -> list[int]:
        return [span.start for span in self._code]

    def _is_code(self, address: int) -> bool:
        index = bisect_right(self._code_starts, address) - 1
        return index >= 0 and address in self._code[index]


def _line_rows(data: bytes) -> Iterator[_Row]:
    dwarf = read_debug_info(ELFFile(io.BytesIO(data)))
    if dwarf is None:
        return
    sections = {form: section_data(dwarf, name) for form, name in STRINGS.items()}
    lines = section_data(dwarf, ".debug_line")
    names, paths = Names(sections), _Paths()
    known: set[int] = set()
    rows_left = len(lines)  # a row takes a byte at least
    for offset, directory in _units(dwarf):
        if offset in known:
            continue
        known.add(offset)
        header = read_header(lines, offset, names)
        for row in _program_rows(lines, header, paths.of(header, directory)):
            yield row
            rows_left -= 1
            if rows_left < 0:
                raise ValueError("line programs overlap")


def _units(dwarf: Any) -> Iterator[tuple[int, str]]:
    """Yield where the line program of each compilation unit is, and its directory."""
    for attributes in top_attributes(dwarf):
        if "DW_AT_stmt_list" in attributes:
            directory = attributes.get("DW_AT_comp_dir")
            yield (
                attributes["DW_AT_stmt_list"].value,
                "" if directory is None else _text(directory.value),
            )


def _program_rows(lines: bytes, header: LineHeader, names: dict[int, str]) -> Iterator[_Row]:
    previous = None
    for row in line_rows(lines[header.start : header.end], header.encoding):
        if previous is not None and row.address > previous.address and previous.line:
            name = names.get(previous.file)
            if name is not None:
                yield previous.address, row.address, name, previous.line
        previous = None if row.ends else row


class _Paths:
    """Paths of source files."""

    def __init__(self) -> None:
        self._room = MOST_NAMES

    def of(self, header: LineHeader, directory: str) -> dict[int, str]:
        """Map a line program's file numbers to paths."""
        version5 = header.version >= 5
        folders = [_text(item) for item in header.directories]
        if not version5:
            folders.insert(0, directory)
        names = {}
        for index, item in enumerate(header.files):
            name = _text(item.name)
            folder = folders[item.directory] if item.directory < len(folders) else ""
            if folder and not name.startswith("/"):
                name = f"{folder}/{name}"
            if directory and not name.startswith("/"):
                name = f"{directory}/{name}"
            self._room -= len(name)
            if self._room < 0:
                raise ValueError("too many names of source files")
            names[index if version5 else index + 1] = name
        return names


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")
