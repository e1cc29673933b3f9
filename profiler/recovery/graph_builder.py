"""The finished exploration as control-flow graphs of all routines, in arrays.

Blocks are ordered by address, a slot block after an ordinary block of the same start. Edges:
those of ENTRY first (by address), then by block: fall-through, taken (or slot), call-return,
switch targets by address, exit.

Steps -> functions: where each ordinary block ends, and where control goes from there (`_extents`);
the blocks, sorted (`_blocks`); the edges, sorted (`_edges`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.graphs.packed import NUMBER_OF_KIND, PackedGraphs
from simprof.profiler.recovery import exploration_kernel as k
from simprof.profiler.recovery.code_image import GET_CONTEXT
from simprof.profiler.recovery.exploration import Exploration
from simprof.profiler.recovery.routines import Routine

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Switches = tuple[Integers, Integers]

_INDIRECT = (k.INDIRECT_CALL, k.JUMP_AND_LINK)
_ORDER = 8  # Edges of an ordinary block and of its slot block: fewer kinds than this, in order


class Extents(NamedTuple):
    """The ordinary blocks, by routine and address; word indices, -1 for none."""

    # `routine` is a position among the graphs, `last` the last word without delay slot. The others
    # are those of `exploration.Flow` at that word, but where another block or the end of the
    # routine comes first.

    routine: Integers
    leader: Integers
    last: Integers
    kind: Integers
    fall: Integers
    taken: Integers
    call_return: Integers
    has_slot: Flags
    slot_block: Flags
    exits: Flags


class Blocks(NamedTuple):
    """All blocks, sorted. `ordinary` and `slots` are positions here, by extent (of slot blocks)."""

    routine: Integers
    start: Integers
    length: Integers
    is_slot: Flags
    ordinary: Integers
    slots: Integers


class Edges(NamedTuple):
    """Edges whose ends are positions among the blocks; `order` sorts them."""

    order: Integers
    routine: Integers
    source: Integers
    target: Integers
    kind: NDArray[np.uint8]


def build_graphs(exploration: Exploration) -> tuple[PackedGraphs, NDArray[np.int32]]:
    """Build the graphs of all routines that have a leader, by address.

    Also returns, by word, the number of the ordinary block that starts there, or -1.
    """
    rows = exploration.state.routine[: exploration.state.counts[k.ROUTINES]]
    numbers = np.flatnonzero(rows[:, k.LEADERS] > 0)
    numbers = numbers[np.argsort(rows[numbers, k.START], kind="stable")]
    position = np.zeros(len(rows), dtype=np.int64)
    position[numbers] = np.arange(len(numbers))
    extents = _extents(exploration, position)
    switches = _switches(exploration, extents)
    extents = extents._replace(exits=_exits(extents, switches[0]))
    blocks = _blocks(extents)
    block_at = np.full(len(exploration.code.words), -1, dtype=np.int32)
    block_at[extents.leader] = blocks.ordinary
    block_at.flags.writeable = False
    first_block = np.searchsorted(blocks.routine, np.arange(len(numbers) + 1))
    entries = _entries(exploration, position, extents, block_at)
    parts = zip(entries, *_edges(extents, blocks, block_at, switches), strict=True)
    edges = _sorted(Edges(*map(np.concatenate, parts)), first_block)
    routines = [exploration.routine_map.routines[number] for number in numbers.tolist()]
    # Control may go to a routine that the code does not name.
    indirect = np.isin(extents.kind, _INDIRECT) | ((extents.kind == k.JUMP) & extents.exits)
    are_indirect = np.zeros(len(blocks.start), dtype=np.bool_)
    are_indirect[blocks.ordinary[indirect]] = True
    graphs = PackedGraphs(
        names=tuple(routine.name for routine in routines),
        addresses=np.array([exploration.code.address(each.start) for each in routines], np.int64),
        sizes=_sizes(routines, blocks, first_block),
        first_block=first_block,
        first_edge=np.searchsorted(edges.routine, np.arange(len(first_block))),
        block_start=exploration.code.place.addresses(blocks.start),
        block_length=blocks.length.astype(np.int32),
        block_is_slot=blocks.is_slot,
        block_is_indirect=are_indirect,
        edge_source=edges.source.astype(np.int32),
        edge_target=edges.target.astype(np.int32),
        edge_kind=edges.kind,
    )
    return graphs, block_at


def _sizes(routines: list[Routine], blocks: Blocks, first_block: Integers) -> Integers:
    sizes = np.array([routine.size for routine in routines], dtype=np.int64)
    for position in np.flatnonzero(sizes == 0).tolist():
        own = slice(first_block[position], first_block[position + 1])
        end = int((blocks.start[own] + blocks.length[own]).max())
        sizes[position] = 4 * max(1, end - routines[position].start)
    return sizes


def _extents(exploration: Exploration, position: Integers) -> Extents:
    """The ordinary blocks; `exits` is whether their flow leaves the routine."""
    # `position`: Of each routine among the graphs, by its number.
    at, next_end = exploration.state.at, exploration.state.next_end
    leader = np.flatnonzero(at[k.LEADER])
    borders = np.append(np.flatnonzero(np.diff(at[k.OWNER])) + 1, len(next_end))
    end = borders[np.searchsorted(borders, leader, side="right")]  # of the leader's region
    after = np.append(leader[1:], len(next_end))
    last = next_end[leader].astype(np.int64)
    is_cut = (after <= last) & (after < end)
    runs_out = ~is_cut & (last >= end)
    last = np.where(is_cut, after - 1, np.where(runs_out, end - 1, last))
    ends_in_flow = ~(is_cut | runs_out)
    flow = np.where(ends_in_flow, at[k.FALL : k.FLAGS + 1, last], 0)
    fall, taken, call_return, flags = flow.astype(np.int64)
    extents = Extents(
        routine=position[at[k.LEADER, leader] - 1],
        leader=leader,
        last=last,
        kind=np.where(ends_in_flow, exploration.state.kinds[last], k.NONE),
        fall=np.where(is_cut, after, fall - 1),
        taken=taken - 1,
        call_return=call_return - 1,
        has_slot=(flags & k.HAS_SLOT) != 0,
        slot_block=(flags & k.SLOT_BLOCK) != 0,
        exits=runs_out | ((flags & k.LEAVES) != 0),
    )
    order = np.argsort(extents.routine, kind="stable")
    columns: Any = (column[order] for column in extents)
    return Extents(*columns)


def _switches(exploration: Exploration, extents: Extents) -> Switches:
    """(extent that ends in an indirect jump, its target), by extent and target."""
    # and those that end in a call which returns to several places
    jumps = {jump: targets for jump, targets in exploration.switch.items() if targets}
    found = np.flatnonzero((extents.kind != k.NONE) & np.isin(extents.last, list(jumps))).tolist()
    ends = zip(found, extents.last[found].tolist(), strict=True)
    pairs = [(extent, target) for extent, jump in ends for target in sorted(jumps.get(jump, ()))]
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _exits(extents: Extents, switch_extent: Integers) -> Flags:
    """Of each block, whether it has an exit edge itself; its slot block may have another."""
    goes_on = (extents.fall >= 0) | (extents.taken >= 0) | (extents.call_return >= 0)
    goes_on[switch_extent] = True
    exits: Flags = np.where(extents.slot_block, extents.fall < 0, extents.exits | ~goes_on)
    return exits


def _blocks(extents: Extents) -> Blocks:
    with_slot = np.flatnonzero(extents.slot_block)
    routine = np.concatenate([extents.routine, extents.routine[with_slot]])
    name = np.concatenate([2 * extents.leader, 2 * (extents.last[with_slot] + 1) + 1])
    length = extents.last - extents.leader + 1 + extents.has_slot
    length = np.concatenate([length, np.ones(len(with_slot), dtype=np.int64)])
    order = np.lexsort((name, routine))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    count = len(extents.leader)
    slots = np.full(count, -1, dtype=np.int64)
    slots[with_slot] = place[count:]
    name = name[order]
    return Blocks(routine[order], name >> 1, length[order], (name & 1) != 0, place[:count], slots)


def _edges(
    extents: Extents, blocks: Blocks, block_at: NDArray[np.int32], switches: Switches
) -> Iterator[Edges]:
    """Yield all edges but those of ENTRY, kind by kind; the target EXIT is -1."""
    here, slots = blocks.ordinary, blocks.slots
    slot_block, taken = extents.slot_block, extents.taken >= 0
    returns = extents.call_return >= 0
    nothing = np.full(len(here), -1, dtype=np.int64)

    def part(rank: int, extent: Integers, source: Integers, to: Any, kind: EdgeKind) -> Edges:
        kinds = np.full(len(extent), NUMBER_OF_KIND[kind], dtype=np.uint8)
        order = _ORDER * (extent + 1) + rank
        return Edges(order, extents.routine[extent], source[extent], to.astype(np.int64), kinds)

    for rank, where, source, words, kind in (
        (0, extents.fall >= 0, here, extents.fall, EdgeKind.FALL_THROUGH),
        (2, slot_block & taken, slots, extents.taken, EdgeKind.TAKEN),
        (2, slot_block & ~taken, slots, None, EdgeKind.EXIT),
        (3, ~slot_block & taken, here, extents.taken, EdgeKind.TAKEN),
        (4, returns, here, extents.call_return, EdgeKind.CALL_RETURN),
        (6, extents.exits, here, None, EdgeKind.EXIT),
    ):
        extent = np.flatnonzero(where)
        target = nothing[extent] if words is None else block_at[words[extent]]
        yield part(rank, extent, source, target, kind)
    extent = np.flatnonzero(slot_block)
    yield part(1, extent, here, slots[extent], EdgeKind.SLOT)
    jumps = extents.kind[switches[0]] == k.JUMP
    for which, kind in ((jumps, EdgeKind.SWITCH), (~jumps, EdgeKind.CALL_RETURN)):
        yield part(5, switches[0][which], here, block_at[switches[1][which]], kind)


def _entries(
    exploration: Exploration, position: Integers, extents: Extents, block_at: NDArray[np.int32]
) -> Edges:
    """Entry edges: that to the routine's start first, then by address."""
    at = exploration.state.at
    words = np.flatnonzero(at[k.ENTRY])
    owner = at[k.ENTRY, words] - 1
    routine = position[owner]
    is_start = exploration.state.routine[owner, k.START] == words
    order = np.lexsort((words, ~is_start, routine))
    words, routine = words[order], routine[order]
    before = np.searchsorted(extents.routine, routine)  # its first extent
    kinds = np.where(
        _are_reentries(exploration, words, extents) & ~is_start[order],
        np.uint8(NUMBER_OF_KIND[EdgeKind.REENTRY]),
        np.uint8(NUMBER_OF_KIND[EdgeKind.ENTRY]),
    )
    source = np.full(len(words), -1, dtype=np.int64)
    target = block_at[words].astype(np.int64)
    return Edges(_ORDER * (before + 1) - 1, routine, source, target, kinds)


def _are_reentries(exploration: Exploration, words: Integers, extents: Extents) -> Flags:
    """Whether control comes to these words by no call: from an exception, from `longjmp` behind a
    call, or because a handler of signals or traps goes on there.
    """
    # The 64-bit `longjmp` sets the context that `setjmp` has got by a trap.
    hints, code = exploration.hints, exploration.code
    sets = hints.landings, hints.entries, hints.reentries
    landings, shown, again = (np.isin(words, list(known)) for known in sets)
    behind = np.isin(words, extents.call_return) | (code.words[words - 1] == GET_CONTEXT)
    found: Flags = landings | again | shown & behind
    return found


def _sorted(edges: Edges, first_block: Integers) -> Edges:
    """The edges in their order, with vertices of their routines as ends."""
    order = np.argsort(edges.order, kind="stable")
    routine, source, target = (c[order] for c in (edges.routine, edges.source, edges.target))
    base, blocks = first_block[routine], np.diff(first_block)[routine]
    return Edges(
        edges.order[order],
        routine,
        np.where(source < 0, blocks, source - base),
        np.where(target < 0, blocks + 1, target - base),
        edges.kind[order],
    )
