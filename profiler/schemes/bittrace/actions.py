"""What bit tracing and FIFOs of branches do on edges; a code has a path register for each word.

`branch_codes` and `window_codes` say what the codes are.
"""

# ruff: noqa: D102 - overriding methods do what `Action` says

from __future__ import annotations

from simprof import schemes as s
from simprof.profiler.schemes.bittrace.window_codes import shift_in


class ShiftBits(s.Action, frozen=True):
    """`r = r << width | bits`: a branch's outcome is recorded (EPP section 2)."""

    effect = s.RegisterEffect.CHANGES

    bits: int
    width: int

    def execute(self, execution: s.Execution) -> None:
        execution.registers[0] = execution.registers[0] << self.width | self.bits

    def __str__(self) -> str:
        return f"r=r<<{self.width}|{self.bits}"


class CountShifted(s.Action, frozen=True):
    """`count[r << width | bits]++`: the outcome of a path's last branch is no longer recorded."""

    bits: int
    width: int
    on_back_edge: bool = False

    def execute(self, execution: s.Execution) -> None:
        execution.count(execution.registers[0] << self.width | self.bits, self.on_back_edge)

    def __str__(self) -> str:
        return f"count[r<<{self.width}|{self.bits}]++"


class StartWords(s.Action, frozen=True):
    """`rK=value`: the code goes on in word `word`; words `first` to `word - 1` become 0."""

    effect = s.RegisterEffect.CHANGES

    first: int
    word: int
    value: int
    count: int

    @property
    def key_words(self) -> int:
        # All words of the code, though the paths that end may have fewer: others may never end.
        return self.count

    def execute(self, execution: s.Execution) -> None:
        # Later words mean nothing until the code reaches them. Execution clears them, so that equal
        # codes are equal states; the code for SPARC leaves them as they are.
        for word in range(self.first, self.count):
            execution.registers[word] = self.value if word == self.word else 0

    def __str__(self) -> str:
        skipped = "".join(f"r{word}=0; " for word in range(self.first, self.word))
        return f"{skipped}r{self.word}={self.value}"


class ShiftWord(s.Action, frozen=True):
    """`rK = rK << width | bits`: as `ShiftBits`, in one word of several."""

    effect = s.RegisterEffect.CHANGES

    word: int
    bits: int
    width: int

    def execute(self, execution: s.Execution) -> None:
        value = execution.registers[self.word]
        execution.registers[self.word] = value << self.width | self.bits

    def __str__(self) -> str:
        return f"r{self.word}=r{self.word}<<{self.width}|{self.bits}"


class CountWords(s.Action, frozen=True):
    """`count[r0,..rK]++`: a path ends whose code has `used` words; the others count as 0."""

    used: int
    on_back_edge: bool = False

    @property
    def key_words(self) -> int:
        return self.used

    def execute(self, execution: s.Execution) -> None:
        words = list(execution.registers)
        words[self.used :] = [0] * (len(words) - self.used)
        execution.count(s.code_key(words), self.on_back_edge)

    def __str__(self) -> str:
        return f"count[{','.join(f'r{word}' for word in range(self.used))}]++"


class ShiftRecord(s.Action, frozen=True):
    """A branch's record of `width` bits goes into the FIFO, and the oldest one out of it."""

    effect = s.RegisterEffect.CHANGES

    record: int
    width: int
    sizes: tuple[int, ...]  # Records in each word, the oldest first

    def execute(self, execution: s.Execution) -> None:
        shift_in(execution.registers, self.record, self.width, self.sizes)

    def __str__(self) -> str:
        return f"fifo<<={self.record}"
