"""Where control goes from one routine to another, as far as the code tells.

Whoever writes a trace and whoever reads it ask here, so that what the one leaves out the other
knows. Blocks and edges have program-wide numbers.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache

from simprof.profiler.engine.walk import UNKNOWN, GraphIndex
from simprof.profiler.graphs.cfg import Block, EdgeKind
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind

_K = TransferKind
_CALLS = (_K.CALL, _K.INDIRECT_CALL, _K.JUMP_AND_LINK)


class Exit(IntEnum):
    """How control leaves a routine by an EXIT edge."""

    UNKNOWN = 0  # only the run tells: an event of the trace
    RETURN = 1
    ENTER = 2  # another routine, in place of this one
    CALL = 3  # another routine, which does not return
    WRITTEN = 4  # a routine, or the caller: the address is in the trace


class Callees:
    """What calls and exits lead to.

    Parameters
    ----------
    index
        The program's graphs.
    """

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._code = index.recovered.code
        self._no_return = index.recovered.no_return_calls
        self.source = {edge: block for block, edge in index.exit_edge.all().items()}
        self.callee = cache(self._callee)
        self.exit = cache(self._exit)

    def is_indirect(self, block: int) -> bool:
        """Whether a trace has the target of the transfer that ends `block`."""
        number = self._index.routine(block)
        cfg = self._index.recovered.routines[number]
        return block - int(self._index.first_block[number]) in cfg.indirect

    def entry(self, address: int) -> int:
        """Return the ENTRY edge to the block at `address`, or UNKNOWN."""
        return self._index.entry_edge.get(self._index.block_at(address), UNKNOWN)

    def returns(self, block: int, target: int) -> bool:
        """Whether a jump from `block` to block `target`, of which the trace tells, is a return."""
        index = self._index
        if index.routine(block) == index.routine(target) or index.starts_routine(target):
            return False
        return index.is_returned_to(target)

    def _callee(self, block: int) -> int:
        """Return the ENTRY edge that the call at the end of `block` leads to, or UNKNOWN."""
        transfer, kind = self._transfer(block)
        return self.entry(self._target(transfer)) if kind == _K.CALL else UNKNOWN

    def _exit(self, edge: int) -> tuple[Exit, int]:
        """Return how control leaves by an EXIT edge, and the ENTRY edge that follows or UNKNOWN."""
        block = self.source[edge]
        transfer, kind = self._transfer(block)
        if kind in (_K.RETURN, _K.RETURN_JUMP):
            return Exit.RETURN, UNKNOWN
        if kind == _K.JUMP:
            return Exit.WRITTEN, UNKNOWN
        if kind in _CALLS:
            way = Exit.CALL if transfer in self._no_return else Exit.ENTER
            return way, self._callee(block)
        entry = self.entry(self._leaving_target(block, transfer, kind))
        return (Exit.UNKNOWN if entry == UNKNOWN else Exit.ENTER), entry

    def _leaving_target(self, block: int, transfer: int, kind: int) -> int:
        """Return where a block leaves its routine for without a call or jump; -1 if nowhere."""
        described = self._block(block)
        if described.is_slot or kind == _K.BRANCH_ALWAYS:
            return self._target(transfer)
        if kind == _K.BRANCH:
            kinds = {
                inner
                for (source, _), edges in self._successors(block)
                for inner in edges
                if source == block
            }
            inside = EdgeKind.TAKEN in kinds or EdgeKind.SLOT in kinds
            return transfer + 8 if inside else self._target(transfer)
        if kind == _K.BRANCH_NEVER:
            return transfer + 8
        return described.end if kind in (_K.NONE, _K.TRAP_CONDITIONAL) else -1

    def _successors(self, block: int) -> list[tuple[tuple[int, int], dict[EdgeKind, int]]]:
        number = self._index.routine(block)
        cfg = self._index.recovered.routines[number]
        first = int(self._index.first_block[number])
        ends = [(block, first + cfg.edges[e].target) for e in cfg.out_edges[block - first]]
        between = [(pair, self._index.between(*pair)) for pair in ends]
        return [(pair, edges) for pair, edges in between if edges]

    def _block(self, block: int) -> Block:
        number = self._index.routine(block)
        cfg = self._index.recovered.routines[number]
        return cfg.blocks[block - int(self._index.first_block[number])]

    def _transfer(self, block: int) -> tuple[int, int]:
        """(address, kind) of the transfer that ends a block; NONE where it just goes on."""
        described = self._block(block)
        if described.is_slot:
            return described.start - 4, self._kind(described.start - 4)
        for address in (described.end - 8, described.end - 4):
            kind = self._kind(address)
            delays = bool(HAS_DELAY_SLOT[kind]) and self._has_own_slot(address)
            if address >= described.start and kind and delays == (address == described.end - 8):
                return address, kind
        return described.end - 4, int(_K.NONE)

    def _has_own_slot(self, address: int) -> bool:
        """Whether the delay slot at the end of a block belongs to the block."""
        return not self._code.transfers.annulled[self._code.index(address)]

    def _kind(self, address: int) -> int:
        word = self._code.index(address)
        return int(self._code.transfers.kind[word]) if word >= 0 else int(_K.NONE)

    def _target(self, address: int) -> int:
        return int(self._code.transfers.target[self._code.index(address)])
