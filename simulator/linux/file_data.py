"""Data between the program's memory and files: moved a piece at a time, or mapped and shared."""

from __future__ import annotations

import hashlib
import mmap
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.cpu.address_space import AddressSpace, GuestFault, OutOfMemory, Protection
from simprof.simulator.linux.descriptors import OpenFile
from simprof.simulator.linux.guest import Guest
from simprof.simulator.linux.outside import USER
from simprof.simulator.linux.sandbox import PROCESS_ID
from simprof.simulator.linux.signals import SI_USER, SignalInfo

MAX_IO = 0x7FFF_E000  # most bytes that one call moves, as on Linux
# Most bytes that are moved at a time. A pipe holds less, so that what is written to one at once
# arrives at once.
PIECE = 1 << 20
_SIGPIPE = 13
CheckTime = Callable[[], None]
Vectors = Sequence[tuple[int, int]]  # buffers: (address, length in bytes) of each


# A program names buffers of any length, which may overlap: what it moves in one call can be more
# than all of its memory. simprof holds one piece of it at a time. As on Linux, a call moves what
# comes before the first byte that the program may not use, and fails where that is nothing.
def read_into(
    guest: Guest,
    vectors: Vectors,
    file: OpenFile,
    offset: int | None,
    check_time: CheckTime = lambda: None,
) -> int:
    """Read from a file into buffers; return how many bytes; raises if nothing could be read."""
    # `offset`: Where in the file; None: at its own offset. `check_time`: Called between pieces; may
    # raise `RunInterrupted`. Raised are `OSError` and `GuestFault`.

    def read(piece: Vectors, wanted: int, done: int) -> int:
        if done and file.is_stream:
            return 0  # more may come later, but a call returns what there is
        data = file.read(wanted) if offset is None else file.read_at(wanted, offset + done)
        at = 0
        for address, length in piece:
            guest.memory.write(address, data[at : at + length])
            at += length
        return len(data)

    return _move(_pieces(guest.memory, vectors, Protection.WRITE), read, check_time)


def write_from(
    guest: Guest,
    vectors: Vectors,
    file: OpenFile,
    offset: int | None,
    check_time: CheckTime = lambda: None,
) -> int:
    """Write buffers to a file; return how many bytes. Otherwise as `read_into`."""
    # Where nobody reads what is written, the program is sent SIGPIPE besides.

    def put(piece: Vectors, wanted: int, done: int) -> int:
        data = b"".join(guest.memory.read(address, length) for address, length in piece)
        return write(guest, data, file, None if offset is None else offset + done)

    return _move(_pieces(guest.memory, vectors, Protection.READ), put, check_time)


def _move(
    pieces: Iterable[Vectors], step: Callable[[Vectors, int, int], int], check_time: CheckTime
) -> int:
    # `step` moves a piece of so many bytes after so many others, and returns how many it has moved.
    done = 0
    for piece in pieces:
        if done:
            check_time()
        wanted = sum(length for _, length in piece)
        try:
            count = step(piece, wanted, done)
        except OSError:
            if done:
                break
            raise
        done += count
        if count < wanted:
            break
    return done


def write(guest: Guest, data: bytes, file: OpenFile, offset: int | None) -> int:
    """Write one piece; return how many bytes, or raise OSError."""
    try:
        return file.write(data) if offset is None else file.write_at(data, offset)
    except BrokenPipeError:
        guest.raise_signal(SignalInfo(_SIGPIPE, SI_USER, None, PROCESS_ID, USER))
        raise


def _usable(memory: AddressSpace, vectors: Vectors, right: Protection) -> Iterator[tuple[int, int]]:
    # Yield buffers as far as they can be used, and `MAX_IO` bytes at most.
    left = MAX_IO
    for address, length in vectors:
        wanted = min(length, left)
        usable = memory.usable(address, wanted, right)
        if wanted and not usable and left == MAX_IO:
            raise GuestFault(address)
        left -= usable
        yield address, usable
        if usable < wanted:
            return


def _pieces(memory: AddressSpace, vectors: Vectors, right: Protection) -> Iterable[Vectors]:
    # Split buffers, as far as they can be used, into pieces; there may be one that is empty.
    if len(vectors) == 1:
        ((address, length),) = vectors
        if length <= PIECE and memory.usable(address, length, right) == length:
            return (vectors,)  # as nearly all are
    return _split(_usable(memory, vectors, right))


def _split(vectors: Iterator[tuple[int, int]]) -> Iterator[Vectors]:
    piece: list[tuple[int, int]] = []
    room, is_first = PIECE, True
    for address, length in vectors:
        done = 0
        while done < length:
            taken = min(length - done, room)
            piece.append((address + done, taken))
            done += taken
            room -= taken
            if not room:
                yield piece
                piece, room, is_first = [], PIECE, False
    if piece or is_first:
        yield piece


# System calls that see what a file contains and leave it alone.
READING = frozenset("read readv pread64 preadv preadv2".split())
# System calls that read or write files -> which arguments are descriptors of such files.
DESCRIPTORS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys((*READING, "write", "writev", "pwrite64", "pwritev", "pwritev2"), (0,)),
    **dict.fromkeys(("ftruncate", "ftruncate64", "fallocate"), (0,)),
    **dict.fromkeys(("sendfile", "sendfile64"), (0, 1)),
    **dict.fromkeys(("splice", "copy_file_range"), (0, 2)),
}
# System calls that may change a file by its name.
BY_NAME = frozenset("truncate truncate64 open openat openat2 creat".split())


# The pages of a file that is mapped MAP_SHARED are host memory (a memfd) that lies at each place
# where the file is mapped, so that what is written through one mapping is there in all others. They
# count against the program's memory limit, and are given back where no mapping has them any more.
# The file itself is touched by the host's calls alone, which are recorded: before a system call
# that reads or writes files, and where a mapping ends, what the program has changed in memory is
# written to the file; after one that writes files, memory is read from the file again.
class Pages(Struct, dict=True, weakref=True):
    """A file's pages in memory: those that are mapped."""

    memory: int
    reader: OpenFile
    check_time: Callable[[], None]
    writer: OpenFile | None = None
    # Page -> digest of what the file is known to contain there.
    clean: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.close = weakref.finalize(self, os.close, self.memory)

    def load(self, offset: int, size: int) -> None:
        """Read pages from the file; what lies behind its end is zero."""
        for start in range(offset, offset + size, PIECE):
            self.check_time()
            wanted = min(PIECE, offset + size - start)
            data = self.reader.read_at(wanted, start).ljust(wanted, b"\0")
            for place in range(0, wanted, PAGE_SIZE):
                page = data[place : place + PAGE_SIZE]
                digest = _digest(page)
                known = self.clean.get(start + place, _ZEROS)  # new pages are holes
                if digest != known:
                    os.pwrite(self.memory, page, start + place)
                self.clean[start + place] = digest

    def reload(self) -> None:
        """Read again what is in memory."""
        start = end = 0
        for offset in sorted(self.clean):
            if offset != end:
                self.load(start, end - start)
                start = offset
            end = offset + PAGE_SIZE
        self.load(start, end - start)

    def write_back(self) -> None:
        """Write to the file what differs from it, as far as the file goes."""
        if self.writer is None:
            return
        end = self.writer.status().size
        for number, (offset, clean) in enumerate(self.clean.items()):
            if number % (PIECE // PAGE_SIZE) == 0:
                self.check_time()
            page = os.pread(self.memory, PAGE_SIZE, offset)
            digest = _digest(page)
            if digest != clean and offset < end:
                self.writer.write_at(page[: end - offset], offset)
                self.clean[offset] = digest

    def drop(self, start: int, end: int) -> None:
        """Give back the pages of a range."""
        for offset in range(start, end, PAGE_SIZE):
            self.clean.pop(offset, None)
        with mmap.mmap(self.memory, end - start, offset=start) as pages:
            pages.madvise(mmap.MADV_REMOVE)


def _digest(page: bytes) -> bytes:
    return hashlib.blake2b(page, digest_size=16).digest()


_ZEROS = _digest(bytes(PAGE_SIZE))


class SharedMapping(Struct, frozen=True):
    """A place where a file is mapped MAP_SHARED."""

    address: int
    size: int
    file: OpenFile
    offset: int
    pages: Pages

    def overlaps(self, address: int, size: int) -> bool:
        """Whether it has a page in a range."""
        return self.address < address + size and address < self.address + self.size


class SharedFiles:
    """All shared mappings of one process; `check_time` is called where much is read or written."""

    def __init__(self, memory: AddressSpace, check_time: Callable[[], None]) -> None:
        self._memory = memory
        self._check_time = check_time
        self._mappings: list[SharedMapping] = []
        self._pages: dict[tuple[int, int], Pages] = {}

    def concerned(self, call: str, files: Sequence[OpenFile]) -> Sequence[Pages]:
        """Return the pages of files that a system call on `files` may read or write."""
        if call in BY_NAME:
            return list(self._pages.values())
        names = [(status.device, status.inode) for status in (file.status() for file in files)]
        return [self._pages[name] for name in names if name in self._pages]

    @property
    def is_empty(self) -> bool:
        """Whether no file is mapped so."""
        return not self._mappings

    def add(self, address: int, size: int, file: OpenFile, offset: int) -> None:
        """Put a file's pages at a range just mapped; raises `OSError` or `OutOfMemory`."""
        # The range is then to be forgotten and unmapped.
        status = file.status()
        name = status.device, status.inode
        pages = self._pages.get(name) or Pages(os.memfd_create("simprof"), file, self._check_time)
        pages.write_back()
        try:
            os.ftruncate(pages.memory, max(os.fstat(pages.memory).st_size, offset + size))
            self._memory.share(address, size, pages.memory, offset)
        except (OutOfMemory, OSError):
            if name not in self._pages:
                pages.close()
            raise
        self._pages[name] = pages
        self._keep(SharedMapping(address, size, file, offset, pages))
        if file.writable:
            pages.writer = pages.writer or file
        pages.load(offset, size)

    def _keep(self, mapping: SharedMapping) -> None:
        mapping.file.references += 1
        self._mappings.append(mapping)

    def inside(self, address: int, size: int) -> SharedMapping | None:
        """Return the mapping that has all of a range, or None."""
        for each in self._mappings:
            if each.address <= address and address + size <= each.address + each.size:
                return each
        return None

    def others(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a range that belong to no mapping of a file."""
        parts, at = [], start
        for each in sorted(self._mappings, key=lambda mapping: mapping.address):
            if each.overlaps(at, end - at):
                parts.append((at, each.address))
                at = each.address + each.size
        return [(low, high) for low, high in (*parts, (at, end)) if low < high]

    def touches(self, address: int, size: int) -> bool:
        """Whether a range has a page of some mapping."""
        return any(each.overlaps(address, size) for each in self._mappings)

    def write_back(self) -> None:
        """Bring all files up to date."""
        for pages in self._pages.values():
            pages.write_back()

    def forget(self, address: int, size: int) -> None:
        """Bring files up to date, and drop the parts of mappings in a range that goes."""
        going = [each for each in self._mappings if each.overlaps(address, size)]
        for mapping in going:
            mapping.pages.write_back()
            self._mappings.remove(mapping)
            low, high = mapping.address, mapping.address + mapping.size
            for start, stop in ((low, min(high, address)), (max(low, address + size), high)):
                if start < stop:
                    offset = mapping.offset + start - low
                    part = SharedMapping(start, stop - start, mapping.file, offset, mapping.pages)
                    self._keep(part)
            self._release(mapping)
            moved = mapping.offset - low  # from an address to its place in the file
            self._drop(mapping.pages, max(low, address) + moved, min(high, address + size) + moved)

    def _drop(self, pages: Pages, start: int, end: int) -> None:
        left = [each for each in self._mappings if each.pages is pages]
        if not left:
            return  # all of them have been
        for each in sorted(left, key=lambda mapping: mapping.offset):
            if start < min(each.offset, end):
                pages.drop(start, min(each.offset, end))
            start = max(start, each.offset + each.size)
        if start < end:
            pages.drop(start, end)

    def _release(self, mapping: SharedMapping) -> None:
        pages, file = mapping.pages, mapping.file
        others = [each for each in self._mappings if each.pages is pages]
        if not others:
            pages.close()
            self._pages = {name: each for name, each in self._pages.items() if each is not pages}
        elif not any(each.file is file for each in others):
            writers = (each.file for each in others if each.file.writable)
            pages.reader, pages.writer = others[0].file, next(writers, None)
        file.references -= 1
        if file.references == 0:
            file.close()
