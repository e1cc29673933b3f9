"""Rows of a benchmark, and the JSON file that keeps them.

The file is written after every row, and extended by later invocations: what is measured again takes
the place of what was there. An invocation that goes on with an interrupted one leaves out what was
measured at the same commit.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

from simprof.profiler.profiles.output import write_atomically
from simprof.simulator.errors import UsageError

COMPARED = (
    *("pp", "qpt2", "qpt", "witness", "bits", "bittrace", "tpp", "kiter"),
    *("naive", "calls", "calls-optimal"),
)
"""The eleven modes that `compare` is measured with: those that there were first."""
ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "simprof/bench/2"
NO_RESULTS = tuple(f":(exclude)docs/{name}" for name in ("performance.*", "reliability.*", "data"))
"""What git leaves out when it says whether files were changed: what is written meanwhile."""

Part = Literal["engine", "command", "text", "length", "event", "recovery"]
State = Literal["", "cold", "warm"]
Outcome = Literal["ok", "timeout", "failed"]


@dataclass(frozen=True)
class Row:
    """What was measured of one configuration on one program.

    Attributes
    ----------
    part
        What it belongs to: the engine alone, whole commands, growth over text size or run
        length, one longjmp or exception, recovery.
    state
        "cold": with an empty cache; "warm": the same command again; "": it has no cache.
    arguments
        Of the program.
    wall, cpu
        Seconds: wall-clock time, and processor time of the process and its children. Of the engine:
        of everything but Python's start, and processor time of the emulated run.
    peak
        Bytes of memory at most, 0: not measured.
    instructions
        Executed, 0: not known.
    runs, whole_runs
        How often the program was emulated, and how often from start to end; 0: not known.
    text
        Bytes of executable sections, 0: not looked up.
    detail
        Why it failed, empty otherwise.
    beside
        How many cores other processes used meanwhile, on average; None: not known.
    repeat
        How often it was measured: the times are those of the run that took least processor time.
    """

    part: Part
    program: str
    configuration: str
    state: State
    arguments: tuple[str, ...]
    outcome: Outcome = "ok"
    wall: float = 0.0
    cpu: float = 0.0
    peak: int = 0
    instructions: int = 0
    runs: int = 0
    whole_runs: int = 0
    text: int = 0
    detail: str = ""
    beside: float | None = None
    repeat: int = 1
    commit: str = ""
    date: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """What was measured, whatever came out."""
        return (self.part, self.program, self.configuration, self.state, *self.arguments)


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    processor: str
    cores: int
    python: str


class Results:
    """The rows so far, in a file or in memory only.

    Parameters
    ----------
    path
        The file, which is extended if it exists; None: none.
    resume
        Measure nothing again that it has of this commit.

    Raises
    ------
    UsageError
        If there is another file of that name.
    """

    def __init__(self, path: Path | None = None, *, resume: bool = False) -> None:
        self._path = path
        self._resume = resume
        known = load(path)[1] if path is not None and path.exists() else ()
        self._rows = {row.key: row for row in known}

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order in which their configurations were first measured."""
        return tuple(self._rows.values())

    def has(self, row: Row) -> bool:
        """Whether the row need not be measured again."""
        known = self._rows.get(row.key)
        return self._resume and known is not None and known.commit == commit()

    def add(self, row: Row) -> None:
        """Add a row, or put it in the place of an older one, and write the file."""
        stamped = replace(row, commit=commit(), date=datetime.now(UTC).date().isoformat())
        self._rows[row.key] = stamped
        if self._path is not None:
            write_atomically(self._path, dump(self.rows).encode())


def dump(rows: Iterable[Row]) -> str:
    """Return a file of results: one row a line."""
    lines = ",\n".join("  " + json.dumps(asdict(row)) for row in rows)
    about = json.dumps(asdict(machine()))
    return f'{{\n "schema": "{SCHEMA}",\n "machine": {about},\n "rows": [\n{lines}\n ]\n}}\n'


def load(path: Path) -> tuple[Machine, tuple[Row, ...]]:
    """Return what a file of results holds.

    Raises
    ------
    UsageError
        If it cannot be read, or is something else.
    """
    try:
        found = json.loads(path.read_text())
        if found["schema"] != SCHEMA:
            raise ValueError(f"its schema is {found['schema']!r}")
        return Machine(**found["machine"]), tuple(map(_row, found["rows"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no file of benchmark results ({error})") from None


def from_json(text: str) -> tuple[Row, ...]:
    """Return the rows that another process of this benchmark has written (`dump`)."""
    return tuple(map(_row, json.loads(text)["rows"]))


def _row(values: dict[str, Any]) -> Row:
    known = {field.name for field in fields(Row)}
    given = {key: value for key, value in values.items() if key in known}
    return Row(**(given | {"arguments": tuple(given["arguments"])}))


def find(
    rows: Sequence[Row], part: Part, program: str, configuration: str, state: State = ""
) -> Row | None:
    """Return the last row of a configuration that was measured to its end, None without one."""
    wanted = (part, program, configuration, state)
    found = [row for row in rows if row.key[:4] == wanted and row.outcome == "ok"]
    return found[-1] if found else None


@cache
def machine() -> Machine:
    """Describe this machine."""
    return Machine(_processor(), os.cpu_count() or 1, platform.python_version())


def _processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (names or [platform.machine()])[0]


@cache
def commit() -> str:
    """Return the commit that is measured, with a `+` where files differ from it."""
    try:
        name = _git("rev-parse", "--short=10", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *NO_RESULTS)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + ("+" if changed else "")


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
