"""Shared by tests: what `tests/end_to_end/test_cli_run.py` and others use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WIDTHS = ("v9", "v8plus", "v8")


def simprof(
    *arguments: str | Path, cwd: Path | None = None, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Start the command in a process of its own."""
    command = [sys.executable, "-c", "from simprof.profiler.cli import main; main()"]
    return subprocess.run(
        [*command, *map(str, arguments)],
        input=given,
        capture_output=True,
        check=False,
        cwd=cwd,
        timeout=120,
    )
