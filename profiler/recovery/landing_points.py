"""Where exceptions land in the middle of a routine: its landing pads.

A landing pad is where an exception goes that a call has let through; the program's unwinding tables
tell. All of them are entries of their routines, whether a run lands there or not: graphs are the
same for all inputs.

What `longjmp` comes back to, behind a call of `setjmp`, is left to runs. As an entry in each
routine that calls `setjmp` it would leave open how an activation had begun that waits when the
program ends, and glibc calls `setjmp` in the caller of `main`: what calls `exit` could not be
read any more (`rewriting.unfinished`).
"""

from __future__ import annotations

from simprof.profiler.recovery.code_image import CodeImage
from simprof.simulator.binary.landing_pads import landing_pads
from simprof.simulator.binary.program import Program


def landing_points(program: Program, code: CodeImage) -> frozenset[int]:
    """Return the word indices of all landing pads in a program's code."""
    tables = program.unwinding
    pads = (pad for each in tables for pad in landing_pads(each, program.segments, program.is64))
    return frozenset(index for pad in pads if (index := code.index(pad)) >= 0)
