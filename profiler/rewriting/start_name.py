"""How the start of an instrumented program finds its surroundings: where to write, what it is told.

Terms and registers are those of `startup`, of which these are steps.
"""

from __future__ import annotations

from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.rewriting.guest_memory import (
    LONGEST_NAME,
    NAME,
    NAME_LENGTH,
    PART,
    START_STACK,
    Auxiliary,
)
from simprof.profiler.rewriting.parts import Part, Reference, Width
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Label, Register
from simprof.simulator.isa.sparc import WINDOW_SAVE_WORDS

R = Register

START = "simprof.start"
AT, END, WHERE, DATA = R.L4, R.L5, R.L6, R.L3
"""Registers in which the steps of the start keep addresses."""


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
