"""Parts of the code that an instrumented program executes at its start and exit; memory; cost.

The code finds its data relative to a *base*, the address of one of its own instructions that a
`call` leaves in %o7, so that it can lie anywhere. Where the program cannot go on as the original
would, it ends with one line and status 125 (`refusal_items`).

`RUNTIME_DATA` is shared with the run-time routines (`layout`); what the start and the exit of an
instrumented program keep there:

======  ==========  =============================================================
offset  name        contents
======  ==========  =============================================================
0       stack       %sp at the program's start: where walks of the stack end
8       length      bytes of `name`
12      process     the number of the process that the program started as
16      target      address of the name that is opened: `part`, or that of a device
24      handler     address of our handler of signals
32      end         how the process ends (`counter_file`)
0x1000  name        the counter file's name, ended by a zero
0x2000  part        the name that it has until it is complete
0x3400  frames      words of the stack's frames on their way to the file
======  ==========  =============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.code.registers import abi
from simprof.profiler.rewriting.elsewhere.counter_file import FileRegion
from simprof.profiler.schemes.definition import StreamBuffer
from simprof.simulator.binary.program import PAGE_SIZE, MachineKind, page_up
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register
from simprof.simulator.isa.sparc import (
    O_CREAT,
    O_TRUNC,
    SYSTEM_CALL_TRAP,
    SYSTEM_CALLS_64,
)

R = Register

# Numbers of system calls by name; those that are used here are the same in both widths.
NUMBERS = {name: number for number, name in SYSTEM_CALLS_64.items()}
BASE = R.L2  # The register that holds the base
_ARGUMENTS = (R.O0, R.O1, R.O2, R.O3, R.O4, R.O5)
# Of `rt_sigprocmask`, SPARC's number; bytes of a set of signals.
SIG_SETMASK, SIGNAL_SET_SIZE = 4, 8
_PERMISSIONS = 0o666  # Of a file that is made
_O_WRONLY = 1
_O_LARGEFILE = 0x40000
_REFERENCE_SIZE = 3
_FLUSH_WINDOWS = 0x81580000
_FLUSH_TRAP = 3


class Reference(Struct, frozen=True):
    """Stands for the instructions that leave the address of `label` in `register`."""

    label: str
    register: Register


Part = Item | Reference


class Width(Struct, frozen=True):
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

    def call(self, name: str, *arguments: int | None) -> list[Item]:
        """Make a system call of registers and constants; None: what is in its place already."""
        items: list[Item] = []
        for place, argument in zip(_ARGUMENTS, arguments, strict=False):
            if isinstance(argument, Register):
                items.append(asm.mov(argument, place))
            elif argument is not None:
                items += constant(argument, place)
        return [*items, asm.mov(NUMBERS[name], R.G1), self.trap]

    def open(self, name: int | None) -> list[Item]:
        """Open a file to be written anew."""
        flags = _O_WRONLY | O_CREAT | O_TRUNC | (0 if self.is64 else _O_LARGEFILE)
        return self.call("open", name, flags, _PERMISSIONS)

    def say(self, label: str, message: bytes) -> list[Part]:
        """Write a message, whose text is at a label, to standard error."""
        where = Reference(label, R.O1)
        return [asm.mov(2, R.O0), where, asm.mov(len(message), R.O2), *self.call("write")]

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
            distance = places[part.label] - places[base]
            items += [  # always as many instructions, `_REFERENCE_SIZE`
                asm.sethi(distance, part.register),
                asm.arithmetic("or", part.register, distance & 0x3FF, part.register),
                asm.arithmetic("add", BASE, part.register, part.register),
            ]
        else:
            items.append(part)
    return tuple(items)


Auxiliary = tuple[tuple[int, int], ...]  # Keys of the auxiliary vector with their values

RUNTIME_DATA_SIZE = 0x4000
START_STACK = 0
NAME_LENGTH = 8
PROCESS = 12
TARGET = 16
HANDLER = 24
END = 32
NAME = RUNTIME_DATA + 0x1000
PART = RUNTIME_DATA + 0x2000
FRAMES = RUNTIME_DATA + 0x3400
FRAMES_END = RUNTIME_DATA + RUNTIME_DATA_SIZE
LONGEST_NAME = 4000  # Bytes of the longest name; Linux takes 4,095


class Stream(Struct, frozen=True):
    """The buffer through which a trace is written."""

    buffer: StreamBuffer
    packed: bool  # Whether code appends bits, else whole bytes

    @property
    def units(self) -> int:
        """How many bits or bytes fill it."""
        return self.buffer.size * (8 if self.packed else 1)


class StartMemory(Struct, frozen=True):
    """What the start of an instrumented program maps and fills, and what its end writes."""

    # (address, size in bytes) of the memory to map; all below 2 GB.
    regions: tuple[tuple[int, int], ...]
    # (address, contents) of what is not zero in it at first, in words
    fills: tuple[tuple[int, bytes], ...] = ()
    dumped: tuple[FileRegion, ...] = ()  # What the counter file holds, in its order
    trace: Stream | None = None  # Through what a trace is written; None: there is none.
    # What the program shall see in its auxiliary vector, whatever the kernel has put there; each
    # key is there once.
    auxiliary: Auxiliary = ()
    signals: bool = False  # Whether the file is written when a signal ends the program, too


class WordRun(Struct, frozen=True):
    """`count` equal words from `address` on."""

    address: int
    word: int
    count: int


def mapped(memory: StartMemory) -> list[tuple[int, int]]:
    """Return (address, size) of what to map: disjoint runs of whole pages, by address."""
    regions = [*memory.regions, (RUNTIME_DATA, RUNTIME_DATA_SIZE)]
    if memory.trace is not None:
        buffer = memory.trace.buffer
        regions.append((buffer.start, buffer.size + buffer.descriptor + 4))
    runs: list[tuple[int, int]] = []
    for address, size in sorted(regions):
        start, end = address // PAGE_SIZE * PAGE_SIZE, page_up(address + size)
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        elif size:
            runs.append((start, end))
    return [(start, end - start) for start, end in runs]


def filled(memory: StartMemory) -> list[WordRun]:
    """Return the fills as runs of equal words; memory that is mapped afresh holds zeros."""
    return [run for address, data in memory.fills for run in _runs(address, data)]


def _runs(address: int, data: bytes) -> Iterator[WordRun]:
    if address % 4 or len(data) % 4:
        raise ValueError(f"the fill at {address:#x} is not made of words")
    stored = np.frombuffer(data, dtype=">u4")
    starts = np.flatnonzero(np.diff(stored, prepend=stored[:1] + 1))
    counts = np.diff(starts, append=len(stored))
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        if word := int(stored[start]):
            yield WordRun(address + 4 * start, word, count)


UNFORESEEN = "simprof.unforeseen"
REWRITES = "simprof.rewrites"
TEXTS = {
    UNFORESEEN: b"simprof: a jump leads where no run has shown it to lead: instrument the program "
    b"with a run like this one, or without one\n",
    REWRITES: b"simprof: the program changes its own code, whose copy would not change: it cannot "
    b"run instrumented\n",
}
STATUS = 125


def refusal_items(machine: MachineKind) -> tuple[Item, ...]:
    """Return the code of all refusals, to be assembled anywhere."""
    width = Width(machine)
    items: list[Item] = []
    for label, message in TEXTS.items():
        parts: list[Part] = [
            Label(label),
            *find_base(f"{label}.base"),
            *width.say(f"{label}.text", message),
            *width.call("exit_group", STATUS),
            *text(f"{label}.text", message),
        ]
        items += resolve(parts, f"{label}.base")
    return tuple(items)
