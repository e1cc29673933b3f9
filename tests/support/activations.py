"""Shared by tests: what `tests/engine/test_activations.py` and others use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simprof.profiler.engine import kernels
from simprof.profiler.engine.activations import (
    Activations,
    SignalRecord,
    Tally,
)
from simprof.profiler.engine.lowering import cost_words
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.walk import (
    UNKNOWN,
    Cross,
    Missing,
    Step,
    WalkContext,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.cpu.traps import ClockWord
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item
from tests.support.assembled import code
from tests.support.event_player import MASK, IndexedGraphs

RETURN = (asm.retl(), asm.nop())

PROGRAM: dict[str, Sequence[Item]] = {
    "main": code(
        asm.branch("e", "last"), asm.nop(),
        "deeper", asm.call("main"), asm.nop(),
        "back", asm.call("f"), asm.nop(),
        "last", asm.nop(), *RETURN,
    ),
    "f": code(asm.call("g"), asm.nop(), "inner", *RETURN),
    "g": code(*RETURN),
}  # fmt: skip

DEPTH = 8


class Stack:
    """Activations of `PROGRAM` with what they tell others."""

    def __init__(self, entries: Sequence[str] = ()) -> None:
        self.graphs = IndexedGraphs(PROGRAM, entries=entries)
        self.memory = EngineMemory(cost_words(MachineKind.SPARCV9), DEPTH)
        self.tally = Tally()
        self.crossed: list[tuple[str, int]] = []
        self.missing: list[Missing] = []
        self.activations = Activations(
            self.memory,
            self.graphs.index,
            self.tally,
            MASK,
            self._cross,
            self._reached,
            self.missing.append,
        )
        self._outs = np.zeros(8, np.int64)
        self._window = np.array([self._outs.ctypes.data], np.int64)
        self.memory.clock[ClockWord.WINDOW_POINTER] = self._window.ctypes.data

    def _cross(self, steps: Sequence[Step]) -> None:
        """Edges that are crossed, each with the depth at which it is."""
        names = self.graphs.edge_names()
        self.crossed += [(names[s.edge], self.depth) for s in steps if isinstance(s, Cross)]

    def _reached(self, state: int, pc: int) -> tuple[tuple[Step, ...], WalkContext]:
        """State numbers are those of blocks here, and nothing is crossed within one."""
        return (), WalkContext(-1, False, state, pc)

    @property
    def depth(self) -> int:
        return self.activations.current // kernels.STRIDE

    def push(self, returns_to: str, stack: int, register: int = 0) -> None:
        """Call: the caller's %sp is `stack`, the new activation's segment register `register`."""
        frame = self.activations.current + kernels.STRIDE
        frames = self.memory.state.frames
        frames[frame + kernels.FRAME_RETURN] = self.graphs.address(returns_to)
        frames[frame + kernels.FRAME_STACK] = stack
        frames[frame + kernels.FRAME_PATH] = register
        self.activations.current = frame

    def interrupt(self, state: int, pc: int) -> int:
        """Note what a signal interrupts before the instruction at `pc`; return its number."""
        return self.activations.interrupt(SignalRecord(state, pc, pc, pc + 4))

    @property
    def pointer(self) -> int:
        """The program's %sp."""
        return int(self._outs[6])

    @pointer.setter
    def pointer(self, value: int) -> None:
        self._outs[6] = value

    def land(self, place: str, stack: int, block: int = UNKNOWN, *, returned: bool) -> None:
        self.pointer = stack
        self.activations.land(self.graphs.address(place), block, returned=returned)

    def early(self) -> dict[str, int]:
        """Block -> activations that ended early in it."""
        graphs = self.graphs
        starts = {graphs.block(p): p for p in ("main", "deeper", "back", "last", "f", "inner", "g")}
        found: dict[str, int] = {}
        for end, count in self.tally.early.items():
            found[starts[end.block]] = found.get(starts[end.block], 0) + count
        return found
