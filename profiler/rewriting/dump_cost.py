"""What writing the counter file executes (`dump`), when all system calls succeed."""

from __future__ import annotations

from collections.abc import Iterator

from simprof.profiler.rewriting.dump import EXIT, OVER, dump_items
from simprof.profiler.rewriting.guest_memory import FRAMES, FRAMES_END, Memory
from simprof.profiler.rewriting.parts import Width
from simprof.profiler.rewriting.walk import steps
from simprof.simulator.binary.program import MachineKind


def exit_cost(
    machine: MachineKind,
    memory: Memory,
    header: bytes,
    frames: int = 1,
    *,
    replaces: bool = False,
) -> int:
    """Return the instructions from `simprof.exit` to the system call, that included.

    Parameters
    ----------
    frames
        Words of the stack in the file, at least 1.
    replaces
        Whether there is a file of that name already.

    All system calls succeed, and write all at once.
    """
    items = dump_items(machine, memory, header)
    own = (False, True)  # the process that was started, and its first thread
    last = (False, False) if memory.trace else ()
    return steps(
        items, EXIT, (*own, *last, *dump_outcomes(machine, memory, frames, replaces)), OVER
    )


def dump_outcomes(
    machine: MachineKind, memory: Memory, frames: int, replaces: bool
) -> Iterator[bool]:
    """Yield the outcomes of the branches of what all ways to write the file have in common."""
    written = (False, False, False)
    yield from (False, True) if replaces else (True,)
    yield False
    yield from written
    for index, region in enumerate(memory.dumped):
        yield region.end is None
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
