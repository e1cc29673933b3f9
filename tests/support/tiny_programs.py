"""Programs of assembled code: ELF files of one segment of code and one of data."""

from __future__ import annotations

from collections.abc import Sequence

from simprof.simulator.binary.elf_records import FORMATS_32, FORMATS_64, PF_R, PF_W, PF_X, PT_LOAD
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Item, assemble

TEXT, DATA, DATA_SIZE = 0x100000, 0x204000, 0x1000
_CODE_OFFSET = 0x200
ENTRY = TEXT + _CODE_OFFSET
_NUMBERS = {MachineKind.SPARCV8: 2, MachineKind.SPARCV8PLUS: 18, MachineKind.SPARCV9: 43}


def program_file(machine: MachineKind, items: Sequence[Item]) -> bytes:
    """Return a program whose code is `items`, with zeros at `DATA`; it starts at its beginning."""
    is64 = machine is MachineKind.SPARCV9
    formats = FORMATS_64 if is64 else FORMATS_32
    code = assemble(items, ENTRY).code
    size = _CODE_OFFSET + len(code)
    segments = ((TEXT, size, size, PF_R | PF_X), (DATA, 0, DATA_SIZE, PF_R | PF_W))
    headers = b""
    for address, in_file, in_memory, flags in segments:
        if is64:
            fields = (PT_LOAD, flags, 0, address, address, in_file, in_memory, 0x2000)
        else:
            fields = (PT_LOAD, 0, address, address, in_file, in_memory, flags, 0x2000)
        headers += formats.program_header.pack(*fields)
    head = formats.header.size
    sizes = (head, formats.program_header.size, len(segments), formats.section_header.size, 0, 0)
    header = formats.header.pack(2, _NUMBERS[machine], 1, ENTRY, head, 0, 0, *sizes)
    identity = b"\x7fELF" + bytes([2 if is64 else 1, 2, 1]) + bytes(9)
    return (identity + header[16:] + headers).ljust(_CODE_OFFSET, b"\0") + code
