"""`hash_routine` for path numbers of several words (see `branch_codes`).

There is one pair of routines, `hash_count_W` and `hash_count_W_back`, for each number W of words.
Calling convention: %o0 = word 0, %o1 = address of the table, words 1 to W - 1 at `KEY_WORDS`.
Registers and condition codes as with `hash_routine`. So are the steps, with these differences:

- the bucket is that of the exclusive or of all words, the low 32 bits of `code_key`;
- a key has W words, wherever it stands, and all are compared.

A table is laid out as that of `hash_routine`, with nodes {W words, count, next}.
`HashTableModel(word_hash_costs(machine, W))` is the exact behaviour: its keys are `code_key`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.code.registers import save_smallest_frame
from simprof.profiler.code.runtime.hash_routine import (
    BUCKETS,
    NO_KEY,
    HashCosts,
    costs_of,
    hash_costs,
    head_address,
    routine_name,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register

R = Register

KEY_WORDS = RUNTIME_DATA + 0x800
"""Where callers put word k of a key, at 4 * (k - 1); one `sethi` makes the address."""
MAX_WORDS = 4
"""Words that a key may have; with 30 bits of labels each, no routine of glibc takes a fourth."""
WORD_COUNTS = range(2, MAX_WORDS + 1)
KEY_WORD_BITS = 32

_KEY, _TABLE = R.I0, R.I1
_HEAD, _NODE, _VALUE, _OTHER = R.L0, R.L1, R.L2, R.L3
_WORDS = (_KEY, R.L4, R.L5, R.L6)
_FOLDED = R.L7


@dataclass(frozen=True)
class WordTable:
    """Offsets in a table and its nodes, in bytes, for keys of `words` words."""

    words: int

    @property
    def count(self) -> int:
        """Of the count in a node; the key is at 0."""
        return 4 * self.words

    @property
    def next(self) -> int:
        """Of the address of the next node in a node."""
        return self.count + 4

    @property
    def node_size(self) -> int:
        """Bytes of a node; the sentinel is at 0, the dummy behind it."""
        return self.next + 4

    @property
    def last(self) -> int:
        """Of the address of the remembered node."""
        return 2 * self.node_size

    @property
    def free(self) -> int:
        """Of the address of the next unused node."""
        return self.last + 4

    @property
    def heads(self) -> int:
        """Of the chains' heads."""
        return self.free + 4

    @property
    def pool(self) -> int:
        """Of the first node."""
        return self.heads + 4 * BUCKETS

    def initial(self, address: int) -> bytes:
        """Return header and heads of an empty table at `address`; the pool follows."""
        dummy = [*[NO_KEY] * self.words, 0, 0]
        links = [address + self.node_size, address + self.pool]
        words = [0] * (self.words + 2) + dummy + links + [address] * BUCKETS
        return b"".join(word.to_bytes(4, "big") for word in words)


def code_key(words: Sequence[int]) -> int:
    """Return the number of the path counter of a code.

    It is the code where that is one word. Otherwise its low word is the words' exclusive or,
    which is what the run-time routine hashes, and the words but the first stand above it.
    """
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


def word_routine_name(words: int, on_back_edge: bool) -> str:
    """Return the symbol of a variant."""
    return f"hash_count_{words}{'_back' if on_back_edge else ''}"


@cache
def word_hash_costs(machine: MachineKind, words: int) -> HashCosts:
    """Count the costs of the routines for keys of `words` words in their code."""
    return costs_of(
        word_hash_routine(machine, words, False), word_hash_routine(machine, words, True)
    )


def key_routine_name(words: int, on_back_edge: bool) -> str:
    """Return the symbol of the routine for keys of `words` words, one or more."""
    return routine_name(on_back_edge) if words == 1 else word_routine_name(words, on_back_edge)


def key_hash_costs(machine: MachineKind, words: int) -> HashCosts:
    """Return the costs of the routine for keys of `words` words, one or more."""
    return hash_costs(machine) if words == 1 else word_hash_costs(machine, words)


def word_hash_routines(machine: MachineKind) -> tuple[Item, ...]:
    """Return all variants, one after the other."""
    return tuple(
        item
        for words in WORD_COUNTS
        for on_back_edge in (False, True)
        for item in word_hash_routine(machine, words, on_back_edge)
    )


@cache
def word_hash_routine(machine: MachineKind, words: int, on_back_edge: bool) -> tuple[Item, ...]:
    """Return one variant, to be assembled; its first label is its symbol."""
    name, table = word_routine_name(words, on_back_edge), WordTable(words)
    items: list[Item] = [Label(name), save_smallest_frame(machine)]
    if machine is MachineKind.SPARCV8PLUS:  # the upper half of %i0 is not the caller's to promise
        items.append(asm.shift("srl", _KEY, 0, _KEY))
    items.append(asm.sethi(KEY_WORDS, _FOLDED))
    items += [asm.load("ld", _FOLDED, 4 * k, _WORDS[k + 1]) for k in range(words - 1)]
    remember: list[Item] = []
    if on_back_edge:
        items += _remembered(machine, table, name)
        remember = [asm.store("st", _NODE, _TABLE, table.last)]
    items += _search(machine, table, name)
    items += _found(table, remember)
    return (*items, *_insert(table, name, remember))


def _difference(words: int) -> list[Item]:
    """Return code that leaves 0 in the value register if, and only if, the node has the key."""
    code: list[Item] = [
        asm.load("ld", _NODE, 0, _VALUE),
        asm.arithmetic("xor", _VALUE, _KEY, _VALUE),
    ]
    for k in range(1, words):
        code += [
            asm.load("ld", _NODE, 4 * k, _OTHER),
            asm.arithmetic("xor", _OTHER, _WORDS[k], _OTHER),
            asm.arithmetic("or", _VALUE, _OTHER, _VALUE),
        ]
    return code


def _branch_if(
    machine: MachineKind, zero: bool, register: Register, to: str, annul: bool = False
) -> list[Item]:
    if machine is MachineKind.SPARCV8:
        return [asm.cmp(register, 0), asm.branch("e" if zero else "ne", to, annul)]
    return [asm.branch_register("z" if zero else "nz", register, to, annul, not zero)]


def _leave() -> list[Item]:
    return [asm.ret(), asm.restore()]


def _remembered(machine: MachineKind, table: WordTable, name: str) -> list[Item]:
    """Do step 1."""
    return [
        asm.load("ld", _TABLE, table.last, _NODE),
        *_difference(table.words),
        *_branch_if(machine, False, _VALUE, f"{name}.search"),
        asm.load("ld", _NODE, table.count, _VALUE),
        asm.arithmetic("add", _VALUE, 1, _VALUE),
        asm.store("st", _VALUE, _NODE, table.count),
        *_leave(),
    ]


def _search(machine: MachineKind, table: WordTable, name: str) -> list[Item]:
    """Do steps 2 and 3. The sentinel holds the key, so every search ends by finding it."""
    fold = [asm.arithmetic("xor", _KEY, _WORDS[1], _FOLDED)]
    fold += [asm.arithmetic("xor", _FOLDED, word, _FOLDED) for word in _WORDS[2 : table.words]]
    return [
        Label(f"{name}.search"),
        *fold,
        *head_address(machine, _FOLDED),
        *(asm.store("st", word, _TABLE, 4 * k) for k, word in enumerate(_WORDS[: table.words])),
        asm.load("ld", _HEAD, table.heads, _NODE),
        Label(f"{name}.step"),
        *_difference(table.words),
        *_branch_if(machine, False, _VALUE, f"{name}.step", annul=True),
        asm.load("ld", _NODE, table.next, _NODE),
        asm.arithmetic("sub", _NODE, _TABLE, _OTHER),
        *_branch_if(machine, True, _OTHER, f"{name}.insert"),
        asm.load("ld", _NODE, table.count, _VALUE),
    ]


def _found(table: WordTable, remember: list[Item]) -> list[Item]:
    """Do step 4 for a path that has been seen, and step 5."""
    return [
        asm.arithmetic("add", _VALUE, 1, _VALUE),
        asm.store("st", _VALUE, _NODE, table.count),
        *remember,
        *_leave(),
    ]


def _insert(table: WordTable, name: str, remember: list[Item]) -> list[Item]:
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
