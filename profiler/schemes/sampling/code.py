"""Actions of `sampled` and `pep`: paths that a guard has chosen are counted, others are not."""

from __future__ import annotations

from collections.abc import Hashable

from simprof import schemes as s
from simprof.schemes import asm, shapes

# -- Actions


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


# -- Code
#
# Code of the actions of `sampled` and `pep`.
#
# ================================  ==================================================  ============
# action                            code                                                instructions
# ================================  ==================================================  ============
# `--word`                          sethi; ld; sub; st; branch; nop                     6
# `r = -1`                          mov, in the register of a path that is no sample    1
# ... where `word` comes to 0       `word = interval`, and what is done with a sample   more
# `if r >= 0 ...`                   branch; nop; the action where the path is sampled   2 and more
# ================================  ==================================================  ============
#
# On V8 a branch needs `cmp` before it, on V8+ a copy of the register without its upper half.


R = s.Register


def count_down(writer: s.Writer, first: int = 0) -> tuple[s.Register, s.Register, int]:
    """Write `--word`; return the registers of its page and of its value, and its place there.

    Takes temporaries `first` and the next one.
    """
    word = writer.layout.program_word(WORD)
    base, left = writer.temporary(first), writer.temporary(first + 1)
    writer.emit(
        asm.sethi(word, base),
        asm.load("ld", base, word & 0x3FF, left),
        asm.arithmetic("sub", left, 1, left),
        asm.store("st", left, base, word & 0x3FF),
    )
    return base, left, word & 0x3FF


def begin_path(writer: s.Writer, action: ChoosePath) -> None:
    """Write the check, the setting of the register, and that for samples."""
    writer.set_path(UNSAMPLED)
    base, left, word = count_down(writer)

    def sample() -> None:
        writer.constant(action.interval, left)
        writer.emit(asm.store("st", left, base, word))
        writer.set_path(action.constant)

    writer.conditional("lez", left, sample, spare=2)


def add_to_sample(writer: s.Writer, action: AddToSample) -> None:
    """Write the increment behind a test of the register's sign."""
    register = writer.fetch(0, 0)
    writer.conditional("gez", register, lambda: writer.add_path(action.constant), spare=1)


def count_sample(writer: s.Writer, action: CountSample) -> None:
    """Write what `pp` does behind a test of the register's sign."""
    register = writer.fetch(0, 0)
    writer.conditional("gez", register, lambda: s.count_path(writer, action), spare=1)


def sample_path(writer: s.Writer, action: SamplePath) -> None:
    """Write the check, and for samples the choice of the next one and what `pp` does."""
    base, left, word = count_down(writer)

    def sample() -> None:
        _choose_next(writer, action, (base, left, word))
        s.count_path(writer, action)

    writer.conditional("lez", left, sample, spare=2)


def _choose_next(
    writer: s.Writer, action: SamplePath, counted: tuple[s.Register, s.Register, int]
) -> None:
    """Write `word = ++burst < samples ? stride : tick`, and `burst = 0` in the latter case.

    Without branches: what is executed where a path is sampled must be of one length.
    """
    base, value, word = counted
    if (action.samples, action.stride) == (1, action.tick):  # no burst at all
        writer.constant(action.tick, value)
        writer.emit(asm.store("st", value, base, word))
        return
    taken, more = writer.temporary(2), writer.temporary(3)
    burst = writer.layout.program_word(BURST)
    writer.emit(
        asm.sethi(burst, more),
        asm.load("ld", more, burst & 0x3FF, taken),
        asm.arithmetic("add", taken, 1, taken),
    )
    writer.constant(action.samples, value)
    writer.emit(
        asm.arithmetic("sub", taken, value, value),
        asm.shift("sra", value, 31, value),  # -1 while the burst goes on, else 0
        asm.arithmetic("and", taken, value, taken),
        asm.store("st", taken, more, burst & 0x3FF),
    )
    writer.constant(action.stride - action.tick, taken)
    writer.emit(asm.arithmetic("and", taken, value, taken))
    writer.constant(action.tick, value)
    writer.emit(asm.arithmetic("add", taken, value, value), asm.store("st", value, base, word))


def needs(action: s.Action, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    """What the code of an action of these modes needs."""
    clobbers: tuple[s.Register, ...] = ()
    if isinstance(action, s.CountPath):
        clobbers = s.count_needs(action, table, machine).clobbers
    return s.Needs(path=True, clobbers=clobbers, conditions=machine is s.MachineKind.SPARCV8)


def _choose_shape(action: ChoosePath, access: s.CounterAccess) -> Hashable:
    return shapes.constant(action.interval, access), shapes.constant(action.constant, access)


def _sample_shape(action: SamplePath, access: s.CounterAccess) -> Hashable:
    given = (action.samples, action.tick, action.stride, action.stride - action.tick)
    constants = tuple(shapes.constant(value, access) for value in given)
    is_single = (action.samples, action.stride) == (1, action.tick)
    return is_single, constants, s.count_shape(action, access)


# -- Sampling in a second copy of the routine
#
# `sampled` with duplicated code: a sampled path is executed in a second copy of the routine.
#
# The first copy has checks only, where paths begin; the second counts, without any test. Both begin
# the next path at the end of one: the second goes back to the first, unless that path is a sample,
# too. Actions are those of the variant with a test before each, and have other code.
#
# ================================  ==================================================  ============
# where a path begins               code in the first copy, in the second               instructions
# ================================  ==================================================  ============
# no sample                         sethi; ld; sub; st; branch; nop                     6
#                                   the same, and `ba` to the first                     7
# sample                            ... `sample = interval`; `r = c`; `ba` to the other 4 more
# ================================  ==================================================  ============


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
        ChoosePath: s.Generator(begin_path, needs, _choose_shape),
        AddToSample: s.Generator(
            add_to_sample, needs, lambda action, access: shapes.constant(action.constant, access)
        ),
        CountSample: s.Generator(count_sample, needs, s.count_shape),
        SamplePath: s.Generator(sample_path, needs, _sample_shape),
        CheckInFirst: s.Generator(check, needs, _shape),
        CheckInSecond: s.Generator(check_again, needs, _shape),
    },
)
