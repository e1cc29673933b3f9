"""The run-time routines of k-BLPP, the code that calls them, and what both execute.

`emit r` for k > 2 is `add; brnz, nop;` and either a call of `kblpp_root`, where a chunk begins, or
of `kblpp_child`, and moves of what it returns. For k = 2 a chunk begins each time.

Steps of a routine
------------------
1. `kblpp_root`: the word of the roots' array at the path's number, or (`kblpp_root_hashed`) of its
   bucket, is the address of the first node of a list. `kblpp_child`: tau's word `child` is.
2. The list is searched for the number. A node that is not there is appended: this is the new tau.
3. If there is a node of the lower slab, or the chunk before ended in one, its children are
   searched in the same way, and the one that is found, the new beta, is counted. Otherwise tau is.

Nodes are handed out from a pool of the whole program (`Buffer.is_pool`). Their words:
the path's number, the count, the addresses of the first child and of the next node of its list.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import cache
from itertools import chain

from simprof import schemes as s
from simprof.profiler.schemes.kblpp.actions import BETA, LACKING, TAU, BeginStream, Emit, StartPath
from simprof.profiler.schemes.kblpp.forest import (
    BUCKET_BITS,
    BUCKETS,
    Counted,
    SlabForest,
)
from simprof.schemes import asm, shapes

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
