"""Targets of indirect jumps: constant propagation over a routine, bounded by its comparisons.

A jump through a table has the form `cmp index, n; bgu default; ...; load [table + index]; jump`.
The value that reaches the jump is then an `Entry`, and the facts about its index, gathered along
every path, say which elements can be meant. All of them are read; one that is no code address,
or an index without two bounds, leaves the jump unresolved.

Steps -> functions
------------------
1. Only blocks from which an indirect jump can be reached take part, and of these only what
   influences one (`slices`).
2. States are propagated to a fixpoint in address order (`DataFlow.propagate`), met where paths join
   (`_meet`), and refined on the edges of conditional branches (`_branch`).
3. The table is read (`JumpResolver._resolve`), or guessed where it ends (`_guessed`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping
from functools import partial

from simprof.profiler.recovery import slices
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.exploration import Exploration, Flow, Resolution
from simprof.profiler.recovery.idioms import is_restore, pc_thunk
from simprof.profiler.recovery.instructions import Interpreter
from simprof.profiler.recovery.routines import RoutineMap
from simprof.profiler.recovery.slices import BlockGraph, Part, Slice, Whole
from simprof.profiler.recovery.symbolic import (
    MASK64,
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
from simprof.simulator.binary.program import Program
from simprof.simulator.isa.decode import TransferKind

# How often the interval of a value that paths disagree on may grow before it is given up.
MAX_GROWTH = 4

_K = TransferKind


class DataFlow:
    """One routine's data flow."""

    def __init__(
        self,
        # exploration, graph: The routine, as far as it is explored, and its blocks that take part
        exploration: Exploration,
        graph: BlockGraph,
        # code, memory: The program's code, and what loads from constant addresses read
        code: CodeImage,
        memory: ReadOnlyMemory,
        escapes: dict[int, int],  # See `Interpreter`
        # If given, the data flow is a guess: nothing is written to frame slots through pointers,
        # and where paths come together that lead to several pieces of code, the value is a `Choice`
        # of all of them.
        guesses: Guesses | None = None,
        part: Slice | None = None,  # What of it counts, if that is known already
    ) -> None:
        self._x = exploration
        self._code = code
        self._guesses = guesses
        # Where the tables begin that the routine loads from
        self.tables: set[int] = set() if guesses is None else guesses.tables
        keeps = guesses is not None
        words, address = exploration.words, code.address
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
            state[O7] = self._code.address(at)
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
        pc = self._code.address(at)
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


MAX_ENTRIES = 1 << 16  # Largest jump table believed, in elements
MAX_PIECES = 1 << 8  # Largest number of pieces of code believed that a jump computes its way into


# What an analysis depends on -> what the jumps of the routine resolve to.
Answers = dict[Hashable, Mapping[int, Resolution | None]]


class JumpResolver:
    """Resolves the indirect jumps of an `Exploration`, routine by routine."""

    # `program`, `code`: The program and its image. Tables are read from segments that are not
    # writable.
    # `known`: Answers of earlier resolvers of the same program, extended here.

    def __init__(self, program: Program, code: CodeImage, known: Answers | None = None) -> None:
        mask = MASK64 if program.is64 else 0xFFFFFFFF
        segments = [(s.address, s.data) for s in program.segments if not s.writable]
        self._memory = ReadOnlyMemory(segments, mask)
        self._image = ReadOnlyMemory([(s.address, s.data) for s in program.segments], mask)
        self._guess = partial(Guesses, DataSymbols(program), code, self._image)
        self._code = code
        self._known: Answers = {} if known is None else known

    def resolve(self, exploration: Exploration, number: int) -> Mapping[int, Resolution | None]:
        """Resolve the jumps that routine `number` has reached so far."""
        # The same graph gives the same answer, without work, when exploration starts over; so does
        # one that has grown only where no indirect jump is influenced.
        key = exploration.fingerprint(number)
        if key not in self._known:
            self._known[key] = self._analyse(exploration, number)
        return self._known[key]

    def _analyse(self, exploration: Exploration, number: int) -> Mapping[int, Resolution | None]:
        graph = slices.BlockGraph(exploration, number)
        escapes = slices.frame_escapes(exploration, number)
        part = Slice(exploration, graph, escapes)
        key = part.fingerprint()
        if key not in self._known:
            flow = DataFlow(exploration, graph, self._code, self._memory, escapes, part=part)
            reached = flow.propagate()
            proven = {jump: self._resolve(*found) for jump, found in reached.items()}
            left = [jump for jump, resolution in proven.items() if resolution is None]
            left = [jump for jump in left if not is_restore(exploration.words[jump + 1])]
            guesses = self._guess(flow.tables, exploration.routine_map, number)
            guessed = self._guessed(guesses, {jump: reached[jump] for jump in left})
            self._known[key] = proven | guessed
        resolutions = self._known[key]
        left = [jump for jump, resolution in resolutions.items() if resolution is None]
        left = [jump for jump in left if not is_restore(exploration.words[jump + 1])]
        if left:
            guesses = self._guess(set(), exploration.routine_map, number)
            flow = DataFlow(exploration, graph, self._code, self._image, {}, guesses)
            reached = flow.propagate()
            guessed = self._guessed(guesses, {jump: reached[jump] for jump in left})
            resolutions = {**resolutions, **guessed}
        return resolutions

    def _guessed(
        self, guesses: Guesses, reached: Mapping[int, tuple[SymbolicValue | None, Bounds]]
    ) -> dict[int, Resolution | None]:
        """What jumps seem to lead to though nothing proves it."""
        resolutions: dict[int, Resolution | None] = {}
        for jump, (value, bounds) in reached.items():
            addresses = () if isinstance(value, int) else guesses.addresses(value, bounds)
            targets = frozenset(map(self._code.index, addresses))
            resolutions[jump] = Resolution(targets, proven=False) if targets else None
        return resolutions

    def _resolve(self, value: SymbolicValue | None, bounds: Bounds) -> Resolution | None:
        low, high = bounds
        addresses: list[int] = []
        if isinstance(value, int):
            addresses = [value]
        elif isinstance(value, Affine):
            if value.atom == RETURN_ADDRESS:
                # ret, or behind an unimp, or behind data
                returns = value.factor == 1 and 8 <= value.base < 1 << 12 and not value.base & 3
                return Resolution(frozenset(), returns=True) if returns else None
            # Every address that a jump into equally long pieces of code can compute.
            if low is not None and high is not None and 0 <= high - low < MAX_PIECES:
                addresses = [value.base + index * value.factor for index in range(low, high + 1)]
        elif isinstance(value, Entry):
            addresses = self._read_table(value, bounds)
        if not addresses:
            return None
        indices = {self._code.index(address & self._memory.mask) for address in addresses}
        return None if -1 in indices else Resolution(frozenset(indices))

    def _read_table(self, entry: Entry, bounds: Bounds) -> list[int]:
        low, high = bounds
        if low is None or high is None or not 0 <= high - low < MAX_ENTRIES:
            return []
        addresses = []
        for index in range(low, high + 1):
            at = entry.address.base + index * entry.address.factor
            element = self._memory.read(at, entry.size, entry.signed)
            address = None if element is None else entry.addend + (element << entry.shift)
            if address is None or self._code.index(address & self._memory.mask) < 0:
                return []  # at once: what is no table may seem to have a great many elements
            addresses.append(address)
        return addresses


# -- Tables whose index no comparison bounds
#
# A computed goto (`goto *labels[*pc]`) compares nothing: whoever wrote the program knows that its
# bytecode holds no other numbers. Nor does a comparison bound a table where the compiler has
# compared another copy of the index than the one that it uses. What such a table holds is then read
# as far as it is one, from its first element on, and it ends
#
# - where a data symbol ends that holds its beginning, or another one begins;
# - where another table begins that the same routine uses;
# - at the first element that does not lead into the routine, or into the part of it that the
#   compiler has set apart (`NAME.cold`).
#
# These targets are a *guess*: the graph has them, and a run may show others. Where even the table
# is unknown, the data flow is computed once more as a guess itself: it then believes that what the
# frame keeps is not overwritten through pointers, reads data that might change, and follows gotos
# that come together in one jump.

MAX_ELEMENTS = 1 << 12  # Longest table that is read without a bound, in elements


class DataSymbols:
    """Where the data of a program that has names begins and ends."""

    def __init__(self, program: Program) -> None:
        data = [each for each in program.symbols if each.size and not each.is_function]
        spans = {each.address: each.size for each in data}
        self._starts = sorted(spans)
        self._ends = [start + spans[start] for start in self._starts]

    def end(self, address: int) -> int:
        """Where the data symbol around an address ends, or the next one begins."""
        after = bisect_right(self._starts, address)
        if after and address < self._ends[after - 1]:
            return self._ends[after - 1]
        return self._starts[after] if after < len(self._starts) else 1 << 64


class Guesses:
    """What one routine's values may stand for."""

    # `memory`: What is read: the program as its file has it.
    # `tables`: Where the routine's tables begin; may grow.

    def __init__(
        self,
        data: DataSymbols,
        code: CodeImage,
        memory: ReadOnlyMemory,
        tables: set[int],
        routines: RoutineMap,
        number: int,
    ) -> None:
        self.tables = tables
        self._data, self._code, self._memory = data, code, memory
        self._routines, self._number = routines, number
        self._read: dict[tuple[Entry, Bounds, int], frozenset[int]] = {}

    def addresses(self, value: SymbolicValue | None, bounds: Bounds) -> frozenset[int]:
        """Return the addresses of the routine's code that a value may be, none if it is no such."""
        # `bounds`: Of the index that it is made of, as far as they are known.
        if isinstance(value, Choice):
            return value.addresses
        if isinstance(value, Entry):
            key = value, bounds, len(self.tables)  # which only grow
            if key not in self._read:
                self._read[key] = self._table(value, bounds)
            return self._read[key]
        if isinstance(value, int) and self._leads_into(value):
            return frozenset((value,))
        return frozenset()

    def _table(self, entry: Entry, bounds: Bounds) -> frozenset[int]:
        # The code addresses that a table holds, none if it does not look like one.
        factor = entry.address.factor
        if factor <= 0:
            return frozenset()
        low, high = bounds
        mask = self._memory.mask
        start = entry.address.base + (low or 0) * factor & mask
        end = start + MAX_ELEMENTS * max(entry.size, factor)
        if high is not None:
            end = min(end, (entry.address.base + high * factor & mask) + entry.size)
        end = min([end, self._data.end(start), *(table for table in self.tables if table > start)])
        found = set()
        for at in range(start, end - entry.size + 1, max(entry.size, factor)):
            element = self._memory.read(at, entry.size, entry.signed)
            if element is None:
                break
            address = entry.addend + (element << entry.shift) & mask
            if not self._leads_into(address):
                break
            found.add(address)
        return frozenset(found) if len(found) > 1 else frozenset()  # one element is no table

    def _leads_into(self, address: int) -> bool:
        # Whether an address is one of the routine's code.
        routines, number = self._routines, self._number
        owner = routines.owner(self._code.index(address))
        if owner == number or owner < 0:
            return owner == number
        # The parts of a routine that the compiler has cut in two belong together.
        names = [routines.routines[each].name for each in (owner, number)]
        return names[0] == f"{names[1]}.cold" or names[1] == f"{names[0]}.cold"
