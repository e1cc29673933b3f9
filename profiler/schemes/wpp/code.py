"""Code of the actions of `wpp`: what `witness` does with a constant, for a path's symbol.

A symbol is a word: the routine's first number in the program plus the path's. A path that the
register tells: `sethi; ld; sethi; or; add; st; add; st`, and two or three instructions that test
the position; one without `add` less where the path is known. Buffer and flush are those of
traces (`tracing.flush`).
"""

from __future__ import annotations

from simprof import schemes as s
from simprof.profiler.schemes.tracing.code import (
    begin_append,
    end_append,
    run_cost,
    set_symbol,
)
from simprof.profiler.schemes.tracing.flush import STREAM, byte_flush_routine, flush_name
from simprof.profiler.schemes.wpp.actions import WriteConstantPath, WritePath
from simprof.schemes import asm, shapes

_VALUE, _PATH = 3, 4  # Temporaries behind those of `begin_append`


def _needs(action: s.Action, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    return s.Needs(
        path=isinstance(action, WritePath),
        clobbers=(s.Register.O7,),
        conditions=machine is s.MachineKind.SPARCV8,
    )


def write_path(writer: s.Writer, action: WritePath | WriteConstantPath) -> None:
    """Append the symbol of the path that ends."""
    end, position = begin_append(writer)
    value = writer.temporary(_VALUE)
    set_symbol(writer, action.constant, value)
    if isinstance(action, WritePath):
        writer.emit(asm.arithmetic("add", value, writer.fetch(0, _PATH), value))
    writer.emit(
        asm.store("st", value, end, position),
        asm.arithmetic("add", position, s.SYMBOL_BITS // 8, position),
    )
    end_append(writer, flush_name(packed=False))


GENERATORS: s.Generators = {
    kind: s.Generator(write_path, _needs, shapes.same) for kind in (WritePath, WriteConstantPath)
}

CODE = s.SchemeCode(
    generators=GENERATORS,
    routines=(byte_flush_routine,),
    run_cost=run_cost,
    stream=STREAM,
)
