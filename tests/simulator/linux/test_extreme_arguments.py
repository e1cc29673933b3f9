"""Every system call that there is, with arguments at the edges: a result or an errno, in time."""

from __future__ import annotations

import random
import time
from itertools import product
from pathlib import Path

import pytest

from simulator.cpu.guest import Failed, Outcome, Replaced, Returned
from simulator.errors import UnsupportedError
from simulator.isa import sparc
from tests.simulator.linux.test_syscalls import DATA, SIZE, Kernel

WIDTHS = pytest.mark.parametrize("is64", [True, False], ids=["64-bit", "32-bit"])
EDGES = (
    *(0, 1, 2, 3, 7, 8, 4095, 8191, 8192, 1 << 16),
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 43) - 8192),
    *(1 << 62, (1 << 63) - 1, (1 << 63) - 8192, 1 << 63, (1 << 64) - 1, (1 << 64) - 100),
)
PLACES = (DATA, DATA + 8, DATA + 1, DATA + SIZE - 1, DATA + SIZE - 8, 0, 8, 0xFFFFFFF8)
NAMES = sorted({*sparc.SYSTEM_CALLS_64.values(), *sparc.SYSTEM_CALLS_32.values()})
TUPLES = 40
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
@pytest.mark.seeds(range(2))
def test_edges_give_a_result_or_an_errno(tmp_path: Path, seed: int, is64: bool) -> None:
    chance = random.Random(seed)
    kernel, descriptors = opened(tmp_path, is64)
    for name in NAMES:
        if name not in kernel.calls.names or name not in kernel.numbers:
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
            kernel, descriptors = opened(tmp_path, is64)


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
