"""Writes a trace while a program runs.

The kernel appends tokens to a buffer and keeps a digest of all edges crossed. This module writes
the buffer to a file when it is full and before every event. A reader regenerates the run from the
tokens and the program's code. Where neither tells what happened, as with a signal, the file gets an
event that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import EngineMemory, Operation
from simprof.profiler.engine.walk import (
    UNKNOWN,
    Cross,
    GraphIndex,
    Land,
    MissingEntry,
    MissingReturn,
    MissingTarget,
    Pop,
    Push,
    Step,
)
from simprof.profiler.plan.decoders import Plan
from simprof.profiler.plan.tracing import TARGET_BITS
from simprof.profiler.trace.calls import Callees, Exit
from simprof.profiler.trace.format import CHECKPOINT_SPAN, TraceEnd, TraceEvent, TraceFile

BUFFER_WORDS = 1 << 13  # 64-bit words of the buffer: the trace goes to the file in pieces of 64 KiB


class TraceRecorder:
    """The trace of one run: the `TraceSink` that writes it to a file."""

    def __init__(
        self,
        memory: EngineMemory,
        index: GraphIndex,
        # Routine number -> its plan; asked for a routine when an edge of it is first crossed
        plans: Callable[[int], Plan | None],
        file: TraceFile,
    ) -> None:
        self._memory = memory
        self._index = index
        self._plans = plans
        self._file = file
        self._callees = Callees(index)
        self._tokens: dict[int, dict[int, tuple[int, int]]] = {}
        self._drained = 0  # bits
        self._open: tuple[int, int, int] | None = None
        self._crossed: list[int] = []
        self._checkpoints: list[tuple[int, int]] = []
        memory.start_trace(BUFFER_WORDS, CHECKPOINT_SPAN)

    # Operations

    def operations(self, steps: Sequence[Step], place: int) -> list[Operation]:
        """Return what the kernel does for the trace when the program takes `steps[place]`."""
        match steps[place]:
            case Cross(edge):
                crossing = [(kernels.CROSS, edge, self._token(edge))]
                return crossing + self._leaving(steps, place, edge)
            case Push(address):
                # the target of an indirect call; that of others the code tells
                block = self._index.call_block(address & ~1)
                if address & 1 or block == UNKNOWN or not self._callees.is_indirect(block):
                    return []
                return [self._target(steps[place + 1 :])]
            case MissingTarget() | MissingEntry() | MissingReturn():
                return [(kernels.MARK, place, 0)]
        return []

    def _token(self, edge: int) -> int:
        """Return the token that crossing `edge` writes, as a CROSS operation has it."""
        # Bits 0 to 7 hold its width in bits, 0 where nothing is written; its value is above.
        routine = int(np.searchsorted(self._index.first_edge, edge, "right")) - 1
        if routine not in self._tokens:
            plan = self._plans(routine)
            assert plan is not None, "a traced run profiles every routine"
            self._tokens[routine] = {e: (t.value, t.width) for e, t in plan.tokens.items()}
            self._file.routine(routine, self._tokens[routine])
        own = edge - int(self._index.first_edge[routine])
        value, width = self._tokens[routine].get(own, (0, 0))
        return value << 8 | width

    def _leaving(self, steps: Sequence[Step], place: int, edge: int) -> list[Operation]:
        """Return what the kernel does for the trace behind EXIT edge `edge`."""
        # It writes the target of an indirect jump, which the code does not tell. Where a reader
        # would expect control elsewhere than it went, the kernel stops at a mark, so that `mark`
        # can write an event. Behind all other edges a reader knows how to go on, and nothing is
        # done.
        block = self._callees.source.get(edge)
        if block is None:
            return []
        way, expected = self._callees.exit(edge)
        following = steps[place + 1 :]
        written: list[Operation] = []
        if self._callees.is_indirect(block) and following:
            written = [self._target(following)]
            if way is not Exit.WRITTEN:
                return written
        entered = next((step.edge for step in following if isinstance(step, Cross)), UNKNOWN)
        returned = any(isinstance(step, Pop) for step in following)
        known = way is Exit.WRITTEN or returned or entered in (UNKNOWN, expected)
        return written if known else [*written, (kernels.MARK, place, 0)]

    def _target(self, following: Sequence[Step]) -> Operation:
        """Return the operation that writes the address at which control arrives next."""
        address = next((a for a in map(self._address, following) if a != UNKNOWN), 0)
        low = address & (1 << TARGET_BITS) - 1
        return kernels.TOKEN, 0, low << 8 | TARGET_BITS

    def _address(self, step: Step) -> int:
        """Return the address at which control arrives by `step`; UNKNOWN if it does not tell."""
        match step:
            case Land(address) | MissingEntry(address):
                return address
            case MissingTarget(_, address):
                return address
            case Cross(edge):
                routine = int(np.searchsorted(self._index.first_edge, edge, "right")) - 1
                cfg = self._index.recovered.routines[routine]
                target = cfg.edges[edge - int(self._index.first_edge[routine])].target
                return cfg.blocks[target].start if target < len(cfg.blocks) else UNKNOWN
        return UNKNOWN

    # The buffer

    @property
    def crossings(self) -> int:
        """Edges crossed so far."""
        return int(self._memory.trace[kernels.TRACE_CROSSINGS])

    @property
    def bits(self) -> int:
        """Bits of the token stream so far."""
        return self._drained + int(self._memory.trace[kernels.TRACE_BITS])

    def drain(self) -> None:
        """Do what the kernel stopped for: write a full buffer, or note a checkpoint."""
        words = self._memory.trace
        if words[kernels.TRACE_CROSSINGS] >= words[kernels.TRACE_NEXT]:
            words[kernels.TRACE_NEXT] += CHECKPOINT_SPAN
            self._checkpoints.append((self.crossings, int(words[kernels.TRACE_DIGEST])))
        if words[kernels.TRACE_BITS] >= words[kernels.TRACE_CAPACITY]:
            self._flush()
        if self._open is None:
            self._write_checkpoints()

    def _write_checkpoints(self) -> None:
        """Write the checkpoints noted so far."""
        # The tokens before them go to the file first. While an event is open they wait, because
        # their digests include the edges that the event will list.
        if self._checkpoints:
            self._flush()
        for crossings, digest in self._checkpoints:
            self._file.checkpoint(crossings, digest)
        self._checkpoints.clear()

    def _flush(self, *, last: bool = False) -> None:
        """Write the buffer's whole bytes; with `last` the byte that is not full, too."""
        words = self._memory.trace
        bits = int(words[kernels.TRACE_BITS])
        size = (bits + 7) // 8 if last else bits // 8
        used = words[kernels.TRACE_HEADER : kernels.TRACE_HEADER + (bits + 63) // 64]
        stream = used.astype(">i8").tobytes()
        if size:
            self._file.chunk(self.crossings, stream[:size])
        left = 0 if last else bits % 8
        rest = stream[size] if left else 0
        words[kernels.TRACE_HEADER] = np.int64(rest << 56) if rest < 128 else (rest - 256) << 56
        words[kernels.TRACE_BITS] = left
        self._drained += 8 * size

    # Events

    def crossed(self, edge: int) -> None:
        """Note an edge that Python crosses, for the event that is open."""
        if self._open is not None:
            self._crossed.append(edge)

    def begin_event(self, block: int) -> None:
        """Open an event: Python takes over while the current activation is in `block`."""
        if self._open is None:
            self._flush()
            self._open = (self.crossings, self.bits, block)

    def end_event(self, frame: int, block: int) -> None:
        """Write the open event: the kernel goes on with the activation at `frame`, in `block`."""
        if self._open is None:
            return
        depth, waiting = frame // kernels.STRIDE, self._waiting(frame)
        event = TraceEvent(*self._open, tuple(self._crossed), depth, block, waiting)
        self._open, self._crossed = None, []
        self._file.event(event)
        self._write_checkpoints()

    def _waiting(self, frame: int) -> int:
        """Return the block whose call the activation at `frame` will return to."""
        # UNKNOWN if it has no caller, or none that it returns to.
        address = int(self._memory.state.frames[frame + kernels.FRAME_RETURN])
        return UNKNOWN if frame == 0 or address & 3 else self._index.call_block(address)

    def mark(self, steps: Sequence[Step], frame: int, block: int) -> None:
        """Note where the program went, which its code does not tell."""
        # The reader follows the code up to this event, crosses the edges that the event lists, and
        # goes on from the block that it names.
        # steps: What the program does next, beginning with what the code does not tell.
        # frame, block: The activation that the kernel goes on with, and the block that it is in.
        self.begin_event(UNKNOWN)
        if isinstance(steps[0], Cross):  # an EXIT edge: the reader lacks the ENTRY edge behind it
            self._crossed = [next(step.edge for step in steps[1:] if isinstance(step, Cross))]
        self.end_event(frame, block)

    def end(self) -> None:
        """Write what is left, and the end of the trace: the run is over."""
        self.begin_event(UNKNOWN)
        self.end_event(0, UNKNOWN)
        bits = self.bits
        self._flush(last=True)
        digest = int(self._memory.trace[kernels.TRACE_DIGEST]) % (1 << 64)
        self._file.close(TraceEnd(self.crossings, digest, bits))
