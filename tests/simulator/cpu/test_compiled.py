"""What numba keeps is used only where all code that was compiled into it is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WHOLE = """
from probe.numbers import STEP
from probe.part import step
from simprof.simulator.cpu.compiled import c_function, types

@c_function(types.int64(types.int64))
def twice(value):
    return step(step(value)) + STEP
"""
PART = """
from simprof.simulator.cpu.compiled import jit

@jit()
def step(value):
    return value + {amount}
"""
RUN = "from probe.whole import twice; print(twice(5))"


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    """Return a package of three modules, in one of which a function of another is compiled."""
    package = tmp_path / "probe"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "whole.py").write_text(WHOLE)
    (package / "part.py").write_text(PART.format(amount=1))
    (package / "numbers.py").write_text("STEP = 100\n")
    return package


def value(probe: Path, kept: Path) -> int:
    """Return what a process computes that has these modules."""
    paths = f"{probe.parent}:{ROOT}"
    changes = {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(kept), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.long
def test_code_is_compiled_again_where_a_part_of_it_has_changed(probe: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert value(probe, kept) == value(probe, kept) == 5 + 2 + 100
    (first,) = kept.glob("whole-*")
    assert len([*first.rglob("*.nbi")]) == 1
    (probe / "part.py").write_text(PART.format(amount=7))
    assert value(probe, kept) == 5 + 14 + 100
    (probe / "numbers.py").write_text("STEP = 200\n")
    assert value(probe, kept) == 5 + 14 + 200
    assert len([*kept.glob("whole-*")]) == 2  # that of the latest change, and one before it
    assert not first.exists()
