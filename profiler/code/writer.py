"""Writes the code of one place: temporaries, path registers, saves, calls, conditional parts.

Terms: a *path register* is a register, or a stack word that every use loads and stores. A
*snippet* is the code of all actions of a place. *Temporaries* are registers that are dead there;
one that is not is saved before and restored behind the snippet. Each kind of action has a
*generator*, which says what its code needs and writes it (`Generator`).
Those of `plan.actions` are in `snippets_paths`, a scheme brings those of its own actions
(`schemes.definition.SchemeCode`), and `CounterAccess.generators` holds all that a routine's plan
may need; `snippet_body` makes the code of a place with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.code.frames import Site, Slot, path_words, save_slots, temporary_frame
from simprof.profiler.code.layout import CounterLayout
from simprof.profiler.code.registers import LOCAL_ORDER, Abi, mask, members
from simprof.profiler.code.runtime_code import KEEP_COST, keep, restore, restore_cost
from simprof.profiler.code.snippet_parts import (
    HASH_REGISTERS,
    Body,
    CounterAccess,
    Generator,
    Generators,
    Needs,
    PathRegister,
)
from simprof.profiler.plan.actions import Action, Landing, NoCode
from simprof.profiler.plan.plan import CounterTable
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import AssemblyError, Instruction, Register, fits_simm13, link

R = Register


class Writer(Struct, dict=True):
    """Collects instructions, and which temporaries they took.

    Attributes
    ----------
    access, site
        What the code is for, and where it goes.
    clobbers
        Registers that calls in this snippet destroy. All but %o7 are the first temporaries.
    conditions
        Whether the code changes condition codes.
    lowered
        Bytes by which the snippet has lowered %sp.
    """

    access: CounterAccess
    site: Site
    clobbers: tuple[Register, ...] = ()
    conditions: bool = False
    lowered: int = 0
    out: list[Instruction] = field(default_factory=list)
    hash_calls: int = 0
    _taken: set[int] = field(default_factory=set)
    _labels: dict[str, int] = field(default_factory=dict)
    _inside: int = 0  # instructions executed in run-time routines
    _conditional: int = 0  # of `out`, how many are in conditional parts
    _taken_costs: list[int] = field(default_factory=list)  # by action written so far
    _leaves: list[int] = field(default_factory=list)  # places in `out` of jumps out of the snippet

    # -- instructions

    def begin_action(self) -> None:
        """Note that what is written from here on belongs to the snippet's next action."""
        self._taken_costs.append(0)

    def write(self, action: Action) -> None:
        """Append the code of an action: of the snippet's next one, or as a part of that."""
        generator_of(self.access.generators, type(action)).write(self, action)

    def emit(self, *instructions: Instruction) -> None:
        """Append instructions."""
        self.out += instructions

    def new_label(self) -> str:
        """Return a name for a place in this snippet, to branch to."""
        name = f".L{len(self._labels)}."
        self._labels[name] = -1
        return name

    def place_label(self, name: str) -> None:
        """Put label `name` before the next instruction."""
        self._labels[name] = len(self.out)

    def conditional(
        self,
        condition: str,
        register: Register,
        write: Callable[[], None],
        spare: int = 0,
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """Write a part that is executed only if `register` compares as `condition` with zero."""
        # `Execution.take` notes that it is executed. An action can have one. On V8 it changes icc
        # (`Needs.conditions`).
        # `condition`: "z", "nz", "lz", "gez", "gz" or "lez": signed, 32 bits in 32-bit code.
        # `write`: Writes the part. Where there is another one, its last instruction fills the delay
        # slot of the branch around that.
        # `otherwise`: Writes what is executed in place of it if `register` does not compare so.
        # `spare`: V8+ code: temporary for a copy of the register without its upper half; may be
        # `register` itself.
        if self._taken_costs[-1]:
            raise AssemblyError("an action has two conditional parts")
        end = self.new_label()
        self._branch(_OPPOSITE[condition], register, end, spare)
        self.emit(asm.nop())
        start, inside = len(self.out), self._inside
        write()
        if otherwise is not None:
            behind = self.new_label()
            last = self.out.pop()
            self.emit(asm.branch("a", behind), last)
        self._conditional += len(self.out) - start
        self._taken_costs[-1] = len(self.out) - start + self._inside - inside
        self._inside = inside
        self.place_label(end)
        if otherwise is not None:
            start = len(self.out)
            otherwise()
            # The fixed cost has the second part, which the first one saves.
            self._taken_costs[-1] -= len(self.out) - start + self._inside - inside
            self.place_label(behind)

    def leave(self) -> None:
        """Go on in the other copy of the routine, behind the code of the same edge there."""
        # What restores registers at the end of the snippet is executed first (`_unwind`).
        self._leaves.append(len(self.out))
        self.emit(asm.branch("a", OTHER_COPY, annul=True))

    def _branch(self, condition: str, register: Register, target: str, spare: int) -> None:
        if self.access.machine is MachineKind.SPARCV8:
            self.emit(asm.cmp(register, 0), asm.branch(_ON_ICC[condition], target))
            return
        if self.access.machine is MachineKind.SPARCV8PLUS:
            copy = self.temporary(spare)
            self.emit(asm.shift("sra", register, 0, copy))
            register = copy
        self.emit(asm.branch_register(condition, register, target))

    def call(self, symbol: str, cost: int = 0) -> None:
        """Call a run-time routine; the last instruction fills the delay slot if it can."""
        # `cost`: Instructions executed in the routine, its return included; 0 where somebody else
        # counts them.
        *others, last = self.out or [asm.nop()]
        behind_transfer = bool(others) and others[-1].is_transfer
        if not self.out or last.is_transfer or behind_transfer or self._ends_open:
            self.emit(asm.call(symbol), asm.nop())
        else:
            self.out = [*others, asm.call(symbol), last]
        self._inside += cost

    @property
    def _ends_open(self) -> bool:
        return any(place == len(self.out) for place in self._labels.values())

    # -- registers

    @property
    def is64(self) -> bool:
        """Whether registers are 64 bits wide in the program's ABI."""
        return self.access.context.is64

    @property
    def machine(self) -> MachineKind:
        """What the code is for."""
        return self.access.machine

    @property
    def layout(self) -> CounterLayout:
        """Where the counters are."""
        return self.access.layout

    def temporary(self, number: int) -> Register:
        """Return temporary `number`, and note that the snippet uses it.

        Raises
        ------
        AssemblyError
            If there are not so many registers.
        """
        # In a snippet with calls the first `len(clobbers) - 1` temporaries are the registers that
        # the calls destroy, beginning with their arguments (%o0, %o1). A value in any other
        # temporary survives the calls.
        if number >= len(self._temporaries):
            raise AssemblyError(f"a snippet needs more than {len(self._temporaries)} registers")
        self._taken.add(number)
        return self._temporaries[number]

    @cached_property
    def _temporaries(self) -> tuple[Register, ...]:
        """The registers that may serve as temporaries, in the order in which they are taken."""
        # First those that a call in the snippet destroys anyway, then those that are dead here,
        # then others, which the snippet has to save and restore.
        path = mask(*(r for r in self.access.registers if r is not None))
        key = (self.site.live, path, *self.clobbers)
        known = self.access.context.temporaries
        if key not in known:
            known[key] = _ordered(self.access.context.abi, self.site.live, path, self.clobbers)
        return known[key]

    def keep_out(self, *registers: Register) -> None:
        """Never use one of `registers` as a temporary, because the code reads them."""
        # Must be called before the snippet asks for its first temporary.
        self._temporaries = tuple(r for r in self._temporaries if r not in registers)

    def _used(self) -> list[Register]:
        return [*self.clobbers, *(self._temporaries[n] for n in sorted(self._taken))]

    def _is_dead(self, register: Register) -> bool:
        return not self.site.live >> register & 1

    def _is_wide(self, register: Register) -> bool:
        """Whether 64 bits of a register must survive: in V8+ code those of %g and %o."""
        return self.is64 or (self.machine is MachineKind.SPARCV8PLUS and register < R.SP)

    # -- path registers

    def path(self, number: int = 0) -> PathRegister:
        """Return path register `number`, None if it is a stack word."""
        return self.access.registers[number]

    @cached_property
    def _words(self) -> Mapping[int, Slot]:
        inside = [k for k, register in enumerate(self.access.registers) if register is None]
        access = self.access
        words = path_words(
            self.site,
            access.context.abi,
            len(inside),
            access.mixed,
            access.layout.words_base,
            access.argument_words,
        )
        return dict(zip(inside, words, strict=True))

    def fetch(self, number: int, temporary: int) -> Register:
        """Return a register that holds path register `number`: itself, or the loaded temporary."""
        register = self.path(number)
        if register is not None:
            return register
        register = self.temporary(temporary)
        self.load_path(register, number)
        return register

    def load_path(self, register: Register, number: int = 0) -> None:
        """Copy path register `number` to `register`."""
        source = self.path(number)
        if source is not None:
            self.emit(asm.mov(source, register))
            return
        mnemonic = "ldx" if self.is64 else "ld"
        self.emit(asm.load(mnemonic, *self._address(self._words[number], register), register))

    def store_path(self, register: Register, number: int = 0) -> None:
        """Copy `register` to path register `number`."""
        target = self.path(number)
        if target is not None:
            if target is not register:
                self.emit(asm.mov(register, target))
            return
        word = self._words[number]
        helper = self.temporary(_ADDRESS) if word.base is R.G0 else R.G0
        mnemonic = "stx" if self.is64 else "st"
        self.emit(asm.store(mnemonic, register, *self._address(word, helper)))

    def _address(self, word: Slot, helper: Register) -> tuple[Register, int]:
        # The word usually lies on the stack. One that has no place there lies at a fixed address:
        # the upper part of this is loaded into `helper` first.
        if word.base is not R.G0:
            lowered = self.lowered if word.base is R.SP else 0
            return word.base, word.offset + lowered
        self.emit(asm.sethi(word.offset, helper))
        return helper, word.offset & 0x3FF

    def set_path(self, value: int, number: int = 0) -> None:
        """Write `path register = value`."""
        # `value` is taken as it is: the caller has multiplied a path number by
        # `CounterAccess.scale` and added `CounterAccess.offset`.
        register = self.path(number)
        if register is not None:
            self.constant(value, register, 0)
        elif value == 0:
            self.store_path(R.G0, number)
        else:
            first = self.temporary(0)
            self.constant(value, first)
            self.store_path(first, number)

    def add_path(self, value: int, number: int = 0) -> None:
        """Write `path register += value`; the caller has scaled `value` (`set_path`)."""
        register = self.path(number)
        if register is not None:
            self.sum(register, value, register, 0)
        else:
            first = self.temporary(0)
            self.load_path(first, number)
            self.sum(first, value, first, 1)
            self.store_path(first, number)

    # -- arithmetic and counters

    def constant(self, value: int, register: Register, spare: int = 1) -> None:
        """Load `value`; temporary `spare` helps where it takes more than 32 bits."""
        needs_help = self.is64 and not -(1 << 31) <= value < 1 << 32
        helper = self.temporary(spare) if needs_help else None
        self.emit(*asm.load_constant(value, register, self.is64, helper))

    def sum(self, source: Register, value: int, result: Register, spare: int) -> None:
        """`result = source + value`; temporaries `spare` and up hold large values."""
        if value == 0:
            self.emit(*([] if source is result else [asm.mov(source, result)]))
        elif fits_simm13(value):
            self.emit(asm.arithmetic("add", source, value, result))
        elif fits_simm13(-value):
            self.emit(asm.arithmetic("sub", source, -value, result))
        else:
            helper = self.temporary(spare) if result is source else result
            self.constant(value, helper, spare + 1)
            self.emit(asm.arithmetic("add", source, helper, result))

    def increment(self, address: int) -> None:
        """Increment the counter at `address`. Takes temporaries 0 and 1."""
        base, value = self.temporary(0), self.temporary(1)
        self.emit(asm.sethi(address, base))
        self.bump(base, address & 0x3FF, value)

    def bump(self, base: Register, offset: Register | int, value: Register) -> None:
        """Increment the counter at `base + offset`, in register `value`."""
        self.emit(
            asm.load("ld", base, offset, value),
            asm.arithmetic("add", value, 1, value),
            asm.store("st", value, base, offset),
        )

    def bump_element(
        self, counter: int, index: Register, address: Register, scaled: Register, bits: int = 0
    ) -> None:
        """Increment the counter that lies `index << bits` counters behind address `counter`."""
        # `address` and `scaled` are overwritten; `scaled` may be `index` itself.
        self.emit(
            asm.sethi(counter, address),
            asm.shift("sll", index, 2 + bits, scaled),
            asm.arithmetic("add", address, scaled, address),
        )
        self.bump(address, counter & 0x3FF, scaled)

    # -- the whole

    def finish(self) -> Body | None:
        """Return the snippet's code, with the saves and restores of registers around it."""
        # None if there are too few stack words for the saves: the snippet must then be written
        # again by a `Writer` that lowers %sp first (`lowered`).
        extra, open_end = self._inside, self._ends_open
        before: Iterable[Instruction] = ()
        after: Iterable[Instruction] = ()
        if self.conditions and self.site.keeps_conditions:
            number = max([1, *self._taken, len(self.clobbers) - 2]) + 1
            before, after, more = self._keep_conditions(self.temporary(number))
            extra, open_end = extra + more, False
        saved = [r for r in dict.fromkeys(self._used()) if not self._is_dead(r)]
        saves: list[Instruction] = []
        reloads: list[Instruction] = []
        if saved:
            in_memory, open_end = self.access.registers.count(None), False
            wide = tuple(self._is_wide(r) for r in saved)
            slots = save_slots(self.site, self.access.context.abi, wide, in_memory, self.lowered)
            if slots is None:
                return None
            pairs = list(zip(saved, slots, strict=True))
            saves, reloads = [self._save(*p) for p in pairs], [self._reload(*p) for p in pairs]
        again = self._unwind([*after, *reloads, *self._lower(self.lowered)])
        code = [*saves, *before, *self._linked(), *after, *reloads]
        return self._body(code, extra - again, open_end and not self.lowered)

    def _unwind(self, end: Sequence[Instruction]) -> int:
        """Put what ends the snippet before each jump out of it; return how many instructions."""
        # Whichever way is taken, it is executed once.
        for place in reversed(self._leaves):
            self.out[place:place] = end
            self._labels = {name: at + len(end) * (at > place) for name, at in self._labels.items()}
        return len(end) * len(self._leaves)

    def _body(self, code: list[Instruction], extra: int, open_end: bool) -> Body:
        if self.lowered:
            code = [*self._lower(-self.lowered), *code, *self._lower(self.lowered)]
        return Body(
            tuple(code),
            len(code) - self._conditional + extra,
            self.hash_calls,
            tuple(self._taken_costs) if self._conditional else (),
            open_end,
            self._inside,
        )

    def _linked(self) -> list[Instruction]:
        """Return the instructions with local branches filled in."""
        places = {name: 4 * place for name, place in self._labels.items()}
        code = []
        for index, instruction in enumerate(self.out):
            fixup = instruction.fixup
            if fixup is not None and fixup.symbol in places:
                text = instruction.text.replace(
                    fixup.symbol, f".{places[fixup.symbol] - 4 * index:+d}"
                )
                instruction = replace(link(instruction, 4 * index, places), text=text)
            code.append(instruction)
        return code

    def _keep_conditions(
        self, flags: Register
    ) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...], int]:
        """Return the code that saves the condition codes, and the code that restores them."""
        # The number says how many instructions the two execute beyond their lengths, in run-time
        # routines.
        if self.machine is not MachineKind.SPARCV8:
            kept = asm.read_state("%ccr", flags)
            return (kept,), (asm.write_state(flags, 0, "%ccr"),), 0
        before, after = keep(flags), restore(flags)
        return before, after, KEEP_COST + restore_cost() - len(before) - len(after)

    def _lower(self, change: int) -> list[Instruction]:
        return [asm.arithmetic("add", R.SP, change, R.SP)] if change else []

    def _save(self, register: Register, slot: Slot) -> Instruction:
        mnemonic = "stx" if self._is_wide(register) else "st"
        return asm.store(mnemonic, register, slot.base, slot.offset)

    def _reload(self, register: Register, slot: Slot) -> Instruction:
        mnemonic = "ldx" if self._is_wide(register) else "ld"
        return asm.load(mnemonic, slot.base, slot.offset, register)


def _ordered(
    abi: Abi, live: int, path: int, clobbers: tuple[Register, ...]
) -> tuple[Register, ...]:
    """Return temporaries where `live` and `path` are the sets of live and of path registers."""
    arguments = [r for r in clobbers if r is not R.O7]
    excluded = path | mask(*clobbers)
    dead = members(~(live | excluded), abi.temporaries)
    order = (*LOCAL_ORDER, *abi.temporaries)
    others = members(~(excluded | abi.reserved), order)
    return tuple(dict.fromkeys([*arguments, *dead, *others]))


OTHER_COPY = "other"
"""Symbol of the place behind the code of the same edge in the other copy of a routine."""
_ADDRESS = 7
"""Temporary that takes the address of a path register's word far from the stack."""
_OPPOSITE = {"z": "nz", "nz": "z", "lz": "gez", "gez": "lz", "gz": "lez", "lez": "gz"}
_ON_ICC = {"z": "e", "nz": "ne", "lz": "neg", "gez": "pos", "gz": "g", "lez": "le"}


def needs(
    actions: Iterable[Action], table: CounterTable, machine: MachineKind, generators: Generators
) -> Needs:
    """Return what the code of all of `actions` needs.

    Raises
    ------
    AssemblyError
        There is no generator for an action.
    """
    return join(
        generator_of(generators, type(action)).needed(action, table, machine) for action in actions
    )


def join(needed: Iterable[Needs]) -> Needs:
    """Return what pieces of code need together."""
    pieces = tuple(needed)
    clobbers = dict.fromkeys(register for piece in pieces for register in piece.clobbers)
    return Needs(
        any(piece.path for piece in pieces),
        tuple(clobbers),
        any(piece.conditions for piece in pieces),
        any(piece.at_transfer for piece in pieces),
    )


# Of actions without code, which no scheme brings. Path registers are live at landings.
_WITHOUT_CODE: Generators = {
    NoCode: Generator(lambda writer, action: None),
    Landing: Generator(lambda writer, action: None, Needs(path=True)),
}


def generator_of(generators: Generators, kind: type) -> Generator:
    """Return what writes actions of a kind; AssemblyError if nothing does."""
    generator = generators.get(kind) or _WITHOUT_CODE.get(kind)
    if generator is None:
        raise AssemblyError(f"there is no code for {kind.__name__}")
    return generator


def snippet_body(actions: Iterable[Action], access: CounterAccess, site: Site) -> Body:
    """Generate the code of `actions` at `site`.

    Raises
    ------
    AssemblyError
        There is no generator for an action, or it needs more registers than there are.
    """
    actions, generators = tuple(actions), access.generators
    needed = needs(actions, access.table, access.machine, generators)
    clobbers = effective_clobbers(needed, access.machine, site)
    for lowered in (0, temporary_frame(access.context.abi)):
        writer = Writer(access, site, clobbers, needed.conditions, lowered)
        for action in actions:
            writer.begin_action()
            writer.write(action)
        body = writer.finish()
        if body is not None:
            return body
    raise AssemblyError("a snippet saves more registers than its stack frame holds")


def effective_clobbers(needed: Needs, machine: MachineKind, site: Site) -> tuple[Register, ...]:
    """Return the registers that calls destroy, those included that keep V8's condition codes."""
    if needed.conditions and site.keeps_conditions and machine is MachineKind.SPARCV8:
        return tuple(dict.fromkeys((*HASH_REGISTERS[:2], *needed.clobbers, Register.O7)))
    return needed.clobbers
