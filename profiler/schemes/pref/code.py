"""Code of preferential path profiling.

Path register 0 adds up the values of `IntervalNumbering`: at the end of a path it is the path's
index, if it has one. Register 1, where there is one, adds up those of Ball and Larus: the path's
number.
"""

# ruff: noqa: D102 - overriding methods do what `Action` says

from __future__ import annotations

from collections.abc import Hashable

from simprof import schemes as s
from simprof.schemes import asm, shapes

# -- Actions


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


# -- Code
#
# Code of the actions of pref plans.
#
# =======================  ==============================================  =====================
# action                   code                                            executed
# =======================  ==============================================  =====================
# `r = c, n = d`           mov; mov (sethi; or where a constant is large)  2
# `r += c, n += d`         add; add                                        2
# `count[c]++`, `other++`  sethi; ld; add; st                              4
# count without tags       add; srl; brnz; nop; then                       4 (3 without the `add`)
#                          sll; sethi; add; ld; add; st if interesting     + 6
#                          sethi; ld; add; ba; st if not                   + 5
# count with tags          add; add; and; sll; sethi; add; ld; sub;        10 (one less for each
#                          brnz; nop; then                                 `add` of nothing)
#                          ld; add; st if interesting                      + 3
#                          sethi; ld; add; ba; st if not                   + 5
# either, hashing others   the same; if not interesting: mov; the call;    + 5, and the routine's
#                          ba; nop
# =======================  ==============================================  =====================
#
# Branches are on registers; on V8 they go by condition codes (a `cmp` more), on V8+ they take the
# lower half of a register (a `sra` more). A mask or an increment that does not fit 13 bits is
# loaded first, and where counters are out of reach of the tags their address is made anew (2 more).


# Temporaries of a count. The first two are those that a call of the hashing routine destroys.
NUMBER, INDEX, ADDRESS, VALUE = range(4)


def set_both(writer: s.Writer, action: SetBoth) -> None:
    """`r = c, n = d`."""
    for register, value in enumerate((action.index, action.number)):
        writer.set_path(value, register)


def add_both(writer: s.Writer, action: AddBoth) -> None:
    """`r += c, n += d`."""
    for register, value in enumerate((action.index, action.number)):
        if value:
            writer.add_path(value, register)


def count_preferred(writer: s.Writer, action: CountPreferred) -> None:
    """`count[r + c]++` if the path is interesting, else `other++` or a call."""
    reads_number = action.tags or action.hashed
    number = _sum(writer, 1, action.number, NUMBER) if reads_number else s.Register.G0
    register = _sum(writer, 0, action.index, INDEX)
    index, address, value = (writer.temporary(each) for each in (INDEX, ADDRESS, VALUE))
    counters = writer.layout.path_counter(action.first)

    def count_other() -> None:
        if action.hashed:
            if number is not s.Register.O0:
                writer.emit(asm.mov(number, s.Register.O0))
            s.call_hash(writer, action.on_back_edge)
            writer.emit(asm.nop())
            return
        other = writer.layout.path_counter(UNINTERESTING)
        writer.emit(asm.sethi(other, address))
        writer.bump(address, other & 0x3FF, index)

    if not action.tags:

        def count_index() -> None:
            writer.bump_element(counters, register, address, index)

        writer.emit(asm.shift("srl", register, action.bits, value))
        writer.conditional("nz", value, count_other, VALUE, count_index)
        return
    tags = writer.layout.constants
    mask: s.Register | int = (1 << action.bits) - 1
    if not s.fits_simm13(mask):
        writer.constant(mask, address, VALUE)
        mask = address
    writer.emit(
        asm.arithmetic("and", register, mask, index),
        asm.shift("sll", index, 2, index),
        asm.sethi(tags, address),
        asm.arithmetic("add", address, index, address),
        asm.load("ld", address, tags & 0x3FF, value),
        asm.arithmetic("sub", value, number, value),
    )

    def count_tagged() -> None:
        offset = (tags & 0x3FF) + counters - tags
        if not s.fits_simm13(offset):
            writer.emit(
                asm.sethi(counters, address), asm.arithmetic("add", address, index, address)
            )
            offset = counters & 0x3FF
        writer.bump(address, offset, value)

    writer.conditional("nz", value, count_other, VALUE, count_tagged)


def _sum(writer: s.Writer, path: int, constant: int, number: int) -> s.Register:
    """Return a register with a path register's value plus a constant: temporary `number`, or the
    path register itself.
    """
    register = writer.fetch(path, number)
    if not constant:
        return register
    result = writer.temporary(number)
    writer.sum(register, constant, result, ADDRESS)
    return result


def _needs(action: CountPreferred, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    # A branch on V8 goes by condition codes, which the code changes.
    clobbers = s.HASH_REGISTERS if action.hashed else ()
    return s.Needs(True, clobbers, machine is s.MachineKind.SPARCV8)


def _both_shape(action: SetBoth | AddBoth, access: s.CounterAccess) -> Hashable:
    return shapes.constant(action.index, access), shapes.constant(action.number, access)


CODE = s.SchemeCode(
    generators={
        SetBoth: s.Generator(set_both, s.Needs(path=True), _both_shape),
        AddBoth: s.Generator(add_both, s.Needs(path=True), _both_shape),
        CountPreferred: s.Generator(count_preferred, _needs),
        CountKnown: s.Generator(
            lambda writer, action: writer.increment(writer.layout.path_counter(action.counter)),
            shape=shapes.same,
        ),
    },
)
