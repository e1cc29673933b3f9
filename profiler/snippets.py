"""Actions as SPARC instructions (DESIGN section 7; EPP 5.2, 5.3).

Terms: the *path register* is a register, or a stack word that every use loads and stores. A
*snippet* is the code of all actions of an edge. *Temporaries* are registers that are dead there;
one that is not is saved before and restored behind the snippet.

======================  =========================================  ===========================
action                  addressing (register = counter's address)  indexing (register = number)
======================  =========================================  ===========================
`r = c`                 sethi; or               2 (1)              mov                     1
`r += c`                add                     1                  add                     1
`count[r + c]++`        ld; add; st             3                  sethi; sll; add;
                                                                   ld; add; st             6
`count[c]++`, `edge++`  sethi; ld; add; st      4                  the same                4
======================  =========================================  ===========================

EPP's indexing mode takes `sethi; or; sll; ld; add; st`, also 6, which needs a register more or
destroys the path register. Constants that do not fit an instruction's 13 bits are loaded first.
With a hash table a count is `add %pr, c, %o0; call; sethi table, %o1` (in the call's delay slot).

No instruction here changes condition codes or %y, and neither does the hashing routine on V9 and
V8+. On V8 it changes icc; where icc is live there, `conditions` keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from profiler.conditions import KEEP_COST, keep, restore, restore_cost
from profiler.context import RoutineContext, Site
from profiler.frames import Slot
from profiler.hash_routine import routine_name
from profiler.layout import COUNTER_SIZE, CounterLayout
from profiler.plan import (
    Action,
    AddRegister,
    Addressing,
    CountConstantPath,
    CountEdge,
    CountPath,
    SetRegister,
    Table,
)
from profiler.registers import LOCAL_ORDER, mask, members
from simulator import assembler as asm
from simulator.assembler import Instruction, Register, fits_simm13
from simulator.program import MachineKind

R = Register

PathRegister = Register | None
"""None stands for the stack slot."""

HASH_REGISTERS = (R.O0, R.O1, R.O7)
PATH_SLOT = 3
"""Which of a site's slots holds a path register in memory; the others save registers."""


@dataclass(frozen=True)
class Scheme:
    """What the snippets of a routine have in common.

    Attributes
    ----------
    table, addressing
        Of the plan.
    layout
        Where the counters are.
    register
        The path register, None if it lives on the stack (or is not used).
    context
        The routine.
    """

    table: Table
    addressing: Addressing | None
    layout: CounterLayout
    register: PathRegister
    context: RoutineContext

    @property
    def scale(self) -> int:
        """By how much path numbers are multiplied in the path register."""
        by_address = self.table is Table.ARRAY and self.addressing is Addressing.ADDRESS
        return COUNTER_SIZE if by_address else 1

    @property
    def offset(self) -> int:
        """What the path register holds for path number 0."""
        return self.layout.path_base if self.scale != 1 else 0


@dataclass(frozen=True)
class Body:
    """Code of an edge without its jump; `cost` instructions of it execute on each crossing."""

    instructions: tuple[Instruction, ...]
    cost: int
    hash_calls: int


def snippet_body(
    actions: Iterable[Action], scheme: Scheme, site: Site, path_slot: Slot | None = None
) -> Body:
    """Generate the code of `actions` at `site`.

    Parameters
    ----------
    path_slot
        Stack word of the path register, where `scheme.register` is None.
    """
    actions = tuple(actions)
    writer = _Writer(scheme, site, _hashes(actions, scheme), path_slot or site.slots[PATH_SLOT])
    for action in actions:
        writer.write(action)
    return writer.finish()


def _hashes(actions: Iterable[Action], scheme: Scheme) -> bool:
    counts = any(isinstance(a, CountPath | CountConstantPath) for a in actions)
    return counts and scheme.table is Table.HASH


@dataclass
class _Writer:
    """Collects instructions, and which temporaries they took."""

    scheme: Scheme
    site: Site
    hashes: bool
    path_slot: Slot
    out: list[Instruction] = field(default_factory=list)
    taken: int = 0
    hash_calls: int = 0

    def write(self, action: Action) -> None:
        """Append the code of one action."""
        match action:
            case SetRegister(constant):
                self._set(self.scheme.offset + self.scheme.scale * constant)
            case AddRegister(constant):
                self._add(self.scheme.scale * constant)
            case CountPath(constant, on_back_edge):
                self._count(constant, on_back_edge)
            case CountConstantPath(constant, on_back_edge):
                if self.scheme.table is Table.HASH:
                    self._call_hash([*self._constant(constant, R.O0)], on_back_edge)
                else:
                    self._increment(self.scheme.layout.path_counter(constant))
            case CountEdge(counter):
                self._increment(self.scheme.layout.edge_counter(counter))

    def finish(self) -> Body:
        """Return the code with its saves and restores around it."""
        code, extra = self.out, 0
        if self._keeps_conditions:
            flags = self._temporary(2)  # the first two are the call's arguments
            kept = keep(flags)
            code = [*kept, *code, *restore(flags)]
            extra = KEEP_COST + restore_cost() - len(kept) - len(restore(flags))
        saved = [r for r in dict.fromkeys(self._used()) if not self._is_dead(r)]
        slots = [slot for k, slot in enumerate(self.site.slots) if k != PATH_SLOT]
        if len(saved) > len(slots):
            raise asm.AssemblyError(f"a snippet needs {len(saved)} registers that are live")
        pairs = list(zip(saved, slots, strict=False))
        code = [self._save(*pair) for pair in pairs] + code
        code += [self._reload(*pair) for pair in pairs]
        return Body(tuple(code), len(code) + extra, self.hash_calls)

    # -- registers

    @cached_property
    def _temporaries(self) -> list[Register]:
        """Registers to use, best first: those the hashing call takes anyway, dead ones, others."""
        path = mask(self.scheme.register) if self.scheme.register is not None else 0
        hashing = HASH_REGISTERS[:2] if self.hashes else ()
        kept = self.site.live | path | mask(*HASH_REGISTERS)
        if not self.hashes:
            kept = self.site.live | path
        dead = members(~kept, self.scheme.context.abi.temporaries)
        others = members(~path & kept, LOCAL_ORDER)
        return [*hashing, *dead, *others]

    def _temporary(self, number: int) -> Register:
        self.taken = max(self.taken, number + 1)
        return self._temporaries[number]

    def _used(self) -> list[Register]:
        calls = HASH_REGISTERS if self.hashes else ()
        return [*calls, *self._temporaries[: self.taken]]

    def _is_dead(self, register: Register) -> bool:
        return not self.site.live >> register & 1

    @property
    def _keeps_conditions(self) -> bool:
        machine = self.scheme.context.machine
        return self.hashes and machine is MachineKind.SPARCV8 and self.site.keeps_conditions

    def _is_wide(self, register: Register) -> bool:
        """Whether 64 bits of a register must survive: in V8+ code those of %g and %o."""
        if self.scheme.context.is64:
            return True
        wide = self.scheme.context.machine is MachineKind.SPARCV8PLUS
        return wide and register < R.SP

    def _save(self, register: Register, slot: Slot) -> Instruction:
        mnemonic = "stx" if self._is_wide(register) else "st"
        return asm.store(mnemonic, register, slot.base, slot.offset)

    def _reload(self, register: Register, slot: Slot) -> Instruction:
        mnemonic = "ldx" if self._is_wide(register) else "ld"
        return asm.load(mnemonic, slot.base, slot.offset, register)

    def _load_path(self, register: Register) -> Instruction:
        mnemonic = "ldx" if self.scheme.context.is64 else "ld"
        return asm.load(mnemonic, self.path_slot.base, self.path_slot.offset, register)

    def _store_path(self, register: Register) -> Instruction:
        mnemonic = "stx" if self.scheme.context.is64 else "st"
        return asm.store(mnemonic, register, self.path_slot.base, self.path_slot.offset)

    # -- actions

    def _constant(self, value: int, register: Register, spare: int = 1) -> tuple[Instruction, ...]:
        """Load `value`; temporary `spare` helps where it takes more than 32 bits."""
        is64 = self.scheme.context.is64
        needs_help = is64 and not -(1 << 31) <= value < 1 << 32
        helper = self._temporary(spare) if needs_help else None
        return asm.load_constant(value, register, is64, helper)

    def _set(self, value: int) -> None:
        register = self.scheme.register
        if register is not None:
            self.out += self._constant(value, register, 0)
        elif value == 0:
            self.out.append(self._store_path(R.G0))
        else:
            first = self._temporary(0)
            self.out += [*self._constant(value, first), self._store_path(first)]

    def _add(self, value: int) -> None:
        register = self.scheme.register
        if register is not None:
            self.out += self._sum(register, value, register, 0)
        else:
            first = self._temporary(0)
            sum_ = self._sum(first, value, first, 1)
            self.out += [self._load_path(first), *sum_, self._store_path(first)]

    def _sum(self, source: Register, value: int, result: Register, spare: int) -> list[Instruction]:
        """`result = source + value`; temporary `spare` holds large values."""
        if value == 0:
            return [] if source is result else [asm.mov(source, result)]
        if fits_simm13(value):
            return [asm.arithmetic("add", source, value, result)]
        if fits_simm13(-value):
            return [asm.arithmetic("sub", source, -value, result)]
        helper = self._temporary(spare) if result is source else result
        constant = self._constant(value, helper, spare + 1)
        return [*constant, asm.arithmetic("add", source, helper, result)]

    def _count(self, constant: int, on_back_edge: bool) -> None:
        if self.scheme.table is Table.HASH:
            self._call_hash(self._key(constant), on_back_edge)
            return
        register, number = self.scheme.register, 0
        if register is None:
            register, number = self._temporary(0), 1
            self.out.append(self._load_path(register))
        if self.scheme.scale == 1:
            self._count_index(register, constant, number)
        else:
            self._count_address(register, constant, number)

    def _count_address(self, register: Register, constant: int, number: int) -> None:
        value = self._temporary(number)
        offset: Register | int = COUNTER_SIZE * constant
        if not fits_simm13(offset):
            helper = self._temporary(number + 1)
            self.out += self._constant(offset, helper, number + 2)
            offset = helper
        self._bump(register, offset, value)

    def _count_index(self, register: Register, constant: int, number: int) -> None:
        """`count[r + c]++` with the register kept; a register that was loaded serves twice."""
        address = self._temporary(number)
        scaled = register if self.scheme.register is None else self._temporary(number + 1)
        counter = self.scheme.layout.path_counter(constant)
        self.out += [
            asm.sethi(counter, address),
            asm.shift("sll", register, 2, scaled),
            asm.arithmetic("add", address, scaled, address),
        ]
        self._bump(address, counter & 0x3FF, scaled)

    def _increment(self, address: int) -> None:
        base, value = self._temporary(0), self._temporary(1)
        self.out.append(asm.sethi(address, base))
        self._bump(base, address & 0x3FF, value)

    def _bump(self, base: Register, offset: Register | int, value: Register) -> None:
        self.out += [
            asm.load("ld", base, offset, value),
            asm.arithmetic("add", value, 1, value),
            asm.store("st", value, base, offset),
        ]

    # -- hashing

    def _key(self, constant: int) -> list[Instruction]:
        """Code that leaves the path number in %o0."""
        register = self.scheme.register
        if register is not None:
            return self._sum(register, constant, R.O0, 1)
        return [self._load_path(R.O0), *self._sum(R.O0, constant, R.O0, 1)]

    def _call_hash(self, key: list[Instruction], on_back_edge: bool) -> None:
        """Call the routine; the last instruction that prepares its arguments fills the slot."""
        table = asm.load_constant(self.scheme.layout.path_base, R.O1, self.scheme.context.is64)
        *others, last = [*key, *table]
        self.out += [*others, asm.call(routine_name(on_back_edge)), last]
        self.hash_calls += 1
