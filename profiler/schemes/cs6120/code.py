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
from simprof.profiler.schemes.cs6120.edge_log import (
    LogAction,
    LogDestination,
    LogDisrupt,
    LogSource,
)
from simprof.profiler.schemes.cs6120.logging_routines import (
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


def _call(writer: Writer, action: LogAction) -> None:
    series = 1 if isinstance(action, LogDestination) else 0
    number = writer.layout.first[series] + action.number
    writer.emit(asm.sethi(argument(number), Register.O0))
    writer.call(action.symbol, logging_cost(writer.machine, action.symbol))


_SETTER = Needs(clobbers=HASH_REGISTERS)

GENERATORS: Generators = {
    LogSource: Generator(_call, _SETTER, shapes.same),
    LogDisrupt: Generator(_call, _SETTER, shapes.same),
    LogDestination: Generator(_call, Needs(clobbers=(Register.O0, Register.O7)), shapes.same),
}

SAMPLES: Mapping[type, Sequence[Samples]] = {
    kind: (Samples(samples(kind, 0, 77)),) for kind in (LogSource, LogDestination, LogDisrupt)
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
