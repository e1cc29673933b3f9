"""How an instrumented program writes its counter file, without the C library.

`simprof.exit` is where a copy of a routine branches to that would have called exit(2) or
exit_group(2): %g1 and %o0 are the system call's; the file is written and the call made.
`simprof.dump` is called, writes the file as it is now, and changes nothing but %o7 (and icc on V8,
whose programs cannot put it back).

Steps
-----
1. `leave_to_the_process`, at the exit: a forked child has its parent's counts in its
   own copy of the counters, so that its file would count them twice; it ends without one. A thread
   that ends by exit(2) leaves the file to whoever ends the process.
2. `block_signals`, at the exit: no handler counts, or ends the program, while the file is written.
   `last_tokens`, at the exit of a program that writes a trace: what the buffer still holds. A
   descriptor that the program closed loses it.
3. `choose_file`: a device or pipe, such as /dev/null, is written itself: another file must not
   take its place. A directory cannot be opened then, which is reported as ever.
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

from collections.abc import Iterator, Sequence

from simprof.profiler.code.counting import executed
from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.code.registers import save_smallest_frame
from simprof.profiler.rewriting.elsewhere.counter_file import EXITED, LAST_LINE
from simprof.profiler.rewriting.elsewhere.parts import (
    END,
    FRAMES,
    FRAMES_END,
    NAME,
    NAME_LENGTH,
    NUMBERS,
    PART,
    PROCESS,
    SIG_SETMASK,
    SIGNAL_SET_SIZE,
    START_STACK,
    TARGET,
    Part,
    Reference,
    StartMemory,
    Stream,
    Width,
    constant,
    find_base,
    flush_windows,
    resolve,
    text,
    words,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register

R = Register

EXIT = "simprof.exit"
DUMP = "simprof.dump"
BODY = f"{DUMP}.body"  # The label of what all ways to write the file have in common

OVER = f"{EXIT}.over"  # The label behind the system call of `simprof.exit`

_PUT = f"{DUMP}.put"
_CUT, _GONE, _FAILED, _DONE = (f"{DUMP}.{name}" for name in ("cut", "gone", "failed", "done"))
_BEFORE_NAME, _BEHIND_NAME = b"simprof: cannot write ", b": no profile\n"

_G1, _FLAGS, _FILE, _AT, _END, _STACK, _BACK = R.L0, R.L1, R.L3, R.L4, R.L5, R.L6, R.L7


def dump_items(machine: MachineKind, memory: StartMemory, header: bytes) -> tuple[Item, ...]:
    """Return the code of both ways to write the counter file, to be assembled anywhere."""
    # header: What the file begins with.
    width = Width(machine)
    parts: list[Part] = [
        *_entries(width, memory.trace),
        Label(BODY),
        asm.mov(R.O7, _BACK),
        asm.mov(R.G1, _G1),
        *width.keep(_FLAGS),
        flush_windows(machine),
        *find_base(f"{DUMP}.base"),
        *choose_file(width, DUMP),
        *width.open(None),  # what was chosen
        width.branch("cs", _FAILED),
        asm.mov(R.O0, _FILE),
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
            # where a region begins, and its bytes or else where the word with its end is
            (
                word
                for region in memory.dumped
                for word in (
                    region.address,
                    0 if region.grows else region.size,
                    region.free if region.grows else 0,
                )
            ),
        ),
        Label(f"{DUMP}.regions_end"),
        *text(f"{DUMP}.header", header),
    ]
    return resolve(parts, f"{DUMP}.base")


def _entries(width: Width, trace: Stream | None) -> list[Part]:
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
        *width.call("rt_sigprocmask", SIG_SETMASK, None, 0, SIGNAL_SET_SIZE),
    ]


def last_tokens(trace: Stream) -> list[Part]:
    """Write what the buffer of the trace holds (step 2); a byte that has some bits counts."""
    buffer = trace.buffer
    if trace.packed:
        to_bytes = [asm.arithmetic("add", R.O2, 7, R.O2), asm.shift("srl", R.O2, 3, R.O2)]
    else:
        to_bytes = [asm.shift("srl", R.O2, 0, R.O2)]  # the position is negative, of 32 bits
    return [
        asm.sethi(buffer.end, R.O3),
        asm.load("ld", R.O3, buffer.descriptor, _FILE),
        asm.load("ld", R.O3, buffer.position, R.O2),
        asm.sethi(trace.units, R.O1),
        asm.arithmetic("add", R.O2, R.O1, R.O2),
        *to_bytes,
        asm.sethi(buffer.start, R.O1),
        asm.call(_PUT),
        asm.nop(),
    ]


def _write(width: Width) -> list[Part]:
    """Write %o2 bytes from %o1 on, or give up."""
    return [asm.call(_PUT), asm.nop(), width.branch("cs", _CUT), asm.nop()]


def _put(width: Width) -> list[Part]:
    """Return the leaf that writes %o2 bytes from %o1 on; carry tells that it could not."""
    return [
        Label(_PUT),
        *width.call("write", _FILE),
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
        *width.call("close", _FILE),
        width.branch("cs", _GONE),
        asm.sethi(RUNTIME_DATA, R.O0),
        asm.load("ld", R.O0, TARGET, R.O0),
        *width.call("rename", None, NAME),  # of a name to itself: nothing
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
        *width.call("close", _FILE),
        Label(_GONE),
        *width.call("unlink", PART),  # there is none where a device is written
        Label(_FAILED),
        *width.say(f"{DUMP}.before", _BEFORE_NAME),
        asm.sethi(RUNTIME_DATA, R.O2),
        asm.mov(2, R.O0),
        asm.sethi(NAME, R.O1),
        asm.load("ld", R.O2, NAME_LENGTH, R.O2),
        *width.call("write"),
        *width.say(f"{DUMP}.behind", _BEHIND_NAME),
        asm.branch("a", _DONE),
        asm.nop(),
    ]


_FRAMES = "simprof.frames"
_FP_WORD, _RETURN_WORD = 14, 15  # of a frame's window


def write_frames(width: Width, write: Sequence[Part]) -> list[Part]:
    """Write how many words there are, and how the program ends, then the words (step 4)."""
    # write: Writes %o2 bytes from %o1 on.
    returns = width.bias + _RETURN_WORD * width.word
    return [
        asm.sethi(RUNTIME_DATA, R.O0),
        width.load(R.O0, START_STACK, _STACK),
        asm.mov(R.FP, _AT),
        asm.mov(1, _END),
        Label(f"{_FRAMES}.count"),
        *_next_frame(width, f"{_FRAMES}.counted"),
        asm.mov(R.O0, _AT),
        asm.branch("a", f"{_FRAMES}.count"),
        asm.arithmetic("add", _END, 1, _END),
        Label(f"{_FRAMES}.counted"),
        asm.sethi(RUNTIME_DATA, R.O2),
        asm.load("ld", R.O2, END, R.O2),
        asm.sethi(FRAMES, R.O1),
        asm.store("st", _END, R.O1, 0),
        asm.store("st", R.O2, R.O1, 4),
        asm.mov(8, R.O2),
        *write,
        asm.mov(R.FP, _AT),
        asm.sethi(FRAMES, _END),
        width.store(R.I7, _END, 0),
        asm.arithmetic("add", _END, width.word, _END),
        Label(f"{_FRAMES}.frame"),
        *_next_frame(width, f"{_FRAMES}.walked"),
        width.load(_AT, returns, R.O2),
        asm.mov(R.O0, _AT),
        width.store(R.O2, _END, 0),
        asm.arithmetic("add", _END, width.word, _END),
        asm.sethi(FRAMES_END, R.O3),
        asm.cmp(_END, R.O3),
        asm.branch("ne", f"{_FRAMES}.frame"),
        asm.sethi(FRAMES, R.O1),
        asm.arithmetic("sub", R.O3, R.O1, R.O2),
        *write,
        asm.branch("a", f"{_FRAMES}.frame"),
        asm.sethi(FRAMES, _END),
        Label(f"{_FRAMES}.walked"),
        asm.sethi(FRAMES, R.O1),
        asm.arithmetic("sub", _END, R.O1, R.O2),
        *write,
    ]


def _next_frame(width: Width, stop: str) -> list[Part]:
    """Leave in %o0 the frame behind that at `_AT`; go to `stop` where there is none."""
    return [
        width.load(_AT, width.bias + _FP_WORD * width.word, R.O0),
        asm.cmp(R.O0, _AT),
        width.branch("leu", stop),
        asm.cmp(R.O0, _STACK),
        width.branch("gu", stop),
        asm.arithmetic("add", R.O0, width.bias, R.O1),
        asm.arithmetic("andcc", R.O1, 7, R.G0),
        asm.branch("ne", stop),
        asm.nop(),
    ]


LETTERS = 6  # Letters that tell a process: the low 24 bits of its number; Linux has at most 22
_FILE_TYPE, _REGULAR = 12, 8  # st_mode's shift, and its value for plain files


def note_process(width: Width, end: Register) -> list[Part]:
    """Keep the process's number; store "." and its letters from `end` on, and move `end` there."""
    letters: list[Part] = []
    for digit in range(LETTERS):
        letters += [
            asm.shift("srl", R.O0, 4 * (LETTERS - 1 - digit), R.O1),
            asm.arithmetic("and", R.O1, 15, R.O1),
            asm.arithmetic("add", R.O1, ord("a"), R.O1),
            asm.store("stb", R.O1, end, 1 + digit),
        ]
    return [
        *width.call("getpid"),
        asm.sethi(RUNTIME_DATA, R.O2),
        asm.store("st", R.O0, R.O2, PROCESS),
        asm.mov(ord("."), R.O1),
        asm.store("stb", R.O1, end, 0),
        *letters,
        asm.arithmetic("add", end, 1 + LETTERS, end),
    ]


def leave_to_the_process(width: Width, number: Register, leave: str, label: str) -> list[Part]:
    """Go to `leave` in forked children, and in threads that only end themselves."""
    # number: Holds the number of the system call.
    # label: What labels of this code begin with.
    return [
        *width.call("getpid"),
        asm.sethi(RUNTIME_DATA, R.O2),
        asm.load("ld", R.O2, PROCESS, R.O2),
        asm.cmp(R.O0, R.O2),
        asm.branch("ne", leave),
        asm.nop(),
        *width.call("gettid"),
        asm.cmp(R.O0, R.O2),
        asm.branch("e", f"{label}.writes"),
        asm.cmp(number, NUMBERS["exit_group"]),
        asm.branch("ne", leave),
        asm.nop(),
        Label(f"{label}.writes"),
    ]


def note_end(kind: int, value: Register) -> list[Part]:
    """Keep how the process ends: `kind` and the low 8 bits of a register."""
    return [
        asm.arithmetic("and", value, 0xFF, R.O0),
        asm.arithmetic("or", R.O0, kind, R.O0),
        asm.sethi(RUNTIME_DATA, R.O2),
        asm.store("st", R.O0, R.O2, END),
    ]


def choose_file(width: Width, label: str) -> list[Part]:
    """Leave in %o0, and in memory, the name of what to open.

    The room for frames holds what stat64 says of the name.
    """
    mode = 24 if width.is64 else 16  # offset of st_mode
    return [
        *width.call("stat64", NAME, FRAMES),
        width.branch("cs", f"{label}.chosen"),  # there is none yet
        asm.sethi(PART, R.O0),
        asm.sethi(FRAMES, R.O1),
        asm.load("ld", R.O1, mode, R.O1),
        asm.shift("srl", R.O1, _FILE_TYPE, R.O1),
        asm.cmp(R.O1, _REGULAR),
        asm.branch("e", f"{label}.chosen"),
        asm.nop(),
        asm.sethi(NAME, R.O0),
        Label(f"{label}.chosen"),
        asm.sethi(RUNTIME_DATA, R.O2),
        asm.store("st", R.O0, R.O2, TARGET),
    ]


def exit_cost(
    machine: MachineKind,
    memory: StartMemory,
    header: bytes,
    # Words of the stack in the file, at least 1
    frames: int = 1,
    *,
    # Whether there is a file of that name already
    replaces: bool = False,
) -> int:
    """Return the instructions from `simprof.exit` to the system call, that included."""
    items = dump_items(machine, memory, header)
    own = (False, True)  # the process that was started, and its first thread
    last = (False, False) if memory.trace else ()
    outcomes = (*own, *last, *dump_outcomes(machine, memory, frames, replaces))
    return executed(items, outcomes, EXIT, OVER)


def dump_outcomes(
    machine: MachineKind, memory: StartMemory, frames: int, replaces: bool
) -> Iterator[bool]:
    """Yield the outcomes of the branches of what all ways to write the file have in common."""
    written = (False, False, False)
    yield from (False, True) if replaces else (True,)
    yield False
    yield from written
    for index, region in enumerate(memory.dumped):
        yield not region.grows
        yield from written
        yield index + 1 < len(memory.dumped)
    another, none = (False, False, False), True
    yield from another * (frames - 1)
    yield none
    yield from written
    most = (FRAMES_END - FRAMES) // Width(machine).word
    for stored in range(2, frames + 1):
        yield from another
        yield stored % most != 0
        if stored % most == 0:
            yield from written
    yield none
    yield from written  # the rest
    yield from written  # the last line
    yield from (False, False)
