"""Targets that the computed jumps of a routine share.

Compilers copy the jump of an interpreter's loop behind each of its operations. One run shows most
operations, but by far not each behind each. So a computed jump is taken to lead wherever another
one of its routine has led: the graph has more edges then, and counts stay what they are.
"""

from __future__ import annotations

from dataclasses import replace

from profiler.graphs.cfg import ControlFlowGraph
from profiler.recovery.idioms import is_restore
from profiler.recovery.recovery import Discoveries, RecoveredProgram, recover
from simulator.binary.program import Program
from simulator.isa.decode import TransferKind


def shared_targets(program: Program, seen: Discoveries) -> Discoveries:
    """Return what runs have shown, and for each computed jump all targets in its routine."""
    while True:
        recovered = recover(program, seen)
        pairs = set(seen.indirect_targets)
        for cfg in recovered.routines:
            jumps = _computed_jumps(recovered, cfg)
            inside = {block.start for block in cfg.blocks}
            targets = {t for j, t in seen.indirect_targets if j in jumps and t in inside}
            pairs |= {(jump, target) for jump in jumps for target in targets}
        if pairs == seen.indirect_targets:
            return seen
        seen = replace(seen, indirect_targets=frozenset(pairs))


def _computed_jumps(recovered: RecoveredProgram, cfg: ControlFlowGraph) -> set[int]:
    """Return the jumps of a routine, tail calls aside, of which the code does not tell the targets.

    Tail calls close the window in their delay slots.
    """
    found = set()
    for block in cfg.blocks:
        jump = block.end - 8
        if block.is_slot or jump < block.start or jump not in recovered.unresolved_jumps:
            continue
        index = recovered.code.index(jump)
        is_jump = recovered.code.lists.kinds[index] == TransferKind.JUMP
        if is_jump and not is_restore(recovered.code.lists.words[index + 1]):
            found.add(jump)
    return found
