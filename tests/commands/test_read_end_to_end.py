"""From a program to its profile: `instrument`, a run under qemu, `read`, and who takes it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EMULATORS
from tests.support.cli_run import WIDTHS, simprof
from tests.support.turns import first

Find = Callable[..., Path]
pytestmark = pytest.mark.qemu

UNTOLD = {
    "pp": {"added", "hashed_increments", "overhead", "system_calls", "warnings"},
    "qpt2": {"system_calls", "warnings"},
}
"""The fields that counters do not tell (docs/SEMANTICS.md)."""


def ran(made: Path, width: str = "v9") -> Path:
    """Run an instrumented program; return its counter file."""
    counters = made.with_name("counters")
    command = [EMULATORS[width], str(made)]
    environment = {"SIMPROF_OUT": str(counters)}
    subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    return counters


def instrumented(original: Path, directory: Path, *options: str | Path) -> Path:
    made = directory / "made"
    common = ("instrument", original, "-o", made, "--report", os.devnull)
    done = simprof(*common, *options)
    assert done.returncode == 0, done.stderr.decode()
    return made


def differing(one: Any, other: Any, name: str = "") -> set[str]:
    """Return the names of the fields that differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = ((key, one.get(key), other.get(key)) for key in {*one, *other})
        return {field for key, a, b in pairs for field in differing(a, b, key)}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        both = zip(one, other, strict=True)
        return {field for a, b in both for field in differing(a, b, name)}
    return set() if one == other else {name}


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "width"), first(1, [*(("qpt2", w) for w in WIDTHS), ("pp", "v9")])
)
def test_the_result_is_that_of_a_simulated_run(
    fixture_elf: Find, tmp_path: Path, mode: str, width: str
) -> None:
    original = fixture_elf("words", width)
    made = instrumented(original, tmp_path, "--mode", mode)
    read, run = tmp_path / "read.json", tmp_path / "run.json"
    done = simprof("read", made, ran(made, width), "--json", read)
    assert done.returncode == 0, done.stderr.decode()
    status = simprof("run", "--mode", mode, "--json", run, original).returncode
    objects = [json.loads(path.read_text()) for path in (read, run)]
    assert differing(*objects) <= UNTOLD[mode]
    assert "warnings" in differing(*objects)
    assert objects[0]["exit"] == {"status": status, "reason": "exit"}
    assert status != 0


@pytest.mark.long
@pytest.mark.parametrize("mode", ["naive", "qpt2", "pp"])
def test_activations_that_longjmp_has_left_are_noticed(
    fixture_elf: Find, tmp_path: Path, mode: str
) -> None:
    made = instrumented(fixture_elf("nonlocal"), tmp_path, "--mode", mode)
    done = simprof("read", made, ran(made))
    assert (done.returncode, done.stdout) == (125, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.endswith(
        "the file is damaged, or the program left routines by longjmp or an exception, which its "
        "counters do not show: use `simprof run`"
    )


@pytest.mark.long
def test_the_profile_guides_and_weighs(fixture_elf: Find, tmp_path: Path) -> None:
    original, profile = fixture_elf("words"), tmp_path / "profile"
    made = instrumented(original, tmp_path, "--mode", "qpt2")
    assert simprof("read", made, ran(made), "-o", profile).returncode == 0
    saved = tmp_path / "saved"
    simprof("run", "--mode", "edges", "-o", saved, original)
    for options in (("--mode", "tpp", "--edge-profile"), ("--mode", "qpt2", "--weights")):
        found = []
        for guide in (profile, saved):
            simprof("run", *options, guide, "--json", saved.with_suffix(".json"), original)
            found.append(json.loads(saved.with_suffix(".json").read_text())["instructions"])
        assert found[0] == found[1]
    guided = instrumented(original, tmp_path, "--mode", "tpp", "--edge-profile", profile)
    assert simprof("read", guided, ran(guided)).returncode == 0


@pytest.mark.parametrize("mode", first(2, ["witness", "bits", "bytes", "block-trace"]))
def test_a_trace_takes_all_routines(fixture_elf: Find, tmp_path: Path, mode: str) -> None:
    original, made = fixture_elf("words"), tmp_path / "made"
    need = "a trace needs all routines: leave out --routine, --exclude and --user-only"
    for command in (
        ("instrument", original, "--mode", mode, "-o", made, "--routine", "main"),
        ("verify", "--mode", f"pp,{mode}", "--exclude", "main", original),
    ):
        done = simprof(*command)
        assert (done.returncode, done.stdout) == (125, b"")
        assert done.stderr.decode() == f"simprof: {mode}: {need}\n"
    assert not made.exists()


@pytest.mark.long
def test_verify_of_some_routines(fixture_elf: Find, tmp_path: Path) -> None:
    """With no modes named, those are left out that need all routines."""
    report = tmp_path / "json"
    options = ("--routine", "main", "--routine", "nest", "--on", "emulator", "--json", report)
    done = simprof("verify", *options, fixture_elf("loops"))
    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads(report.read_text())
    assert set(answer["not_run"]) == {"witness", "bits", "bytes", "block-trace"}
    assert {"pp", "qpt2", "qpt", "kiter", "naive", "tpp", "calls"} <= set(answer["modes"])
