"""Schemes on a recorded run: what its activations crossed, crossed again without the program.

The counterpart of `recording`. Schemes are lowered as for a run (`lowering`), and the kernel's
arrays hold afterwards what they would after it, apart from the counts of transitions between
translation blocks, of which there are none.

A recording that was cut says nothing of its end: `CutRun` finds its edge counts and who was alive.
Each activation is known up to the last token that it had (`recording_kernel`), which is where a
segment ended or it began to wait for another of its routine. There it is taken to end early: in the
block that the last edge leads to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine import kernels, recording_kernel, replay_kernel
from simprof.profiler.engine.activations import EarlyEnd
from simprof.profiler.engine.lowering import Lowering, fuse
from simprof.profiler.engine.memory import Operation
from simprof.profiler.engine.recording import RecordedPiece, RecordedStretch
from simprof.profiler.graphs.cfg import ControlFlowGraph

Array = kernels.Array
Bytes = npt.NDArray[np.uint8]


class DamagedError(Exception):
    """A recording has what no run can do."""


_DROP = RecordedStretch(-1, (), recording_kernel.ENDS)


def _streams(piece: RecordedPiece, known: Container[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the routines of a piece, and where the bytes of each begin and end."""
    start = 0
    for number, end in zip(piece.routines.tolist(), piece.ends.tolist(), strict=True):
        if number not in known or not start <= end <= len(piece.data):
            raise DamagedError
        yield number, start, end
        start = end


@dataclass
class _ReplayedRoutine:
    """One routine's part of the replay: its stretches, and its activations that are alive."""

    stretches: list[RecordedStretch] = field(default_factory=lambda: [_DROP])
    lists: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    flags: Array = field(default_factory=lambda: np.array([recording_kernel.ENDS]))
    frames: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, stretches: Sequence[RecordedStretch]) -> None:
        """Add stretches that are new."""
        self.stretches += stretches
        unknown = np.full(len(stretches), replay_kernel.UNKNOWN, np.int64)
        self.lists = np.concatenate([self.lists, unknown])
        self.flags = np.concatenate([self.flags, [stretch.does for stretch in stretches]])


class Replayer:
    """Replays one recording."""

    # `lowering`: What the kernel does on each edge for the schemes.
    # `first_edge`, `first_block`: Routine -> program-wide number of its edge 0, and of its block 0.
    # `routines`: Numbers of the only routines that are replayed; None: all.
    # `early`: How activations ended early, and how many did so.

    def __init__(
        self,
        lowering: Lowering,
        first_edge: Array,
        first_block: Array,
        routines: Container[int] | None = None,
    ) -> None:
        self._wanted = routines
        self.early: Counter[EarlyEnd] = Counter()
        self._lowering = lowering
        self._memory = lowering.memory
        self._first_edge = first_edge
        self._first_block = first_block
        self._routines: dict[int, _ReplayedRoutine] = {}
        self._known: dict[tuple[Operation, ...], int] = {(): 0}
        self._words = np.zeros(replay_kernel.WORDS, np.int64)
        self._nothing = self._memory.add_operations([(kernels.ADD, 0, 0)])

    def play(self, piece: RecordedPiece) -> None:
        """Replay the next piece of the recording."""
        # Raises `DamagedError` if it tells what cannot be.
        new: dict[int, list[RecordedStretch]] = {}
        for stretch in piece.stretches:
            new.setdefault(stretch.routine, []).append(stretch)
        for number, stretches in new.items():
            self._routines.setdefault(number, _ReplayedRoutine()).add(stretches)
        for number, start, end in _streams(piece, self._routines):
            if self._wanted is None or number in self._wanted:
                self._play_routine(number, np.frombuffer(piece.data, np.uint8), start, end)

    def _play_routine(self, number: int, data: Bytes, start: int, end: int) -> None:
        routine, words, clock = self._routines[number], self._words, self._memory.clock
        words[:] = 0
        words[replay_kernel.POSITION], words[replay_kernel.END] = start, end
        words[replay_kernel.DATA] = data.ctypes.data
        words[replay_kernel.LISTS] = routine.lists.ctypes.data
        words[replay_kernel.DOES] = routine.flags.ctypes.data
        words[replay_kernel.STRETCHES] = len(routine.lists)
        words[replay_kernel.HASHED] = self._lowering.hashes_paths(number)
        alive = len(routine.frames)
        self._memory.state.frames[kernels.STRIDE : kernels.STRIDE + alive] = routine.frames
        clock[kernels.FRAME] = alive
        while True:
            status = replay_kernel.call_replay(self._memory.address, words.ctypes.data)
            match status:
                case replay_kernel.DONE:
                    break
                case replay_kernel.NEW_STRETCH:
                    stretch = int(words[replay_kernel.STRETCH])
                    routine.lists[stretch] = self._list(routine.stretches[stretch])
                    words[replay_kernel.HASHED] = self._lowering.hashes_paths(number)
                case replay_kernel.NEW_SEGMENT:
                    self._new_segment()
                case replay_kernel.NO_NODES:
                    self._memory.grow_nodes()
                case replay_kernel.EARLY:
                    stretch = int(words[replay_kernel.STRETCH])
                    self._end_early(number, routine.stretches[stretch].block)
                case _:
                    raise DamagedError
        alive = int(clock[kernels.FRAME])
        frames = self._memory.state.frames[kernels.STRIDE : kernels.STRIDE + alive]
        routine.frames = frames.copy()

    def end_alive(self, alive: Mapping[int, Sequence[int]]) -> None:
        """End the activations that the recording leaves alive, where it was cut."""
        # `alive`: Routine -> of each activation, outermost first, the block that it is in; -1 of
        # one that has crossed no edge, of which nothing is counted (`CutRun`).
        for number, blocks in alive.items():
            if self._wanted is not None and number not in self._wanted:
                continue
            first = int(self._first_block[number])
            frames = self._routines[number].frames.reshape(-1, kernels.STRIDE)
            for frame, block in zip(frames.tolist(), blocks, strict=True):
                if block >= 0:
                    register = frame[kernels.FRAME_PATH]
                    state = frame[kernels.FRAME_SEGMENTS]
                    self.early[EarlyEnd(first + block, register, state)] += 1

    def _list(self, stretch: RecordedStretch) -> int:
        """Return the number of the first operation of a stretch, 0 if it has none."""
        base, end = (int(self._first_edge[stretch.routine + i]) for i in range(2))
        if not all(base + edge < end for edge in stretch.edges):
            raise DamagedError
        operations: list[Operation] = []
        for edge in stretch.edges:
            operations += self._lowering.operations(base + edge)
        key = tuple(fuse(operations))
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self._memory.add_operations(list(key))
        return number

    def _new_segment(self) -> None:
        """Add the transition that is missing; where there cannot be one, go on behind it."""
        operation = int(self._words[replay_kernel.NEXT])
        words = self._memory.state.operations[operation * kernels.OPERATION :]
        frame = int(self._memory.clock[kernels.FRAME])
        state, register = self._memory.segment(frame)
        if not self._lowering.products.resolve(state, register + int(words[1])):
            is_last = self._memory.is_last(operation)
            self._words[replay_kernel.NEXT] = self._nothing if is_last else operation + 1

    def _end_early(self, routine: int, block: int) -> None:
        clock = self._memory.clock
        frame = int(clock[kernels.FRAME])
        state, register = self._memory.segment(frame)
        end = EarlyEnd(int(self._first_block[routine]) + block, register, state)
        self.early[end] += int(self._words[replay_kernel.WEIGHT])
        clock[kernels.FRAME] = frame - kernels.STRIDE


_ROOM = 64


@dataclass
class _CountedRoutine:
    """One routine's stretches, how often each was executed, and who is alive."""

    stretches: list[RecordedStretch] = field(default_factory=list)
    flags: Array = field(default_factory=lambda: np.array([recording_kernel.ENDS]))
    counts: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    alive: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, stretch: RecordedStretch) -> None:
        """Add a stretch that is new."""
        self.stretches.append(stretch)
        crosses = replay_kernel.CROSSES if stretch.edges else 0
        self.flags = np.append(self.flags, stretch.does | crosses)
        self.counts = np.append(self.counts, 0)


class CutRun:
    """Counts what the pieces of a recording say."""

    # `routines`: The graphs, by number of the routine.

    def __init__(self, routines: Sequence[ControlFlowGraph]) -> None:
        self._graphs = routines
        self._routines: dict[int, _CountedRoutine] = {}
        self._words = np.zeros(replay_kernel.WORDS, np.int64)

    def take(self, piece: RecordedPiece) -> None:
        """Count the next piece; raises `DamagedError` if it tells what cannot be."""
        for stretch in piece.stretches:
            if not stretch.routine < len(self._graphs):
                raise DamagedError
            if not all(edge < len(self._graphs[stretch.routine].edges) for edge in stretch.edges):
                raise DamagedError
            self._routines.setdefault(stretch.routine, _CountedRoutine()).add(stretch)
        for number, start, end in _streams(piece, self._routines):
            data = np.frombuffer(piece.data, np.uint8)
            self._count(self._routines[number], data, start, end)

    def _count(self, routine: _CountedRoutine, data: np.ndarray, start: int, end: int) -> None:
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
