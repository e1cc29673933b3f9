"""What the automaton tells whoever writes a trace of its run.

The kernel appends the tokens of edges to a buffer without asking anybody. What is left to be told
is which operations do that (`operations`), that the kernel stopped for the trace (`drain`,
`mark`), and what happened where Python took over from the kernel: between `begin_event` and
`end_event` control moves by ways that no reader of the trace could find.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from simprof.profiler.engine.memory import Operation
from simprof.profiler.engine.walk import Step


class TraceSink(Protocol):
    """Writes a trace of one run. Edges and blocks have their program-wide numbers."""

    def operations(self, steps: Sequence[Step], place: int) -> list[Operation]:
        """Return what the kernel does for the trace when the program takes `steps[place]`."""
        ...

    def drain(self) -> None:
        """Do what the kernel stopped for: its buffer is full, or a checkpoint is due."""
        ...

    def mark(self, steps: Sequence[Step], frame: int, block: int) -> None:
        """Note that `steps` come next, which the code does not tell.

        The kernel stopped at a MARK operation with the activation at `frame` in `block`.
        """
        ...

    def crossed(self, edge: int) -> None:
        """Python crosses `edge` on behalf of the program."""
        ...

    def begin_event(self, block: int) -> None:
        """Python takes over while the current activation is in `block`, -1 if in none."""
        ...

    def end_event(self, frame: int, block: int) -> None:
        """Note that the kernel goes on with the activation at `frame`, in `block`."""
        ...

    def end(self) -> None:
        """Note that the run is over."""
        ...
