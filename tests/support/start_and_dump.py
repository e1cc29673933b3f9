"""Shared by tests: what `tests/rewriting/test_start_and_dump.py` and others use."""

from __future__ import annotations

import struct

from simprof.profiler.code.hash_routine import TableLayout
from simprof.profiler.code.layout import ARRAYS_BASE, TABLE_SPAN, TABLES_BASE
from simprof.profiler.rewriting.elsewhere.counter_file import FileRegion, RegionKind
from simprof.profiler.rewriting.elsewhere.runtime import StartMemory
from simprof.simulator.binary.program import MachineKind
from tests.rewriting.extended import HEADER, STATUS, Extended

MACHINES = list(MachineKind)

COUNTERS = struct.pack(">10I", 7, 7, 7, 0, 0, 1, 2, 3, 0xFFFFFFFF, 9)

TABLE = TableLayout(1).initial(TABLES_BASE)

MEMORY = StartMemory(
    regions=((ARRAYS_BASE, 20000), (TABLES_BASE, 1 << 18)),
    fills=((ARRAYS_BASE, COUNTERS), (TABLES_BASE, TABLE)),
    dumped=(
        FileRegion(RegionKind.ARRAY, ARRAYS_BASE, 48),
        FileRegion(RegionKind.TABLE, TABLES_BASE, TABLE_SPAN),
    ),
)


def expected_file(extended: Extended, depth: int, regions: bytes) -> bytes:
    word = "Q" if extended.machine is MachineKind.SPARCV9 else "I"
    frames = extended.frames(depth)
    stack = struct.pack(f">II{len(frames)}{word}", len(frames), 0x100 + STATUS, *frames)
    return HEADER + regions + stack + b"simprof\n"


REGIONS = COUNTERS + bytes(8) + TABLE[: TableLayout().pool]
