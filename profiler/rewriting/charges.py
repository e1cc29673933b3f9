"""What rewriting itself executes: charges on edges and blocks, by cause.

A copy of a routine executes the original's instructions and the scheme's code. Whatever it executes
beyond these is charged where the copy is made, to the edge or block whose crossing or execution
executes it, so that a run's counts give the sum exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Why an instruction is executed that is neither the program's nor the scheme's."""

    ENTRIES = "entries"
    """`ba,a` in the old code, where a routine is entered by an address: through a pointer, by the
    kernel, by a landing, or from code that is not copied."""
    JUMP_TABLES = "jump-tables"
    """`ba,a` in the old code at the target of a jump table."""
    JUMP_CHECKS = "jump-checks"
    """The test of a jump of which only a run has told where it leads."""
    FLUSHES = "flushes"
    """The test before `flush` whether the program changes code that is copied."""
    CALLS = "old-return-addresses"
    """A call from its old place, so that it leaves its old return address: there, and back."""
    PROGRAM_COUNTERS = "program-counters"
    """Code that reads the program counter, and must read the old one."""
    FRAMES = "frames"
    """`add` behind a `save` whose frame is too large to grow in the instruction itself."""
    LANDINGS = "landings"
    """The test whether a call returns, or `longjmp` lands behind it."""
    LINES = "lines"
    """`ba,a` where code ran on into other code that its copy is not next to."""
    LONG_BRANCHES = "long-branches"
    """`ba,a` on the way of a branch that does not reach its target."""
    SYSTEM_CALLS = "system-calls"
    """The test whether a system call ends the program, and the way to the run-time code."""
    START = "start"
    """The code before the program's first instruction."""
    DUMP = "dump"
    """The code that writes the counters."""


@dataclass(frozen=True)
class Charge:
    """`instructions` more each time an edge is crossed or a block executed.

    Attributes
    ----------
    edge, block
        Which; one of them is None.
    """

    cause: Cause
    instructions: int
    edge: int | None = None
    block: int | None = None

    def times(self, edges: Sequence[int], executions: Sequence[int]) -> int:
        """Return how often a run comes there, given its counts by edge and by block."""
        return edges[self.edge] if self.edge is not None else executions[self.block or 0]


def charged(
    charges: Sequence[Charge], edges: Sequence[int], executions: Sequence[int]
) -> Counter[Cause]:
    """Return what charges amount to in a run.

    Parameters
    ----------
    charges
        Of one routine.
    edges, executions
        How often each edge was crossed, each block executed, by id.
    """
    total: Counter[Cause] = Counter()
    for charge in charges:
        total[charge.cause] += charge.instructions * charge.times(edges, executions)
    return total
