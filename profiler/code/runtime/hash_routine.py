"""The run-time routine that counts paths in a hash table (EPP 5.3), written in SPARC.

Terms: a *table* belongs to one routine. A *node* holds one executed path. There are two
variants: `hash_count` and, for loop back edges, `hash_count_back`, which remembers the node that
it counted last.

Calling convention: %o0 = path number (32 bits, below 2^32 - 1), %o1 = address of the table,
called with `call`. Only %o0, %o1, %o7 change; on V8 also icc. Neither %y nor, on V9 and V8+, any
condition code changes, because the V9 routines branch on registers and the V8 one, whose multiply
writes %y, puts it back.

Memory model (all words 32 bits, big-endian; tables lie in the low 4 GB):

======  =========  ====================================================================
offset  name       contents
======  =========  ====================================================================
0       sentinel   a node; its address ends every chain. A search stores its key here
12      dummy      a node with key 0xffffffff, which no path has
24      last       address of the remembered node; at first the dummy's
28      free       address of the next unused node
32      heads      512 addresses of first nodes; at first the sentinel's
2080    pool       nodes, handed out upwards, 12 bytes each
======  =========  ====================================================================

A node is {key, count, next}. The exact behaviour, which `HashTableModel` repeats and kernels must:

1. `hash_count_back` only: if the remembered node's key equals the key, its count grows by one.
   Nothing else happens (cost `remembered`).
2. bucket = (key * 2592221 >> 21) & 511. Path numbers come as sums of few values, often multiples
   of powers of two; the multiplier, near 2^22 / golden ratio, scatters these, and small numbers
   still get a bucket each.
3. The chain is searched from its head. k = nodes passed that have another key.
4. Found: the count grows by one. Not found (k = length of the chain): a new node with count 1
   is put at the *head* of the chain. Chains are never reordered.
5. `hash_count_back` only: the node of step 4 becomes the remembered one. `hash_count` neither
   looks at the remembered node nor changes it.

Costs are counted in the assembled code by `executed`, never typed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from simprof.profiler.code.registers import save_smallest_frame
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register

R = Register

BUCKETS = 512
HASH_MULTIPLIER = 0x278DDD
HASH_SHIFT = 21
NODE_SIZE = 12
KEY, COUNT, NEXT = 0, 4, 8
SENTINEL = 0
DUMMY = SENTINEL + NODE_SIZE
LAST = DUMMY + NODE_SIZE
FREE = LAST + 4
HEADS = FREE + 4
POOL = HEADS + 4 * BUCKETS
NO_KEY = 0xFFFFFFFF
TABLE_ALIGNMENT = 1024
"""Tables are aligned so that one `sethi` makes their address."""

PLAIN_ROUTINE = "hash_count"
BACK_EDGE_ROUTINE = "hash_count_back"

_KEY, _TABLE = R.I0, R.I1
_HEAD, _NODE, _VALUE, _OTHER = R.L0, R.L1, R.L2, R.L3
_PRODUCT = R.O0


def bucket(key: int) -> int:
    """Return the bucket of `key` (step 2)."""
    return key * HASH_MULTIPLIER >> HASH_SHIFT & (BUCKETS - 1)


def routine_name(on_back_edge: bool) -> str:
    """Return the symbol of a variant."""
    return BACK_EDGE_ROUTINE if on_back_edge else PLAIN_ROUTINE


@cache
def hash_routine(machine: MachineKind, on_back_edge: bool) -> tuple[Item, ...]:
    """Return one variant of the routine, to be assembled; its first label is its symbol."""
    name = routine_name(on_back_edge)
    items: list[Item] = [
        Label(name),
        save_smallest_frame(machine),
    ]
    if machine is MachineKind.SPARCV8PLUS:  # the upper half of %i0 is not the caller's to promise
        items.append(asm.shift("srl", _KEY, 0, _KEY))
    if on_back_edge:
        items += _remembered(machine, name)
    items += _search(machine, name)
    items += _found(name, on_back_edge)
    return (*items, *_insert(name, on_back_edge))


def _branch_on_difference(
    machine: MachineKind, left: Register, right: Register, equal: bool, to: str, annul: bool = False
) -> list[Item]:
    """Compare and branch; V8 has no branch on a register's contents."""
    if machine is MachineKind.SPARCV8:
        return [asm.cmp(left, right), asm.branch("e" if equal else "ne", to, annul)]
    difference = asm.arithmetic("sub", left, right, _OTHER)
    return [difference, asm.branch_register("z" if equal else "nz", _OTHER, to, annul, not equal)]


def _leave() -> list[Item]:
    return [asm.ret(), asm.restore()]


def _remembered(machine: MachineKind, name: str) -> list[Item]:
    """Do step 1."""
    return [
        asm.load("ld", _TABLE, LAST, _NODE),
        asm.load("ld", _NODE, KEY, _VALUE),
        *_branch_on_difference(machine, _VALUE, _KEY, False, f"{name}.search"),
        asm.load("ld", _NODE, COUNT, _VALUE),
        asm.arithmetic("add", _VALUE, 1, _VALUE),
        asm.store("st", _VALUE, _NODE, COUNT),
        *_leave(),
    ]


def head_address(machine: MachineKind, key: Register) -> list[Item]:
    """Return code that leaves in %l0 the table's address in %i1 plus the offset of `key`'s head.

    `HEADS` is still to be added. Step 2; it uses %l3 and, on V9 and V8+, %o0.
    """
    return [
        *(_hash_with_y(key) if machine is MachineKind.SPARCV8 else _hash(key)),
        asm.arithmetic("and", _HEAD, BUCKETS - 1 << 2, _HEAD),
        asm.arithmetic("add", _TABLE, _HEAD, _HEAD),
    ]


def _hash(key: Register) -> list[Item]:
    """Leave the bucket's offset in bits 2 to 10 of the head register.

    A single `sethi` makes 2^10 times the multiplier. The product needs 64 bits, which in V8+ only
    out registers keep.
    """
    return [
        asm.sethi(HASH_MULTIPLIER << 10, _PRODUCT),
        asm.arithmetic("mulx", key, _PRODUCT, _PRODUCT),
        asm.shift("srlx", _PRODUCT, 10 + HASH_SHIFT - 2, _HEAD),
    ]


def _hash_with_y(key: Register) -> list[Item]:
    """Do the same in V8; no bit beyond the product's lower half is needed."""
    return [
        asm.read_state("%y", _OTHER),
        *asm.load_constant(HASH_MULTIPLIER, _HEAD, False),
        asm.arithmetic("umul", key, _HEAD, _HEAD),
        asm.write_state(_OTHER, 0, "%y"),
        asm.shift("srl", _HEAD, HASH_SHIFT - 2, _HEAD),
    ]


def _search(machine: MachineKind, name: str) -> list[Item]:
    """Do steps 2 and 3. The sentinel holds the key, so every search ends by finding it."""
    return [
        Label(f"{name}.search"),
        *head_address(machine, _KEY),
        asm.store("st", _KEY, _TABLE, SENTINEL + KEY),
        asm.load("ld", _HEAD, HEADS, _NODE),
        Label(f"{name}.step"),
        asm.load("ld", _NODE, KEY, _VALUE),
        *_branch_on_difference(machine, _VALUE, _KEY, False, f"{name}.step", annul=True),
        asm.load("ld", _NODE, NEXT, _NODE),
        *_branch_on_difference(machine, _NODE, _TABLE, True, f"{name}.insert"),
        asm.load("ld", _NODE, COUNT, _VALUE),
    ]


def _found(name: str, on_back_edge: bool) -> list[Item]:
    """Do step 4 for a path that has been seen, and step 5."""
    remember: list[Item] = [asm.store("st", _NODE, _TABLE, LAST)] if on_back_edge else []
    return [
        asm.arithmetic("add", _VALUE, 1, _VALUE),
        asm.store("st", _VALUE, _NODE, COUNT),
        *remember,
        *_leave(),
    ]


def _insert(name: str, on_back_edge: bool) -> list[Item]:
    """Do step 4 for a new path, and step 5."""
    remember: list[Item] = [asm.store("st", _NODE, _TABLE, LAST)] if on_back_edge else []
    return [
        Label(f"{name}.insert"),
        asm.load("ld", _TABLE, FREE, _NODE),
        asm.load("ld", _HEAD, HEADS, _OTHER),
        asm.store("st", _NODE, _HEAD, HEADS),
        asm.arithmetic("add", _NODE, NODE_SIZE, _VALUE),
        asm.store("st", _VALUE, _TABLE, FREE),
        asm.store("st", _KEY, _NODE, KEY),
        asm.mov(1, _VALUE),
        asm.store("st", _VALUE, _NODE, COUNT),
        asm.store("st", _OTHER, _NODE, NEXT),
        *remember,
        *_leave(),
    ]


def executed(items: Sequence[Item], taken: Iterable[bool]) -> int:
    """Count the instructions from the start of `items` to the return, delay slots included.

    `items`: A routine whose conditional branches name labels of its own. `taken`: Outcome of each
    conditional branch, in the order met.
    """
    code = [item for item in items if isinstance(item, Instruction)]
    places = _places(items)
    outcomes: Iterator[bool] = iter(taken)
    position = count = 0
    while True:
        instruction = code[position]
        if not instruction.is_transfer:
            position, count = position + 1, count + 1
        elif instruction.fixup is None:
            return count + 2  # the return and its delay slot
        elif next(outcomes):
            position, count = places[instruction.fixup.symbol], count + 2
        else:
            position, count = position + 2, count + (1 if instruction.annuls else 2)


def _places(items: Sequence[Item]) -> dict[str, int]:
    places: dict[str, int] = {}
    index = 0
    for item in items:
        if isinstance(item, Label):
            places[item.name] = index
        else:
            index += 1
    return places


@dataclass(frozen=True)
class HashCosts:
    """Instructions executed inside the routine, by what happens to the key.

    `hit` and `insert` are for k = 0 (step 3); every node passed adds `step`. The call itself and
    its delay slot belong to the snippet that calls.
    """

    remembered: int
    back_edge_hit: int
    back_edge_insert: int
    hit: int
    insert: int
    step: int

    def searched(self, on_back_edge: bool, inserted: bool, steps: int) -> int:
        """Return the cost of a call that searches and passes `steps` other nodes."""
        if on_back_edge:
            base = self.back_edge_insert if inserted else self.back_edge_hit
        else:
            base = self.insert if inserted else self.hit
        return base + self.step * steps


@cache
def hash_costs(machine: MachineKind) -> HashCosts:
    """Count the costs of the routine's paths in its code."""
    return costs_of(hash_routine(machine, False), hash_routine(machine, True))


def costs_of(plain: Sequence[Item], back: Sequence[Item]) -> HashCosts:
    """Count the costs of a pair of routines with the branches of `hash_routine`."""
    hit_branches, insert_branches = (False, False), (False, True)
    hit = executed(plain, hit_branches)
    return HashCosts(
        remembered=executed(back, (False,)),
        back_edge_hit=executed(back, (True, *hit_branches)),
        back_edge_insert=executed(back, (True, *insert_branches)),
        hit=hit,
        insert=executed(plain, insert_branches),
        step=executed(plain, (True, *hit_branches)) - hit,
    )


@dataclass
class HashTableModel:
    """What the SPARC routine does to one table, in Python: the reference for kernels."""

    costs: HashCosts
    # Key -> count, in order of insertion (so node k of the pool is the k-th key)
    counts: dict[int, int] = field(default_factory=dict)
    # Keys by bucket, head first
    chains: list[list[int]] = field(default_factory=lambda: [[] for _ in range(BUCKETS)])
    last: int | None = None  # Key of the remembered node, None before the first call on a back edge

    def count(self, key: int, on_back_edge: bool) -> int:
        """Count one execution of path `key`; return the instructions that the routine executes."""
        if on_back_edge and key == self.last:
            self.counts[key] += 1
            return self.costs.remembered
        chain = self.chains[bucket(key)]
        inserted = key not in self.counts
        steps = len(chain) if inserted else chain.index(key)
        if inserted:
            chain.insert(0, key)
        self.counts[key] = self.counts.get(key, 0) + 1
        if on_back_edge:
            self.last = key
        return self.costs.searched(on_back_edge, inserted, steps)
