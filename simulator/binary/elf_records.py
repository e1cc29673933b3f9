"""Records of ELF files: `struct` formats, numbers, and headers that are changed and written again.

The layout is that of the System V gABI and the SPARC psABI supplements.
"""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import Struct

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_PHDR, PT_GNU_STACK = 1, 2, 3, 6, 0x6474E551
PF_X, PF_W, PF_R = 1, 2, 4
SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_DYNSYM = 1, 2, 4, 8, 11
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
R_SPARC_JMP_SLOT = 21
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC, STT_REGISTER = 0, 1, 2, 10, 13


class RecordFormats(Struct, frozen=True):
    """`struct` formats of one ELF class; the order of fields differs between the classes."""

    header: struct.Struct
    program_header: struct.Struct
    section_header: struct.Struct
    symbol: struct.Struct
    dynamic: struct.Struct
    relocation: struct.Struct
    symbol_info: int  # offset of a symbol's type in its record, in bytes
    # (name, info, section, value, size) of a symbol, of its fields in the file's order
    symbol_fields: Any


def _formats(records: str, symbol_info: int, symbol_fields: Any) -> RecordFormats:
    header, program, section, symbol, dynamic, relocation = map(struct.Struct, records.split())
    return RecordFormats(
        header, program, section, symbol, dynamic, relocation, symbol_info, symbol_fields
    )


FORMATS_64 = _formats(
    ">16xHHIQQQIHHHHHH >IIQQQQQQ >IIQQQQIIQQ >IBBHQQ >qQ >QQq", 4, itemgetter(0, 1, 3, 4, 5)
)
FORMATS_32 = _formats(
    ">16xHHIIIIIHHHHHH >IIIIIIII >IIIIIIIIII >IIIBBH >iI >IIi", 12, itemgetter(0, 3, 5, 1, 2)
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


def pack_symbol(
    image: ElfImage, name: int, info: int, section: int, value: int, size: int
) -> bytes:
    """Return a symbol's bytes."""
    if image.is64:
        return image.formats.symbol.pack(name, info, 0, section, value, size)
    return image.formats.symbol.pack(name, value, size, info, 0, section)
