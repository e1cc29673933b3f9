"""What k-BLPP does on edges: streams begin, paths begin in them, and emit their numbers.

Path registers of an activation, in this order: r; tau, the code of its node in the upper slab;
with k > 2 also beta, that of its node in the lower slab (0: none), and how many numbers its chunk
lacks. With k = 2 each chunk is one number, and beta is a child of the tau before.
"""

# ruff: noqa: D102 - overriding methods do what `Action` says

from __future__ import annotations

from simprof import schemes as s
from simprof.profiler.schemes.kblpp.forest import Sequences

TAU, BETA, LACKING = range(1, 4)


class BeginStream(s.Action, frozen=True):
    """`*`: an activation begins."""

    def execute(self, execution: s.Execution) -> None:
        execution.registers[:] = [0] * len(execution.registers)

    def __str__(self) -> str:
        return "emit *"


class StartPath(s.Action, frozen=True):
    """`r=constant`: `SetRegister` would say that the other registers are of no use any more."""

    constant: int

    def execute(self, execution: s.Execution) -> None:
        execution.registers[0] = self.constant

    def __str__(self) -> str:
        return f"r={self.constant}"


class Emit(s.Action, frozen=True):
    """`emit r + constant`: a path ends."""

    constant: int
    sequences: Sequences
    hashed: bool = False  # Whether roots are in buckets
    from_register: bool = True  # Whether r is part of the number

    def execute(self, execution: s.Execution) -> None:
        registers, sequences = execution.registers, self.sequences
        number = self.constant + (registers[0] if self.from_register else 0)
        tau, extended = registers[TAU], sequences.extended
        if sequences.length == 2:
            registers[TAU] = extended(0, number)
            counted = extended(tau, number)
        else:
            if registers[LACKING] == 0:
                execution.take()
                registers[BETA], tau = tau, 0
                registers[LACKING] = sequences.chunk
            registers[LACKING] -= 1
            counted = registers[TAU] = extended(tau, number)
            if registers[BETA]:
                counted = registers[BETA] = extended(registers[BETA], number)
        registers[0] = 0  # It means nothing now: so that equal states are equal
        execution.count(counted - 1)

    def __str__(self) -> str:
        return f"emit {s.register_sum(self.constant) if self.from_register else self.constant}"
