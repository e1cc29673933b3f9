"""What native code must know to handle a landing: noted when Python has handled one like it.

The counterpart of `landing_kernel`, which says how it is laid out. Nothing of it is there, and
nothing is loaded, until a program leaves an activation by something else than its return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine import kernels, landing_kernel
from simprof.profiler.engine.activations import EarlyEnd, Tally
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.walk import UNKNOWN, Cross, GraphIndex, MissingEntry, Step

Array = npt.NDArray[np.int64]
_LANDINGS = 1 << 6
_ENDS = 1 << 10


@dataclass(frozen=True)
class _Landing:
    """What is counted at a landing."""

    # The ENTRY edge that is crossed, or what the graphs lack in its place.
    entered: Cross | MissingEntry
    uncrossed: tuple[int, ...]  # edges that are not crossed, though a transition says so


class Landings:
    """The landings of one run that native code handles.

    - `memory`, `index`, `tally`: Of the run.
    - `stack_mask`: All ones of the program's register width.
    - `operation`: Steps -> number of the first operation that executes them.
    """

    def __init__(
        self,
        memory: EngineMemory,
        index: GraphIndex,
        tally: Tally,
        stack_mask: int,
        operation: Callable[[tuple[Step, ...]], int],
    ) -> None:
        self._memory = memory
        self._index = index
        self._tally = tally
        self._operation = operation
        self._landings: list[_Landing] = []
        self._rows = np.zeros(_LANDINGS * landing_kernel.LANDING, np.int64)
        self._known: dict[EarlyEnd, None] = {}
        self._ends = np.zeros(_ENDS * landing_kernel.END, np.int64)
        self._waits = _waits(index)
        clock = memory.clock
        clock[kernels.STACK_MASK] = stack_mask - (stack_mask >> 63 << 64)
        clock[kernels.WAITS_BASE] = index.recovered.code.base
        clock[kernels.WAITS] = len(self._waits)
        clock[kernels.WAITS_POINTER] = self._waits.ctypes.data
        self._publish()
        clock[kernels.LAND_PART] = landing_kernel.part()

    def _publish(self) -> None:
        clock = self._memory.clock
        clock[kernels.LANDINGS_POINTER] = self._rows.ctypes.data
        clock[kernels.ENDS_POINTER] = self._ends.ctypes.data
        clock[kernels.ENDS_MASK] = len(self._ends) // landing_kernel.END - 1

    def add_end(self, end: EarlyEnd) -> None:
        """Let native code count this way to end, which Python has counted."""
        if end in self._known:
            return
        self._known[end] = None
        if 2 * len(self._known) * landing_kernel.END > len(self._ends):
            self._collect_ends()
            self._ends = np.zeros(2 * len(self._ends), np.int64)
            self._publish()
            for known in self._known:
                self._place_end(known)
        else:
            self._place_end(end)

    def _place_end(self, end: EarlyEnd) -> None:
        rows = self._ends.reshape(-1, landing_kernel.END)
        key = end.block + 1, end.register, end.segments
        place = landing_kernel.end_place(*key, len(rows) - 1)
        while rows[place, landing_kernel.END_BLOCK]:
            place = (place + 1) % len(rows)
        rows[place] = (*key, 0)

    def add(
        self, operation: int, address: int, block: int, uncrossed: tuple[int, ...] | None
    ) -> None:
        """Let native code handle a landing that Python has handled.

        Nothing is done where it could have been: it was left to Python for another reason.

        - `operation`: The one at which the kernel stopped.
        - `address`: Where control arrived.
        - `block`: The block that control left; UNKNOWN if its end had been counted.
        - `uncrossed`: Edges that the transition counts behind its RETURN; None where control did
          not return.
        """
        if self._memory.state.operations[operation * kernels.OPERATION + 2]:
            return
        landing = self._index.block_at(address)
        edge = self._index.entry_edge.get(landing)
        entered = MissingEntry(address) if edge is None else Cross(edge)
        self._landings.append(_Landing(entered, uncrossed or ()))
        number = len(self._landings)
        if (number + 1) * landing_kernel.LANDING > len(self._rows):
            larger = np.zeros(2 * len(self._rows), np.int64)
            larger[: len(self._rows)] = self._rows
            self._rows = larger
            self._publish()
        row = self._rows.reshape(-1, landing_kernel.LANDING)[number]
        row[landing_kernel.RETURNED] = uncrossed is not None
        row[landing_kernel.BLOCK] = 0 if block == UNKNOWN else block + 1
        if landing != UNKNOWN:
            row[landing_kernel.ROUTINE] = self._index.routine(landing) + 1
        if isinstance(entered, Cross):
            row[landing_kernel.ENTRY] = self._operation((entered,))
        self._memory.state.operations[operation * kernels.OPERATION + 2] = number

    def collect(self) -> None:
        """Add to the tally what native code has counted since this was last called."""
        self._collect_ends()
        counts = self._rows.reshape(-1, landing_kernel.LANDING)[:, landing_kernel.COUNT]
        for landing, count in zip(self._landings, counts[1:].tolist(), strict=False):
            if isinstance(landing.entered, Cross):
                self._tally.crossed[landing.entered.edge] += count
            elif count:
                self._tally.missing[landing.entered] += count
            for edge in landing.uncrossed:
                self._tally.crossed[edge] -= count
        counts[:] = 0

    def _collect_ends(self) -> None:
        rows = self._ends.reshape(-1, landing_kernel.END)
        for block, register, segments, count in rows[
            rows[:, landing_kernel.END_COUNT] > 0
        ].tolist():
            self._tally.early[EarlyEnd(block - 1, register, segments)] += count
        rows[:, landing_kernel.END_COUNT] = 0


def _waits(index: GraphIndex) -> Array:
    """Return where callers wait, by word of the code that they go on at (`landing_kernel`)."""
    place = index.recovered.code.place
    calls = index.call_blocks
    waits = np.zeros(len(index.recovered.code.words) + 2, np.int64)
    ends = place.indices(np.fromiter(calls, np.int64, len(calls)))
    blocks = np.fromiter(calls.values(), np.int64, len(calls))
    values = (index.routine_of_block[blocks].astype(np.int64) + 1) << 32 | blocks + 1
    waits[ends + 1] = values  # returns behind an `unimp`, unless another call returns there
    waits[ends] = values
    return waits
