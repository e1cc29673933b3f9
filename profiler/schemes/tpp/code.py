"""Code of targeted path profiling (TPP 4.1, appendix A)."""

# ruff: noqa: D102 - overriding methods do what `Action` says

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from simprof import schemes as s
from simprof.schemes import asm, shapes

# -- Actions


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


# -- Code
#
# Code of the actions of tpp plans (TPP appendix A).
#
# =====================  ==========================================  ===========================
# action                 code                                        executed
# =====================  ==========================================  ===========================
# `poison r`             sethi %hi(0xC0000000)                       1
# `cold++`               sethi; ld; add; st                          4
# hot or cold count      addressing: sethi; or; sra; movrnz;         7 (6 without the `or`)
#                        ld; add; st (A.1)
#                        addressing on V8, which has no movrnz:      9 (8)
#                        sethi; or; sra; and; andn; or; ld; add; st
#                        indexing: add; sra; or; sll; sethi; add;    9 (8 without the `add`)
#                        ld; add; st
#                        hash table: add; srl; sethi; ld; add; st;   8 (9 on V8+ and V8)
#                        brnz; nop; then the call                    + 2 (3)
# the same, branching    addressing: srl; brz; nop; then             3 (4)
#                        ld; add; st if hot                          + 3
#                        sethi; ld; add; ba; st if cold              + 5
#                        indexing: add; srl; brz; nop; then          4 (5), one less without `add`
#                        sll; sethi; add; ld; add; st, or as above   + 6, or + 5
#                        hash table: add; srl; brz; nop; then        4 (5)
#                        the call, or as above
# hot count, or none     addressing: srl; brnz; nop; then            3 (4)
#                        ld; add; st                                 + 3
#                        indexing: add; srl; brnz; nop; then         4 (5), one less without `add`
#                        sll; sethi; add; ld; add; st                + 6
#                        hash table: add; srl; brnz; nop; then       4 (5)
#                        the call
# =====================  ==========================================  ===========================
#
# Indexing needs no conditional move: the cold counter is counter -1 of the array, and a negative
# number or its own sign is -1. It is the sum that is tested, since a hot path's register may be
# negative before its last increment is added (A.2).
#
# An addressing count leaves the path register destroyed, as the paper's does: a path ends there.
# Poison is a positive number to a 64-bit comparison, so all tests are of bit 31.


POISONED = 0xC0000000  # The two high bits of a 32-bit path register (TPP A.2)

_SIGN = 31


def count_hot(writer: s.Writer, action: CountHotPath) -> None:
    """`count[r + c]++` or `cold++`."""
    if writer.access.table is s.CounterTable.HASH:
        _count_hashed(writer, action)
        return
    register = writer.fetch(0, 0)
    number = int(writer.path() is None)
    if writer.access.scale == 1:
        _count_index(writer, register, action.constant, number)
    else:
        _count_address(writer, register, action.constant, number)


def _count_address(writer: s.Writer, register: s.Register, constant: int, number: int) -> None:
    cold, sign = writer.temporary(number), writer.temporary(number + 1)
    increment = s.COUNTER_SIZE * constant
    if not s.fits_simm13(increment):
        writer.sum(register, increment, register, number)
        increment = 0
    writer.constant(writer.layout.path_counter(COLD_COUNTER) - increment, cold, number + 1)
    writer.emit(asm.shift("sra", register, _SIGN, sign))
    if writer.machine is s.MachineKind.SPARCV8:
        writer.emit(
            asm.arithmetic("and", cold, sign, cold),
            asm.arithmetic("andn", register, sign, register),
            asm.arithmetic("or", register, cold, register),
        )
    else:
        writer.emit(asm.move_register("nz", sign, cold, register))
    writer.bump(register, increment, cold)


def _count_index(writer: s.Writer, register: s.Register, constant: int, number: int) -> None:
    index, base = writer.temporary(number), writer.temporary(number + 1)
    if constant:
        writer.sum(register, constant, index, number + 1)
        register = index
    array = writer.layout.path_base
    writer.emit(
        asm.shift("sra", register, _SIGN, base),
        asm.arithmetic("or", register, base, index),
        asm.shift("sll", index, 2, index),
        asm.sethi(array, base),
        asm.arithmetic("add", base, index, base),
    )
    writer.bump(base, array & 0x3FF, index)


def _sign_of_sum(writer: s.Writer, constant: int) -> s.Register:
    """Put the number for the hashing routine into the first temporary; return its sign."""
    path_sum, sign = writer.temporary(0), writer.temporary(2)
    writer.sum(writer.fetch(0, 0), constant, path_sum, 1)
    writer.emit(asm.shift("srl", path_sum, _SIGN, sign))
    return sign


def _count_hashed(writer: s.Writer, action: CountHotPath) -> None:
    """Add the sign to the cold counter; call the hashing routine if there is none."""
    sign = _sign_of_sum(writer, action.constant)
    base, value = writer.temporary(3), writer.temporary(4)
    cold = writer.layout.path_counter(COLD_COUNTER)
    writer.emit(
        asm.sethi(cold, base),
        asm.load("ld", base, cold & 0x3FF, value),
        asm.arithmetic("add", value, sign, value),
        asm.store("st", value, base, cold & 0x3FF),
    )
    writer.conditional("z", sign, lambda: s.call_hash(writer, action.on_back_edge), spare=2)


def count_unless_cold(writer: s.Writer, action: CountUnlessCold) -> None:
    """`count[r + c]++` unless r is poisoned: the test branches around the count."""
    counted, sign, spare = _tested_count(writer, action)
    writer.conditional("z", sign, counted, spare)


def count_branching(writer: s.Writer, action: CountBranching) -> None:
    """`cold++` if r is poisoned, else `count[r + c]++`: the test branches around either."""
    counted, sign, spare = _tested_count(writer, action)
    # The sign is of no more use, nor is a temporary that is no part of the sum.
    value = writer.temporary(spare + 1)
    cold = writer.layout.path_counter(COLD_COUNTER)

    def count_cold() -> None:
        writer.emit(asm.sethi(cold, sign))
        writer.bump(sign, cold & 0x3FF, value)

    writer.conditional("nz", sign, count_cold, spare, counted)


def _tested_count(
    writer: s.Writer, action: CountUnlessCold | CountBranching
) -> tuple[Callable[[], None], s.Register, int]:
    """Put the sign of the path's number into a register; return what counts it if that is 0, the
    register, and the number of a temporary that is free, as are those above it.
    """
    if writer.access.table is s.CounterTable.HASH:
        sign = _sign_of_sum(writer, action.constant)
        return partial(s.call_hash, writer, action.on_back_edge), sign, 2
    register = writer.fetch(0, 0)
    number = int(writer.path() is None)
    sign = writer.temporary(number + 1)
    if writer.access.scale == 1:
        index = writer.temporary(number)
        if action.constant:
            writer.sum(register, action.constant, index, number + 1)
            register = index
        counted = partial(writer.bump_element, writer.layout.path_base, register, sign, index)
    else:
        increment = s.COUNTER_SIZE * action.constant
        if not s.fits_simm13(increment):
            writer.sum(register, increment, register, number)
            increment = 0
        counted = partial(writer.bump, register, increment, sign)
    writer.emit(asm.shift("srl", register, _SIGN, sign))
    return counted, sign, number + 1


def _needs(action: s.Action, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    hashed = table is s.CounterTable.HASH
    branches = hashed or isinstance(action, CountUnlessCold | CountBranching)
    # A branch on V8 goes by condition codes, which the code changes.
    conditions = branches and machine is s.MachineKind.SPARCV8
    return s.Needs(True, s.HASH_REGISTERS if hashed else (), conditions)


def _shape(
    action: CountHotPath | CountBranching | CountUnlessCold, access: s.CounterAccess
) -> Hashable:
    if access.table is s.CounterTable.HASH:
        return shapes.constant(action.constant, access), shapes.table(access)
    if access.scale == 1 or isinstance(action, CountUnlessCold):
        return shapes.constant(access.scale * action.constant, access)
    increment = s.COUNTER_SIZE * action.constant
    kept = increment if s.fits_simm13(increment) else 0
    cold = shapes.constant(access.layout.path_counter(COLD_COUNTER) - kept, access)
    return shapes.constant(increment, access), cold


GENERATORS: s.Generators = {
    Poison: s.Generator(
        lambda writer, action: writer.set_path(POISONED), s.Needs(path=True), shapes.same
    ),
    CountColdPath: s.Generator(
        lambda writer, action: writer.increment(writer.layout.path_counter(COLD_COUNTER)),
        shape=shapes.same,
    ),
    CountHotPath: s.Generator(count_hot, _needs, _shape),
    CountBranching: s.Generator(count_branching, _needs, _shape),
    CountUnlessCold: s.Generator(count_unless_cold, _needs, _shape),
}

CODE = s.SchemeCode(generators=GENERATORS)
