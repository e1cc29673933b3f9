"""Regenerates executions from traces: BL94 figure 14 with a stack of active procedures.

Imports numpy only, besides what makes C functions. Blocks and edges have program-wide numbers. The
position is a block, or an EXIT edge that has been crossed (`-2 - edge`), or `NOWHERE`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.simulator.cpu import compiled

Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


# Functions here neither make arrays nor keep any: counting references to those of `Tables` with
# each use would take more time than all the rest. A call would pass the tables one by one, so that
# all are compiled into their callers.
_inline = compiled.jit(inline="always", _nrt=False)


# Words of the state.
# PLACE: the position. BITS: those of the token stream that were read. DEPTH: activations that wait.
# LIMIT: crossings at which the next event is; EVENT_BITS: bits before it, -1 if there is none.
# CERTAIN: crossings that have happened even if no token tells. WRITTEN: blocks in the output.
# CHECKED: whether digests are compared. NEXT_DEPTH, NEXT_BITS: see `next_edge`.
PLACE, CROSSINGS, BITS, DEPTH, DIGEST, LIMIT, EVENT_BITS, CERTAIN, WRITTEN, CHECKED = range(10)
NEXT_DEPTH, NEXT_BITS = range(10, 12)
WORDS = 12

NOWHERE = -1

# Why `regenerate` stopped. NO_TOKEN: the token stream ends. TOWARDS: a predicate, and no token but
# the next event decides. WRONG: a token that cannot come here. STUCK: the graphs lead nowhere.
# DIFFERS: the digest at a checkpoint is another.
REACHED, NO_TOKEN, TOWARDS, WRONG, STUCK, DIFFERS, OUTPUT_FULL, STACK_FULL = range(8)

RETURN, ENTER, CALL, TARGET = range(1, 5)  # how control leaves by an EXIT edge (`calls.Exit`)

# What `Tables.callee` and `Tables.entered` hold but for ENTRY edges: no call, one whose address the
# trace has, or an event.
NO_CALL, BY_TARGET, BY_EVENT = -1, -2, -3

UNMET = -1  # width of the edges of routines that the trace does not know
TARGET_WIDTH = 32
DIGEST_FACTOR = 0x2545F4914F6CDD1D
CHECKPOINT_SPAN = 1 << 16


class Tables(NamedTuple):
    """A program and what its edges write; int64."""

    target: Longs  # Edge -> block, -1 for EXIT
    # value, width: Edge -> token; width 0: none.
    value: Longs
    width: Longs
    # way, entered: EXIT edge -> how control leaves, ENTRY edge that follows.
    way: Longs
    entered: Longs
    only: Longs  # Block -> its one outgoing edge, -1 where it has none or several
    callee: Longs  # Block -> ENTRY edge that its call leads to
    peek: Longs  # Block -> bits that decide between its edges; 0 where it is no predicate.
    # Block -> where its decisions begin in `key` and `choice`; they end with the next block's.
    first: Longs
    # key, choice: Ascending token values, and the edge that each decides for.
    key: Longs
    choice: Longs
    # routine, entry, returns: Block -> routine, ENTRY edge or -1, whether jumps of other routines
    # return there.
    routine: Longs
    entry: Longs
    returns: Longs
    block_at: Longs  # Instruction word -> block that starts there, or -1
    # Of each piece of code: the lower half of its address, its bytes, its first word.
    pieces: Longs


@_inline
def read_bits(stream: Bytes, at: int, width: int) -> int:
    """The `width` bits at bit `at` of `stream`, which has them; at most 32."""
    last = at + width - 1
    value = np.int64(0)
    for byte in range(at >> 3, (last >> 3) + 1):
        value = value << np.int64(8) | np.int64(stream[byte])
    return int(value >> (7 - (last & 7))) & ((1 << width) - 1)


@_inline
def target_block(tables: Tables, low: int) -> int:
    """The block that starts at the address with this lower half, or -1."""
    for piece in range(0, len(tables.pieces), 3):
        distance = low - tables.pieces[piece]
        if 0 <= distance < tables.pieces[piece + 1]:
            return int(tables.block_at[tables.pieces[piece + 2] + (distance >> 2)])
    return -1


@_inline
def decide(tables: Tables, block: int, token: int) -> int:
    """The edge that `token` decides for at predicate `block`, or -1."""
    low, high = tables.first[block], tables.first[block + 1]
    while low < high:
        middle = (low + high) >> 1
        if tables.key[middle] < token:
            low = middle + 1
        else:
            high = middle
    if low < tables.first[block + 1] and tables.key[low] == token:
        return int(tables.choice[low])
    return -1


@_inline
def _cross(tables: Tables, stream: Bytes, end: int, state: Longs, output: Longs, edge: int) -> int:
    """Cross `edge`: read its token, note its target; return REACHED or what is wrong."""
    width = tables.width[edge]
    if width == UNMET:
        return STUCK
    if width > 0:
        at = state[BITS]
        if at + width > end:
            return NO_TOKEN
        if read_bits(stream, at, width) != tables.value[edge]:
            return WRONG
        state[BITS] = at + width
    state[CROSSINGS] += 1
    state[DIGEST] = (state[DIGEST] + edge + 1) * DIGEST_FACTOR
    block = tables.target[edge]
    if block < 0:
        state[PLACE] = -2 - edge
    else:
        state[PLACE] = block
        output[state[WRITTEN]] = block
        state[WRITTEN] += 1
    return REACHED


@_inline
def pop(tables: Tables, state: Longs, stack: Longs) -> int:
    """The edge behind the call that waits, which is popped; -1 where none does."""
    depth = state[DEPTH]
    if depth == 0 or stack[depth - 1] < 0:
        return -1
    state[NEXT_DEPTH] = depth - 1
    return int(tables.only[stack[depth - 1]])


@_inline
def at_predicate(tables: Tables, stream: Bytes, end: int, state: Longs) -> int:
    """The edge that the next token decides for, or -1 less why none does."""
    block, bits = state[PLACE], state[BITS]
    width = tables.peek[block]
    if bits == state[EVENT_BITS]:
        return -TOWARDS - 1
    if bits + width > end:
        return -NO_TOKEN - 1
    edge = decide(tables, block, read_bits(stream, bits, width))
    return edge if edge >= 0 else -WRONG - 1


@_inline
def by_target(tables: Tables, stream: Bytes, end: int, state: Longs, stack: Longs) -> int:
    """The edge to the address that comes next in the trace, or -1 less why there is none."""
    bits, place = state[BITS], state[PLACE]
    if bits + TARGET_WIDTH > end:
        return -NO_TOKEN - 1
    state[NEXT_BITS] = bits + TARGET_WIDTH
    block = target_block(tables, read_bits(stream, bits, TARGET_WIDTH))
    if block < 0:
        return -STUCK - 1
    edge = tables.entry[block]
    if place < 0 and tables.way[-2 - place] == TARGET and tables.returns[block]:
        edge = pop(tables, state, stack)
    return int(edge) if edge >= 0 else -STUCK - 1


@_inline
def next_edge(tables: Tables, stream: Bytes, end: int, state: Longs, stack: Longs) -> int:
    """The edge that comes next, or -1 less why none does."""
    # `NEXT_DEPTH` and `NEXT_BITS` are what the depth and the bits read are then.
    place = state[PLACE]
    state[NEXT_DEPTH] = state[DEPTH]
    state[NEXT_BITS] = state[BITS]
    edge = -1
    if place >= 0:
        edge = tables.callee[place]
        if edge != NO_CALL:
            state[NEXT_DEPTH] += 1
        elif tables.peek[place] > 0:
            return at_predicate(tables, stream, end, state)
        else:
            edge = tables.only[place]
    elif place != NOWHERE:
        edge = tables.entered[-2 - place]
        way = tables.way[-2 - place]
        if way == CALL:
            state[NEXT_DEPTH] += 1
        elif way == RETURN:
            edge = pop(tables, state, stack)
    if edge == BY_TARGET:
        return by_target(tables, stream, end, state, stack)
    return int(edge) if edge >= 0 else -STUCK - 1


@_inline
def _regenerate(
    tables: Tables,
    stream: Bytes,
    end: int,
    state: Longs,
    stack: Longs,
    output: Longs,
    digests: Longs,
) -> int:
    while True:
        if state[CROSSINGS] == state[LIMIT]:
            return REACHED
        if state[BITS] >= end and state[CROSSINGS] >= state[CERTAIN]:
            return NO_TOKEN
        if state[WRITTEN] + 1 >= len(output):
            return OUTPUT_FULL
        if state[DEPTH] + 1 >= len(stack):
            return STACK_FULL
        edge = next_edge(tables, stream, end, state, stack)
        if edge < 0:
            return -edge - 1
        if state[NEXT_DEPTH] > state[DEPTH]:
            stack[state[DEPTH]] = max(state[PLACE], NOWHERE)
        state[DEPTH] = state[NEXT_DEPTH]
        state[BITS] = state[NEXT_BITS]
        status = _cross(tables, stream, end, state, output, edge)
        if status != REACHED:
            return status
        if state[CROSSINGS] % CHECKPOINT_SPAN == 0 and state[CHECKED]:
            number = state[CROSSINGS] // CHECKPOINT_SPAN - 1
            if number < len(digests) and digests[number] != state[DIGEST]:
                return DIFFERS


class Walk(NamedTuple):
    """The arrays of a regeneration, besides the tables."""

    stream: Bytes  # The token stream
    state: Longs
    stack: Longs  # Blocks that wait for a call to return, -1 where no return by the graphs leads
    output: Longs  # Receives the blocks
    digests: Longs  # Digest at each multiple of `CHECKPOINT_SPAN` crossings from the first on


@compiled.kernel
def _walk(tables: Tables, walk: Walk, end: int, edge: int) -> int:
    # Cross `edge`, or regenerate where it is -1.
    if edge >= 0:
        return _cross(tables, walk.stream, end, walk.state, walk.output, edge)
    return _regenerate(tables, walk.stream, end, walk.state, walk.stack, walk.output, walk.digests)


def regenerate(tables: Tables, walk: Walk, end: int) -> int:
    """Regenerate from the state on; `end`: the stream's length in bits. Returns why it stopped."""
    return cross(tables, walk, end, -1)


def cross(tables: Tables, walk: Walk, end: int, edge: int) -> int:
    """Cross `edge`: read its token, note its target; return REACHED or what is wrong."""
    if compiled.native(_walk) is None:
        return _walk(tables, walk, end, edge)
    return compiled.call(_walk, tables, walk, end, edge)
