"""Where a call of `setjmp` may return a second time.

The address behind such a call is an entry of its routine once a `longjmp` of the run has come there
(`landing_points` says why no sooner). Which addresses these may be, the code tells: a run can
expect them all, and leave out afterwards those that nothing came to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from profiler.graphs.cfg import ControlFlowGraph
from profiler.recovery.recovery import UNKNOWN_BLOCK, RecoveredProgram
from simulator.isa.decode import TransferKind

RETURNING_TWICE = frozenset(
    ["setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "getcontext", "__getcontext"]
)
"""Names of routines that return once more when what they have saved is restored."""
MOST_IN_ROUTINE = 3
"""Second returns of one routine: if it may have more, they are left to the run."""
_GET_CONTEXT = 0x91D0206E  # ta 0x6e


def second_returns(recovered: RecoveredProgram) -> tuple[int, ...]:
    """Return the blocks, by number, where a call may return twice, but that are no entries.

    Where setjmp is made of the system's `getcontext`, that is also the block behind its trap.
    """
    code, graphs = recovered.code, recovered.arrays
    named = [s.address for s in recovered.program.symbols if s.name in RETURNING_TWICE]
    calls = (code.transfers.kind == TransferKind.CALL) & np.isin(code.transfers.target, named)
    behind = [*(np.flatnonzero(calls) + 2), *(np.flatnonzero(code.words == _GET_CONTEXT) + 1)]
    blocks = {recovered.block_starting_at(code.address(int(word))) for word in behind}
    possible = sorted(blocks - {UNKNOWN_BLOCK, *graphs.entered_blocks().tolist()})
    routines = [recovered.routine_of_block(block) for block in possible]
    several = Counter(routines)
    return tuple(
        block
        for block, routine in zip(possible, routines, strict=True)
        if several[routine] <= MOST_IN_ROUTINE
    )


def with_entries(
    recovered: RecoveredProgram,
    blocks: Iterable[int],
    made: Mapping[int, ControlFlowGraph] = MappingProxyType({}),
) -> RecoveredProgram:
    """Return the graphs with an ENTRY edge to each of `blocks`, which are numbers.

    `made`: those of the routines concerned that are there already, by number.
    """
    return replace(recovered, routines=recovered.arrays.with_entries(blocks, made))
