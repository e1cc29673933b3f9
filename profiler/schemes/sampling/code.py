"""Code of the actions of `sampled` and `pep`.

================================  ==================================================  ============
action                            code                                                instructions
================================  ==================================================  ============
`--word`                          sethi; ld; sub; st; branch; nop                     6
`r = -1`                          mov, in the register of a path that is no sample    1
... where `word` comes to 0       `word = interval`, and what is done with a sample   more
`if r >= 0 ...`                   branch; nop; the action where the path is sampled   2 and more
================================  ==================================================  ============

On V8 a branch needs `cmp` before it, on V8+ a copy of the register without its upper half.
"""

from __future__ import annotations

from collections.abc import Hashable

from simprof import schemes as s
from simprof.profiler.schemes.sampling.actions import (
    BURST,
    UNSAMPLED,
    WORD,
    AddToSample,
    ChoosePath,
    CountSample,
    SamplePath,
)
from simprof.schemes import asm, shapes

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


CODE = s.SchemeCode(
    generators={
        ChoosePath: s.Generator(begin_path, needs, _choose_shape),
        AddToSample: s.Generator(
            add_to_sample, needs, lambda action, access: shapes.constant(action.constant, access)
        ),
        CountSample: s.Generator(count_sample, needs, s.count_shape),
        SamplePath: s.Generator(sample_path, needs, _sample_shape),
    },
)
