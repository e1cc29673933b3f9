"""The program's address space: host memory, page rights, the break, free ranges."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Callable, Iterator
from enum import IntFlag
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from simprof.simulator.binary.program import PAGE_SIZE, page_up

REGION_SIZE: Final = 1 << 32
MAX_REGIONS: Final = 60
_PAGE_SHIFT: Final = 13
_OWN_MEMORY: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
_MAP_FIXED: Final = 0x10

# Bits of a page's byte; the low three are Protection.
RIGHTS: Final = 7
EXECUTED: Final = 8  # the engine has translated code from this page
CHANGED: Final = 16  # was writable at some time: its code may differ from the file's
MAPPED: Final = 32
SHADOWED: Final = 64  # the engine executes a copy of the page
HELD: Final = 128  # may have contents: counts against the memory limit

_PIECE: Final = 1 << 20  # most bytes that are zeroed at a time
_LONGEST_STRING: Final = 1 << 20


class Protection(IntFlag):
    """Rights of a page, numbered as PROT_* and as the permission table number them."""

    NONE = 0
    READ = 1
    WRITE = 2
    EXECUTE = 4


class GuestFault(Exception):  # noqa: N818 - a fault, as the processor names it
    """A system call touched memory that it may not touch, `address` first (becomes EFAULT)."""

    def __init__(self, address: int) -> None:
        super().__init__(f"bad guest address {address:#x}")
        self.address = address


class OutOfMemory(Exception):  # noqa: N818 - Linux names the condition so
    """The memory limit or the address space is used up (becomes ENOMEM)."""


class Mapping(Struct, frozen=True):
    """A run of pages [start, end) with equal rights."""

    start: int
    end: int
    protection: Protection


# The layout is qemu-user's (7.2), so that programs see the addresses that they see there: the break
# after the program's data, the stack's top at 0x4000802000 (0x40802000 in 32-bit programs), other
# mappings upwards from there (in 32-bit programs: downwards from below the stack). Only the stack
# is larger.
class Layout(Struct, frozen=True):
    """Where things go (addresses in bytes)."""

    limit_address: int
    stack_top: int
    mmap_start: int
    mmap_end: int
    grows_down: bool  # mappings go from mmap_end downwards


STACK_SIZE: Final = 256 << 20  # largest stack of a program in bytes: the room that is left for it

LAYOUT_64: Final = Layout(
    limit_address=1 << 43,
    stack_top=0x4000802000,
    mmap_start=0x4000802000,
    mmap_end=0x4000802000 + (32 << 30),
    grows_down=False,
)
LAYOUT_32: Final = Layout(
    limit_address=0xF0000000,
    stack_top=0x40802000,
    mmap_start=0x1000000,
    mmap_end=0x40802000 - STACK_SIZE - 2 * PAGE_SIZE,
    grows_down=True,
)


def _map_fixed(*arguments: int) -> int:
    # mmap(2), which Python's `mmap` does not let choose an address.
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype, function.argtypes = ctypes.c_size_t, _MMAP_ARGUMENTS
    return int(function(*arguments))


_MMAP_ARGUMENTS: Final = (
    *(ctypes.c_void_p, ctypes.c_size_t),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
)


# Terms. A *region* is one host buffer of up to 4 GiB at one guest address, reserved without being
# committed. The *page table* of a region has one byte per 8 KiB page (`RIGHTS`, `EXECUTED` and
# others); the native translation hook (`traps.fill_translation`) reads it, so changing a right is
# one array store and a flush of the engine's translation cache.
class Region:
    """Host memory for guest addresses [base, base + size)."""

    def __init__(self, base: int, size: int) -> None:
        self.base = base
        self.size = size
        try:
            self.buffer = mmap.mmap(-1, size, flags=_OWN_MEMORY)
        except (OSError, ValueError) as error:
            raise OutOfMemory(f"cannot reserve {size} bytes of address space: {error}") from error
        self.host = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        self.pages: NDArray[np.uint8] = np.zeros(size >> _PAGE_SHIFT, dtype=np.uint8)
        self._shared: list[tuple[int, int]] = []  # ranges that have been other memory than ours

    def clear(self, start: int, end: int) -> None:
        """Zero the pages [start, end) and give their host memory back."""
        if any(first < end and start < last for first, last in self._shared):
            self._map_host(start, end, _OWN_MEMORY, -1, 0)
            self._shared = [part for each in self._shared for part in _outside(each, start, end)]
        else:
            self.buffer.madvise(mmap.MADV_DONTNEED, start - self.base, end - start)

    def share(self, start: int, end: int, descriptor: int, offset: int) -> None:
        """Put the host's memory behind a descriptor, from `offset` on, at [start, end)."""
        self._map_host(start, end, mmap.MAP_SHARED, descriptor, offset)
        self._shared.append((start, end))

    def _map_host(self, start: int, end: int, flags: int, descriptor: int, offset: int) -> None:
        place, rights = self.host + start - self.base, mmap.PROT_READ | mmap.PROT_WRITE
        if _map_fixed(place, end - start, rights, flags | _MAP_FIXED, descriptor, offset) != place:
            raise OutOfMemory(f"the system does not map {end - start} bytes of a shared file")


def _outside(part: tuple[int, int], start: int, end: int) -> list[tuple[int, int]]:
    first, last = part
    pieces = (first, min(last, start)), (max(first, end), last)
    return [(low, high) for low, high in pieces if low < high]


def _bits(protection: Protection) -> int:
    changed = CHANGED if protection & Protection.WRITE else 0
    return int(protection) | changed | (HELD if protection else 0)


class AddressSpace:
    """The program's memory. Sizes in bytes; what changes the map takes whole pages."""

    # Addresses are masked to 32 bits for 32-bit programs. `limit`: Most bytes that may have
    # contents at one time; `OutOfMemory` beyond.
    def __init__(self, is64: bool, limit: int) -> None:
        self.layout = LAYOUT_64 if is64 else LAYOUT_32
        self.limit_address = self.layout.limit_address
        self.limit = limit
        # Bytes that count against `limit`. Pages count from when they first have a right until they
        # are unmapped: one that loses its rights again keeps its contents.
        self.used = 0
        # The number of regions, then (base, size, host address, page table's address) of each:
        # native hooks read it.
        self.table: NDArray[np.int64] = np.zeros(1 + 4 * MAX_REGIONS, dtype=np.int64)
        # What the engine does when a region is added, when rights shrink, and when bytes of
        # executed pages [start, end) may have been changed from outside the program.
        self.on_region: Callable[[Region], None] = lambda region: None
        self.on_change: Callable[[], None] = lambda: None
        self.on_code_change: Callable[[int, int], None] = lambda start, end: None
        self._regions: dict[int, Region] = {}
        self._break_start = 0
        self._break = 0
        self._break_top = 0  # end of the pages that the break has mapped
        layout = self.layout
        # Behind which address, or below which one, `find_free` searches first.
        self.next_mapping = layout.mmap_end if layout.grows_down else layout.mmap_start

    # -- regions and pages

    def add_region(self, base: int, size: int) -> Region:
        """Reserve host memory for [base, base + size); raises `OutOfMemory`."""
        count = len(self._regions)
        if count == MAX_REGIONS:
            raise OutOfMemory("too many scattered mappings")
        region = Region(base, size)
        self._regions[base // REGION_SIZE] = region
        row = 1 + 4 * count
        self.table[row : row + 4] = (base, size, region.host, region.pages.ctypes.data)
        self.table[0] = count + 1
        self.on_region(region)
        return region

    def _pieces(
        self, address: int, size: int, create: bool = False
    ) -> Iterator[tuple[Region | None, int, int]]:
        # Split [address, address + size) by region: (region or None, start, end).
        end = address + size
        while address < end:
            number = address // REGION_SIZE
            stop = min(end, (number + 1) * REGION_SIZE)
            region = self._regions.get(number)
            if region is None and create:
                region = self.add_region(number * REGION_SIZE, REGION_SIZE)
            if region is not None and region.size < REGION_SIZE and stop > region.base:
                stop = min(stop, region.base + region.size)
                if address < region.base or address >= stop:
                    region, stop = None, min(end, (number + 1) * REGION_SIZE)
            yield region, address, stop
            address = stop

    @staticmethod
    def _slice(region: Region, start: int, end: int) -> NDArray[np.uint8]:
        first = (start - region.base) >> _PAGE_SHIFT
        return region.pages[first : ((end - region.base - 1) >> _PAGE_SHIFT) + 1]

    def _first_without(self, address: int, size: int, bit: int) -> int | None:
        # First address of the range whose page lacks `bit`, or None.
        if 0 < size <= PAGE_SIZE - address % PAGE_SIZE:
            return None if self.page_bits(address) & bit else address
        for region, start, end in self._pieces(address, size):
            if region is None:
                return start
            lacking = (self._slice(region, start, end) & bit) == 0
            if lacking.any():
                page = (start >> _PAGE_SHIFT) + int(lacking.argmax())
                return max(start, page << _PAGE_SHIFT)
        return None

    def page_bits(self, address: int) -> int:
        """Return the page table's byte for the page of `address`; 0 where nothing is mapped."""
        region = self._regions.get(address // REGION_SIZE)
        if region is None or not 0 <= address - region.base < region.size:
            return 0
        return int(region.pages[(address - region.base) >> _PAGE_SHIFT])

    def set_page_bits(self, address: int, bits: int) -> None:
        """Set the page table's byte for the page of `address`."""
        for region, start, end in self._pieces(address, 1):
            if region is not None:
                self._slice(region, start, end)[:] = bits

    def is_mapped(self, address: int, size: int) -> bool:
        """Whether every page of the range is mapped, with whatever rights."""
        return self._first_without(address, size, MAPPED) is None

    def is_free(self, address: int, size: int) -> bool:
        """Whether no page of the range is mapped."""
        return self._mapped(address, address + size) is None

    def mappings(self) -> Iterator[Mapping]:
        """Everything that is mapped, by address, neighbours of equal rights joined."""
        current: Mapping | None = None
        for region in sorted(self._regions.values(), key=lambda each: each.base):
            pages = region.pages & (RIGHTS | MAPPED)
            cuts = (np.flatnonzero(np.diff(pages)) + 1).tolist()
            for first, last in itertools.pairwise((0, *cuts, len(pages))):
                if not pages[first] & MAPPED:
                    continue
                start, end = (region.base + (page << _PAGE_SHIFT) for page in (first, last))
                rights = Protection(int(pages[first]) & RIGHTS)
                if current and (current.end, current.protection) == (start, rights):
                    current = Mapping(current.start, end, rights)
                    continue
                if current:
                    yield current
                current = Mapping(start, end, rights)
        if current:
            yield current

    # -- changing the map

    def _check_range(self, address: int, size: int) -> None:
        if address % PAGE_SIZE or size <= 0 or size % PAGE_SIZE:
            raise ValueError(f"not whole pages: {address:#x}, {size:#x}")
        if address + size > self.limit_address:
            raise OutOfMemory(f"no address space at {address:#x}")

    def _held(self, address: int, size: int) -> int:
        return sum(
            int((self._slice(region, start, end) & HELD != 0).sum()) * PAGE_SIZE
            for region, start, end in self._pieces(address, size)
            if region is not None
        )

    def hold(self, more: int) -> None:
        """Count bytes that are kept for the program; negative: no longer. Raises `OutOfMemory`."""
        if more > 0 and self.used + more > self.limit:
            raise OutOfMemory(f"the memory limit of {self.limit} bytes is used up")
        self.used += more

    def map(self, address: int, size: int, protection: Protection) -> None:
        """Map zeroed pages, replacing what was there; raises `OutOfMemory`."""
        self._check_range(address, size)
        pieces = list(self._pieces(address, size, create=True))
        self.hold((size if protection else 0) - self._held(address, size))
        self._forget(address, size)
        bits = MAPPED | _bits(protection)
        for region, start, end in pieces:
            assert region is not None
            self._slice(region, start, end)[:] = bits

    def unmap(self, address: int, size: int) -> None:
        """Unmap pages; pages that are not mapped are ignored."""
        self._check_range(address, size)
        self.hold(-self._held(address, size))
        self._forget(address, size)

    def share(self, address: int, size: int, descriptor: int, offset: int) -> None:
        """Have mapped pages be the host's memory behind a descriptor; raises `OutOfMemory`."""
        # Such pages have contents whatever their rights are.
        self.hold(size - self._held(address, size))
        for region, start, end in self._pieces(address, size):
            assert region is not None
            pages = self._slice(region, start, end)
            pages |= np.uint8(HELD)
            region.share(start, end, descriptor, offset + start - address)

    def _forget(self, address: int, size: int) -> None:
        dropped = False
        for region, start, end in self._pieces(address, size):
            if region is None:
                continue
            pages = self._slice(region, start, end)
            if not (pages & MAPPED).any():
                continue
            self._report_code(start, end, pages)
            pages[:] = 0
            region.clear(start, end)
            dropped = True
        if dropped:
            self.on_change()

    def protect(self, address: int, size: int, protection: Protection) -> None:
        """Change rights; raises `GuestFault` with the first unmapped page, changing nothing."""
        self._check_range(address, size)
        missing = self._first_without(address, size, MAPPED)
        if missing is not None:
            raise GuestFault(missing)
        if protection:
            self.hold(size - self._held(address, size))
        bits = _bits(protection)
        for region, start, end in self._pieces(address, size):
            assert region is not None
            pages = self._slice(region, start, end)
            pages[:] = (pages & ~np.uint8(RIGHTS)) | np.uint8(bits)
        self.on_change()

    def _report_code(self, start: int, end: int, pages: NDArray[np.uint8]) -> None:
        if (pages & EXECUTED).any():
            self.on_code_change(start, end)

    # -- free ranges

    def find_free(self, size: int, hint: int = 0) -> int:
        """Address of `size` unmapped bytes, at `hint` where free; raises `OutOfMemory`."""
        # As qemu-user does: on from the last mapping, then around to what has been unmapped.
        size = page_up(size)
        hint = page_up(hint)
        if hint and hint + size <= self.limit_address and self.is_free(hint, size):
            return hint
        layout = self.layout
        search = self._search_down if layout.grows_down else self._search_up
        free = search(size, self.next_mapping)
        if free is None:
            free = search(size, layout.limit_address if layout.grows_down else layout.mmap_start)
        if free is None:
            raise OutOfMemory(f"no free range of {size} bytes")
        self.next_mapping = free if layout.grows_down else free + size
        return free

    def _search_up(self, size: int, start: int) -> int | None:
        while start + size <= self.layout.mmap_end:
            busy = self._mapped(start, start + size)
            if busy is None:
                return start
            start = busy[1]
        return None

    def _search_down(self, size: int, end: int) -> int | None:
        while end - size >= self.layout.mmap_start:
            busy = self._mapped(end - size, end)
            if busy is None:
                return end - size
            end = busy[0]
        return None

    def _mapped(self, start: int, end: int) -> tuple[int, int] | None:
        # Return where the first mapped page in [start, end) begins and the last one ends.
        found: list[int] = []
        for region, first, last in self._pieces(start, end - start):
            if region is not None:
                pages = np.flatnonzero(self._slice(region, first, last) & MAPPED)
                found += (first + pages[[0, -1]] * PAGE_SIZE).tolist() if len(pages) else []
        return (found[0], found[-1] + PAGE_SIZE) if found else None

    # -- the break

    @property
    def program_break(self) -> int:
        """The current break (not page aligned)."""
        return self._break

    def start_break(self, address: int) -> None:
        """Say where the program's data ends; the break starts at the next page."""
        self._break_start = self._break = self._break_top = page_up(address)

    def set_break(self, address: int) -> int:
        """Move the break as brk(2) does; return the new break, or the old one where it cannot."""
        # As under qemu-user, a lower break keeps its pages, and they read as zero when it rises.
        if address < self._break_start or address > self.limit_address:
            return self._break
        if address > self._break:
            top, end = self._break_top, page_up(address)
            if end > top:
                if not self.is_free(top, end - top):
                    return self._break
                try:
                    self.map(top, end - top, Protection.READ | Protection.WRITE)
                except OutOfMemory:
                    return self._break
                self._break_top = end
            start, end = self._break, min(address, top)
            if end > start and self.is_mapped(start, end - start):
                for at in range(start, end, _PIECE):
                    self.load(at, bytes(min(_PIECE, end - at)))
        self._break = address
        return address

    # -- contents

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes out; raises `GuestFault` where a page is not readable."""
        self._require(address, size, Protection.READ)
        return self.peek(address, size)

    def peek(self, address: int, size: int) -> bytes:
        """Copy bytes out whatever the pages' rights are; unmapped bytes read as zero."""
        return b"".join(
            bytes(end - start)
            if region is None
            else region.buffer[start - region.base : end - region.base]
            for region, start, end in self._pieces(address, size)
        )

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes in; raises `GuestFault` where a page is not writable, writing nothing."""
        self._require(address, len(data), Protection.WRITE)
        self.load(address, data)

    def usable(self, address: int, size: int, right: Protection) -> int:
        """Return how many of `size` bytes, from the first on, lie in pages with a right."""
        size = min(size, max(0, self.limit_address - address))
        missing = self._first_without(address, size, int(right))  # flags of `enum` are slow
        return size if missing is None else missing - address

    def _require(self, address: int, size: int, right: Protection) -> None:
        if address + size > self.limit_address and size:
            raise GuestFault(max(address, self.limit_address))
        missing = self._first_without(address, size, int(right))
        if missing is not None:
            raise GuestFault(missing)

    def load(self, address: int, data: bytes) -> None:
        """Copy bytes into mapped pages whatever their rights are (program loading)."""
        offset = 0
        for region, start, end in self._pieces(address, len(data)):
            if region is None:
                raise GuestFault(start)
            region.buffer[start - region.base : end - region.base] = data[
                offset : offset + end - start
            ]
            self._report_code(start, end, self._slice(region, start, end))
            offset += end - start

    def read_string(self, address: int) -> bytes:
        """Copy bytes out up to the first NUL, which is not too far; raises `GuestFault`."""
        text = b""
        while len(text) <= _LONGEST_STRING:
            text += self.read(address + len(text), PAGE_SIZE - (address + len(text)) % PAGE_SIZE)
            if (zero_at := text.find(b"\0")) >= 0:
                return text[:zero_at]
        raise GuestFault(address + len(text))
