"""Adds a segment of code to a statically linked program, and changes words of its old code.

Terms: *L* is what the kernel adds to the offset of the program header table for AT_PHDR. Linux
up to 5.17 takes address minus offset of the first PT_LOAD, later ones those of the PT_LOAD that
holds the table, qemu-user the least address minus offset. All three agree with what this module
writes:

- a segment above the program's first one lies at offset address - L of the file, and begins with
  the new table;
- a segment below the first one lies at offset 0, and begins with the ELF header and the new table.
  L is then its address.

Steps
-----
1. `find_room`: an address, within reach of branches from all of the old code.
2. `_place`: where in the file each segment lies. They come in the order of their addresses, each at
   the first offset behind the one before it that agrees with its address, modulo its alignment or
   at least modulo a page; so none is less than L below its address.
3. `_sections`, `_symbols`: new tables, where the file has sections. The old tables, and whatever
   else is no part of a segment, follow: what a program carries at its end is still at its end.

Nothing of what the program needs of its headers (PT_TLS, PT_GNU_STACK, notes) is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace

from simulator.binary.elf_format import (
    PF_R,
    PF_X,
    PT_LOAD,
    PT_PHDR,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_PROGBITS,
    SHT_SYMTAB,
    STT_FUNC,
)
from simulator.binary.elf_image import (
    ElfImage,
    ProgramHeader,
    SectionHeader,
    pack_header,
    pack_program_header,
    pack_section,
    pack_symbol,
    read_image,
)
from simulator.binary.program import Program
from simulator.errors import RewritingError

PAGE = 8192
"""Alignment of the new segment: the page of SPARC Linux."""

HEADER_ROOM = 1024
"""Bytes at the beginning of the new segment that headers take; code starts behind them."""

LOWEST = 0x10000
"""Below this Linux maps nothing (`vm.mmap_min_addr`)."""

SECTION = b".simprof.text"
"""Name of the new segment's section."""

_MARK = SECTION + b"\0\0\0"  # at the end of the headers' room: files need have no sections
_REACH = 1 << 23  # bytes that a branch with 22 bits of words reaches
_TABLE_ALIGNMENT = 16
_GLOBAL = 1 << 4  # binding of a symbol, in `st_info`


def find_room(program: Program, size: int) -> int | None:
    """Return where a segment of `size` bytes can lie; the lowest such address.

    All of it is within reach of a branch (disp22) from all of the program's code. Below the first
    segment it begins at 0x10000 or higher; a position-independent program has no room there.

    Returns
    -------
    int or None
        A multiple of `PAGE`, or None where nothing is in reach.
    """
    room = -(-size // PAGE) * PAGE
    spans = [*program.code, *program.late_code]
    lowest = max(span.end for span in spans) - _REACH
    highest = min(span.start for span in spans) + _REACH
    pages = [
        (s.address // PAGE * PAGE, -(-(s.address + s.memory_size) // PAGE) * PAGE)
        for s in program.segments
    ]
    start = pages[0][0] if program.load_bias else LOWEST
    for low, high in [*pages, (highest, highest)]:
        start = max(start, -(-lowest // PAGE) * PAGE)
        if start + room <= min(low, highest):
            return start
        start = max(start, high)
    return None


def extend(
    original: bytes,
    program: Program,
    patches: Mapping[int, int],
    address: int,
    data: bytes,
    entry: int,
    symbols: Mapping[str, int] | None = None,
) -> bytes:
    """Return the file of `program` with changed words and one more segment.

    Parameters
    ----------
    original
        The file that `program` was loaded from.
    patches
        Address -> 32-bit word that the file shall give there.
    address
        Of the new segment, a multiple of `PAGE` (`find_room`).
    data
        The new segment from `address` on; its first `HEADER_ROOM` bytes are overwritten. It can be
        read and executed, not written.
    entry
        Where the program shall start.
    symbols
        Name -> address of places in the new segment. A stripped file stays stripped.

    All addresses have the load bias added, as those of `program`.

    Raises
    ------
    RewritingError
        The program has been extended before, or cannot be.
    """
    image = read_image(original)
    name = program.path
    if is_extended(original):
        raise RewritingError(f"{name}: is already instrumented; give the original program")
    bias = program.load_bias
    image = replace(image, data=_patched(image, {a - bias: w for a, w in patches.items()}, name))
    layout = _place(image, address - bias, len(data), name)
    return _write(image, layout, data, entry - bias, bias, symbols or {})


def is_extended(original: bytes) -> bool:
    """Whether a program was made by `extend`; stripping it changes nothing about that."""
    image = read_image(original)
    starts = [p.offset + HEADER_ROOM - len(_MARK) for p in image.segments if p.flags & PF_X]
    return any(original[start : start + len(_MARK)] == _MARK for start in starts) or any(
        image.section_name(section) == SECTION for section in image.sections
    )


def _patched(image: ElfImage, patches: Mapping[int, int], name: object) -> bytes:
    data = bytearray(image.data)
    segments = image.segments
    starts = [p.address for p in segments]
    for address, word in patches.items():
        place = segments[max(bisect_right(starts, address) - 1, 0)]
        inside = address - place.address
        if address % 4 or not 0 <= inside <= place.file_size - 4:
            raise RewritingError(f"{name}: has no word at {address:#x} that could be changed")
        data[place.offset + inside : place.offset + inside + 4] = word.to_bytes(4, "big")
    return bytes(data)


@dataclass(frozen=True)
class _Layout:
    """Where in the new file things lie.

    `headers` is the new table, with the new segment; `moves` gives (old offset, size, new offset)
    of what is copied; from `end` on the file is free.
    """

    new: ProgramHeader
    headers: tuple[ProgramHeader, ...]
    moves: tuple[tuple[int, int, int], ...]
    end: int

    def moved(self, offset: int, size: int) -> int | None:
        """Return where a range of the old file lies now, None where it was in no segment."""
        for old, length, new in self.moves:
            if old <= offset and offset + size <= old + length:
                return new + offset - old
        return None


def _place(image: ElfImage, address: int, size: int, name: object) -> _Layout:
    """Choose every segment's offset (step 2)."""
    segments = image.segments
    first = segments[0]
    below = address < first.address
    base = address if below else first.address - first.offset
    table = image.formats.header.size if below else 0
    count = len(image.program_headers) + 1
    if table + count * image.formats.program_header.size > HEADER_ROOM - len(_MARK):
        raise RewritingError(f"{name}: has {count - 1} program headers, too many to add one")
    new = ProgramHeader(PT_LOAD, PF_R | PF_X, 0, address, address, size, size, PAGE)
    placed: dict[ProgramHeader, ProgramHeader] = {}
    end = 0 if below else first.offset
    for segment in sorted([*segments, new], key=lambda p: p.address):
        if segment is first and not below:
            moved = segment
        elif segment is new:
            moved = replace(new, offset=address - base)
        else:
            moved = _behind(segment, end, base)
        if moved.offset < end or moved.offset % PAGE != moved.address % PAGE:
            raise RewritingError(f"{name}: its segments leave no place for another one")
        placed[segment] = moved
        end = max(end, moved.offset + moved.file_size)
    moves = tuple(
        (old.offset, old.file_size, placed[old].offset) for old in segments if old.file_size
    )
    layout = _Layout(placed[new], (), moves, end)
    return replace(layout, headers=_table(image, layout, placed, count))


def _behind(segment: ProgramHeader, end: int, base: int) -> ProgramHeader:
    """Return `segment` at the first fitting offset from `end` on."""
    for alignment in (max(segment.alignment, PAGE), PAGE):
        offset = end + (segment.address - end) % alignment
        if offset <= segment.address - base:
            break
    return replace(segment, offset=offset, alignment=min(segment.alignment, alignment))


def _table(
    image: ElfImage, layout: _Layout, placed: Mapping[ProgramHeader, ProgramHeader], count: int
) -> tuple[ProgramHeader, ...]:
    """Return the new table: PT_LOADs by address where the old ones stood, the others as before."""
    loads = iter(sorted(placed.values(), key=lambda p: p.address))
    table: list[ProgramHeader] = []
    for old in image.program_headers:
        if old in placed:
            table.append(next(loads))
        else:
            offset = layout.moved(old.offset, old.file_size) if old.file_size else None
            table.append(old if offset is None else replace(old, offset=offset))
    last = max(k for k, old in enumerate(image.program_headers) if old in placed)
    table[last + 1 : last + 1] = loads
    below = layout.new.offset == 0
    start = image.formats.header.size if below else 0
    size = count * image.formats.program_header.size
    place = layout.new.address + start
    return tuple(
        replace(
            p, offset=layout.new.offset + start, address=place, physical=place,
            file_size=size, memory_size=size,
        )
        if p.kind == PT_PHDR
        else p
        for p in table
    )  # fmt: skip


def _write(
    image: ElfImage,
    layout: _Layout,
    data: bytes,
    entry: int,
    bias: int,
    symbols: Mapping[str, int],
) -> bytes:
    """Put the file together (step 3)."""
    output = bytearray(layout.end)
    for old, size, new in layout.moves:
        output[new : new + size] = image.data[old : old + size]
    start = layout.new.offset
    output[start : start + len(data)] = data
    table = b"".join(pack_program_header(image, p) for p in layout.headers)
    head = image.formats.header.size if start == 0 else 0
    room = bytes(head) + table
    output[start : start + HEADER_ROOM] = room.ljust(HEADER_ROOM - len(_MARK), b"\0") + _MARK
    header = replace(
        image.header,
        entry=entry,
        program_headers=start + head,
        program_header_count=len(layout.headers),
    )
    tail = max(p.offset + p.file_size for p in image.segments if p.file_size)
    if image.sections:
        names = {name: place - bias for name, place in symbols.items()}
        sections = _sections(image, layout, output, tail, names)
        header = replace(header, section_count=len(sections))
        packed = b"".join(pack_section(image, section) for section in sections)
        header = replace(header, sections=_append(output, packed))
    output.extend(bytes(_gap(len(output), tail)))
    output.extend(image.data[tail:])
    packed = pack_header(replace(image, header=header))
    output[: len(packed)] = packed
    return bytes(output)


def _gap(end: int, offset: int) -> int:
    """Return the bytes from `end` to a place that agrees with `offset` in its alignment."""
    return (offset - end) % _TABLE_ALIGNMENT


def _append(output: bytearray, data: bytes) -> int:
    """Append at a multiple of `_TABLE_ALIGNMENT`; return the offset."""
    output.extend(bytes(_gap(len(output), 0)))
    offset = len(output)
    output.extend(data)
    return offset


def _sections(
    image: ElfImage, layout: _Layout, output: bytearray, tail: int, symbols: Mapping[str, int]
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
            place = _append(output, content)
            section = replace(section, size=len(content))
        sections[index] = replace(section, offset=place)
    table = (len(sections) + 1) * image.formats.section_header.size
    end = len(output) + _gap(len(output), 0) + table
    shift = end + _gap(end, tail) - tail
    for index in later:
        sections[index] = replace(sections[index], offset=sections[index].offset + shift)
    label = 0
    if 0 < image.header.names < len(sections):
        label = sections[image.header.names].size - len(SECTION) - 1
    return [*sections, _new_section(layout, label)]


def _new_section(layout: _Layout, label: int) -> SectionHeader:
    new = layout.new
    flags = SHF_ALLOC | SHF_EXECINSTR
    return SectionHeader(
        label, SHT_PROGBITS, flags, new.address + HEADER_ROOM, new.offset + HEADER_ROOM,
        new.file_size - HEADER_ROOM, 0, 0, 8, 0,
    )  # fmt: skip


def _longer(image: ElfImage, layout: _Layout, symbols: Mapping[str, int]) -> dict[int, bytes]:
    """Return what is appended to sections: symbols, their names, and the new section's name."""
    longer: dict[int, bytes] = {}
    for index, section in enumerate(image.sections):
        if section.kind == SHT_SYMTAB and section.link < len(image.sections) and symbols:
            start = image.sections[section.link].size
            longer[index], longer[section.link] = _symbols(image, layout, symbols, start)
            break
    names = image.header.names
    if 0 < names < len(image.sections):
        longer[names] = longer.get(names, b"") + SECTION + b"\0"
    return longer


def _symbols(
    image: ElfImage, layout: _Layout, symbols: Mapping[str, int], start: int
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
