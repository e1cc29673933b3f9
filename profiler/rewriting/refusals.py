"""Where an instrumented program ends because it could not go on as the original would.

These are places of the run-time code to which copies go: one line on standard error, status 125.
"""

from __future__ import annotations

from simprof.profiler.rewriting.parts import (
    EXIT_GROUP,
    WRITE,
    Part,
    Reference,
    Width,
    find_base,
    resolve,
    text,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register

R = Register

UNFORESEEN = "simprof.unforeseen"
REWRITES = "simprof.rewrites"
TEXTS = {
    UNFORESEEN: b"simprof: a jump leads where no run has shown it to lead: instrument the program "
    b"with a run like this one, or without one\n",
    REWRITES: b"simprof: the program changes its own code, whose copy would not change: it cannot "
    b"run instrumented\n",
}
STATUS = 125


def refusal_items(machine: MachineKind) -> tuple[Item, ...]:
    """Return the code of all refusals, to be assembled anywhere."""
    width = Width(machine)
    items: list[Item] = []
    for label, message in TEXTS.items():
        parts: list[Part] = [
            Label(label),
            *find_base(f"{label}.base"),
            asm.mov(2, R.O0),
            Reference(f"{label}.text", R.O1),
            asm.mov(len(message), R.O2),
            *width.call(WRITE),
            asm.mov(STATUS, R.O0),
            *width.call(EXIT_GROUP),
            *text(f"{label}.text", message),
        ]
        items += resolve(parts, f"{label}.base")
    return tuple(items)
