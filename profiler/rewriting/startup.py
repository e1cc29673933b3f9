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

from simprof.profiler.code.runtime.prologue import save_smallest_frame
from simprof.profiler.rewriting.guest_memory import (
    Auxiliary,
    Memory,
    filled,
    mapped,
)
from simprof.profiler.rewriting.parts import (
    EXIT_GROUP,
    MMAP,
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
from simprof.profiler.rewriting.processes import note_process
from simprof.profiler.rewriting.refusals import STATUS
from simprof.profiler.rewriting.signals import INSTALL
from simprof.profiler.rewriting.start_name import (
    AT,
    END,
    START,
    WHERE,
    append,
    copy_name,
    find_name,
    restore_auxiliary,
)
from simprof.profiler.rewriting.start_trace import open_trace, trace_data
from simprof.simulator.binary.program import MachineKind, Program
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import MASK32, Item, Label, Register
from simprof.simulator.isa.sparc import (
    MAP_ANONYMOUS,
    MAP_FIXED_NOREPLACE,
    MAP_PRIVATE,
)
from simprof.simulator.linux.process import program_auxiliary

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
        *find_name(width),
        *(restore_auxiliary(width, auxiliary) if auxiliary else []),
        *copy_name(),
        *(open_trace(width, memory.trace) if memory.trace else []),
        *note_process(width, END),
        *append(PART_SUFFIX),
        *([asm.call(INSTALL), asm.nop()] if memory.signals else []),
        *_leave(width),
        *_refuse(width),
        *words(f"{START}.auxiliary", (w for _, v in auxiliary for w in (v >> 32, v & MASK32))),
        *text(f"{START}.no_memory", _NO_MEMORY),
        *(trace_data() if memory.trace else []),
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
        asm.mov(WHERE, R.O0),
        asm.mov(_READ_AND_WRITE, R.O2),
        *constant(flags, R.O3),
        asm.mov(-1, R.O4),
        asm.mov(0, R.O5),
        *width.call(MMAP),
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


def _refuse(width: Width) -> list[Part]:
    return [
        Label(f"{START}.refuse"),
        asm.mov(2, R.O0),
        Reference(f"{START}.no_memory", R.O1),
        asm.mov(len(_NO_MEMORY), R.O2),
        *width.call(WRITE),
        asm.mov(STATUS, R.O0),
        *width.call(EXIT_GROUP),
    ]
