"""`sampled` with duplicated code: a sampled path is executed in a second copy of the routine.

The first copy has checks only, where paths begin; the second counts, without any test. Both begin
the next path at the end of one: the second goes back to the first, unless that path is a sample,
too. Actions are those of the variant with a test before each, and have other code.

================================  ==================================================  ============
where a path begins               code in the first copy, in the second               instructions
================================  ==================================================  ============
no sample                         sethi; ld; sub; st; branch; nop                     6
                                  the same, and `ba` to the first                     7
sample                            ... `sample = interval`; `r = c`; `ba` to the other 4 more
================================  ==================================================  ============
"""

from __future__ import annotations

from collections.abc import Hashable

from simprof import schemes as s
from simprof.profiler.schemes.sampling.actions import UNSAMPLED, WORD, ChoosePath
from simprof.profiler.schemes.sampling.code import count_down, needs
from simprof.schemes import asm, shapes

_NOTHING = s.NoCode()


class EnterPath(ChoosePath, frozen=True):
    """Where an activation begins: only in the first copy."""

    @property
    def bodies(self) -> tuple[s.Action, s.Action]:
        """See `Action`."""
        return CheckInFirst(self.constant, self.interval), s.Landing()


class NextPath(ChoosePath, frozen=True):
    """Where a path ends and the next one begins."""

    @property
    def bodies(self) -> tuple[s.Action, s.Action]:
        """See `Action`."""
        return CheckInFirst(self.constant, self.interval), CheckInSecond(
            self.constant, self.interval
        )


class InCopy(s.Action, frozen=True):
    """What is done in the second copy only."""

    def execute(self, execution: s.Execution) -> None:
        """See `Action`."""
        if execution.in_copy:
            super().execute(execution)


class AddInCopy(InCopy, s.AddRegister, frozen=True):
    """`r+=constant` in the second copy."""

    @property
    def bodies(self) -> tuple[s.Action, s.Action]:
        """See `Action`."""
        return _NOTHING, s.AddRegister(self.constant)


class CountInCopy(InCopy, s.CountPath, frozen=True):
    """`count[r + constant]++` in the second copy: a path ends."""

    @property
    def bodies(self) -> tuple[s.Action, s.Action]:
        """See `Action`."""
        return _NOTHING, s.CountPath(self.constant, self.on_back_edge)


class CheckInFirst(s.Action, frozen=True):
    """The code of a path's beginning in the first copy."""

    effect = s.RegisterEffect.DEFINES
    changes_copy = True

    constant: int
    interval: int

    def __str__(self) -> str:
        return f"if --{WORD}<=0 {WORD}={self.interval}; r={self.constant}; to the second copy"


class CheckInSecond(CheckInFirst, frozen=True):
    """The same in the second copy."""

    def __str__(self) -> str:
        return (
            f"if --{WORD}<=0 {WORD}={self.interval}; r={self.constant} else r={UNSAMPLED}; to the "
            "first copy"
        )


def check(writer: s.Writer, action: CheckInFirst) -> None:
    """Write the check of the first copy."""
    base, left, word = count_down(writer)

    def sample() -> None:
        _begin(writer, action, base, left, word)
        writer.leave()

    writer.conditional("lez", left, sample, spare=2)


def check_again(writer: s.Writer, action: CheckInSecond) -> None:
    """Write the check of the second copy."""
    base, left, word = count_down(writer)

    def sample() -> None:
        _begin(writer, action, base, left, word)

    writer.conditional("lez", left, sample, spare=2, otherwise=writer.leave)


def _begin(
    writer: s.Writer, action: CheckInFirst, base: s.Register, left: s.Register, word: int
) -> None:
    writer.constant(action.interval, left)
    writer.emit(asm.store("st", left, base, word))
    writer.set_path(writer.access.offset + writer.access.scale * action.constant)


def _shape(action: CheckInFirst, access: s.CounterAccess) -> Hashable:
    start = access.offset + access.scale * action.constant
    return shapes.constant(action.interval, access), shapes.constant(start, access)


CODE = s.SchemeCode(
    generators={
        CheckInFirst: s.Generator(check, needs, _shape),
        CheckInSecond: s.Generator(check_again, needs, _shape),
    },
)
