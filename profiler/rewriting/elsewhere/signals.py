"""How an instrumented program writes its counters when a signal ends it.

At the start, a handler is installed for every signal whose default is to end the program, unless
whoever started the program ignores it. The program must not notice: where it asks the kernel what
is installed, it is told what would be without us. So its system calls that install handlers go
through `simprof.sigaction`, which puts our handler wherever the program has put the default, and
tells the default wherever the kernel names our handler. Flags, mask and restorer are the program's
own in either case; they are of no consequence to our handler.

`simprof.signals`    installs the handlers; called by the start, which ends with it
`simprof.signal`     the handler: writes the file (`writing`), and then the signal ends the program
`simprof.sigaction`  makes a system call that is in a copy; always in the same number of steps

A call of `simprof.sigaction` is `call_site`: it has a register window of its own, in whose input
registers are the system call's arguments.

Sources: Linux, arch/sparc/kernel/signal_64.c, signal32.c, signal_32.c (the third argument of a
handler), sys_sparc_64.c (`rt_sigaction`).
"""

from __future__ import annotations

from functools import cache

from simprof.profiler.code.counting import executed
from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.code.registers import abi, save_smallest_frame
from simprof.profiler.rewriting.elsewhere.counter_file import KILLED
from simprof.profiler.rewriting.elsewhere.parts import (
    FRAMES,
    HANDLER,
    NUMBERS,
    SIG_SETMASK,
    SIGNAL_SET_SIZE,
    Part,
    Reference,
    StartMemory,
    Stream,
    Width,
    find_base,
    resolve,
    words,
)
from simprof.profiler.rewriting.elsewhere.writing import (
    BODY,
    block_signals,
    dump_items,
    dump_outcomes,
    last_tokens,
    leave_to_the_process,
    note_end,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register
from simprof.simulator.isa.sparc import IGNORED_SIGNALS, SIGNALS, STOP_SIGNALS

R = Register

INSTALL = "simprof.signals"
HANDLE = "simprof.signal"
ACTION = "simprof.sigaction"
OVER = f"{HANDLE}.over"  # The label behind the system call that ends the program
LEAVE = f"{HANDLE}.leave"  # The label to which the handler goes where nothing is to be written

_SIGKILL = 9
# Signals that end a program by default, and that can be handled; without real-time signals.
FATAL = tuple(
    number for number in SIGNALS if number not in IGNORED_SIGNALS | STOP_SIGNALS | {_SIGKILL}
)
_MASK = sum(1 << number for number in FATAL)

CHOICES = 6  # Branches of `simprof.sigaction`; whichever way they go, it executes the same number

# Put where the kernel stores a handler, if it does: neither the default nor a handler of ours.
_UNUSED = 1
_STRUCTURE = 64  # Room on the stack for a `struct sigaction`
_RESTORER_WORD = 2
_REGISTERS_64 = 128  # from the third argument to the registers, in 64-bit programs
_O7, _PC_64, _PC_32 = 15, 17, 1  # in words from the registers; 32-bit programs: psr, pc, npc, y
_HEAD_32 = 4


def call_site(machine: MachineKind) -> list[Instruction]:
    """Return what stands in a copy in place of the trap of such a system call."""
    frame = abi(machine is MachineKind.SPARCV9).minimum_frame + _STRUCTURE
    return [
        asm.arithmetic("save", R.SP, -frame, R.SP),
        asm.call(ACTION),
        asm.mov(R.G1, R.L0),
    ]


def signal_items(machine: MachineKind, memory: StartMemory) -> tuple[Item, ...]:
    """Return the code, to be assembled within reach of that of `writing`.

    Where no handler is installed, `simprof.sigaction` changes nothing.
    """
    width = Width(machine)
    parts: list[Part] = [
        *_install(width),
        *_handle(width, memory.trace),
        *_action(width),
        *words(f"{INSTALL}.fatal", FATAL),
        Label(f"{INSTALL}.fatal_end"),
    ]
    return resolve(parts, f"{INSTALL}.base")


def _install(width: Width) -> list[Part]:
    """Install the handler where the default is; as many steps whatever is installed.

    The frames' room in memory holds the structure. It is a leaf, in the window of the start.
    """
    back, handler, at, end, room = R.L7, R.L3, R.L4, R.L5, R.L6
    return [
        Label(INSTALL),
        asm.mov(R.O7, back),
        *find_base(f"{INSTALL}.base"),
        Reference(HANDLE, handler),
        asm.sethi(RUNTIME_DATA, room),
        width.store(handler, room, HANDLER),
        asm.sethi(FRAMES, room),
        Reference(f"{INSTALL}.fatal", at),
        Reference(f"{INSTALL}.fatal_end", end),
        asm.mov(0, R.O3),
        asm.mov(SIGNAL_SET_SIZE, R.O4),
        Label(f"{INSTALL}.next"),
        asm.load("ld", at, 0, R.O0),
        *width.call("rt_sigaction", None, 0, room),
        width.load(room, 0, R.O5),
        width.store(handler, room, 0),
        asm.cmp(R.O5, 0),
        *_choose(width, "e", f"{INSTALL}.default", room, R.G0, R.O1),
        asm.load("ld", at, 0, R.O0),
        *width.call("rt_sigaction", None, None, 0),
        asm.arithmetic("add", at, 4, at),
        asm.cmp(at, end),
        asm.branch("ne", f"{INSTALL}.next"),
        asm.nop(),
        asm.jmpl(back, 8, R.G0),
        asm.nop(),
    ]


def _choose(
    width: Width, condition: str, label: str, then: Register, otherwise: Register, to: Register
) -> list[Item]:
    """Leave one of two registers in a third by a comparison of pointers, in two steps always."""
    if width.is64:
        branch = asm.branch_predicted(condition, "%xcc", label, annul=True)
    else:
        branch = asm.branch(condition, label, annul=True)
    return [branch, asm.mov(then, to), asm.mov(otherwise, to), Label(label)]


# -- the handler


def _handle(width: Width, trace: Stream | None) -> list[Part]:
    """Write the file, then die of the signal.

    The first words of the stack in the file are made here, by windows: the address of the
    interrupted instruction plus 1, then its %o7. As elsewhere %i7 of the frames follow.
    """
    registers, sig = R.L0, R.I0
    where = _PC_64 if width.is64 else _PC_32
    o7 = _O7 if width.is64 else _HEAD_32 + _O7
    return [
        Label(HANDLE),
        save_smallest_frame(width.machine),
        asm.arithmetic("add", R.I2, _REGISTERS_64 if width.is64 else 0, registers),
        width.load(registers, where * width.word, R.O7),
        width.load(registers, o7 * width.word, R.I7),
        asm.arithmetic("or", R.O7, 1, R.O7),
        asm.mov(sig, R.O0),
        save_smallest_frame(width.machine),
        asm.mov(NUMBERS["exit_group"], R.L0),
        *leave_to_the_process(width, R.L0, LEAVE, HANDLE),
        *note_end(KILLED, sig),
        *block_signals(width),
        *(last_tokens(trace) if trace else []),
        asm.call(BODY),
        asm.nop(),
        Label(LEAVE),
        # the default again
        asm.sethi(FRAMES, R.O1),
        *(asm.store("st", R.G0, R.O1, offset) for offset in range(0, 32, 4)),
        *width.call("rt_sigaction", sig, None, 0, 0, SIGNAL_SET_SIZE),
        *_die(width, sig),
    ]


def _die(width: Width, sig: Register) -> list[Part]:
    """Let the signal, and no other, end the program."""
    low, high = (4, 0) if width.is64 else (0, 4)
    return [
        asm.mov(1, R.O4),
        asm.arithmetic("sub", sig, 1, R.O5),
        asm.shift("sll", R.O4, R.O5, R.O5),
        asm.arithmetic("xnor", R.O5, R.G0, R.O5),
        asm.mov(-1, R.O4),
        asm.store("st", R.O5, R.O1, low),
        asm.store("st", R.O4, R.O1, high),
        *width.call("rt_sigprocmask", SIG_SETMASK, None, None, SIGNAL_SET_SIZE),
        *width.call("getpid"),
        *width.call("kill", None, sig),
        Label(OVER),
        asm.arithmetic("add", sig, 128, R.O0),  # it was blocked by another thread, say
        *width.call("exit_group"),
    ]


# -- system calls that install handlers


def _action(width: Width) -> list[Part]:
    """Make the call, say nothing of our handler, and put it in the place of the default.

    The call is made with the program's own pointers, so that the kernel says what is wrong with
    them; what it has written to can be written to again. Whether our handler is wanted is asked of
    the kernel, too: the program may have had both structures at one place.
    """
    number, room, carry, old, ours, result = R.L0, R.L1, R.L3, R.L4, R.L5, R.L7
    frame = abi(width.is64).minimum_frame
    return [
        Label(ACTION),
        asm.arithmetic("add", R.SP, width.bias + frame, room),
        asm.mov(_UNUSED, R.O0),
        width.store(R.O0, room, 0),
        *(asm.mov(Register(R.I0 + k), Register(R.O0 + k)) for k in range(6)),
        width.trap,
        *_choose(width, "cs", f"{ACTION}.failed", room, R.I2, old),
        asm.mov(R.O0, result),
        *(width.keep(carry) or [asm.arithmetic("addc", R.G0, R.G0, carry)]),
        asm.cmp(old, 0),
        *_choose(width, "e", f"{ACTION}.unasked", room, old, old),
        asm.sethi(RUNTIME_DATA, ours),
        width.load(ours, HANDLER, ours),
        width.load(old, 0, R.O5),
        asm.cmp(R.O5, ours),
        *_choose(width, "e", f"{ACTION}.ours", R.G0, R.O5, R.O5),
        width.store(R.O5, old, 0),
        # the older call's numbers may be negative
        asm.shift("sra", R.I0, 0, R.I0),
        asm.shift("sra", R.I0, 31, R.O5),
        asm.arithmetic("xor", R.I0, R.O5, R.I0),
        asm.arithmetic("sub", R.I0, R.O5, R.I0),
        *_stand_again(width, room, ours),
        asm.mov(number, R.G1),
        *(width.put_back(carry) or [asm.arithmetic("subcc", R.G0, carry, R.G0)]),
        asm.mov(result, R.I0),
        asm.retl(),
        asm.restore(),
    ]


def _stand_again(width: Width, room: Register, ours: Register) -> list[Part]:
    """Install our handler if the default is there and ends the program."""
    wanted = R.O5
    return [
        asm.mov(_UNUSED, R.O0),
        width.store(R.O0, room, 0),
        *width.call("rt_sigaction", R.I0, 0, room, 0, SIGNAL_SET_SIZE),
        width.load(room, 0, R.O1),
        width.store(ours, room, 0),
        *asm.load_constant(_MASK, wanted, False),
        asm.shift("srl", wanted, R.I0, wanted),
        asm.arithmetic("and", wanted, 1, wanted),
        asm.cmp(R.I0, 31),
        *_choose(width, "gu", f"{ACTION}.beyond", R.G0, wanted, wanted),
        asm.cmp(R.O1, 0),
        *_choose(width, "ne", f"{ACTION}.other", R.G0, wanted, wanted),
        asm.cmp(wanted, 0),
        *_choose(width, "ne", f"{ACTION}.again", room, R.G0, R.O1),
        asm.mov(R.I0, R.O0),
        asm.mov(0, R.O2),
        width.load(room, _RESTORER_WORD * width.word, R.O3),
        *width.call("rt_sigaction"),
    ]


def signal_cost(machine: MachineKind, memory: StartMemory, header: bytes, frames: int) -> int:
    """Return the instructions from `simprof.signal` to the system call that ends the program.

    That one is counted.
    """
    # frames: Words of the stack in the file, at least 2.
    items = [*signal_items(machine, memory), *dump_items(machine, memory, header)]
    own = (False, True)  # the process that was started, and its first thread
    last = (False, False) if memory.trace else ()
    outcomes = dump_outcomes(machine, memory, frames, False)
    return executed(items, (*own, *last, *outcomes), HANDLE, OVER)


@cache
def action_cost(machine: MachineKind) -> int:
    """Return the instructions of `signals.call_site` and what it calls, but for its first trap.

    That one the program makes, too.
    """
    items = signal_items(machine, StartMemory((), signals=True))
    return len(call_site(machine)) + executed(items, (True,) * CHOICES, ACTION) - 1
