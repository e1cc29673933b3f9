"""How an instrumented program writes its stack into the counter file: a step of `dump`.

It has %l4 to %l6 for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.rewriting.guest_memory import END, FRAMES, FRAMES_END, START_STACK
from simprof.profiler.rewriting.parts import Part, Width
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Label, Register

R = Register

_FRAMES = "simprof.frames"
_FP_WORD, _RETURN_WORD = 14, 15  # of a frame's window
_AT, _END, _STACK = R.L4, R.L5, R.L6


def write_frames(width: Width, write: Sequence[Part]) -> list[Part]:
    """Write how many words there are, and how the program ends, then the words (step 4).

    Parameters
    ----------
    write
        Writes %o2 bytes from %o1 on.
    """
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
