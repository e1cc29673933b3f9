"""Crashes of the emulator: one line and status 125, and one failed group of cells in a sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import simprof as simprof_api
from simprof.profiler.experiments.cells.store import Store
from tests.conftest import FIXTURES, ROOT
from tests.support.crashes import handles

CRASHING = """
#include <stdio.h>
#include <sys/mman.h>

/* Code that the emulator dies of translating: BPr with a reserved condition, where no copy of the
   page can be executed instead, as the page may be written. */
int main(void)
{
    unsigned *code = mmap(0, 8192, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    code[0] = 0x01000000;
    code[1] = 0x00c00003;
    puts("before");
    fflush(stdout);
    ((void (*)(void))code)();
    return 0;
}
"""
SPIN = FIXTURES / "bin" / "v9" / "sieve.elf"
START = "from simprof.profiler.cli import main; main()"


def simprof(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of simprof."""
    return subprocess.run(
        [sys.executable, "-c", START, *words],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.toolchain
@pytest.mark.parametrize("words", [["run"], pytest.param(["compare"], marks=pytest.mark.long)])
def test_a_crash_is_a_message(
    compile_c: Callable[..., Path], words: list[str], tmp_path: Path
) -> None:
    program = compile_c(CRASHING, ("-O1",))
    outputs = ["--json", str(tmp_path / "json"), "--report", str(tmp_path / "report")]
    done = simprof(*words, *outputs, str(program))
    assert (done.returncode, done.stdout) == (125, "before\n")
    start = f"simprof: {program}: the emulator crashed (SIGABRT) at the block at 0x"
    assert done.stderr.startswith(start) and done.stderr.count("\n") == 1
    digits = done.stderr.removeprefix(start)[:16]
    symbols = subprocess.run(
        ["sparc64-linux-gnu-nm", "-S", program], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    (main,) = (line.split() for line in symbols if line.endswith(" main"))
    assert 0 <= int(digits, 16) - int(main[0], 16) < int(main[1], 16)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.toolchain
def test_a_crash_of_an_isolated_run_is_an_error(compile_c: Callable[..., Path]) -> None:
    program = compile_c(CRASHING, ("-O1",))
    message = "the process that ran it was ended by SIGABRT: the emulator crashed; please report"
    with pytest.raises(simprof_api.SimprofError, match=message):
        simprof_api.run(program, isolated=True)


@pytest.mark.long
@pytest.mark.toolchain
def test_a_crash_is_one_failed_program_of_a_sweep(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    program = compile_c(CRASHING, ("-O1",))
    (tmp_path / "grid.toml").write_text(
        f"modes = ['pp']\n[[program]]\nfile = '{program}'\n"
        f"[[program]]\nfile = '{FIXTURES / 'bin' / 'v9' / 'switches.elf'}'\n"
    )
    done = simprof("sweep", str(tmp_path / "grid.toml"), "-o", str(tmp_path / "results.db"))
    assert done.returncode == 1
    assert done.stderr.count("ended by SIGABRT: the emulator crashed; please report") == 1
    assert "Traceback" not in done.stderr
    with Store(tmp_path / "results.db") as store:
        kept = {cell.benchmark: result.failed for cell, result in store.cells().items()}
    assert kept == {program.stem: True, "switches": False}


def spinning() -> subprocess.Popen[str]:
    """Start a run of minutes; return it once it is in the engine."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, "run", str(SPIN), "--", "100000000"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not handles(process.pid, signal.SIGSEGV):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    time.sleep(0.2)
    return process


@pytest.mark.long
@pytest.mark.parametrize("number", ["SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"])
def test_each_fatal_signal_is_told(number: str) -> None:
    process = spinning()
    os.kill(process.pid, getattr(signal, number))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 125
    assert f": the emulator crashed ({number}) at the block at 0x0000000000" in errors
    assert errors.count("\n") == 1


DEAF = """
import sys
from pathlib import Path
from simprof.simulator.binary.elf import load
from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.linux.files import Host
from simprof.simulator.machine import base
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import Limits
base.STUCK_SECONDS = 0.5
path = Path(sys.argv[1])
host = Host(path.parent, program=path, stdin=b"", stdout=bytearray(), stderr=bytearray())
limits = Limits(timeout=0.2)
machine = Machine(load(path), arguments=[b"100000000"], host=host, limits=limits)
Cpu.stop = lambda self: None  # the engine has been calibrated
machine.run(bare=True)
"""
"""A bare run has no block hook: as deaf as a loop within one block."""


@pytest.mark.long
def test_an_engine_that_does_not_stop_is_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEAF, str(SPIN)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 125
    assert done.stderr.startswith("simprof: the emulator does not stop in or behind the block at")
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_the_third_interrupt_ends_a_deaf_engine() -> None:
    script = DEAF.replace("timeout=0.2", "timeout=None")
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(SPIN)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not handles(process.pid, signal.SIGSEGV):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "simprof: interrupted\n")
