"""Every system call that there is, with arguments at the edges: a result or an errno, in time."""

from __future__ import annotations

import random
import struct
import time
from itertools import product
from pathlib import Path

import pytest

from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa import sparc
from simprof.simulator.linux.guest import Failed, Outcome, Replaced, Returned, RunInterrupted
from tests.support.syscalls import DATA, SIZE, Kernel

WIDTHS = pytest.mark.parametrize("is64", [True, False], ids=["64-bit", "32-bit"])
EDGES = (
    *(0, 1, 2, 3, 7, 8, 4095, 8191, 8192, 1 << 16),
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 43) - 8192),
    *(1 << 62, (1 << 63) - 1, (1 << 63) - 8192, 1 << 63, (1 << 64) - 1, (1 << 64) - 100),
)
PLACES = (DATA, DATA + 8, DATA + 1, DATA + SIZE - 1, DATA + SIZE - 8, 0, 8, 0xFFFFFFF8)
NAMES = sorted({*sparc.SYSTEM_CALLS_64.values(), *sparc.SYSTEM_CALLS_32.values()})
TUPLES = 20
SECONDS = 5


def opened(root: Path, is64: bool) -> tuple[Kernel, list[int]]:
    """Return a kernel and descriptors of all kinds of files."""
    (root / "file").write_bytes(bytes(range(256)) * 64)
    (root / "folder").mkdir(exist_ok=True)
    kernel = Kernel(root, is64)
    read_write = 2
    descriptors = [
        kernel.value("open", path, flags, 0)
        for path, flags in (
            (b"file", read_write),
            (b"file", 0),
            (b".", 0),
            (b"/dev/null", read_write),
            (b"/dev/full", 1),
            (b"/proc/self/maps", 0),
        )
    ]
    first = kernel("pipe")
    assert isinstance(first, Returned)
    assert first.second is not None
    return kernel, [0, 1, 2, *descriptors, first.value, first.second]


def words(kernel: Kernel, chance: random.Random) -> bytes:
    """Return what lies at all of `PLACES`: vectors, times, sets and limits at the edges."""
    values = (chance.choice((*EDGES[:12], *EDGES, DATA, DATA)) & kernel.mask for _ in range(64))
    size = 8 if kernel.guest.is64 else 4
    return b"".join(value.to_bytes(size, "big") for value in values)


@WIDTHS
@pytest.mark.seeds(range(1))
def test_edges_give_a_result_or_an_errno(tmp_path: Path, seed: int, is64: bool) -> None:
    call_all(tmp_path, seed, is64)


@WIDTHS
@pytest.mark.long
@pytest.mark.fresh_seeds(4)
def test_other_edges_give_a_result_or_an_errno(tmp_path: Path, seed: int, is64: bool) -> None:
    call_all(tmp_path, seed, is64)


def call_all(root: Path, seed: int, is64: bool) -> None:
    """Make every call with random arguments at the edges."""
    chance = random.Random(seed)
    kernel, descriptors = opened(root, is64)
    for name in NAMES:
        if name not in kernel.calls._handlers or name not in kernel.numbers:
            continue
        for _ in range(TUPLES):
            arguments = [
                chance.choice(chance.choice((EDGES, EDGES, PLACES, descriptors))) for _ in range(6)
            ]
            if chance.random() < 0.7:
                arguments[0] = chance.choice(descriptors)
            kernel.guest.space.load(DATA, words(kernel, chance))
            begin = time.monotonic()
            outcome = perform(kernel, name, arguments)
            assert isinstance(outcome, Returned | Failed | Replaced | None), (name, arguments)
            assert time.monotonic() - begin < SECONDS, (name, arguments)
        if name in ("close", "close_range", "dup2", "dup3", "unlink", "chdir"):
            kernel, descriptors = opened(root, is64)


def perform(kernel: Kernel, name: str, arguments: list[int]) -> Outcome | None:
    """Return the outcome of a call; None where the program waits for ever, or ends."""
    if name in ("exit", "exit_group"):
        return None
    try:
        return kernel(name, *arguments)
    except UnsupportedError:
        return None


SIZES = ((1 << 63) - 1, (1 << 63) - 2, 1 << 62, (1 << 62) + 1)


@WIDTHS
@pytest.mark.parametrize(("start", "size"), [*product(SIZES, SIZES)])
def test_no_file_is_allocated_beyond_what_offsets_reach(
    tmp_path: Path, is64: bool, start: int, size: int
) -> None:
    kernel, descriptors = opened(tmp_path, is64)
    pairs = (start, size) if is64 else (start >> 32, start, size >> 32, size)
    kernel.fails("EFBIG", "fallocate", descriptors[3], 0, *pairs)


@WIDTHS
def test_no_file_is_sought_beyond_what_offsets_reach(tmp_path: Path, is64: bool) -> None:
    kernel, descriptors = opened(tmp_path, is64)
    end = (1 << 63) - 1
    for descriptor in descriptors:
        for whence in (0, 1, 1, 2, 5):
            if is64:
                outcome = kernel("lseek", descriptor, end, whence)
            else:
                outcome = kernel("_llseek", descriptor, end >> 32, end, DATA, whence)
            allowed = [Failed(sparc.ERRNO[name]) for name in ("EINVAL", "EOVERFLOW", "ESPIPE")]
            at_end = (
                (Returned(0), Returned(end))
                if whence == 0 or descriptor in descriptors[6:8]
                else ()
            )
            assert outcome in (*allowed, *at_end), (descriptor, whence)
        for name in ("getdents64", "read", "write"):
            assert isinstance(
                perform(kernel, name, [descriptor, DATA, 1000, 0, 0, 0]), Returned | Failed | None
            )


CLOCKS = ("time", "gettimeofday", "clock_gettime", "times", "sysinfo", "getrusage", "nanosleep")


@WIDTHS
def test_time_ends_as_on_linux_and_its_calls_do_not(tmp_path: Path, is64: bool) -> None:
    """The longest sleeps there are; the clock then stands at 2^63 - 1 nanoseconds."""
    kernel, _ = opened(tmp_path, is64)
    longest = ((1 << (63 if is64 else 31)) - 1, 999_999_999)
    for _ in range(6):
        kernel.guest.write(DATA, struct.pack(">qq" if is64 else ">ii", *longest))
        assert kernel("nanosleep", DATA, 0) == Returned(0)
    for name in CLOCKS[is64:]:  # 64-bit programs have no "time"
        kernel.guest.write(DATA, bytes(512))
        first = DATA if name in ("time", "gettimeofday", "times", "sysinfo", "nanosleep") else 0
        assert isinstance(kernel(name, first, DATA), Returned), name
    kernel("clock_gettime", 0, DATA)
    if is64:
        assert kernel.unpack(">q") == (((1 << 63) - 1) // 10**9,)


def test_one_call_does_not_outlast_the_time(tmp_path: Path) -> None:
    """The clock of the run is up while the third piece of a write is under way."""
    kernel, descriptors = opened(tmp_path, is64=True)
    asked = iter([False, False, True])
    kernel.host.interrupted = lambda: next(asked)
    vectors = struct.pack(">QQ", DATA, SIZE) * 1024
    kernel.guest.write(DATA + 0x80000, vectors)
    with pytest.raises(RunInterrupted):
        kernel("writev", descriptors[3 + 3], DATA + 0x80000, 1024)
    assert list(asked) == []
