"""Adds a segment of code to a statically linked program, and changes words of its old code.

The heap of a program begins behind its last segment, wherever the code of a new one is; so an
extended program can say where: a page that has nothing in the file ends there (`heap_start`).

The new segment begins with a new program header table, which the kernel reads. Its address is in
AT_PHDR by the rules of Linux: offset plus address minus offset of the first PT_LOAD (up to 5.17) or
of that which holds the table. qemu-user adds the offset to the lowest address of a segment; that is
the same where the lowest segment lies at offset 0: for new segments below the program's first one,
and for position-independent programs. In the others the first segment, which has the old header, is
moved behind the new header, so that its memory holds what it held; there the new start should put
into AT_PHDR what it was, as instrumented programs do.

Steps
-----
1. `find_room`: an address, within reach of branches from all of the old code.
2. `elf_layout.place`: where in the file each segment lies. They come in the order of their
   addresses, each at the first offset behind the one before it that agrees with its address, modulo
   its alignment or at least modulo a page; so no address minus offset is less than the first one's.
3. `section_headers`: new tables, where the file has sections. The old tables, and whatever
   else is no part of a segment, follow: what a program carries at its end is still at its end.

Nothing of what the program needs of its headers (PT_TLS, PT_GNU_STACK, notes) is lost. In memory
its old segments hold what they held, changed words aside: also the old header and table, which some
C libraries read there. (Only position-independent programs find the new header in their memory.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace

from simprof.simulator.binary.elf_format import PF_X
from simprof.simulator.binary.elf_image import (
    ElfImage,
    pack_header,
    pack_program_header,
    pack_section,
    read_image,
)
from simprof.simulator.binary.elf_layout import HEADER_ROOM, MARK, SECTION, Layout, place
from simprof.simulator.binary.elf_sections import append, gap, section_headers
from simprof.simulator.binary.program import PAGE_SIZE, Program, page_up
from simprof.simulator.errors import RewritingError

__all__ = ["HEADER_ROOM", "LOWEST", "extend", "find_room", "heap_start", "is_extended"]

LOWEST = 0x10000
"""Below this Linux maps nothing (`vm.mmap_min_addr`)."""

_REACH = 1 << 23  # bytes that a branch with 22 bits of words reaches
_ADDRESSES = 1 << 32  # bytes that a program's segments and its heap can lie in


def find_room(program: Program, size: int) -> int | None:
    """Return where a segment of `size` bytes can lie; the lowest such address.

    All of it is within reach of a branch (disp22) from all of the program's code. Below the first
    segment it begins at 0x10000 or higher; a position-independent program has no room there.

    Returns
    -------
    int or None
        A multiple of `PAGE_SIZE`, or None where nothing is in reach.
    """
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


def heap_start(program: Program) -> int | None:
    """Return where the heap of extended programs begins, however large their new segments are.

    Whatever `find_room` returns lies before it. It depends on nothing but `program`: a run of the
    original whose heap begins there, too, does what those of extended programs do, even where the
    program acts by addresses.

    Returns
    -------
    int or None
        A multiple of `PAGE_SIZE`, or None where the address space ends before that.
    """
    end = max(s.address + s.memory_size for s in program.segments)
    start = page_up(end + _REACH)
    return start if start + _REACH <= _ADDRESSES and not program.load_bias else None


def extend(
    original: bytes,
    program: Program,
    patches: Mapping[int, int],
    address: int,
    data: bytes,
    entry: int,
    symbols: Mapping[str, int] | None = None,
    heap: int | None = None,
) -> bytes:
    """Return the file of `program` with changed words and one more segment.

    Parameters
    ----------
    original
        The file that `program` was loaded from.
    patches
        Address -> 32-bit word that the file shall give there.
    address
        Of the new segment, a multiple of `PAGE_SIZE` (`find_room`).
    data
        The new segment from `address` on; its first `HEADER_ROOM` bytes are overwritten. It can be
        read and executed, not written.
    entry
        Where the program shall start.
    symbols
        Name -> address of places in the new segment. A stripped file stays stripped.
    heap
        Where the heap shall begin, behind all segments (`heap_start`); None: behind the last one.

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
    layout = place(image, address - bias, len(data), name, heap)
    return _write(image, layout, data, entry - bias, bias, symbols or {})


def is_extended(original: bytes) -> bool:
    """Whether a program was made by `extend`; stripping it changes nothing about that."""
    image = read_image(original)
    starts = [p.offset + HEADER_ROOM - len(MARK) for p in image.segments if p.flags & PF_X]
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
    image: ElfImage,
    layout: Layout,
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
    output[start : start + HEADER_ROOM] = room.ljust(HEADER_ROOM - len(MARK), b"\0") + MARK
    header = replace(
        image.header,
        entry=entry,
        program_headers=start + head,
        program_header_count=len(layout.headers),
    )
    tail = max(p.offset + p.file_size for p in image.segments if p.file_size)
    if image.sections:
        names = {name: where - bias for name, where in symbols.items()}
        sections = section_headers(image, layout, output, tail, names)
        header = replace(header, section_count=len(sections))
        packed = b"".join(pack_section(image, section) for section in sections)
        header = replace(header, sections=append(output, packed))
    output.extend(bytes(gap(len(output), tail)))
    output.extend(image.data[tail:])
    packed = pack_header(replace(image, header=header))
    output[: len(packed)] = packed
    return bytes(output)
