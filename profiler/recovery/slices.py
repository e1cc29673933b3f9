"""Backward slices of indirect jumps: the instructions that can influence a target.

It says which locations are *needed* at the start of each block, and which instructions have to be
executed for them (M. Weiser, "Program slicing", ICSE 1981; here with one criterion: the address
register of each indirect jump).

Terms
-----
needed
    What an indirect jump's address is made of, on some path from here.
related
    What may hold a copy of a needed value, or something made of it, or what it was made of: if it
    is compared, that confines the needed value too. Then the compared location is needed as well.

Steps -> functions: the routine's blocks from which an indirect jump can be reached (`BlockGraph`),
what is needed and related in them (`slice_kernel`), and what must be executed of each (`part`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.recovery import exploration_kernel as x
from simprof.profiler.recovery import slice_kernel as k
from simprof.profiler.recovery.exploration import Exploration, Flow
from simprof.profiler.recovery.idioms import RETL, pc_thunk
from simprof.profiler.recovery.instructions import ATOMIC, LOADS, STORES
from simprof.profiler.recovery.symbolic import FP, SP, SymbolicState
from simprof.simulator.cpu import compiled
from simprof.simulator.isa.decode import TransferKind
from simprof.simulator.isa.effects import is_integer_vis

_K = TransferKind
_EVERYWHERE = -(1 << 20)  # below any frame offset

Escapes: TypeAlias = dict[int, int]  # See `frame_escapes`
Integers: TypeAlias = NDArray[np.integer[Any]]
Flags: TypeAlias = NDArray[np.bool_]


class Part(NamedTuple):
    """What of a block must be executed: word indices, and whether delay slot and comparison."""

    indices: Sequence[int]
    delay: bool = True
    compares: bool = True


class BlockExtent(NamedTuple):
    """Where a block ends."""

    end: int  # word index behind what it executes, its control transfer and delay slot aside
    falls_to: int  # the leader that cuts it short, or -1
    # at, flow: its control transfer, and where that goes; or -1 and None.
    at: int
    flow: Flow | None


class BlockGraph:
    """The blocks of a routine, as far as it is explored, that lead to indirect jumps."""

    def __init__(self, exploration: Exploration, number: int) -> None:
        # `block`, `follow`: as for `slice_kernel.Slices`, of all blocks. `starts`, `ends`: their
        # words, up to their control transfers at `transfers` (-1: none), whose flow is in `flow`.
        self._x = exploration
        own = exploration.span(number)
        at = exploration.state.at[:, own]
        starts = np.flatnonzero(at[x.LEADER] == number + 1)
        self.starts = starts + own.start
        self._cut_off(at, starts, own.start)
        jumps = np.array(sorted(exploration.jumps.get(number, ())), np.int64)
        self._connect(at[:, np.maximum(self.transfers - own.start, 0)])
        self.is_jump = np.isin(self.transfers, jumps)
        self.block[:, k.FLAGS] = k.REACHES * self.is_jump
        _run(_arrays(exploration.code.words, self.block, self.follow), k.REACH)
        self.reaches = (self.block[:, k.FLAGS] & k.REACHES) > 0
        self.is_entry = self.reaches & (at[x.ENTRY, starts] == number + 1)

    @cached_property
    def entries(self) -> list[int]:
        """Leaders at which the routine is entered, ascending."""
        entries: list[int] = self.starts[self.is_entry].tolist()
        return entries

    @cached_property
    def extents(self) -> dict[int, BlockExtent]:
        """Where blocks end, by leader."""
        chosen = self.reaches
        columns = (self.starts, self.ends, self._falls_to, self.transfers)
        rows = list(zip(*(column[chosen].tolist() for column in columns), strict=True))
        flows = iter(self._x.flows([at for _, _, _, at in rows if at >= 0]))
        return {
            leader: BlockExtent(end, falls_to, at, None if at < 0 else next(flows))
            for leader, end, falls_to, at in rows
        }

    @cached_property
    def inputs(self) -> dict[int, int]:
        """From how many places control comes to a block, by leader."""
        counts = np.bincount(self.edges[1], minlength=len(self.starts)) + self.is_entry
        chosen = self.reaches
        return dict(zip(self.starts[chosen].tolist(), counts[chosen].tolist(), strict=True))

    def _cut_off(self, at: Integers, starts: Integers, origin: int) -> None:
        """Find where blocks end: at a transfer, at the next leader, at the end of the region."""
        last = self._x.code.block_ends[self.starts].astype(np.int64)
        changes = np.append(np.flatnonzero(np.diff(at[x.OWNER])) + 1, at.shape[1])
        region = changes[np.searchsorted(changes, starts, "right")] + origin
        after = np.append(self.starts[1:], np.iinfo(np.int64).max)
        stop = np.minimum(last, region)
        falls = after <= stop
        known = at[x.FLAGS, np.minimum(last - origin, at.shape[1] - 1)] & x.KNOWN
        self._falls_to = np.where(falls, after, -1)
        self.transfers = np.where(~falls & (last < region) & (known > 0), last, -1)
        self.ends = np.where(falls, after, stop)

    def _connect(self, flow: Integers) -> None:
        """Fill `block` and `follow` from what exploration knows of the transfers."""
        code, transfers = self._x.code, self.transfers
        ends_so = transfers >= 0
        words, kinds = code.words[transfers].astype(np.int64), code.transfers.kind[transfers]
        fall, taken, back = (
            np.where(ends_so, flow[row], 0).astype(np.int64) - 1
            for row in (x.FALL, x.TAKEN, x.RETURN)
        )
        flags = np.where(ends_so, flow[x.FLAGS], 0)
        self.block = block = np.full((len(transfers), k.COLUMNS), -1, np.int64)
        block[:, k.START], block[:, k.END] = self.starts, self.ends
        block[:, k.RETURN] = self._numbers(back)
        skips = (flags & x.SLOT_BLOCK) > 0
        block[:, k.PAST] = np.where(skips, self._numbers(fall), -1)
        self._follow(self._falls_to, taken, np.where(skips, -1, fall))
        first = 1 << (words >> 14 & 31) & k.INTEGER
        group = words >> 22 & 7
        compares = ends_so & (kinds == _K.BRANCH) & (fall != taken) & (group >= 1) & (group <= 3)
        block[:, k.COMPARED] = np.where(compares, np.where(group == 3, first, k.CONDITION), 0)
        second = np.where(words & 0x2000, 0, 1 << (words & 31)) & k.INTEGER
        block[:, k.USES] = np.where(ends_so & (kinds == _K.JUMP), first | second, 0)
        # Whether it has a delay slot that is executed on one edge at least
        block[:, k.DELAY] = (flags & (x.HAS_SLOT | x.SLOT_BLOCK)) > 0
        links = ends_so & ((kinds == _K.INDIRECT_CALL) | (words >> 30 == 1))
        self.marks = k.LINKS * links + k.TRAPS * (ends_so & (kinds == _K.TRAP_ALWAYS))
        targets = code.targets[transfers]
        calls = ends_so & (kinds == _K.CALL) & (targets >= 0)
        for at in np.flatnonzero(calls & (code.words[targets] == RETL)).tolist():
            if pc_thunk(self._x.words, int(targets[at])) is not None:
                self.marks[at] |= k.READS_PC

    def _follow(self, *targets: Integers) -> None:
        """Number what follows each block, behind calls and without delay slots left out."""
        own = np.arange(len(self.starts))
        switches = self._x.switch
        jumps = [each for each in enumerate(self.transfers.tolist()) if each[1] in switches]
        pairs = [(number, to) for number, at in jumps for to in sorted(switches[at])]
        more = np.array(pairs, np.int64).reshape(-1, 2)
        source = np.concatenate([*(own for _ in targets), more[:, 0]])
        target = self._numbers(np.concatenate([*targets, more[:, 1]]))
        order = np.argsort(source, kind="stable")
        order = order[target[order] >= 0]
        source, self.follow = source[order], target[order]
        self.block[:, k.FOLLOW] = np.searchsorted(source, own)
        self.block[:, k.LAST] = np.searchsorted(source, own, "right")
        others = self.block[:, (k.RETURN, k.PAST)].T.ravel()
        also = np.flatnonzero(others >= 0)
        self.edges = (
            np.concatenate([source, also % max(len(own), 1)]),
            np.concatenate([self.follow, others[also]]),
        )

    def _numbers(self, words: Integers) -> Integers:
        """Return the numbers of the blocks that start at words, -1 where none does."""
        if not len(self.starts):
            return np.full(len(words), -1, np.int64)
        found = np.minimum(np.searchsorted(self.starts, words), len(self.starts) - 1)
        return np.where(self.starts[found] == words, found, -1)


def frame_escapes(exploration: Exploration, number: int) -> Escapes:
    """Lowest frame offset whose address the routine computes, by frame register."""
    own = exploration.span(number)
    leaders = np.flatnonzero(exploration.state.at[x.LEADER, own] == number + 1) + own.start
    ends = exploration.code.block_ends[leaders] + 2  # with the delay slot
    escapes: Escapes = {}
    if not len(leaders):
        return escapes
    index = _spans(leaders, np.minimum(ends, len(exploration.words)) - leaders)
    words = exploration.code.words[index].astype(np.int64)
    op3, rd, first, second = words >> 19 & 63, words >> 25 & 31, words >> 14 & 31, words & 31
    immediate = (words & 0x2000) > 0
    computes = (words >> 30 == 2) & (op3 & 0x30 != 0x30) & ~np.isin(rd, (0, SP, FP))
    lowest = np.where(immediate & (op3 == 0), (words & 0x1FFF ^ 0x1000) - 0x1000, _EVERYWHERE)
    for register in (SP, FP):
        # the other operand of `add` may be a register, which is unknown here
        using = computes & ((first == register) | ~immediate & (second == register))
        if using.any():
            escapes[register] = int(lowest[using].min())
    return escapes


def _spans(starts: Integers, lengths: Integers) -> Integers:
    """Return the indices of several spans, one after the other."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1])


def _forms() -> NDArray[np.int64]:
    forms = np.zeros(64 + 512, np.int64)
    forms[list(LOADS)] |= k.LOADS
    forms[list(ATOMIC)] |= k.ATOMIC
    for op3, size in STORES.items():
        forms[op3] |= k.STORE_SIZE * size
    forms[64:] = [is_integer_vis(function << 5) for function in range(512)]
    return forms


_FORMS = _forms()


def _arrays(words: k.Words, block: k.Rows, follow: Integers) -> k.Slices:
    none, empty = np.zeros((0, 0), np.int64), np.zeros(0, np.int64)
    slots = np.zeros(k.OFFSETS + 1, np.int64)
    return k.Slices(
        words, block, follow.astype(np.int64), none, slots, _FORMS, empty, none, none, none, none
    )


def _run(arrays: k.Slices, command: int) -> int:
    if compiled.is_plain():
        return _in_python(arrays, command)
    return compiled.call(k.slice_routine, arrays, command)


def _in_python(arrays: k.Slices, command: int) -> int:
    """Do what the kernel does, on views of the arrays: their elements are Python's integers."""
    views: Any = (each.data for each in arrays)
    return k.slice_routine(k.Slices(*views), command)


class Whole:
    """All of a routine's blocks that take part: a slice that leaves out nothing."""

    def __init__(self, graph: BlockGraph) -> None:
        self._graph = graph

    def sources(self) -> list[int]:
        """Return no leaders: data flow begins where the routine is entered."""
        return []

    def kept(self, leader: int, state: SymbolicState) -> SymbolicState:
        """Return a copy of all that a state says."""
        return dict(state)

    def part(self, leader: int) -> Part:
        """Return everything that a block does."""
        return Part(range(leader, self._graph.extents[leader].end))


class Slice:
    """The slice of one routine."""

    # `exploration`, `graph`: The routine, as far as it is explored, and its blocks that take part.

    def __init__(self, exploration: Exploration, graph: BlockGraph, escapes: Escapes) -> None:
        self._graph, self._escapes = graph, escapes
        self._numbers = {leader: number for number, leader in enumerate(graph.starts.tolist())}
        block = graph.block.copy()
        block[:, k.FLAGS] |= graph.marks
        lengths = np.where(graph.reaches, graph.ends - graph.starts, 0)
        firsts = np.concatenate([[0], np.cumsum(lengths)])
        block[:, k.FIRST] = firsts[:-1]
        delays = graph.reaches & (block[:, k.DELAY] > 0)
        block[:, k.DELAY] = np.where(delays, firsts[-1] + np.cumsum(delays) - 1, -1)
        steps = int(firsts[-1] + np.count_nonzero(delays))
        lowest = [escapes.get(register, k.NOWHERE) for register in (SP, FP)]
        arrays = _arrays(exploration.code.words, block, graph.follow)._replace(
            step=np.zeros((k.STEP_ROWS, steps), np.int64), escapes=np.array(lowest, np.int64)
        )
        offsets = _run(arrays, k.DESCRIBE)
        width = -(-(k.FIRST_SLOT + 2 * offsets) // k.BITS)
        rows = (k.SETS, len(block), len(block), steps)
        sets, needed, related, results = (np.zeros((count, width), np.int64) for count in rows)
        self._found = arrays._replace(sets=sets, needed=needed, related=related, results=results)
        _run(self._found, k.SOLVE)
        self._is_needed: Flags = np.any(needed, axis=1)

    @cached_property
    def needed(self) -> dict[int, int]:
        """Mask of the locations that are needed, by leader."""
        masks = dict.fromkeys(self._numbers, 0)
        leaders = self._graph.starts[self._is_needed].tolist()
        for leader, row in zip(leaders, self._found.needed[self._is_needed].tolist(), strict=True):
            masks[leader] = sum([word << k.BITS * at for at, word in enumerate(row)])
        return masks

    @cached_property
    def _bits(self) -> dict[Hashable, int]:
        """Bits of masks by the locations, as `symbolic` calls them."""
        bits: dict[Hashable, int] = {register: register for register in range(1, 32)}
        bits["cc"] = k.CONDITION.bit_length() - 1
        found = self._found.slots[:-1]
        for at in np.flatnonzero(found).tolist():
            for frame, register in enumerate((SP, FP)):
                slot = register, at - k.OFFSETS // 2
                bits[slot] = k.FIRST_SLOT + 2 * (int(found[at]) - 1) + frame
        return bits

    def sources(self) -> list[int]:
        """Return the leaders, ascending, at which data flow begins: nothing is needed before."""
        graph, needed = self._graph, self._is_needed
        source, target = graph.edges
        begins = graph.is_jump & ~needed
        begins[source[needed[target] & ~needed[source]]] = True
        sources: list[int] = graph.starts[begins].tolist()
        return sources

    def kept(self, leader: int, state: SymbolicState) -> SymbolicState:
        """Return what a state says about the locations that are needed at a leader."""
        # Facts have no bit, and are kept by bit 0.
        needed, bit = self.needed[leader] | 1, self._bits.get
        return {
            location: value for location, value in state.items() if needed >> bit(location, 0) & 1
        }

    def part(self, leader: int) -> Part:
        """Return what must be executed of a block."""
        row = self._found.block[self._numbers[leader]]
        first, flags = int(row[k.FIRST]), int(row[k.FLAGS])
        executed = self._executed[first : first + int(row[k.END]) - leader]
        indices = [leader + at for at, each in enumerate(executed) if each]
        return Part(indices, bool(flags & k.DELAYS), bool(flags & k.COMPARES))

    @cached_property
    def _executed(self) -> bytes:
        executed: bytes = self._found.step[k.EXECUTED].astype(np.uint8).tobytes()
        return executed

    def fingerprint(self, origin: int) -> tuple[bytes, ...]:
        """Return what data flow over this slice depends on, in its file.

        `origin`: The word from which words are counted.
        """
        # Only blocks count where something is needed, or that lead to one. Control comes to a block
        # where nothing is needed with nothing known that counts.
        graph, found, needed = self._graph, self._found, self._is_needed
        source, target = graph.edges
        leads = needed[target]
        counts = needed | graph.is_jump
        counts[source[leads]] = True
        marks = found.block[:, k.FLAGS] + (needed + 2 * graph.is_entry << 8)
        transfers = np.where(graph.transfers < 0, -1, graph.transfers - origin)
        places = graph.starts - origin, graph.ends - origin, transfers
        rows = np.stack([*places, marks])[:, counts]
        edges = graph.starts[np.stack([source[leads], target[leads]])] - origin
        block = found.block[counts]
        first, length = block[:, k.FIRST], block[:, k.END] - block[:, k.START]
        steps = _spans(first, np.where(graph.reaches[counts], length, 0))
        executed = found.step[k.EXECUTED, steps]
        delays = block[(block[:, k.FLAGS] & k.DELAYS) > 0, k.DELAY]
        accesses = (found.step[k.PLACE, steps] >= 0) & (executed > 0)
        uses_frame = accesses.any() or (found.step[k.PLACE, delays] >= 0).any()
        escapes = sorted(self._escapes.items()) if uses_frame else []
        return rows.tobytes(), edges.tobytes(), executed.tobytes(), repr(escapes).encode()
