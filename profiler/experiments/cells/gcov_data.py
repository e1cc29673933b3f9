"""Files of counters that programs built with gcc's -fprofile-arcs write (*.gcda).

A file is a header (magic, version, stamp, checksum) and records of a tag, a length in bytes and
data, all in words of 32 bits of the program's machine: here big-endian. A function's record is
followed by that of its counters, 64 bits each with the lower half first; a negative length stands
for counters that are all 0 (GCC 12, gcov-io.h).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from simprof.simulator.errors import UsageError

MAGIC = b"gcda"
HEADER = 16
FUNCTION = 0x0100_0000
ARC_COUNTERS = 0x01A1_0000
SUFFIX = ".gcda"


def arc_counts(path: Path) -> dict[int, tuple[int, ...]]:
    """Return the counters of each function in a file, by gcc's number of the function.

    Raises
    ------
    UsageError
        If the file cannot be read, or is cut or none of a big-endian program's.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None
    if data[: len(MAGIC)] != MAGIC:
        raise UsageError(f"{path.name} holds no counters of a big-endian program")
    counts: dict[int, tuple[int, ...]] = {}
    function = None
    for tag, length, body in _records(path, data):
        if tag == FUNCTION and body:
            (function,) = struct.unpack_from(">I", body)
        elif tag == ARC_COUNTERS and function is not None:
            counts[function] = _counters(body) or (0,) * (-length // 8)
    return counts


def _records(path: Path, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = HEADER
    while at < len(data) and data[at : at + 4] != bytes(4):
        if at + 8 > len(data):
            raise UsageError(f"{path.name} is cut")
        tag, length = struct.unpack_from(">Ii", data, at)
        body = data[at + 8 : at + 8 + max(length, 0)]
        if len(body) < length:
            raise UsageError(f"{path.name} is cut")
        yield tag, length, body
        at += 8 + len(body)


def _counters(body: bytes) -> tuple[int, ...]:
    return tuple(low | high << 32 for low, high in struct.iter_unpack(">II", body))


def arc_increments(directory: Path) -> int:
    """Return how often gcc's counters count, in all files below a directory.

    Raises
    ------
    UsageError
        If there is no such file, or one cannot be read.
    """
    files = sorted(directory.rglob(f"*{SUFFIX}"))
    if not files:
        raise UsageError("the program wrote no counters of gcc's")
    return sum(sum(counts) for file in files for counts in arc_counts(file).values())
