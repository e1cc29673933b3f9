"""Code of the actions of logging plans: one call each, its argument in the delay slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from simprof.profiler.code import shapes
from simprof.profiler.code.cost_samples import Samples, samples
from simprof.profiler.code.layout import BufferSlot, CounterLayout
from simprof.profiler.code.snippet_parts import HASH_REGISTERS, Generator, Generators, Needs
from simprof.profiler.code.writer import Writer
from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.cs6120.edge_log import LogDestination, LogDisrupt, LogSource
from simprof.profiler.schemes.cs6120.logging_routines import (
    LOG_DESTINATION,
    LOG_DISRUPT,
    LOG_SOURCE,
    SYMBOLS,
    argument,
    logging_cost,
    logging_routines,
    pair_slot,
)
from simprof.profiler.schemes.cs6120.planner import CallsPlan
from simprof.profiler.schemes.definition import SchemeCode
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Register


def _call(writer: Writer, symbol: str, number: int) -> None:
    writer.emit(asm.sethi(argument(number), Register.O0))
    writer.call(symbol, logging_cost(writer.machine, symbol))


def _source(writer: Writer, action: LogSource) -> None:
    _call(writer, LOG_SOURCE, writer.layout.first[0] + action.number)


def _disrupt(writer: Writer, action: LogDisrupt) -> None:
    _call(writer, LOG_DISRUPT, writer.layout.first[0] + action.number)


def _destination(writer: Writer, action: LogDestination) -> None:
    _call(writer, LOG_DESTINATION, writer.layout.first[1] + action.number)


_SETTER = Needs(clobbers=HASH_REGISTERS)

GENERATORS: Generators = {
    LogSource: Generator(_source, _SETTER, shapes.same),
    LogDisrupt: Generator(_disrupt, _SETTER, shapes.same),
    LogDestination: Generator(
        _destination, Needs(clobbers=(Register.O0, Register.O7)), shapes.same
    ),
}

SAMPLES: Mapping[type, Sequence[Samples]] = {
    LogSource: (Samples(samples(LogSource, 0, 77)),),
    LogDestination: (Samples(samples(LogDestination, 0, 77)),),
    LogDisrupt: (Samples(samples(LogDisrupt, 0, 77)),),
}


def _routine_costs(machine: MachineKind) -> Iterator[tuple[str, str]]:
    yield from ((symbol, str(logging_cost(machine, symbol))) for symbol in SYMBOLS)


def _slots(plan: RoutinePlan, layout: CounterLayout) -> tuple[BufferSlot, ...]:
    return tuple(pair_slot(pair, layout) for pair in cast(CallsPlan, plan).logged)


CODE = SchemeCode(
    generators=GENERATORS,
    samples=SAMPLES,
    routines=(logging_routines,),
    routine_costs=_routine_costs,
    callers={"log": (LogSource, LogDestination, LogDisrupt)},
    slots=_slots,
)
