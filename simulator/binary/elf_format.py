"""The records of ELF files, as `struct` formats, and the numbers in them.

The layout is that of the System V gABI and the SPARC psABI supplements.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_PHDR, PT_GNU_STACK = 1, 2, 3, 6, 0x6474E551
PF_X, PF_W, PF_R = 1, 2, 4
SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_DYNSYM = 1, 2, 4, 8, 11
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
R_SPARC_JMP_SLOT = 21
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC, STT_REGISTER = 0, 1, 2, 10, 13


@dataclass(frozen=True)
class RecordFormats:
    """`struct` formats of one ELF class; the order of fields differs between the classes.

    In a symbol's record, `symbol_info` is the offset of its type in bytes, and `symbol_value` the
    position of its value among the fields.
    """

    header: struct.Struct
    program_header: struct.Struct
    section_header: struct.Struct
    symbol: struct.Struct
    dynamic: struct.Struct
    relocation: struct.Struct
    symbol_info: int
    symbol_value: int


FORMATS_64 = RecordFormats(
    struct.Struct(">16xHHIQQQIHHHHHH"),
    struct.Struct(">IIQQQQQQ"),
    struct.Struct(">IIQQQQIIQQ"),
    struct.Struct(">IBBHQQ"),
    struct.Struct(">qQ"),
    struct.Struct(">QQq"),
    symbol_info=4,
    symbol_value=4,
)
FORMATS_32 = RecordFormats(
    struct.Struct(">16xHHIIIIIHHHHHH"),
    struct.Struct(">IIIIIIII"),
    struct.Struct(">IIIIIIIIII"),
    struct.Struct(">IIIBBH"),
    struct.Struct(">iI"),
    struct.Struct(">IIi"),
    symbol_info=12,
    symbol_value=1,
)
