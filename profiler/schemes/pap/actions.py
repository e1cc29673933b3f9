"""Actions of `pap`: a digit for the way into a block, and what writes the number so far."""

from __future__ import annotations

from simprof import schemes as s

# What a number begins with. At ENTRY, and where the last one was just written: both are less than
# any number with a digit has.
ENTERED, WRITTEN = 2, 3


class AddDigit(s.Action, frozen=True):
    """`r = r * radix + digit`: a block is entered; r is written before if it would be too large."""

    radix: int
    digit: int
    place: int  # What stands for the block that control comes from, in what is written
    size: int  # What r has to stay below

    @property
    def too_large(self) -> int:
        """The least r that has no room for another digit."""
        return self.size // self.radix

    def execute(self, execution: s.Execution) -> None:
        """See `Action`."""
        number = execution.registers[0]
        if number >= self.too_large:
            execution.count(self.place + number)
            execution.take()
            number = WRITTEN
        execution.registers[0] = number * self.radix + self.digit

    def __str__(self) -> str:
        digit = f"+{self.digit}" if self.digit else ""
        return f"r=r*{self.radix}{digit}"


class WriteWalk(s.Action, frozen=True):
    """`trace walk`: an activation ends, and what its number is by then is written."""

    place: int

    def execute(self, execution: s.Execution) -> None:
        """See `Action`."""
        execution.count(self.place + execution.registers[0])

    def __str__(self) -> str:
        return f"trace walk[{s.register_sum(self.place)}]"
