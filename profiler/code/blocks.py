"""The code of a program and of its blocks as arrays, as `sites_kernel` takes them.

1. `code_facts` gives every word of a code image its effects (once a program).
2. `program_blocks` says where blocks' code and their end transfers are, and what these need.
3. `ProgramBlocks.flow` and `ProgramBlocks.place` have the kernel do a routine.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.code import sites_kernel as k
from simprof.profiler.code.registers import ABI64, ARGUMENTS, Abi, mask
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.packed import NUMBER_OF_KIND, PackedGraphs
from simprof.profiler.recovery.code_image import WordMap
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.simulator.cpu import compiled
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind, Transfers
from simprof.simulator.isa.effects import ALL, Window, effects

# What a software trap hands to Linux: a system call's number and arguments.
TRAP_READS = ARGUMENTS | mask(Register.G1)

_KINDS = tuple(map(TransferKind, range(len(TransferKind))))
_CALLS = (TransferKind.CALL, TransferKind.INDIRECT_CALL)
_RETURNS = (TransferKind.RETURN_JUMP, TransferKind.RETURN)
_BRANCHES = (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS)
_TRAPS = (TransferKind.TRAP_ALWAYS, TransferKind.TRAP_CONDITIONAL)
_RETL = np.uint32(0x81C3E008)
_MANY = np.iinfo(np.int32).max
_ADD_O7 = np.uint32(0x8003C000)  # add %o7, any, any
_SECOND_FORM = np.uint32(0xC1FFC000)

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.uint64]
Sets = npt.NDArray[np.uint8]  # Sets of %g1 to %g5


class CodeFacts(Struct, frozen=True, eq=False, dict=True):
    """A code image with the effects of every word; arrays of shape (n,)."""

    place: WordMap
    words: npt.NDArray[np.uint32]
    transfers: Transfers
    reads: npt.NDArray[np.uint64]
    writes: npt.NDArray[np.uint64]
    names: npt.NDArray[np.uint64]
    window: npt.NDArray[np.uint8]
    entries: frozenset[int]
    thunks: Mapping[int, int]  # Entry of a program-counter thunk -> the registers that it names

    @cached_property
    def shifts(self) -> bytes:
        """By word: what it does to the register window."""
        return self.window.tobytes()

    @cached_property
    def effects(self) -> tuple[memoryview, memoryview]:
        """By word: what it reads and what it replaces; words of these are soon read one by one."""
        return np.ascontiguousarray(self.reads).data, np.ascontiguousarray(self.writes).data

    @cached_property
    def moves(self) -> bytes:
        """By word: 1 where it moves the register window or %sp."""
        sets_sp = self.writes >> np.uint64(Register.SP) & np.uint64(1) == 1
        moves: npt.NDArray[np.bool_] = (self.window != 0) | sets_sp
        return moves.tobytes()

    @cached_property
    def names_stack(self) -> bytes:
        """By word: 1 where it adds a constant to %sp or %fp, to make an address or to access it."""
        base = self.words >> 14 & 31
        constant = (self.words >> 30 >= 2) & (self.words >> 13 & 1 == 1)
        named = constant & np.isin(base, (Register.SP, Register.FP))
        return bytes(named.astype(np.uint8))


def code_facts(
    words: npt.NDArray[np.uint32], place: WordMap, transfers: Transfers, entries: frozenset[int]
) -> CodeFacts:
    """Return the facts that liveness needs."""
    # `words`, `place`, `transfers`: A code image: uint32 words in native order, and where they lie.
    # `entries`: Addresses at which routines are entered that keep to the calling convention.
    reads, writes, names, window = effects(words)
    trap = (words >> 30 == 2) & (words >> 19 & 63 == 0x3A)
    reads = np.where(trap, names | np.uint64(TRAP_READS), reads)
    # Thunks are entries of the form `retl; add %o7, ...`.
    returns = (words[:-1] == _RETL) & (words[1:] & _SECOND_FORM == _ADD_O7)
    addresses = place.addresses(np.flatnonzero(returns)).tolist()
    volatile = ABI64.call_writes & ~mask(Register.O7)
    named = {a: int(names[place.index(a) + 1]) for a in addresses if a in entries}
    thunks = {address: names for address, names in named.items() if not names & volatile}
    return CodeFacts(place, words, transfers, reads, writes, names, window, entries, thunks)


class BlockCode(Struct, frozen=True):
    """Where a block's code is."""

    # first, count: Index of its first word in the code image; its number of instructions.
    first: int
    count: int
    # Position in the block of the control transfer that ends it, None if it runs on
    transfer: int | None
    kind: TransferKind  # Of that transfer
    target: int  # Address that a direct transfer goes to, or -1


class RoutineFlow(NamedTuple):
    """Liveness and frames of one routine (`sites_kernel.flow`)."""

    # By block.
    live_in: Sequence[int]
    behind: Sequence[int]
    depth: Sequence[int]
    lowered: Sequence[int]
    named: int  # Registers that its code mentions
    busy: int  # Those that are live at the top of some block in its own window
    saves: range  # From the first block that opens a window to the last
    arrays: Mapping[str, _Part]  # What the kernel was given, and has found


class Placed(NamedTuple):
    """Where the code of a routine's edges goes, by edge (`sites_kernel.place`)."""

    where: Sequence[int]
    on: Sequence[int]
    block: Sequence[int]
    position: Sequence[int]
    live: Sequence[int]
    depth: Sequence[int]
    lowered: Sequence[int]
    falls: Sequence[int]


class ProgramBlocks(Struct, frozen=True, eq=False, dict=True):
    """The blocks of all routines, in the order of `ProgramGraphs.arrays`; arrays by block."""

    facts: CodeFacts
    graphs: PackedGraphs
    abi: Abi
    # first, transfer: Index of the first word; position of the transfer that ends it, -1 if it
    # runs on. int32.
    first: npt.NDArray[np.int32]
    transfer: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]  # Of that transfer (`TransferKind`)
    # ends, exits, callee, is_shared, end: See `sites_kernel`.
    ends: npt.NDArray[np.uint8]
    exits: Numbers
    callee: Numbers
    is_shared: Flags
    end: npt.NDArray[np.int32]

    def code(self, block: int) -> BlockCode:
        """Return where a block's code is, and the transfer that ends it."""
        first, count = self._lists.first[block], self._lists.length[block]
        transfer, kind = self._lists.transfer[block], _KINDS[self._lists.kind[block]]
        if transfer < 0:
            return BlockCode(first, count, None, kind, -1)
        return BlockCode(first, count, transfer, kind, self._lists.target[first + transfer])

    def handing(self, handed: Mapping[int, int]) -> Self:
        """Return these blocks where some entries, by address, get more than the convention says."""
        exits, leaving = self.exits.copy(), np.flatnonzero(self.exits >= 0)
        branching = leaving[np.isin(self.kind[leaving], _BRANCHES)]
        targets = self.facts.transfers.target[(self.first + self.transfer)[branching]]
        for address, registers in handed.items():
            exits[branching[targets == address]] |= registers
        return replace(self, exits=exits)

    def flow(self, number: int) -> RoutineFlow:
        """Solve liveness and frames of routine number `number`."""
        given = self._given(number)
        found = _call(k.flow, given, _SOLVED)
        sizes = given["size"][0].view(0, k.SIZES)
        blocks = sizes[k.BLOCKS]
        live_in, behind, depth, lowered = (
            column.view(first, blocks) for column, first, _ in found.values()
        )
        named, busy, *saves = sizes[k.NAMED :].tolist()
        return RoutineFlow(
            live_in, behind, depth, lowered, named, busy, range(*saves), given | found
        )

    def place(
        self, flow: RoutineFlow, behind_slots: Iterable[int], tops: Mapping[int, int]
    ) -> Placed:
        """Find where the code of the edges of a routine goes.

        - `behind_slots`: Edges whose code must not stand before a delay slot.
        - `tops`: Edge of an entry -> position of its code, if that stands in the block.
        """
        return _place(flow.arrays, behind_slots, tops)

    def _given(self, number: int) -> dict[str, _Part]:
        """Return the numbers of a routine, and its parts of arrays."""
        graphs = self.graphs
        block, end_block = graphs.first_block[number : number + 2].tolist()
        edge, end_edge = graphs.first_edge[number : number + 2].tolist()
        blocks, edges = end_block - block, end_edge - edge
        size = _sizes(blocks, edges, int(graphs.addresses[number]), ALL & ~self.abi.call_writes)
        by_edge, by_word, by_block = self._columns
        parts = {name: (column, edge, edges) for name, column in by_edge.items()}
        parts |= {name: (column, 0, len(self.facts.words)) for name, column in by_word.items()}
        parts |= {name: (column, block, blocks) for name, column in by_block.items()}
        return size | parts

    @cached_property
    def _columns(self) -> tuple[dict[str, _Column], ...]:
        """Arrays by the names of the kernel's parameters: by edge, by word, by block."""
        own = {name: _Column.of(getattr(self, name)) for name in _OWN}
        by_word = {name: _Column.of(getattr(self.facts, name)) for name in _BY_WORD}
        by_edge, by_block = _graph_columns(self.graphs)
        return by_edge, by_word, by_block | own

    @cached_property
    def _lists(self) -> _Lists:
        arrays = self.first, self.graphs.block_length, self.transfer, self.kind
        return _Lists(*(each.data for each in (*arrays, self.facts.transfers.target)))


class _Lists(NamedTuple):
    """Arrays as views, whose elements are Python's own."""

    first: Sequence[int]
    length: Sequence[int]
    transfer: Sequence[int]
    kind: Sequence[int]
    target: Sequence[int]


def program_blocks(facts: CodeFacts, recovered: ProgramGraphs, rules: Abi) -> ProgramBlocks:
    """Find what the blocks of a program end with."""
    graphs, transfers = recovered.arrays, facts.transfers
    first, count = facts.place.indices(graphs.block_start), graphs.block_length.astype(np.int64)
    kind, transfer = np.zeros(len(first), np.uint8), np.full(len(first), -1)
    for back in (2, 1):
        at = np.where((count >= back) & ~graphs.block_is_slot, first + count - back, -1)
        found = transfers.kind[at]
        # A call of what stands right behind its slot only reads the program counter.
        reads_pc = transfers.target[at] == facts.place.addresses(at) + 8
        is_end = (at >= 0) & (found != TransferKind.NONE)
        is_end &= (found != TransferKind.CALL) | ~reads_pc
        if back == 2:
            is_end &= HAS_DELAY_SLOT[found]
        transfer[is_end], kind[is_end] = (count - back)[is_end], found[is_end]
    target = np.where(transfer >= 0, transfers.target[first + transfer], -1)
    inner, source, onto = _inner_edges(graphs)
    leaves = np.zeros(len(first), np.bool_)
    leaves[source[inner & (onto < 0)]] = True
    is_call = np.isin(kind, _CALLS)
    comes_back = is_call & ~leaves
    callee = np.where(comes_back, rules.call_reads, 0)
    ends = np.where(comes_back, k.CALL, np.where(is_call, k.OTHER_CALL, k.NOTHING))
    for address, named in facts.thunks.items():  # which keep all but these
        is_thunk = comes_back & (target == address)
        callee[is_thunk], ends[is_thunk] = named, k.OTHER_CALL
    ends[np.isin(kind, _TRAPS)], ends[kind == TransferKind.ILLEGAL] = k.TRAP, k.NO_WAY_ON
    to_close = following(facts.window == Window.RESTORE)[first] - first
    exits = _exits(facts, graphs, rules, _Ends(first + count - 1, kind, target, to_close < count))
    # Delay slots that branches lead to, and behind which the transfer itself goes on.
    running = np.flatnonzero(inner & (onto >= 0) & np.isin(graphs.edge_kind, _RUNNING_ON))
    running = running[transfer[source[running]] >= 0]
    behind = first[source[running]] + transfer[source[running]] + 2
    running = running[first[onto[running]] == behind]
    slots = recovered.block_at[first[onto[running]] - 1]
    owner, is_shared = graphs.routine_of, np.zeros(len(first), np.bool_)
    is_shared[slots[(slots >= 0) & (owner(slots) == owner(source[running]))]] = True
    return ProgramBlocks(
        facts,
        graphs,
        rules,
        first.astype(np.int32),
        transfer.astype(np.int32),
        kind,
        ends.astype(np.uint8),
        np.where(leaves, exits, -1),
        callee,
        is_shared,
        np.where(transfer < 0, count, np.minimum(transfer, to_close)).astype(np.int32),
    )


_RUNNING_ON = [NUMBER_OF_KIND[each] for each in (EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)]


def _inner_edges(graphs: PackedGraphs) -> tuple[Flags, Numbers, Numbers]:
    """Return, by edge, whether it is out of a block; its blocks (-1 is EXIT, or none)."""
    owner = np.repeat(np.arange(len(graphs)), np.diff(graphs.first_edge))
    begin, blocks = graphs.first_block[owner], np.diff(graphs.first_block)[owner]
    inner = graphs.edge_source < blocks
    source = np.where(inner, begin + graphs.edge_source, -1)
    return inner, source, np.where(graphs.edge_target < blocks, begin + graphs.edge_target, -1)


def following(flags: Flags) -> Numbers:
    """Return, by index, the first one from there on at which `flags` are set; else their length."""
    # There is one more index than there are flags.
    found = np.append(np.flatnonzero(flags), len(flags))
    return np.repeat(found, np.diff(found, prepend=-1))


class _Ends(NamedTuple):
    """How blocks end; arrays by block."""

    last: Numbers  # Index of the last word
    kind: npt.NDArray[np.uint8]
    target: Numbers
    restores: Flags  # Whether they close a window


def _exits(facts: CodeFacts, graphs: PackedGraphs, rules: Abi, blocks: _Ends) -> Numbers:
    """Return, by block, what is live where it leaves its routine."""
    # A return needs the ABI's result registers, a jump to a routine's entry its arguments (and what
    # its code reads, see `handed_over`), a call that does not return nothing more. What is live is
    # not known behind a branch into the middle of another routine, or to what neither a symbol nor
    # a call shows to be an entry, nor behind an unresolved jump.
    kind = blocks.kind
    exits = np.full(len(kind), ALL)
    exits[np.isin(kind, _RETURNS)] = rules.return_reads
    # Thunks that hand over the program counter (`__sparc_get_pc_thunk.l7`) keep to no ABI: their
    # callers rely on every register that they do not name.
    for number in np.flatnonzero(np.isin(graphs.addresses, list(facts.thunks))).tolist():
        exits[slice(*graphs.first_block[number : number + 2])] = ALL
    # The delay slot of a tail call makes the callee return to this routine's caller.
    sets_o7 = facts.writes[blocks.last] & np.uint64(mask(Register.O7)) != 0
    is_tail = (facts.window[blocks.last] == Window.RESTORE) | sets_o7
    is_call = np.isin(kind, _CALLS)
    exits[is_call] = np.where(is_tail, rules.tail_reads, rules.call_reads)[is_call]
    exits[np.isin(kind, (*_TRAPS, TransferKind.ILLEGAL))] = rules.reserved
    is_entry = np.isin(blocks.target, list(facts.entries))
    exits[np.isin(kind, _BRANCHES) & is_entry] = rules.tail_reads
    exits[(kind == TransferKind.JUMP) & blocks.restores] = rules.tail_reads
    return exits


def places_without_code(cfg: ControlFlowGraph) -> Placed:
    """Find where the code of a graph's edges goes where nothing is known of the routine's code."""
    # A graph file may say any number of instructions; where code goes, more make no difference.
    given_blocks = tuple(
        block._replace(instructions=min(block.instructions, _MANY)) for block in cfg.blocks
    )
    by_edge, by_block = _graph_columns(PackedGraphs.of((replace(cfg, blocks=given_blocks),)))
    blocks, edges = len(cfg.blocks), len(cfg.edges)
    nothing = _Column.zeros(blocks)
    given = _sizes(blocks, edges, cfg.address, 0)
    given |= dict.fromkeys((*_OWN, *_SOLVED), (nothing, 0, blocks))
    given |= dict.fromkeys(_BY_WORD, (nothing, 0, 0))
    given |= {name: (column, 0, edges) for name, column in by_edge.items()}
    given |= {name: (column, 0, blocks) for name, column in by_block.items()}
    return _place(given, (), {})


class Accesses(NamedTuple):
    """Which registers each block reads before it writes them, does not write, writes at last."""

    read_first: Sets
    kept: Sets
    written_last: Sets


def accesses(
    begins: Numbers, stops: Numbers, reads: Masks, writes: Masks, watched: int
) -> Accesses:
    """Return how blocks use the registers `watched`; they have the words `begins` to `stops`."""
    found = Accesses(*np.zeros((3, len(begins)), np.uint8))
    arrays = {"begins": begins, "stops": stops, "demanded": reads, "writes": writes}
    given = {name: _part(each) for name, each in (arrays | found._asdict()).items()}
    _call(k.access, _sizes(0, len(begins), 0, watched) | given, ())
    return found


def settled(own: Sets, kept: Sets, readers: Numbers, givers: Numbers, passing: Sets) -> Sets:
    """Return the least sets with `set[b] = own[b] | kept[b] & (what b gets)`.

    A reader of a flow gets the registers `passing` of the giver's set.
    """
    sets = own.copy()
    arrays: dict[str, npt.NDArray[Any]] = {
        "readers": readers, "givers": givers, "passing": passing, "kept": kept, "sets": sets,
    }  # fmt: skip
    given = {name: _part(each) for name, each in arrays.items()}
    _call(k.settle, _sizes(0, len(readers), 0, 0) | given, ())
    return sets


# -- The kernel

# Its parameters, by what they are found.
_OWN = ("first", "ends", "exits", "callee", "is_shared", "end")
_BY_WORD = ("words", "reads", "writes", "names", "window")
_SOLVED = ("live_in", "behind", "depth", "lowered")
_FOUND = ("where", "on", "block_of", "position", "live", "deep", "low", "falls")


def _sizes(blocks: int, edges: int, address: int, kept: int) -> dict[str, _Part]:
    sizes = _room(("size",), k.SIZES)
    sizes["size"][0].view(0, k.NAMED)[:] = array("q", (blocks, edges, address, kept))
    return sizes


def _graph_columns(graphs: PackedGraphs) -> tuple[dict[str, _Column], dict[str, _Column]]:
    by_edge = {
        "source": _Column.of(graphs.edge_source),
        "target": _Column.of(graphs.edge_target),
        "kind": _Column.of(graphs.edge_kind),
    }
    return by_edge, {
        "start": _Column.of(graphs.block_start),
        "is_slot": _Column.of(graphs.block_is_slot),
        "count": _Column.of(graphs.block_length),
    }


def _place(
    given: Mapping[str, _Part], behind_slots: Iterable[int], tops: Mapping[int, int]
) -> Placed:
    own = _room(("not_before", "top"), given["source"][2])
    not_before, top = (column.view(*part) for column, *part in own.values())
    for edge in behind_slots:
        not_before[edge] = 1
    for edge, position in tops.items():
        top[edge] = position
    found = _call(k.place, {**given, **own}, _FOUND)
    return Placed(*(column.view(*part) for column, *part in found.values()))


class _Column:
    """An array of numbers, of which functions of the kernel get parts."""

    __slots__ = ("_address", "_view", "_width")

    def __init__(self, view: memoryview, address: int) -> None:
        # The elements of a view are Python's own numbers.
        self._view, self._address, self._width = view, address, view.itemsize

    @classmethod
    def of(cls, numbers: npt.NDArray[Any]) -> _Column:
        """Return a column of an array's elements; those of sets of registers have a sign."""
        numbers = np.ascontiguousarray(numbers)
        if numbers.dtype.name in _SIGNED:
            numbers = numbers.view(_SIGNED[numbers.dtype.name])
        return cls(numbers.data, numbers.ctypes.data)

    @classmethod
    def zeros(cls, length: int) -> _Column:
        """Return a column of so many 64-bit zeros."""
        numbers = array("q", bytes(8 * length))
        return cls(memoryview(numbers), numbers.buffer_info()[0])

    def view(self, first: int, length: int) -> memoryview:
        """Return the elements of a part."""
        return self._view[first : first + length]

    def place(self, first: int, length: int) -> tuple[int, int]:
        """Return the address and the length of a part."""
        return self._address + self._width * first, length


_SIGNED: dict[str, type[np.generic]] = {"uint64": np.int64, "bool": np.uint8}
_Part = tuple[_Column, int, int]  # of an array: its first element, and how many


def _part(numbers: npt.NDArray[Any]) -> _Part:
    return _Column.of(numbers), 0, len(numbers)


def _room(names: Iterable[str], length: int) -> dict[str, _Part]:
    """Return room for arrays, by name."""
    made = tuple(names)
    column = _Column.zeros(len(made) * length)
    return {name: (column, at * length, length) for at, name in enumerate(made)}


def _call(
    function: Callable[..., int], given: Mapping[str, _Part], found: Iterable[str]
) -> dict[str, _Part]:
    """Call a function of the kernel with arrays by the names of its parameters.

    `given`: Those that there are; `size` is among them. Returned are those `found`, for which it
    gets room, as for others that are missing.
    """
    sizes = given["size"][0].view(0, k.SIZES)
    length = max(sizes[k.BLOCKS] + 2, sizes[k.EDGES])
    made = _room(found, length)
    known = {**given, **made}
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    known |= _room((name for name in names if name not in known), length)
    native = compiled.native(function)
    if native is None:
        function(*(known[name][0].view(*known[name][1:]) for name in names))
    else:
        places = array("q")
        for name in names:
            column, first, count = known[name]
            places.extend((*column.place(first, count), 0))
        native(places.buffer_info()[0])
    return made
