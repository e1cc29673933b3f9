"""Source lines from DWARF, read when they are first asked for (DWARF 5, section 6.2).

Terms: a *line program* is byte code that lists the rows of a unit's line table; its *header* has
the names of files and directories, and says how opcodes are read (versions 2 to 5).

Steps -> functions: compilation units, by pyelftools within limits (`debug_info.top_attributes`);
the header of each unit's line program (`read_header`); its rows (`line_rows`); rows of code that
was linked in, by address (`line_table`).
"""

# Debug information never stops a run: whatever is made of damaged sections, the answer is then
# "line unknown". pyelftools reads headers and programs, too. It believes the counts of a header: a
# table of 2^60 entries of no bytes each has it fill the memory; here every entry takes at least a
# byte of the file, or the header is damaged. And it makes an object per opcode, which takes four
# times as long: 0.32 s against 0.08 s for a C++ program of 26,000 rows; large programs have
# millions.

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import Struct

from simprof.simulator.binary import debug_info
from simprof.simulator.binary.program import LineRows, Range

MOST_PATH_CHARACTERS = 64 << 20  # characters of the paths of all source files

_SourceRow = tuple[int, int, str, int]  # start, end (addresses), file, line


def read_rows(data: bytes, bias: int, code: Sequence[Range]) -> LineRows:
    """Return the line table of an ELF file, with `bias` added; `code` is sorted."""
    found: list[_SourceRow] = []
    # Damaged DWARF raises a dozen kinds in pyelftools; what precedes the damage is kept.
    with suppress(Exception):
        found.extend(_line_rows(data))
    starts = [span.start for span in code]
    # Linkers leave the lines of routines that they have dropped, at address 0.
    rows = sorted(
        (start + bias, end + bias, file, line)
        for start, end, file, line in found
        if (index := bisect_right(starts, start + bias) - 1) >= 0 and start + bias in code[index]
    )
    names: dict[str, int] = {}
    starts, ends = [row[0] for row in rows], [row[1] for row in rows]
    files, lines = [names.setdefault(row[2], len(names)) for row in rows], [row[3] for row in rows]
    # As lists where damaged sections have numbers that fit into no array.
    with suppress(OverflowError):
        columns = [array("Q", column) for column in (starts, ends, files, lines)]
        return LineRows(columns[0], columns[1], columns[2], columns[3], tuple(names))
    return LineRows(starts, ends, files, lines, tuple(names))


def _line_rows(data: bytes) -> Iterator[_SourceRow]:
    dwarf = debug_info.read_debug_info(debug_info.opened(data))
    if dwarf is None:
        return
    programs = LinePrograms(dwarf)
    known: set[int] = set()
    rows_left = len(programs.lines)  # a row takes a byte at least
    for attributes in debug_info.top_attributes(dwarf):
        if "DW_AT_stmt_list" not in attributes:
            continue
        if (offset := attributes["DW_AT_stmt_list"].value) in known:
            continue
        known.add(offset)
        header, files = programs.of(attributes)
        for row in _program_rows(programs.lines, header, files):
            yield row
            rows_left -= 1
            if rows_left < 0:
                raise ValueError("line programs overlap")


class LinePrograms:
    """The headers of the units' line programs, each read once, with the paths of their files."""

    def __init__(self, dwarf: Any) -> None:
        self.lines = debug_info.section_data(dwarf, ".debug_line")
        sections = {form: debug_info.section_data(dwarf, name) for form, name in STRINGS.items()}
        self._names, self._paths = Names(sections), _Paths()
        self._known: dict[int, tuple[LineHeader, dict[int, str]]] = {}

    def of(self, attributes: Mapping[str, Any]) -> tuple[LineHeader, dict[int, str]]:
        """Return the header that a unit's own entry names, and path by number of file."""
        offset, folder = attributes["DW_AT_stmt_list"].value, attributes.get("DW_AT_comp_dir")
        if offset not in self._known:
            header = read_header(self.lines, offset, self._names)
            directory = "" if folder is None else _decoded(folder.value)
            self._known[offset] = header, self._paths.of(header, directory)
        return self._known[offset]


def _program_rows(lines: bytes, header: LineHeader, names: dict[int, str]) -> Iterator[_SourceRow]:
    previous = None
    for row in line_rows(lines[header.start : header.end], header.encoding):
        if previous is not None and row.address > previous.address and previous.line:
            name = names.get(previous.file)
            if name is not None:
                yield previous.address, row.address, name, previous.line
        previous = None if row.ends else row


class _Paths:
    def __init__(self) -> None:
        self._room = MOST_PATH_CHARACTERS

    def of(self, header: LineHeader, directory: str) -> dict[int, str]:
        """Map a line program's file numbers to paths."""
        version5 = header.version >= 5
        folders = [_decoded(item) for item in header.directories]
        if not version5:
            folders.insert(0, directory)
        names = {}
        for index, item in enumerate(header.files):
            name = _decoded(item.name)
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


def _decoded(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")


_PATH, _DIRECTORY = 1, 2  # DW_LNCT_path, DW_LNCT_directory_index
_INLINE, _IN_STRINGS, _IN_LINE_STRINGS = 0x08, 0x0E, 0x1F  # DW_FORM_string, _strp, _line_strp
_UNSIGNED, _BLOCK, _BLOCK_1 = 0x0F, 0x09, 0x0A
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}  # DW_FORM_data1, 2, 4, 8, 16: their bytes
_LONG = 0xFFFFFFFF  # an initial length that says that numbers have 64 bits
LONGEST_NAME = 4096  # bytes of a file's or a directory's name: Linux opens no longer ones
MOST_NAME_BYTES = 64 << 20  # bytes of all names that are referred to, which may be the ends of one
# Form of a reference to a name -> the section that has it.
STRINGS = {_IN_STRINGS: ".debug_str", _IN_LINE_STRINGS: ".debug_line_str"}


class Names:
    """Names that headers refer to, each read once; `sections` have them, by form (`STRINGS`)."""

    def __init__(self, sections: Mapping[int, bytes]) -> None:
        self._sections = sections
        self._known: dict[tuple[int, int], bytes] = {}
        self._room = MOST_NAME_BYTES

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


class FileEntry(NamedTuple):
    """A source file: its name and the number of its directory."""

    name: bytes
    directory: int


class LineHeader(Struct, frozen=True):
    """What the header of a line program says."""

    version: int  # of DWARF
    encoding: Encoding  # how its opcodes are read
    # directories, files: as the header has them: version 5 counts them from 0, earlier ones from 1.
    directories: tuple[bytes, ...]
    files: tuple[FileEntry, ...]
    # start, end: where the program is in `.debug_line`, in bytes.
    start: int
    end: int


def read_header(lines: bytes, offset: int, names: Names) -> LineHeader:
    """Read the header at `offset` of the section `.debug_line`; `names`: those it may refer to.

    Raises `IndexError`, `ValueError` or `KeyError` where it is damaged, or has forms that no line
    program has.
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
    if version == 5:
        directories = [file.name for file in _entries(cursor, names, wide)]
        files = _entries(cursor, names, wide)
    else:  # lists that an empty name ends
        directories, files = list(iter(cursor.text, b"")), []
        while name := cursor.text():
            files.append(FileEntry(name, cursor.unsigned()))
            cursor.unsigned()  # time
            cursor.unsigned()  # size
    encoding = Encoding(line_base, line_range, instruction, operands)
    return LineHeader(version, encoding, tuple(directories), tuple(files), cursor.at, end)


def _entries(cursor: Cursor, names: Names, wide: int) -> list[FileEntry]:
    """Read a list of version 5: of entries whose form comes first."""
    forms = [(cursor.unsigned(), cursor.unsigned()) for _ in range(cursor.byte())]
    count = cursor.unsigned()
    if count and not forms:
        raise ValueError("entries of no bytes in a line program's header")
    entries = []
    for _ in range(count):
        name, directory = b"", 0
        for content, form in forms:
            value = _value(form, cursor, names, wide)
            if content == _PATH and isinstance(value, bytes):
                name = value
            elif content == _DIRECTORY and isinstance(value, int):
                directory = value
        entries.append(FileEntry(name, directory))
    return entries


def _value(form: int, cursor: Cursor, names: Names, wide: int) -> bytes | int:
    if form == _INLINE:
        return cursor.text()
    if form in names:
        return names.at(form, cursor.number(wide))
    if form == _UNSIGNED:
        return cursor.unsigned()
    if form in (_BLOCK, _BLOCK_1):
        return cursor.number(cursor.unsigned() if form == _BLOCK else cursor.byte())
    return cursor.number(_FIXED[form])


_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2
_MAX_LEB128 = 10  # bytes of a 64-bit number
_LONGEST_ADDRESS = 8  # bytes


class Encoding(Struct, frozen=True):
    """What a line program's header says about its opcodes."""

    line_base: int
    line_range: int
    instruction: int  # bytes that an address advances by for one unit of operation advance
    operands: Sequence[int]  # number of operands of standard opcode 1, 2,

    @property
    def opcode_base(self) -> int:
        """The first special opcode."""
        return len(self.operands) + 1


class LineRow(NamedTuple):
    """One row: from `address` on, code comes from `line` of `file`; or a sequence ends there."""

    address: int
    file: int
    line: int
    ends: bool = False


class Cursor:
    """Reads numbers from `at` on; raises IndexError or ValueError where the bytes are damaged."""

    def __init__(self, code: bytes, at: int = 0) -> None:
        self.code = code
        self.at = at

    def byte(self) -> int:
        """Read a byte."""
        value = self.code[self.at]
        self.at += 1
        return value

    def unsigned(self) -> int:
        """Read an unsigned number of variable length (LEB128)."""
        value = self.code[self.at]
        if value < 0x80:  # most of them
            self.at += 1
            return value
        return self._leb128()[0]

    def signed(self) -> int:
        """Read a signed number of variable length (LEB128)."""
        value, bits = self._leb128()
        return value - (1 << bits) if value >> (bits - 1) else value

    def _leb128(self) -> tuple[int, int]:
        value = 0
        for shift in range(0, 7 * _MAX_LEB128, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, shift + 7
        raise ValueError("number of more than 64 bits in a line program")

    def number(self, size: int, *, signed: bool = False) -> int:
        """Read a big-endian number of `size` bytes."""
        data = self.code[self.at : self.at + size]
        if len(data) < size:
            raise IndexError(self.at)
        self.at += size
        return int.from_bytes(data, "big", signed=signed)

    def text(self) -> bytes:
        """Read a name up to a zero, and that."""
        name = text_at(self.code, self.at)
        self.at += len(name) + 1
        return name


class _LineState(Struct):
    address: int = 0
    file: int = 1
    line: int = 1


def line_rows(code: bytes, encoding: Encoding) -> Iterator[LineRow]:
    """Yield the rows of a big-endian line program.

    Raises `IndexError`, `ValueError` or `ZeroDivisionError` where it is damaged; the rows before
    the damage have been yielded.
    """
    cursor, state = Cursor(code), _LineState()
    base, line_base, line_range = encoding.opcode_base, encoding.line_base, encoding.line_range
    while cursor.at < len(code):
        opcode = cursor.byte()
        if opcode >= base:
            advance, line = divmod(opcode - base, line_range)
            state.address += advance * encoding.instruction
            state.line += line_base + line
            yield LineRow(state.address, state.file, state.line)
        elif opcode == _COPY:
            yield LineRow(state.address, state.file, state.line)
        elif opcode:
            _standard(opcode, cursor, state, encoding)
        elif _extended(cursor, state):
            yield LineRow(state.address, state.file, state.line, ends=True)
            state = _LineState()


def _standard(opcode: int, cursor: Cursor, state: _LineState, encoding: Encoding) -> None:
    if opcode == _ADVANCE_PC:
        state.address += cursor.unsigned() * encoding.instruction
    elif opcode == _ADVANCE_LINE:
        state.line += cursor.signed()
    elif opcode == _SET_FILE:
        state.file = cursor.unsigned()
    elif opcode == _CONST_ADD_PC:
        advance = (255 - encoding.opcode_base) // encoding.line_range
        state.address += advance * encoding.instruction
    elif opcode == _FIXED_ADVANCE_PC:
        state.address += cursor.number(2)
    else:
        for _ in range(encoding.operands[opcode - 1]):
            cursor.unsigned()


def _extended(cursor: Cursor, state: _LineState) -> bool:
    # Whether the opcode ended a sequence.
    size = cursor.unsigned()
    end = cursor.at + size
    opcode = cursor.byte()
    if opcode == _SET_ADDRESS:
        if not 1 < size <= 1 + _LONGEST_ADDRESS:
            raise ValueError("an address of odd size in a line program")
        state.address = cursor.number(size - 1)
    cursor.at = end
    return opcode == _END_SEQUENCE
