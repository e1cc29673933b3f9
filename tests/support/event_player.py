"""Plays an emulator to the automaton: short lists of block events, on assembled routines.

What the emulator reports of a program is a sequence of translation blocks, each an address and a
number of instructions. An `EventPlayer` takes such a sequence from a test and feeds it through the
kernel, as the machine's hook does; nothing is emulated.

Places are named by labels: "loop" is the label itself, "loop+2" is two words behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simprof.profiler.engine import block_kernel, kernels
from simprof.profiler.engine.automaton import Automaton
from simprof.profiler.engine.lowering import Lowering, cost_words
from simprof.profiler.engine.walk import UNKNOWN, GraphIndex, Missing
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.recovery.recovery import Discoveries, recover
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.cpu.traps import ClockWord
from simprof.simulator.isa.assembler import Item, Label, assemble
from tests.support.assembled import BASE, program_of

MASK = (1 << 64) - 1


class NamedPlaces:
    """Addresses of assembled routines by label, and labels by address."""

    def __init__(self, routines: Mapping[str, Sequence[Item]]) -> None:
        items: list[Item] = []
        for name, body in routines.items():
            items += [Label(name), *body]
        self.labels = dict(assemble(items, BASE).labels)

    def address(self, place: str) -> int:
        """Address of a place such as "loop" or "loop+2"."""
        label, _, words = place.partition("+")
        return self.labels[label] + 4 * int(words or 0)

    def name(self, address: int) -> str:
        """The place at `address`, named by the last label at or before it."""
        label = max(
            (known for known in self.labels if self.labels[known] <= address),
            key=lambda known: self.labels[known],
        )
        words = (address - self.labels[label]) // 4
        return f"{label}+{words}" if words else label


class IndexedGraphs(NamedPlaces):
    """The graphs of assembled routines under program-wide numbers, with names for everything.

    `entries` and `targets` are what earlier runs would have discovered: places that were entered,
    and (indirect jump, its target).
    """

    def __init__(
        self,
        routines: Mapping[str, Sequence[Item]],
        *,
        entries: Sequence[str] = (),
        targets: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(routines)
        discoveries = Discoveries(
            indirect_targets=frozenset((self.address(a), self.address(b)) for a, b in targets),
            entries=frozenset(map(self.address, entries)),
        )
        self.index = GraphIndex(recover(program_of(dict(routines)), discoveries))

    def block(self, place: str) -> int:
        """Number of the ordinary block that starts at a place."""
        number = self.index.block_at(self.address(place))
        assert number != UNKNOWN, f"no block starts at {place}"
        return number

    def edge_names(self) -> list[str]:
        """Every edge as "source>target"; a slot block is named with a final "s"."""
        return [
            f"{self._vertex(cfg, edge.source)}>{self._vertex(cfg, edge.target)}"
            for cfg in self.index.recovered.routines
            for edge in cfg.edges
        ]

    def edge(self, name: str) -> int:
        """Program-wide number of the edge of this name."""
        return self.edge_names().index(name)

    def _vertex(self, cfg: ControlFlowGraph, vertex: int) -> str:
        if vertex == cfg.entry:
            return "ENTRY"
        if vertex == cfg.exit:
            return "EXIT"
        block = cfg.blocks[vertex]
        return self.name(block.start) + ("s" if block.is_slot else "")


def replay(k: int, addresses: kernels.Array, sizes: kernels.Array, first: int) -> tuple[int, int]:
    """Feed recorded events from index `first`; return (index, status) of the first not OK."""
    for at in range(first, len(addresses)):
        status = block_kernel.call_advance(k, int(addresses[at]), int(sizes[at]))
        if status != kernels.OK:
            return at, int(status)
    return len(addresses), kernels.OK


class EventPlayer(IndexedGraphs):
    """An automaton on the graphs of assembled routines, and what feeds it; no scheme counts."""

    def __init__(
        self,
        routines: Mapping[str, Sequence[Item]],
        *,
        entries: Sequence[str] = (),
        targets: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(routines, entries=entries, targets=targets)
        graphs = self.index.recovered.routines
        model = cost_words(MachineKind.SPARCV9)
        self.lowering = Lowering([], graphs, self.index.first_edge, model, MASK)
        self.missing: list[Missing] = []
        self.automaton = Automaton(self.index, self.lowering, self.missing.append)
        self.asked = 0
        self._outs = np.zeros(8, np.int64)
        self._window = np.array([self._outs.ctypes.data], np.int64)
        self.automaton.clock[ClockWord.WINDOW_POINTER] = self._window.ctypes.data

    def play(self, *events: tuple[str, int]) -> None:
        """Report blocks, each a place and a number of instructions.

        `asked` counts the events that the kernel could not handle without Python.
        """
        addresses = np.array([self.address(place) for place, _ in events], np.int64)
        sizes = np.array([4 * count for _, count in events], np.int64)
        memory = self.automaton.memory
        first = 0
        while True:
            at, status = replay(memory.address, addresses, sizes, first)
            if status == kernels.OK:
                return
            self.asked += 1
            self.automaton.decide(status, int(addresses[at]), int(sizes[at]))
            first = at + 1

    def interrupt(self, pc: int, stack_pointer: int, *, between: bool = False) -> None:
        """Report a signal that came before the instruction at `pc`, which is in no delay slot."""
        self.automaton.signal_delivered(pc, pc + 4, stack_pointer, between)

    def stack_pointer(self, value: int) -> None:
        """Set %sp, which calls note in their frames."""
        self._outs[6] = value

    @property
    def depth(self) -> int:
        """Live activations below the current one."""
        return int(self.automaton.clock[kernels.FRAME]) // kernels.STRIDE

    def crossed(self) -> dict[str, int]:
        """Edge -> how often it was crossed, where it was."""
        names = self.edge_names()
        assert len(set(names)) == len(names), "parallel edges have one name"
        counts = self.automaton.counts.edge_counts.tolist()
        return {name: count for name, count in zip(names, counts, strict=True) if count}

    def early(self) -> dict[str, int]:
        """Block -> activations that ended early in it."""
        blocks = [b for cfg in self.index.recovered.routines for b in cfg.blocks]
        return {
            self.name(blocks[end.block].start): count
            for end, count in self.automaton.tally.early.items()
        }
