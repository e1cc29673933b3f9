"""Source lines from DWARF, read by pyelftools when they are first asked for.

Debug information never stops a run: whatever pyelftools makes of damaged sections, the answer is
then "line unknown".
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from elftools.elf.elffile import ELFFile

from simulator.binary.line_program import Encoding
from simulator.binary.line_program import rows as line_rows
from simulator.binary.program import Range, SourceLine

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
        Where the code is. Linkers leave the lines of routines that they have dropped, at address
        0; such rows are ignored.
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
        # pyelftools raises a dozen kinds on damaged DWARF; what precedes the damage is kept.
        with suppress(Exception):
            rows.extend(_line_rows(self._data))
        bias = self._bias
        rows = sorted(
            (start + bias, end + bias, file, line)
            for start, end, file, line in rows
            if any(start + bias in span for span in self._code)
        )
        return [row[0] for row in rows], rows


def _line_rows(data: bytes) -> Iterator[_Row]:
    elf = ELFFile(io.BytesIO(data))
    if not elf.has_dwarf_info():
        return
    dwarf = elf.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        top = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
        directory = _text(top.value) if top is not None else ""
        names = _file_names(program, directory)
        yield from _program_rows(program, names)


def _program_rows(program: Any, names: dict[int, str]) -> Iterator[_Row]:
    header = program.header
    encoding = Encoding(
        line_base=header.line_base,
        line_range=header.line_range,
        instruction=header.minimum_instruction_length,
        operands=tuple(header.standard_opcode_lengths),
    )
    start, end = program.program_start_offset, program.program_end_offset
    program.stream.seek(start)
    previous = None
    for row in line_rows(program.stream.read(max(end - start, 0)), encoding):
        if previous is not None and row.address > previous.address and previous.line:
            name = names.get(previous.file)
            if name is not None:
                yield previous.address, row.address, name, previous.line
        previous = None if row.ends else row


def _file_names(program: Any, directory: str) -> dict[int, str]:
    """Map the line program's file numbers to paths (DWARF 5 counts from 0, earlier from 1)."""
    header = program.header
    version5 = header.version >= 5
    folders = [_text(item) for item in header.include_directory]
    if not version5:
        folders.insert(0, directory)
    names = {}
    for index, item in enumerate(header.file_entry):
        name = _text(item.name)
        folder = folders[item.dir_index] if item.dir_index < len(folders) else ""
        if folder and not name.startswith("/"):
            name = f"{folder}/{name}"
        if directory and not name.startswith("/"):
            name = f"{directory}/{name}"
        names[index if version5 else index + 1] = name
    return names


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")
