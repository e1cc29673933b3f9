"""Actions of `sampled` and `pep`: paths that a guard has chosen are counted, others are not."""

from __future__ import annotations

from simprof import schemes as s

WORD = "sample"  # counts down to the next sample
BURST = "burst"  # counts the samples of a burst
UNSAMPLED = -1  # in the path register along a path that `sampled` does not count


class ChoosePath(s.Action, frozen=True):
    """`r=constant` if the path that begins is a sample, else `r` is negative."""

    effect = s.RegisterEffect.DEFINES

    constant: int
    interval: int

    @property
    def guard(self) -> s.Guard:
        """See `Action`."""
        return s.Guard(WORD, self.interval)

    def execute(self, execution: s.Execution) -> None:
        """See `Action`."""
        execution.registers[0] = self.constant if execution.passes else UNSAMPLED
        if execution.passes:
            execution.take()

    def __str__(self) -> str:
        return f"if --sample<=0 sample={self.interval}; r={self.constant} else r={UNSAMPLED}"


class OfSamples(s.Action, frozen=True):
    """What is done along sampled paths only."""

    def execute(self, execution: s.Execution) -> None:
        """See `Action`."""
        if execution.registers[0] >= 0:
            execution.take()
            super().execute(execution)

    def __str__(self) -> str:
        return f"if r>=0 {super().__str__()}"


class AddToSample(OfSamples, s.AddRegister, frozen=True):
    """`r+=constant` in samples."""


class CountSample(OfSamples, s.CountPath, frozen=True):
    """`count[r + constant]++` in samples: a path ends."""


class SamplePath(s.CountPath, frozen=True):
    """`count[r + constant]++` where the path that ends is a sample."""

    tick: int = 1
    samples: int = 1
    stride: int = 1

    @property
    def guard(self) -> s.Guard:
        """See `Action`."""
        return s.Guard(WORD, self.tick, s.Burst(BURST, self.samples, self.stride))

    def execute(self, execution: s.Execution) -> None:
        """See `Action`."""
        if execution.passes:
            execution.take()
            super().execute(execution)

    def __str__(self) -> str:
        return f"if --sample<=0 count[{s.register_sum(self.constant)}]++"
