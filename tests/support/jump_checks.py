"""Shared by tests: what `tests/rewriting/test_jump_checks.py` and others use."""

from __future__ import annotations

import json
import os
from pathlib import Path

from simprof.profiler import cli

FLAGS = ("-nostdlib", "-ffreestanding", "-w")


def instrumented(path: Path, directory: Path, *arguments: str) -> tuple[Path, list[dict[str, str]]]:
    """Return the program, and what was left alone of it."""
    made, facts = directory / "made", directory / "facts"
    command = ["instrument", path, "-o", made, "--json", facts, "--report", os.devnull, *arguments]
    assert cli.run(list(map(str, command))) == 0
    return made, json.loads(facts.read_text())["routines_left"]
