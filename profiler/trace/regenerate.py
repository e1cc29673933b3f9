"""`simprof regenerate` as a function: a trace file and its program to the blocks executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simprof.profiler.recovery.recovery import Discoveries, RecoveredProgram, recover
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.trace.discoveries import read_discoveries
from simprof.profiler.trace.format import Trace, TraceHeader, load
from simprof.profiler.trace.regeneration import Array, Regeneration, Regenerator
from simprof.profiler.trace.trace_check import check_numbers
from simprof.simulator.binary.dynamic import load_linked
from simprof.simulator.errors import UsageError

BlockSink = Callable[[RecoveredProgram, Array], None]
"""Receives the program's graphs and the next executed blocks, by global number."""


@dataclass(frozen=True)
class Regenerated:
    """What `simprof regenerate` reports.

    Attributes
    ----------
    trace, program
        The trace and the program file.
    result
        How far it led.
    instructions
        Instructions of the blocks regenerated, all of each.
    block, routine
        Address of the last block and its routine's name; None where there is no block.
    checked
        Whether the result was compared with the execution.
    """

    trace: Trace
    program: Path
    result: Regeneration
    instructions: int
    block: int | None
    routine: str | None
    checked: bool

    @property
    def complete(self) -> bool:
        """Whether the whole execution was regenerated."""
        return self.result.problem is None


def regenerate(
    path: Path, program: Path | None, *, check: bool, sink: BlockSink | None = None
) -> Regenerated:
    """Regenerate the execution that a trace is of.

    Parameters
    ----------
    path
        The trace.
    program
        The program; None: the file that the trace names.
    check
        Whether to compare the digests of the edges crossed with those of the execution.
    sink
        Receives the blocks.

    Raises
    ------
    UsageError, ProfileMismatchError
        If a file cannot be read, the trace is none, or it is of another program.
    """
    trace = load(path)
    file = Path(trace.header.file) if program is None else program
    recovered = _recover(path, trace.header, file)
    sizes = np.array(
        [block.instructions for cfg in recovered.routines for block in cfg.blocks], np.int64
    )
    instructions = 0

    def receive(blocks: Array) -> None:
        nonlocal instructions
        instructions += int(sizes[blocks].sum())
        if sink is not None:
            sink(recovered, blocks)

    try:
        check_numbers(trace, recovered)
        regenerator = Regenerator(trace, recovered, check=check, sink=receive)
    except ValueError:
        raise UsageError(f"{path} is damaged: record it again") from None
    result = regenerator.run()
    block, routine = _position(recovered, result.place)
    return Regenerated(trace, file, result, instructions, block, routine, check)


def _recover(path: Path, header: TraceHeader, file: Path) -> RecoveredProgram:
    if not file.is_file():
        raise UsageError(f"{path} is a trace of {file}, which is not there: name it with --program")
    discoveries = _discoveries(path, header)
    loaded = load_linked(file, discoveries.modules, discoveries.earlier)
    if loaded.sha256 != header.sha256:
        raise ProfileMismatchError(
            f"{path} is a trace of another program than {file} is now: name that with --program"
        )
    return recover(loaded, discoveries)


def _discoveries(path: Path, header: TraceHeader) -> Discoveries:
    try:
        return read_discoveries(header.discoveries)
    except ValueError:
        raise UsageError(f"{path} is damaged in its header: record it again") from None


def _position(recovered: RecoveredProgram, place: int) -> tuple[int | None, str | None]:
    if place < 0:
        return None, None
    number = recovered.routine_of_block(place)
    cfg = recovered.routines[number]
    return cfg.blocks[place - int(recovered.first_block[number])].start, cfg.name


class BlockLines:
    """Writes executed blocks as lines: the address, in hexadecimal, of slot blocks behind "slot".

    Parameters
    ----------
    write
        Receives the text.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._lines: list[bytes] = []

    def __call__(self, recovered: RecoveredProgram, blocks: Array) -> None:
        """Write `blocks`."""
        if not self._lines:
            self._lines = [
                b"%s%x\n" % (b"slot " if block.is_slot else b"", block.start)
                for cfg in recovered.routines
                for block in cfg.blocks
            ]
        self._write(b"".join(map(self._lines.__getitem__, blocks.tolist())))
