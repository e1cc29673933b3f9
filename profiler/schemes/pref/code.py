"""Code of the actions of pref plans.

=======================  ==============================================  =====================
action                   code                                            executed
=======================  ==============================================  =====================
`r = c, n = d`           mov; mov (sethi; or where a constant is large)  2
`r += c, n += d`         add; add                                        2
`count[c]++`, `other++`  sethi; ld; add; st                              4
count without tags       add; srl; brnz; nop; then                       4 (3 without the `add`)
                         sll; sethi; add; ld; add; st if interesting     + 6
                         sethi; ld; add; ba; st if not                   + 5
count with tags          add; add; and; sll; sethi; add; ld; sub;        10 (one less for each
                         brnz; nop; then                                 `add` of nothing)
                         ld; add; st if interesting                      + 3
                         sethi; ld; add; ba; st if not                   + 5
either, hashing others   the same; if not interesting: mov; the call;    + 5, and the routine's
                         ba; nop
=======================  ==============================================  =====================

Branches are on registers; on V8 they go by condition codes (a `cmp` more), on V8+ they take the
lower half of a register (a `sra` more). A mask or an increment that does not fit 13 bits is loaded
first, and where counters are out of reach of the tags their address is made anew (2 more).
"""

from __future__ import annotations

from collections.abc import Hashable

from simprof import schemes as s
from simprof.profiler.schemes.pref.actions import (
    UNINTERESTING,
    AddBoth,
    CountKnown,
    CountPreferred,
    SetBoth,
)
from simprof.schemes import asm, shapes

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
