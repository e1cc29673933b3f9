"""Records of ELF files: their layout, numbers, headers that are written again, special symbols.

The layout is that of the System V gABI and the SPARC psABI supplements.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from simprof.simulator.binary.program import Binding, Range, Symbol

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_PHDR, PT_GNU_STACK = 1, 2, 3, 6, 0x6474E551
PF_X, PF_W, PF_R = 1, 2, 4
SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_DYNSYM = 1, 2, 4, 8, 11
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
R_SPARC_JMP_SLOT = 21
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC, STT_REGISTER = 0, 1, 2, 10, 13


class RecordFormats(Struct, frozen=True):
    """Layout of one ELF class; the order of fields differs between the classes."""

    header: struct.Struct
    program_header: struct.Struct
    section_header: struct.Struct
    dynamic: struct.Struct
    # Of records that a file has thousands of, which are read as arrays.
    symbol: np.dtype[Any]
    relocation: np.dtype[Any]


def _symbols(fields: str) -> np.dtype[Any]:
    return np.dtype([(name, f">u{size}") for name, size in map(str.split, fields.split(","))])


FORMATS_64 = RecordFormats(
    struct.Struct(">16xHHIQQQIHHHHHH"),
    struct.Struct(">IIQQQQQQ"),
    struct.Struct(">IIQQQQIIQQ"),
    struct.Struct(">qQ"),
    _symbols("name 4, info 1, other 1, section 2, value 8, size 8"),
    np.dtype([("place", ">u8"), ("info", ">u8"), ("addend", ">i8")]),
)
FORMATS_32 = RecordFormats(
    struct.Struct(">16xHHIIIIIHHHHHH"),
    struct.Struct(">IIIIIIII"),
    struct.Struct(">IIIIIIIIII"),
    struct.Struct(">iI"),
    _symbols("name 4, value 4, size 4, info 1, other 1, section 2"),
    np.dtype([("place", ">u4"), ("info", ">u4"), ("addend", ">i4")]),
)


CLASS_64 = 2
IDENT_SIZE = 16


class FileHeader(NamedTuple):
    """The ELF header behind its first 16 bytes; fields in the file's order."""

    kind: int
    machine: int
    version: int
    entry: int
    program_headers: int
    sections: int
    flags: int
    size: int
    program_header_size: int
    program_header_count: int
    section_size: int
    section_count: int
    names: int


class ProgramHeader(NamedTuple):
    """A program header, fields named alike in both classes."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    alignment: int


class SectionHeader(NamedTuple):
    """A section header; fields in the file's order, which is that of both classes."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int

    @property
    def in_file(self) -> bool:
        """Whether the file holds bytes of it."""
        return self.kind not in (0, SHT_NOBITS) and self.size > 0


# Headers as they stand in a file; `elf_writer` decides where contents lie. Only files that
# `elf.load` has accepted are read into one.
class ElfImage(Struct, frozen=True):
    """What a file says about itself, and the file."""

    is64: bool
    # Its headers, in the file's order
    header: FileHeader
    program_headers: tuple[ProgramHeader, ...]
    sections: tuple[SectionHeader, ...]
    data: bytes  # The whole file

    @property
    def formats(self) -> RecordFormats:
        """How its records are laid out."""
        return FORMATS_64 if self.is64 else FORMATS_32

    @property
    def segments(self) -> list[ProgramHeader]:
        """The segments that are mapped and not empty, by address."""
        loads = [p for p in self.program_headers if p.kind == PT_LOAD and p.memory_size]
        return sorted(loads, key=lambda p: p.address)

    def content(self, section: SectionHeader) -> bytes:
        """Return a section's bytes in the file."""
        return self.data[section.offset : section.offset + section.size]

    def table(self, section: SectionHeader, record: np.dtype[Any]) -> np.ndarray:
        """Return the whole records of a section; where it has an end, those in the file."""
        content = self.content(section)
        return np.frombuffer(content, record, len(content) // record.itemsize)

    def section_name(self, section: SectionHeader) -> bytes:
        """Return a section's name; empty where it has none."""
        if self.header.names >= len(self.sections):
            return b""
        names = self.sections[self.header.names]
        start = names.offset + section.name
        return self.data[start : names.offset + names.size].split(b"\0", 1)[0]


def read_image(data: bytes) -> ElfImage:
    """Read the headers of a file that `elf.load` accepts."""
    is64 = data[4] == CLASS_64
    formats = FORMATS_64 if is64 else FORMATS_32
    header = FileHeader(*formats.header.unpack_from(data))
    programs = []
    for fields in _records(
        formats.program_header, data, header.program_headers, header.program_header_count
    ):
        if not is64:
            kind, *places, flags, alignment = fields
            fields = (kind, flags, *places, alignment)
        programs.append(ProgramHeader(*fields))
    count = header.section_count if header.sections else 0
    sections = _records(formats.section_header, data, header.sections, count)
    return ElfImage(
        is64, header, tuple(programs), tuple(SectionHeader(*fields) for fields in sections), data
    )


def _records(record: struct.Struct, data: bytes, offset: int, count: int) -> list[tuple[int, ...]]:
    return [record.unpack_from(data, offset + k * record.size) for k in range(count)]


def pack_header(image: ElfImage) -> bytes:
    """Return the ELF header's bytes."""
    return image.data[:IDENT_SIZE] + image.formats.header.pack(*image.header)[IDENT_SIZE:]


def pack_program_header(image: ElfImage, header: ProgramHeader) -> bytes:
    """Return a program header's bytes."""
    kind, flags, *places, alignment = header
    fields = (kind, flags, *places) if image.is64 else (kind, *places, flags)
    return image.formats.program_header.pack(*fields, alignment)


def pack_symbol(image: ElfImage, **fields: int) -> bytes:
    """Return the bytes of a symbol; fields that are not given are 0."""
    record = np.zeros((), image.formats.symbol)
    for name, value in fields.items():
        record[name] = value
    return record.tobytes()


_GLOBALS = range(1, 8)


# The 64-bit ABI has symbols for %g2, %g3, %g6 and %g7: of type STT_REGISTER, with the register's
# number as their value. One with a name (`.register %g2, counter`) says that the program keeps
# something there; one without (`.register %g2, #scratch`) that some routine uses it as scratch.
def named_registers(table: np.ndarray, names: bytes) -> frozenset[int]:
    """Return the numbers of the global registers that a symbol table, with its strings, names."""
    registers = table[table["info"] & 15 == STT_REGISTER]
    pairs = zip(registers["name"].tolist(), registers["value"].tolist(), strict=True)
    return frozenset(
        value
        for name, value in pairs
        if value in _GLOBALS and names[name : name + 1] not in (b"", b"\0")
    )


_SIZE_64, _SIZE_32 = 32, 12
_NEAR_STUBS = 32768  # of 64-bit programs; those behind them are laid out in another way
_FIRST_ENTRIES = ((0, 32), (32, 32)), ((0, 48),)  # 64-bit, 32-bit: place, bytes of what is code


# The stubs of a procedure linkage table, by which modules call each other, have no symbols:
# relocations say where they are and which routine each of them calls. SPARC's are code in a
# writable segment. The linker writes each so that it leads to the table's first entries, and these
# to the interpreter's resolver, which replaces the stub by a jump to the routine when it is first
# called (System V psABI for SPARC: "Procedure Linkage Table").
def stub_symbols(image: ElfImage, bias: int, table: Range | None) -> Iterator[Symbol]:
    """Yield a symbol for each stub in `table`, `NAME@plt`, and for its first entries, `plt0`..."""
    if table is None:
        return
    sections, size = image.sections, _SIZE_64 if image.is64 else _SIZE_32
    for number, (place, length) in enumerate(_FIRST_ENTRIES[not image.is64]):
        yield Symbol(f"plt{number}", table.start + place, length, Binding.LOCAL, True)
    for section in sections:
        if section.kind != SHT_RELA or section.link >= len(sections):
            continue
        for address, name in _slots(image, section, sections[section.link]):
            place = address + bias
            if place in table and place - table.start < _NEAR_STUBS * size:
                yield Symbol(f"{name}@plt", place, size, Binding.LOCAL, True)


def _slots(
    image: ElfImage, section: SectionHeader, symbols: SectionHeader
) -> Iterator[tuple[int, str]]:
    if symbols.link >= len(image.sections):
        return
    slots = image.table(section, image.formats.relocation)
    slots = slots[slots["info"] & 0xFF == R_SPARC_JMP_SLOT]
    texts = image.content(image.sections[symbols.link])
    names = image.table(symbols, image.formats.symbol)["name"]
    numbers = (slots["info"] >> (32 if image.is64 else 8)).tolist()
    for address, number in zip(slots["place"].tolist(), numbers, strict=True):
        name = int(names[number]) if number < len(names) else len(texts)
        text = texts[name : texts.find(b"\0", name)]
        if text:
            yield address, text.decode("utf-8", "backslashreplace")
