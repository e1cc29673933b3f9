"""The run-time code that instrumented programs call: which routines there are, and where.

The one place that lists them. A routine is a list of items whose first label is its symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from profiler.code.layout import RUNTIME_BASE
from profiler.code.runtime.conditions import restore_routine
from profiler.code.runtime.hash_routine import hash_routine
from profiler.code.runtime.word_hash_routine import word_hash_routines
from profiler.schemes.cs6120.logging_routines import logging_routines
from profiler.schemes.tracing.flush import flush_routine
from simulator.binary.program import MachineKind
from simulator.isa.assembly import Assembly, Item, assemble

_RESTORE_SPAN = 1024  # the table of stubs comes first: it must stand at a multiple of this

ROUTINES: tuple[Callable[[MachineKind], tuple[Item, ...]], ...] = (
    lambda machine: hash_routine(machine, False),
    lambda machine: hash_routine(machine, True),
    logging_routines,
    word_hash_routines,
    lambda machine: flush_routine(machine, False),
    lambda machine: flush_routine(machine, True),
)
"""Each makes one or more routines for a machine."""


@cache
def runtime_code(machine: MachineKind) -> tuple[Assembly, ...]:
    """Return all run-time code, assembled at its addresses."""
    table = assemble(restore_routine(), RUNTIME_BASE)
    items = [item for routine in ROUTINES for item in routine(machine)]
    return table, assemble(items, RUNTIME_BASE + _RESTORE_SPAN, table.labels)


def runtime_symbols(machine: MachineKind) -> Mapping[str, int]:
    """Return the addresses of the routines."""
    return {
        name: address
        for assembly in runtime_code(machine)
        for name, address in assembly.labels.items()
    }
