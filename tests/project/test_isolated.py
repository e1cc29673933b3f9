"""Runs of the API in a process of their own: the same answers, and crashes that are errors."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import simprof
from simprof.profiler.session.pool import Spawned
from tests.conftest import FIXTURES, ROOT

Find = Callable[..., Path]
SIEVE = FIXTURES / "bin" / "v9" / "sieve.elf"


def children() -> set[int]:
    """Return the processes that threads of this one have started."""
    found = set[int]()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has ended since
            found.update(map(int, (task / "children").read_text().split()))
    return found


@pytest.mark.long
def test_answers_are_those_of_a_run_here(fixture_elf: Find) -> None:
    elf, output = fixture_elf("sieve"), io.BytesIO()
    before = children()
    modes = ["pp", "qpt2", "tpp:cold=1:loop=1"]
    comparison = simprof.compare(elf, modes, stdout=output, isolated=True)
    assert output.getvalue() == b"2 rounds: 9592 primes below 100000\n"
    assert comparison == simprof.compare(elf, modes)
    assert all(type(each) is simprof.Measurement for each in comparison.measurements.values())
    assert children() == before


def test_a_crash_is_an_error() -> None:
    """The process that executes the program is sent what a crash of native code would send it."""
    before, failed = children(), []

    def run() -> None:
        try:
            simprof.run(SIEVE, "edges", ["100000000"], isolated=True)
        except simprof.SimprofError as error:
            failed.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    while not (started := children() - before):
        time.sleep(0.01)
    (child,) = started
    os.kill(child, signal.SIGSEGV)
    thread.join(60)
    assert failed == [
        f"{SIEVE}: the process that ran it was ended by SIGSEGV: the emulator crashed; "
        "please report this program"
    ]
    assert children() == before


@pytest.mark.long
def test_errors_are_those_of_a_run_here(fixture_elf: Find) -> None:
    with pytest.raises(simprof.UsageError, match="no routine matches 'nobody'"):
        simprof.run(fixture_elf("sieve"), routine="nobody", isolated=True)


@pytest.mark.long
def test_a_call_tree_comes_back_whole(fixture_elf: Find) -> None:
    elf = fixture_elf("calls")
    isolated = simprof.run(elf, "tpp", ["3"], call_tree=True, isolated=True)
    assert isolated == simprof.run(elf, "tpp", ["3"], call_tree=True)


SCRIPT = """
import simprof, sys
print("begins")
measurement = simprof.run(sys.argv[1], isolated=True)
print(measurement.base)
"""


@pytest.mark.long
def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """The caller's main script is not executed again."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script, SIEVE], env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("begins\n3723625\n", "", 0)


def die(pipe: Connection, number: int) -> None:
    """Serve for a moment: answer, and end by a signal or with a status."""
    pipe.send(os.getpid())
    if number > 0:
        os.kill(os.getpid(), number)
    os._exit(-number)


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGABRT, "was ended by SIGABRT: the emulator crashed; please report this program"),
        (signal.SIGKILL, "was ended by SIGKILL"),
        (-3, "ended with status 3"),
    ],
)
def test_how_a_process_ended_is_told(number: int, how: str) -> None:
    process = Spawned(die, number)
    assert process.pipe.recv() != os.getpid()
    with pytest.raises(EOFError):
        process.pipe.recv()
    assert str(process.dismiss()) == how
