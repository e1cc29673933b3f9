"""What is known of a run whose recording was cut: its edges, and who was alive.

The counterpart of what a whole recording says at its end. Each activation is known up to the last
token that it had (`recording_kernel`), which is where a segment ended or it began to wait for
another of its routine. There it is taken to end early: in the block that the last edge leads to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simprof.profiler.engine import kernels, recording_kernel, replay_kernel
from simprof.profiler.engine.recording import RecordedPiece, RecordedStretch
from simprof.profiler.engine.replaying import DamagedError
from simprof.profiler.graphs.cfg import ControlFlowGraph

Array = kernels.Array
_ROOM = 64


def _none() -> Array:
    return np.zeros(0, np.int64)


@dataclass
class _Routine:
    """One routine's stretches, how often each was executed, and who is alive."""

    stretches: list[RecordedStretch] = field(default_factory=list)
    flags: Array = field(default_factory=lambda: np.array([recording_kernel.ENDS]))
    counts: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    alive: Array = field(default_factory=_none)

    def add(self, stretch: RecordedStretch) -> None:
        """Add a stretch that is new."""
        self.stretches.append(stretch)
        crosses = replay_kernel.CROSSES if stretch.edges else 0
        self.flags = np.append(self.flags, stretch.does | crosses)
        self.counts = np.append(self.counts, 0)


class CutRun:
    """Counts what the pieces of a recording say.

    Parameters
    ----------
    routines
        The graphs, by number of the routine.
    """

    def __init__(self, routines: Sequence[ControlFlowGraph]) -> None:
        self._graphs = routines
        self._routines: dict[int, _Routine] = {}
        self._words = np.zeros(replay_kernel.WORDS, np.int64)

    def take(self, piece: RecordedPiece) -> None:
        """Count the next piece.

        Raises
        ------
        DamagedError
            If it tells what cannot be.
        """
        for stretch in piece.stretches:
            if not stretch.routine < len(self._graphs):
                raise DamagedError
            if not all(edge < len(self._graphs[stretch.routine].edges) for edge in stretch.edges):
                raise DamagedError
            self._routines.setdefault(stretch.routine, _Routine()).add(stretch)
        data = np.frombuffer(piece.data, np.uint8)
        start = 0
        for number, end in zip(piece.routines.tolist(), piece.ends.tolist(), strict=True):
            if number not in self._routines or not start <= end <= len(data):
                raise DamagedError
            self._count(self._routines[number], data, start, end)
            start = end

    def _count(self, routine: _Routine, data: np.ndarray, start: int, end: int) -> None:
        words = self._words
        words[:] = 0
        words[replay_kernel.POSITION], words[replay_kernel.END] = start, end
        words[replay_kernel.DATA] = data.ctypes.data
        words[replay_kernel.STRETCHES] = len(routine.flags)
        words[replay_kernel.DOES] = routine.flags.ctypes.data
        words[replay_kernel.COUNTS] = routine.counts.ctypes.data
        words[replay_kernel.DEPTH] = len(routine.alive)
        alive, status = routine.alive, replay_kernel.NO_ROOM
        while status == replay_kernel.NO_ROOM:
            alive = np.concatenate([alive, np.zeros(_ROOM + len(alive), np.int64)])
            words[replay_kernel.ALIVE] = alive.ctypes.data
            words[replay_kernel.ROOM] = len(alive)
            status = replay_kernel.call_count(words.ctypes.data)
        if status != replay_kernel.DONE:
            raise DamagedError
        routine.alive = alive[: int(words[replay_kernel.DEPTH])].copy()

    def edges(self, number: int) -> list[int]:
        """Return how often each edge of a routine was crossed."""
        routine = self._routines[number]
        crossed = [0] * len(self._graphs[number].edges)
        for stretch, count in zip(routine.stretches, routine.counts[1:].tolist(), strict=True):
            for edge in stretch.edges:
                crossed[edge] += count
        return crossed

    @property
    def entered(self) -> list[int]:
        """Routines of which something is known, ascending."""
        return sorted(self._routines)

    @property
    def alive(self) -> dict[int, list[int]]:
        """Routine -> of each activation that is alive, outermost first, its block (-1: none)."""
        found = {}
        for number, routine in self._routines.items():
            edges = self._graphs[number].edges
            found[number] = [
                edges[routine.stretches[stretch - 1].edges[-1]].target if stretch else -1
                for stretch in routine.alive.tolist()
            ]
        return found

    def early(self, number: int) -> Counter[int]:
        """Return block -> how many activations of a routine ended early there, by id."""
        routine = self._routines[number]
        ended: Counter[int] = Counter(block for block in self.alive[number] if block >= 0)
        for stretch, count in zip(routine.stretches, routine.counts[1:].tolist(), strict=True):
            if stretch.does & recording_kernel.ENDS_EARLY:
                ended[stretch.block] += count
        return ended
