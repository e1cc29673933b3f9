"""How an instrumented program writes its counter file, without the C library.

`simprof.exit` is where a copy of a routine branches to that would have called exit(2) or
exit_group(2): %g1 and %o0 are the system call's; the file is written and the call made.
`simprof.dump` is called, writes the file as it is now, and changes nothing but %o7 (and icc on V8,
whose programs cannot put it back).

Steps
-----
1. `leave_to_the_process`, at the exit: forked children and threads write nothing (`processes`).
2. `block_signals`, at the exit: no handler counts, or ends the program, while the file is written.
   `last_tokens`, at the exit of a program that writes a trace: what the buffer still holds. A
   descriptor that the program closed loses it.
3. `choose_file`: a device is written itself (`processes`).
   `_header_and_regions`: the header, then the regions of memory.
4. `_frames`: the stack, so that unfinished activations can be told. The number of words, then the
   words. The first word is %o7 of the code that came here: in a leaf, the call that it returns
   behind; in `simprof.dump`, its caller. Then come %i7 of each frame that has another one below
   it, innermost first: the addresses of calls. Frames have ascending, aligned addresses, up to that
   at the program's start.
5. `_finish`: the last line; the file gets its name only now.

Where anything fails, the part is removed, and the program says so on descriptor 2 and goes on.
"""

from __future__ import annotations

from simprof.profiler.code.layout import RUNTIME_DATA, TRACE_BUFFER
from simprof.profiler.code.runtime.prologue import save_smallest_frame
from simprof.profiler.rewriting.counter_file import EXITED, LAST_LINE
from simprof.profiler.rewriting.dump_frames import write_frames
from simprof.profiler.rewriting.guest_memory import (
    FRAMES,
    NAME,
    NAME_LENGTH,
    PART,
    TARGET,
    Memory,
)
from simprof.profiler.rewriting.parts import (
    CLOSE,
    OPEN,
    PERMISSIONS,
    RENAME,
    RT_SIGPROCMASK,
    SIG_SETMASK,
    SIGNAL_SET_SIZE,
    UNLINK,
    WRITE,
    Part,
    Reference,
    Width,
    constant,
    find_base,
    flush_windows,
    resolve,
    text,
    to_write,
    words,
)
from simprof.profiler.rewriting.processes import choose_file, leave_to_the_process, note_end
from simprof.profiler.schemes.tracing.flush import (
    DESCRIPTOR,
    POSITION,
    TRACE_END,
    TRACE_SIZE,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register

R = Register

EXIT = "simprof.exit"
DUMP = "simprof.dump"
BODY = f"{DUMP}.body"
"""The label of what all ways to write the file have in common."""

OVER = f"{EXIT}.over"
"""The label behind the system call of `simprof.exit`."""

_PUT = f"{DUMP}.put"
_CUT, _GONE, _FAILED, _DONE = (f"{DUMP}.{name}" for name in ("cut", "gone", "failed", "done"))
_BEFORE_NAME, _BEHIND_NAME = b"simprof: cannot write ", b": no profile\n"

_G1, _FLAGS, _FILE, _AT, _END, _STACK, _BACK = R.L0, R.L1, R.L3, R.L4, R.L5, R.L6, R.L7


def dump_items(machine: MachineKind, memory: Memory, header: bytes) -> tuple[Item, ...]:
    """Return the code of both ways to write the counter file, to be assembled anywhere.

    Parameters
    ----------
    header
        What the file begins with.
    """
    width = Width(machine)
    parts: list[Part] = [
        *_entries(width, memory.trace),
        Label(BODY),
        asm.mov(R.O7, _BACK),
        asm.mov(R.G1, _G1),
        *width.keep(_FLAGS),
        flush_windows(machine),
        *find_base(f"{DUMP}.base"),
        *_open(width),
        *_header_and_regions(width, len(header), bool(memory.dumped)),
        *write_frames(width, _write(width)),
        *_finish(width),
        *_give_up(width),
        *_put(width),
        *text(f"{DUMP}.trailer", LAST_LINE),
        *text(f"{DUMP}.before", _BEFORE_NAME),
        *text(f"{DUMP}.behind", _BEHIND_NAME),
        *words(
            f"{DUMP}.regions",
            (w for d in memory.dumped for w in (d.address, d.size or 0, d.end or 0)),
        ),
        Label(f"{DUMP}.regions_end"),
        *text(f"{DUMP}.header", header),
    ]
    return resolve(parts, f"{DUMP}.base")


def _entries(width: Width, trace: str | None) -> list[Part]:
    call: list[Part] = [asm.call(BODY), asm.nop()]
    return [
        Label(EXIT),
        save_smallest_frame(width.machine),
        asm.mov(R.G1, _G1),
        *leave_to_the_process(width, _G1, f"{EXIT}.leave", EXIT),
        *note_end(EXITED, R.I0),
        *block_signals(width),
        *(last_tokens(trace) if trace else []),
        asm.mov(_G1, R.G1),
        *call,
        Label(f"{EXIT}.leave"),
        asm.mov(_G1, R.G1),
        asm.restore(),
        width.trap,
        Label(OVER),
        *words(f"{EXIT}.never", [0]),
        Label(DUMP),
        save_smallest_frame(width.machine),
        *call,
        asm.ret(),
        asm.restore(),
    ]


def block_signals(width: Width) -> list[Part]:
    """Block all signals; the frames' room in memory holds their set."""
    return [
        asm.sethi(FRAMES, R.O1),
        asm.mov(-1, R.O2),
        asm.store("st", R.O2, R.O1, 0),
        asm.store("st", R.O2, R.O1, 4),
        asm.mov(SIG_SETMASK, R.O0),
        asm.mov(0, R.O2),
        asm.mov(SIGNAL_SET_SIZE, R.O3),
        *width.call(RT_SIGPROCMASK),
    ]


def last_tokens(trace: str) -> list[Part]:
    """Write what the buffer of the trace holds (step 2); a byte that has some bits counts."""
    units = TRACE_SIZE * (8 if trace == "bits" else 1)
    if trace == "bits":
        to_bytes = [asm.arithmetic("add", R.O2, 7, R.O2), asm.shift("srl", R.O2, 3, R.O2)]
    else:
        to_bytes = [asm.shift("srl", R.O2, 0, R.O2)]  # the position is negative, of 32 bits
    return [
        asm.sethi(TRACE_END, R.O3),
        asm.load("ld", R.O3, DESCRIPTOR, _FILE),
        asm.load("ld", R.O3, POSITION, R.O2),
        asm.sethi(units, R.O1),
        asm.arithmetic("add", R.O2, R.O1, R.O2),
        *to_bytes,
        asm.sethi(TRACE_BUFFER, R.O1),
        asm.call(_PUT),
        asm.nop(),
    ]


def _open(width: Width) -> list[Part]:
    return [
        *choose_file(width, DUMP),
        *constant(to_write(width), R.O1),
        asm.mov(PERMISSIONS, R.O2),
        *width.call(OPEN),
        width.branch("cs", _FAILED),
        asm.mov(R.O0, _FILE),
    ]


def _write(width: Width) -> list[Part]:
    """Write %o2 bytes from %o1 on, or give up."""
    return [asm.call(_PUT), asm.nop(), width.branch("cs", _CUT), asm.nop()]


def _put(width: Width) -> list[Part]:
    """Return the leaf that writes %o2 bytes from %o1 on; carry tells that it could not."""
    return [
        Label(_PUT),
        asm.mov(_FILE, R.O0),
        *width.call(WRITE),
        width.branch("cs", f"{_PUT}.end"),
        asm.nop(),
        asm.arithmetic("subcc", R.O2, R.O0, R.O2),
        asm.branch("ne", _PUT),
        asm.arithmetic("add", R.O1, R.O0, R.O1),
        Label(f"{_PUT}.end"),
        asm.retl(),
        asm.nop(),
    ]


def _header_and_regions(width: Width, header: int, any_region: bool) -> list[Part]:
    """Write the first parts of the file (step 3)."""
    first = [Reference(f"{DUMP}.header", R.O1), *constant(header, R.O2), *_write(width)]
    if not any_region:
        return first
    return [
        *first,
        Reference(f"{DUMP}.regions", _AT),
        Reference(f"{DUMP}.regions_end", _END),
        Label(f"{DUMP}.region"),
        asm.load("ld", _AT, 0, R.O1),
        asm.load("ld", _AT, 8, R.O3),
        asm.cmp(R.O3, 0),
        asm.branch("e", f"{DUMP}.sized"),
        asm.load("ld", _AT, 4, R.O2),
        asm.load("ld", R.O3, 0, R.O2),
        asm.arithmetic("sub", R.O2, R.O1, R.O2),
        Label(f"{DUMP}.sized"),
        *_write(width),
        asm.arithmetic("add", _AT, 12, _AT),
        asm.cmp(_AT, _END),
        asm.branch("ne", f"{DUMP}.region"),
        asm.nop(),
    ]


def _finish(width: Width) -> list[Part]:
    """End the file, give it its name, and go back (step 5)."""
    return [
        Reference(f"{DUMP}.trailer", R.O1),
        asm.mov(len(LAST_LINE), R.O2),
        *_write(width),
        asm.mov(_FILE, R.O0),
        *width.call(CLOSE),
        width.branch("cs", _GONE),
        asm.sethi(RUNTIME_DATA, R.O0),
        asm.load("ld", R.O0, TARGET, R.O0),
        asm.sethi(NAME, R.O1),
        *width.call(RENAME),  # of a name to itself: nothing
        width.branch("cs", _GONE),
        asm.nop(),
        Label(_DONE),
        asm.mov(_G1, R.G1),
        *width.put_back(_FLAGS),
        asm.jmpl(_BACK, 8, R.G0),
        asm.nop(),
    ]


def _give_up(width: Width) -> list[Part]:
    """Remove what has been written, and say so."""
    return [
        Label(_CUT),
        asm.mov(_FILE, R.O0),
        *width.call(CLOSE),
        Label(_GONE),
        asm.sethi(PART, R.O0),
        *width.call(UNLINK),  # there is none where a device is written
        Label(_FAILED),
        *_say(width, [Reference(f"{DUMP}.before", R.O1), asm.mov(len(_BEFORE_NAME), R.O2)]),
        asm.sethi(RUNTIME_DATA, R.O2),
        *_say(width, [asm.sethi(NAME, R.O1), asm.load("ld", R.O2, NAME_LENGTH, R.O2)]),
        *_say(width, [Reference(f"{DUMP}.behind", R.O1), asm.mov(len(_BEHIND_NAME), R.O2)]),
        asm.branch("a", _DONE),
        asm.nop(),
    ]


def _say(width: Width, what: list[Part]) -> list[Part]:
    return [asm.mov(2, R.O0), *what, *width.call(WRITE)]
