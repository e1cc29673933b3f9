"""What targeted path profiling does on edges (TPP 4.1, appendix A)."""

# ruff: noqa: D102 - overriding methods do what `Action` says

from __future__ import annotations

from simprof import schemes as s

COLD_COUNTER = -1  # Number of the counter below a routine's array that counts cold paths (TPP A.1)
POISON = -(1 << 30)  # What a poisoned path register holds: its two high bits are set (TPP A.2)


class Poison(s.Action, frozen=True):
    """`poison r`: the path is cold from here on (TPP 4.1, A.2)."""

    effect = s.RegisterEffect.DEFINES

    def execute(self, execution: s.Execution) -> None:
        execution.registers[0] = POISON

    def __str__(self) -> str:
        return "poison r"


class CountHotPath(s.Action, frozen=True):
    """`count[r + constant]++` if r is not poisoned, else `cold++` (TPP 4.1, A.1)."""

    constant: int
    on_back_edge: bool = False
    hashed: bool = False  # The counters are in a hash table: its call is conditional code.

    def execute(self, execution: s.Execution) -> None:
        counter = execution.registers[0] + self.constant
        if counter < 0:
            execution.count(COLD_COUNTER)
            return
        if self.hashed:
            execution.take()
        execution.count(counter, self.on_back_edge)

    def __str__(self) -> str:
        return f"if r<0 cold++ else count[{s.register_sum(self.constant)}]++"


class CountBranching(s.Action, frozen=True):
    """The same as `CountHotPath`, with a branch around conditional code for cold paths (4.1)."""

    constant: int
    on_back_edge: bool = False

    def execute(self, execution: s.Execution) -> None:
        counter = execution.registers[0] + self.constant
        if counter < 0:
            execution.take()
            execution.count(COLD_COUNTER)
        else:
            execution.count(counter, self.on_back_edge)

    def __str__(self) -> str:
        return f"if r<0 cold++ else count[{s.register_sum(self.constant)}]++"


class CountColdPath(s.Action, frozen=True):
    """`cold++`: a path that is cold in any case ends (TPP 4.1.2)."""

    effect = s.RegisterEffect.IGNORES

    def execute(self, execution: s.Execution) -> None:
        execution.count(COLD_COUNTER)

    def __str__(self) -> str:
        return "cold++"


class CountUnlessCold(s.Action, frozen=True):
    """`count[r + constant]++`, conditional code, if r is not poisoned: cold paths are ignored (TPP
    4.1).
    """

    constant: int
    on_back_edge: bool = False

    def execute(self, execution: s.Execution) -> None:
        counter = execution.registers[0] + self.constant
        if counter >= 0:
            execution.take()
            execution.count(counter, self.on_back_edge)

    def __str__(self) -> str:
        return f"if r>=0 count[{s.register_sum(self.constant)}]++"
