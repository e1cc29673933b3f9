"""The run-time routines that count paths in hash tables (EPP 5.3), written in SPARC.

Terms: a *table* belongs to one routine. A *node* holds one executed path. Its key is the path's
number, of one word, or of several words where schemes need longer ones (`branch_codes`). For each
number of words there are two variants: `hash_count` and, for loop back edges, `hash_count_back`,
which remembers the node that it counted last. What they do, and kernels and `HashTableModel` too:

1. `hash_count_back` only: if the remembered node's key equals the key, its count grows by one.
   Nothing else happens (cost `remembered`).
2. bucket = (key * 2592221 >> 21) & 511, of the exclusive or of all words.
3. The chain is searched from its head. k = nodes passed that have another key.
4. Found: the count grows by one. Not found (k = length of the chain): a new node with count 1
   is put at the *head* of the chain. Chains are never reordered.
5. `hash_count_back` only: the node of step 4 becomes the remembered one. `hash_count` neither
   looks at the remembered node nor changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec import Struct, field

from simprof.profiler.code.counting import executed
from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.code.registers import clear_upper_half, save_smallest_frame
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register

R = Register

BUCKETS = 512
# Path numbers come as sums of few values, often multiples of powers of two; the multiplier, near
# 2^22 / golden ratio, scatters these, and small numbers still get a bucket each.
HASH_MULTIPLIER = 0x278DDD
HASH_SHIFT = 21
# Where callers put word k of a key, at 4 * (k - 1); one `sethi` makes the address.
KEY_WORDS = RUNTIME_DATA + 0x800
# Words that a key may have; with 30 bits of labels each, no routine of glibc takes a fourth.
MAX_WORDS = 4
WORD_COUNTS = range(1, MAX_WORDS + 1)
KEY_WORD_BITS = 32
_NO_KEY = 0xFFFFFFFF

_KEY, _TABLE = R.I0, R.I1
_HEAD, _NODE, _VALUE, _OTHER = R.L0, R.L1, R.L2, R.L3
_WORDS = (_KEY, R.L4, R.L5, R.L6)
_FOLDED = R.L7
_PRODUCT = R.O0


# All words have 32 bits, big-endian; tables lie in the low 4 GB. With keys of one word:
#
# ======  =========  ====================================================================
# offset  name       contents
# ======  =========  ====================================================================
# 0       sentinel   a node; its address ends every chain. A search stores its key here
# 12      dummy      a node with key 0xffffffff, which no path has
# 24      last       address of the remembered node; at first the dummy's
# 28      free       address of the next unused node
# 32      heads      512 addresses of first nodes; at first the sentinel's
# 2080    pool       nodes, handed out upwards, 12 bytes each
# ======  =========  ====================================================================
class TableLayout:
    """Offsets in a table and its nodes, in bytes, for keys of `words` words."""

    def __init__(self, words: int = 1) -> None:
        self.words = words
        # In a node: its key is at 0, then its count and the address of the next one.
        self.count = 4 * words
        self.next = self.count + 4
        self.node_size = self.next + 4
        self.last = 2 * self.node_size
        self.free = self.last + 4
        self.heads = self.free + 4
        self.pool = self.heads + 4 * BUCKETS

    def size(self, paths: int) -> int:
        """Return the bytes of a table with so many nodes."""
        return self.pool + self.node_size * paths

    def initial(self, address: int) -> bytes:
        """Return header and heads of an empty table at `address`; the pool follows."""
        dummy = [*[_NO_KEY] * self.words, 0, 0]
        links = [address + self.node_size, address + self.pool]
        words = [0] * (self.words + 2) + dummy + links + [address] * BUCKETS
        return b"".join(word.to_bytes(4, "big") for word in words)


def code_key(words: Sequence[int]) -> int:
    """Return the number of the path counter of a code."""
    # It is the code where that is one word. Otherwise its low word is the words' exclusive or,
    # which is what the run-time routine hashes, and the words but the first stand above it.
    folded = key = 0
    for word in reversed(words):
        folded ^= word
        key = key << KEY_WORD_BITS | word
    return key ^ words[0] ^ folded


def key_code(key: int, word_count: int) -> tuple[int, ...]:
    """Return the code, by word, that `code_key` made `key` of."""
    mask = (1 << KEY_WORD_BITS) - 1
    low, *others = (key >> KEY_WORD_BITS * at & mask for at in range(word_count))
    for word in others:
        low ^= word
    return (low, *others)


def routine_name(on_back_edge: bool, words: int = 1) -> str:
    """Return the symbol of a variant."""
    return f"hash_count{f'_{words}' if words > 1 else ''}{'_back' if on_back_edge else ''}"


def bucket(key: int) -> int:
    """Return the bucket of `key` (step 2)."""
    return key * HASH_MULTIPLIER >> HASH_SHIFT & (BUCKETS - 1)


def hash_routines(machine: MachineKind) -> tuple[Item, ...]:
    """Return all variants, one after the other."""
    return tuple(
        item
        for words in WORD_COUNTS
        for on_back_edge in (False, True)
        for item in hash_routine(machine, on_back_edge, words)
    )


# Calling convention: %o0 = path number (below 2^32 - 1 if it is the only word), %o1 = address of
# the table, further words at `KEY_WORDS`; called with `call`. Only %o0, %o1, %o7 change; on V8 also
# icc. Neither %y nor, on V9 and V8+, any condition code changes, because the V9 routines branch on
# registers and the V8 one, whose multiply writes %y, puts it back.
@cache
def hash_routine(machine: MachineKind, on_back_edge: bool, words: int = 1) -> tuple[Item, ...]:
    """Return one variant, to be assembled; its first label is its symbol."""
    name, table = routine_name(on_back_edge, words), TableLayout(words)
    items: list[Item] = [Label(name), save_smallest_frame(machine)]
    items += clear_upper_half(machine, _KEY)
    if words > 1:
        items.append(asm.sethi(KEY_WORDS, _FOLDED))
        items += [asm.load("ld", _FOLDED, 4 * k, _WORDS[k + 1]) for k in range(words - 1)]
    remember: list[Item] = []
    if on_back_edge:
        items += _remembered(machine, table, name)
        remember = [asm.store("st", _NODE, _TABLE, table.last)]
    items += _search(machine, table, name)
    items += _found(table, remember)
    return (*items, *_insert(table, name, remember))


def compare_and_branch(
    machine: MachineKind, left: Register, right: Register | None, equal: bool, to: str, annul: bool
) -> list[Item]:
    """Compare and branch; `right` is None for 0. Changes %l3, on V8 icc in place of it."""
    if machine is MachineKind.SPARCV8:  # it has no branch on a register's contents
        compare = asm.cmp(left, 0 if right is None else right)
        return [compare, asm.branch("e" if equal else "ne", to, annul)]
    code: list[Item] = []
    if right is not None:
        code.append(asm.arithmetic("sub", left, right, _OTHER))
        left = _OTHER
    return [*code, asm.branch_register("z" if equal else "nz", left, to, annul, not equal)]


def _branch_if_other(machine: MachineKind, words: int, to: str, annul: bool = False) -> list[Item]:
    """Branch if the node has another key."""
    code: list[Item] = [asm.load("ld", _NODE, 0, _VALUE)]
    if words == 1:
        return [*code, *compare_and_branch(machine, _VALUE, _KEY, False, to, annul)]
    code.append(asm.arithmetic("xor", _VALUE, _KEY, _VALUE))
    for k in range(1, words):
        code += [
            asm.load("ld", _NODE, 4 * k, _OTHER),
            asm.arithmetic("xor", _OTHER, _WORDS[k], _OTHER),
            asm.arithmetic("or", _VALUE, _OTHER, _VALUE),
        ]
    return [*code, *compare_and_branch(machine, _VALUE, None, False, to, annul)]


def _leave() -> list[Item]:
    return [asm.ret(), asm.restore()]


def _remembered(machine: MachineKind, table: TableLayout, name: str) -> list[Item]:
    """Do step 1."""
    return [
        asm.load("ld", _TABLE, table.last, _NODE),
        *_branch_if_other(machine, table.words, f"{name}.search"),
        asm.load("ld", _NODE, table.count, _VALUE),
        *_found(table, []),
    ]


def _hash(machine: MachineKind, key: Register) -> list[Item]:
    """Leave the bucket's offset in bits 2 to 10 of the head register."""
    if machine is MachineKind.SPARCV8:  # no bit beyond the product's lower half is needed
        return [
            asm.read_state("%y", _OTHER),
            *asm.load_constant(HASH_MULTIPLIER, _HEAD, False),
            asm.arithmetic("umul", key, _HEAD, _HEAD),
            asm.write_state(_OTHER, 0, "%y"),
            asm.shift("srl", _HEAD, HASH_SHIFT - 2, _HEAD),
        ]
    return [
        # A single `sethi` makes 2^10 times the multiplier. The product needs 64 bits, which in V8+
        # only out registers keep.
        asm.sethi(HASH_MULTIPLIER << 10, _PRODUCT),
        asm.arithmetic("mulx", key, _PRODUCT, _PRODUCT),
        asm.shift("srlx", _PRODUCT, 10 + HASH_SHIFT - 2, _HEAD),
    ]


def _search(machine: MachineKind, table: TableLayout, name: str) -> list[Item]:
    """Do steps 2 and 3."""
    key, fold, at_end = _KEY, list[Item](), list[Item]()
    for word in _WORDS[1 : table.words]:
        fold.append(asm.arithmetic("xor", key, word, _FOLDED))
        key = _FOLDED
    # The chain has ended where the node is the sentinel, at the table's address.
    if table.words == 1:
        at_end = compare_and_branch(machine, _NODE, _TABLE, True, f"{name}.insert", False)
    else:
        at_end.append(asm.arithmetic("sub", _NODE, _TABLE, _OTHER))
        at_end += compare_and_branch(machine, _OTHER, None, True, f"{name}.insert", False)
    return [
        Label(f"{name}.search"),
        *fold,
        *_hash(machine, key),
        asm.arithmetic("and", _HEAD, BUCKETS - 1 << 2, _HEAD),
        asm.arithmetic("add", _TABLE, _HEAD, _HEAD),  # the offset of all heads comes on top
        # The sentinel holds the key, so every search ends by finding it.
        *(asm.store("st", word, _TABLE, 4 * k) for k, word in enumerate(_WORDS[: table.words])),
        asm.load("ld", _HEAD, table.heads, _NODE),
        Label(f"{name}.step"),
        *_branch_if_other(machine, table.words, f"{name}.step", annul=True),
        asm.load("ld", _NODE, table.next, _NODE),
        *at_end,
        asm.load("ld", _NODE, table.count, _VALUE),
    ]


def _found(table: TableLayout, remember: list[Item]) -> list[Item]:
    """Do step 4 for a path that has been seen, and step 5."""
    return [
        asm.arithmetic("add", _VALUE, 1, _VALUE),
        asm.store("st", _VALUE, _NODE, table.count),
        *remember,
        *_leave(),
    ]


def _insert(table: TableLayout, name: str, remember: list[Item]) -> list[Item]:
    """Do step 4 for a new path, and step 5."""
    return [
        Label(f"{name}.insert"),
        asm.load("ld", _TABLE, table.free, _NODE),
        asm.load("ld", _HEAD, table.heads, _OTHER),
        asm.store("st", _NODE, _HEAD, table.heads),
        asm.arithmetic("add", _NODE, table.node_size, _VALUE),
        asm.store("st", _VALUE, _TABLE, table.free),
        *(asm.store("st", word, _NODE, 4 * k) for k, word in enumerate(_WORDS[: table.words])),
        asm.mov(1, _VALUE),
        asm.store("st", _VALUE, _NODE, table.count),
        asm.store("st", _OTHER, _NODE, table.next),
        *remember,
        *_leave(),
    ]


class HashCosts(Struct, frozen=True):
    """Instructions executed inside the routine, by what happens to the key."""

    # `hit` and `insert` are for k = 0 (step 3); every node passed adds `step`. The call itself and
    # its delay slot belong to the snippet that calls.

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
def hash_costs(machine: MachineKind, words: int = 1) -> HashCosts:
    """Count the costs of the routines' paths in their code: they are never typed in."""
    plain, back = (hash_routine(machine, on_back_edge, words) for on_back_edge in (False, True))
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


class HashTableModel(Struct):
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
