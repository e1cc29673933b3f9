"""What the threads of a program execute, one after the other: a log that knows no graphs.

The machine runs with a block hook in Python, which notes the address of every instruction of every
block, thread by thread. Nothing of the engine that counts takes part.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.session.world import WINDOWS
from simprof.simulator.binary import elf
from simprof.simulator.binary.dynamic import DEFAULT_SYSROOT
from simprof.simulator.binary.program import Program
from simprof.simulator.cpu import traps
from simprof.simulator.cpu.traps import CLOCK_WORDS, RESUME_STATE, ClockWord
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import NativeHook, RunResult
from tests.oracles import qemu
from tests.oracles.naive import NaiveProfile, RoutineProfile

MAIN = 1000
_HOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p)


@dataclass
class ThreadLog:
    """The instructions of one thread in order, and where control came from outside to one."""

    pc: list[int] = field(default_factory=list)
    sp: list[int] = field(default_factory=list)
    breaks: set[int] = field(default_factory=set)
    is_broken: bool = False

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.uint64]]:
        """Addresses, breaks and %sp, as `naive.profile_of` takes them."""
        breaks = np.zeros(len(self.pc), np.bool_)
        breaks[list(self.breaks)] = True
        return np.array(self.pc, np.int64), breaks, np.array(self.sp, np.uint64)


class LoggingObserver:
    """Notes what a machine's threads execute; `mask` is all ones of a register's width."""

    def __init__(self, mask: int) -> None:
        self.mask = mask
        self.kept: dict[int, NDArray[np.int64]] = {}
        self.threads = {MAIN: ThreadLog()}
        self.current = MAIN
        self.order: list[int] = [MAIN]
        self.clock = np.zeros(CLOCK_WORDS, np.int64)
        self._callback = _HOOK(self._block)
        self._count = _HOOK(traps.address_of(traps.count_block))
        address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        self.hook = NativeHook(address, self.clock.ctypes.data, self.clock, keepalive=self)

    def _block(self, engine: int, address: int, size: int, clock: int) -> None:
        self._count(engine, address, size, clock)
        if self.clock[ClockWord.STOPPED]:
            return
        log = self.threads[self.current]
        if self.clock[ClockWord.STATE] == RESUME_STATE:
            self.clock[ClockWord.STATE] = 0
            self._cut(log, int(self.clock[ClockWord.RESUME_PC]))
        window = ctypes.c_uint64.from_address(int(self.clock[ClockWord.WINDOW_POINTER])).value
        pointer = ctypes.c_uint64.from_address(window + 48).value & self.mask
        if log.is_broken:
            log.breaks.add(len(log.pc))
            log.is_broken = False
        elif log.sp:
            log.sp[-1] = pointer  # what a call behind a `save` has
        for pc in range(address, address + size, 4):
            log.pc.append(pc)
            log.sp.append(pointer)

    def _cut(self, log: ThreadLog, pc: int) -> None:
        """Take back what was noted of a block from `pc` on: it is executed now."""
        end = int(self.clock[ClockWord.RESUME_END])
        count = (end - pc) >> 2
        assert not count or log.pc[-1] == end - 4
        del log.pc[len(log.pc) - count :], log.sp[len(log.sp) - count :]

    def signal_delivered(self, pc: int, npc: int, stack_pointer: int, between: bool) -> None:
        if self.clock[ClockWord.STATE] == RESUME_STATE:
            self.clock[ClockWord.STATE] = 0
            self._cut(self.threads[self.current], int(self.clock[ClockWord.RESUME_PC]))
        log = self.threads[self.current]
        log.is_broken = True
        log.sp[-1] = stack_pointer & self.mask

    def signal_returned(self, resumed_pc: int) -> None:
        self.threads[self.current].is_broken = True

    def context_replaced(self) -> None:
        self.threads[self.current].is_broken = True

    def thread_started(self, number: int, current: int) -> None:
        self.threads[number] = ThreadLog()

    def thread_switched(self, number: int) -> None:
        words = [ClockWord.STATE, ClockWord.RESUME_PC, ClockWord.RESUME_END]
        self.kept[self.current] = self.clock[words]
        self.clock[words] = self.kept.get(number, np.zeros(3, np.int64))
        self.current = number
        self.order.append(number)

    def thread_ended(self) -> None:
        """Note nothing: the thread is not heard of again."""


@dataclass(frozen=True)
class LoggedRun:
    """A run with what it printed, what each thread executed, and the order in which they ran."""

    result: RunResult
    output: bytes
    threads: Sequence[ThreadLog]
    order: Sequence[int]


def log_threads(
    path: Path, directory: Path, seed: int = 0, linked: Program | None = None
) -> LoggedRun:
    """Run a program without arguments, and log what its threads execute.

    `linked`: the program with its modules, where it is dynamically linked.
    """
    program = linked or elf.load(path)
    observer = LoggingObserver((1 << (64 if program.is64 else 32)) - 1)
    output = bytearray()
    host = Host(
        directory,
        program=path,
        sysroot=DEFAULT_SYSROOT if linked else None,
        stdin=b"",
        stdout=output,
        stderr=output,
    )
    machine = Machine(
        program,
        host=host,
        observer=observer,
        argv0=bytes(path),
        windows=WINDOWS,
        thread_seed=seed,
    )
    result = machine.run()
    return LoggedRun(result, bytes(output), list(observer.threads.values()), observer.order)


def add_up(profiles: Sequence[NaiveProfile]) -> NaiveProfile:
    """The profile of a program from those of its threads."""
    total = NaiveProfile({}, sum(each.instructions for each in profiles))
    for profile in profiles:
        for address, routine in profile.routines.items():
            into = total.routines.setdefault(address, RoutineProfile())
            into.activations += routine.activations
            for name in ("blocks", "edges", "early", "paths", "partial"):
                counts: Counter[object] = getattr(into, name)
                counts.update(getattr(routine, name))
    return total


_LINE = re.compile(
    rb"^Trace (\d+): \S+ \[([0-9a-f]+)/([0-9a-f]+)/|^Stopped execution .* \[([0-9a-f]+)\]",
    re.MULTILINE,
)


def executed_under_qemu(
    path: Path, directory: Path, sysroot: Path | None = None, status: int = 0
) -> Counter[int]:
    """How often all threads together executed each instruction under qemu-user, by address.

    Its threads run at once, so that their lines are mixed; each has a number in its own. A line
    that is taken back has none: it is the last one with that address.
    """
    log = directory / "log"
    command = [qemu.resolve(path), *qemu.below(sysroot), "-singlestep", "-d", "exec,nochain"]
    command += ["-D", str(log), str(path)]
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, cwd=directory, timeout=120, check=False
    )
    assert done.returncode == status
    lines: list[tuple[bytes, int] | None] = []
    last: dict[bytes, tuple[bytes, bytes]] = {}
    latest: dict[int, int] = {}
    for thread, following, address, stopped in _LINE.findall(log.read_bytes()):
        if stopped:
            lines[latest[int(stopped, 16)]] = None
        elif last.get(thread) != (following, address):  # else it is retried after a window trap
            last[thread] = following, address
            latest[int(address, 16)] = len(lines)
            lines.append((thread, int(address, 16)))
    return Counter(line[1] for line in lines if line is not None)
