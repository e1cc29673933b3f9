"""Headers of DWARF line programs (DWARF 5, section 6.2.4; versions 2 to 5).

pyelftools reads them, too, and believes their counts: a table of 2^60 entries of no bytes each has
it fill the memory. Here every entry takes at least a byte of the file, or the header is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simprof.simulator.binary.line_program import Cursor, Encoding

_PATH, _DIRECTORY = 1, 2  # DW_LNCT_path, DW_LNCT_directory_index
_INLINE, _IN_STRINGS, _IN_LINE_STRINGS = 0x08, 0x0E, 0x1F  # DW_FORM_string, _strp, _line_strp
_UNSIGNED, _BLOCK, _BLOCK_1 = 0x0F, 0x09, 0x0A
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
"""DW_FORM_data1, 2, 4, 8, 16: their bytes."""
_LONG = 0xFFFFFFFF  # an initial length that says that numbers have 64 bits
LONGEST_NAME = 4096
"""Bytes of a file's or a directory's name: Linux opens no longer ones."""
MOST_NAMES = 64 << 20
"""Bytes of all names that are referred to, which may be the ends of one."""
STRINGS = {_IN_STRINGS: ".debug_str", _IN_LINE_STRINGS: ".debug_line_str"}
"""Form of a reference to a name -> the section that has it."""


class Names:
    """Names that headers refer to, each read once.

    Parameters
    ----------
    sections
        The sections that have them, by form (`STRINGS`).
    """

    def __init__(self, sections: Mapping[int, bytes]) -> None:
        self._sections = sections
        self._known: dict[tuple[int, int], bytes] = {}
        self._room = MOST_NAMES

    def __contains__(self, form: int) -> bool:
        return form in self._sections

    def at(self, form: int, offset: int) -> bytes:
        """Return a name; raises ValueError where there is none, or too much of them."""
        key = form, offset
        if key not in self._known:
            name = text_at(self._sections[form], offset)
            self._room -= len(name)
            if self._room < 0:
                raise ValueError("too many names in headers of line programs")
            self._known[key] = name
        return self._known[key]


def text_at(data: bytes, at: int) -> bytes:
    """Return the bytes from `at` on up to a zero; raises ValueError where a name has none."""
    end = data.find(b"\0", at, at + LONGEST_NAME + 1)
    if end < 0:
        raise ValueError("a name without end in a line program's header")
    return data[at:end]


@dataclass(frozen=True)
class FileEntry:
    """A source file: its name and the number of its directory."""

    name: bytes
    directory: int


@dataclass(frozen=True)
class LineHeader:
    """What the header of a line program says.

    Attributes
    ----------
    version
        Of DWARF.
    encoding
        How its opcodes are read.
    directories, files
        As the header has them: version 5 counts them from 0, earlier ones from 1.
    start, end
        Where the program is in `.debug_line`, in bytes.
    """

    version: int
    encoding: Encoding
    directories: tuple[bytes, ...]
    files: tuple[FileEntry, ...]
    start: int
    end: int


def read_header(lines: bytes, offset: int, names: Names) -> LineHeader:
    """Read the header at `offset` of `.debug_line`.

    Parameters
    ----------
    lines
        The section.
    offset
        In bytes.
    names
        Those that it may refer to.

    Raises
    ------
    IndexError, ValueError, KeyError
        It is damaged, or has forms that no line program has.
    """
    cursor = Cursor(lines, offset)
    length, wide = cursor.number(4), 4
    if length == _LONG:
        length, wide = cursor.number(8), 8
    end = min(cursor.at + length, len(lines))
    version = cursor.number(2)
    if not 2 <= version <= 5:
        raise ValueError(f"line program of version {version}")
    if version == 5:
        cursor.number(2)  # bytes of an address, and of a segment's number
    cursor.number(wide)
    instruction = cursor.byte()
    if version >= 4:
        cursor.byte()  # operations in an instruction
    cursor.byte()  # whether rows are statements at first
    line_base = (cursor.byte() ^ 0x80) - 0x80
    line_range = cursor.byte()
    operands = tuple(cursor.byte() for _ in range(cursor.byte() - 1))
    tables = _Tables(cursor, names, wide)
    directories, files = tables.new() if version == 5 else tables.old()
    encoding = Encoding(line_base, line_range, instruction, operands)
    return LineHeader(version, encoding, directories, files, cursor.at, end)


class _Tables:
    """Reads the directories and files of a header."""

    def __init__(self, cursor: Cursor, names: Names, wide: int) -> None:
        self._cursor = cursor
        self._names = names
        self._wide = wide

    def old(self) -> tuple[tuple[bytes, ...], tuple[FileEntry, ...]]:
        """Read those of versions before 5: lists that an empty name ends."""
        cursor = self._cursor
        directories = []
        while name := text_at(cursor.code, cursor.at):
            cursor.at += len(name) + 1
            directories.append(name)
        cursor.at += 1
        files = []
        while name := text_at(cursor.code, cursor.at):
            cursor.at += len(name) + 1
            files.append(FileEntry(name, cursor.unsigned()))
            cursor.unsigned()  # time
            cursor.unsigned()  # size
        cursor.at += 1
        return tuple(directories), tuple(files)

    def new(self) -> tuple[tuple[bytes, ...], tuple[FileEntry, ...]]:
        """Read those of version 5: lists of entries whose form comes first."""
        directories = tuple(file.name for file in self._entries())
        return directories, tuple(self._entries())

    def _entries(self) -> list[FileEntry]:
        cursor = self._cursor
        forms = [(cursor.unsigned(), cursor.unsigned()) for _ in range(cursor.byte())]
        count = cursor.unsigned()
        if count and not forms:
            raise ValueError("entries of no bytes in a line program's header")
        return [self._entry(forms) for _ in range(count)]

    def _entry(self, forms: list[tuple[int, int]]) -> FileEntry:
        name, directory = b"", 0
        for content, form in forms:
            value = self._value(form)
            if content == _PATH and isinstance(value, bytes):
                name = value
            elif content == _DIRECTORY and isinstance(value, int):
                directory = value
        return FileEntry(name, directory)

    def _value(self, form: int) -> bytes | int:
        cursor = self._cursor
        if form == _INLINE:
            name = text_at(cursor.code, cursor.at)
            cursor.at += len(name) + 1
            return name
        if form in self._names:
            return self._names.at(form, cursor.number(self._wide))
        if form == _UNSIGNED:
            return cursor.unsigned()
        if form in (_BLOCK, _BLOCK_1):
            return cursor.number(cursor.unsigned() if form == _BLOCK else cursor.byte())
        return cursor.number(_FIXED[form])
