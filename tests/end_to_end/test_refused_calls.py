"""Programs that ask for services that simprof lacks: they go on, and nothing is kept quiet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.profiles.storage import load
from tests.support.turns import first

Compile = Callable[..., Path]
SERVICES = Path(__file__).resolve().parents[1] / "programs/services.c"
WIDTHS = pytest.mark.parametrize("width", first(1, ["v9", "v8plus"]))
ANSWERS = b"""\
socket: Address family not supported by protocol
connect: Socket operation on non-socket
fork: Resource temporarily unavailable
thread: Success
missing: No such file or directory
shell: 127
user: none
"""


def simprof(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", "from simprof.profiler.cli import main; main()"]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, check=False, timeout=120
    )


def counts(answer: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {(call["name"], call["error"]): call["count"] for call in answer["refused_calls"]}


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9"])
def test_the_program_goes_on_and_the_result_says_what_was_refused(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    program, written = compile_c(SERVICES, ("-O2",), width), tmp_path / "run.json"
    done = simprof("run", "--mode=edges", "--self-check", "--json", written, program)
    assert (done.returncode, done.stdout) == (7, ANSWERS), done.stderr.decode()
    refused = counts(json.loads(written.read_text()))
    # fork, and the shell's process; the first socket, and the name service's daemon.
    assert refused[("clone", "EAGAIN")] == 2
    assert refused[("socket", "EAFNOSUPPORT")] >= 2
    assert len(refused) == 2
    report = done.stderr.decode()
    assert "Refused system calls" in report
    assert "\n    2  EAGAIN        clone\n" in report


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v8plus"])
def test_a_strict_run_ends_at_the_first_and_keeps_its_profile(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    program, written, saved = compile_c(SERVICES, ("-O2",), width), tmp_path / "r", tmp_path / "p"
    options = ("--strict", "--self-check", "--json", written, "-o", saved)
    done = simprof("run", *options, program)
    assert (done.returncode, done.stdout) == (125, b""), done.stderr.decode()
    answer = json.loads(written.read_text())
    assert (answer["exit"]["reason"], answer["exit"]["status"]) == ("refused", 125)
    assert answer["exit"]["refusal"]["name"] == "socket"
    assert answer["exit"]["refusal"]["routine"] == "__socket"
    assert counts(answer) == {("socket", "EAFNOSUPPORT"): 1}
    assert answer["partial"]
    assert answer["instructions"]["base"] > 1000
    own = sum(routine["instructions"] for routine in answer["routines"])
    assert own == answer["instructions"]["base"]
    assert load(saved).base == own
    assert b"stopped at a refused system call (--strict): socket at 0x" in done.stderr


@pytest.mark.long
@pytest.mark.toolchain
def test_a_comparison_says_it_once(compile_c: Compile, tmp_path: Path) -> None:
    written = tmp_path / "compare.json"
    program = compile_c(SERVICES)
    done = simprof("compare", "--mode=pp,tpp", "--json", written, program)
    assert (done.returncode, done.stdout) == (7, ANSWERS), done.stderr.decode()
    assert ("clone", "EAGAIN") in counts(json.loads(written.read_text()))
    assert done.stderr.count(b"Refused system calls") == 1
    done = simprof("compare", "--mode=pp,tpp", "--strict", program)
    assert (done.returncode, done.stdout) == (125, b""), done.stderr.decode()


def test_nothing_is_said_where_nothing_was_refused(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    written = tmp_path / "run.json"
    done = simprof("run", "--strict", "--json", written, fixture_elf("switches"))
    assert done.returncode == 0
    assert json.loads(written.read_text())["refused_calls"] == []
    assert b"Refused" not in done.stderr
