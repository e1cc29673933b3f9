"""Data flow of a program's routines, and where code of their edges goes, on arrays of numbers.

1. `flows`: which registers are live before and behind each block (`liveness`), and how far windows
   and %sp have moved where it begins (`frames`).
2. `places`: where the code of each edge goes (`places`), and what is known of that point.
"""

# These functions are Python's, on sequences of numbers, and are also machine code. Blocks
# and edges are numbered from 0, words are those of a code image. Sets of registers have 39 bits.

from __future__ import annotations

from typing import Any

from simprof.simulator.cpu import compiled
from simprof.simulator.isa.effects import INS, LOCALS, OUTS

Numbers = Any  # an array of numbers
Longs = Any  # and where it is machine code, its kind (`compiled.kernel`)
Ints = Any
Words = Any
Bytes = Any

# How an instruction shifts the register window (`effects.Window`), without which it moves %sp.
SAVE, RESTORE = 1, 2
_WINDOW = OUTS | LOCALS | INS
_SP = 14
_ADD_TO_SP = 0x9C03A000  # add %sp, constant, %sp, without the constant

# What a block ends with, of `ends`: a call whose callee comes back and destroys registers; another
# call; a trap that no code stands behind, and one that no code at all stands behind.
NOTHING, CALL, OTHER_CALL, TRAP, NO_WAY_ON = range(5)

# Kinds of edges (`packed.KINDS`).
FALL_THROUGH, TAKEN, _SWITCH, SLOT, CALL_RETURN, ENTRY, EXIT = range(7)
# Kinds of places (`frames.Where`).
SOURCE_END, TARGET_TOP, IN_LINE, STUB = range(4)

# Numbers of a routine. Given are those of its blocks and edges, its address and the registers that
# callees keep; `flows` finds those that it names, those that are live at the top of some block in
# its own window, the first block that opens one, and the one behind the last.
BLOCKS, EDGES, ADDRESS, KEPT, NAMED, BUSY, FIRST_SAVE, END_OF_SAVES, SIZES = range(9)

# What `mark` says of a block.
_LANDING, _RETURN_POINT = 1, 2


def before_save(live: int) -> int:
    """Return the live set before a `save` whose live set after it, in the new window, is `live`."""
    # The new ins are the old outs; old locals and ins are the caller's and stay live.
    return live & ~_WINDOW | (live & INS) >> 16 | LOCALS | INS


def before_restore(live: int) -> int:
    """Return the live set before a `restore`: old ins are the new outs, the rest is dropped."""
    return live & ~_WINDOW | (live & OUTS) << 16


def before_word(live: int, reads: int, writes: int, window: int) -> int:
    """Return what is live before an instruction."""
    live &= ~writes
    if window == SAVE:
        live = before_save(live)
    elif window == RESTORE:
        live = before_restore(live)
    return live | reads


def moved_depth(window: int, depth: int) -> int:
    """Return the depth behind an instruction."""
    if window == SAVE:
        return depth + 1
    return max(depth - 1, 0) if window == RESTORE else depth


def moved_stack(window: int, word: int, depth: int, lowered: int) -> int:
    """Return by how much %sp is lowered behind an instruction."""
    op3, has_constant = word >> 19 & 63, word >> 13 & 1 == 1
    if not (word >> 30 == 2 and has_constant and word >> 25 & 31 == _SP and word >> 14 & 31 == _SP):
        return lowered
    if window or depth:
        return lowered
    change = ((word & 0x1FFF) ^ 0x1000) - 0x1000
    if op3 == 0:  # add
        return lowered - change
    return lowered + change if op3 == 4 else lowered


@compiled.kernel
def flows(
    chosen: Longs, sizes: Longs, first_block: Longs, first_edge: Longs,
    source: Ints, target: Ints, kind: Bytes, start: Longs,
    first: Ints, count: Ints, ends: Bytes, exits: Longs, callee: Longs,
    words: Words, reads: Longs, writes: Longs, names: Longs, window: Bytes,
    live_in: Longs, behind: Longs, depth: Ints, lowered: Ints,
    chain: Longs, head: Longs, mark: Longs, waiting: Longs, queue: Longs,
) -> int:  # fmt: skip
    """Solve liveness and frames of the routines `chosen`; found are `live_in` to `lowered`.

    - `sizes`: `SIZES` numbers a routine, of all routines. `first_block`, `first_edge`: Of each.
    - `source`, `target`, `kind`: Of edges.
    - `start`, `first`, `count`: Of blocks: address, number of the first word, number of words.
    - `ends`, `exits`, `callee`: What they end with; what is live where they leave the routine, -1
      where they do not; what is live because of their callee.
    - `words` to `window`: Of the code image.
    - `live_in`, `behind`: What is live before blocks, and behind them and their callees.
    - `depth`, `lowered`: See `FrameState`, where blocks begin.
    - The others are scratch, as long as a routine has vertices or edges.
    """
    for at in range(len(chosen)):
        number = chosen[at]
        edge, next_edge = first_edge[number], first_edge[number + 1]
        block, next_block = first_block[number], first_block[number + 1]
        _flow(
            sizes[SIZES * number : SIZES * (number + 1)],
            source[edge:next_edge], target[edge:next_edge], kind[edge:next_edge],
            start[block:next_block], first[block:next_block], count[block:next_block],
            ends[block:next_block], exits[block:next_block], callee[block:next_block],
            words, reads, writes, names, window,
            live_in[block:next_block], behind[block:next_block],
            depth[block:next_block], lowered[block:next_block],
            chain, head, mark, waiting, queue,
        )  # fmt: skip
    return 0


def _flow(
    size: Numbers, source: Numbers, target: Numbers, kind: Numbers, start: Numbers,
    first: Numbers, count: Numbers, ends: Numbers, exits: Numbers, callee: Numbers,
    words: Numbers, reads: Numbers, writes: Numbers, names: Numbers, window: Numbers,
    live_in: Numbers, behind: Numbers, depth: Numbers, lowered: Numbers,
    chain: Numbers, head: Numbers, mark: Numbers, waiting: Numbers, queue: Numbers,
) -> None:  # fmt: skip
    """Do so for one routine, whose parts of the arrays these are."""
    blocks, edges, address, kept = size[BLOCKS], size[EDGES], size[ADDRESS], size[KEPT]
    named, first_save, end_of_saves = 0, blocks, 0
    for block in range(blocks):
        for word in range(first[block], first[block] + count[block]):
            named |= names[word]
            if window[word] == SAVE:
                first_save, end_of_saves = min(first_save, block), block + 1
    size[NAMED], size[FIRST_SAVE], size[END_OF_SAVES] = named, first_save, end_of_saves
    saves = 1 if end_of_saves else 0
    _solve_liveness(
        blocks, edges, address, kept, source, target, kind, start, first, count, ends, exits,
        callee, reads, writes, window, live_in, behind, chain, head, mark, waiting,
    )  # fmt: skip
    _solve_frames(
        blocks, edges, address, saves, source, target, start, first, count, words, window, depth,
        lowered, chain, head, mark, waiting, queue,
    )  # fmt: skip
    busy = 0
    for block in range(blocks):
        if depth[block] >= saves:
            busy |= live_in[block]
    size[BUSY] = busy


# -- Liveness


def _solve_liveness(
    blocks: int, edges: int, address: int, kept: int,
    source: Numbers, target: Numbers, kind: Numbers, start: Numbers,
    first: Numbers, count: Numbers, ends: Numbers, exits: Numbers, callee: Numbers,
    reads: Numbers, writes: Numbers, window: Numbers, live_in: Numbers, behind: Numbers,
    chain: Numbers, head: Numbers, mark: Numbers, waiting: Numbers,
) -> None:  # fmt: skip
    """Find the least solution: sets grow, in sweeps against the order of the code, until none does.

    Only blocks take part in a sweep that need more since the last one.
    """
    entry = blocks
    for vertex in range(blocks + 2):
        head[vertex] = -1
    for edge in range(edges):
        chain[edge] = head[target[edge]]
        head[target[edge]] = edge
    for block in range(blocks):
        live_in[block], waiting[block], mark[block] = -1, 1, 0
        behind[block] = max(exits[block], 0)
    for edge in range(edges):
        onto = target[edge]
        if onto >= blocks:
            continue
        # Blocks that are entered from outside in the middle of a routine (landing pads of C++
        # exceptions) are successors of every call.
        if source[edge] == entry and start[onto] != address:
            mark[onto] |= _LANDING
        # A call that does not return may come back through longjmp to where a setjmp of this
        # routine returned: the window's registers that are live at any return point live here.
        if kind[edge] == CALL_RETURN:
            mark[onto] |= _RETURN_POINT
    growing = True
    while growing:
        growing = False
        for number in range(blocks):
            block = blocks - 1 - number
            if not waiting[block]:
                continue
            waiting[block] = 0
            live = _live_at(
                block, 0, behind[block], kept, first, count, ends, callee, reads, writes, window
            )
            if live == live_in[block]:
                continue
            live_in[block] = live
            edge = head[block]
            while edge >= 0:
                if source[edge] != entry and behind[source[edge]] | live != behind[source[edge]]:
                    behind[source[edge]] |= live
                    waiting[source[edge]] = 1
                    growing = True
                edge = chain[edge]
            if not mark[block]:
                continue
            for other in range(blocks):
                if ends[other] != CALL and ends[other] != OTHER_CALL:
                    continue
                more = live if mark[block] & _LANDING else 0
                if mark[block] & _RETURN_POINT and exits[other] >= 0:
                    more |= live & (LOCALS | INS)
                if behind[other] | more != behind[other]:
                    behind[other] |= more
                    waiting[other] = 1
                    growing = True


def _live_at(
    block: int, position: int, live: int, kept: int, first: Numbers, count: Numbers,
    ends: Numbers, callee: Numbers, reads: Numbers, writes: Numbers, window: Numbers,
) -> int:  # fmt: skip
    """Return what is live before an instruction of a block; `live` is, behind it and its callee."""
    live = after_call(live, kept, ends[block], callee[block])
    for back in range(count[block] - position):
        word = first[block] + count[block] - 1 - back
        live = before_word(live, reads[word], writes[word], window[word])
    return live


def after_call(live: int, kept: int, end: int, callee: int) -> int:
    """Return what is live when a callee is entered, by what is behind it."""
    return (live & kept if end == CALL else live) | callee


# -- Frames


def _solve_frames(
    blocks: int, edges: int, address: int, saves: int,
    source: Numbers, target: Numbers, start: Numbers, first: Numbers, count: Numbers,
    words: Numbers, window: Numbers, depth: Numbers, lowered: Numbers,
    chain: Numbers, head: Numbers, mark: Numbers, waiting: Numbers, queue: Numbers,
) -> None:  # fmt: skip
    """Follow the code from where it is entered: the first way that comes to a block decides.

    Entries in the middle are in the routine's own window, and blocks to which no way leads.
    """
    entry = blocks
    for vertex in range(blocks + 2):
        head[vertex] = -1
    for back in range(edges):
        edge = edges - 1 - back
        chain[edge] = head[source[edge]]
        head[source[edge]] = edge
    for block in range(blocks):
        depth[block] = -1
    for own in range(2):
        edge = head[entry]
        while edge >= 0:
            onto = target[edge]
            if onto < blocks and (own or start[onto] == address):
                _follow(
                    onto, saves if own else 0, blocks, target, first, count, words, window,
                    depth, lowered, chain, head, mark, waiting, queue,
                )  # fmt: skip
            edge = chain[edge]
    for block in range(blocks):
        if depth[block] < 0:
            depth[block], lowered[block] = saves, 0


def _follow(
    begin: int, begun: int, blocks: int, target: Numbers, first: Numbers, count: Numbers,
    words: Numbers, window: Numbers, depth: Numbers, lowered: Numbers,
    chain: Numbers, head: Numbers, out_depth: Numbers, out_lowered: Numbers, queue: Numbers,
) -> None:  # fmt: skip
    """Go on from block `begin`, breadth first; `out_*` are what blocks leave behind."""
    if depth[begin] >= 0:
        return
    depth[begin], lowered[begin] = begun, 0
    queue[0] = begin
    done, known = 0, 1
    while done < known:
        block = queue[done]
        done += 1
        at, down = depth[block], lowered[block]
        for word in range(first[block], first[block] + count[block]):
            down = moved_stack(window[word], words[word], at, down)
            at = moved_depth(window[word], at)
        out_depth[block], out_lowered[block] = at, down
        edge = head[block]
        while edge >= 0:
            onto = target[edge]
            if onto < blocks and depth[onto] < 0:
                depth[onto], lowered[onto] = at, down
                queue[known] = onto
                known += 1
            edge = chain[edge]


# -- Places


@compiled.kernel
def places(
    chosen: Longs, sizes: Longs, first_block: Longs, first_edge: Longs,
    source: Ints, target: Ints, kind: Bytes, start: Longs, is_slot: Bytes,
    first: Ints, count: Ints, ends: Bytes, exits: Longs, callee: Longs,
    is_shared: Bytes, end: Ints, words: Words, reads: Longs, writes: Longs,
    window: Bytes, live_in: Longs, behind: Longs, depth: Ints, lowered: Ints,
    not_before: Bytes,
    where: Bytes, on: Ints, block_of: Ints, position: Ints, live: Longs,
    deep: Ints, low: Ints, falls: Bytes,
    head: Longs, arriving: Longs, leaving: Longs, fallen: Longs,
) -> int:  # fmt: skip
    """Find the places of code of all edges of the routines `chosen`, and what is known there.

    - Up to `window`, and `live_in` to `lowered`: as for `flows`. Where there are no `words`, only
      `where` to `position` are found.
    - `is_shared`, `end`: Of blocks: `RoutineContext.shared_slots`; where code at their ends goes.
    - `not_before`: Edges whose code must not stand before a delay slot. It, and what is found,
      begins with the first edge of the first routine that is chosen.
    - `where` to `low`: Of edges, as in `EdgePlace` and its site; block and position are -1 off the
      blocks. `falls`: Whether control runs on along them.
    - The others are scratch, by vertex.
    """
    begin = first_edge[chosen[0]] if len(chosen) else 0
    for at in range(len(chosen)):
        number = chosen[at]
        edge, next_edge = first_edge[number], first_edge[number + 1]
        block, next_block = first_block[number], first_block[number + 1]
        own, next_own = edge - begin, next_edge - begin
        _place(
            sizes[SIZES * number : SIZES * (number + 1)],
            source[edge:next_edge], target[edge:next_edge], kind[edge:next_edge],
            start[block:next_block], is_slot[block:next_block], first[block:next_block],
            count[block:next_block], ends[block:next_block], exits[block:next_block],
            callee[block:next_block], is_shared[block:next_block], end[block:next_block],
            words, reads, writes, window, live_in[block:next_block], behind[block:next_block],
            depth[block:next_block], lowered[block:next_block], not_before[own:next_own],
            where[own:next_own], on[own:next_own], block_of[own:next_own],
            position[own:next_own], live[own:next_own], deep[own:next_own], low[own:next_own],
            falls[own:next_own], head, arriving, leaving, fallen,
        )  # fmt: skip
    return 0


def _place(
    size: Numbers, source: Numbers, target: Numbers, kind: Numbers, start: Numbers,
    is_slot: Numbers, first: Numbers, count: Numbers, ends: Numbers, exits: Numbers,
    callee: Numbers, is_shared: Numbers, end: Numbers, words: Numbers, reads: Numbers,
    writes: Numbers, window: Numbers, live_in: Numbers, behind: Numbers, depth: Numbers,
    lowered: Numbers, not_before: Numbers, where: Numbers, on: Numbers, block_of: Numbers,
    position: Numbers, live: Numbers, deep: Numbers, low: Numbers, falls: Numbers,
    head: Numbers, arriving: Numbers, leaving: Numbers, fallen: Numbers,
) -> None:  # fmt: skip
    """Do so for one routine, whose parts of the arrays these are."""
    blocks, edges, address, kept = size[BLOCKS], size[EDGES], size[ADDRESS], size[KEPT]
    entry = blocks
    for vertex in range(blocks + 2):
        head[vertex], arriving[vertex], leaving[vertex], fallen[vertex] = -1, 0, 0, 0
    for edge in range(edges):
        begin = source[edge]
        arriving[target[edge]] += 1
        leaving[begin] |= 1 << kind[edge]
        head[begin] = edge if head[begin] == -1 else -2  # the only one, or one of several
    for edge in range(edges):
        falls[edge] = 1 if _falls_through(edge, blocks, source, kind, is_slot, leaving) else 0
        fallen[target[edge]] |= falls[edge]
    for edge in range(edges):
        on[edge] = _onward(edge, blocks, source, target, kind, is_shared, arriving, head)
        begin, onto = source[edge], target[edge]
        is_only = onto < blocks and arriving[onto] == 1
        at_end = begin < blocks and head[begin] >= 0 and not (not_before[edge] or is_slot[begin])
        if at_end:
            at_end = ends[begin] != NO_WAY_ON and (ends[begin] != TRAP or kind[edge] == EXIT)
        block_of[edge], position[edge] = -1, -1
        if begin == entry:
            in_line = head[entry] >= 0 or onto >= blocks or start[onto] == address
            where[edge] = IN_LINE if in_line or not fallen[onto] else STUB
            if is_only:
                where[edge], block_of[edge] = TARGET_TOP, onto
                position[edge] = 0
                if len(words):
                    position[edge] = _after_save(first[onto], count[onto], words, window)
        elif is_shared[begin]:
            where[edge] = STUB
        elif at_end and kind[edge] != CALL_RETURN:
            where[edge], block_of[edge], position[edge] = SOURCE_END, begin, end[begin]
        elif is_only:
            where[edge], block_of[edge], position[edge] = TARGET_TOP, onto, 0
        else:
            where[edge] = IN_LINE if falls[edge] else STUB
    for edge in range(edges if len(words) else 0):
        begin, onto, block, at = source[edge], target[edge], block_of[edge], position[edge]
        if begin == entry and onto > blocks:
            continue
        if block < 0:
            live[edge] = live_in[onto] if onto < blocks else exits[begin]
            block, at = (onto, 0) if begin == entry else (begin, count[begin])
        else:
            live[edge] = _live_at(
                block, at, behind[block], kept, first, count, ends, callee, reads, writes, window
            )
        at_depth, down = depth[block], lowered[block]
        for word in range(first[block], first[block] + at):
            down = moved_stack(window[word], words[word], at_depth, down)
            at_depth = moved_depth(window[word], at_depth)
        deep[edge], low[edge] = at_depth, down


def _after_save(first: int, count: int, words: Numbers, window: Numbers) -> int:
    """Return the position behind a block's last `save` and what ends its frame, 0 without one."""
    # A frame of more than 4096 bytes takes constants off %sp behind the `save`, too.
    behind = 0
    for position in range(count):
        word = words[first + position]
        lowers = word >> 13 == _ADD_TO_SP >> 13 and word >> 12 & 1 == 1
        if window[first + position] == SAVE or (behind > 0 and lowers):
            behind = position + 1
    return behind


def _falls_through(
    edge: int, blocks: int, source: Numbers, kind: Numbers, is_slot: Numbers, leaving: Numbers
) -> bool:
    """Whether control runs on along an edge; `leaving`: kinds of edges out of vertices, as bits."""
    if kind[edge] == EXIT:  # of a block with other edges: to another routine
        begin = source[edge]
        others = leaving[begin] & ~(1 << EXIT)
        if others and not others & (1 << TAKEN | 1 << SLOT):
            return False
        return others & 1 << FALL_THROUGH == 0 and not (begin < blocks and is_slot[begin] != 0)
    return bool(kind[edge] == FALL_THROUGH or kind[edge] == CALL_RETURN)


def _onward(
    edge: int, blocks: int, source: Numbers, target: Numbers, kind: Numbers,
    is_shared: Numbers, arriving: Numbers, head: Numbers,
) -> int:  # fmt: skip
    """Return the edge whose place an edge's code has: behind delay slots that stand alone."""
    while source[edge] < blocks and not is_shared[source[edge]]:
        onto = target[edge]
        alone = onto < blocks and is_shared[onto] and arriving[onto] == 1
        if not (alone or kind[edge] == SLOT) or head[onto] < 0:
            return edge
        edge = head[onto]
    return edge


# -- All blocks of a program


@compiled.kernel
def first_flags(starts: Longs, stops: Longs, flags: Bytes, found: Longs) -> int:
    """Find the first index from each of `starts` on at which `flags` are set, before `stops`."""
    for number in range(len(starts)):
        at = starts[number]
        while at < stops[number] and not flags[at]:
            at += 1
        found[number] = at
    return 0


@compiled.kernel
def access(
    watched: Longs, begins: Longs, stops: Longs, demanded: Longs, writes: Longs,
    read_first: Bytes, kept: Bytes, written_last: Bytes,
) -> int:  # fmt: skip
    """Find which of the registers `watched[0]` blocks read before they write them, and so on.

    Blocks have the words `begins` to `stops`; these read what is `demanded`.
    """
    for block in range(len(begins)):
        first, written, last = 0, 0, 0
        for word in range(begins[block], stops[block]):
            read, replaced = demanded[word] & watched[0], writes[word] & watched[0]
            first |= read & ~written
            written |= replaced
            last = last & ~read | replaced
        read_first[block], written_last[block] = first, last
        kept[block] = watched[0] & ~written
    return 0


@compiled.kernel
def settle(readers: Longs, givers: Longs, passing: Bytes, kept: Bytes, sets: Bytes) -> int:
    """Let `sets` of blocks, of 8 registers, grow until `settled` is true of them.

    `readers`, `givers`, `passing`: Of flows: blocks, and the registers of the giver's that are
    among the reader's if it has `kept` them.
    """
    last, is_growing, is_odd = len(readers) - 1, True, False
    while is_growing:
        is_growing, is_odd = False, not is_odd
        for number in range(last + 1):
            at = last - number if is_odd else number
            reader = readers[at]
            passed = sets[givers[at]] & passing[at] & kept[reader]
            if sets[reader] | passed != sets[reader]:
                sets[reader] |= passed
                is_growing = True
    return 0
