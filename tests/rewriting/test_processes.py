"""Which process of an instrumented program writes the counter file, and to what."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.rewriting.elsewhere.counter_file import parse
from simprof.simulator.binary.program import MachineKind
from tests.conftest import EMULATORS
from tests.oracles import qemu
from tests.rewriting.extended import HEADER, STATUS, Extended
from tests.support.start_and_dump import MACHINES, MEMORY, REGIONS, expected_file
from tests.support.turns import turns

Compile = Callable[..., Path]
pytestmark = pytest.mark.qemu

FORKS = """
    #include <sys/wait.h>
    #include <unistd.h>
    __attribute__((noinline)) static void both(void) { __asm__ volatile("" ::: "memory"); }
    int main(int count, char **arguments) {
        int status = 0;
        both();
        if (count > 1 ? vfork() : fork()) { wait(&status); both(); return WEXITSTATUS(status); }
        both();
        _exit(9);
    }
"""
THREADS = """
    #include <pthread.h>
    static void *work(void *count) { ++*(int *)count; return 0; }
    int main(void) {
        pthread_t threads[3];
        int counts[3] = {0};
        for (int k = 0; k < 3; k++) pthread_create(&threads[k], 0, work, &counts[k]);
        for (int k = 0; k < 3; k++) pthread_join(threads[k], 0);
        return counts[0] + counts[1] + counts[2];
    }
"""


def traced(path: Path, width: str, directory: Path, *arguments: str) -> tuple[int, list[str]]:
    """Run under qemu; return the status, and what it said of system calls."""
    command = [EMULATORS[width], "-strace", str(path), *arguments]
    done = subprocess.run(
        command, cwd=directory, env={}, capture_output=True, check=False, timeout=120
    )
    return done.returncode, done.stderr.decode(errors="replace").splitlines()


def made(path: Path, directory: Path) -> Path:
    target = directory / "made"
    command = ["instrument", str(path), "--mode", "naive", "-o", str(target), "--routine", "main"]
    assert cli.run([*command, "--report", os.devnull]) == 0
    return target


@pytest.mark.parametrize("machine", MACHINES)
def test_the_part_is_named_for_the_process(machine: MachineKind, tmp_path: Path) -> None:
    """So that two runs that end at once do not write one part."""
    extended = Extended(machine, MEMORY, tmp_path)
    command = [qemu.resolve(extended.path), "-strace", str(extended.path)]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env={}, check=False)
    opened = re.search(
        rb"^(\d+) open\(\"simprof\.out\.([a-p]{6})\.part\"", done.stderr, re.MULTILINE
    )
    assert opened is not None
    number = 0
    for letter in opened[2]:
        number = number << 4 | letter - ord("a")
    assert number == int(opened[1]) & 0xFFFFFF
    assert (tmp_path / "simprof.out").exists()


@pytest.mark.parametrize("machine", MACHINES)
def test_a_pipe_is_written_itself(machine: MachineKind, tmp_path: Path) -> None:
    extended = Extended(machine, MEMORY, tmp_path)
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = qemu.run(extended.path, environment={"SIMPROF_OUT": "pipe"}, directory=tmp_path)
    assert (done.status, done.errors) == (STATUS, b"")
    reader.join(20)
    assert got == [expected_file(extended, 3, REGIONS)]
    assert got[0].startswith(HEADER)
    assert pipe.is_fifo()


@pytest.mark.parametrize("machine", MACHINES)
def test_a_full_disk_is_said(machine: MachineKind, tmp_path: Path) -> None:
    extended = Extended(machine, MEMORY, tmp_path)
    (tmp_path / "full").symlink_to("/dev/full")
    done = qemu.run(extended.path, environment={"SIMPROF_OUT": "full"}, directory=tmp_path)
    assert (done.status, done.errors) == (STATUS, b"simprof: cannot write full: no profile\n")
    assert (tmp_path / "full").is_char_device()


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(("arguments", "width"), turns([(), ("v",)], ["v9", "v8plus"], few=1))
def test_a_forked_child_writes_no_file(
    compile_c: Compile, tmp_path: Path, width: str, arguments: tuple[str, ...]
) -> None:
    """It would count its parent's counts again, or replace the parent's file by its own."""
    program = made(compile_c(FORKS, ("-O1", "-w"), width), tmp_path)
    status, said = traced(program, width, tmp_path, *arguments)
    assert status == 9
    assert sum(".part" in line and " open(" in line for line in said) == 1
    counted = parse((tmp_path / "simprof.out").read_bytes())
    assert len(counted.frames[0]) > 0


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9"])
def test_a_thread_leaves_the_file_to_its_process(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    program = made(compile_c(THREADS, ("-O1", "-w", "-pthread"), width), tmp_path)
    status, said = traced(program, width, tmp_path)
    assert status == 3
    assert sum(".part" in line and " open(" in line for line in said) == 1
    assert (tmp_path / "simprof.out").exists()
