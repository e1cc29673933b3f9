"""Constant propagation over the blocks of one routine.

Steps -> functions: states are propagated to a fixpoint in address order (`DataFlow.propagate`),
met where paths join (`_meet`), and refined on the edges of conditional branches (`_branch`). Only
blocks from which an indirect jump can be reached take part, and of these only what influences one
(`slices`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable

from simprof.profiler.recovery.block_graph import BlockGraph
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.effects import pc_thunk
from simprof.profiler.recovery.exploration import Exploration, Flow
from simprof.profiler.recovery.instructions import Interpreter
from simprof.profiler.recovery.intervals import refine, wider
from simprof.profiler.recovery.slices import Part, Slice, Whole
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
)
from simprof.profiler.recovery.table_ends import Guesses
from simprof.simulator.isa.decode import TransferKind

MAX_GROWTH = 4
"""How often the interval of a value that paths disagree on may grow before it is given up."""

_K = TransferKind


class DataFlow:
    """One routine's data flow.

    Parameters
    ----------
    exploration, graph
        The routine, as far as it is explored, and its blocks that take part.
    code, memory
        The program's code, and what loads from constant addresses read.
    escapes
        See `Interpreter`.
    guesses
        If given, the data flow is a guess: nothing is written to frame slots through pointers, and
        where paths come together that lead to several pieces of code, the value is a `Choice` of
        all of them.

    Attributes
    ----------
    tables
        Where the tables begin that the routine loads from.
    """

    def __init__(
        self,
        exploration: Exploration,
        graph: BlockGraph,
        code: CodeImage,
        memory: ReadOnlyMemory,
        escapes: dict[int, int],
        guesses: Guesses | None = None,
    ) -> None:
        self._x = exploration
        self._code = code
        self._guesses = guesses
        self.tables: set[int] = set() if guesses is None else guesses.tables
        self._step = Interpreter(
            exploration.words,
            code.address,
            memory,
            escapes,
            self.tables,
            keep_elements=guesses is not None,
        )
        self._graph = graph
        self._slice = Whole(graph) if guesses else Slice(exploration, graph, escapes)
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
        """Meet `state` into what is known at leader `index`; queue the leader if that changed.

        Behind a single predecessor nothing has to be met: what it last said holds.
        """
        sources = self._graph.predecessors.get(index)
        if sources is None:
            return
        state = self._slice.kept(index, state)
        known = self._states.get(index)
        if known is None or len(sources) + (index in self._graph.entries) == 1:
            if known == state:
                return
            self._states[index] = state
        elif not self._meet(index, known, state):
            return
        if index not in self._queued:
            self._queued.add(index)
            heapq.heappush(self._queue, index)

    def _meet(self, index: int, known: SymbolicState, state: SymbolicState) -> bool:
        """Keep in `known` what `state` agrees with; return whether anything changed.

        Where a register holds different values within known intervals, it now holds an atom
        of the join (`Interpreter.joined`), confined to the interval around them.
        """
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
        self,
        index: int,
        facts: list[tuple[str, int]],
        known: SymbolicState,
        state: SymbolicState,
    ) -> bool:
        """Keep in `known` what `state` agrees with of some facts; return whether any changed.

        Facts about atoms of this join are about what comes from all paths already.
        """
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
        value, other = known[location], state.get(location)
        if isinstance(location, tuple):
            if other is None or other[0] != value[0]:
                return value if other is None else None
            chosen = self._choice(value[1], known, other[1], state)
            return None if chosen is None else (value[0], chosen)
        return self._choice(value, known, other, state)

    def _choice(
        self,
        value: SymbolicValue,
        known: SymbolicState,
        other: SymbolicValue | None,
        state: SymbolicState,
    ) -> Choice | None:
        """All code that either value leads to, None if one of them is something else."""
        assert self._guesses is not None
        both = [(value, known)] if other is None else [(value, known), (other, state)]
        found: frozenset[int] = frozenset()
        for each, where in both:
            addresses = self._guesses.addresses(each, self._bounds_of(each, where))
            if not addresses:
                return None
            found |= addresses
        return Choice(found) if len(found) > 1 else None

    def _bounds_of(self, value: SymbolicValue | None, state: SymbolicState) -> Bounds:
        """Bounds of the index that a value is made of."""
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
        extent, part = self._graph.extents[leader], self._part(leader)
        for index in part.indices:
            self._step.execute(state, index)
        if extent.falls_to >= 0:
            self._join(extent.falls_to, state)
            return
        self._step.drop_dead_facts(state)
        if extent.flow is not None:
            self._transfer(extent.at, extent.flow, part, state)

    def _part(self, leader: int) -> Part:
        """What of a block must be executed."""
        part = self._parts.get(leader)
        if part is None:
            part = self._parts[leader] = self._slice.part(leader)
        return part

    def _transfer(self, at: int, flow: Flow, part: Part, state: SymbolicState) -> None:
        kind = flow.kind
        if kind == _K.BRANCH:
            self._branch(at, flow, part, state)
            return
        if kind == _K.JUMP:
            self._jump(at, state)
        if kind in (_K.CALL, _K.INDIRECT_CALL):
            state[O7] = self._code.address(at)
        if flow.has_slot and part.delay:
            self._step.execute(state, at + 1)
        if flow.call_return >= 0:
            self._after_call(at, state)
            self._join(flow.call_return, state)
        if kind == _K.TRAP_ALWAYS:
            for register in (1, 8, 9):
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
        pc = self._code.address(at)
        result = add(state.get(register), pc) if adds else pc
        if result is None:
            state.pop(register, None)
        else:
            state[register] = result

    def _jump(self, at: int, state: SymbolicState) -> None:
        value = self._step.jump_target(state, self._x.words[at])
        self._jumps[at] = (value, self._bounds_of(value, state))

    def _branch(self, at: int, flow: Flow, part: Part, state: SymbolicState) -> None:
        word = self._x.words[at]
        comparison = state.get("cc")
        condition = (word >> 25) & 15
        group = (word >> 22) & 7
        if group == 3:
            comparison = self._register_comparison(state, word)
            condition = _REGISTER_CONDITIONS[condition & 7]
        elif group not in (1, 2):
            comparison = None
        if not part.compares:
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
            refine(fall, bounds, comparison, condition ^ 8)
        if flow.fall >= 0:
            self._join(flow.fall, fall)
        if flow.taken >= 0:
            self._join(flow.taken, taken)

    def _register_comparison(self, state: SymbolicState, word: int) -> ComparedValues | None:
        value = state.get((word >> 14) & 31)
        return ComparedValues(value, 0) if isinstance(value, Affine) else None


_REGISTER_CONDITIONS = (0, 1, 2, 3, 0, 9, 10, 11)
"""BPr's conditions (0 reserved, z, lez, lz, reserved, nz, gz, gez) as integer conditions."""
