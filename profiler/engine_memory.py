"""The kernel's arrays: allocation, growth, and the layout of what Python puts there.

Everything that native code reads while a program runs lives here. Arrays grow by being replaced;
their addresses are published in the clock, whose own address never changes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from profiler import kernels
from profiler.lowering import CounterArea, Lowering, Operation

Array = npt.NDArray[np.int64]
Successor = tuple[int, int, int, int]
"""(key, count, next state, operation): the words of `kernels.SUCCESSOR`."""

MAXIMUM_DEPTH = 1 << 22
"""Activations that can be live at once. Frames cost memory only once they are used."""
_STATES = 1 << 14
_SPILL = 1 << 15
_NODES = 1 << 16


class EngineMemory:
    """The arrays of one run.

    Parameters
    ----------
    registers
        Path registers of an activation.
    costs
        Cost words of the hashing routine (`Lowering.costs`).
    depth
        Activations that can be live at once.
    """

    def __init__(self, registers: int, costs: Array, depth: int = MAXIMUM_DEPTH) -> None:
        clock = np.zeros(kernels.CLOCK_WORDS, np.int64)
        stride = kernels.FRAME_REGISTERS + 2 * registers
        clock[kernels.STRIDE] = stride
        clock[kernels.FRAME_LIMIT] = stride * depth
        clock[kernels.SPILL_MASK] = _SPILL - 1
        clock[kernels.WEIGHT] = 1
        clock[kernels.STATE] = kernels.START
        self.state = kernels.KernelState(
            clock=clock,
            rows=np.zeros(_STATES * kernels.ROW, np.int64),
            spill=np.zeros(_SPILL * kernels.SPILL, np.int64),
            operations=np.zeros(1 << 12, np.int64),
            frames=np.zeros(stride * (depth + 1), np.int64),
            counters=np.zeros(1, np.int64),
            tables=np.zeros(1, np.int64),
            heads=np.zeros(1, np.int64),
            nodes=np.zeros(1, np.int64),
            costs=costs,
        )
        self.state.publish()
        self._successors = 0
        self._used_operations = kernels.OPERATION  # number 0 means none

    @property
    def clock(self) -> Array:
        """The words shared with the machine and its traps."""
        return self.state.clock

    @property
    def address(self) -> int:
        """What the kernel's functions take."""
        return self.state.address

    def _replace(self, **arrays: Array) -> None:
        self.state = self.state._replace(**arrays)
        self.state.publish()

    def execute(self, operation: int, address: int) -> int:
        """Execute operations from number `operation`; return the kernel's status."""
        return kernels.execute(self.address, operation, address)

    def make_row(self, state: int) -> None:
        """Make room for the row of a new state."""
        if state + kernels.START > self.state.rows.nbytes:
            self._replace(rows=_grown(self.state.rows, 2 * len(self.state.rows)))

    def insert(self, state: int, successor: Successor) -> int | None:
        """Store a new successor of `state`; return its count's place in `rows`, None if spilled."""
        self._successors += 1
        rows = self.state.rows
        first = state // 8
        for at in (first, first + kernels.SUCCESSOR):
            if rows[at] == 0:
                rows[at : at + kernels.SUCCESSOR] = successor
                return at + kernels.COUNT_OF
        if 2 * self._successors > int(self.clock[kernels.SPILL_MASK]):
            self._grow_spill()
        self._spill(state, successor)
        return None

    def _spill(self, state: int, successor: Successor) -> None:
        kernels.spilled(self.address, state, successor[kernels.KEY])  # finds the place
        at = int(self.clock[kernels.MISS_SLOT]) * kernels.SPILL
        self.state.spill[at : at + kernels.SPILL] = *successor, state

    def _grow_spill(self) -> None:
        old = self.state.spill.reshape(-1, kernels.SPILL)
        size = 4 * len(old)
        self.clock[kernels.SPILL_MASK] = size - 1
        self._replace(spill=np.zeros(size * kernels.SPILL, np.int64))
        for key, count, target, operation, owner in old[old[:, kernels.OWNER] != 0].tolist():
            self._spill(owner, (key, count, target, operation))

    def spilled_counts(self) -> dict[tuple[int, int], int]:
        """(state, key) -> count of every spilled successor."""
        spill = self.state.spill.reshape(-1, kernels.SPILL)
        used = spill[spill[:, kernels.OWNER] != 0].tolist()
        return {(owner, key): count for key, count, _, _, owner in used}

    def add_operations(self, operations: list[Operation]) -> int:
        """Append a list of operations; return the number of its first."""
        words = []
        for place, (code, a, b) in enumerate(operations):
            words += [code | kernels.LAST if place == len(operations) - 1 else code, a, b]
        start, end = self._used_operations, self._used_operations + len(words)
        if end > len(self.state.operations):
            self._replace(operations=_grown(self.state.operations, 2 * end))
        self.state.operations[start:end] = words
        self._used_operations = end
        return start // kernels.OPERATION

    def fit(self, lowering: Lowering) -> None:
        """Make room for the counters and hash tables of everything lowered so far."""
        if lowering.counters > len(self.state.counters):
            self._replace(counters=_grown(self.state.counters, 2 * lowering.counters))
        self.clock[kernels.COUNTERS] = lowering.counters
        known = int(self.clock[kernels.TABLES])
        if lowering.tables > known:
            self.clock[kernels.TABLES] = lowering.tables
            tables = _grown(self.state.tables, lowering.tables * kernels.TABLE_WORDS)
            headers = [lowering.table_header(table) for table in range(known, lowering.tables)]
            tables[known * kernels.TABLE_WORDS :] = np.array(headers).ravel()
            self._replace(tables=tables, heads=_grown(self.state.heads, lowering.heads))

    def grow_nodes(self) -> None:
        """Make room for more executed paths in hash tables."""
        limit = max(_NODES, 2 * int(self.clock[kernels.NODE_LIMIT]))
        self._replace(nodes=_grown(self.state.nodes, limit * kernels.NODE))
        self.clock[kernels.NODE_LIMIT] = limit

    def reserve_nodes(self, paths: int) -> None:
        """Make room for as many more executed paths in hash tables, without a pause."""
        while int(self.clock[kernels.NODE_LIMIT]) <= int(self.clock[kernels.NODES]) + paths:
            self.grow_nodes()

    def path_counts(self, area: CounterArea) -> dict[int, int]:
        """Path number -> count, where that is not 0."""
        if area.table >= 0:
            return self._hashed_counts(area.table)
        values = self.state.counters[area.base : area.base + area.size]
        return {int(i): int(values[i]) for i in np.flatnonzero(values)}

    def _hashed_counts(self, table: int) -> dict[int, int]:
        state = self.state
        first = int(state.tables[table * kernels.TABLE_WORDS + kernels.TABLE_HEADS])
        buckets = int(state.costs[kernels.BUCKET_MASK]) + 1
        found = {}
        for node in state.heads[first : first + buckets].tolist():
            while node:
                at = (node - 1) * kernels.NODE
                key, count, node = state.nodes[at : at + kernels.NODE].tolist()
                found[key] = count
        return found

    def hashing(self, area: CounterArea) -> tuple[int, int]:
        """(calls, instructions) of the hashing routine on the table of `area`."""
        if area.table < 0:
            return 0, 0
        at = area.table * kernels.TABLE_WORDS
        header = self.state.tables[at : at + kernels.TABLE_WORDS].tolist()
        remembered = header[kernels.TABLE_REMEMBERED]
        spent = remembered * int(self.state.costs[kernels.COST_REMEMBERED])
        return (
            header[kernels.TABLE_CALLS] + remembered,
            header[kernels.TABLE_INSTRUCTIONS] + spent,
        )


def _grown(array: Array, size: int) -> Array:
    larger = np.zeros(size, np.int64)
    larger[: len(array)] = array
    return larger
