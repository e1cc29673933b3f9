"""What the kernel has counted in its hash tables."""

from __future__ import annotations

from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.memory import EngineMemory


def hashed_counts(memory: EngineMemory, table: int) -> dict[int, int]:
    """Path number -> count in a hash table."""
    state, numbers = memory.state, {key: number for number, key in memory._long_keys.items()}
    first = int(state.tables[table * kernels.TABLE_WORDS + kernels.TABLE_HEADS])
    buckets = int(state.costs[kernels.BUCKET_MASK]) + 1
    counts = {}
    for node in state.heads[first : first + buckets].tolist():
        while node:
            at = (node - 1) * kernels.NODE
            key, count, node, _ = state.nodes[at : at + kernels.NODE].tolist()
            counts[numbers.get(key, key)] = count
    return counts


def counts_of(lowering: Lowering, routine: int, slot: int) -> dict[int, int] | None:
    """Return the counts in a routine's hash table of a scheme, None if it has none."""
    tables = {owner: table for table, owner in lowering.tables().items()}
    table = tables.get((routine, slot))
    return None if table is None else hashed_counts(lowering.memory, table)
