"""Shared by tests: what `tests/end_to_end/test_crashes.py` and others use."""

from __future__ import annotations

from pathlib import Path


def handles(process: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False
