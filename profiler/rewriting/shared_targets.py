"""The computed jumps of a routine, and the targets that they share.

Compilers copy the jump of an interpreter's loop behind each of its operations. One run shows most
operations, but by far not each behind each. So a computed jump is taken to lead wherever another
one of its routine has led: the graph has more edges then, and counts stay what they are. Where
recovery has guessed a jump's table, the run has confirmed that, or shown what is missing.
"""

from __future__ import annotations

from dataclasses import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.idioms import is_restore
from simprof.profiler.recovery.recovery import Discoveries, RecoveredProgram, recover
from simprof.simulator.binary.program import Program
from simprof.simulator.isa.decode import TransferKind, simm13

_IMMEDIATE = 1 << 13
_BEHIND_CALL = 8  # bytes: the call and its delay slot


def shared_targets(program: Program, seen: Discoveries) -> Discoveries:
    """Return what runs have shown, and for each computed jump its targets and those of others."""
    while True:
        recovered = recover(program, seen)
        pairs = set(seen.indirect_targets)
        for cfg in recovered.routines:
            jumps = computed_jumps(recovered, cfg)
            inside = {block.start for block in cfg.blocks}
            targets = {t for j, t in seen.indirect_targets if j in jumps and t in inside}
            pairs |= {(jump, target) for jump in jumps for target in targets}
            pairs |= {(jump, target) for jump in jumps for target in _switch_targets(cfg, jump)}
        if pairs == seen.indirect_targets:
            return seen
        seen = replace(seen, indirect_targets=frozenset(pairs))


def _switch_targets(cfg: ControlFlowGraph, jump: int) -> frozenset[int]:
    """Return where the graph has the jump at an address lead in its routine."""
    return frozenset(
        cfg.blocks[edge.target].start
        for edge in cfg.edges
        if edge.kind is EdgeKind.SWITCH
        and cfg.blocks[edge.source].start <= jump < cfg.blocks[edge.source].end
    )


def computed_jumps(recovered: RecoveredProgram, cfg: ControlFlowGraph) -> list[int]:
    """Return the jumps of a routine of which the code does not tell the targets.

    Two kinds leave the routine: tail calls, which close the window in their delay slots, and jumps
    to 8 behind what a register holds, which is where some call is (`longjmp`).
    """
    unresolved, lists = frozenset(recovered.unresolved_jumps), recovered.code.lists
    found = []
    for block in cfg.blocks:
        for jump in (block.end - 8, block.end - 4):  # the slot may be a block of its own
            if block.is_slot or jump < block.start or jump not in unresolved:
                continue
            index = recovered.code.index(jump)
            leaves = _returns(lists.words[index]) or is_restore(lists.words[index + 1])
            if lists.kinds[index] == TransferKind.JUMP and not leaves:
                found.append(jump)
    return found


def _returns(word: int) -> bool:
    """Whether a jump goes behind the call whose address a register holds."""
    return bool(word & _IMMEDIATE) and simm13(word) == _BEHIND_CALL
