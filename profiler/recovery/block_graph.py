"""The blocks of a routine from which one of its indirect jumps can be reached, for data flow.

Steps -> functions: where each block ends (`_extents`), what follows it, and backwards from the
jumps what leads to them (`_reaching`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from simprof.profiler.recovery.exploration import Exploration, Flow
from simprof.profiler.recovery.symbolic import FP, SP
from simprof.simulator.isa.decode import simm13

_EVERYWHERE = -(1 << 20)  # below any frame offset


class BlockExtent(NamedTuple):
    """Where a block ends."""

    end: int  # word index behind what it executes, its control transfer and delay slot aside
    falls_to: int  # the leader that cuts it short, or -1
    # at, flow: its control transfer, and where that goes; or -1 and None.
    at: int
    flow: Flow | None

    def successors(self) -> list[int]:
        """Return the leaders that follow."""
        if self.falls_to >= 0:
            return [self.falls_to]
        return [] if self.flow is None else list(self.flow.successors())


class BlockGraph(NamedTuple):
    """Blocks by their leaders."""

    # extents, predecessors: Of each block. A predecessor may be there more than once.
    extents: dict[int, BlockExtent]
    predecessors: dict[int, list[int]]
    entries: list[int]  # Leaders at which the routine is entered, ascending
    jumps: list[int]  # Leaders of the blocks that end in an indirect jump

    def fingerprint(self, escapes: dict[int, int]) -> Hashable:
        """Return what data flow over these blocks depends on.

        `escapes`: See `frame_escapes`.
        """
        blocks: list[Hashable] = []
        for leader, (_, falls_to, at, flow) in self.extents.items():
            if flow is None:
                blocks.append((leader, falls_to))
            else:
                inside = frozenset(to for to in flow.switch if to in self.extents)
                blocks.append((leader, at, flow.fall, flow.taken, flow.call_return, inside))
        return frozenset(blocks), tuple(self.entries), tuple(sorted(escapes.items()))


def block_graph(exploration: Exploration, number: int) -> BlockGraph:
    """Return the blocks of a routine, as far as it is explored, that lead to indirect jumps."""
    extents = _extents(exploration, number)
    predecessors: dict[int, list[int]] = {leader: [] for leader in extents}
    for leader, extent in extents.items():
        for successor in extent.successors():
            if successor in predecessors:  # else it is still to be explored
                predecessors[successor].append(leader)
    goals = exploration.jumps.get(number, set())
    jumps = [leader for leader, extent in extents.items() if extent.at in goals]
    reaching = _reaching(predecessors, jumps)
    return BlockGraph(
        {leader: extents[leader] for leader in reaching},
        {leader: predecessors[leader] for leader in reaching},
        sorted(reaching & exploration.entries[number]),
        jumps,
    )


def _extents(exploration: Exploration, number: int) -> dict[int, BlockExtent]:
    next_end = exploration.next_end
    leaders = sorted(exploration.leaders[number])
    extents = {}
    transfers = []
    end = -1
    for leader, after in zip(leaders, [*leaders[1:], 1 << 62], strict=True):
        if leader >= end:
            _, end, _ = exploration.routine_map.region(leader)
        last = next_end[leader]
        stop = min(last, end)
        if after <= stop:
            extents[leader] = BlockExtent(after, after, -1, None)
            continue
        extents[leader] = BlockExtent(stop, -1, -1, None)
        if last < end:
            transfers.append((leader, last))
    flows = exploration.flows.read([at for _, at in transfers])
    for (leader, at), flow in zip(transfers, flows, strict=True):
        if flow is not None:
            extents[leader] = BlockExtent(at, -1, at, flow)
    return extents


def _reaching(predecessors: dict[int, list[int]], goals: list[int]) -> set[int]:
    """Everything from which one of `goals` can be reached."""
    reaching, work = set(goals), list(goals)
    while work:
        for source in predecessors[work.pop()]:
            if source not in reaching:
                reaching.add(source)
                work.append(source)
    return reaching


def frame_escapes(exploration: Exploration, number: int) -> dict[int, int]:
    """Lowest frame offset whose address the routine computes, by frame register."""
    escapes: dict[int, int] = {}
    words, next_end = exploration.words, exploration.next_end
    for leader in exploration.leaders[number]:
        for index in range(leader, min(next_end[leader] + 2, len(words))):
            word = words[index]
            if word >> 30 != 2 or ((word >> 14) & 31 not in (SP, FP) and word & 31 not in (SP, FP)):
                continue
            _note_escape(word, escapes)
    return escapes


def _note_escape(word: int, escapes: dict[int, int]) -> None:
    op3, rd, first = (word >> 19) & 63, (word >> 25) & 31, (word >> 14) & 31
    if op3 in (0x3C, 0x3D, 0x38, 0x39, 0x3A) or op3 & 0x30 == 0x30 or rd in (0, SP, FP):
        return
    if word & 0x2000:
        if first in (SP, FP):
            offset = simm13(word)
            lowest = offset if op3 == 0 else _EVERYWHERE
            escapes[first] = min(escapes.get(first, lowest), lowest)
        return
    for register in {first, word & 31} & {SP, FP}:
        escapes[register] = _EVERYWHERE
