"""Section headers of an extended program, and what its sections have more (see `elf_writer`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from simprof.simulator.binary.elf_format import (
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHT_NOBITS,
    SHT_PROGBITS,
    SHT_SYMTAB,
    STT_FUNC,
)
from simprof.simulator.binary.elf_image import ElfImage, SectionHeader, pack_symbol
from simprof.simulator.binary.elf_layout import HEADER_ROOM, HEAP_SECTION, SECTION, Layout

_TABLE_ALIGNMENT = 16
_NAMES = SECTION + b"\0" + HEAP_SECTION + b"\0"
_GLOBAL = 1 << 4  # binding of a symbol, in `st_info`


def gap(end: int, offset: int) -> int:
    """Return the bytes from `end` to a place that agrees with `offset` in its alignment."""
    return (offset - end) % _TABLE_ALIGNMENT


def append(output: bytearray, data: bytes) -> int:
    """Append at a multiple of `_TABLE_ALIGNMENT`; return the offset."""
    output.extend(bytes(gap(len(output), 0)))
    offset = len(output)
    output.extend(data)
    return offset


def section_headers(
    image: ElfImage, layout: Layout, output: bytearray, tail: int, symbols: Mapping[str, int]
) -> list[SectionHeader]:
    """Return the new section headers, and append what their sections need.

    Their table is expected at the end of `output`, and what stood from `tail` on behind that.
    """
    longer = _longer(image, layout, symbols)
    sections = list(image.sections)
    later = []
    for index, section in enumerate(image.sections):
        if not section.in_file:
            continue
        place = layout.moved(section.offset, section.size)
        if index not in longer and place is None and section.offset >= tail:
            later.append(index)
            continue
        if place is None:
            content = image.content(section) + longer.get(index, b"")
            place = append(output, content)
            section = replace(section, size=len(content))
        sections[index] = replace(section, offset=place)
    table = (len(sections) + (1 if layout.heap is None else 2)) * image.formats.section_header.size
    end = len(output) + gap(len(output), 0) + table
    shift = end + gap(end, tail) - tail
    for index in later:
        sections[index] = replace(sections[index], offset=sections[index].offset + shift)
    label, behind = 0, 0
    if 0 < image.header.names < len(sections):
        label = sections[image.header.names].size - len(_NAMES)
        behind = label + len(SECTION) + 1
    return [*sections, *_new_sections(layout, label, behind)]


def _new_sections(layout: Layout, label: int, behind: int) -> Iterator[SectionHeader]:
    """Yield those of the new segments, given where their names stand."""
    new, heap = layout.new, layout.heap
    yield SectionHeader(
        label, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, new.address + HEADER_ROOM,
        new.offset + HEADER_ROOM, new.file_size - HEADER_ROOM, 0, 0, 8, 0,
    )  # fmt: skip
    if heap is not None:
        flags = SHF_ALLOC | SHF_WRITE
        size = heap.memory_size
        yield SectionHeader(behind, SHT_NOBITS, flags, heap.address, 0, size, 0, 0, 8, 0)


def _longer(image: ElfImage, layout: Layout, symbols: Mapping[str, int]) -> dict[int, bytes]:
    """Return what is appended to sections: symbols, their names, and the new sections' names."""
    longer: dict[int, bytes] = {}
    for index, section in enumerate(image.sections):
        if section.kind == SHT_SYMTAB and section.link < len(image.sections) and symbols:
            start = image.sections[section.link].size
            longer[index], longer[section.link] = _symbols(image, layout, symbols, start)
            break
    names = image.header.names
    if 0 < names < len(image.sections):
        longer[names] = longer.get(names, b"") + _NAMES
    return longer


def _symbols(
    image: ElfImage, layout: Layout, symbols: Mapping[str, int], start: int
) -> tuple[bytes, bytes]:
    """Return symbol table entries and their names, which will stand at `start` of their table.

    Each reaches to the next one. They are global, because local ones come first in a table.
    """
    order = sorted(symbols.items(), key=lambda item: (item[1], item[0]))
    end = layout.new.address + layout.new.file_size
    ends = [place for _, place in order[1:]] + [end]
    records, names = bytearray(), bytearray()
    for (name, place), stop in zip(order, ends, strict=True):
        where = start + len(names)
        section = len(image.sections)
        records += pack_symbol(image, where, _GLOBAL | STT_FUNC, section, place, stop - place)
        names += name.encode() + b"\0"
    return bytes(records), bytes(names)
