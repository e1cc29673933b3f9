"""Branches in a copy: inside of it, to stubs, and to copies of other routines."""

from __future__ import annotations

from simprof.profiler.graphs.cfg import Block, Edge, EdgeKind
from simprof.profiler.rewriting.charges import Cause
from simprof.profiler.rewriting.draft import Draft, NotRewritableError
from simprof.profiler.rewriting.placing import SchemeCode
from simprof.profiler.rewriting.transfers import is_short, raw, reads_pc, retargeted
from simprof.simulator.isa.assembler import Instruction
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind

BRANCHES = (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS)
_ANNUL = 1 << 29


def delay_slot(draft: Draft, address: int, kind: TransferKind) -> list[Instruction]:
    """Return the delay slot of the transfer at an old address, if it has one."""
    if not HAS_DELAY_SLOT[kind]:
        return []
    word = draft.word(address + 4)
    if reads_pc(word):
        raise NotRewritableError(f"the delay slot at {address + 4:#x} reads the program counter")
    return [raw(word)]


def write_branch(
    draft: Draft, scheme: SchemeCode, block: Block, address: int, kind: TransferKind, target: int
) -> None:
    """Write the branch that ends a block, with its delay slot."""
    word = draft.word(address)
    annulled = bool(word & _ANNUL)
    taken = _taken(draft, block, annulled and kind is TransferKind.BRANCH)
    label = scheme.sent_to(address)
    if draft.leaves_both_ways(block.id):
        # each way makes one jump, to the old place: how often which is taken is not known
        draft.charge(Cause.LINES, 1, edge=taken.id)
        label = draft.island("island", taken.id, f"old.{target:x}")
    elif taken.kind is EdgeKind.EXIT:
        draft.arrive(target, edge=taken.id)
        label = label or _leave(draft, taken, target, is_short(word, kind))
    draft.emit(retargeted(word, kind, label or draft.block_label(taken.target)))
    if not (annulled and kind is TransferKind.BRANCH_ALWAYS):
        draft.emit(*delay_slot(draft, address, kind))


def _taken(draft: Draft, block: Block, is_apart: bool) -> Edge:
    """Return the edge along which a branch leads, EXIT if it leaves the routine.

    An annulled slot that is executed with the taken branch alone is a block (`is_apart`).
    """
    source = block.id
    if is_apart:
        slot = draft.out(block.id, EdgeKind.SLOT)
        if slot is None:
            raise NotRewritableError(f"the slot of the branch before {block.end:#x} is missing")
        source = slot.target
    edge = draft.out(source, EdgeKind.TAKEN) or draft.out(source, EdgeKind.EXIT)
    if edge is None:
        raise NotRewritableError(f"the branch before {block.end:#x} leads nowhere")
    return edge


def _leave(draft: Draft, edge: Edge, target: int, short: bool) -> str:
    """Return the label of another routine's copy, or of an island from which it is reached."""
    label = draft.program.label_of(target)
    if not short:
        return label
    draft.charge(Cause.LONG_BRANCHES, 1, edge=edge.id)
    return draft.island("island", edge.id, label)
