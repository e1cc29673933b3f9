"""/proc/self/status and /proc/self/stat, as Linux writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.cpu.address_space import Protection
from simprof.simulator.linux.signals import SignalAction
from tests.support.syscalls import DATA, SIZE, Kernel


@pytest.fixture(params=[True, False], ids=["64-bit", "32-bit"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Kernel:
    return Kernel(tmp_path, request.param)


def text(kernel: Kernel, path: bytes) -> str:
    descriptor = kernel.value("open", path, 0, 0)
    size = kernel.value("read", descriptor, DATA, 8000)
    return kernel.guest.read(DATA, size).decode()


def rows(kernel: Kernel) -> dict[str, str]:
    lines = text(kernel, b"/proc/self/status").splitlines()
    return dict(tuple(line.split(":\t", 1)) for line in lines)  # type: ignore[misc]


def test_status_says_who_and_how_large(kernel: Kernel) -> None:
    found = rows(kernel)
    assert (found["Name"], found["State"], found["Umask"]) == ("program", "R (running)", "0022")
    assert (found["Tgid"], found["Pid"], found["PPid"]) == ("1000", "1000", "1")
    assert found["Uid"] == found["Gid"] == "1000\t1000\t1000\t1000"
    # The stack, one MiB at `DATA`, has been reached down to 4096 bytes below its end.
    assert (found["VmSize"], found["VmRSS"], found["VmStk"]) == ("       8 kB",) * 3
    assert (found["Threads"], found["FDSize"]) == ("1", "64")
    kernel.guest.space.map(DATA + 2 * SIZE, 4 * PAGE_SIZE, Protection.READ | Protection.WRITE)
    assert rows(kernel)["VmSize"] == "      40 kB"
    assert rows(kernel)["VmData"] == "      32 kB"


def test_status_shows_signals(kernel: Kernel) -> None:
    signals = kernel.guest.signals
    signals.set_action(2, SignalAction(handler=1))
    signals.set_action(30, SignalAction(handler=0x10000))
    signals.blocked = 1 << 14
    found = rows(kernel)
    assert found["SigIgn"] == "0000000000000002"
    assert found["SigCgt"] == "0000000020000000"
    assert found["SigBlk"] == "0000000000004000"


def test_stat_has_the_fields_of_linux(kernel: Kernel) -> None:
    """By their numbers in proc(5): one instruction takes a nanosecond, a tick 10 milliseconds."""
    kernel.guest.instructions = 70_000_000
    fields = ["", *text(kernel, b"/proc/self/stat").split()]
    assert len(fields) == 1 + 52
    numbers = {1: "1000", 2: "(program)", 3: "R", 4: "1", 5: "1000", 6: "1000", 7: "0", 8: "-1"}
    numbers |= {14: "7", 15: "0", 18: "20", 19: "0", 20: "1", 22: "100000", 23: "8192", 24: "1"}
    numbers |= {25: "18446744073709551615", 29: str(kernel.guest.stack_pointer()), 38: "20"}
    numbers |= {47: str(0x900000), 52: "0"}
    assert {number: fields[number] for number in numbers} == numbers


def test_both_are_read_only_and_listed(kernel: Kernel) -> None:
    for name in (b"status", b"stat"):
        kernel.fails("EACCES", "open", b"/proc/self/" + name, 1, 0)
        assert kernel.value("access", b"/proc/1000/" + name, 4) == 0
    folder = kernel.value("open", b"/proc/self", 0, 0)
    size = kernel.value("getdents64", folder, DATA, 8000)
    listing = kernel.guest.read(DATA, size)
    assert b"status\0" in listing
    assert b"stat\0" in listing
