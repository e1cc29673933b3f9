#!/usr/bin/env python3
"""Compare what two versions of simprof answer, in JSON, key by key.

    python -m tools.answers record DIRECTORY [--simprof COMMAND] [--only NAME]
                                    run everything, keep each result as DIRECTORY/*.json
    python -m tools.answers compare BEFORE AFTER [--but KEY]...
                                    say which values differ; the exit status is 1 if one does

Recorded are `compare` and `run`: of the fixtures for V9 in every mode, of those for V8+ and V8, of
the suites' committed programs and of those of the suite `real` in two modes. And `table`: every
table of the suites `micro` and `wcet`, cell by cell, but for those of seconds (`--only tables`; the
versions in them are left out by `--but engine --but cost_model --but caption`). COMMAND is
the other version's `simprof`, in an environment of its own.

All must be equal to the last digit but for what stands under a `--but` KEY, which may be given more
than once: versions, say.

Steps -> functions
    what to run                  `fixture_jobs`, `suite_jobs`, `program_jobs`, `table_jobs`
    run it, keep the result      `record`
    compare                      `flat`, `differences`
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from simprof.profiler.experiments.tables.results import tables
from simprof.profiler.experiments.tables.table import Form
from tools.benchmarks import programs
from tools.benchmarks.rows import ROOT

MODES = (
    "pp", "tpp", "ppp", "bittrace", "fifo", "kiter", "kblpp", "sampled", "pep", "qpt2", "qpt",
    "naive", "calls", "calls-optimal", "witness", "bits", "bytes", "block-trace", "pap", "wpp",
    "edges",
)  # fmt: skip
FEW = ("pp", "tpp")
SHOWN = 5
"""Differences that are printed of one result."""
SECONDS = 3600

Flat = dict[str, Any]
"""Path of a value in a JSON document, as `routines[3].name`, and the value."""


@dataclass(frozen=True)
class Job:
    """One command, whose result is kept under `name`."""

    name: str
    command: tuple[str, ...]
    options: tuple[str, ...]
    program: tuple[str, ...]  # its file and arguments
    directory: Path
    stdin: Path | None = None


def in_modes(job: Job, modes: Sequence[str]) -> Iterator[Job]:
    """Yield the job as `run` in each mode, and as `compare`."""
    for mode in modes:
        yield replace(job, name=f"{job.name}.{mode}", command=("run", "--mode", mode))
    yield replace(job, name=f"{job.name}.compare", command=("compare",))


def fixture_jobs() -> Iterator[Job]:
    """Yield what runs the fixtures."""
    manifest = tomllib.loads((ROOT / "fixtures" / "manifest.toml").read_text())
    for path in sorted((ROOT / "fixtures" / "bin").glob("*/*.elf")):
        entry = manifest[path.stem]
        stdin = ROOT / "fixtures" / "input" / entry["input"] if "input" in entry else None
        program = (str(path.relative_to(ROOT)), *entry.get("arguments", ()))
        job = Job(f"{path.parent.name}.{path.stem}", (), (), program, ROOT, stdin)
        yield from in_modes(job, MODES if path.parent.name == "v9" else FEW)


def suite_jobs() -> Iterator[Job]:
    """Yield what runs the committed programs of the suites."""
    for path in sorted((ROOT / "fixtures" / "suites" / "bin").glob("*/*.elf")):
        program = (str(path.relative_to(ROOT)),)
        yield from in_modes(
            Job(f"suite.{path.parent.name}.{path.stem}", (), (), program, ROOT), MODES
        )


def program_jobs() -> Iterator[Job]:
    """Yield what runs the real programs; those that cannot be built are named on stderr."""
    built, failures = programs.build(programs.names(), "train")
    for name, why in failures.items():
        print(f"answers: {name} left out: {why}", file=sys.stderr)
    for each in built:
        options = ("--root", str(each.root))
        program = (str(each.path), *each.arguments)
        job = Job(f"real.{each.name}", (), options, program, each.root, each.stdin)
        yield from in_modes(job, FEW)


def table_jobs() -> Iterator[Job]:
    """Yield what makes the tables of suites that need no compiler, on their smaller input."""
    names = (
        name
        for name, spec in tables().items()
        if not any(column.form is Form.SECONDS for column in spec.columns)
    )
    command = ("table", *names, "--input", "train", "--no-progress")
    for suite in ("micro", "wcet"):
        yield Job(f"tables.{suite}", command, ("--suite", suite), (), ROOT)


# By how the names of the jobs begin; those of fixtures begin with their machine's.
JOBS = {"suite": suite_jobs, "real": program_jobs, "tables": table_jobs}


def wanted_jobs(only: str) -> list[Job]:
    """Return the jobs with `only` in their names; programs of other kinds are not built for it."""
    made = JOBS.get(only.partition(".")[0])
    jobs = chain(fixture_jobs(), *(each() for each in JOBS.values())) if made is None else made()
    return [job for job in jobs if only in job.name]


def record(jobs: Sequence[Job], directory: Path, simprof: str) -> list[str]:
    """Run jobs, two at a time, and keep their results; return the names of those without one."""
    directory.mkdir(parents=True, exist_ok=True)

    def run(job: Job) -> bool:
        file = (directory / f"{job.name}.json").resolve()
        if file.exists():
            return True
        given = ("--stdin", str(job.stdin)) if job.stdin else ()
        written = (
            ("--json", "-o", str(file)) if job.command[0] == "table" else ("--json", str(file))
        )
        command = (simprof, *job.command, *written, *job.options, *given, *job.program)
        done = subprocess.run(
            command, cwd=job.directory, capture_output=True, timeout=SECONDS, check=False
        )
        if not file.exists():
            print(f"{job.name}: {done.stderr.decode(errors='replace')[-300:]}", file=sys.stderr)
        return file.exists()

    with ThreadPoolExecutor(2) as pool:
        return [job.name for job, good in zip(jobs, pool.map(run, jobs), strict=True) if not good]


def flat(document: object, path: str = "") -> Flat:
    """Return the values of a JSON document by their paths; an empty list or table is a value."""
    if isinstance(document, dict) and document:
        parts = [(f"{path}.{key}" if path else key, value) for key, value in document.items()]
    elif isinstance(document, list) and document:
        parts = [(f"{path}[{place}]", value) for place, value in enumerate(document)]
    else:
        return {path: document}
    found: Flat = {}
    for name, value in parts:
        found |= flat(value, name)
    return found


def differences(before: Flat, after: Flat, left_out: Sequence[str] = ()) -> list[str]:
    """Return what differs, a line each; `left_out`: keys under which all may be different."""
    return [
        f"{path}: {before.get(path, '(absent)')!r} -> {after.get(path, '(absent)')!r}"
        for path in {**before, **after}
        if (path not in before or path not in after or before[path] != after[path])
        and not set(re.split(r"[.\[]", path)).intersection(left_out)
    ]


def compare(before: Path, after: Path, left_out: Sequence[str] = ()) -> int:
    """Print what differs between two directories of results; return how many results do."""
    names = sorted({file.name for each in (before, after) for file in each.glob("*.json")})
    differing = values = 0
    for name in names:
        files = [directory / name for directory in (before, after)]
        if not all(file.exists() for file in files):
            print(f"{name}: only one version has a result")
            differing += 1
            continue
        was, now = (flat(json.loads(file.read_text())) for file in files)
        found = differences(was, now, left_out)
        values += len(was)
        differing += bool(found)
        for line in found[:SHOWN]:
            print(f"{name}: {line}")
        if len(found) > SHOWN:
            print(f"{name}: {len(found) - SHOWN} more")
    print(f"{len(names)} results of {values:,} values, {differing} differ")
    return differing


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("directory", type=Path)
    recording.add_argument("--simprof", default="simprof")
    recording.add_argument("--only", default="")
    comparing = actions.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--but", action="append", default=[])
    given = parser.parse_args(arguments)
    if given.action == "record":
        wanted = wanted_jobs(given.only)
        bad = record(wanted, given.directory, given.simprof)
        print(f"{len(wanted) - len(bad)} results in {given.directory}; {len(bad)} have none: {bad}")
        return int(bool(bad))
    return int(bool(compare(given.before, given.after, given.but)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
