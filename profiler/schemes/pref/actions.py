"""What preferential path profiling does on edges.

Path register 0 adds up the values of `numbering`: at the end of a path it is the path's index, if
it has one. Register 1, where there is one, adds up those of Ball and Larus: the path's number.
"""

# ruff: noqa: D102 - overriding methods do what `Action` says

from __future__ import annotations

from simprof import schemes as s

UNINTERESTING = -1  # Number of the counter of all paths that are not interesting


class SetBoth(s.Action, frozen=True):
    """`r = index, n = number`: start a path."""

    effect = s.RegisterEffect.DEFINES

    index: int
    number: int

    def execute(self, execution: s.Execution) -> None:
        execution.registers[:2] = [self.index, self.number]

    def __str__(self) -> str:
        return f"r={self.index}, n={self.number}"


class AddBoth(s.Action, frozen=True):
    """`r += index, n += number`."""

    effect = s.RegisterEffect.CHANGES

    index: int
    number: int

    def execute(self, execution: s.Execution) -> None:
        execution.registers[0] += self.index
        execution.registers[1] += self.number

    def __str__(self) -> str:
        added = (("r", self.index), ("n", self.number))
        return ", ".join(f"{name}+={value}" for name, value in added if value)


class CountPreferred(s.Action, frozen=True):
    """`if r + index is that of an interesting path count[r + index]++ else other++`: a path ends.

    With tags: `if tag[i] == n + number`, where i is the low `bits` bits of r + index. A number is
    that of one path only, so no other path finds its own number there, whatever its index is.
    Without tags: `if 0 <= r + index < 2**bits`, where no other path has such an index, or only one
    whose counter counts no interesting path.
    """

    index: int
    number: int
    bits: int
    first: int = 0  # Counter of index 0
    # Number of the path of each index, as the memory of the routine has it; (): no tags.
    # Not compared: they are many, and their code is the same.
    tags: tuple[int, ...] = ()
    hashed: bool = False  # Whether others are counted in a hash table, under their numbers
    on_back_edge: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountPreferred) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return self.index, self.number, self.bits, self.first, self.hashed, self.on_back_edge

    @property
    def reads_number(self) -> bool:
        """Whether it needs path register 1."""
        return self.hashed or bool(self.tags)

    def interesting(self, index: int, number: int) -> int | None:
        """Return the counter of an interesting path, None for another."""
        place = index & (1 << self.bits) - 1
        is_there = self.tags[place] == number if self.tags else index == place
        return self.first + place if is_there else None

    def execute(self, execution: s.Execution) -> None:
        registers = execution.registers
        number = registers[1] + self.number if self.reads_number else 0
        counter = self.interesting(registers[0] + self.index, number)
        if counter is None:
            execution.take()
            counter = number if self.hashed else UNINTERESTING
        execution.count(counter, self.on_back_edge)

    def __str__(self) -> str:
        index, number = s.register_sum(self.index), f"n{self.number:+d}" if self.number else "n"
        test = f"tag[{index}]=={number}" if self.tags else f"0<={index}<{1 << self.bits}"
        other = f"hash[{number}]++" if self.hashed else "other++"
        return f"if {test} count[{index}]++ else {other}"


class CountKnown(s.Action, frozen=True):
    """`count[counter]++`: a path that is known without registers ends; `other++` if it is none."""

    effect = s.RegisterEffect.IGNORES

    counter: int

    def execute(self, execution: s.Execution) -> None:
        execution.count(self.counter)

    def __str__(self) -> str:
        return "other++" if self.counter == UNINTERESTING else f"count[{self.counter}]++"
