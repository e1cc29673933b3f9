"""What a cell's result depends on, as one key (`cells.CellKey`), and a recording of its run.

Cells that run their program as it is (`CellKind.RUN`) can be measured in the world of a recording
(`trace.recording_format`; `--replay` of sweeps and tables), which must be of the program and of the
input of all of them (`check`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypedDict

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import CellKey, CellKind, Job
from simprof.profiler.experiments.suites.suite import Input
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.fingerprint import given_file_sha256
from simprof.profiler.request.request import GuestOptions
from simprof.profiler.schemes.cost_model import cost_version, own_cost_version
from simprof.profiler.schemes.registry import brought, brought_modes
from simprof.profiler.trace.recording_format import Recording, RecordingHeader
from simprof.simulator.errors import UsageError

_PACKAGES = Path(__file__).resolve().parents[3]
# The code that makes results. Commands and reports only show them.
_PATTERNS = (
    "simulator/**/*.py",
    *(
        f"profiler/{package}/**/*.py"
        for package in (
            *("request", "graphs", "plan", "recovery", "profiles", "code", "schemes"),
            *("engine", "trace", "session"),
        )
    ),
    "profiler/experiments/cells/*.py",
)
_SHORT = 16  # Digits of a digest in the name of a file
# The code that writes and runs instrumented programs, in cells that do.
_REWRITING = ("profiler/rewriting/**/*.py", "profiler/rewriting/*.c")


class Versions(Struct, frozen=True):
    """What made a result, apart from the program and its input."""

    simprof: str  # Version of the distribution
    # Digest of the code that makes results, so that a checkout that was changed without a new
    # version never passes off old results as its own
    engine: str
    cost_model: str  # Version of what instructions cost


@cache
def versions() -> Versions:
    """Return those of this simprof."""
    return Versions(OWN_VERSION, engine_digest(), own_cost_version())


@cache
def engine_digest() -> str:
    """Return a digest of the code that makes results, and of what other distributions bring."""
    # Versions of their modes, too: a scheme that somebody works on keeps that of its distribution.
    return _code_digest(_PATTERNS, (*brought(), *map(cost_version, brought_modes())))


@cache
def _code_digest(patterns: Iterable[str], more: Iterable[str] = ()) -> str:
    digest = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(_PACKAGES.glob(pattern)):
            digest.update(f"{path.relative_to(_PACKAGES)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    for text in more:
        digest.update(f"{text}\0".encode())
    return digest.hexdigest()[:16]


class _InputFacts(TypedDict):
    arguments: tuple[str, ...]
    environment: tuple[str, ...]
    stdin: str
    files: str


class Keys:
    """Makes the keys of jobs; every file is read once.

    A `Keys` must not outlive changes of the files.
    """

    def __init__(self) -> None:
        self._files: dict[Path, str] = {}
        self._directories: dict[Path, str] = {}

    def key(self, job: Job) -> CellKey:
        """Return the key of a job; raises UsageError if one of its files cannot be read."""
        current = versions()
        return CellKey(
            program=self._file(job.program),
            kind=job.cell.kind,
            setting=job.cell.setting.name,
            name=job.cell.benchmark,
            **self._input(job.given),
            max_instructions=job.max_instructions,
            simprof=current.simprof,
            engine=current.engine,
            cost_model=current.cost_model,
            rewriting=_code_digest(_REWRITING) if job.cell.kind.of_instrumented else "",
            guide="" if job.guide is None else _digest(list(self._input(job.guide).values())),
        )

    def _input(self, given: Input) -> _InputFacts:
        return {
            "arguments": given.arguments,
            "environment": tuple(f"{name}={value}" for name, value in given.environment),
            "stdin": "" if given.stdin is None else self._file(given.stdin),
            "files": "" if given.root is None else self._directory(given.root),
        }

    def _file(self, path: Path) -> str:
        if path not in self._files:
            self._files[path] = given_file_sha256(path)
        return self._files[path]

    def _directory(self, root: Path) -> str:
        if root not in self._directories:
            if not root.is_dir():
                raise UsageError(f"{root} is not a directory: name one that exists")
            names = (path for path in sorted(root.rglob("*")) if path.is_file())
            facts = [(os.fsencode(p.relative_to(root)).hex(), self._file(p)) for p in names]
            self._directories[root] = _digest(facts)
        return self._directories[root]


def missing_key(job: Job) -> CellKey:
    """Return the key of a job whose program is not there: that of its failure."""
    current = versions()
    setting = job.cell.setting.name
    return CellKey(
        "", job.cell.kind, setting, job.cell.benchmark, (), (), "", "", None,
        current.simprof, current.engine, current.cost_model,
    )  # fmt: skip


def run_digest(key: CellKey) -> str:
    """Return a digest of all of a key that decides the run, whatever is measured in it."""
    others = {"setting", "kind", "rewriting", "guide", "cost_model"}
    names = set(CellKey.__struct_fields__) - others
    return _digest([getattr(key, name) for name in sorted(names)])[:_SHORT]


def row_key(job: Job, key: CellKey) -> str:
    """Return the digest under which the result of a job is stored."""
    cell = job.cell
    names = (job.suite, cell.benchmark, cell.build, cell.input)
    return _digest([*names, *(getattr(key, name) for name in CellKey.__struct_fields__)])


def _digest(facts: object) -> str:
    text = json.dumps(facts, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# SHA-256 of nothing, which is what a program reads that no input is named for.
_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


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
