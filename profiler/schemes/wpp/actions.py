"""Actions that append the symbol of a path to the trace, in place of counting it."""

from __future__ import annotations

from simprof import schemes as s


class WritePath(s.CountPath, frozen=True):
    """`trace path r + constant`: a path ends, and its symbol is appended to the trace."""

    def __str__(self) -> str:
        return f"trace path[{s.register_sum(self.constant)}]"


class WriteConstantPath(s.CountConstantPath, frozen=True):
    """`trace path constant`: a path known without the register ends."""

    def __str__(self) -> str:
        return f"trace path[{self.constant}]"
