"""What a cell's result depends on, as one key (`cells.CellKey`)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TypedDict

from msgspec import Struct

from simprof.profiler.experiments.cells.cells import CellKey, Job
from simprof.profiler.experiments.suites.suite import Input
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.fingerprint import given_file_sha256
from simprof.profiler.schemes.cost_model import cost_version, own_cost_version
from simprof.profiler.schemes.registry import brought, brought_modes
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


def row_key(job: Job, key: CellKey) -> str:
    """Return the digest under which the result of a job is stored."""
    cell = job.cell
    names = (job.suite, cell.benchmark, cell.build, cell.input)
    return _digest([*names, *(getattr(key, name) for name in CellKey.__struct_fields__)])


def _digest(facts: object) -> str:
    text = json.dumps(facts, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
