"""Code of the actions that count paths and events (EPP 5.2, 5.3)."""

from __future__ import annotations

from collections.abc import Hashable

from simprof.profiler.code import shapes
from simprof.profiler.code.hash_routine import routine_name
from simprof.profiler.code.layout import COUNTER_SIZE
from simprof.profiler.code.snippet_parts import (
    HASH_REGISTERS,
    CounterAccess,
    Generator,
    Generators,
    Needs,
)
from simprof.profiler.code.writer import Writer
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    SetRegister,
)
from simprof.profiler.plan.plan import CounterTable
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Register, fits_simm13

R = Register

# ======================  =========================================  ===========================
# action                  addressing (register = counter's address)  indexing (register = number)
# ======================  =========================================  ===========================
# `r = c`                 sethi; or               2 (1)              mov                     1
# `r += c`                add                     1                  add                     1
# `count[r + c]++`        ld; add; st             3                  sethi; sll; add;
#                                                                    ld; add; st             6
# `count[c]++`, `edge++`  sethi; ld; add; st      4                  the same                4
# ======================  =========================================  ===========================
#
# EPP's indexing mode takes `sethi; or; sll; ld; add; st`, also 6, which needs a register more or
# destroys the path register. Constants that do not fit an instruction's 13 bits are loaded first.
# With a hash table a count is `add %pr, c, %o0; call; sethi table, %o1` (in the call's delay slot).
#
# No instruction here changes condition codes or %y, and neither does the hashing routine on V9 and
# V8+. On V8 it changes icc; where icc is live there, `runtime_code.keep` keeps it.


def count_needs(action: Action, table: CounterTable, machine: MachineKind) -> Needs:
    """Return what counting a path needs: with a hash table a call."""
    path = not isinstance(action, CountConstantPath)
    if table is not CounterTable.HASH:
        return Needs(path)
    return Needs(path, HASH_REGISTERS, machine is MachineKind.SPARCV8)


def set_register(writer: Writer, action: SetRegister) -> None:
    """`r = c`."""
    writer.set_path(writer.access.offset + writer.access.scale * action.constant)


def add_register(writer: Writer, action: AddRegister) -> None:
    """`r += c`."""
    writer.add_path(writer.access.scale * action.constant)


def count_path(writer: Writer, action: CountPath) -> None:
    """`count[r + c]++`."""
    if writer.access.table is CounterTable.HASH:
        register = writer.path()
        if register is None:
            writer.load_path(R.O0)
        writer.sum(register or R.O0, action.constant, R.O0, 1)
        call_hash(writer, action.on_back_edge)
        return
    register = writer.fetch(0, 0)
    number = int(writer.path() is None)
    if writer.access.scale == 1:
        _count_index(writer, register, action.constant, number)
    else:
        _count_address(writer, register, action.constant, number)


def _count_address(writer: Writer, register: Register, constant: int, number: int) -> None:
    value = writer.temporary(number)
    offset: Register | int = COUNTER_SIZE * constant
    if not fits_simm13(offset):
        helper = writer.temporary(number + 1)
        writer.constant(offset, helper, number + 2)
        offset = helper
    writer.bump(register, offset, value)


def _count_index(writer: Writer, register: Register, constant: int, number: int) -> None:
    """`count[r + c]++` with the register kept; a register that was loaded serves twice."""
    address = writer.temporary(number)
    scaled = register if writer.path() is None else writer.temporary(number + 1)
    counter = writer.layout.path_base + COUNTER_SIZE * constant
    writer.bump_element(counter, register, address, scaled)


def count_constant(writer: Writer, action: CountConstantPath) -> None:
    """`count[c]++`."""
    if writer.access.table is CounterTable.HASH:
        writer.constant(action.constant, R.O0)
        call_hash(writer, action.on_back_edge)
    else:
        writer.increment(writer.layout.path_counter(action.constant))


def count_edge(writer: Writer, action: CountEdge) -> None:
    """`edge[k]++`."""
    writer.increment(writer.layout.edge_counter(action.counter))


def call_hash(writer: Writer, on_back_edge: bool) -> None:
    """Count the path whose number is in %o0 in the hash table."""
    writer.emit(*asm.load_constant(writer.layout.path_base, R.O1, writer.is64))
    writer.call(routine_name(on_back_edge))
    writer.hash_calls += 1


def _set_shape(action: SetRegister, access: CounterAccess) -> Hashable:
    return shapes.constant(access.offset + access.scale * action.constant, access)


def _add_shape(action: AddRegister, access: CounterAccess) -> Hashable:
    return shapes.constant(access.scale * action.constant, access)


def count_shape(action: CountPath | CountConstantPath, access: CounterAccess) -> Hashable:
    """What decides how many instructions the count of a path takes."""
    if access.table is CounterTable.HASH:
        return shapes.constant(action.constant, access), shapes.table(access)
    is_constant = isinstance(action, CountConstantPath) or access.scale == 1
    return is_constant or shapes.constant(COUNTER_SIZE * action.constant, access)


PATH_GENERATORS: Generators = {
    SetRegister: Generator(set_register, Needs(path=True), _set_shape),
    AddRegister: Generator(add_register, Needs(path=True), _add_shape),
    CountPath: Generator(count_path, count_needs, count_shape),
    CountConstantPath: Generator(count_constant, count_needs, count_shape),
    CountEdge: Generator(count_edge, shape=shapes.same),
}
