"""Symbols of two special kinds: named global registers, and stubs between modules."""

from __future__ import annotations

from collections.abc import Iterator

from simprof.simulator.binary import elf_records as records
from simprof.simulator.binary.elf_records import ElfImage, RecordFormats, SectionHeader
from simprof.simulator.binary.program import Binding, Range, Symbol

_GLOBALS = range(1, 8)


# The 64-bit ABI has symbols for %g2, %g3, %g6 and %g7: of type STT_REGISTER, with the register's
# number as their value. One with a name (`.register %g2, counter`) says that the program keeps
# something there; one without (`.register %g2, #scratch`) that some routine uses it as scratch.
def named_registers(formats: RecordFormats, table: bytes, names: bytes) -> frozenset[int]:
    """Return the numbers of the global registers that a symbol table, with its strings, names."""
    record, place = formats.symbol, formats.symbol_info
    kinds = table[place :: record.size].translate(_KINDS)
    found = set()
    number = -1
    while (number := kinds.find(records.STT_REGISTER, number + 1)) >= 0:
        if len(table) < (number + 1) * record.size:
            break
        fields = record.unpack_from(table, number * record.size)
        name, _, _, value, _ = formats.symbol_fields(fields)
        if value in _GLOBALS and names[name : name + 1] not in (b"", b"\0"):
            found.add(value)
    return frozenset(found)


_KINDS = bytes(info & 15 for info in range(256))  # of what symbols say, their types
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
        if section.kind != records.SHT_RELA or section.link >= len(sections):
            continue
        for address, name in _slots(image, section, sections[section.link]):
            place = address + bias
            if place in table and place - table.start < _NEAR_STUBS * size:
                yield Symbol(f"{name}@plt", place, size, Binding.LOCAL, True)


def _slots(
    image: ElfImage, section: SectionHeader, symbols: SectionHeader
) -> Iterator[tuple[int, str]]:
    record, formats, data = image.formats.relocation, image.formats, image.data
    view = memoryview(data)[section.offset :][: section.size // record.size * record.size]
    if symbols.link >= len(image.sections):
        return
    texts = image.content(image.sections[symbols.link])
    for address, information, _ in record.iter_unpack(view):
        number = information >> (32 if image.is64 else 8)
        at = symbols.offset + number * formats.symbol.size
        if information & 0xFF != records.R_SPARC_JMP_SLOT or at + formats.symbol.size > len(data):
            continue
        name = formats.symbol.unpack_from(data, at)[0]
        text = texts[name : texts.find(b"\0", name)]
        if text:
            yield address, text.decode("utf-8", "backslashreplace")
