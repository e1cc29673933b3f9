"""The code of a program and of its blocks as arrays, as `sites_kernel` takes them.

1. `code_facts` gives every word of a code image its effects (once a program).
2. `program_blocks` says where blocks' code and their end transfers are, and what these need.
3. `ProgramBlocks.flow` and `ProgramBlocks.placed` have the kernel do all routines, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.code import sites_kernel as k
from simprof.profiler.code.effects_kernel import effects
from simprof.profiler.code.registers import ABI64, ARGUMENTS, Abi, mask
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.packed import NUMBER_OF_KIND, PackedGraphs
from simprof.profiler.recovery.code_image import WordMap
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.simulator.cpu import compiled
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind, Transfers
from simprof.simulator.isa.effects import ALL, Window

# What a software trap hands to Linux: a system call's number and arguments.
TRAP_READS = ARGUMENTS | mask(Register.G1)

_KINDS = tuple(map(TransferKind, range(len(TransferKind))))
_CALLS = (TransferKind.CALL, TransferKind.INDIRECT_CALL)
_RETURNS = (TransferKind.RETURN_JUMP, TransferKind.RETURN)
BRANCHES = (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS)
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
    reads, writes, names, window = effects(words, TRAP_READS)
    # Thunks are entries of the form `retl; add %o7, ...`.
    returns = np.flatnonzero(words[:-1] == _RETL)
    returns = returns[words[returns + 1] & _SECOND_FORM == _ADD_O7]
    addresses = place.addresses(returns).tolist()
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
    """Liveness and frames of one routine (`sites_kernel.flows`)."""

    # By block.
    live_in: Sequence[int]
    behind: Sequence[int]
    depth: Sequence[int]
    lowered: Sequence[int]
    named: int  # Registers that its code mentions
    busy: int  # Those that are live at the top of some block in its own window
    saves: range  # From the first block that opens a window to the last


class Placed(NamedTuple):
    """Where the code of a routine's edges goes, by edge (`sites_kernel.places`)."""

    where: Sequence[int]
    on: Sequence[int]
    block: Sequence[int]
    position: Sequence[int]
    live: Sequence[int]
    depth: Sequence[int]
    lowered: Sequence[int]
    falls: Sequence[int]
    # By block: the edge along which the code before it runs on into it, NO_EDGE if none does, or
    # BARRED where no code can stand between them.
    running: Sequence[int]


NO_EDGE, BARRED = -1, -2


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
    chosen: Numbers  # Routines that are solved together, ascending; others have all solved

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
        branching = leaving[are_among(self.kind[leaving], BRANCHES)]
        targets = self.facts.transfers.target[(self.first + self.transfer)[branching]]
        for address, registers in handed.items():
            exits[branching[targets == address]] |= registers
        return replace(self, exits=exits)

    def flow(self, number: int) -> RoutineFlow:
        """Return liveness and frames of routine number `number`."""
        return self._flow_of(self._with(number)._flows, number)

    def flows_of(self, numbers: Sequence[int]) -> list[RoutineFlow]:
        """Solve liveness and frames of some routines, and of no others."""
        flows = self._solved(np.array(numbers, np.int64))
        return [self._flow_of(flows, number) for number in numbers]

    def placed(self, number: int) -> Placed:
        """Return where the code of the edges of routine number `number` goes."""
        known, (*by_edge, running) = self._with(number), self._with(number)._placed
        spans = []
        for first in (self.graphs.first_edge, self.graphs.first_block):
            begin = first[known.chosen[0]]
            spans.append(slice(*(first[number : number + 2] - begin).tolist()))
        return Placed(*(*(column[spans[0]] for column in by_edge), running[spans[1]]))

    def placed_behind(self, number: int, slots: Iterable[int]) -> Placed:
        """Return that where the code of the edges `slots` must not stand before a delay slot."""
        return self._with(number)._places(np.array([number]), slots)

    def _with(self, number: int) -> ProgramBlocks:
        return self if self._is_chosen[number] else self._whole

    @cached_property
    def _is_chosen(self) -> bytearray:
        is_chosen = bytearray(len(self.graphs))
        for number in self.chosen.tolist():
            is_chosen[number] = 1
        return is_chosen

    @cached_property
    def _whole(self) -> ProgramBlocks:
        return replace(self, chosen=np.arange(len(self.graphs)))

    def _flow_of(self, flows: _Flows, number: int) -> RoutineFlow:
        span = slice(*self.graphs.first_block[number : number + 2].tolist())
        named, busy, *saves = flows.sizes[k.SIZES * number :][k.NAMED : k.SIZES].tolist()
        live_in, behind, depth, lowered = (column[span] for column in flows.by_block)
        return RoutineFlow(live_in, behind, depth, lowered, named, busy, range(*saves))

    @cached_property
    def _flows(self) -> _Flows:
        return self._solved(self.chosen)

    def _solved(self, chosen: Numbers) -> _Flows:
        graphs, sizes = self.graphs, _sizes(self.graphs, ALL & ~self.abi.call_writes)
        found = {name: np.zeros(graphs.block_count, kind) for name, kind in _SOLVED.items()}
        given = self._columns | {"chosen": chosen, "sizes": sizes} | found
        _call(k.flows, given, _scratch(graphs, chosen))
        return _Flows(sizes.data, tuple(each.data for each in found.values()))

    @cached_property
    def _placed(self) -> Placed:
        return self._places(self.chosen, ())

    def _places(self, chosen: Numbers, not_before: Iterable[int]) -> Placed:
        flows = self._flows
        given = self._columns | dict(zip(_SOLVED, map(np.asarray, flows.by_block), strict=True))
        return _places(self.graphs, chosen, np.asarray(flows.sizes), given, not_before)

    @cached_property
    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays by the names of the kernel's parameters."""
        own = {name: getattr(self, name) for name in _OWN}
        by_word = {name: getattr(self.facts, name) for name in _BY_WORD}
        return _graph_columns(self.graphs) | by_word | own

    @cached_property
    def _lists(self) -> _Lists:
        arrays = self.first, self.graphs.block_length, self.transfer, self.kind
        return _Lists(*(each.data for each in (*arrays, self.facts.transfers.target)))


class _Flows(NamedTuple):
    """What `sites_kernel.flows` has found."""

    sizes: memoryview
    by_block: tuple[memoryview, ...]


class _Lists(NamedTuple):
    """Arrays as views, whose elements are Python's own."""

    first: Sequence[int]
    length: Sequence[int]
    transfer: Sequence[int]
    kind: Sequence[int]
    target: Sequence[int]


def program_blocks(
    facts: CodeFacts, recovered: ProgramGraphs, rules: Abi, chosen: Sequence[int] | None = None
) -> ProgramBlocks:
    """Find what the blocks of a program end with.

    `chosen`: Routines whose data flow will be asked for, ascending; None: those of all.
    """
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
    is_call = are_among(kind, _CALLS)
    comes_back = is_call & ~leaves
    callee = np.where(comes_back, rules.call_reads, 0)
    ends = np.where(comes_back, k.CALL, np.where(is_call, k.OTHER_CALL, k.NOTHING))
    for address, named in facts.thunks.items():  # which keep all but these
        is_thunk = comes_back & (target == address)
        callee[is_thunk], ends[is_thunk] = named, k.OTHER_CALL
    ends[are_among(kind, _TRAPS)], ends[kind == TransferKind.ILLEGAL] = k.TRAP, k.NO_WAY_ON
    to_close = first_from(facts.window == Window.RESTORE, first, first + count) - first
    exits = _exits(facts, graphs, rules, _Ends(first + count - 1, kind, target, to_close < count))
    # Delay slots that branches lead to, and behind which the transfer itself goes on.
    running = np.flatnonzero(inner & (onto >= 0) & are_among(graphs.edge_kind, _RUNNING_ON))
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
        np.array(range(len(graphs)) if chosen is None else chosen, np.int64),
    )


_RUNNING_ON = [NUMBER_OF_KIND[each] for each in (EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)]


def _inner_edges(graphs: PackedGraphs) -> tuple[Flags, Numbers, Numbers]:
    """Return, by edge, whether it is out of a block; its blocks (-1 is EXIT, or none)."""
    owner = np.repeat(np.arange(len(graphs)), np.diff(graphs.first_edge))
    begin, blocks = graphs.first_block[owner], np.diff(graphs.first_block)[owner]
    inner = graphs.edge_source < blocks
    source = np.where(inner, begin + graphs.edge_source, -1)
    return inner, source, np.where(graphs.edge_target < blocks, begin + graphs.edge_target, -1)


def first_from(flags: Flags, starts: Numbers, stops: Numbers) -> Numbers:
    """Return, of each of `starts`, the first index from there on at which `flags` are set.

    That is the one of `stops` where none of those before it is.
    """
    found = np.zeros(len(starts), np.int64)
    compiled.run(k.first_flags, starts, stops, flags.view(np.uint8), found)
    return found


def are_among(kinds: npt.NDArray[np.integer[Any]], wanted: Iterable[int]) -> Flags:
    """Return, of each of `kinds`, which are small numbers, whether it is one of `wanted`."""
    table = np.zeros(len(TransferKind), np.bool_)
    table[list(wanted)] = True
    found: Flags = table[kinds]
    return found


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
    exits[are_among(kind, _RETURNS)] = rules.return_reads
    # Thunks that hand over the program counter (`__sparc_get_pc_thunk.l7`) keep to no ABI: their
    # callers rely on every register that they do not name.
    for number in np.flatnonzero(np.isin(graphs.addresses, list(facts.thunks))).tolist():
        exits[slice(*graphs.first_block[number : number + 2])] = ALL
    # The delay slot of a tail call makes the callee return to this routine's caller.
    sets_o7 = facts.writes[blocks.last] & np.uint64(mask(Register.O7)) != 0
    is_tail = (facts.window[blocks.last] == Window.RESTORE) | sets_o7
    is_call = are_among(kind, _CALLS)
    exits[is_call] = np.where(is_tail, rules.tail_reads, rules.call_reads)[is_call]
    exits[are_among(kind, (*_TRAPS, TransferKind.ILLEGAL))] = rules.reserved
    branching = np.flatnonzero(are_among(kind, BRANCHES))
    onto_entry = np.isin(blocks.target[branching], list(facts.entries))
    exits[branching[onto_entry]] = rules.tail_reads
    exits[(kind == TransferKind.JUMP) & blocks.restores] = rules.tail_reads
    return exits


def places_without_code(cfg: ControlFlowGraph) -> Placed:
    """Find where the code of a graph's edges goes where nothing is known of the routine's code."""
    # A graph file may say any number of instructions; where code goes, more make no difference.
    given_blocks = tuple(
        block._replace(instructions=min(block.instructions, _MANY)) for block in cfg.blocks
    )
    graphs = PackedGraphs.of((replace(cfg, blocks=given_blocks),))
    given = {name: np.zeros(len(cfg.blocks), kind) for name, kind in (_OWN | _SOLVED).items()}
    given |= {name: np.zeros(0, kind) for name, kind in _BY_WORD.items()}
    given |= _graph_columns(graphs)
    return _places(graphs, np.zeros(1, np.int64), _sizes(graphs, 0), given, ())


def _places(
    graphs: PackedGraphs,
    chosen: Numbers,  # Ascending
    sizes: Numbers,
    given: Mapping[str, npt.NDArray[Any]],
    not_before: Iterable[int],
) -> Placed:
    edges = int(graphs.first_edge[chosen[-1] + 1] - graphs.first_edge[chosen[0]])
    barred = np.zeros(edges, np.uint8)
    barred[list(not_before)] = 1
    found = {name: np.zeros(edges, kind) for name, kind in _FOUND.items()}
    own: dict[str, npt.NDArray[Any]] = {"chosen": chosen, "sizes": sizes, "not_before": barred}
    _call(k.places, {**given, **own, **found}, _scratch(graphs, chosen))
    running = _running(graphs, chosen, given["is_shared"] != 0, found, bool(len(given["words"])))
    return Placed(*(each.data for each in (*found.values(), running)))


def _running(
    graphs: PackedGraphs,
    chosen: Numbers,
    is_shared: Flags,
    found: Mapping[str, npt.NDArray[Any]],
    has_code: bool,
) -> npt.NDArray[np.int32]:
    """Return `Placed.running` of the blocks from the first routine chosen to the last."""
    own = slice(chosen[0], chosen[-1] + 2)
    first_block, first_edge = graphs.first_block[own], graphs.first_edge[own]
    begins = first_block[:-1] - first_block[0]
    owner = np.repeat(np.arange(len(begins)), np.diff(first_edge))
    blocks, begin = np.diff(first_block)[owner], begins[owner]
    by_edge, by_block = slice(first_edge[0], first_edge[-1]), slice(first_block[0], first_block[-1])
    source, target = graphs.edge_source[by_edge], graphs.edge_target[by_edge]
    inner = np.flatnonzero((source < blocks) & (target < blocks))
    edge = (np.arange(len(source)) - (first_edge[:-1] - first_edge[0])[owner])[inner]
    source, target = (begin + source)[inner], (begin + target)[inner]
    start, length = graphs.block_start[by_block], graphs.block_length[by_block]
    is_shared, falls = is_shared[by_block], found["falls"][inner] != 0
    # Between a delay slot and what follows it there is no place, nor before a copy of one.
    barred = is_shared[source] | falls & (found["on"][inner] != edge)
    if has_code:
        # A branch to what stands right behind it: one edge for both, if it is conditional
        barred |= ~falls & (start[source] + 4 * length[source] == start[target])
        position = found["position"][inner]
        barred |= falls & (position != -1) & (position != length[source])
    running = np.full(len(start), NO_EDGE, np.int32)
    running[target[falls]] = edge[falls]
    running[np.bincount(target[falls], minlength=len(start)) > 1] = BARRED
    running[target[barred]] = BARRED
    running[is_shared | (graphs.block_is_slot[by_block] != 0)] = BARRED
    return running


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
    given = {"begins": begins, "stops": stops, "demanded": reads, "writes": writes}
    _call(k.access, {"watched": np.array([watched]), **given, **found._asdict()}, {})
    return found


def settled(own: Sets, kept: Sets, readers: Numbers, givers: Numbers, passing: Sets) -> Sets:
    """Return the least sets with `set[b] = own[b] | kept[b] & (what b gets)`.

    A reader of a flow gets the registers `passing` of the giver's set.
    """
    sets = own.copy()
    given: dict[str, npt.NDArray[Any]] = {
        "readers": readers, "givers": givers, "passing": passing, "kept": kept, "sets": sets,
    }  # fmt: skip
    _call(k.settle, given, {})
    return sets


# -- The kernel

# Its parameters, and the kinds of numbers that arrays of them have.
_OWN = {
    "first": np.int32, "ends": np.uint8, "exits": np.int64, "callee": np.int64,
    "is_shared": np.uint8, "end": np.int32,
}  # fmt: skip
_BY_WORD = {
    "words": np.uint32, "reads": np.int64, "writes": np.int64, "names": np.int64,
    "window": np.uint8,
}  # fmt: skip
_SOLVED = {"live_in": np.int64, "behind": np.int64, "depth": np.int32, "lowered": np.int32}
_FOUND = {
    "where": np.uint8, "on": np.int32, "block_of": np.int32, "position": np.int32,
    "live": np.int64, "deep": np.int32, "low": np.int32, "falls": np.uint8,
}  # fmt: skip
_SCRATCH = (
    "chain", "head", "mark", "waiting", "queue", "arriving", "leaving", "fallen"
)  # fmt: skip


def _graph_columns(graphs: PackedGraphs) -> dict[str, npt.NDArray[Any]]:
    return {
        "first_block": graphs.first_block,
        "first_edge": graphs.first_edge,
        "source": graphs.edge_source,
        "target": graphs.edge_target,
        "kind": graphs.edge_kind,
        "start": graphs.block_start,
        "is_slot": graphs.block_is_slot,
        "count": graphs.block_length,
    }


def _counts(graphs: PackedGraphs) -> tuple[Numbers, Numbers]:
    """Return how many blocks and edges each routine has."""
    return np.diff(graphs.first_block), np.diff(graphs.first_edge)


def _sizes(graphs: PackedGraphs, kept: int) -> Numbers:
    """Return what is given of `SIZES` numbers of each routine; registers `kept` by callees."""
    sizes = np.zeros((len(graphs), k.SIZES), np.int64)
    sizes[:, k.BLOCKS], sizes[:, k.EDGES] = _counts(graphs)
    sizes[:, k.ADDRESS], sizes[:, k.KEPT] = graphs.addresses, kept
    return sizes.ravel()


def _scratch(graphs: PackedGraphs, chosen: Numbers) -> dict[str, npt.NDArray[Any]]:
    """Return room as long as the vertices, or the edges, of any of some routines."""
    blocks, edges = (counts[chosen].max(initial=0) for counts in _counts(graphs))
    return {name: np.zeros(max(blocks + 2, edges), np.int64) for name in _SCRATCH}


_SIGNED: dict[str, type[np.generic]] = {"uint64": np.int64, "bool": np.uint8}


def _call(
    function: Callable[..., int],
    given: Mapping[str, npt.NDArray[Any]],
    scratch: Mapping[str, npt.NDArray[Any]],
) -> None:
    """Call a function of the kernel with arrays by the names of its parameters."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    arrays = [_plain(scratch[name] if name in scratch else given[name]) for name in names]
    compiled.run(function, *arrays)


def _plain(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array as the kernel takes it: sets of registers have a sign."""
    numbers = np.ascontiguousarray(numbers)
    kind = _SIGNED.get(numbers.dtype.name)
    return numbers if kind is None else numbers.view(kind)
