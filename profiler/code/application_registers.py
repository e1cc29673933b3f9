"""Global registers in which a program carries values from one routine to another.

The SPARC ABIs leave %g2 to %g4 (with 64 bits %g5, too) to the application. Compilers take them as
scratch within a routine, dead at calls and returns. A program may also keep a value there for all
of its routines (`register long counter asm("g4")`), and then added code must not touch it. A
register is *carried* if

- an STT_REGISTER symbol gives it a name (64 bits: `.register %g2, counter`), or
- some code may read what was there before a call that has returned, or
- some code may read what was there when its routine was called.

Steps

1. `_blocks`: what ends each block, and where it leads.
2. `_flows`: where control goes from block to block.
3. `blocks.settled`: what blocks read before it is written, by liveness over these flows.
4. `_behind_calls`: what is demanded behind calls that may come back.
5. `_at_entries`: what is demanded where routines are entered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.code.blocks import (
    BRANCHES,
    Accesses,
    CodeFacts,
    accesses,
    are_among,
    first_from,
    settled,
)
from simprof.profiler.code.registers import mask
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.graphs.packed import NUMBER_OF_KIND
from simprof.profiler.recovery.idioms import PROLOGUE, PROLOGUE_MASK
from simprof.profiler.recovery.recovery import UNKNOWN_BLOCK, ProgramGraphs
from simprof.profiler.recovery.routines import are_held
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.decode import NOP, TransferKind
from simprof.simulator.isa.effects import ALL, Window

R = Register
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Sets = NDArray[np.uint8]  # Sets of %g1 to %g5

# Whether registers have 64 bits -> those that the ABI leaves to the application.
APPLICATION = {False: mask(R.G2, R.G3, R.G4), True: mask(R.G2, R.G3, R.G4, R.G5)}

_CHAIN = {False: mask(R.G2), True: mask(R.G5)}
_LINKAGE = mask(R.G1)
_ALL = np.uint8(0xFF)
_CALLS = (TransferKind.CALL, TransferKind.INDIRECT_CALL, TransferKind.JUMP_AND_LINK)
_TRAPS = (TransferKind.TRAP_ALWAYS, TransferKind.TRAP_CONDITIONAL)
_RUN_ON = (TransferKind.NONE, TransferKind.BRANCH, TransferKind.BRANCH_NEVER, *_TRAPS)


class _Blocks(NamedTuple):
    """The blocks of all routines, in the order of `ProgramGraphs.arrays`; arrays by block."""

    recovered: ProgramGraphs
    facts: CodeFacts
    # first, end: Index of a block's first word, and of the one behind its last.
    first: Numbers
    end: Numbers
    # The transfer that ends it (`TransferKind`); of a slot block, that of the branch before it.
    kind: Numbers
    # Index of the word to which that leads, -1 if it is not direct or leads to no code
    target: Numbers
    is_no_nop: Flags  # Of each word


class _BlockEdges(NamedTuple):
    """Edges of all graphs but those of ENTRY; arrays by edge."""

    # source, target: Blocks; -1 is EXIT.
    source: Numbers
    target: Numbers
    # Whether control comes back along it from a callee; thunks, which keep all, aside.
    is_behind_call: Flags
    leaving: Numbers  # Blocks with an edge to EXIT, ascending


class _RegisterFlows(NamedTuple):
    """Where control goes from block to block, and which registers' values go with it."""

    source: Numbers
    target: Numbers
    registers: Sets


def carried_registers(recovered: ProgramGraphs, facts: CodeFacts) -> int:
    """Return the application registers that carry values across calls or returns, as a mask."""
    # `recovered`: The whole program.
    # `facts`: Its words; what routines hand to each other (`CodeFacts.handed`) need not be known.
    is64 = recovered.program.is64
    blocks = _blocks(recovered, facts)
    edges = _edges(blocks)
    flows = _flows(blocks, edges, _CHAIN[is64])
    watched, reads = APPLICATION[is64] | _LINKAGE, _reads(facts)
    used = accesses(blocks.first, blocks.end, reads, facts.writes, watched)
    demands = settled(used.read_first, used.kept, *flows)
    found = _behind_calls(blocks, edges, used, demands)
    found |= _at_entries(blocks, flows, demands, _CHAIN[is64])
    return (found | mask(*map(Register, recovered.program.named_registers))) & APPLICATION[is64]


def _blocks(recovered: ProgramGraphs, facts: CodeFacts) -> _Blocks:
    arrays, code = recovered.arrays, recovered.code
    first = code.place.indices(arrays.block_start)
    end = first + arrays.block_length
    last = code.block_ends[first].astype(np.int64)
    has_transfer = ~arrays.block_is_slot & (last < end)
    at = np.where(has_transfer, last, first)
    at = np.where(arrays.block_is_slot, first - 1, at)  # the branch whose slot it is
    ends = has_transfer | arrays.block_is_slot
    kind = np.where(ends, code.transfers.kind[at], int(TransferKind.NONE)).astype(np.int64)
    target = np.where(ends, code.targets[at], -1).astype(np.int64)
    return _Blocks(recovered, facts, first, end, kind, target, facts.words != NOP)


def _edges(blocks: _Blocks) -> _BlockEdges:
    arrays = blocks.recovered.arrays
    owner = np.repeat(np.arange(len(arrays)), np.diff(arrays.first_edge))
    base, count = arrays.first_block[owner], np.diff(arrays.first_block)[owner]
    kept = arrays.edge_source < count  # those of ENTRY are left out
    source = (base + arrays.edge_source)[kept]
    target = np.where(arrays.edge_target < count, base + arrays.edge_target, -1)[kept]
    thunks = np.array(list(map(blocks.facts.place.index, blocks.facts.thunks)), np.int64)
    keeps_all = (blocks.kind == TransferKind.CALL) & np.isin(blocks.target, thunks)
    returns = arrays.edge_kind[kept] == NUMBER_OF_KIND[EdgeKind.CALL_RETURN]
    return _BlockEdges(source, target, returns & ~keeps_all[source], np.unique(source[target < 0]))


def _is_pc_read(words: NDArray[np.uint32]) -> Flags:
    """Of each word, whether it adds %o7 to a register: a call of it only jumps over data."""
    # So does ld.so (`call 1f; ...; .word ...; 1: add %l7, %o7, %l7`).
    is_add = (words >> 30 == 2) & (words >> 19 & 63 == 0) & (words >> 13 & 1 == 0)
    found: Flags = is_add & ((words >> 14 & 31 == R.O7) | (words & 31 == R.O7))
    return found


# Control goes within routines, through thunks, and by branches and falling through between
# routines, as among the parts of glibc's memcpy, which hand each other %g4. Calls hand their callee
# the *static chain* of nested functions (%g2, with 64 bits %g5).
def _flows(blocks: _Blocks, edges: _BlockEdges, chain: int) -> _RegisterFlows:
    inner, leaving = (edges.target >= 0) & ~edges.is_behind_call, edges.leaving
    branching = leaving[are_among(blocks.kind[leaving], BRANCHES)]
    is_slot = blocks.recovered.arrays.block_is_slot[leaving]
    running = leaving[are_among(blocks.kind[leaving], _RUN_ON) & ~is_slot]
    calling = np.flatnonzero((blocks.kind == TransferKind.CALL) & (blocks.target >= 0))
    jumps = _is_pc_read(blocks.facts.words[blocks.target[calling]])
    parts = (
        (edges.source[inner], edges.target[inner], _ALL),
        (branching, _block_at(blocks, blocks.target[branching]), _ALL),
        (running, _block_at(blocks, blocks.end[running]), _ALL),
        (running, _block_at(blocks, blocks.end[running] + 1), _ALL),  # behind a skipped slot
        (calling, _block_at(blocks, blocks.target[calling]), np.where(jumps, _ALL, chain)),
    )
    source, target = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    registers = np.concatenate([np.full(len(part[0]), part[2], np.uint8) for part in parts])
    known = target >= 0
    return _RegisterFlows(source[known], target[known], registers[known])


def _block_at(blocks: _Blocks, words: Numbers) -> Numbers:
    known = (words >= 0) & (words < len(blocks.recovered.block_at))
    found = blocks.recovered.block_at[np.where(known, words, 0)].astype(np.int64)
    return np.where(known, found, UNKNOWN_BLOCK)


def _reads(facts: CodeFacts) -> NDArray[np.uint64]:
    """Return what each word reads; of one that is not understood, what its fields may name."""
    # Liveness takes such a word to read everything.
    unknown = np.flatnonzero(facts.reads == ALL)
    words, one = facts.words[unknown].astype(np.uint64), np.uint64(1)
    fields = one << (words >> np.uint64(14) & np.uint64(31))
    fields |= np.where(words >> np.uint64(13) & one, 0, one << (words & np.uint64(31)))
    is_memory = words >> np.uint64(30) == 3
    fields |= np.where(is_memory, one << (words >> np.uint64(25) & np.uint64(31)), 0)
    reads = facts.reads.copy()
    reads[unknown] = np.where(words >> np.uint64(30) >= 2, fields, 0)
    return reads


def _behind_calls(blocks: _Blocks, edges: _BlockEdges, used: Accesses, demands: Sets) -> int:
    kept = used.kept
    behind = np.flatnonzero(edges.is_behind_call & (edges.target >= 0))
    behind = behind[demands[edges.target[behind]] != 0]
    callers = edges.source[behind]
    behind = behind[_may_return(blocks, edges, callers)]
    callers, points = edges.source[behind], edges.target[behind]
    inner = (edges.target >= 0) & ~edges.is_behind_call
    back = _RegisterFlows(edges.target[inner], edges.source[inner], np.full(inner.sum(), _ALL))
    # what may be as old as the last call, or the routine's entry, behind each block
    old = np.zeros_like(kept)
    old[points] = old[blocks.recovered.arrays.entered_blocks()] = _ALL
    old = settled(old & kept, kept, *back)
    joined, arriving = np.zeros_like(kept), np.zeros_like(kept)
    joined[back.source] = _ALL
    np.bitwise_or.at(arriving, back.source, old[back.target])
    needed = np.zeros_like(kept)
    np.bitwise_or.at(needed, back.target, demands[back.source])
    arrays = blocks.recovered.arrays
    routine = np.repeat(np.arange(len(arrays)), np.diff(arrays.first_block))
    left = np.zeros(len(arrays) + 1, np.uint8)
    np.bitwise_or.at(left, routine, used.written_last & ~needed)
    left[-1] = _ALL  # by a callee that is not known
    callee = _block_at(blocks, blocks.target[callers])
    callee = np.where(callee < 0, -1, arrays.routine_of(callee))
    excused = joined[points] & ~arriving[points] & ~left[callee]
    return int(np.bitwise_or.reduce(demands[points] & ~excused, initial=0))


# What cannot be decided counts as carried: what is demanded where pointers may lead, and behind
# calls unless the code shows that they do not come back. Compilers put other code behind such a
# call. They are
#
# - calls of routines that have no return, as glibc's malloc_printerr, whose last instruction is a
#   call, and of no code at all, as missing weak functions;
# - calls of routines that return sometimes, as glibc's __libc_message and error: what is behind one
#   is reached by other ways, too, all of them have written the register since the last call, and
#   the callee leaves no value there that it does not read itself.
def _may_return(blocks: _Blocks, edges: _BlockEdges, callers: Numbers) -> Flags:
    """Return, of each block that ends with a call, whether that may come back."""
    arrays, leaving = blocks.recovered.arrays, edges.leaving[_reached(blocks, edges)]
    kind, slot = blocks.kind[leaving], blocks.end[leaving] - 1
    returns_for = (blocks.facts.window[slot] == Window.RESTORE) | (
        blocks.facts.writes[slot] & np.uint64(mask(R.O7)) != 0
    )
    ends = are_among(kind, (TransferKind.TRAP_ALWAYS, TransferKind.ILLEGAL))
    ends |= are_among(kind, _CALLS) & ~returns_for
    end = blocks.end[leaving]
    padding = first_from(blocks.is_no_nop, blocks.first[leaving], end) == end
    ends |= padding & (kind == TransferKind.NONE)
    returns = np.zeros(len(arrays), np.bool_)
    returns[arrays.routine_of(leaving[~ends])] = True
    target = blocks.target[callers]
    callee = _block_at(blocks, target)
    is_missing = (blocks.kind[callers] == TransferKind.CALL) & (target < 0)
    return np.where(callee < 0, ~is_missing, returns[arrays.routine_of(np.maximum(callee, 0))])


def _reached(blocks: _Blocks, edges: _BlockEdges) -> Flags:
    """Return, of `edges.leaving`, what is reached without coming back to another routine's code."""
    # Where nothing says how long routines are, that stands behind a call that does not come back:
    # it begins with a `save`.
    behind = np.flatnonzero(edges.is_behind_call & (edges.target >= 0))
    first, words = blocks.first[edges.target[behind]], len(blocks.is_no_nop)
    begins = first_from(blocks.is_no_nop, first, np.full(len(first), words))
    is_next = np.zeros_like(edges.is_behind_call)
    is_next[behind] = np.append(blocks.facts.words, 0)[begins] & PROLOGUE_MASK == PROLOGUE
    kept = (edges.target >= 0) & ~is_next
    every = np.full(kept.sum(), _ALL)
    begun = np.zeros(len(blocks.first), np.uint8)
    begun[blocks.recovered.arrays.entered_blocks()] = 1
    flows = _RegisterFlows(edges.target[kept], edges.source[kept], every)
    reached: Flags = settled(begun, np.full_like(begun, _ALL), *flows)[edges.leaving] != 0
    return reached


# What `_flows` hands on to the code before the entries does not count, nor do routines that demand
# %g1 as well. That passes through procedure linkage tables only, with another register for glibc's
# _dl_runtime_resolve.
def _at_entries(blocks: _Blocks, flows: _RegisterFlows, demands: Sets, chain: int) -> int:
    arrays, code = blocks.recovered.arrays, blocks.recovered.code
    entered = arrays.entered_blocks()
    entered = entered[demands[entered] & ~np.uint8(_LINKAGE) != 0]
    if not len(entered):
        return 0
    is_call = code.is_code & (code.transfers.kind == TransferKind.CALL)
    called = np.isin(blocks.first[entered], code.targets[is_call])
    called &= ~_is_pc_read(code.words[blocks.first[entered]])
    branched = np.isin(entered, flows.target[flows.registers == _ALL])
    held = are_held(blocks.recovered.program, code, arrays.block_start[entered])
    found = demands[entered].copy()
    found[~called & (found & _LINKAGE != 0)] = 0
    found[called & ~held] &= ~np.uint8(chain)
    found[branched & ~called & ~held] = 0
    return int(np.bitwise_or.reduce(found))
