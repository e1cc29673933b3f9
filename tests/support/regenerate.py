"""Shared by tests: what `tests/trace/test_regenerate.py` and others use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs, recover
from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.session.session import run_program
from simprof.profiler.trace.format import (
    TraceHeader,
    load,
    parse,
)
from simprof.profiler.trace.regeneration import Regeneration, Regenerator
from simprof.simulator.binary import elf


@dataclass(frozen=True)
class Traced:
    """A run with its trace, and what the trace gives."""

    measurement: RunMeasurement
    path: Path
    recovered: ProgramGraphs

    def follow(
        self, data: bytes | None = None, *, check: bool = True
    ) -> tuple[list[int], Regeneration]:
        """Regenerate from the trace or from other bytes; the blocks are global numbers."""
        trace = load(self.path) if data is None else parse(data, "trace")
        blocks: list[int] = []
        regenerator = Regenerator(
            trace, self.recovered, check=check, sink=lambda more: blocks.extend(more.tolist())
        )
        return blocks, regenerator.run()


def record(
    program: Path, mode: str, directory: Path, most: int | None = None, given: Path | None = None
) -> Traced:
    """Run `program` and keep its trace."""
    path = directory / f"{program.parent.name}-{program.stem}-{mode}-{most}.trace"
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        guest = GuestOptions(
            root=directory,
            stdin=given or Path(os.devnull),
            stdout=null,
            stderr=null,
            max_instructions=most,
        )
        request = RunRequest(program, guest, mode=mode, self_check=True, trace=path)
        measurement = run_program(request)
    finally:
        os.close(null)
    return Traced(measurement, path, graphs(program, load(path).header))


def graphs(program: Path, header: TraceHeader) -> ProgramGraphs:
    found: dict[str, Any] = {
        name: frozenset(tuple(each) if isinstance(each, list) else each for each in values)
        for name, values in header.discoveries.items()
    }
    return recovered_graphs(program, Discoveries(**found))


@cache
def recovered_graphs(program: Path, discoveries: Discoveries) -> ProgramGraphs:
    return recover(elf.load(program), discoveries)
