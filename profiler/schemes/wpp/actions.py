"""Actions that append the symbol of a path to the trace, in place of counting it."""

from __future__ import annotations

from simprof.profiler.plan.actions import CountConstantPath, CountPath, register_sum


class WritePath(CountPath, frozen=True):
    """`trace path r + constant`: a path ends, and its symbol is appended to the trace."""

    def __str__(self) -> str:
        return f"trace path[{register_sum(self.constant)}]"


class WriteConstantPath(CountConstantPath, frozen=True):
    """`trace path constant`: a path known without the register ends."""

    def __str__(self) -> str:
        return f"trace path[{self.constant}]"
