"""Actions of `sampled` and `pep`: paths that a guard has chosen are counted, others are not."""

from __future__ import annotations

from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    Burst,
    CountPath,
    Execution,
    Guard,
    RegisterEffect,
    register_sum,
)

WORD = "sample"  # counts down to the next sample
BURST = "burst"  # counts the samples of a burst
UNSAMPLED = -1  # in the path register along a path that `sampled` does not count


class ChoosePath(Action, frozen=True):
    """`r=constant` if the path that begins is a sample, else `r` is negative."""

    effect = RegisterEffect.DEFINES

    constant: int
    interval: int

    @property
    def guard(self) -> Guard:
        """See `Action`."""
        return Guard(WORD, self.interval)

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.registers[0] = self.constant if execution.passes else UNSAMPLED
        if execution.passes:
            execution.take()

    def __str__(self) -> str:
        return f"if --sample<=0 sample={self.interval}; r={self.constant} else r={UNSAMPLED}"


class OfSamples(Action, frozen=True):
    """What is done along sampled paths only."""

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        if execution.registers[0] >= 0:
            execution.take()
            super().execute(execution)

    def __str__(self) -> str:
        return f"if r>=0 {super().__str__()}"


class AddToSample(OfSamples, AddRegister, frozen=True):
    """`r+=constant` in samples."""


class CountSample(OfSamples, CountPath, frozen=True):
    """`count[r + constant]++` in samples: a path ends."""


class SamplePath(CountPath, frozen=True):
    """`count[r + constant]++` where the path that ends is a sample."""

    tick: int = 1
    samples: int = 1
    stride: int = 1

    @property
    def guard(self) -> Guard:
        """See `Action`."""
        return Guard(WORD, self.tick, Burst(BURST, self.samples, self.stride))

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        if execution.passes:
            execution.take()
            super().execute(execution)

    def __str__(self) -> str:
        return f"if --sample<=0 count[{register_sum(self.constant)}]++"
