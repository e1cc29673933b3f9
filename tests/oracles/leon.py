"""Bare LEON3 programs under `qemu-system-sparc -M leon3_generic`: what they print and execute.

The log of single steps has three things that are not executions:

- Before the program comes the boot loader, in a ROM below the program's memory.
- An instruction that traps is logged, and again when its handler has returned to it. It is followed
  by an entry of the trap table. (`ta` completes, and so has what an interrupt comes behind.)
- `ta 0` with traps disabled ends the emulator, and is logged until it has ended.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.binary import elf
from simprof.simulator.leon.machine import LeonMachine
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.running import RunResult
from tests.oracles.qemu import Image, Run, Trace
from tests.oracles.threads import LoggingObserver

TRAP_TABLE = 0x4000_0000
"""Where the programs of these tests have their trap tables."""
HANDLERS = range(TRAP_TABLE + 16, TRAP_TABLE + 4096, 16)
_LINE = re.compile(rb"^Trace 0: \S+ \[\w+/(\w+)/", re.MULTILINE)
FILES = Path(__file__).resolve().parents[2] / "fixtures" / "leon"
BUILD = (
    *("-O1", "-g", "-nostdlib", "-ffreestanding", "-no-pie", "-fno-pic", "-mcpu=v8"),
    *("-Wl,--build-id=none", "-Wl,-z,noexecstack", f"-Wl,-T,{FILES / 'leon3.ld'}"),
    str(FILES / "start.S"),
)
"""Flags that make a LEON program of a C file."""


def trace(path: Path, timeout: float = 60) -> Trace:
    """Run a program under qemu, to its end."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        command = ["qemu-system-sparc", "-M", "leon3_generic", "-nographic", "-singlestep"]
        command += ["-kernel", str(path), "-d", "exec,nochain", "-D", str(log)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=True
        )
        logged = [int(match, 16) for match in _LINE.findall(log.read_bytes())]
    return _trace(done.stdout, logged[logged.index(elf.load(path).entry) :], Image.read(path))


def _trace(output: bytes, logged: Sequence[int], image: Image) -> Trace:
    while logged[-2] == logged[-1]:
        logged = logged[:-1]
    pc = np.array(logged, np.int64)
    entered = (pc % 16 == 0) & (pc > TRAP_TABLE) & (pc < HANDLERS.stop)
    trapped = np.append(entered[1:] & ((pc[1:] - TRAP_TABLE) >> 4 < 0x11), False)
    returned = np.append(False, image.fetch(pc[:-1]) & 0xC1F80000 == 0x81C80000)
    run = Run(output, b"", 0)  # the emulator's own status
    return Trace(run, pc, pc + 4, ~trapped, entered | returned, None, 0)


@dataclass(frozen=True)
class LeonLog:
    """What a program executed in simprof's machine, instruction by instruction."""

    result: RunResult
    output: bytes
    pc: NDArray[np.int64]


def log(path: Path, directory: Path, stdin: bytes = b"") -> LeonLog:
    """Run a program in simprof's machine, and log what it executes; no graphs take part."""
    program = elf.load(path)
    observer = LoggingObserver(0xFFFF_FFFF)
    output = bytearray()
    host = Host(directory, program=path, stdin=stdin, stdout=output, stderr=output)
    result = LeonMachine(program, host=host, observer=observer).run()
    (only,) = observer.threads.values()
    return LeonLog(result, bytes(output), np.array(only.pc, np.int64))
