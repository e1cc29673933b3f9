"""How an instrumented program starts: its counters' memory, and where to write them.

The code at `simprof.start` has a register window of its own and uses no memory of the stack. Steps:

1. `_map`: memory for the counters, at the fixed addresses of `layout`; where something else lies
   there, the program ends with one line and status 125.
2. `_fill`: what is not zero in it at first (hash tables, owners of pairs).
3. `_find_name`, `_copy_name`: the value of SIMPROF_OUT, or `simprof.out`, is copied, because
   programs write over their environment.
4. `_restore_auxiliary`: where the kernel tells about the file's headers and entry, it tells what it
   would have told of the original program.
5. `_open_trace`: for traces, `$SIMPROF_OUT.trace` is opened, and its descriptor moved out of the
   way of those that the program will get.
6. `note_process`: the file's name until it is complete has letters of the process's number.
7. `signals`: what is to be done when a signal ends the program.
8. `_leave`: all registers get back what they held, and the program starts at `simprof.entry`.
"""

from __future__ import annotations

from profiler.code.layout import RUNTIME_DATA
from profiler.code.runtime.prologue import save_smallest_frame
from profiler.rewriting.guest_memory import (
    LONGEST_NAME,
    NAME,
    NAME_LENGTH,
    PART,
    START_STACK,
    Auxiliary,
    Memory,
    filled,
    mapped,
)
from profiler.rewriting.parts import (
    CLOSE,
    EXIT_GROUP,
    FCNTL,
    MMAP,
    OPEN,
    WRITE,
    Part,
    Reference,
    Width,
    constant,
    find_base,
    resolve,
    text,
    words,
)
from profiler.rewriting.processes import note_process
from profiler.rewriting.signals import INSTALL
from profiler.schemes.tracing.flush import DESCRIPTOR, POSITION, TRACE_END, TRACE_SIZE
from simulator.binary.program import MachineKind, Program
from simulator.isa import assembler as asm
from simulator.isa.assembler import MASK32, Register
from simulator.isa.assembly import Item, Label
from simulator.isa.sparc import (
    MAP_ANONYMOUS,
    MAP_FIXED_NOREPLACE,
    MAP_PRIVATE,
    O_CREAT,
    O_TRUNC,
    WINDOW_SAVE_WORDS,
)
from simulator.linux.process import program_auxiliary

R = Register

START = "simprof.start"
ENTRY = "simprof.entry"
VARIABLE = b"SIMPROF_OUT="
DEFAULT_NAME = b"simprof.out"
PART_SUFFIX = b".part"
TRACE_SUFFIX = b".trace"

_STATUS = 125
_NO_MEMORY = b"simprof: the memory of the counters is not free: the program cannot run\n"
_NO_TRACE = b"simprof: cannot write the trace beside the profile: no trace\n"
_READ_AND_WRITE = 3
_MAP_NORESERVE = 0x40
_O_WRONLY = 1
_O_LARGEFILE = 0x40000
_F_DUPFD_CLOEXEC = 1030
_HIGH_DESCRIPTOR = 512
_PERMISSIONS = 0o666

_G1, _FLAGS = R.L0, R.L1  # and %l2 for the base
_AT, _END, _WHERE, _DATA = R.L4, R.L5, R.L6, R.L3


def original_auxiliary(program: Program) -> Auxiliary:
    """Return what `program` shall see of itself in its auxiliary vector when it is instrumented.

    What would depend on where a position-independent program is loaded is left out.
    """
    if program.load_bias:
        return ()
    return tuple(program_auxiliary(program).items())


def start_items(machine: MachineKind, memory: Memory) -> tuple[Item, ...]:
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
        *_find_name(width),
        *(_restore_auxiliary(width, auxiliary) if auxiliary else []),
        *_copy_name(),
        *(_open_trace(width, memory.trace) if memory.trace else []),
        *note_process(width, _END),
        *_append(PART_SUFFIX),
        *([asm.call(INSTALL), asm.nop()] if memory.signals else []),
        *_leave(width),
        *_refuse(width),
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
        Reference(f"{START}.mapped", _AT),
        Reference(f"{START}.mapped_end", _END),
        Label(f"{START}.map"),
        asm.load("ld", _AT, 0, _WHERE),
        asm.load("ld", _AT, 4, R.O1),
        asm.mov(_WHERE, R.O0),
        asm.mov(_READ_AND_WRITE, R.O2),
        *constant(flags, R.O3),
        asm.mov(-1, R.O4),
        asm.mov(0, R.O5),
        *width.call(MMAP),
        asm.cmp(R.O0, _WHERE),  # the number of an error is no such address
        asm.branch("ne", f"{START}.refuse"),
        asm.arithmetic("add", _AT, 8, _AT),
        asm.cmp(_AT, _END),
        asm.branch("ne", f"{START}.map"),
        asm.nop(),
    ]


def _fill() -> list[Part]:
    """Store every run of words (step 2)."""
    return [
        Reference(f"{START}.filled", _AT),
        Reference(f"{START}.filled_end", _END),
        Label(f"{START}.fill"),
        asm.load("ld", _AT, 0, _WHERE),
        asm.load("ld", _AT, 4, R.O0),
        asm.load("ld", _AT, 8, R.O1),
        Label(f"{START}.word"),
        asm.store("st", R.O0, _WHERE, 0),
        asm.arithmetic("subcc", R.O1, 1, R.O1),
        asm.branch("ne", f"{START}.word"),
        asm.arithmetic("add", _WHERE, 4, _WHERE),
        asm.arithmetic("add", _AT, 12, _AT),
        asm.cmp(_AT, _END),
        asm.branch("ne", f"{START}.fill"),
        asm.nop(),
    ]


def _find_name(width: Width) -> list[Part]:
    """Leave the address of the name in a register, and %sp in its word (step 3).

    Behind the register window's place on the stack stand argc, argv, 0, the environment, 0, and the
    auxiliary vector, whose address is left in another register.
    """
    arguments = width.bias + WINDOW_SAVE_WORDS * width.word
    return [
        asm.sethi(RUNTIME_DATA, _DATA),
        width.store(R.FP, _DATA, START_STACK),
        width.load(R.FP, arguments, R.O0),
        asm.shift("sll", R.O0, 3 if width.is64 else 2, R.O0),
        asm.arithmetic("add", R.FP, arguments + 2 * width.word, _AT),
        asm.arithmetic("add", _AT, R.O0, _AT),
        Reference(f"{START}.variable", _END),
        Label(f"{START}.string"),
        width.load(_AT, 0, R.O0),
        asm.cmp(R.O0, 0),
        width.branch("e", f"{START}.none"),
        asm.arithmetic("add", _AT, width.word, _AT),
        asm.mov(0, R.O1),
        Label(f"{START}.character"),
        asm.load("ldub", _END, R.O1, R.O2),
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
        asm.arithmetic("add", R.O0, R.O1, _WHERE),
        Reference(f"{START}.default", _WHERE),
        Label(f"{START}.rest"),
        width.load(_AT, 0, R.O0),
        asm.cmp(R.O0, 0),
        width.branch("ne", f"{START}.rest"),
        asm.arithmetic("add", _AT, width.word, _AT),
        asm.branch("a", f"{START}.named"),
        asm.nop(),
        Label(f"{START}.none"),
        Reference(f"{START}.default", _WHERE),
        Label(f"{START}.named"),
    ]


def _restore_auxiliary(width: Width, auxiliary: Auxiliary) -> list[Part]:
    """Go through the auxiliary vector, and store over some of its values (step 4).

    It ends behind the last of them, or at AT_NULL: kernels differ in what else the vector has.
    """
    left = R.O3
    code: list[Part] = [
        Reference(f"{START}.auxiliary", _END),
        asm.mov(len(auxiliary), left),
        Label(f"{START}.pair"),
        width.load(_AT, 0, R.O0),
        asm.cmp(R.O0, 0),
        width.branch("e", f"{START}.restored"),
    ]
    for index, (key, _) in enumerate(auxiliary):
        code += [
            asm.cmp(R.O0, key),  # the first one in the delay slot: it is of no consequence there
            width.branch("ne", f"{START}.not_{index}"),
            asm.load("ld", _END, 8 * index + 4, R.O1),
        ]
        if width.is64:
            code += [
                asm.load("ld", _END, 8 * index, R.O2),
                asm.shift("sllx", R.O2, 32, R.O2),
                asm.arithmetic("or", R.O1, R.O2, R.O1),
            ]
        code += [
            asm.arithmetic("subcc", left, 1, left),
            asm.branch("ne", f"{START}.next"),
            width.store(R.O1, _AT, width.word),
            asm.branch("a", f"{START}.restored"),
            asm.nop(),
            Label(f"{START}.not_{index}"),
        ]
    return [
        *code,
        Label(f"{START}.next"),
        asm.branch("a", f"{START}.pair"),
        asm.arithmetic("add", _AT, 2 * width.word, _AT),
        Label(f"{START}.restored"),
    ]


def _copy_name() -> list[Part]:
    """Copy the name twice; a name that is too long leaves none of which a file can be made."""
    return [
        asm.sethi(NAME, _AT),
        asm.sethi(PART, _END),
        asm.mov(0, R.O1),
        Label(f"{START}.copy"),
        asm.load("ldub", _WHERE, R.O1, R.O2),
        asm.store("stb", R.O2, _AT, R.O1),
        asm.cmp(R.O2, 0),
        asm.branch("e", f"{START}.copied"),
        asm.store("stb", R.O2, _END, R.O1),
        asm.arithmetic("add", R.O1, 1, R.O1),
        asm.cmp(R.O1, LONGEST_NAME),
        asm.branch("l", f"{START}.copy"),
        asm.nop(),
        asm.store("stb", R.G0, _END, 0),
        Label(f"{START}.copied"),
        asm.store("st", R.O1, _DATA, NAME_LENGTH),
        asm.arithmetic("add", _END, R.O1, _END),
    ]


def _append(suffix: bytes) -> list[Part]:
    """Store a suffix behind the copy that `PART` is."""
    code: list[Part] = []
    for offset, byte in enumerate(suffix):
        code += [asm.mov(byte, R.O2), asm.store("stb", R.O2, _END, offset)]
    return [*code, asm.store("stb", R.G0, _END, len(suffix))]


def _open_trace(width: Width, kind: str) -> list[Part]:
    """Open the trace, move its descriptor, and begin an empty buffer (step 5)."""
    flags = _O_WRONLY | O_CREAT | O_TRUNC | (0 if width.is64 else _O_LARGEFILE)
    file, wanted = _AT, _WHERE
    return [
        *_append(TRACE_SUFFIX),
        asm.sethi(PART, R.O0),
        *constant(flags, R.O1),
        asm.mov(_PERMISSIONS, R.O2),
        *width.call(OPEN),
        width.branch("cs", f"{START}.untraced"),
        asm.mov(R.O0, file),
        asm.mov(_HIGH_DESCRIPTOR, wanted),
        Label(f"{START}.move"),
        asm.mov(file, R.O0),
        asm.mov(_F_DUPFD_CLOEXEC, R.O1),
        asm.mov(wanted, R.O2),
        *width.call(FCNTL),
        width.branch("cc", f"{START}.moved"),
        asm.shift("srl", wanted, 1, wanted),
        asm.cmp(wanted, 0),
        asm.branch("ne", f"{START}.move"),
        asm.nop(),
        asm.branch("a", f"{START}.opened"),
        asm.nop(),
        Label(f"{START}.untraced"),
        asm.mov(2, R.O0),
        Reference(f"{START}.no_trace", R.O1),
        asm.mov(len(_NO_TRACE), R.O2),
        *width.call(WRITE),
        asm.branch("a", f"{START}.opened"),
        asm.mov(-1, file),
        Label(f"{START}.moved"),
        asm.mov(R.O0, wanted),
        asm.mov(file, R.O0),
        *width.call(CLOSE),
        asm.mov(wanted, file),
        Label(f"{START}.opened"),
        asm.sethi(TRACE_END, R.O0),
        asm.store("st", file, R.O0, DESCRIPTOR),
        *constant(-TRACE_SIZE * (8 if kind == "bits" else 1), R.O1),
        asm.store("st", R.O1, R.O0, POSITION),
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


def _refuse(width: Width) -> list[Part]:
    return [
        Label(f"{START}.refuse"),
        asm.mov(2, R.O0),
        Reference(f"{START}.no_memory", R.O1),
        asm.mov(len(_NO_MEMORY), R.O2),
        *width.call(WRITE),
        asm.mov(_STATUS, R.O0),
        *width.call(EXIT_GROUP),
    ]
