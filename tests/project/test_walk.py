"""How far a run's request is handed on: each part to few modules, never upwards, seldom back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

MODULES, CLIMBS, RETURNS = 15, 0, 6


@pytest.mark.long
def test_no_part_of_a_request_wanders() -> None:
    command = [sys.executable, "-m", "tools.walk"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    found = {part: tuple(map(int, counts)) for part, *counts in rows}
    assert found["RunRequest"][0] == 1  # the door
    for modules, climbs, returns in found.values():
        assert modules <= MODULES and climbs <= CLIMBS and returns <= RETURNS
