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

Steps -> functions: what each block does to its locations (`BlockEffects`), what is needed backwards
(`_need`), what is related forwards (`_relate`), the comparisons of what is related; again, until
there are no more of these. In the end `part` lists what must be executed of each block.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from simprof.profiler.graphs.cfg import closure
from simprof.profiler.recovery.effects import (
    CONDITION,
    FIRST_SLOT,
    GLOBALS,
    Effect,
    EffectKind,
    bit,
    effect_of,
    operands,
    pc_thunk,
)
from simprof.profiler.recovery.exploration import Exploration, Flow
from simprof.profiler.recovery.symbolic import FP, O7, SP, SymbolicState
from simprof.simulator.isa.decode import TransferKind, simm13
from simprof.simulator.isa.effects import INS, OUTS

_K = TransferKind
_WIDEST = 16  # Bytes that a store writes at most

Escapes: TypeAlias = dict[int, int]  # See `frame_escapes`

_EVERYTHING = ~0
_TRAP_RESULTS = bit(1) | bit(8) | bit(9)
_CALL_RESULTS = GLOBALS | OUTS | CONDITION


class BlockStep(NamedTuple):
    """An instruction that does something, as masks of locations."""

    # `reads` counts if any of `writes` is needed; `touches` is what it may name an atom for, or
    # overlap. `moves` is 1 for a `save`, -1 for a `restore`.

    writes: int
    reads: int
    touches: int
    moves: int


class SliceBlock(NamedTuple):
    """A block; what it does as masks, where it goes as leaders (-1 for none)."""

    steps: list[tuple[int, BlockStep]]  # (Word index, step), without its control transfer
    # writes, reads, touched: of all steps; everything, where the window moves. `touched` includes
    # what is written.
    writes: int
    reads: int
    touched: int
    # successors, call_return, falls_past: what follows; `falls_past` is the successor whose edge
    # leaves out the delay slot.
    successors: tuple[int, ...]
    # What the delay slot does, if it is executed at least on one edge.
    delay: tuple[BlockStep, ...] = ()
    call_return: int = -1
    falls_past: int = -1
    # kept, left_by_call, links: what control transfer leaves as it is on the way to `successors`,
    # and to `call_return`; what it writes before its delay slot.
    kept: int = _EVERYTHING
    left_by_call: int = _EVERYTHING
    links: int = 0
    # uses, compared: what an indirect jump needs, and what a conditional branch compares.
    uses: int = 0
    compared: int = 0


class BlockEffects:
    """The blocks of one routine, and its frame slots."""

    def __init__(self, exploration: Exploration, graph: BlockGraph, escapes: Escapes) -> None:
        self._x = exploration
        self._slots: dict[tuple[int, int], int] = {}
        self._frames = {SP: 0, FP: 0}
        self._unsafe = self._exposed = 0  # slots that pointers surely, and perhaps, reach
        self._steps: dict[int, BlockStep | None] = {}
        self._number_slots(graph, escapes)
        self.blocks = {
            leader: self._block(graph, leader, extent) for leader, extent in graph.extents.items()
        }

    def locations_in(self, mask: int) -> frozenset[Hashable]:
        """Return the locations of a mask, as `symbolic` calls them."""
        locations: list[Hashable] = [each for each in range(1, 32) if mask >> each & 1]
        if mask & CONDITION:
            locations.append("cc")
        if mask >> FIRST_SLOT:
            locations += [slot for slot, place in self._slots.items() if mask & place]
        return frozenset(locations)

    def slots_moved(self, mask: int, source: int, to: int) -> int:
        """Return the slots of frame register `source` in a mask as those of another one."""
        moved = 0
        if mask & self._frames[source]:
            for (register, offset), place in self._slots.items():
                if register == source and mask & place:
                    moved |= self._slots[to, offset]
        return moved

    def _number_slots(self, graph: BlockGraph, escapes: Escapes) -> None:
        """Give a bit to each slot that is accessed, before and after windows move."""
        words: set[int] = set()
        for leader, extent in graph.extents.items():
            words.update(self._x.words[leader : extent.end + 2])  # with the delay slot
        effects = {word: effect_of(word) for word in sorted(words)}
        known = [effect for effect in effects.values() if effect is not None]
        slots = dict.fromkeys(effect.slot for effect in known if effect.slot is not None)
        if any(effect.kind in (EffectKind.SAVE, EffectKind.RESTORE) for effect in known):
            slots |= dict.fromkeys((SP + FP - register, offset) for register, offset in slots)
        for number, slot in enumerate(slots):
            register, offset = slot
            place = 1 << FIRST_SLOT + number
            self._slots[slot] = place
            self._frames[register] |= place
            if register in escapes:
                self._exposed |= place
                if offset >= escapes[register]:
                    self._unsafe |= place
        self._steps = {
            word: None if effect is None else self._step(effect) for word, effect in effects.items()
        }

    def _step(self, effect: Effect) -> BlockStep:
        kind, writes, reads, touches, slot, size = effect
        if slot is not None:
            place = self._slots[slot]
            touches |= place
            if kind is EffectKind.STORE:
                writes |= place
                register, offset = slot
                for other in range(offset - _WIDEST + 1, offset + size):
                    touches |= self._slots.get((register, other), 0)
            else:
                reads |= place
        elif kind is EffectKind.CLOBBER:
            writes |= self._unsafe
            touches |= self._exposed
        if kind is EffectKind.FRAME:
            for register, places in self._frames.items():
                writes |= places if writes & bit(register) else 0
        moves = (kind is EffectKind.SAVE) - (kind is EffectKind.RESTORE)
        return BlockStep(writes, reads, touches, moves)

    def _block(self, graph: BlockGraph, leader: int, extent: BlockExtent) -> SliceBlock:
        words, known = self._x.words, self._steps
        body = [
            (index, step)
            for index in range(leader, extent.end)
            if (step := known[words[index]]) is not None
        ]
        writes = reads = touched = 0
        for _, (written, read, touches, moves) in body:
            writes |= written
            reads |= read
            touched |= written | touches
            if moves:
                writes = reads = touched = _EVERYTHING
        inside = graph.extents
        flow, at = extent.flow, extent.at
        if flow is None:
            follows = (extent.falls_to,) if extent.falls_to in inside else ()
            return SliceBlock(body, writes, reads, touched, follows)
        past = flow.fall if flow.slot_block else -1
        after = (flow.taken, *flow.switch, -1 if flow.slot_block else flow.fall)
        in_slot = known[words[at + 1]] if flow.has_slot or flow.slot_block else None
        return SliceBlock(
            body,
            writes,
            reads,
            touched,
            successors=tuple([to for to in after if to in inside]),
            delay=() if in_slot is None else (in_slot,),
            call_return=flow.call_return if flow.call_return in inside else -1,
            falls_past=past if past in inside else -1,
            kept=~(_TRAP_RESULTS | self._unsafe) if flow.kind == _K.TRAP_ALWAYS else _EVERYTHING,
            left_by_call=self._left_by_call(at) if flow.call_return >= 0 else 0,
            links=bit(O7) if flow.kind == _K.INDIRECT_CALL or words[at] >> 30 == 1 else 0,
            uses=operands(words[at]) if flow.kind == _K.JUMP else 0,
            compared=self._compared(at, flow) if flow.kind == _K.BRANCH else 0,
        )

    def _left_by_call(self, at: int) -> int:
        """The locations that a call leaves as they are: all, if it only reads the PC."""
        target = self._x.targets[at] if self._x.kinds[at] == _K.CALL else -1
        is_thunk = pc_thunk(self._x.words, target) is not None
        return _EVERYTHING if is_thunk else ~(_CALL_RESULTS | self._unsafe)

    def _compared(self, at: int, flow: Flow) -> int:
        """What a conditional branch tells about, if its two ways are different ones."""
        word = self._x.words[at]
        group = word >> 22 & 7
        if flow.fall == flow.taken or group not in (1, 2, 3):
            return 0
        return bit(word >> 14 & 31) if group == 3 else CONDITION


class Part(NamedTuple):
    """What of a block must be executed: word indices, and whether delay slot and comparison."""

    indices: Sequence[int]
    delay: bool = True
    compares: bool = True


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


_NOTHING = Part((), delay=False, compares=False)


class Slice:
    """The slice of one routine."""

    # `exploration`, `graph`: The routine, as far as it is explored, and its blocks that take part.

    def __init__(self, exploration: Exploration, graph: BlockGraph, escapes: Escapes) -> None:
        self._graph = graph
        self._effects = BlockEffects(exploration, graph, escapes)
        self._blocks = self._effects.blocks
        self._uses = {leader: block.uses for leader, block in self._blocks.items()}
        self._results: dict[int, list[int]] = {}
        self._related = dict.fromkeys(self._blocks, 0)
        self._comparing: set[int] = set()
        self._kept: dict[int, frozenset[Hashable]] = {}
        self.needed = dict.fromkeys(self._blocks, 0)  # Mask of locations by leader
        work = graph.jumps
        while work:
            work = self._relate(self._need(work))

    def sources(self) -> list[int]:
        """Return the leaders, ascending, at which data flow begins: nothing is needed before."""
        needed, predecessors = self.needed, self._graph.predecessors
        starts = {leader for leader in self._graph.jumps if not needed[leader]}
        for leader, mask in needed.items():
            if mask:
                starts.update(source for source in predecessors[leader] if not needed[source])
        return sorted(starts)

    def kept(self, leader: int, state: SymbolicState) -> SymbolicState:
        """Return what a state says about the locations that are needed at a leader."""
        kept = self._kept.get(leader)
        if kept is None:
            kept = self._kept[leader] = self._effects.locations_in(self.needed[leader])
        return {
            location: value
            for location, value in state.items()
            if location in kept or (type(location) is tuple and location[0] == "fact")
        }

    def part(self, leader: int) -> Part:
        """Return what must be executed of a block."""
        block = self._blocks[leader]
        mask = self._at_end(block)
        compares = leader in self._comparing
        past = self._past(block)
        delay = any(mask & (step.writes | step.touches) or step.moves for step in block.delay)
        if not (compares or delay or block.uses or (mask | past) & block.touched):
            return _NOTHING
        mask = self._before_transfer(leader, block, mask)
        indices = []
        for index, step in reversed(block.steps):
            if mask & (step.writes | step.touches) or (step.moves and mask):
                indices.append(index)
            mask = self._before(step, mask)
        indices.reverse()
        return Part(indices, delay, compares)

    # -- backwards: what is needed ---------------------------------------------------------

    def _need(self, leaders: Iterable[int]) -> set[int]:
        """Find what is needed where these blocks start, and before; return all that changed."""
        needed, predecessors = self.needed, self._graph.predecessors
        work = [-leader for leader in leaders]  # a heap: the highest address first
        heapq.heapify(work)
        queued, changed = set(work), set()
        while work:
            key = heapq.heappop(work)
            queued.discard(key)
            leader = -key
            changed.add(leader)
            mask = self._through(leader, self._blocks[leader])
            if mask == needed[leader]:
                continue
            needed[leader] = mask
            for source in predecessors[leader]:
                if -source not in queued:
                    queued.add(-source)
                    heapq.heappush(work, -source)
        return changed

    def _through(self, leader: int, block: SliceBlock) -> int:
        """What is needed where a block starts; notes what of its results is."""
        mask = self._before_transfer(leader, block, self._at_end(block))
        if mask & block.writes:
            results = []
            for _, step in reversed(block.steps):
                result = mask & step.writes
                results.append(result)
                if result or step.moves:
                    mask = self._before(step, mask)
            results.reverse()
            self._results[leader] = results
        return mask | self.needed[leader]

    def _at_end(self, block: SliceBlock) -> int:
        """What any of the blocks that follow needs, unless a call or trap makes it anew."""
        needed, mask = self.needed, 0
        for successor in block.successors:
            mask |= needed[successor]
        mask &= block.kept
        if block.call_return >= 0:
            mask |= needed[block.call_return] & block.left_by_call
        return mask

    def _before_transfer(self, leader: int, block: SliceBlock, mask: int) -> int:
        """What is needed before a block's control transfer, if `mask` is behind it."""
        for step in block.delay:
            mask = self._before(step, mask)
        return (mask | self._past(block)) & ~block.links | self._uses[leader]

    def _past(self, block: SliceBlock) -> int:
        return self.needed[block.falls_past] if block.falls_past >= 0 else 0

    def _before(self, step: BlockStep, mask: int) -> int:
        reads = step.reads if mask & step.writes else 0
        mask &= ~step.writes
        return (self._renamed(mask, step.moves < 0) if step.moves else mask) | reads

    def _renamed(self, mask: int, to_ins: bool) -> int:
        """The locations of a mask after, or before, the register window has moved."""
        if to_ins:
            moved = (mask & OUTS) << 16 | self._effects.slots_moved(mask, SP, FP)
        else:
            moved = (mask & INS) >> 16 | self._effects.slots_moved(mask, FP, SP)
        return mask & (GLOBALS | CONDITION) | moved

    # -- forwards: what is related ---------------------------------------------------------

    def _relate(self, changed: set[int]) -> list[int]:
        """Follow what is related, from changed blocks on; return blocks that now compare it."""
        related, needed, found = self._related, self.needed, []
        work, queued = sorted(changed), set(changed)
        while work:
            leader = heapq.heappop(work)
            queued.discard(leader)
            block = self._blocks[leader]
            mask = related[leader] | needed[leader]
            results = self._results.get(leader)
            if results is not None:
                for (_, step), result in zip(block.steps, results, strict=True):
                    mask = self._after(step, mask, result)
            elif mask & block.reads:
                for _, step in block.steps:
                    mask = self._after(step, mask, 0)
            else:
                mask &= ~block.writes
            is_compared = mask & block.compared and leader not in self._comparing
            if is_compared and self._at_end(block) | self._past(block):
                self._comparing.add(leader)
                self._uses[leader] |= block.compared
                found.append(leader)
            for successor, end in self._ends(block, mask):
                known = related[successor]
                if end & ~(known | needed[successor]):
                    related[successor] = known | end
                    if successor not in queued:
                        queued.add(successor)
                        heapq.heappush(work, successor)
        return found

    def _ends(self, block: SliceBlock, mask: int) -> list[tuple[int, int]]:
        """(What follows a block, what is related there), `mask` before its control transfer."""
        mask &= ~block.links
        before = mask
        for step in block.delay:
            mask = self._after(step, mask, step.writes & self._at_end(block))
        ends = [(to, mask & block.kept) for to in block.successors]
        if block.falls_past >= 0:
            ends.append((block.falls_past, before))
        if block.call_return >= 0:
            ends.append((block.call_return, mask & block.left_by_call))
        return ends

    def _after(self, step: BlockStep, mask: int, result: int) -> int:
        """What is related after an instruction, of whose results `result` is needed."""
        if mask & step.reads:
            result = step.writes
        mask &= ~step.writes
        if step.moves:
            mask = self._renamed(mask, step.moves > 0) & ~step.writes
        return mask | result


# -- The blocks from which an indirect jump can be reached
#
# Where each block ends (`_extents`), what follows it, and backwards from the jumps what leads to
# them.

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
        """Return what data flow over these blocks depends on."""
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
    reaching = closure(jumps, predecessors.__getitem__)
    return BlockGraph(
        {leader: extents[leader] for leader in reaching},
        {leader: predecessors[leader] for leader in reaching},
        sorted(reaching & exploration.entries(number)),
        jumps,
    )


def _extents(exploration: Exploration, number: int) -> dict[int, BlockExtent]:
    next_end = exploration.next_end
    leaders = sorted(exploration.leaders(number))
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
    flows = exploration.flows([at for _, at in transfers])
    for (leader, at), flow in zip(transfers, flows, strict=True):
        if flow is not None:
            extents[leader] = BlockExtent(at, -1, at, flow)
    return extents


def frame_escapes(exploration: Exploration, number: int) -> Escapes:
    """Lowest frame offset whose address the routine computes, by frame register."""
    escapes: Escapes = {}
    words, next_end = exploration.words, exploration.next_end
    for leader in exploration.leaders(number):
        for index in range(leader, min(next_end[leader] + 2, len(words))):
            word = words[index]
            op3, rd, first = (word >> 19) & 63, (word >> 25) & 31, (word >> 14) & 31
            if word >> 30 != 2 or (first not in (SP, FP) and word & 31 not in (SP, FP)):
                continue
            if op3 & 0x30 == 0x30 or rd in (0, SP, FP):  # no result, or a frame register
                continue
            if not word & 0x2000:
                for register in {first, word & 31} & {SP, FP}:
                    escapes[register] = _EVERYWHERE  # the other operand is unknown here
            elif first in (SP, FP):
                lowest = simm13(word) if op3 == 0 else _EVERYWHERE  # only `add` gives an offset
                escapes[first] = min(escapes.get(first, lowest), lowest)
    return escapes
