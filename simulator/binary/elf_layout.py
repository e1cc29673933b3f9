"""Where the segments of an extended program lie in its file (see `elf_writer`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simprof.simulator.binary.elf_format import PF_R, PF_W, PF_X, PT_LOAD, PT_PHDR
from simprof.simulator.binary.elf_image import ElfImage, ProgramHeader
from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.errors import RewritingError

"""Alignment of the new segment: the page of SPARC Linux."""

HEADER_ROOM = 1024
"""Bytes at the beginning of the new segment that headers take; code starts behind them."""

SECTION = b".simprof.text"
"""Name of the new segment's section."""

HEAP_SECTION = b".simprof.heap"
"""Name of the section that ends where the heap begins."""

MARK = SECTION + b"\0\0\0"
"""Ends the room of the headers: a program without sections is known by it."""


@dataclass(frozen=True)
class Layout:
    """Where in the new file things lie.

    `headers` is the new table, with the new segments; `moves` gives (old offset, size, new offset)
    of what is copied; from `end` on the file is free. Behind `heap`, a page that has nothing in the
    file, the heap begins; None: it begins behind the last of the other segments.
    """

    new: ProgramHeader
    heap: ProgramHeader | None
    headers: tuple[ProgramHeader, ...]
    moves: tuple[tuple[int, int, int], ...]
    end: int

    def moved(self, offset: int, size: int) -> int | None:
        """Return where a range of the old file lies now, None where it was in no segment."""
        for old, length, new in self.moves:
            if old <= offset and offset + size <= old + length:
                return new + offset - old
        return None


def place(
    image: ElfImage, address: int, size: int, name: object, heap: int | None = None
) -> Layout:
    """Choose every segment's offset (step 2); `heap`: where the heap shall begin.

    Raises
    ------
    RewritingError
        There is no room for the new segment or its header; `name` is the program's.
    """
    segments = image.segments
    if (
        address % PAGE_SIZE
        or any(_share_pages(address, size, segment) for segment in segments)
        or size < HEADER_ROOM
    ):
        raise RewritingError(f"{name}: has no room for {size} bytes at {address:#x}")
    first = segments[0]
    below = address < first.address
    start = _start_of_first(image, first)
    base = address if below else first.address - start
    table = image.formats.header.size if below else 0
    count = len(image.program_headers) + 1 + (heap is not None)
    if table + count * image.formats.program_header.size > HEADER_ROOM - len(MARK):
        raise RewritingError(
            f"{name}: has {len(image.program_headers)} program headers, too many to add one"
        )
    new = ProgramHeader(PT_LOAD, PF_R | PF_X, 0, address, address, size, size, PAGE_SIZE)
    placed: dict[ProgramHeader, ProgramHeader] = {}
    end = 0 if below else start
    for segment in sorted([*segments, new], key=lambda p: p.address):
        if segment is first and not below:
            moved = _at(segment, start)
        elif segment is new:
            moved = replace(new, offset=address - base)
        else:
            moved = _behind(segment, end, base)
        distance = moved.address - moved.offset
        fits = base <= distance and distance % PAGE_SIZE == 0
        if moved.offset < end or not fits:
            raise RewritingError(f"{name}: its segments leave no place for another one")
        placed[segment] = moved
        end = max(end, moved.offset + moved.file_size)
    moves = tuple(
        (old.offset, old.file_size, placed[old].offset) for old in segments if old.file_size
    )
    page = None
    if heap is not None:
        start = heap - PAGE_SIZE
        page = ProgramHeader(PT_LOAD, PF_R | PF_W, 0, start, start, 0, PAGE_SIZE, PAGE_SIZE)
    layout = Layout(placed[new], page, (), moves, end)
    return replace(layout, headers=_table(image, layout, placed, count))


def _share_pages(address: int, size: int, segment: ProgramHeader) -> bool:
    start = segment.address // PAGE_SIZE * PAGE_SIZE
    return address < segment.address + segment.memory_size and start < address + size


def _start_of_first(image: ElfImage, first: ProgramHeader) -> int:
    """Return the offset of the first segment where it stays the first one.

    A segment that has the file's header goes on with that which it had: it is moved behind the new
    header, unless the program begins at address 0, because it is position-independent.
    """
    head = image.formats.header.size
    behind = head + (first.address - head) % PAGE_SIZE
    return behind if first.offset < head and behind <= first.address else first.offset


def _at(segment: ProgramHeader, offset: int) -> ProgramHeader:
    """Return `segment` at another offset, aligned as they agree."""
    agrees = (segment.address - offset) % max(segment.alignment, 1) == 0
    alignment = segment.alignment if agrees else PAGE_SIZE
    return replace(segment, offset=offset, alignment=alignment)


def _behind(segment: ProgramHeader, end: int, base: int) -> ProgramHeader:
    """Return `segment` at the first fitting offset from `end` on."""
    for alignment in (max(segment.alignment, PAGE_SIZE), PAGE_SIZE):
        offset = end + (segment.address - end) % alignment
        if offset <= segment.address - base:
            break
    return _at(segment, offset)


def _table(
    image: ElfImage, layout: Layout, placed: Mapping[ProgramHeader, ProgramHeader], count: int
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
    table[last + 1 : last + 1] = [*loads, *([] if layout.heap is None else [layout.heap])]
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
