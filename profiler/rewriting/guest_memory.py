"""The memory that an instrumented program needs besides its own.

`RUNTIME_DATA` is shared with the run-time routines (`layout`); what the start and the end of an
instrumented program keep there:

======  ==========  =============================================================
offset  name        contents
======  ==========  =============================================================
0       stack       %sp at the program's start: where walks of the stack end
8       length      bytes of `name`
12      process     the number of the process that the program started as
16      target      address of the name that is opened: `part`, or that of a device
24      handler     address of our handler of signals
32      end         how the process ends (`counter_file`)
0x1000  name        the counter file's name, ended by a zero
0x2000  part        the name that it has until it is complete
0x3400  frames      words of the stack's frames on their way to the file
======  ==========  =============================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simprof.profiler.code.layout import RUNTIME_DATA, TRACE_BUFFER
from simprof.profiler.schemes.tracing.flush import DESCRIPTOR, TRACE_END
from simprof.simulator.binary.program import PAGE_SIZE, page_up

Auxiliary = tuple[tuple[int, int], ...]
"""Keys of the auxiliary vector with their values."""

RUNTIME_DATA_SIZE = 0x4000
START_STACK = 0
NAME_LENGTH = 8
PROCESS = 12
TARGET = 16
HANDLER = 24
END = 32
NAME = RUNTIME_DATA + 0x1000
PART = RUNTIME_DATA + 0x2000
FRAMES = RUNTIME_DATA + 0x3400
FRAMES_END = RUNTIME_DATA + RUNTIME_DATA_SIZE
LONGEST_NAME = 4000
"""Bytes of the longest name; Linux takes 4,095."""


@dataclass(frozen=True)
class Dumped:
    """A region of memory that the counter file holds.

    Attributes
    ----------
    address
        Where it begins.
    size
        Its bytes; None where `end` tells.
    end
        Where a word lies that holds the address behind the region's last byte (a hash table's
        `free`).
    """

    address: int
    size: int | None
    end: int | None = None

    def __post_init__(self) -> None:
        """Check that one of the two tells the size."""
        if (self.size is None) == (self.end is None):
            raise ValueError("a region has either a size or a word that holds its end")


@dataclass(frozen=True)
class Memory:
    """What the start of an instrumented program maps and fills, and what its end writes.

    Attributes
    ----------
    regions
        (address, size in bytes) of the memory to map; all below 2 GB.
    fills
        (address, contents) of what is not zero in it at first, in words.
    dumped
        What the counter file holds, in its order.
    trace
        Whether a trace is written, in bytes or in bits.
    auxiliary
        What the program shall see in its auxiliary vector, whatever the kernel has put there; each
        key is there once.
    signals
        Whether the file is written when a signal ends the program, too.
    """

    regions: tuple[tuple[int, int], ...]
    fills: tuple[tuple[int, bytes], ...] = ()
    dumped: tuple[Dumped, ...] = ()
    trace: str | None = None
    auxiliary: Auxiliary = ()
    signals: bool = False


@dataclass(frozen=True)
class Run:
    """`count` equal words from `address` on."""

    address: int
    word: int
    count: int


def mapped(memory: Memory) -> list[tuple[int, int]]:
    """Return (address, size) of what to map: disjoint runs of whole pages, by address."""
    regions = [*memory.regions, (RUNTIME_DATA, RUNTIME_DATA_SIZE)]
    if memory.trace is not None:
        regions.append((TRACE_BUFFER, TRACE_END + DESCRIPTOR + 4 - TRACE_BUFFER))
    runs: list[tuple[int, int]] = []
    for address, size in sorted(regions):
        start, end = address // PAGE_SIZE * PAGE_SIZE, page_up(address + size)
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        elif size:
            runs.append((start, end))
    return [(start, end - start) for start, end in runs]


def filled(memory: Memory) -> list[Run]:
    """Return the fills as runs of equal words; memory that is mapped afresh holds zeros."""
    return [run for address, data in memory.fills for run in _runs(address, data)]


def _runs(address: int, data: bytes) -> Iterator[Run]:
    if address % 4 or len(data) % 4:
        raise ValueError(f"the fill at {address:#x} is not made of words")
    stored = np.frombuffer(data, dtype=">u4")
    starts = np.flatnonzero(np.diff(stored, prepend=stored[:1] + 1))
    counts = np.diff(starts, append=len(stored))
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        if word := int(stored[start]):
            yield Run(address + 4 * start, word, count)
