"""The run-time of an instrumented program at its start and end, and its memory.

The code is `runtime.c`, compiled once for each machine to an image that can lie anywhere (`make
runtime`, `tools/ship_runtime.py`). After the image come a branch to `simprof.entry` and the
parameters: the memory to map and to fill, what of that the counter file holds, the file's header.

What the code executes is not predicted but counted, by the addresses of its parts (`spans`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from importlib import resources

import numpy as np
from msgspec import Struct

from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.code.registers import save_smallest_frame
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.elsewhere.counter_file import FileRegion
from simprof.profiler.schemes.definition import StreamBuffer
from simprof.simulator.binary.program import PAGE_SIZE, MachineKind, Program, Range, page_up
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import MASK32, Instruction, Item, Label, Register
from simprof.simulator.isa.sparc import IGNORED_SIGNALS, SIGNALS, STOP_SIGNALS
from simprof.simulator.linux.process import program_auxiliary

R = Register

ENTRY = "simprof.entry"  # The copy of the program's entry
START = "simprof.start"  # Where the program begins
EXIT = "simprof.exit"  # Where copies branch to that would have called exit(2) or exit_group(2)
ACTION = "simprof.sigaction"  # What they call that would have said what a signal does
# Where the program ends with one line and `STATUS`: a jump that no run has shown, a changed routine
UNFORESEEN, REWRITES = "simprof.unforeseen", "simprof.rewrites"
STATUS = 125
DEFAULT_NAME = "simprof.out"  # The counter file's, where SIMPROF_OUT names none

_END, _BEGIN, _PARAMETERS = "simprof.end", "simprof.begin", "simprof.parameters"
_SIGKILL = 9
# Signals that end a program by default, and that can be handled; without real-time signals.
FATAL = tuple(
    number for number in SIGNALS if number not in IGNORED_SIGNALS | STOP_SIGNALS | {_SIGKILL}
)
_DATA_SIZE = 0x4000  # Bytes of `struct data`


class Place(IntEnum):
    """Words at the beginning of an image: where in it something is."""

    UNFORESEEN = 0
    REWRITES = 1
    ACTION = 2
    END = 3  # The code of the end begins, in which `EXIT` is.
    EXIT = 4
    BEGIN = 5  # The code of the start begins, which goes on to the image's end.
    START = 6


_LABELS = (UNFORESEEN, REWRITES, ACTION, _END, EXIT, _BEGIN, START)

Auxiliary = tuple[tuple[int, int], ...]  # Keys of the auxiliary vector with their values


class Stream(Struct, frozen=True):
    """The buffer through which a trace is written."""

    buffer: StreamBuffer
    packed: bool  # Whether code appends bits, else whole bytes


class StartMemory(Struct, frozen=True):
    """What the start of an instrumented program maps and fills, and what its end writes."""

    # (address, size in bytes) of the memory to map; all below 2 GB.
    regions: tuple[tuple[int, int], ...]
    # (address, contents) of what is not zero in it at first, in words
    fills: tuple[tuple[int, bytes], ...] = ()
    dumped: tuple[FileRegion, ...] = ()  # What the counter file holds, in its order
    trace: Stream | None = None  # Through what a trace is written; None: there is none.
    # What the program shall see in its auxiliary vector, whatever the kernel has put there; each
    # key is there once.
    auxiliary: Auxiliary = ()
    signals: bool = False  # Whether the file is written when a signal ends the program, too


class WordRun(Struct, frozen=True):
    """`count` equal words from `address` on."""

    address: int
    word: int
    count: int


def mapped(memory: StartMemory) -> list[tuple[int, int]]:
    """Return (address, size) of what to map: disjoint runs of whole pages, by address."""
    regions = [*memory.regions, (RUNTIME_DATA, _DATA_SIZE)]
    if memory.trace is not None:
        buffer = memory.trace.buffer
        regions.append((buffer.start, buffer.size + buffer.descriptor + 4))
    runs: list[tuple[int, int]] = []
    for address, size in sorted(regions):
        start, end = address // PAGE_SIZE * PAGE_SIZE, page_up(address + size)
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        elif size:
            runs.append((start, end))
    return [(start, end - start) for start, end in runs]


def filled(memory: StartMemory) -> list[WordRun]:
    """Return the fills as runs of equal words; memory that is mapped afresh holds zeros."""
    return [run for address, data in memory.fills for run in _runs(address, data)]


def _runs(address: int, data: bytes) -> Iterator[WordRun]:
    if address % 4 or len(data) % 4:
        raise ValueError(f"the fill at {address:#x} is not made of words")
    stored = np.frombuffer(data, dtype=">u4")
    starts = np.flatnonzero(np.diff(stored, prepend=stored[:1] + 1))
    counts = np.diff(starts, append=len(stored))
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        if word := int(stored[start]):
            yield WordRun(address + 4 * start, word, count)


def original_auxiliary(program: Program) -> Auxiliary:
    """Return what `program` shall see of itself in its auxiliary vector when it is instrumented.

    What would depend on where a position-independent program is loaded is left out.
    """
    if program.load_bias:
        return ()
    return tuple(program_auxiliary(program).items())


@cache
def image(machine: MachineKind) -> tuple[int, ...]:
    """Return the words of the compiled code for a machine."""
    folder = resources.files("simprof.profiler.rewriting.elsewhere")
    data = folder.joinpath(f"runtime.{machine}").read_bytes()
    return struct.unpack(f">{len(data) // 4}I", data)


def runtime_items(machine: MachineKind, memory: StartMemory, header: bytes) -> tuple[Item, ...]:
    """Return the code with its parameters, to be assembled within a branch's reach of `ENTRY`."""
    # header: What the counter file begins with.
    code = image(machine)
    labels: dict[int, list[Label]] = {}
    for place, name in zip(Place, _LABELS, strict=True):
        labels.setdefault(code[place], []).append(Label(name))
    items: list[Item] = []
    for number, word in enumerate(code):
        items += [*labels.get(4 * number, ()), asm.data_word(word)]
    given = parameters(memory, header)
    return (
        *items,
        asm.branch("a", ENTRY),
        asm.restore(),
        Label(_PARAMETERS),
        *map(asm.data_word, struct.unpack(f">{len(given) // 4}I", given)),
    )


def parameters(memory: StartMemory, header: bytes) -> bytes:
    """Return `struct parameters` of `runtime.c` with the lists behind it."""
    trace = (0,) * 5
    if (stream := memory.trace) is not None:
        buffer = stream.buffer
        trace = buffer.start, buffer.size, buffer.position, buffer.descriptor, int(stream.packed)
    lists: list[Sequence[tuple[int, ...]]] = [
        mapped(memory),
        [(run.address, run.word, run.count) for run in filled(memory)],
        [(key, value >> 32, value & MASK32) for key, value in memory.auxiliary],
        # where a region begins, and its bytes or else where the word with its end is
        [
            (each.address, 0, each.free) if each.grows else (each.address, each.size, 0)
            for each in memory.dumped
        ],
    ]
    signals = sum(1 << number for number in FATAL) if memory.signals else 0
    words = [RUNTIME_DATA, *(len(rows) for rows in lists), len(header), signals, *trace]
    words += [word for rows in lists for row in rows for word in row]
    return struct.pack(f">{len(words)}I", *words) + header + bytes(-len(header) % 4)


def spans(labels: Mapping[str, int]) -> dict[Cause, Range]:
    """Return where the code lies that has a cause of its own, given all labels' addresses."""
    action, end, begin = labels[ACTION], labels[_END], labels[_BEGIN]
    return {
        Cause.SYSTEM_CALLS: Range(action, end),
        Cause.DUMP: Range(end, begin),
        Cause.START: Range(begin, labels[_PARAMETERS]),
    }


def call_site(machine: MachineKind) -> list[Instruction]:
    """Return what stands in a copy in place of the trap of a system call that acts on signals."""
    return [save_smallest_frame(machine), asm.call(ACTION), asm.mov(R.G1, R.L0)]
