"""How an instrumented program starts: its counters' memory, and where to write them.

The code at `simprof.start` has a register window of its own and uses no memory of the stack. Steps:

1. `_map`: memory for the counters, at the fixed addresses of `layout`; where something else lies
   there, the program ends with one line and status 125.
2. `_fill`: what is not zero in it at first (hash tables, owners of pairs).
3. `find_name`, `copy_name`: the value of SIMPROF_OUT, or `simprof.out`, is copied, because programs
   write over their environment.
4. `restore_auxiliary`: where the kernel tells about the file's headers and entry, it tells what it
   would have told of the original program.
5. `open_trace`: for traces, `$SIMPROF_OUT.trace` is opened, and its descriptor moved out of the
   way of those that the program will get.
6. `note_process`: the file's name until it is complete has letters of the process's number.
7. `signals`: what is to be done when a signal ends the program.
8. `_leave`: all registers get back what they held, and the program starts at `simprof.entry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from simprof.profiler.code.counting import executed
from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.code.registers import save_smallest_frame
from simprof.profiler.rewriting.elsewhere.parts import (
    LONGEST_NAME,
    NAME,
    NAME_LENGTH,
    PART,
    START_STACK,
    STATUS,
    Auxiliary,
    Part,
    Reference,
    StartMemory,
    Stream,
    Width,
    constant,
    filled,
    find_base,
    mapped,
    resolve,
    text,
    words,
)
from simprof.profiler.rewriting.elsewhere.signals import FATAL, INSTALL, signal_items
from simprof.profiler.rewriting.elsewhere.writing import note_process
from simprof.simulator.binary.program import MachineKind, Program
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import MASK32, Item, Label, Register
from simprof.simulator.isa.sparc import (
    MAP_ANONYMOUS,
    MAP_FIXED_NOREPLACE,
    MAP_PRIVATE,
    WINDOW_SAVE_WORDS,
)
from simprof.simulator.linux.process import AUXILIARY_KEYS, program_auxiliary

R = Register

ENTRY = "simprof.entry"
VARIABLE = b"SIMPROF_OUT="
DEFAULT_NAME = b"simprof.out"
PART_SUFFIX = b".part"

_NO_MEMORY = b"simprof: the memory of the counters is not free: the program cannot run\n"
_READ_AND_WRITE = 3
_MAP_NORESERVE = 0x40

_G1, _FLAGS = R.L0, R.L1  # and %l2 for the base


def original_auxiliary(program: Program) -> Auxiliary:
    """Return what `program` shall see of itself in its auxiliary vector when it is instrumented.

    What would depend on where a position-independent program is loaded is left out.
    """
    if program.load_bias:
        return ()
    return tuple(program_auxiliary(program).items())


def start_items(machine: MachineKind, memory: StartMemory) -> tuple[Item, ...]:
    """Return the code of the start, to be assembled; it jumps to symbol `simprof.entry`.

    It can be put anywhere within a branch's reach of that symbol.
    """
    width, auxiliary = Width(machine), memory.auxiliary
    runs = filled(memory)
    parts: list[Part] = [
        Label(START),
        save_smallest_frame(machine),
        asm.mov(R.G1, _G1),
        *width.keep(_FLAGS),
        *find_base(f"{START}.base"),
        *_map(width),
        *(_fill() if runs else []),
        *find_name(width),
        *(restore_auxiliary(width, auxiliary) if auxiliary else []),
        *copy_name(),
        *(open_trace(width, memory.trace) if memory.trace else []),
        *note_process(width, END),
        *append(PART_SUFFIX),
        *([asm.call(INSTALL), asm.nop()] if memory.signals else []),
        *_leave(width),
        Label(f"{START}.refuse"),
        *width.say(f"{START}.no_memory", _NO_MEMORY),
        *width.call("exit_group", STATUS),
        *words(f"{START}.auxiliary", (w for _, v in auxiliary for w in (v >> 32, v & MASK32))),
        *text(f"{START}.no_memory", _NO_MEMORY),
        *(text(f"{START}.no_trace", _NO_TRACE) if memory.trace else []),
        *text(f"{START}.variable", VARIABLE + b"\0"),
        *text(f"{START}.default", DEFAULT_NAME + b"\0"),
        *words(f"{START}.mapped", (w for run in mapped(memory) for w in run)),
        Label(f"{START}.mapped_end"),
        *words(f"{START}.filled", (w for r in runs for w in (r.address, r.word, r.count))),
        Label(f"{START}.filled_end"),
    ]
    return resolve(parts, f"{START}.base")


def _map(width: Width) -> list[Part]:
    """Map every run of pages (step 1)."""
    flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | _MAP_NORESERVE
    return [
        Reference(f"{START}.mapped", AT),
        Reference(f"{START}.mapped_end", END),
        Label(f"{START}.map"),
        asm.load("ld", AT, 0, WHERE),
        asm.load("ld", AT, 4, R.O1),
        *width.call("mmap", WHERE, None, _READ_AND_WRITE, flags, -1, 0),
        asm.cmp(R.O0, WHERE),  # the number of an error is no such address
        asm.branch("ne", f"{START}.refuse"),
        asm.arithmetic("add", AT, 8, AT),
        asm.cmp(AT, END),
        asm.branch("ne", f"{START}.map"),
        asm.nop(),
    ]


def _fill() -> list[Part]:
    """Store every run of words (step 2)."""
    return [
        Reference(f"{START}.filled", AT),
        Reference(f"{START}.filled_end", END),
        Label(f"{START}.fill"),
        asm.load("ld", AT, 0, WHERE),
        asm.load("ld", AT, 4, R.O0),
        asm.load("ld", AT, 8, R.O1),
        Label(f"{START}.word"),
        asm.store("st", R.O0, WHERE, 0),
        asm.arithmetic("subcc", R.O1, 1, R.O1),
        asm.branch("ne", f"{START}.word"),
        asm.arithmetic("add", WHERE, 4, WHERE),
        asm.arithmetic("add", AT, 12, AT),
        asm.cmp(AT, END),
        asm.branch("ne", f"{START}.fill"),
        asm.nop(),
    ]


def _leave(width: Width) -> list[Part]:
    """Give all registers back (step 8).

    What the window of the start held is cleared: fresh windows hold zeros. V8 code cannot read the
    flags, which Linux clears.
    """
    clear = [r for r in Register if R.O0 <= r <= R.L7 and r is not R.SP]
    flags = width.put_back(_FLAGS) or [asm.arithmetic("orcc", R.G0, 1, R.G0)]
    return [
        asm.mov(_G1, R.G1),
        *flags,
        *(asm.mov(0, register) for register in clear),
        asm.branch("a", ENTRY),
        asm.restore(),
    ]


START = "simprof.start"
# Registers in which the steps of the start keep addresses.
AT, END, WHERE, DATA = R.L4, R.L5, R.L6, R.L3


def find_name(width: Width) -> list[Part]:
    """Leave the address of the name in a register, and %sp in its word (step 3).

    Behind the register window's place on the stack stand argc, argv, 0, the environment, 0, and the
    auxiliary vector, whose address is left in another register.
    """
    arguments = width.bias + WINDOW_SAVE_WORDS * width.word
    return [
        asm.sethi(RUNTIME_DATA, DATA),
        width.store(R.FP, DATA, START_STACK),
        width.load(R.FP, arguments, R.O0),
        asm.shift("sll", R.O0, 3 if width.is64 else 2, R.O0),
        asm.arithmetic("add", R.FP, arguments + 2 * width.word, AT),
        asm.arithmetic("add", AT, R.O0, AT),
        Reference(f"{START}.variable", END),
        Label(f"{START}.string"),
        width.load(AT, 0, R.O0),
        asm.cmp(R.O0, 0),
        width.branch("e", f"{START}.none"),
        asm.arithmetic("add", AT, width.word, AT),
        asm.mov(0, R.O1),
        Label(f"{START}.character"),
        asm.load("ldub", END, R.O1, R.O2),
        asm.cmp(R.O2, 0),
        asm.branch("e", f"{START}.matched"),
        asm.load("ldub", R.O0, R.O1, R.O3),
        asm.cmp(R.O2, R.O3),
        asm.branch("e", f"{START}.character"),
        asm.arithmetic("add", R.O1, 1, R.O1),
        asm.branch("a", f"{START}.string"),
        asm.nop(),
        Label(f"{START}.matched"),
        asm.cmp(R.O3, 0),
        asm.branch("ne", f"{START}.rest"),
        asm.arithmetic("add", R.O0, R.O1, WHERE),
        Reference(f"{START}.default", WHERE),
        Label(f"{START}.rest"),
        width.load(AT, 0, R.O0),
        asm.cmp(R.O0, 0),
        width.branch("ne", f"{START}.rest"),
        asm.arithmetic("add", AT, width.word, AT),
        asm.branch("a", f"{START}.named"),
        asm.nop(),
        Label(f"{START}.none"),
        Reference(f"{START}.default", WHERE),
        Label(f"{START}.named"),
    ]


def restore_auxiliary(width: Width, auxiliary: Auxiliary) -> list[Part]:
    """Go through the auxiliary vector, and store over some of its values (step 4).

    It ends behind the last of them, or at AT_NULL: kernels differ in what else the vector has.
    """
    left = R.O3
    code: list[Part] = [
        Reference(f"{START}.auxiliary", END),
        asm.mov(len(auxiliary), left),
        Label(f"{START}.pair"),
        width.load(AT, 0, R.O0),
        asm.cmp(R.O0, 0),
        width.branch("e", f"{START}.restored"),
    ]
    for index, (key, _) in enumerate(auxiliary):
        code += [
            asm.cmp(R.O0, key),  # the first one in the delay slot: it is of no consequence there
            width.branch("ne", f"{START}.not_{index}"),
            asm.load("ld", END, 8 * index + 4, R.O1),
        ]
        if width.is64:
            code += [
                asm.load("ld", END, 8 * index, R.O2),
                asm.shift("sllx", R.O2, 32, R.O2),
                asm.arithmetic("or", R.O1, R.O2, R.O1),
            ]
        code += [
            asm.arithmetic("subcc", left, 1, left),
            asm.branch("ne", f"{START}.next"),
            width.store(R.O1, AT, width.word),
            asm.branch("a", f"{START}.restored"),
            asm.nop(),
            Label(f"{START}.not_{index}"),
        ]
    return [
        *code,
        Label(f"{START}.next"),
        asm.branch("a", f"{START}.pair"),
        asm.arithmetic("add", AT, 2 * width.word, AT),
        Label(f"{START}.restored"),
    ]


def copy_name() -> list[Part]:
    """Copy the name twice; a name that is too long leaves none of which a file can be made."""
    return [
        asm.sethi(NAME, AT),
        asm.sethi(PART, END),
        asm.mov(0, R.O1),
        Label(f"{START}.copy"),
        asm.load("ldub", WHERE, R.O1, R.O2),
        asm.store("stb", R.O2, AT, R.O1),
        asm.cmp(R.O2, 0),
        asm.branch("e", f"{START}.copied"),
        asm.store("stb", R.O2, END, R.O1),
        asm.arithmetic("add", R.O1, 1, R.O1),
        asm.cmp(R.O1, LONGEST_NAME),
        asm.branch("l", f"{START}.copy"),
        asm.nop(),
        asm.store("stb", R.G0, END, 0),
        Label(f"{START}.copied"),
        asm.store("st", R.O1, DATA, NAME_LENGTH),
        asm.arithmetic("add", END, R.O1, END),
    ]


def append(suffix: bytes) -> list[Part]:
    """Store a suffix behind the copy that `PART` is."""
    code: list[Part] = []
    for offset, byte in enumerate(suffix):
        code += [asm.mov(byte, R.O2), asm.store("stb", R.O2, END, offset)]
    return [*code, asm.store("stb", R.G0, END, len(suffix))]


TRACE_SUFFIX = b".trace"
_NO_TRACE = b"simprof: cannot write the trace beside the profile: no trace\n"
_F_DUPFD_CLOEXEC = 1030
_HIGH_DESCRIPTOR = 512


def open_trace(width: Width, trace: Stream) -> list[Part]:
    """Open the trace, move its descriptor, and begin an empty buffer (step 5)."""
    file, wanted, buffer = AT, WHERE, trace.buffer
    return [
        *append(TRACE_SUFFIX),
        *width.open(PART),
        width.branch("cs", f"{START}.untraced"),
        asm.mov(R.O0, file),
        asm.mov(_HIGH_DESCRIPTOR, wanted),
        Label(f"{START}.move"),
        *width.call("fcntl", file, _F_DUPFD_CLOEXEC, wanted),
        width.branch("cc", f"{START}.moved"),
        asm.shift("srl", wanted, 1, wanted),
        asm.cmp(wanted, 0),
        asm.branch("ne", f"{START}.move"),
        asm.nop(),
        asm.branch("a", f"{START}.opened"),
        asm.nop(),
        Label(f"{START}.untraced"),
        *width.say(f"{START}.no_trace", _NO_TRACE),
        asm.branch("a", f"{START}.opened"),
        asm.mov(-1, file),
        Label(f"{START}.moved"),
        asm.mov(R.O0, wanted),
        *width.call("close", file),
        asm.mov(wanted, file),
        Label(f"{START}.opened"),
        asm.sethi(buffer.end, R.O0),
        asm.store("st", file, R.O0, buffer.descriptor),
        *constant(-trace.units, R.O1),
        asm.store("st", R.O1, R.O0, buffer.position),
    ]


def chosen_name(environment: Sequence[bytes]) -> bytes:
    """Return the counter file's name, given the environment's strings in their order."""
    for entry in environment:
        if entry.startswith(VARIABLE):
            return entry[len(VARIABLE) :] or DEFAULT_NAME
    return DEFAULT_NAME


def start_cost(
    machine: MachineKind,
    memory: StartMemory,
    # `NAME=value` strings, in the order in which the program sees them
    environment: Sequence[bytes],
    # Of the auxiliary vector, in their order, without AT_NULL. What comes behind all those of
    # `memory.auxiliary` changes nothing: so the start costs the same under qemu-user, whatever its
    # version puts there.
    keys: Sequence[int] = AUXILIARY_KEYS,
) -> int:
    """Return the instructions that the start executes when all system calls succeed."""
    outcomes = chain(
        _of_memory(memory),
        _of_search(environment),
        _of_auxiliary(memory.auxiliary, keys) if memory.auxiliary else (),
        _of_copy(len(chosen_name(environment))),
        (False, True) if memory.trace else (),
        # which way a choice of `signals` goes changes nothing
        (each for last in _lasts(len(FATAL)) for each in (True, not last))
        if memory.signals
        else (),
    )
    items = [*start_items(machine, memory), *signal_items(machine, memory)]
    return executed(items, outcomes, START)


def _of_memory(memory: StartMemory) -> Iterator[bool]:
    """Yield the outcomes of the branches of `_map` and `_fill`, in the order met."""
    for last in _lasts(len(mapped(memory))):
        yield from (False, not last)
    runs = filled(memory)
    for run, last in zip(runs, _lasts(len(runs)), strict=True):
        yield from [True] * (run.count - 1)
        yield from (False, not last)


def _of_search(environment: Sequence[bytes]) -> Iterator[bool]:
    """Yield those of `find_name`."""
    for index, entry in enumerate(environment):
        yield False
        equal = 0
        while equal < len(VARIABLE) and entry[equal : equal + 1] == VARIABLE[equal : equal + 1]:
            equal += 1
        yield from [False, True] * equal
        if equal == len(VARIABLE):
            yield from (True, len(entry) > equal)
            yield from [True] * (len(environment) - index - 1)
            yield False
            return
        yield from (False, False)
    yield True


def _of_auxiliary(auxiliary: Auxiliary, keys: Sequence[int]) -> Iterator[bool]:
    """Yield those of `restore_auxiliary`."""
    wanted = [key for key, _ in auxiliary]
    left = len(wanted)
    for key in keys:
        yield False
        if key not in wanted:
            yield from [True] * len(wanted)
            continue
        yield from [True] * wanted.index(key)
        left -= 1
        yield from (False, left > 0)
        if not left:
            return
    yield True


def _of_copy(length: int) -> Iterator[bool]:
    """Yield those of `copy_name`."""
    if length < LONGEST_NAME:
        yield from [False, True] * length
        yield True
    else:
        yield from [False, True] * (LONGEST_NAME - 1)
        yield from (False, False)


def _lasts(count: int) -> Iterator[bool]:
    return (index + 1 == count for index in range(count))
