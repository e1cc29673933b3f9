"""What simprof keeps for a program outside its memory: it counts against the memory limit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.cpu.address_space import Protection
from simprof.simulator.isa import sparc
from simprof.simulator.isa.sparc import ERRNO
from simprof.simulator.linux.guest import Failed, RefusedCall, Returned
from tests.support.syscalls import DATA, Kernel
from tests.support.turns import first

PRIVATE = sparc.MAP_PRIVATE | sparc.MAP_ANONYMOUS
MEGABYTE = 1 << 20
LIMIT = 64 * MEGABYTE
ENOMEM = Failed(ERRNO["ENOMEM"])

left: set[int] = set()
"""Files that earlier tests have left, by their numbers."""


@pytest.fixture(params=first(1, [True, False]), ids=["64-bit", "32-bit"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Kernel:
    left.clear()
    left.update(path.stat().st_ino for path in shared_files())
    return Kernel(tmp_path, request.param)


def shared_blocks() -> int:
    """Return how many bytes of memory lie behind the files that are mapped shared."""
    found = [path.stat() for path in shared_files()]
    return sum(each.st_blocks * 512 for each in found if each.st_ino not in left)


def shared_files() -> list[Path]:
    """Return the descriptors of files that can be mapped shared."""
    found = []
    for path in descriptors():
        with suppress(FileNotFoundError):  # that of the listing itself
            if "memfd:simprof" in str(path.readlink()):
                found.append(path)
    return found


def descriptors() -> list[Path]:
    """Return all descriptors of this process."""
    return list(Path("/proc/self/fd").iterdir())


def mapped(kernel: Kernel, size: int, file: int, offset: int = 0, rights: int = 3) -> int:
    """Map a file shared; return the address."""
    name = "mmap" if kernel.guest.is64 else "mmap2"
    unit = 1 if kernel.guest.is64 else 4096
    return kernel.value(name, 0, size, rights, sparc.MAP_SHARED, file, offset // unit)


def test_memory_without_rights_counts_as_long_as_it_may_have_contents(kernel: Kernel) -> None:
    space = kernel.guest.space
    before = space.used
    never = kernel.value("mmap", 0, 4 * LIMIT, 0, PRIVATE, -1, 0)
    assert space.used == before
    place = kernel.value("mmap", 0, LIMIT // 2, 3, PRIVATE, -1, 0)
    assert kernel.value("mprotect", place, LIMIT // 2, 0) == 0
    assert space.used == before + LIMIT // 2
    assert kernel("mmap", 0, LIMIT // 2, 3, PRIVATE, -1, 0) == ENOMEM
    assert kernel("mprotect", never, LIMIT // 2, 1) == ENOMEM
    assert kernel.value("madvise", place, LIMIT // 2, 4) == 0  # MADV_DONTNEED
    assert space.used == before
    assert kernel.value("mprotect", never, LIMIT // 2, 1) == 0
    kernel.value("munmap", never, 4 * LIMIT)
    assert space.used == before


def test_windows_over_a_file_are_given_back(kernel: Kernel) -> None:
    space = kernel.guest.space
    file = kernel.value("open", b"file", sparc.O_CREAT | 2, 0o644)
    kernel.host.resize(3, 8 * MEGABYTE)
    kernel.host.write_at(3, b"x" * 8 * MEGABYTE, 0)
    before = space.used
    kept = mapped(kernel, PAGE_SIZE, file)
    for offset in range(0, 8 * MEGABYTE, MEGABYTE):
        place = mapped(kernel, MEGABYTE, file, offset)
        assert space.used == before + PAGE_SIZE + MEGABYTE
        kernel.guest.write(place + 5, b"y")
        assert kernel.value("munmap", place, MEGABYTE) == 0
        assert shared_blocks() == PAGE_SIZE
    assert kernel.guest.read(kept, 6) == b"xxxxxy"
    assert kernel.host.read_at(3, 7, 7 * MEGABYTE) == b"xxxxxyx"
    assert kernel.value("munmap", kept, PAGE_SIZE) == 0
    assert (space.used, shared_blocks()) == (before, 0)


def test_what_another_window_shows_is_kept(kernel: Kernel) -> None:
    file = kernel.value("open", b"file", sparc.O_CREAT | 2, 0o644)
    kernel.host.resize(3, 4 * PAGE_SIZE)
    whole = mapped(kernel, 4 * PAGE_SIZE, file)
    second = mapped(kernel, PAGE_SIZE, file, 2 * PAGE_SIZE)
    kernel.guest.write(whole, b"".join(bytes([page]) * PAGE_SIZE for page in range(1, 5)))
    assert kernel.value("munmap", whole, 4 * PAGE_SIZE) == 0
    assert shared_blocks() == PAGE_SIZE
    assert kernel.guest.read(second, PAGE_SIZE) == bytes([3]) * PAGE_SIZE
    again = mapped(kernel, 4 * PAGE_SIZE, file)
    assert kernel.guest.read(again, 4 * PAGE_SIZE)[::PAGE_SIZE] == bytes([1, 2, 3, 4])
    assert kernel.value("munmap", again + 2 * PAGE_SIZE, 2 * PAGE_SIZE) == 0
    assert kernel.value("munmap", again, PAGE_SIZE) == 0
    assert shared_blocks() == 2 * PAGE_SIZE  # the second page, and the third in the other window


def test_shared_pages_count_without_rights(kernel: Kernel) -> None:
    file = kernel.value("open", b"file", sparc.O_CREAT | 2, 0o644)
    kernel.host.resize(3, 2 * LIMIT)
    name = "mmap" if kernel.guest.is64 else "mmap2"
    before = kernel.guest.space.used
    assert kernel(name, 0, 2 * LIMIT, 0, sparc.MAP_SHARED, file, 0) == ENOMEM
    assert (kernel.guest.space.used, shared_blocks()) == (before, 0)
    place = mapped(kernel, MEGABYTE, file, rights=0)
    assert kernel.guest.space.used == before + MEGABYTE
    assert kernel.value("munmap", place, MEGABYTE) == 0


def test_files_that_are_made_up_count_while_they_are_open(kernel: Kernel) -> None:
    space = kernel.guest.space
    place = kernel.value("mmap", 0, 16 * MEGABYTE, 0, PRIVATE, -1, 0)
    for at in range(0, 16 * MEGABYTE, 2 * PAGE_SIZE):
        space.protect(place + at, PAGE_SIZE, Protection.READ)
    before = space.used
    file = kernel.value("open", b"/proc/self/maps", 0)
    size = space.used - before
    assert size > 2000 * 40
    other = kernel.value("dup", file)
    assert kernel.value("close", file) == 0
    assert space.used == before + size
    assert kernel.value("close", other) == 0
    assert space.used == before
    space.limit = before + size + size // 2
    assert kernel.value("open", b"/proc/self/maps", 0) == file
    assert kernel("open", b"/proc/self/maps", 0) == ENOMEM
    assert kernel.value("close", file) == 0
    assert space.used == before


def test_pipes_and_listings_count(kernel: Kernel, tmp_path: Path) -> None:
    space = kernel.guest.space
    before = space.used
    ends = kernel("pipe")
    assert isinstance(ends, Returned) and ends.second is not None
    assert space.used == before + 65536
    for end in (ends.value, ends.second):
        assert kernel.value("close", end) == 0
    assert space.used == before
    for number in range(100):
        (tmp_path / f"name{number}").touch()
    directory = kernel.value("open", b".", 0)
    kernel.value("getdents64", directory, DATA, 4096)
    listing = space.used - before
    assert listing > 100 * 100
    kernel.value("getdents64", directory, DATA, 4096)
    assert space.used == before + listing
    assert kernel.value("close", directory) == 0
    assert space.used == before
    space.limit = before + listing - 1
    again = kernel.value("open", b".", 0)
    assert kernel("getdents64", again, DATA, 4096) == ENOMEM


def test_files_beyond_the_last_descriptor_are_closed(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    while kernel("open", b"file", 0) != Failed(ERRNO["EMFILE"]):
        pass
    before = len(descriptors())
    kernel.fails("EMFILE", "open", b"file", 0)
    assert len(descriptors()) == before


def test_calls_that_do_not_exist_are_not_counted_one_by_one_for_ever(kernel: Kernel) -> None:
    for number in range(10_000, 12_000):
        assert kernel.calls.call(number, (0,) * 6) == Failed(ERRNO["ENOSYS"])
    assert len(kernel.calls.refused) == 1001
    assert kernel.calls.refused[RefusedCall("number 10999", "ENOSYS")] == 1
    assert kernel.calls.refused[RefusedCall("others", "ENOSYS")] == 1000
