"""Schemes on a recorded run: what its activations crossed, crossed again without the program.

The counterpart of `recording`. Schemes are lowered as for a run (`lowering`), and the kernel's
arrays hold afterwards what they would after it, apart from the counts of transitions between
translation blocks, of which there are none. Stretches are counted, too: a recording that was cut
does not say how often edges were crossed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import field

import numpy as np

from simprof.profiler.engine import kernels, recording_kernel, replay_kernel
from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.memory import Operation
from simprof.profiler.engine.recording import RecordedPiece, RecordedStretch
from simprof.profiler.engine.stacks import EarlyEnd
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.simulator.values import dataclass

Array = kernels.Array


class DamagedError(Exception):
    """A recording has what no run can do."""


_DROP = RecordedStretch(-1, (), recording_kernel.ENDS)


@dataclass
class _ReplayedRoutine:
    """One routine's part of the replay: its stretches, and its activations that are alive."""

    stretches: list[RecordedStretch] = field(default_factory=lambda: [_DROP])
    # By stretch: first operation of its list, what else it does, how often it was executed.
    lists: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    flags: Array = field(default_factory=lambda: np.array([recording_kernel.ENDS]))
    counts: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    frames: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, stretches: Sequence[RecordedStretch]) -> None:
        """Add stretches that are new."""
        self.stretches += stretches
        new = np.zeros(len(stretches), np.int64)
        flags = [each.does | replay_kernel.CROSSES * bool(each.edges) for each in stretches]
        self.lists = np.concatenate([self.lists, new + replay_kernel.UNKNOWN])
        self.flags = np.concatenate([self.flags, flags])
        self.counts = np.concatenate([self.counts, new])


class Replayer:
    """Replays one recording."""

    # `lowering`: What the kernel does on each edge for the schemes.
    # `graphs`: The graphs, by number of the routine.
    # `first_edge`, `first_block`: Routine -> program-wide number of its edge 0, and of its block 0.
    # `routines`: Numbers of the only routines that are replayed; None: all.
    # `early`: How activations ended early, and how many did so.

    def __init__(
        self,
        lowering: Lowering,
        graphs: Sequence[ControlFlowGraph],
        first_edge: Array,
        first_block: Array,
        routines: Container[int] | None = None,
    ) -> None:
        self._wanted = routines
        self.early: Counter[EarlyEnd] = Counter()
        self._lowering = lowering
        self._memory = lowering.memory
        self._graphs = graphs
        self._first_edge = first_edge
        self._first_block = first_block
        self._routines: dict[int, _ReplayedRoutine] = {}
        self._known: dict[tuple[Operation, ...], int] = {(): 0}
        self._words = np.zeros(replay_kernel.WORDS, np.int64)
        self._nothing = self._memory.add_operations([(kernels.ADD, 0, 0)])

    def play(self, piece: RecordedPiece) -> None:
        """Replay the next piece of the recording, whose stretches are of the graphs."""
        # Raises `DamagedError` if it tells what cannot be.
        new: dict[int, list[RecordedStretch]] = {}
        for stretch in piece.stretches:
            new.setdefault(stretch.routine, []).append(stretch)
        for number, stretches in new.items():
            self._routines.setdefault(number, _ReplayedRoutine()).add(stretches)
        data, start = np.frombuffer(piece.data, np.uint8), 0
        for number, end in zip(piece.routines.tolist(), piece.ends.tolist(), strict=True):
            if number not in self._routines or not start <= end <= len(data):
                raise DamagedError
            if self._wanted is None or number in self._wanted:
                self._play_routine(number, data.ctypes.data, start, end)
            start = end

    def _play_routine(self, number: int, data: int, start: int, end: int) -> None:
        routine, words, clock = self._routines[number], self._words, self._memory.clock
        words[:] = 0
        words[replay_kernel.POSITION], words[replay_kernel.END] = start, end
        words[replay_kernel.DATA] = data
        words[replay_kernel.LISTS] = routine.lists.ctypes.data
        words[replay_kernel.DOES] = routine.flags.ctypes.data
        words[replay_kernel.COUNTS] = routine.counts.ctypes.data
        words[replay_kernel.STRETCHES] = len(routine.lists)
        words[replay_kernel.HASHED] = self._lowering.hashes_paths(number)
        alive = len(routine.frames)
        self._memory.state.frames[kernels.STRIDE : kernels.STRIDE + alive] = routine.frames
        clock[kernels.FRAME] = alive
        status = -1
        while status != replay_kernel.DONE:
            status = replay_kernel.call_replay(self._memory.address, words.ctypes.data)
            stretch = int(words[replay_kernel.STRETCH])
            match status:
                case replay_kernel.NEW_STRETCH:
                    routine.lists[stretch] = self._list(routine.stretches[stretch])
                    words[replay_kernel.HASHED] = self._lowering.hashes_paths(number)
                case kernels.NEW_SEGMENT:
                    self._new_segment()
                case kernels.NO_NODES:
                    self._memory.grow_nodes()
                case replay_kernel.EARLY:
                    self._end_early(number, routine.stretches[stretch].block)
                case replay_kernel.DAMAGED:
                    raise DamagedError
        alive = int(clock[kernels.FRAME])
        frames = self._memory.state.frames[kernels.STRIDE : kernels.STRIDE + alive]
        routine.frames = frames.copy()

    def end_alive(self) -> None:
        """End the activations that the recording leaves alive, where it was cut."""
        # Each is known up to the last token that it had (`recording_kernel`), which is where a
        # segment ended or it began to wait for another of its routine. There it ends early: in the
        # block that the last edge leads to. One that has crossed no edge is in none.
        for number, routine in self._routines.items():
            edges, first = self._graphs[number].edges, int(self._first_block[number])
            for frame in routine.frames.reshape(-1, kernels.STRIDE).tolist():
                last = frame[replay_kernel.LAST_STRETCH]
                if last:
                    block = first + edges[routine.stretches[last].edges[-1]].target
                    register, state = frame[kernels.FRAME_PATH], frame[kernels.FRAME_SEGMENTS]
                    self.early[EarlyEnd(block, register, state)] += 1

    def edges(self) -> dict[int, list[int]]:
        """Routine of which something is known -> how often each of its edges was crossed."""
        found = {}
        for number, routine in sorted(self._routines.items()):
            crossed = found[number] = [0] * len(self._graphs[number].edges)
            for stretch, count in zip(routine.stretches, routine.counts.tolist(), strict=True):
                for edge in stretch.edges:
                    crossed[edge] += count
        return found

    def _list(self, stretch: RecordedStretch) -> int:
        """Return the number of the first operation of a stretch, 0 if it has none."""
        base = int(self._first_edge[stretch.routine])
        operations: list[Operation] = []
        for edge in stretch.edges:
            operations += self._lowering.operations(base + edge)
        key = tuple(operations)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self._memory.add_joined(key)[0]
        return number

    def _new_segment(self) -> None:
        """Add the transition that is missing; where there cannot be one, go on behind it."""
        operation = int(self._words[replay_kernel.NEXT])
        if not self._lowering.products.resolve_at(operation):
            is_last = self._memory.is_last(operation)
            self._words[replay_kernel.NEXT] = self._nothing if is_last else operation + 1

    def _end_early(self, routine: int, block: int) -> None:
        clock = self._memory.clock
        frame = int(clock[kernels.FRAME])
        state, register = self._memory.segment(frame)
        end = EarlyEnd(int(self._first_block[routine]) + block, register, state)
        self.early[end] += int(self._words[replay_kernel.WEIGHT])
        clock[kernels.FRAME] = frame - kernels.STRIDE
