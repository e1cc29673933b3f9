"""Shared by tests: what `tests/simulator/linux/test_syscalls.py` and others use."""

from __future__ import annotations

import struct
from pathlib import Path

from simprof.simulator.cpu.address_space import AddressSpace, Protection
from simprof.simulator.isa import sparc
from simprof.simulator.linux.files import Host
from simprof.simulator.linux.guest import (
    Failed,
    GuestThreads,
    Outcome,
    Returned,
)
from simprof.simulator.linux.signals import SignalInfo, SignalState
from simprof.simulator.linux.syscalls import SystemCalls
from simprof.simulator.linux.task import Task

DATA = 0x200000

SIZE = 0x100000


class OneThread:
    """The only thread there has ever been; those that it starts are nowhere."""

    current = 1000
    alive = (1000,)
    is_alone = True
    is_expired = False
    instructions = 0

    def start(self, stack: int | None, thread_pointer: int | None) -> int:
        return 1001

    def wake(self, number: int, result: int) -> None:
        raise AssertionError("nobody waits")

    def __init__(self, raised: list[int]) -> None:
        self.raised = raised

    def send(self, number: int, info: SignalInfo) -> None:
        self.raised.append(info.number)


class PlainGuest:
    """Memory and signals, no processor: one MiB of data at `DATA`."""

    pc = 0x1234

    def __init__(self, is64: bool) -> None:
        self.is64 = is64
        self.space = AddressSpace(is64, 1 << 26)
        self.space.map(DATA, SIZE, Protection.READ | Protection.WRITE)
        self.space.start_break(0x900000)
        self.memory = self.space
        self.signals = SignalState()
        self.raised: list[int] = []
        self.threads: GuestThreads = OneThread(self.raised)
        self.instructions = 5_000_000
        self.suspended: list[int] = []
        self.returns = 0

    def stack_pointer(self) -> int:
        return DATA + SIZE - 4096

    def read(self, address: int, size: int) -> bytes:
        return self.memory.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        self.memory.write(address, data)

    def raise_signal(self, info: SignalInfo) -> None:
        self.raised.append(info.number)

    def suspend(self, mask: int) -> None:
        self.suspended.append(mask)

    def return_from_signal(self) -> None:
        self.returns += 1


class Kernel:
    """System calls by name; bytes arguments are put into memory and passed by address."""

    def __init__(self, root: Path, is64: bool, seed: int = 0, strict: bool = False) -> None:
        self.guest = PlainGuest(is64)
        self.output = bytearray()
        self.host = Host(
            root,
            writable=root,
            program=root / "program",
            stdin=b"line one\nline two\n",
            stdout=self.output,
        )
        task = Task(self.guest, self.host, bytes(root / "program"), seed=seed)
        self.calls = SystemCalls(task, strict=strict)
        names = sparc.SYSTEM_CALLS_64 if is64 else sparc.SYSTEM_CALLS_32
        self.numbers = {name: number for number, name in names.items()}
        self.word = "Q" if is64 else "I"
        self.mask = (1 << 64) - 1 if is64 else (1 << 32) - 1
        self._next = DATA + 0x80000

    def put(self, data: bytes) -> int:
        address = self._next
        self.guest.write(address, data)
        self._next += (len(data) + 16) & ~7
        return address

    def __call__(self, name: str, *arguments: int | bytes) -> Outcome:
        values = [
            self.put(value + b"\0") if isinstance(value, bytes) else value & self.mask
            for value in arguments
        ]
        padded = (*values, *[0] * (6 - len(values)))
        return self.calls.call(self.numbers[name], padded)

    def value(self, name: str, *arguments: int | bytes) -> int:
        outcome = self(name, *arguments)
        assert isinstance(outcome, Returned), (name, outcome)
        return outcome.value

    def fails(self, error: str, name: str, *arguments: int | bytes) -> None:
        assert self(name, *arguments) == Failed(sparc.ERRNO[error]), (name, error)

    def unpack(self, layout: str, address: int = DATA) -> tuple[int, ...]:
        return struct.unpack(layout, self.guest.read(address, struct.calcsize(layout)))
