"""One process, from its start to its end: wall-clock time, processor time, memory.

`launcher`, a small process, starts it and measures it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.benchmarks.rows import Outcome

LAUNCHER = Path(__file__).with_name("launcher.py")
TICKS = os.sysconf("SC_CLK_TCK")
IDLE = (3, 4)
"""Which of the times in /proc/stat nothing was executed in: idle, and waiting for a disk."""


@dataclass(frozen=True)
class Cost:
    """What a process took.

    Attributes
    ----------
    outcome
        "timeout" where it was ended for taking too long, "failed" where its status was another
        one than expected.
    wall, cpu
        Seconds: wall-clock time; processor time, user and system, of it and its children.
    peak
        Bytes of memory at most, of it and its children together.
    beside
        How many cores other processes used meanwhile; None: not known.
    detail
        The last line of what a failed process said.
    """

    outcome: Outcome
    wall: float
    cpu: float
    peak: int
    beside: float | None
    detail: str = ""


def measure(
    command: Sequence[str],
    *,
    timeout: float,
    directory: Path,
    environment: Mapping[str, str],
    stdin: Path | None = None,
    status: int = 0,
) -> Cost:
    """Run a command to its end, or for `timeout` seconds, and say what it took.

    Its standard output is dropped.
    """
    with tempfile.TemporaryDirectory(prefix="simprof-bench-") as scratch:
        said = Path(scratch) / "stderr"
        before = _busy()
        found = _launched(
            {
                "command": [*command],
                "directory": str(directory),
                "environment": dict(environment),
                "stdin": str(stdin or os.devnull),
                "stderr": str(said),
                "timeout": timeout,
            }
        )
        after = _busy()
        message = _last_line(said)
    wall, cpu = found["wall"], found["cpu"]
    outcome: Outcome = "ok" if found["status"] == status else "failed"
    if found["ended"]:
        outcome = "timeout"
    beside = None if before is None or after is None else max(0.0, (after - before - cpu) / wall)
    detail = message if outcome == "failed" else ""
    return Cost(outcome, wall, cpu, found["peak"], beside, detail)


def _launched(spec: Mapping[str, object]) -> dict[str, Any]:
    """Return what the launcher has measured."""
    words = [sys.executable, "-I", "-S", str(LAUNCHER), json.dumps(spec)]
    launcher = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, process_group=0)
    try:
        answer, _ = launcher.communicate()
    except BaseException:
        launcher.terminate()  # which ends the command, too
        launcher.wait()
        raise
    return json.loads(answer)  # type: ignore[no-any-return]


def _last_line(said: Path) -> str:
    """Return the last line of what a process has said."""
    text = said.read_text(errors="replace") if said.exists() else ""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return (lines or ["no message"])[-1]


def _busy() -> float | None:
    """Return the seconds that all cores together have worked since the machine started."""
    try:
        first = Path("/proc/stat").read_text().splitlines()[0]
    except OSError:
        return None
    times = [int(each) for each in first.split()[1:9]]
    return sum(each for number, each in enumerate(times) if number not in IDLE) / TICKS
