"""Parts that the start and the end of an instrumented program are made of.

The code finds its data relative to a *base*, the address of one of its own instructions that a
`call` leaves in %o7, so that it can lie anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simprof.profiler.code.registers import abi
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register
from simprof.simulator.isa.sparc import O_CREAT, O_TRUNC, SYSTEM_CALL_TRAP

R = Register

OPEN, WRITE, CLOSE, UNLINK, MMAP, FCNTL, RENAME, EXIT_GROUP = 5, 4, 6, 10, 71, 92, 128, 188
KILL, RT_SIGACTION, RT_SIGPROCMASK = 37, 102, 103
GETPID, GETTID, STAT64 = 20, 143, 139
"""SPARC Linux's numbers of system calls, the same in both widths."""
BASE = R.L2
"""The register that holds the base."""
SIG_SETMASK, SIGNAL_SET_SIZE = 4, 8
"""Of `rt_sigprocmask`, SPARC's number; bytes of a set of signals."""
PERMISSIONS = 0o666
"""Of a file that is made."""
_O_WRONLY = 1
_O_LARGEFILE = 0x40000
_REFERENCE_SIZE = 3
_FLUSH_WINDOWS = 0x81580000
_FLUSH_TRAP = 3


@dataclass(frozen=True)
class Reference:
    """Stands for the instructions that leave the address of `label` in `register`."""

    label: str
    register: Register


Part = Item | Reference


@dataclass(frozen=True)
class Width:
    """What differs between the machines."""

    machine: MachineKind

    @property
    def is64(self) -> bool:
        """Whether pointers have 64 bits."""
        return self.machine is MachineKind.SPARCV9

    @property
    def word(self) -> int:
        """Bytes of a pointer."""
        return 8 if self.is64 else 4

    @property
    def bias(self) -> int:
        """What %sp is off by."""
        return abi(self.is64).bias

    @property
    def trap(self) -> Instruction:
        """The trap of system calls."""
        return asm.trap_always(SYSTEM_CALL_TRAP[self.is64])

    def load(self, base: Register, offset: int, to: Register) -> Instruction:
        """Load a pointer."""
        return asm.load("ldx" if self.is64 else "ld", base, offset, to)

    def store(self, register: Register, base: Register, offset: int) -> Instruction:
        """Store a pointer."""
        return asm.store("stx" if self.is64 else "st", register, base, offset)

    def branch(self, condition: str, target: str) -> Instruction:
        """Branch on a comparison of pointers, or on a system call's carry.

        64-bit programs look at xcc: Linux sets carry in both, qemu-user only there.
        """
        if self.is64:
            return asm.branch_predicted(condition, "%xcc", target)
        return asm.branch(condition, target)

    def call(self, number: int) -> list[Item]:
        """Make a system call."""
        return [asm.mov(number, R.G1), self.trap]

    def keep(self, flags: Register) -> list[Item]:
        """Keep the condition codes; V8 has no instruction for it."""
        if self.machine is MachineKind.SPARCV8:
            return []
        return [asm.read_state("%ccr", flags)]

    def put_back(self, flags: Register) -> list[Item]:
        """Undo `keep`."""
        if self.machine is MachineKind.SPARCV8:
            return []
        return [asm.write_state(flags, 0, "%ccr")]


def to_write(width: Width) -> int:
    """Return the flags with which a file is opened that is written anew."""
    return _O_WRONLY | O_CREAT | O_TRUNC | (0 if width.is64 else _O_LARGEFILE)


def flush_windows(machine: MachineKind) -> Instruction:
    """Return what stores all windows but the current one on the stack."""
    if machine is MachineKind.SPARCV8:
        return asm.trap_always(_FLUSH_TRAP)
    return Instruction("flushw", _FLUSH_WINDOWS)


def constant(value: int, register: Register) -> list[Item]:
    """Leave a constant of 31 bits or a small negative one in a register."""
    return [*asm.load_constant(value, register, value >= 0)]


def find_base(label: str) -> list[Item]:
    """Leave the base, the address of the call at `label`, in its register."""
    return [
        Label(label),
        asm.call(f"{label}.known"),
        asm.nop(),
        Label(f"{label}.known"),
        asm.mov(R.O7, BASE),
    ]


def words(label: str, values: Iterable[int]) -> list[Item]:
    """Return data: words, with a label."""
    return [Label(label), *map(asm.data_word, values)]


def text(label: str, data: bytes) -> list[Item]:
    """Return data: bytes, filled up with zeros to whole words."""
    whole = data + bytes(-len(data) % 4)
    return words(label, (int.from_bytes(whole[k : k + 4], "big") for k in range(0, len(whole), 4)))


def resolve(parts: Sequence[Part], base: str) -> tuple[Item, ...]:
    """Return the items in which instructions have taken the places of references."""
    places: dict[str, int] = {}
    position = 0
    for part in parts:
        if isinstance(part, Label):
            places[part.name] = position
        else:
            position += 4 * (_REFERENCE_SIZE if isinstance(part, Reference) else 1)
    items: list[Item] = []
    for part in parts:
        if isinstance(part, Reference):
            items += _refer(places[part.label] - places[base], part.register)
        else:
            items.append(part)
    return tuple(items)


def _refer(distance: int, register: Register) -> list[Item]:
    """Add a distance to the base; always in as many instructions."""
    return [
        asm.sethi(distance, register),
        asm.arithmetic("or", register, distance & 0x3FF, register),
        asm.arithmetic("add", BASE, register, register),
    ]
