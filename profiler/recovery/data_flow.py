"""Constant propagation over a routine: what each of its indirect jumps leads to, as a value.

Steps -> functions
------------------
1. Only blocks from which an indirect jump can be reached take part, and of these only what
   influences one (`slices`).
2. States are propagated to a fixpoint in address order (`DataFlow.propagate`), met where paths join
   (`_meet`), and refined on the edges of conditional branches (`_branch`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Protocol

from simprof.profiler.recovery.exploration import Exploration, Flow
from simprof.profiler.recovery.idioms import pc_thunk
from simprof.profiler.recovery.instructions import Interpreter
from simprof.profiler.recovery.slices import BlockGraph, Part, Slice, Whole
from simprof.profiler.recovery.symbolic import (
    O7,
    RETURN_ADDRESS,
    UNBOUNDED,
    Affine,
    Bounds,
    Choice,
    ComparedValues,
    Entry,
    ReadOnlyMemory,
    SymbolicState,
    SymbolicValue,
    add,
    refine,
    wider,
)
from simprof.simulator.isa.decode import TransferKind

# How often the interval of a value that paths disagree on may grow before it is given up.
MAX_GROWTH = 4

_K = TransferKind


class Guessing(Protocol):
    """What is asked of `jump_tables.Guesses`."""

    tables: set[int]

    def addresses(self, value: SymbolicValue | None, bounds: Bounds) -> frozenset[int]:
        """Return the addresses of the routine's code that a value may be."""


class DataFlow:
    """One routine's data flow."""

    def __init__(
        self,
        # exploration, graph: The routine, as far as it is explored, and its blocks that take part
        exploration: Exploration,
        graph: BlockGraph,
        # address, memory: Word index -> address, and what loads from constant addresses read
        address: Callable[[int], int],
        memory: ReadOnlyMemory,
        escapes: dict[int, int],  # See `Interpreter`
        # If given, the data flow is a guess: nothing is written to frame slots through pointers,
        # and where paths come together that lead to several pieces of code, the value is a `Choice`
        # of all of them.
        guesses: Guessing | None = None,
        part: Slice | None = None,  # What of it counts, if that is known already
    ) -> None:
        self._x = exploration
        self._address = address
        self._guesses = guesses
        # Where the tables begin that the routine loads from
        self.tables: set[int] = set() if guesses is None else guesses.tables
        keeps = guesses is not None
        words = exploration.words
        self._step = Interpreter(words, address, memory, escapes, self.tables, keep_elements=keeps)
        self._graph = graph
        self._slice = Whole(graph) if guesses else part or Slice(exploration, graph, escapes)
        self._parts: dict[int, Part] = {}
        self._states: dict[int, SymbolicState] = {}
        self._joins: dict[int, set[int]] = {}
        self._growth: Counter[int] = Counter()
        self._widened: dict[int, bool] = {}
        self._queue: list[int] = []
        self._queued: set[int] = set()
        self._jumps: dict[int, tuple[SymbolicValue | None, Bounds]] = {}

    def propagate(self) -> dict[int, tuple[SymbolicValue | None, Bounds]]:
        """Return, by jump, the target's value and its index's bounds at the fixpoint."""
        for entry in self._graph.entries:
            self._join(entry, {O7: Affine(0, RETURN_ADDRESS, 1)})
        for leader in self._slice.sources():
            self._join(leader, {})
        while self._queue:
            leader = heapq.heappop(self._queue)
            self._queued.discard(leader)
            self._block(leader, dict(self._states[leader]))
        return self._jumps

    def _join(self, index: int, state: SymbolicState) -> None:
        """Meet `state` into what is known at leader `index`; queue the leader if that changed."""
        # Behind a single predecessor nothing has to be met: what it last said holds.
        inputs = self._graph.inputs.get(index)
        if inputs is None:
            return
        state = self._slice.kept(index, state)
        known = self._states.get(index)
        if known is None or inputs == 1:
            if known == state:
                return
            self._states[index] = state
        elif not self._meet(index, known, state):
            return
        if index not in self._queued:
            self._queued.add(index)
            heapq.heappush(self._queue, index)

    def _meet(self, index: int, known: SymbolicState, state: SymbolicState) -> bool:
        """Keep in `known` what `state` agrees with; return whether anything changed."""
        # Where a register holds different values within known intervals, it now holds an atom of
        # the join (`Interpreter.joined`), confined to the interval around them.
        changed = False
        facts = []
        for location, value in list(known.items()):
            other = state.get(location)
            if other is value or other == value:
                continue
            if type(location) is tuple and location[0] == "fact":
                facts.append(location)
                continue
            joined = self._chosen(location, known, state)
            if joined is None:
                joined = self._joined(index, location, known, state)
            if joined != value:
                changed = True
                if joined is None:
                    del known[location]
                else:
                    known[location] = joined
        changed |= self._widened.pop(index, False)
        return self._meet_facts(index, facts, known, state) or changed

    def _meet_facts(
        self, index: int, facts: list[tuple[str, int]], known: SymbolicState, state: SymbolicState
    ) -> bool:
        """Keep in `known` what `state` agrees with of some facts; return whether any changed."""
        # Facts about atoms of this join are about what comes from all paths already.
        changed = False
        own = self._joins.get(index, ())
        for location in facts:
            if location[1] in own or location not in known:
                continue
            old = known[location]
            new = wider(old, self._step.bounds(state, location[1]))
            if new != old:
                changed = True
                if new == UNBOUNDED:
                    del known[location]
                else:
                    known[location] = new
        return changed

    def _chosen(
        self, location: Hashable, known: SymbolicState, state: SymbolicState
    ) -> object | None:
        """The value of a location where two paths lead to different code; None if they do not."""
        if self._guesses is None or location == "cc":
            return None
        value, other, size = known[location], state.get(location), None
        if isinstance(location, tuple):
            if other is None or other[0] != value[0]:
                return value if other is None else None
            (size, value), (_, other) = value, other
        found: frozenset[int] = frozenset()
        for each, where in ((value, known), (other, state)):
            if each is not None:
                addresses = self._guesses.addresses(each, self._bounds_of(each, where))
                if not addresses:
                    return None
                found |= addresses
        if len(found) < 2:
            return None
        return Choice(found) if size is None else (size, Choice(found))

    def _bounds_of(self, value: SymbolicValue | None, state: SymbolicState) -> Bounds:
        if isinstance(value, Entry):
            return self._step.bounds(state, value.address.atom)
        return self._step.bounds(state, value.atom) if isinstance(value, Affine) else UNBOUNDED

    def _joined(
        self, index: int, location: object, known: SymbolicState, state: SymbolicState
    ) -> Affine | None:
        """The value at leader `index` of a register that holds two different ones, or None."""
        if not isinstance(location, int):
            return None
        atom = index * 128 + 64 + location
        key = ("fact", atom)
        fact = known.get(key)
        joins = self._joins.setdefault(index, set())
        if atom in joins:
            before = UNBOUNDED if fact is None else fact
        else:
            before = self._step.interval(known, known[location])
        bounds = before
        if None not in before:
            bounds = wider(before, self._step.interval(state, state.get(location)))
        if None in bounds or self._growth[atom] > MAX_GROWTH:
            known.pop(key, None)
            return None
        if bounds != fact:
            self._growth[atom] += 1
            self._widened[index] = True
            known[key] = bounds
        joins.add(atom)
        return Affine(0, atom, 1)

    def _block(self, leader: int, state: SymbolicState) -> None:
        extent, part = self._graph.extents[leader], self._parts.get(leader)
        if part is None:
            part = self._parts[leader] = self._slice.part(leader)
        for index in part.indices:
            self._step.execute(state, index)
        if extent.falls_to >= 0:
            self._join(extent.falls_to, state)
            return
        self._step.drop_dead_facts(state)
        if extent.flow is not None:
            self._transfer(extent.at, extent.flow, part, state)

    def _transfer(self, at: int, flow: Flow, part: Part, state: SymbolicState) -> None:
        kind = flow.kind
        if kind == _K.BRANCH:
            self._branch(at, flow, part, state)
            return
        if kind == _K.JUMP:
            value = self._step.jump_target(state, self._x.words[at])
            self._jumps[at] = (value, self._bounds_of(value, state))
        # a call over data is a jump that leaves its address
        if kind in (_K.CALL, _K.INDIRECT_CALL) or self._x.words[at] >> 30 == 1:
            state[O7] = self._address(at)
        if flow.has_slot and part.delay:
            self._step.execute(state, at + 1)
        if flow.call_return >= 0:
            self._after_call(at, state)
            self._join(flow.call_return, state)
        if kind == _K.TRAP_ALWAYS:
            for register in (1, 8, 9):  # %g1, %o0, %o1: the results of a system call
                state.pop(register, None)
            self._step.clobber_memory(state)
        for successor in (flow.fall, flow.taken, *sorted(flow.switch)):
            if successor >= 0:
                self._join(successor, state)

    def _after_call(self, at: int, state: SymbolicState) -> None:
        """What a call leaves; a PC thunk adds the call's address to one register."""
        target = self._x.targets[at] if self._x.kinds[at] == _K.CALL else -1
        thunk = pc_thunk(self._x.words, target)
        if thunk is None:
            self._step.clobber_call(state)
            return
        register, adds = thunk
        pc = self._address(at)
        result = add(state.get(register), pc) if adds else pc
        if result is None:
            state.pop(register, None)
        else:
            state[register] = result

    def _branch(self, at: int, flow: Flow, part: Part, state: SymbolicState) -> None:
        word = self._x.words[at]
        comparison = state.get("cc")
        condition = (word >> 25) & 15
        group = (word >> 22) & 7
        if group == 3:  # BPr: compares a register with 0
            value = state.get((word >> 14) & 31)
            comparison = ComparedValues(value, 0) if isinstance(value, Affine) else None
            condition = _REGISTER_CONDITIONS[condition & 7]
        if not part.compares or group not in (1, 2, 3):  # BPcc, Bicc, BPr; not by floating point
            comparison = None
        fall = state
        taken = dict(state)
        if part.delay and (flow.has_slot or flow.slot_block):
            self._step.execute(taken, at + 1)
        if flow.has_slot:
            fall = dict(taken)
        if comparison is not None and flow.fall != flow.taken:
            bounds = self._step.bounds(state, comparison.value.atom)
            refine(taken, bounds, comparison, condition)
            refine(fall, bounds, comparison, condition ^ 8)  # the opposite condition
        if flow.fall >= 0:
            self._join(flow.fall, fall)
        if flow.taken >= 0:
            self._join(flow.taken, taken)


# BPr's conditions (0 reserved, z, lez, lz, reserved, nz, gz, gez) as integer conditions.
_REGISTER_CONDITIONS = (0, 1, 2, 3, 0, 9, 10, 11)
