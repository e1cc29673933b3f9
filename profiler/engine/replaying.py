"""Schemes on a recorded run: what its activations crossed, crossed again without the program.

The counterpart of `recording`. Schemes are lowered as for a run (`lowering`), and the kernel's
arrays hold afterwards what they would after it, apart from the counts of transitions between
translation blocks, of which there are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine import kernels, recording_kernel, replay_kernel
from simprof.profiler.engine.activations import EarlyEnd
from simprof.profiler.engine.lowering import Lowering, fuse
from simprof.profiler.engine.memory import Operation
from simprof.profiler.engine.recording import RecordedPiece, RecordedStretch

Array = kernels.Array
Bytes = npt.NDArray[np.uint8]


class DamagedError(Exception):
    """A recording has what no run can do."""


_DROP = RecordedStretch(-1, (), recording_kernel.ENDS)


@dataclass
class _Routine:
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
    """Replays one recording.

    Parameters
    ----------
    lowering
        What the kernel does on each edge for the schemes.
    first_edge, first_block
        Routine -> program-wide number of its edge 0, and of its block 0.
    routines
        Numbers of the only routines that are replayed; None: all.

    Attributes
    ----------
    early
        How activations ended early, and how many did so.
    """

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
        self._routines: dict[int, _Routine] = {}
        self._known: dict[tuple[Operation, ...], int] = {(): 0}
        self._words = np.zeros(replay_kernel.WORDS, np.int64)
        self._nothing = self._memory.add_operations([(kernels.ADD, 0, 0)])

    def play(self, piece: RecordedPiece) -> None:
        """Replay the next piece of the recording.

        Raises
        ------
        DamagedError
            If it tells what cannot be.
        """
        new: dict[int, list[RecordedStretch]] = {}
        for stretch in piece.stretches:
            new.setdefault(stretch.routine, []).append(stretch)
        for number, stretches in new.items():
            self._routines.setdefault(number, _Routine()).add(stretches)
        data = np.frombuffer(piece.data, np.uint8)
        start = 0
        for number, end in zip(piece.routines.tolist(), piece.ends.tolist(), strict=True):
            if number not in self._routines or not start <= end <= len(data):
                raise DamagedError
            if self._wanted is None or number in self._wanted:
                self._play_routine(number, data, start, end)
            start = end

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
        """End the activations that the recording leaves alive, where it was cut.

        Parameters
        ----------
        alive
            Routine -> of each activation, outermost first, the block that it is in; -1 of one that
            has crossed no edge, of which nothing is counted (`cut_run`).
        """
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
