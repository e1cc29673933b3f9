"""How the start of an instrumented program opens its trace."""

from __future__ import annotations

from simprof.profiler.rewriting.guest_memory import PART
from simprof.profiler.rewriting.parts import (
    CLOSE,
    FCNTL,
    OPEN,
    PERMISSIONS,
    WRITE,
    Part,
    Reference,
    Width,
    constant,
    text,
    to_write,
)
from simprof.profiler.rewriting.start_name import AT, START, WHERE, append
from simprof.profiler.schemes.tracing.flush import DESCRIPTOR, POSITION, TRACE_END, TRACE_SIZE
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register

R = Register

TRACE_SUFFIX = b".trace"
_NO_TRACE = b"simprof: cannot write the trace beside the profile: no trace\n"
_F_DUPFD_CLOEXEC = 1030
_HIGH_DESCRIPTOR = 512


def open_trace(width: Width, kind: str) -> list[Part]:
    """Open the trace, move its descriptor, and begin an empty buffer (step 5)."""
    file, wanted = AT, WHERE
    return [
        *append(TRACE_SUFFIX),
        asm.sethi(PART, R.O0),
        *constant(to_write(width), R.O1),
        asm.mov(PERMISSIONS, R.O2),
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


def trace_data() -> list[Item]:
    """Return the data of `open_trace`."""
    return text(f"{START}.no_trace", _NO_TRACE)
