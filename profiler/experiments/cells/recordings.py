"""A recording (`simprof record`) in the place of the world that cells see (`--replay`).

Cells that run their program as it is (`CellKind.RUN`) can be measured so. The recording must be of
the program and of the input of all of them (`check`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import CellKey, CellKind, Job, digest
from simprof.profiler.request.request import GuestOptions
from simprof.profiler.trace.recording_format import Recording, RecordingHeader
from simprof.simulator.errors import UsageError

# SHA-256 of nothing, which is what a program reads that no input is named for.
_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def run_digest(key: CellKey) -> str:
    """Return a digest of all of a key that decides the run, whatever is measured in it."""
    others = {"setting", "kind", "rewriting", "guide", "cost_model"}
    names = set(CellKey.__struct_fields__) - others
    return digest([getattr(key, name) for name in sorted(names)])


def replayed(path: Path, jobs: Mapping[Job, CellKey]) -> Callable[[Job], Job]:
    """Return what gives a job the recording at `path`, if that stands for its run.

    `jobs`: All jobs with their keys. Raises UsageError if the recording is not of the one run that
    they are of.
    """
    runs = {run_digest(key): job for job, key in jobs.items() if job.cell.kind is CellKind.RUN}
    if len(runs) > 1:
        names = [
            " ".join(filter(None, (job.cell.benchmark, job.cell.build, job.cell.input)))
            for job in list(runs.values())[:2]
        ]
        raise UsageError(
            f"--replay {path} is a recording of one run, and these cells are of several "
            f"({', '.join(names)}): sweep one program with one input"
        )
    for job in runs.values():
        check(path, job, jobs[job])
    return lambda job: replace(job, replay=path) if job.cell.kind is CellKind.RUN else job


def check(path: Path, job: Job, key: CellKey) -> None:
    """Check that a recording is of the run of a job.

    What the program found in directories is not in the recording and not compared.

    Raises UsageError if it is not, or is not whole.
    """
    recording = Recording(path)
    if job.writable:
        raise UsageError(
            f"--replay {path}: {job.cell.benchmark} ({job.cell.build}) writes files, which a "
            "recording lacks: leave it out"
        )
    if recording.header.sha256 != key.program:
        raise UsageError(f"{path} is a recording of another program than {job.program}")
    for differs, what, hint in _differences(recording.header, job, key):
        if differs:
            raise UsageError(f"{path}: the program was recorded {what}: record it with {hint}")
    budget, executed = job.max_instructions, recording.end.instructions
    if recording.header.guest.max_instructions != budget and not (
        recording.end.reason == "exit" and (budget is None or executed <= budget)
    ):
        raise UsageError(
            f"{path}: the program was recorded with another budget: record it with "
            f"--max-instructions {budget}"
            if budget is not None
            else f"{path}: the run was cut short: record it without a budget"
        )


def _differences(
    header: RecordingHeader, job: Job, key: CellKey
) -> Sequence[tuple[bool, str, str]]:
    """Return for each thing that decides a run whether it differs, how, and what helps."""
    guest, plain = header.guest, GuestOptions(root=Path())
    arguments = tuple(os.fsdecode(bytes.fromhex(text)) for text in header.arguments)
    name, file = (os.fsdecode(bytes.fromhex(text)) for text in (guest.name, guest.file))
    environment = tuple(os.fsdecode(bytes.fromhex(text)) for text in guest.environment)
    limits = ("memory_limit", "stack_size", "strict", "thread_seed")
    return (
        (arguments != key.arguments, "with other arguments", f"-- {' '.join(key.arguments)}"),
        (file != f"/{key.name}", f"as {file}", f"--exe /{key.name}"),
        (name != key.name, f"under the name {name}", f"--argv0 {key.name}"),
        (environment != key.environment, "with other variables", "the environment of the cells"),
        (
            guest.stdin != (key.stdin or _EMPTY),
            "with another standard input",
            f"--stdin {job.given.stdin or os.devnull}",
        ),
        (
            any(getattr(guest, limit) != getattr(plain, limit) for limit in limits),
            "with other limits",
            "the usual --memory-limit and --stack-size, no --strict and no --thread-seed",
        ),
    )
