"""Counts of single instructions: executions, branches taken, added instructions.

Everything here follows from the profile alone: its blocks say where instructions are, its edges
how often control went where.

Terms
-----
executions
    How often an instruction was executed. An instruction in a delay slot that is also the target
    of transfers is in two blocks, and the sum of both. The delay slot of an annulled branch is a
    block of its own. Executions that a fault, a signal or the end of the run cut short count up to
    the instruction before which they ended.
added
    Added instructions have no address in the program that ran: they are charged to one of its
    instructions. That is

    - for code on an edge, the transfer at the end of the edge's source, after which control takes
      the edge (its delay slot is not charged); where the source ends without a transfer, its last
      instruction;
    - for code on an edge from ENTRY, the first instruction of the block that is entered;
    - for code of a block itself, the first instruction of the block.

unplaced
    What is known for a routine as a whole (`RoutineProfile.unplaced`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from simprof.profiler.graphs.cfg import EdgeKind, VertexName
from simprof.profiler.profiles.profile import EdgeCount, RoutineProfile


class Branch(Struct, frozen=True):
    """What a conditional branch did."""

    address: int  # Of the branch
    # taken, not_taken: How often it was taken, and how often not.
    taken: int
    not_taken: int
    # target, next: Blocks where control went when it was taken, and when not; EXIT: out of the
    # routine.
    target: VertexName
    next: VertexName


class CodeCounts(Struct, frozen=True):
    """One routine, instruction by instruction."""

    profile: RoutineProfile  # The routine
    # Address -> executions, for every instruction of the routine's graph, by address
    executions: Mapping[int, int]
    # Address -> added instructions charged to it; those without any are left out.
    added: Mapping[int, int]
    branches: Mapping[int, Branch]  # Address -> conditional branch
    unplaced: int  # Added instructions that are charged to no instruction


def code_counts(routine: RoutineProfile) -> CodeCounts:
    """Return what a profile says of the instructions of a routine."""
    branches = {branch.address: branch for branch in _branches(routine)}
    return CodeCounts(routine, _executions(routine), _added(routine), branches, routine.unplaced)


def _executions(routine: RoutineProfile) -> dict[int, int]:
    counts: dict[int, int] = defaultdict(int)
    for block in routine.block_counts:
        for address in range(block.start, block.end, 4):
            counts[address] += block.count
    for cut in routine.cut_blocks:
        block = routine.block_counts[cut.block]
        for address in range(block.start + 4 * cut.executed, block.end, 4):
            counts[address] -= cut.count
    return dict(sorted(counts.items()))


def _added(routine: RoutineProfile) -> dict[int, int]:
    charged: dict[int, int] = defaultdict(int)
    for block in routine.block_counts:
        charged[block.start] += block.added
    for edge, address in zip(routine.edge_counts, routine.edge_addresses, strict=True):
        charged[address] += edge.added
    return {address: count for address, count in sorted(charged.items()) if count}


def _branches(routine: RoutineProfile) -> Iterable[Branch]:
    """Yield the conditional branches: the blocks that can be left in two ways, and no more."""
    out: dict[VertexName, list[EdgeCount]] = defaultdict(list)
    for edge in routine.edge_counts:
        if edge.kind is not EdgeKind.EARLY:
            out[edge.source].append(edge)
    for block in routine.block_counts:
        if (sides := _sides(out.get(block.name, ()))) is not None:
            taken, passed = sides
            is_slot = taken.kind is EdgeKind.SLOT
            target = out[taken.target][0].target if is_slot else taken.target
            yield Branch(block.transfer, taken.count, passed.count, target, passed.target)


def _sides(edges: Iterable[EdgeCount]) -> tuple[EdgeCount, EdgeCount] | None:
    """Return the edge of a branch that is taken, and the other; None where there is no branch."""
    by_kind = {edge.kind: edge for edge in edges}
    passed = by_kind.pop(EdgeKind.FALL_THROUGH, None)
    taken = by_kind.pop(EdgeKind.SLOT, None) or by_kind.pop(EdgeKind.TAKEN, None)
    outer = by_kind.pop(EdgeKind.EXIT, None)
    taken, passed = taken or (outer if passed else None), passed or (outer if taken else None)
    return None if taken is None or passed is None or by_kind else (taken, passed)
