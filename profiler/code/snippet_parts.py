"""Inputs and outputs of the generators of actions' code (see `writer`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.layout import COUNTER_SIZE, STACK_REGISTERS, CounterLayout
from simprof.profiler.code.registers import mask
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Instruction, Register

R = Register

PathRegister = Register | None  # None stands for a stack word

# What calls of run-time routines destroy: two arguments and the return address.
HASH_REGISTERS = (R.O0, R.O1, R.O7)


class Needs(Struct, frozen=True):
    """What the code of an action needs of its place."""

    path: bool = False  # Whether it uses path registers
    # Registers that the routines which it calls destroy, arguments first
    clobbers: tuple[Register, ...] = ()
    conditions: bool = False  # Whether it changes condition codes
    # Whether the code must stand directly before the block's transfer, whose registers it reads.
    # Otherwise code of a block goes anywhere in the block, and that of an edge at the block's end
    # before a `restore`.
    at_transfer: bool = False


NOTHING = Needs()


class Generator(Struct, frozen=True):
    """How the code of one kind of action is made."""

    # Appends the code of an action to a `writer.Writer`: both are its arguments.
    write: Callable[[Any, Any], None]
    # What that code needs: a value, or a function of the action, the kind of table, the machine
    needs: Needs | Callable[[Any, CounterTable, MachineKind], Needs] = NOTHING
    # What of an action, reached as a `CounterAccess` says, decides how many instructions its code
    # has: a hashable value, as a function of both. Actions of one kind with the same shape need the
    # same, and have code of the same cost wherever the same number of registers is free. None: any
    # property may matter, or the place's own code, and each place is generated to know its cost.
    shape: Callable[[Any, Any], Hashable] | None = None

    def needed(self, action: object, table: CounterTable, machine: MachineKind) -> Needs:
        """Return the needs of `action`."""
        return self.needs(action, table, machine) if callable(self.needs) else self.needs


Generators = Mapping[type, Generator]  # Kind of action -> its code


_KNOWN_BODIES: dict[
    Hashable, tuple[Generators, tuple[dict[Hashable, Any], dict[Hashable, Any]]]
] = {}
# The generators are among the values, so that no others can get their identity.


class CounterAccess(Struct, frozen=True, dict=True):
    """How the snippets of a routine reach its path registers and counters."""

    table: CounterTable
    addressing: Addressing | None
    layout: CounterLayout
    register: PathRegister  # Path register 0, None if it lives on the stack (or is not used)
    context: RoutineContext
    generators: Generators  # Of all kinds of actions that the routine's plan may have
    others: tuple[PathRegister, ...] = ()  # Path registers 1 and up
    mixed: bool = False  # Whether they are used both inside and outside the routine's own window
    # How many words for path registers the routine's caller keeps on the stack
    argument_words: int = STACK_REGISTERS

    @cached_property
    def registers(self) -> tuple[PathRegister, ...]:
        """All path registers."""
        return (self.register, *self.others)

    @cached_property
    def machine(self) -> MachineKind:
        """What the code is for."""
        return self.context.machine

    @cached_property
    def path_mask(self) -> int:
        """The set of path registers that are registers."""
        return mask(*(register for register in self.registers if register is not None))

    @cached_property
    def known_bodies(self) -> tuple[dict[Hashable, Body], dict[Hashable, Body]]:
        """Code that reaches its counters in the same way: by place, and by kind of place."""
        in_memory = tuple(register is None for register in self.registers)
        routine = (self.machine, self.context.abi.carried, self.mixed, self.argument_words)
        key = (id(self.generators), self.table, self.addressing, in_memory, routine)
        if key not in _KNOWN_BODIES:
            _KNOWN_BODIES[key] = self.generators, ({}, {})
        return _KNOWN_BODIES[key][1]

    @cached_property
    def scale(self) -> int:
        """By how much path numbers are multiplied in a path register."""
        by_address = self.table is CounterTable.ARRAY and self.addressing is Addressing.ADDRESS
        return COUNTER_SIZE if by_address else 1

    @cached_property
    def offset(self) -> int:
        """What a path register holds for path number 0."""
        return self.layout.path_base if self.scale != 1 else 0


class Body(Struct, frozen=True):
    """Code of a place without its jump."""

    instructions: tuple[Instruction, ...]  # In order
    cost: int  # Instructions executed each time; conditional parts are not among them.
    # Calls of the hashing routine each time, which are not in `cost` (the kernel counts them)
    hash_calls: int
    # By action: what its conditional part adds where it is executed; empty if none has one
    taken_costs: tuple[int, ...] = ()
    open_end: bool = False  # Whether some local branch leads to the end
    elsewhere: int = 0  # How many of `cost` are executed in run-time routines

    @property
    def taken_cost(self) -> int:
        """What all conditional parts add together."""
        return sum(self.taken_costs)

    @property
    def costs(self) -> tuple[object, ...]:
        """All that follows from the code but the instructions themselves."""
        own = self.cost, self.hash_calls, self.taken_costs, self.elsewhere
        return len(self.instructions), *own

    @property
    def is_pinned(self) -> bool:
        """Whether the last instruction cannot move: it is a transfer or in a delay slot."""
        code = self.instructions
        return bool(code) and (code[-1].is_transfer or (len(code) > 1 and code[-2].is_transfer))
