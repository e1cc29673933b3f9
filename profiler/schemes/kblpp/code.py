"""Sequences of path numbers: their codes, the k-slab forest, and the k-iteration path forest.

Source: D'Elia and Demetrescu, OOPSLA 2013, by the algorithm chapter of D'Elia's thesis.

Terms
-----
stream
    The numbers of the acyclic paths of one activation, in order.
sequence
    Numbers that come one directly behind the other in a stream. Its *code* is its numerals in
    base N, the number of paths, with digits 1 .. N; the empty sequence has code 0. A sequence's
    *number* is its code less 1: that of a single path is the path's own.
chunk
    k - 1 numbers of a stream, from a multiple of k - 1 on: any sequence of up to k lies in two
    chunks that follow each other.
k-slab forest
    Prefix trees of pairs of such chunks. A node is a sequence of up to 2k - 2 numbers. Those of
    more than k - 1 are its *lower slab*, those of the first chunk of a stream and of pairs count.
k-iteration path forest
    Counts of all sequences of up to k numbers (`iteration_paths`). Its first level is the profile
    of the acyclic paths.
"""

# ruff: noqa: D102 - overriding methods do what `Action` says

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import NamedTuple

from msgspec import Struct

from simprof import schemes as s
from simprof.schemes import asm, shapes

# -- Sequences and forests


class Sequences(Struct, frozen=True):
    """Sequences of numbers below `paths`, and the forest that counts those of up to `length`."""

    paths: int
    length: int  # k

    @property
    def chunk(self) -> int:
        """Numbers of a chunk."""
        return self.length - 1

    def extended(self, code: int, number: int) -> int:
        """Return the code of a sequence with another number behind it."""
        return code * self.paths + number + 1

    def numbers(self, code: int) -> tuple[int, ...]:
        """Return the sequence of a code."""
        found = []
        while code > 0:
            code, number = divmod(code - 1, self.paths)
            found.append(number)
        return tuple(reversed(found))

    def upper(self, node: tuple[int, ...]) -> tuple[int, ...]:
        """Return the node of the upper slab at which a stream is whose counted node is `node`."""
        return node[self.chunk :] or node

    def iteration_paths(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return sequence -> count of the k-iteration path forest, by number, ascending.

        `counts`: The same of the k-slab forest's nodes.
        """
        # Joining the tree at each node into the forest's root adds the count of a node to all
        # sequences that end with it.
        found: Counter[int] = Counter()
        for node, count in counts.items():
            code, place = 0, 1
            for number in reversed(self.numbers(node + 1)[-self.length :]):
                code += (number + 1) * place
                place *= self.paths
                found[code - 1] += count
        return dict(sorted(found.items()))


class Visit(NamedTuple):
    """A search for a node: how many others it passed, and whether the node then was inserted."""

    passed: int
    inserted: bool


Counted = tuple[bool, tuple[Visit, ...]]
"""Whether a chunk began, and the visits of the upper node, and of the lower one if there is one."""


class SlabForest:
    """Where the nodes of a k-slab forest are, as counters were incremented first."""

    # A node's children are a list to whose end new ones are appended. So how many others a search
    # passes before it finds a node never changes. Roots are found by their number, or in buckets.

    def __init__(self, sequences: Sequences, buckets: int) -> None:
        self._sequences = sequences
        self._buckets = buckets  # 0: roots are in an array
        self._places: dict[tuple[int, ...], int] = {}  # Node -> nodes before it in its list
        self._lists: Counter[tuple[int, ...]] = Counter()  # Nodes of each list so far

    def count(self, number: int) -> Counted:
        """Return what happens when a node is counted."""
        node = self._sequences.numbers(number + 1)
        upper = self._sequences.upper(node)
        lower = [node] if len(node) > self._sequences.chunk else []
        return len(upper) == 1, tuple(self._visit(each) for each in (upper, *lower))

    def _visit(self, node: tuple[int, ...]) -> Visit:
        known = self._places.get(node)
        if known is not None:
            return Visit(known, False)
        own_list = node[:-1]
        if not own_list:  # a root: the list of its bucket, or its own
            own_list = (-1 - (bucket(node[0]) if self._buckets else node[0]),)
        place = self._places[node] = self._lists[own_list]
        self._lists[own_list] += 1
        return Visit(place, True)


BUCKET_BITS = 9
BUCKETS = 1 << BUCKET_BITS


def bucket(number: int) -> int:
    """Return the bucket of a root."""
    return (number ^ number >> BUCKET_BITS) & BUCKETS - 1


# -- Actions
#
# What k-BLPP does on edges: streams begin, paths begin in them, and emit their numbers.
#
# Path registers of an activation, in this order: r; tau, the code of its node in the upper slab;
# with k > 2 also beta, that of its node in the lower slab (0: none), and how many numbers its chunk
# lacks. With k = 2 each chunk is one number, and beta is a child of the tau before.


TAU, BETA, LACKING = range(1, 4)


class BeginStream(s.Action, frozen=True):
    """`*`: an activation begins."""

    def execute(self, execution: s.Execution) -> None:
        execution.registers[:] = [0] * len(execution.registers)

    def __str__(self) -> str:
        return "emit *"


class StartPath(s.Action, frozen=True):
    """`r=constant`: `SetRegister` would say that the other registers are of no use any more."""

    constant: int

    def execute(self, execution: s.Execution) -> None:
        execution.registers[0] = self.constant

    def __str__(self) -> str:
        return f"r={self.constant}"


class Emit(s.Action, frozen=True):
    """`emit r + constant`: a path ends."""

    constant: int
    sequences: Sequences
    hashed: bool = False  # Whether roots are in buckets
    from_register: bool = True  # Whether r is part of the number

    def execute(self, execution: s.Execution) -> None:
        registers, sequences = execution.registers, self.sequences
        number = self.constant + (registers[0] if self.from_register else 0)
        tau, extended = registers[TAU], sequences.extended
        if sequences.length == 2:
            registers[TAU] = extended(0, number)
            counted = extended(tau, number)
        else:
            if registers[LACKING] == 0:
                execution.take()
                registers[BETA], tau = tau, 0
                registers[LACKING] = sequences.chunk
            registers[LACKING] -= 1
            counted = registers[TAU] = extended(tau, number)
            if registers[BETA]:
                counted = registers[BETA] = extended(registers[BETA], number)
        registers[0] = 0  # It means nothing now: so that equal states are equal
        execution.count(counted - 1)

    def __str__(self) -> str:
        return f"emit {s.register_sum(self.constant) if self.from_register else self.constant}"


# -- Code
#
# The run-time routines of k-BLPP, the code that calls them, and what both execute.
#
# `emit r` for k > 2 is `add; brnz, nop;` and either a call of `kblpp_root`, where a chunk begins,
# or of `kblpp_child`, and moves of what it returns. For k = 2 a chunk begins each time.
#
# Steps of a routine
# ------------------
# 1. `kblpp_root`: the word of the roots' array at the path's number, or (`kblpp_root_hashed`) of
#    its bucket, is the address of the first node of a list. `kblpp_child`: tau's word `child` is.
# 2. The list is searched for the number. A node that is not there is appended: this is the new tau.
# 3. If there is a node of the lower slab, or the chunk before ended in one, its children are
#    searched in the same way, and the one that is found, the new beta, is counted. Otherwise tau
#    is.
#
# Nodes are handed out from a pool of the whole program (`Buffer.is_pool`). Their words:
# the path's number, the count, the addresses of the first child and of the next node of its list.


R = s.Register

NODES = s.Buffer("nodes", size=1 << 27, is_pool=True)  # Room for 8 million
NODE_SIZE = 16
_NUMBER, _COUNT, _CHILD, _NEXT = range(0, NODE_SIZE, 4)
ROOT, ROOT_HASHED, CHILD = "kblpp_root", "kblpp_root_hashed", "kblpp_child"
NAMES = (ROOT, ROOT_HASHED, CHILD)

# Calling convention: %o0 = path number, %o1 = address of the roots, or tau, %o2 = node whose child
# is to be counted, 0 for none. Called with `call`; returns the new tau in %o1, the new beta in %o2.
# Besides only %o0 and %o7 change, on V8 also icc.
_CLOBBERS = (R.O0, R.O1, R.O2, R.O7)
_KEY, _TAU, _BETA = R.I0, R.I1, R.I2
_LINK, _VALUE, _POOL = R.L0, R.L1, R.L2


@cache
def emit_routine(machine: s.MachineKind, name: str) -> tuple[s.Item, ...]:
    """Return one of the routines, to be assembled; its first label is its symbol."""
    return (
        s.Label(name),
        s.save_smallest_frame(machine),
        *s.clear_upper_half(machine, _KEY),
        *_first_link(name),
        *(_take_root(machine, name) if name == ROOT else _search(machine, f"{name}.upper", _TAU)),
        *s.compare_and_branch(machine, _BETA, None, True, f"{name}.first", False),
        asm.arithmetic("add", _BETA, _CHILD, _LINK),  # harmless where there is none
        *_search(machine, f"{name}.lower", _BETA),
        *_count(_BETA),
        s.Label(f"{name}.first"),
        *_count(_TAU),
    )


def _first_link(name: str) -> list[s.Item]:
    """Leave the address of the word with the list's first node in the link register."""
    if name == CHILD:
        return [asm.arithmetic("add", _TAU, _CHILD, _LINK)]
    place = [asm.shift("sll", _KEY, 2, _LINK), asm.arithmetic("add", _TAU, _LINK, _LINK)]
    if name == ROOT_HASHED:  # the number of the bucket in place of the key
        place[:1] = [
            asm.shift("srl", _KEY, BUCKET_BITS, _LINK),
            asm.arithmetic("xor", _KEY, _LINK, _LINK),
            asm.arithmetic("and", _LINK, BUCKETS - 1, _LINK),
            asm.shift("sll", _LINK, 2, _LINK),
        ]
    return [*place]


def _take_root(machine: s.MachineKind, name: str) -> list[s.Item]:
    """Do step 2 where a word of the array has the only node of its list."""
    return [
        asm.load("ld", _LINK, 0, _TAU),
        *s.compare_and_branch(machine, _TAU, None, False, f"{name}.found", False),
        asm.sethi(s.buffer_address(NODES), _POOL),
        *_new(_TAU),
        s.Label(f"{name}.found"),
    ]


def _search(machine: s.MachineKind, name: str, node: s.Register) -> list[s.Item]:
    """Do step 2: leave the node in a register."""
    *append, last = _new(node)
    return [
        s.Label(f"{name}.step"),
        asm.load("ld", _LINK, 0, node),
        *s.compare_and_branch(machine, node, None, False, f"{name}.check", True),
        asm.load("ld", node, _NUMBER, _VALUE),
        asm.sethi(s.buffer_address(NODES), _POOL),
        *append,
        asm.branch("a", f"{name}.found"),
        last,
        s.Label(f"{name}.check"),
        *s.compare_and_branch(machine, _VALUE, _KEY, False, f"{name}.step", True),
        asm.arithmetic("add", node, _NEXT, _LINK),
        s.Label(f"{name}.found"),
    ]


def _new(node: s.Register) -> list[s.Instruction]:
    """Append a node to the list whose end the link register has."""
    return [
        asm.load("ld", _POOL, 0, node),
        asm.arithmetic("add", node, NODE_SIZE, _VALUE),
        asm.store("st", _VALUE, _POOL, 0),
        asm.store("st", node, _LINK, 0),
        asm.store("st", _KEY, node, _NUMBER),
    ]


def _count(node: s.Register) -> list[s.Instruction]:
    return [
        asm.load("ld", node, _COUNT, _VALUE),
        asm.arithmetic("add", _VALUE, 1, _VALUE),
        asm.store("st", _VALUE, node, _COUNT),
        asm.ret(),
        asm.restore(),
    ]


# -- What the routines execute


def _outcomes(name: str, passed: int, inserted: bool) -> list[bool]:
    """Return the outcomes of the branches of a search."""
    if name == ROOT:
        return [not inserted]
    return [True, True] * passed + ([False] if inserted else [True, False])


@cache
def call_cost(machine: s.MachineKind, name: str, visits: tuple[tuple[int, bool], ...]) -> int:
    """Count what a call executes in the routine's code.

    `visits`: Of tau, and of beta where it is counted: the nodes that are passed, and whether the
    node is inserted.
    """
    upper, *lower = visits
    outcomes = [*_outcomes(name, *upper), not lower]
    for visit in lower:
        outcomes += _outcomes(CHILD, *visit)
    return s.executed(emit_routine(machine, name), outcomes)


def _emit_of(plan: s.InstrumentationPlan) -> Emit | None:
    """Return one of the plan's actions that emit; None if no path of the routine ever ends."""
    actions = chain.from_iterable(plan.actions.values())
    return next((action for action in actions if isinstance(action, Emit)), None)


def _counted(plan: s.InstrumentationPlan, counts: Mapping[int, int]) -> Iterator[Counted]:
    """Yield what happened when each node was counted first."""
    emit = _emit_of(plan)
    if emit is None:
        return iter(())
    forest = SlabForest(emit.sequences, BUCKETS if emit.hashed else 0)
    return map(forest.count, counts)


def table_cost(
    machine: s.MachineKind, plan: s.InstrumentationPlan, counts: Mapping[int, int]
) -> int:
    """Return what the routines execute, by the nodes that they counted in this order first."""
    emit = _emit_of(plan)
    total, root = 0, ROOT_HASHED if emit is not None and emit.hashed else ROOT
    for (is_root, visits), count in zip(_counted(plan, counts), counts.values(), strict=True):
        name = root if is_root else CHILD
        again = tuple((passed, False) for passed, _ in visits)
        total += call_cost(machine, name, visits) + (count - 1) * call_cost(machine, name, again)
    return total


def table_size(plan: s.InstrumentationPlan, counts: Mapping[int, int]) -> int:
    """Return the bytes of the nodes."""
    visits = (visit for _, each in _counted(plan, counts) for visit in each)
    return NODE_SIZE * sum(inserted for _, inserted in visits)


def read_table(
    plan: s.InstrumentationPlan, layout: s.CounterLayout, read: s.ReadMemory
) -> dict[int, int]:
    """Return the counts of nodes in memory, by number."""
    emit, counts = _emit_of(plan), dict[int, int]()
    if emit is None:
        return counts
    roots = _words(read(layout.path_base, s.COUNTER_SIZE * plan.path_counters))
    # Nodes whose parents have these codes
    work = [(0, node) for node in roots]
    while work:
        parent, node = work.pop()
        if node:
            number, count, child, following = _words(read(node, NODE_SIZE))
            code = emit.sequences.extended(parent, number)
            work += [(parent, following), (code, child)]
            if count:
                counts[code - 1] = count
    return counts


def _words(data: bytes) -> Iterator[int]:
    return (int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4))


# -- The code that calls them


def begin_stream(writer: s.Writer, action: BeginStream) -> None:
    """No node, and a chunk that begins with the next number; beta is set there."""
    writer.set_path(0, TAU)
    if len(writer.access.registers) > 2:
        writer.set_path(0, LACKING)


def emit(writer: s.Writer, action: Emit) -> None:
    """Emit a path's number."""
    if action.from_register:
        register = writer.path()
        if register is None:
            writer.load_path(R.O0)
        writer.sum(register or R.O0, action.constant, R.O0, 3)
    else:
        writer.constant(action.constant, R.O0, 3)
    chunk = action.sequences.chunk
    if chunk == 1:
        _root(writer, action)
        writer.store_path(R.O1, TAU)
        return

    def child() -> None:
        writer.load_path(R.O2, BETA)
        writer.load_path(R.O1, TAU)
        writer.call(CHILD)

    def root() -> None:
        _root(writer, action)
        writer.set_path(chunk, LACKING)

    writer.conditional("z", writer.fetch(LACKING, 3), root, 4, child)
    writer.add_path(-1, LACKING)
    writer.store_path(R.O1, TAU)
    writer.store_path(R.O2, BETA)


def _root(writer: s.Writer, action: Emit) -> None:
    writer.load_path(R.O2, TAU)
    writer.emit(*asm.load_constant(writer.layout.path_base, R.O1, writer.is64))
    writer.call(ROOT_HASHED if action.hashed else ROOT)


def _emit_needs(action: Emit, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    return s.Needs(True, _CLOBBERS, machine is s.MachineKind.SPARCV8)


def _emit_shape(action: Emit, access: s.CounterAccess) -> Hashable:
    return (
        action.from_register,
        shapes.constant(action.constant, access),
        action.sequences.chunk == 1,
        shapes.table(access),
    )


GENERATORS: s.Generators = {
    BeginStream: s.Generator(begin_stream, s.Needs(path=True), shapes.same),
    StartPath: s.Generator(
        lambda writer, action: writer.set_path(action.constant),
        s.Needs(path=True),
        lambda action, access: shapes.constant(action.constant, access),
    ),
    Emit: s.Generator(emit, _emit_needs, _emit_shape),
}

CODE = s.SchemeCode(
    generators=GENERATORS,
    routines=(
        lambda machine: tuple(item for name in NAMES for item in emit_routine(machine, name)),
    ),
    table=s.OwnTable(table_cost, table_size, read_table),
)
