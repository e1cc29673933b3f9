"""Extended programs: a segment of code added to a static program, words of its old code changed.

1. `find_room`: an address, within reach of branches from all of the old code.
2. `place`: where in the file each segment lies.
3. `section_headers`: new tables, where the file has sections.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from simprof.simulator.binary import elf_records as records
from simprof.simulator.binary.elf_records import ElfImage, ProgramHeader, SectionHeader, read_image
from simprof.simulator.binary.program import PAGE_SIZE, Program, page_up
from simprof.simulator.errors import RewritingError

# Bytes at the beginning of the new segment that headers take; code starts behind them.
HEADER_ROOM = 1024

SECTION = b".simprof.text"  # name of the new segment's section

HEAP_SECTION = b".simprof.heap"  # name of the section that ends where the heap begins

# Ends the room of the headers: a program without sections is known by it.
MARK = SECTION + b"\0\0\0"


class FileLayout(Struct, frozen=True):
    """Where in the new file things lie."""

    new: ProgramHeader
    # A page that has nothing in the file: the heap begins behind it. None: behind the last segment.
    heap: ProgramHeader | None
    headers: tuple[ProgramHeader, ...]  # the new table, with the new segments
    moves: tuple[tuple[int, int, int], ...]  # (old offset, size, new offset) of what is copied
    end: int  # from here on the file is free

    def moved(self, offset: int, size: int) -> int | None:
        """Return where a range of the old file lies now, None where it was in no segment."""
        for old, length, new in self.moves:
            if old <= offset and offset + size <= old + length:
                return new + offset - old
        return None


# The new segment begins with a new program header table, which the kernel reads. Its address is in
# AT_PHDR by the rules of Linux: offset plus address minus offset of the first PT_LOAD (up to 5.17)
# or of that which holds the table. qemu-user adds the offset to the lowest address of a segment;
# that is the same where the lowest segment lies at offset 0: for new segments below the program's
# first one, and for position-independent programs. In the others the first segment, which has the
# old header, is moved behind the new header, so that its memory holds what it held; there the new
# start should put into AT_PHDR what it was, as instrumented programs do.
#
# Segments come in the order of their addresses, each at the first offset behind the one before it
# that agrees with its address, modulo its alignment or at least modulo a page; so no address minus
# offset is less than the first one's.
#
# Nothing of what the program needs of its headers (PT_TLS, PT_GNU_STACK, notes) is lost. In memory
# its old segments hold what they held, changed words aside: also the old header and table, which
# some C libraries read there. (Only position-independent programs find the new header in their
# memory.)
def place(
    image: ElfImage, address: int, size: int, name: object, heap: int | None = None
) -> FileLayout:
    """Choose every segment's offset (step 2); `heap`: where the heap shall begin.

    Raises `RewritingError`, which has the program's `name`, where there is no room for the new
    segment or its header.
    """
    segments = image.segments
    pages = [(p.address // PAGE_SIZE * PAGE_SIZE, p.address + p.memory_size) for p in segments]
    is_taken = any(address < end and start < address + size for start, end in pages)
    if address % PAGE_SIZE or is_taken or size < HEADER_ROOM:
        raise RewritingError(f"{name}: has no room for {size} bytes at {address:#x}")
    first = segments[0]
    below = address < first.address
    # A segment that has the file's header goes on with that which it had: it is moved behind the
    # new header, unless the program begins at address 0, because it is position-independent.
    head = image.formats.header.size
    start = head + (first.address - head) % PAGE_SIZE
    if first.offset >= head or start > first.address:
        start = first.offset
    base = address if below else first.address - start
    count = len(image.program_headers) + 1 + (heap is not None)
    if (head if below else 0) + count * image.formats.program_header.size > HEADER_ROOM - len(MARK):
        raise RewritingError(
            f"{name}: has {len(image.program_headers)} program headers, too many to add one"
        )
    new = ProgramHeader(
        records.PT_LOAD, records.PF_R | records.PF_X, 0, address, address, size, size, PAGE_SIZE
    )
    placed: dict[ProgramHeader, ProgramHeader] = {}
    end = 0 if below else start
    for segment in sorted([*segments, new], key=lambda p: p.address):
        if segment is first and not below:
            moved = _at(segment, start)
        elif segment is new:
            moved = new._replace(offset=address - base)
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
        rights = records.PF_R | records.PF_W
        page = ProgramHeader(records.PT_LOAD, rights, 0, start, start, 0, PAGE_SIZE, PAGE_SIZE)
    layout = FileLayout(placed[new], page, (), moves, end)
    return replace(layout, headers=_table(image, layout, placed, count))


def _at(segment: ProgramHeader, offset: int) -> ProgramHeader:
    agrees = (segment.address - offset) % max(segment.alignment, 1) == 0
    alignment = segment.alignment if agrees else PAGE_SIZE
    return segment._replace(offset=offset, alignment=alignment)


def _behind(segment: ProgramHeader, end: int, base: int) -> ProgramHeader:
    for alignment in (max(segment.alignment, PAGE_SIZE), PAGE_SIZE):
        offset = end + (segment.address - end) % alignment
        if offset <= segment.address - base:
            break
    return _at(segment, offset)


def _table(
    image: ElfImage, layout: FileLayout, placed: Mapping[ProgramHeader, ProgramHeader], count: int
) -> tuple[ProgramHeader, ...]:
    """Return the new table: PT_LOADs by address where the old ones stood, the others as before."""
    loads = iter(sorted(placed.values(), key=lambda p: p.address))
    table: list[ProgramHeader] = []
    for old in image.program_headers:
        if old in placed:
            table.append(next(loads))
        else:
            offset = layout.moved(old.offset, old.file_size) if old.file_size else None
            table.append(old if offset is None else old._replace(offset=offset))
    last = max(k for k, old in enumerate(image.program_headers) if old in placed)
    table[last + 1 : last + 1] = [*loads, *([] if layout.heap is None else [layout.heap])]
    start = image.formats.header.size if layout.new.offset == 0 else 0
    size, place = count * image.formats.program_header.size, layout.new.address + start
    moved = (layout.new.offset + start, place, place, size, size)
    return tuple(
        ProgramHeader(p.kind, p.flags, *moved, p.alignment) if p.kind == records.PT_PHDR else p
        for p in table
    )


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
    image: ElfImage, layout: FileLayout, output: bytearray, tail: int, symbols: Mapping[str, int]
) -> list[SectionHeader]:
    """Return the new section headers, and append what their sections need."""
    # The old tables, and whatever else is no part of a segment, follow: what a program carries at
    # its end is still at its end.
    # Their table is expected at the end of `output`, and what stood from `tail` on behind that.
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
            section = section._replace(size=len(content))
        sections[index] = section._replace(offset=place)
    table = (len(sections) + (1 if layout.heap is None else 2)) * image.formats.section_header.size
    end = len(output) + gap(len(output), 0) + table
    shift = end + gap(end, tail) - tail
    for index in later:
        sections[index] = sections[index]._replace(offset=sections[index].offset + shift)
    label, behind = 0, 0
    if 0 < image.header.names < len(sections):
        label = sections[image.header.names].size - len(_NAMES)
        behind = label + len(SECTION) + 1
    return [*sections, *_new_sections(layout, label, behind)]


def _new_sections(layout: FileLayout, label: int, behind: int) -> Iterator[SectionHeader]:
    new, heap = layout.new, layout.heap
    flags = records.SHF_ALLOC | records.SHF_EXECINSTR
    places = (new.address + HEADER_ROOM, new.offset + HEADER_ROOM, new.file_size - HEADER_ROOM)
    yield SectionHeader(label, records.SHT_PROGBITS, flags, *places, 0, 0, 8, 0)
    if heap is not None:
        flags, places = records.SHF_ALLOC | records.SHF_WRITE, (heap.address, 0, heap.memory_size)
        yield SectionHeader(behind, records.SHT_NOBITS, flags, *places, 0, 0, 8, 0)


def _longer(image: ElfImage, layout: FileLayout, symbols: Mapping[str, int]) -> dict[int, bytes]:
    longer: dict[int, bytes] = {}
    for index, section in enumerate(image.sections):
        if section.kind == records.SHT_SYMTAB and section.link < len(image.sections) and symbols:
            start = image.sections[section.link].size
            longer[index], longer[section.link] = _symbols(image, layout, symbols, start)
            break
    names = image.header.names
    if 0 < names < len(image.sections):
        longer[names] = longer.get(names, b"") + _NAMES
    return longer


def _symbols(
    image: ElfImage, layout: FileLayout, symbols: Mapping[str, int], start: int
) -> tuple[bytes, bytes]:
    """Return symbol table entries and their names, which will stand at `start` of their table."""
    # Each reaches to the next one. They are global, because local ones come first in a table.
    order = sorted(symbols.items(), key=lambda item: (item[1], item[0]))
    ends = [*(place for _, place in order[1:]), layout.new.address + layout.new.file_size]
    table, names = bytearray(), bytearray()
    info, section = _GLOBAL | records.STT_FUNC, len(image.sections)
    for (name, place), stop in zip(order, ends, strict=True):
        where = start + len(names)
        fields = {"info": info, "section": section, "value": place, "size": stop - place}
        table += records.pack_symbol(image, name=where, **fields)
        names += name.encode() + b"\0"
    return bytes(table), bytes(names)


LOWEST = 0x10000  # below this Linux maps nothing (`vm.mmap_min_addr`)

_REACH = 1 << 23  # bytes that a branch with 22 bits of words reaches
_ADDRESSES = 1 << 32  # bytes that a program's segments and its heap can lie in


def find_room(program: Program, size: int) -> int | None:
    """Return the lowest address where a segment of `size` bytes can lie, a multiple of `PAGE_SIZE`.

    All of it is within reach of a branch (disp22) from all of the program's code; None: nothing is.
    """
    # Below the first segment it begins at `LOWEST` or higher; a position-independent program has no
    # room there.
    room = page_up(size)
    spans = [*program.code, *program.late_code]
    lowest = max(span.end for span in spans) - _REACH
    highest = min(span.start for span in spans) + _REACH
    pages = [
        (s.address // PAGE_SIZE * PAGE_SIZE, page_up(s.address + s.memory_size))
        for s in program.segments
    ]
    start = pages[0][0] if program.load_bias else LOWEST
    for low, high in [*pages, (highest, highest)]:
        start = max(start, page_up(lowest))
        if start + room <= min(low, highest):
            return start
        start = max(start, high)
    return None


# The heap of a program begins behind its last segment, wherever the code of a new one is; so an
# extended program can say where: a page that has nothing in the file ends there. It begins behind
# whatever `find_room` returns.
def heap_start(program: Program) -> int | None:
    """Return where the heap of all extended programs begins; None where no address is left."""
    # It depends on nothing but `program`: a run of the original whose heap begins there, too, does
    # what those of extended programs do, even where the program acts by addresses.
    end = max(s.address + s.memory_size for s in program.segments)
    start = page_up(end + _REACH)
    return start if start + _REACH <= _ADDRESSES and not program.load_bias else None


def extend(
    original: bytes,  # the file that `program` was loaded from
    program: Program,
    patches: Mapping[int, int],  # address -> 32-bit word that the file shall give there
    address: int,  # of the new segment, a multiple of `PAGE_SIZE` (`find_room`)
    # The new segment from `address` on; its first `HEADER_ROOM` bytes are overwritten. It can be
    # read and executed, not written.
    data: bytes,
    entry: int,  # where the program shall start
    # Name -> address of places in the new segment. A stripped file stays stripped.
    symbols: Mapping[str, int] | None = None,
    # Where the heap shall begin, behind all segments (`heap_start`); None: behind the last one.
    heap: int | None = None,
) -> bytes:
    """Return `program`'s file with changed words and one more segment; raises `RewritingError`."""
    image = read_image(original)
    name = program.path
    if is_extended(original):
        raise RewritingError(f"{name}: is already instrumented; give the original program")
    bias = program.load_bias
    image = replace(image, data=_patched(image, {a - bias: w for a, w in patches.items()}, name))
    layout = place(image, address - bias, len(data), name, heap)
    places = {name: where - bias for name, where in (symbols or {}).items()}
    return _write(image, layout, data, entry - bias, places)


def is_extended(original: bytes) -> bool:
    """Whether a program was made by `extend`; stripping it changes nothing about that."""
    image = read_image(original)
    code = [p for p in image.segments if p.flags & records.PF_X]
    starts = [p.offset + HEADER_ROOM - len(MARK) for p in code]
    return any(original[start : start + len(MARK)] == MARK for start in starts) or any(
        image.section_name(section) == SECTION for section in image.sections
    )


def _patched(image: ElfImage, patches: Mapping[int, int], name: object) -> bytes:
    data = bytearray(image.data)
    segments = image.segments
    starts = [p.address for p in segments]
    for address, word in patches.items():
        home = segments[max(bisect_right(starts, address) - 1, 0)]
        inside = address - home.address
        if address % 4 or not 0 <= inside <= home.file_size - 4:
            raise RewritingError(f"{name}: has no word at {address:#x} that could be changed")
        data[home.offset + inside : home.offset + inside + 4] = word.to_bytes(4, "big")
    return bytes(data)


def _write(
    image: ElfImage, layout: FileLayout, data: bytes, entry: int, symbols: Mapping[str, int]
) -> bytes:
    output = bytearray(layout.end)
    for old, size, new in layout.moves:
        output[new : new + size] = image.data[old : old + size]
    start = layout.new.offset
    output[start : start + len(data)] = data
    table = b"".join(records.pack_program_header(image, p) for p in layout.headers)
    head = image.formats.header.size if start == 0 else 0
    room = bytes(head) + table
    output[start : start + HEADER_ROOM] = room.ljust(HEADER_ROOM - len(MARK), b"\0") + MARK
    header = image.header._replace(
        entry=entry, program_headers=start + head, program_header_count=len(layout.headers)
    )
    tail = max(p.offset + p.file_size for p in image.segments if p.file_size)
    if image.sections:
        sections = section_headers(image, layout, output, tail, symbols)
        packed = b"".join(image.formats.section_header.pack(*section) for section in sections)
        header = header._replace(section_count=len(sections), sections=append(output, packed))
    output.extend(bytes(gap(len(output), tail)))
    output.extend(image.data[tail:])
    packed = records.pack_header(replace(image, header=header))
    output[: len(packed)] = packed
    return bytes(output)
