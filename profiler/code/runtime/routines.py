"""The run-time code that instrumented programs call: which routines there are, and where.

Routines are lists of items whose first label is their symbol. Those here keep hash tables and
condition codes; schemes bring others (`schemes.definition.SchemeCode`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simprof.profiler.code.layout import RUNTIME_BASE
from simprof.profiler.code.runtime.conditions import restore_routine
from simprof.profiler.code.runtime.hash_routine import hash_routine
from simprof.profiler.code.runtime.word_hash_routine import word_hash_routines
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Assembly, Item, assemble

_RESTORE_SPAN = 1024  # the table of stubs comes first: it must stand at a multiple of this

Routines = Callable[[MachineKind], tuple[Item, ...]]
"""Makes one or more routines for a machine."""

ROUTINES: tuple[Routines, ...] = (
    lambda machine: hash_routine(machine, False),
    lambda machine: hash_routine(machine, True),
    word_hash_routines,
)


def runtime_code(machine: MachineKind, more: Sequence[Routines] = ()) -> tuple[Assembly, ...]:
    """Return the run-time code, assembled at its addresses: `ROUTINES` and then `more`."""
    table = assemble(restore_routine(), RUNTIME_BASE)
    items = [item for routine in (*ROUTINES, *more) for item in routine(machine)]
    return table, assemble(items, RUNTIME_BASE + _RESTORE_SPAN, table.labels)
