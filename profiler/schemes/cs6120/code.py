"""Code of the actions of logging plans: one call each, its argument in the delay slot.

The run-time library of `calls`, `logsrc`, `logdest` and `logdisrupt` (CS6120), is written in SPARC.
"""

from __future__ import annotations

from functools import cache
from typing import cast

from simprof import schemes as s
from simprof.profiler.schemes.cs6120.edge_log import (
    PAIRS,
    LogAction,
    LogDestination,
    LogDisrupt,
    LoggedEdge,
    LogSource,
)
from simprof.profiler.schemes.cs6120.planner import CallsPlan
from simprof.schemes import asm, shapes

R = s.Register

# Calling convention: %o0 = the number times 1024, which one `sethi` in the call's delay slot makes.
# Only %o0, %o1 and %o7 change (`logdest`: %o0 and %o7). No condition codes change on any machine:
# `logdest` has no branch, so it costs the same whether it counts a pair or not.
#
# Memory (`PAIR_TABLE`; words of 32 bits; slots are 8 bytes):
#
# ======  ======  =================================================================
# slot    offset  contents
# ======  ======  =================================================================
# 0       0       the number logged last, times 1024; 0 if none is
# k + m   0       *owner*: m times 1024, where (k, m) is a pair
# k + m   4       how often the pair was counted
# ======  ======  =================================================================
#
# Numbers start at 1. `logsrc(k)` and `logdisrupt(k)` set slot 0, the latter to a number that no
# pair has. `logdest(m)` clears it and increments the counter of slot k + m if m owns that slot.
# Slots without a pair, owner 0, belong to nobody; `edge_log` sees to it that slots of pairs differ.
PAIR_TABLE = s.buffer_address(PAIRS)
LAST = PAIR_TABLE
OWNER, COUNT = 0, 4
_NUMBER_SHIFT, _SLOT_SHIFT = 10, 3
_NUMBER, _SLOT, _WORD, _OLD, _NEW = R.I0, R.L0, R.L1, R.L2, R.L3


def argument(number: int) -> int:
    """Return what a routine gets for `number`."""
    return number << _NUMBER_SHIFT


@cache
def logging_routines(machine: s.MachineKind) -> tuple[s.Item, ...]:
    """Return the three routines, to be assembled; their first labels are their symbols."""
    return (*_setter(LogSource.symbol), *_setter(LogDisrupt.symbol), *_destination(machine))


def _setter(name: str) -> list[s.Item]:
    store = asm.store("st", R.O0, R.O1, LAST & 0x3FF)
    return [s.Label(name), asm.sethi(LAST, R.O1), asm.retl(), store]


def _destination(machine: s.MachineKind) -> list[s.Item]:
    return [
        s.Label(LogDestination.symbol),
        s.save_smallest_frame(machine),
        asm.sethi(PAIR_TABLE, _SLOT),
        asm.load("ld", _SLOT, 0, _WORD),
        asm.store("st", R.G0, _SLOT, 0),
        asm.arithmetic("add", _WORD, _NUMBER, _WORD),
        asm.shift("srl", _WORD, _NUMBER_SHIFT - _SLOT_SHIFT, _WORD),
        asm.arithmetic("add", _SLOT, _WORD, _SLOT),
        asm.load("ld", _SLOT, OWNER, _WORD),
        asm.load("ld", _SLOT, COUNT, _OLD),
        asm.arithmetic("xor", _WORD, _NUMBER, _WORD),
        *_count_if_zero(machine),
        asm.store("st", _OLD, _SLOT, COUNT),
        asm.ret(),
        asm.restore(),
    ]


def _count_if_zero(machine: s.MachineKind) -> list[s.Instruction]:
    """Increment the old count if the word is 0."""
    # V8 has no conditional move: there, bit 31 of (word - 1) & ~word is set for 0 alone.
    if machine is s.MachineKind.SPARCV8:
        return [
            asm.arithmetic("sub", _WORD, 1, _NEW),
            asm.arithmetic("andn", _NEW, _WORD, _NEW),
            asm.shift("srl", _NEW, 31, _NEW),
            asm.arithmetic("add", _OLD, _NEW, _OLD),
        ]
    return [
        *s.clear_upper_half(machine, _WORD),  # `movrz` looks at all 64 bits
        asm.arithmetic("add", _OLD, 1, _NEW),
        asm.move_register("z", _WORD, _NEW, _OLD),
    ]


@cache
def logging_cost(machine: s.MachineKind, symbol: str) -> int:
    """Count the instructions that a routine executes, its return included."""
    return s.executed(logging_routines(machine), (), symbol)


def pair_slot(pair: LoggedEdge, layout: s.CounterLayout) -> s.BufferSlot:
    """Return the slot of a routine's pair."""
    first_source, first_destination = layout.first
    destination = first_destination + pair.destination
    number = first_source + pair.source + destination
    return s.BufferSlot(PAIR_TABLE + s.SLOT_SIZE * number, argument(destination))


def _call(writer: s.Writer, action: LogAction) -> None:
    series = 1 if isinstance(action, LogDestination) else 0
    number = writer.layout.first[series] + action.number
    writer.emit(asm.sethi(argument(number), R.O0))
    writer.call(action.symbol, logging_cost(writer.machine, action.symbol))


_SETTER = s.Needs(clobbers=s.HASH_REGISTERS)

GENERATORS: s.Generators = {
    LogSource: s.Generator(_call, _SETTER, shapes.same),
    LogDisrupt: s.Generator(_call, _SETTER, shapes.same),
    LogDestination: s.Generator(_call, s.Needs(clobbers=(R.O0, R.O7)), shapes.same),
}


def _slots(plan: s.Plan, layout: s.CounterLayout) -> tuple[s.BufferSlot, ...]:
    return tuple(pair_slot(pair, layout) for pair in cast(CallsPlan, plan).logged)


CODE = s.SchemeCode(
    generators=GENERATORS,
    routines=(logging_routines,),
    slots=_slots,
)
