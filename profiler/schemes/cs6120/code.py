"""Code of the actions of logging plans: one call each, its argument in the delay slot."""

from __future__ import annotations

from profiler.code.writer import HASH_REGISTERS, Generator, Generators, Needs, Writer
from profiler.schemes.cs6120.edge_log import LogDestination, LogDisrupt, LogSource
from profiler.schemes.cs6120.logging_routines import (
    LOG_DESTINATION,
    LOG_DISRUPT,
    LOG_SOURCE,
    argument,
    logging_cost,
)
from simulator.isa import assembler as asm
from simulator.isa.assembler import Register


def _call(writer: Writer, symbol: str, number: int) -> None:
    writer.emit(asm.sethi(argument(number), Register.O0))
    writer.call(symbol, logging_cost(writer.machine, symbol))


def _source(writer: Writer, action: LogSource) -> None:
    _call(writer, LOG_SOURCE, writer.layout.first_source + action.number)


def _disrupt(writer: Writer, action: LogDisrupt) -> None:
    _call(writer, LOG_DISRUPT, writer.layout.first_source + action.number)


def _destination(writer: Writer, action: LogDestination) -> None:
    _call(writer, LOG_DESTINATION, writer.layout.first_destination + action.number)


_SETTER = Needs(clobbers=HASH_REGISTERS)

GENERATORS: Generators = {
    LogSource: Generator(_source, _SETTER),
    LogDisrupt: Generator(_disrupt, _SETTER),
    LogDestination: Generator(_destination, Needs(clobbers=(Register.O0, Register.O7))),
}
