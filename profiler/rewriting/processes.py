"""Which process of an instrumented program writes the counter file, and where to.

`note_process`
    At the start: the process's number, and six letters for it behind the name of the part, so that
    programs that run at the same time write different parts.
`leave_to_the_process`
    At the exit: only the process that the program started as writes the file. A forked child has
    its parent's counts in its own copy of the counters, so that its file would count them twice; it
    ends without one. A thread that ends by exit(2) leaves the file to who ends the process.
`note_end`
    Before the file is written: how the process ends (`counter_file`).
`choose_file`
    Where the name is that of a device or a pipe, such as /dev/null, that is written itself: another
    file must not take its place. A directory cannot be opened then, which is reported as ever.
"""

from __future__ import annotations

from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.rewriting.guest_memory import END, FRAMES, NAME, PART, PROCESS, TARGET
from simprof.profiler.rewriting.parts import (
    EXIT_GROUP,
    GETPID,
    GETTID,
    STAT64,
    Part,
    Width,
)
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Label, Register

R = Register

LETTERS = 6
"""Letters that tell a process: the low 24 bits of its number; Linux has at most 22."""
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
        *width.call(GETPID),
        asm.sethi(RUNTIME_DATA, R.O2),
        asm.store("st", R.O0, R.O2, PROCESS),
        asm.mov(ord("."), R.O1),
        asm.store("stb", R.O1, end, 0),
        *letters,
        asm.arithmetic("add", end, 1 + LETTERS, end),
    ]


def leave_to_the_process(width: Width, number: Register, leave: str, label: str) -> list[Part]:
    """Go to `leave` in forked children, and in threads that only end themselves.

    Parameters
    ----------
    number
        Holds the number of the system call.
    label
        What labels of this code begin with.
    """
    return [
        *width.call(GETPID),
        asm.sethi(RUNTIME_DATA, R.O2),
        asm.load("ld", R.O2, PROCESS, R.O2),
        asm.cmp(R.O0, R.O2),
        asm.branch("ne", leave),
        asm.nop(),
        *width.call(GETTID),
        asm.cmp(R.O0, R.O2),
        asm.branch("e", f"{label}.writes"),
        asm.cmp(number, EXIT_GROUP),
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
        asm.sethi(NAME, R.O0),
        asm.sethi(FRAMES, R.O1),
        *width.call(STAT64),
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
