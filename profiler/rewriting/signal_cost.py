"""What is executed when a signal ends an instrumented program, and to stay unnoticed until then."""

from __future__ import annotations

from functools import cache

from simprof.profiler.rewriting.dump import dump_items
from simprof.profiler.rewriting.dump_cost import dump_outcomes
from simprof.profiler.rewriting.guest_memory import Memory
from simprof.profiler.rewriting.signals import (
    ACTION,
    CHOICES,
    HANDLE,
    OVER,
    call_site,
    signal_items,
)
from simprof.profiler.rewriting.walk import steps
from simprof.simulator.binary.program import MachineKind


def signal_cost(machine: MachineKind, memory: Memory, header: bytes, frames: int) -> int:
    """Return the instructions from `simprof.signal` to the system call that ends the program.

    That one is counted.

    Parameters
    ----------
    frames
        Words of the stack in the file, at least 2.

    All system calls succeed, and write all at once.
    """
    items = [*signal_items(machine, memory), *dump_items(machine, memory, header)]
    own = (False, True)  # the process that was started, and its first thread
    last = (False, False) if memory.trace else ()
    outcomes = dump_outcomes(machine, memory, frames, False)
    return steps(items, HANDLE, (*own, *last, *outcomes), OVER)


@cache
def action_cost(machine: MachineKind) -> int:
    """Return the instructions of `signals.call_site` and what it calls, but for its first trap.

    That one the program makes, too.
    """
    items = signal_items(machine, Memory((), signals=True))
    return len(call_site(machine)) + steps(items, ACTION, (True,) * CHOICES) - 1
