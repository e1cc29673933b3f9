"""Calling contexts from a log of single instructions: the slow and obvious reference.

Every activation of the walk has a *chain*: the routines from the program's first one to its own,
each called by the one before it. Each executed instruction counts for the routines in the chain of
the activation on top.

- A call, or a signal, makes a chain longer by the new routine.
- So does a routine that another one enters by its EXIT edge (a tail call).
- What begins where a non-local exit lands is below the routines that still have a frame there,
  by the stack pointers with which each was called; it takes the last one's place if it is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from simprof.profiler.graphs.cfg import ControlFlowGraph
from tests.oracles.naive import Activation, NaiveProfile, RoutineProfile, Walker
from tests.oracles.qemu import Trace

Chain = tuple[int, ...]
"""Addresses of routines."""


@dataclass
class Contexts:
    """What a log tells of calling contexts.

    Attributes
    ----------
    executed
        (Set of the routines in the chain, last of them) -> instructions executed.
    begun
        The same -> activations.
    calls
        (Caller, or None; callee) -> how often activations began below a caller.
    inclusive
        Routine -> instructions executed while it was in the chain.
    chains
        Instructions by chain.
    """

    executed: Counter[tuple[frozenset[int], int]] = field(default_factory=Counter)
    begun: Counter[tuple[frozenset[int], int]] = field(default_factory=Counter)
    calls: Counter[tuple[int | None, int]] = field(default_factory=Counter)
    inclusive: Counter[int] = field(default_factory=Counter)
    chains: Counter[Chain] = field(default_factory=Counter)


class ContextWalker(Walker):
    """Walks a log and keeps the chains."""

    executed: list[bool]

    def walk(self) -> NaiveProfile:
        """Count everything."""
        self.contexts = Contexts()
        self._chains: dict[int, tuple[tuple[int, int], ...]] = {}
        self._gone: tuple[tuple[int, int], ...] | None = None
        self._landing: tuple[tuple[int, int], ...] | None = None
        self._depth = False
        return super().walk()

    def enter(self, step: int, expected: frozenset[int], below: bool) -> None:
        waiting = self._gone
        if waiting is None:
            waiting = self._chains[id(self.stack[-1])] if self.stack else ()
        super().enter(step, expected, below)
        top = self.stack[-1]
        routine = top.graph.address
        if self._landing is not None:
            alive = [each for each in self._landing if each[1] > self._pointer(step)]
            lands = bool(alive) and alive[-1][0] == routine
            waiting = tuple(alive[:-1] if lands else alive)
            pointer = alive[-1][1] if lands else self._pointer(step)
        else:
            lands, pointer = False, self._pointer(step - 1) if step else 1 << 64
        chain = self._chains[id(top)] = (*waiting, (routine, pointer))
        routines = tuple(each for each, _ in chain)
        self.contexts.begun[frozenset(routines), routine] += 1
        if self._landing is None:
            self.contexts.calls[routines[-2] if waiting else None, routine] += 1
        self._gone = self._landing = None
        if step == 0:
            self._count(0)

    def _pointer(self, step: int) -> int:
        return 0 if self.sp is None else int(self.sp[step])

    def land(self, step: int, ended: Activation | None) -> None:
        self._landing = self._gone or self._chains[id(self.stack[-1])]
        super().land(step, ended)

    def advance(self, step: int) -> None:
        self._gone = None
        nested = self._depth
        self._depth = True
        super().advance(step)
        self._depth = nested
        if not nested:
            self._count(step)

    def _count(self, step: int) -> None:
        if self.executed[step]:
            chain = self._chains[id(self.stack[-1])]
            self.contexts.chains[tuple(routine for routine, _ in chain)] += 1

    def close(self, edge: int) -> Activation:
        ended = super().close(edge)
        self._gone = self._chains[id(ended)]
        return ended


def contexts_of(graphs: Sequence[ControlFlowGraph], log: Trace) -> Contexts:
    """Return the calling contexts of a logged run on `graphs`."""
    walker = ContextWalker(graphs, log.pc, log.breaks, log.sp, None, not log.executed[-1])
    walker.executed = log.executed.tolist()
    walker.walk()
    found = walker.contexts
    for chain, count in found.chains.items():
        routines = frozenset(chain)
        found.executed[routines, chain[-1]] += count
        for routine in routines:
            found.inclusive[routine] += count
    return found


class WindowWalker(ContextWalker):
    """Walks a log and notes which steps belong to calls of a routine."""

    routine: int

    def walk(self) -> NaiveProfile:
        """Note everything."""
        self.starts: list[int] = []
        self.inside: list[int] = []
        return super().walk()

    def enter(self, step: int, expected: frozenset[int], below: bool) -> None:
        is_landing = self._landing is not None
        super().enter(step, expected, below)
        chain = [routine for routine, _ in self._chains[id(self.stack[-1])]]
        if not is_landing and chain[-1] == self.routine and chain.count(self.routine) == 1:
            self.starts.append(step)

    def _count(self, step: int) -> None:
        chain = self._chains[id(self.stack[-1])]
        if self.routine in [routine for routine, _ in chain]:
            self.inside.append(step)


def windows_of(graphs: Sequence[ControlFlowGraph], log: Trace, routine: int) -> list[range]:
    """Return the steps of each outermost call of the routine at an address."""
    walker = WindowWalker(graphs, log.pc, log.breaks, log.sp, None, not log.executed[-1])
    walker.executed, walker.routine = log.executed.tolist(), routine
    walker.walk()
    ends = [*walker.starts[1:], len(log.pc)]
    return [
        range(start, max(step for step in walker.inside if step < end) + 1)
        for start, end in zip(walker.starts, ends, strict=True)
    ]


def profile_in(
    graphs: Sequence[ControlFlowGraph], log: Trace, windows: Sequence[range]
) -> NaiveProfile:
    """Return the naive profile of a log that is cut to windows."""
    total = NaiveProfile({graph.address: RoutineProfile() for graph in graphs}, 0)
    for steps in windows:
        part = slice(steps.start, steps.stop)
        sp = None if log.sp is None else log.sp[part]
        found = Walker(graphs, log.pc[part], log.breaks[part], sp).walk()
        total.instructions += found.instructions
        for address, routine in found.routines.items():
            sums = total.routines[address]
            sums.blocks += routine.blocks
            sums.edges += routine.edges
            sums.early += routine.early
            sums.paths += routine.paths
            sums.partial += routine.partial
            sums.activations += routine.activations
    return total
