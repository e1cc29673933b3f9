"""Parts of an action that decide the size of its code (`snippet_parts.Generator.shape`)."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

from simprof.profiler.code.snippet_parts import CounterAccess
from simprof.profiler.plan.actions import Action
from simprof.simulator.isa.assembler import AssemblyError, Register, fits_simm13, load_constant


def same(action: Action, access: CounterAccess) -> Hashable:
    """Nothing: all actions of the kind have code of one size."""
    return None


def constant(value: int, access: CounterAccess) -> Hashable:
    """What decides how many instructions, and helping registers, a constant takes."""
    # `value`: The constant, as `Writer.sum`, `Writer.constant` and `Writer.set_path` take it.
    # `access`: Tells the width of registers.
    return value != 0 if fits_simm13(value) else _constant(value, access.context.is64)


@lru_cache(maxsize=1 << 16)
def _constant(value: int, is64: bool) -> Hashable:
    try:
        size, helped = len(load_constant(value, Register.G1, is64)), False
    except AssemblyError:
        size, helped = len(load_constant(value, Register.G1, is64, Register.G2)), True
    return size, helped, fits_simm13(-value)


def table(access: CounterAccess) -> Hashable:
    """What decides how many instructions the address of a hash table takes."""
    return constant(access.layout.path_base, access)
