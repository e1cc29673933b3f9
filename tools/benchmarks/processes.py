"""One process, from its start to its end: wall-clock time, processor time, memory.

The process that measures stays small: Linux counts what a process held before it executed another
program into that program's peak.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO

from tools.benchmarks.rows import Outcome

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
        Bytes of memory at most.
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
    before, started = _busy(), time.perf_counter()
    with Path(stdin or os.devnull).open("rb") as given, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=dict(environment),
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=said,
            process_group=0,
        )
        timer = Timer(timeout, _end, (process.pid,))
        timer.start()
        try:
            _, wait_status, usage = os.wait4(process.pid, 0)
        except BaseException:
            _end(process.pid)
            process.wait()
            raise
        finally:
            timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(wait_status)
        wall = time.perf_counter() - started
        after = _busy()
        outcome: Outcome = "ok" if process.returncode == status else "failed"
        if process.returncode == -signal.SIGKILL and wall >= timeout:
            outcome = "timeout"
        detail = _last_line(said) if outcome == "failed" else ""
    cpu = usage.ru_utime + usage.ru_stime
    beside = None if before is None or after is None else max(0.0, (after - before - cpu) / wall)
    return Cost(outcome, wall, cpu, usage.ru_maxrss * 1024, beside, detail)


def _end(group: int) -> None:
    """Kill a process and those that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _last_line(said: IO[bytes]) -> str:
    """Return the last line of what a process has said."""
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    return ([line.strip() for line in lines if line.strip()] or ["no message"])[-1]


def _busy() -> float | None:
    """Return the seconds that all cores together have worked since the machine started."""
    try:
        first = Path("/proc/stat").read_text().splitlines()[0]
    except OSError:
        return None
    times = [int(each) for each in first.split()[1:9]]
    return sum(each for number, each in enumerate(times) if number not in IDLE) / TICKS
