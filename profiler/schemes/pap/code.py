"""Code of the actions of `pap`.

A digit: `sub`, two or three instructions that test whether there is room for it, and shifts and
adds that multiply: one of each for radix 3, one `sll` for a power of two and an `add` where the
digit is not 0. Where there is no room, `sethi; or; add; call; mov` besides, and the routine that
appends a word to the trace, which empties the buffer where it is full (`tracing.flush`). At EXIT,
`sethi; or; add; call`.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache

from simprof import schemes as s
from simprof.profiler.schemes.pap.actions import WRITTEN, AddDigit, WriteWalk
from simprof.profiler.schemes.tracing.actions import POSITION
from simprof.profiler.schemes.tracing.code import run_cost, set_symbol
from simprof.profiler.schemes.tracing.flush import (
    STREAM,
    TRACE_END,
    byte_flush_routine,
    flush_name,
)
from simprof.schemes import asm, shapes

R = s.Register

APPEND = "trace_word"  # Symbol of the routine that appends the word in %o0 to the trace
_END, _AT = R.L0, R.L1
_TEST, _PATH, _SUM, _PART = 1, 2, 3, 4  # Temporaries behind %o0


@cache
def append_routine(machine: s.MachineKind) -> tuple[s.Item, ...]:
    """Return the routine, to be assembled. Only %o0 and %o7 change, on V8 also icc."""
    done = f"{APPEND}.done"
    test: tuple[s.Item, ...] = (asm.branch_register("lz", _AT, done),)
    if machine is s.MachineKind.SPARCV8:
        test = asm.cmp(_AT, 0), asm.branch("neg", done)
    return (
        s.Label(APPEND),
        s.save_smallest_frame(machine),
        asm.sethi(TRACE_END, _END),
        asm.load("ld" if machine is s.MachineKind.SPARCV8 else "ldsw", _END, POSITION, _AT),
        asm.store("st", R.I0, _END, _AT),
        asm.arithmetic("add", _AT, s.SYMBOL_BITS // 8, _AT),
        asm.store("st", _AT, _END, POSITION),
        *test,
        asm.nop(),
        asm.call(flush_name(packed=False)),
        asm.nop(),
        s.Label(done),
        asm.ret(),
        asm.restore(),
    )


@cache
def append_cost(machine: s.MachineKind) -> int:
    """Count the instructions that it executes where the buffer is not full."""
    return s.executed(append_routine(machine), (True,))


def _needs(action: s.Action, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    return s.Needs(path=True, clobbers=(R.O0, R.O7), conditions=machine is s.MachineKind.SPARCV8)


def _append(writer: s.Writer, place: int, number: s.Register) -> None:
    set_symbol(writer, place, R.O0)
    writer.emit(asm.arithmetic("add", R.O0, number, R.O0))
    writer.call(APPEND, append_cost(writer.machine))


def write_walk(writer: s.Writer, action: WriteWalk) -> None:
    """Append the number of the activation, which ends."""
    _append(writer, action.place, writer.fetch(0, _PATH))


def add_digit(writer: s.Writer, action: AddDigit) -> None:
    """Append the number where it has no room, then multiply and add."""
    number = writer.fetch(0, _PATH)
    test = writer.temporary(_TEST)

    def write() -> None:
        _append(writer, action.place, number)
        writer.emit(asm.mov(WRITTEN, number))

    writer.sum(number, -action.too_large, test, _SUM)
    writer.conditional("gez", test, write, spare=_TEST)
    bits = [bit for bit in range(action.radix.bit_length()) if action.radix >> bit & 1]
    if len(bits) == 1:
        writer.emit(asm.shift("sll", number, bits[0], number))
    else:
        total, part = writer.temporary(_SUM), writer.temporary(_PART)
        writer.emit(asm.shift("sll", number, bits[-1], total))
        for bit in bits[-2::-1]:
            added = number
            if bit:
                writer.emit(asm.shift("sll", number, bit, part))
                added = part
            writer.emit(asm.arithmetic("add", total, added, total if bit != bits[0] else number))
    writer.sum(number, action.digit, number, _SUM)
    writer.store_path(number)


def _digit_shape(action: AddDigit, access: s.CounterAccess) -> Hashable:
    limits = (shapes.constant(each, access) for each in (-action.too_large, action.digit))
    return action.radix, tuple(limits)


GENERATORS: s.Generators = {
    AddDigit: s.Generator(add_digit, _needs, _digit_shape),
    WriteWalk: s.Generator(write_walk, _needs, shapes.same),
}

CODE = s.SchemeCode(
    generators=GENERATORS,
    routines=(byte_flush_routine, append_routine),
    run_cost=run_cost,
    stream=STREAM,
)
