"""The program as a value: what the ELF file says, and nothing about running it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

PAGE_SIZE = 8192  # page size of Linux/SPARC64 in bytes


def page_up(address: int) -> int:
    """Round up to a page boundary."""
    return -(-address // PAGE_SIZE) * PAGE_SIZE


class MachineKind(StrEnum):
    """Architecture of a program, named as the reports name it."""

    SPARCV9 = "sparcv9"
    SPARCV8PLUS = "sparcv8plus"
    SPARCV8 = "sparcv8"


class Platform(StrEnum):
    """What a program expects to run on."""

    LINUX = "linux"
    LEON3 = "leon3"  # the bare processor, in supervisor mode


class Binding(StrEnum):
    """ELF symbol binding."""

    GLOBAL = "GLOBAL"
    WEAK = "WEAK"
    LOCAL = "LOCAL"


class Segment(Struct, frozen=True):
    """A PT_LOAD segment at its run-time address (load bias added)."""

    address: int
    data: bytes  # what the file provides; the rest up to `memory_size` is zero
    memory_size: int
    readable: bool
    writable: bool
    executable: bool


class Range(Struct, frozen=True):
    """Half-open address range [start, end) in bytes."""

    start: int
    end: int

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.end


def joined(spans: Iterable[Range], gap: int = 1) -> list[Range]:
    """Return ranges, sorted, with those less than `gap` bytes apart as one."""
    found: list[Range] = []
    for span in sorted(spans, key=lambda span: span.start):
        if found and span.start - found[-1].end < gap:
            found[-1] = Range(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


class Module(Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """A file that a dynamically linked program loads: its interpreter, or a library."""

    bias: int  # What is added to the file's addresses where it is loaded, in bytes
    file: str  # Where it is
    sha256: str  # Of its contents


class Symbol(Struct, frozen=True):
    """A symbol at its run-time address; `size` in bytes, 0 where the file gives none."""

    name: str
    address: int
    size: int
    binding: Binding
    is_function: bool


class SourceLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of source text."""

    file: str
    line: int


class LineRows(Struct, frozen=True):
    """The rows of a line table, one for each stretch of code, by address."""

    starts: Sequence[int] = ()
    ends: Sequence[int] = ()  # addresses behind the last instructions
    files: Sequence[int] = ()  # places in `names`
    lines: Sequence[int] = ()
    names: tuple[str, ...] = ()  # paths of source files, each once


class LineTable:
    """Maps code addresses to source lines; `read` is asked for the rows when they are needed."""

    def __init__(self, read: Callable[[], LineRows] = LineRows) -> None:
        self._read = read

    def __eq__(self, other: object) -> bool:
        """Whether it is a table, too: programs are equal by all else, and so are their lines."""
        return isinstance(other, LineTable)

    def __hash__(self) -> int:
        return 0

    @cached_property
    def rows(self) -> LineRows:
        """All rows."""
        return self._read()

    @property
    def is_empty(self) -> bool:
        """Whether it is known that there is no line."""
        return not self.rows.starts

    def find(self, address: int) -> SourceLine | None:
        """Return the line that `address` was compiled from, or None where it is unknown."""
        at = bisect_right(self.rows.starts, address) - 1
        return self._line(at) if at >= 0 and address < self.rows.ends[at] else None

    def stretches(self) -> Iterator[tuple[Range, SourceLine]]:
        """Yield stretches of code with the line that each was compiled from, by address."""
        for at, (start, end) in enumerate(zip(self.rows.starts, self.rows.ends, strict=True)):
            yield Range(start, end), self._line(at)

    def _line(self, at: int) -> SourceLine:
        return SourceLine(self.rows.names[self.rows.files[at]], self.rows.lines[at])


class Program(Struct, frozen=True):
    """A loaded SPARC program."""

    path: Path
    sha256: str
    machine: MachineKind
    entry: int
    segments: tuple[Segment, ...]
    # Where instructions are (executable sections where the file has section headers, executable
    # segments where it has none), sorted and disjoint.
    code: tuple[Range, ...]
    # Those in writable segments (`.iplt` of static programs), whose words are only valid once the
    # program has run its start-up relocations. None for LEON: nobody relocates its programs, and
    # all of its memory can be written.
    late_code: tuple[Range, ...]
    symbols: tuple[Symbol, ...]
    load_bias: int = 0
    program_headers_address: int = 0
    program_header_size: int = 0
    program_header_count: int = 0
    stack_executable: bool = False
    lines: LineTable = field(default_factory=LineTable)
    debug_file: Path | None = None  # where its lines are, if not in its own file
    unwinding: tuple[Range, ...] = ()  # its tables for unwinding the stack (`.eh_frame`)
    interpreter: str | None = None  # of a dynamically linked program
    # Its own file and that of the interpreter, with which it starts. Once it is linked
    # (`dynamic.link`) it is all of its modules taken together, and begins where that does.
    parts: tuple[Program, ...] = ()
    modules: tuple[Module, ...] = ()
    platform: Platform = Platform.LINUX
    # Global registers to which its symbols give a name: it keeps something there.
    named_registers: frozenset[int] = frozenset()

    @property
    def is64(self) -> bool:
        """Whether registers and pointers of the program are 64 bits wide."""
        return self.machine is MachineKind.SPARCV9
