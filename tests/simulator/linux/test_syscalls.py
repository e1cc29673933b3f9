"""System calls on a guest without a processor, in both widths."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest

from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa import sparc
from simprof.simulator.linux.guest import (
    Exited,
    Failed,
    Refused,
    RefusedCall,
    Replaced,
    Returned,
)
from simprof.simulator.linux.process import RandomBytes
from simprof.simulator.linux.signals import SignalInfo
from tests.support.syscalls import DATA, Kernel


@pytest.fixture(params=[True, False], ids=["64-bit", "32-bit"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Kernel:
    return Kernel(tmp_path, request.param)


def test_read_and_write(kernel: Kernel) -> None:
    assert kernel.value("read", 0, DATA, 9) == 9
    assert kernel.guest.read(DATA, 9) == b"line one\n"
    assert kernel.value("write", 1, DATA, 9) == 9
    assert bytes(kernel.output) == b"line one\n"
    kernel.fails("EBADF", "read", 77, DATA, 1)
    kernel.fails("EBADF", "write", 0, DATA, 1)
    kernel.fails("EBADF", "read", 1, DATA, 1)
    kernel.fails("EFAULT", "read", 0, 16, 1)
    kernel.fails("EFAULT", "write", 1, 16, 1)
    kernel.fails("EFAULT", "open", 16, 0)
    assert kernel.value("read", 0, DATA, 9) == 9  # the failed read consumed nothing
    assert kernel.guest.read(DATA, 9) == b"line two\n"


def test_stat_structures(kernel: Kernel, tmp_path: Path) -> None:
    """Field offsets of asm/stat.h."""
    (tmp_path / "f").write_bytes(bytes(5000))
    (tmp_path / "f").chmod(0o751)
    assert kernel.value("stat", b"f", DATA) == 0
    assert kernel.value("stat64", b"f", DATA + 256) == 0
    assert kernel.value("statx", -100, b"f", 0, 0x7FF, DATA + 512) == 0
    mode = 0o100751
    if kernel.guest.is64:
        assert kernel.unpack(">I", DATA + 16) == (mode,)
        assert kernel.unpack(">q", DATA + 40) == (5000,)
        assert kernel.unpack(">qq", DATA + 72) == (4096, 16)
        assert kernel.unpack(">QI", DATA + 256 + 16) == (1, mode)
        assert kernel.unpack(">q", DATA + 256 + 48) == (5000,)
        assert kernel.unpack(">qq", DATA + 256 + 56) == (4096, 16)
    else:
        assert kernel.unpack(">H", DATA + 8) == (mode,)
        assert kernel.unpack(">i", DATA + 20) == (5000,)
        assert kernel.unpack(">ii", DATA + 48) == (4096, 16)
        assert kernel.unpack(">II", DATA + 256 + 16) == (mode, 1)
        assert kernel.unpack(">qI", DATA + 256 + 48) == (5000, 4096)
        assert kernel.unpack(">I", DATA + 256 + 68) == (16,)
    assert kernel.unpack(">II", DATA + 512) == (0x7FF, 4096)
    assert kernel.unpack(">H", DATA + 512 + 28) == (mode,)
    assert kernel.unpack(">Q", DATA + 512 + 40) == (5000,)


def test_directories(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel.value("mkdir", b"d", 0o777) == 0
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o755
    for name in (b"d/b", b"d/a"):
        kernel.value("close", kernel.value("creat", name, 0o600))
    fd = kernel.value("open", b"d", sparc.O_DIRECTORY)
    size = kernel.value("getdents64", fd, DATA, 4096)
    names = []
    data = kernel.guest.read(DATA, size)
    while data:
        length = int.from_bytes(data[16:18], "big")
        names.append(data[19:length].rstrip(b"\0"))
        data = data[length:]
    assert names == [b".", b"..", b"a", b"b"]
    assert kernel.value("getdents64", fd, DATA, 4096) == 0
    assert kernel.value("lseek", fd, 0, 0) == 0
    kernel.fails("EINVAL", "getdents64", fd, DATA, 8)
    assert kernel.value("getdents", fd, DATA, 4096) > 0
    assert kernel.value("fchdir", fd) == 0
    length = kernel.value("getcwd", DATA, 4096)
    assert kernel.guest.read(DATA, length) == str(tmp_path).encode() + b"/d\0"
    kernel.fails("ERANGE", "getcwd", DATA, 3)
    assert kernel.value("rename", b"a", b"../c") == 0
    assert (tmp_path / "c").exists()
    kernel.fails("ENOTEMPTY", "unlinkat", -100, b"../d", 0x200)
    assert kernel.value("unlink", b"b") == 0
    assert kernel.value("chdir", b"..") == 0
    assert kernel.value("rmdir", b"d") == 0


def test_pipes(kernel: Kernel) -> None:
    outcome = kernel("pipe")
    assert outcome == Returned(3, 4)
    assert kernel.value("write", 4, b"abc", 3) == 3
    assert kernel.value("read", 3, DATA, 10) == 3
    with pytest.raises(UnsupportedError, match="read at 0x1234: the program waits forever"):
        kernel("read", 3, DATA, 1)
    kernel.value("fcntl", 3, 4, sparc.O_NONBLOCK)
    kernel.fails("EAGAIN", "read", 3, DATA, 1)
    kernel.value("close", 4)
    assert kernel.value("read", 3, DATA, 1) == 0
    assert kernel.value("pipe2", DATA, 0) == 0
    reader, writer = kernel.unpack(">ii")
    kernel.value("close", reader)
    kernel.fails("EPIPE", "write", writer, b"x", 1)
    assert kernel.guest.raised == [13]


def test_poll_and_select(kernel: Kernel) -> None:
    fds = struct.pack(">ihhihhihh", 0, 1, 0, 1, 5, 0, 50, 1, 0)
    address = kernel.put(fds)
    assert kernel.value("poll", address, 3, 0) == 3
    assert kernel.unpack(">ihhihhihh", address) == (0, 1, 1, 1, 5, 4, 50, 1, 0x20)
    reader, _ = 3, kernel("pipe")
    bits = struct.pack(f">{kernel.word}", 1 << reader)
    address = kernel.put(bits)
    zero = kernel.put(bytes(16))
    assert kernel.value("select", 4, address, 0, 0, zero) == 0
    with pytest.raises(UnsupportedError, match="waits forever"):
        kernel("select", 4, kernel.put(bits), 0, 0, 0)
    address = kernel.put(struct.pack(f">{kernel.word}", 1 | 1 << reader))
    assert kernel.value("select", 4, address, 0, 0, 0) == 1
    assert kernel.unpack(f">{kernel.word}", address) == (1,)


def test_brk_and_mmap(kernel: Kernel) -> None:
    start = kernel.value("brk", 0)
    assert kernel.value("brk", start + 100) == start + 100
    kernel.guest.write(start, b"x" * 100)
    assert kernel.value("brk", 1) == start + 100
    private = sparc.MAP_PRIVATE | sparc.MAP_ANONYMOUS
    place = kernel.value("mmap", 0, 20000, 3, private, -1, 0)
    assert place % 8192 == 0
    kernel.guest.write(place + 24575, b"x")
    kernel.fails("EINVAL", "mmap", 0, 0, 3, private, -1, 0)
    kernel.fails("EINVAL", "mmap", 0, 8192, 3, sparc.MAP_ANONYMOUS, -1, 0)
    kernel.fails("EBADF", "mmap", 0, 8192, 3, sparc.MAP_PRIVATE, 99, 0)
    kernel.fails("EINVAL", "mmap", place + 1, 8192, 3, private | sparc.MAP_FIXED, -1, 0)
    fixed = private | sparc.MAP_FIXED_NOREPLACE
    kernel.fails("EEXIST", "mmap", place, 8192, 3, fixed, -1, 0)
    assert kernel.value("mprotect", place, 8192, 1) == 0
    kernel.fails("EFAULT", "read", 0, place, 1)
    assert kernel.value("munmap", place, 8192) == 0
    kernel.fails("ENOMEM", "mprotect", place, 8192, 1)
    kernel.fails("EINVAL", "munmap", place + 1, 1)
    kernel.fails("ENOMEM", "mmap", 0, 1 << 28, 3, private, -1, 0)


def test_mremap(kernel: Kernel) -> None:
    private = sparc.MAP_PRIVATE | sparc.MAP_ANONYMOUS
    old = kernel.value("mmap", 0, 8192, 3, private, -1, 0)
    kernel.guest.write(old, b"kept")
    blocker = sparc.MAP_FIXED | private
    kernel.value("mmap", old + 8192, 8192, 3, blocker, -1, 0)
    kernel.fails("ENOMEM", "mremap", old, 8192, 65536, 0)
    new = kernel.value("mremap", old, 8192, 65536, sparc.MREMAP_MAYMOVE)
    assert new != old
    assert kernel.guest.read(new, 4) == b"kept"
    assert kernel.guest.read(new + 65535, 1) == b"\0"
    kernel.fails("EFAULT", "mremap", old, 8192, 65536, sparc.MREMAP_MAYMOVE)
    assert kernel.value("mremap", new, 65536, 8192, 0) == new
    kernel.fails("EFAULT", "read", 0, new + 8192, 1)


def test_mapped_files(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789" * 1000)
    fd = kernel.value("open", b"f", 2)
    place = kernel.value("mmap", 0, 10000, 1, sparc.MAP_PRIVATE, fd, 8192)
    assert kernel.guest.read(place, 8) == b"23456789"
    assert kernel.guest.read(place + 10000 - 8192, 4) == bytes(4)
    shared = kernel.value("mmap", 0, 10000, 3, sparc.MAP_SHARED, fd, 0)
    kernel.value("close", fd)
    kernel.guest.write(shared, b"first")
    assert kernel.value("msync", shared, 10000, 4) == 0
    assert (tmp_path / "f").read_bytes()[:6] == b"first5"
    kernel.guest.write(shared + 9995, b"last.")
    kernel.guest.write(shared + 10000, b"beyond")
    assert kernel.value("munmap", shared, 8192) == 0
    assert kernel("exit_group", 3) == Exited(3)
    content = (tmp_path / "f").read_bytes()
    assert content[-5:] == b"last."
    assert len(content) == 10000
    reader = kernel.value("open", b"f", 0)
    kernel.fails("EACCES", "mmap", 0, 100, 3, sparc.MAP_SHARED, reader, 0)


def test_mmap2_counts_in_4096(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, False)
    (tmp_path / "f").write_bytes(bytes(8192) + b"second")
    fd = kernel.value("open", b"f", 0)
    place = kernel.value("mmap2", 0, 100, 1, sparc.MAP_PRIVATE, fd, 2)
    assert kernel.guest.read(place, 6) == b"second"
    kernel.fails("EINVAL", "mmap2", 0, 100, 1, sparc.MAP_PRIVATE, fd, 1)


def test_time_is_virtual(kernel: Kernel) -> None:
    layout = ">qq" if kernel.guest.is64 else ">ii"
    assert kernel.value("clock_gettime", 0, DATA) == 0
    assert kernel.unpack(layout) == (1767225600, 5_000_000)
    kernel.guest.instructions += 1000
    kernel.value("clock_gettime", 1, DATA)
    assert kernel.unpack(layout) == (1000, 5_001_000)
    half = kernel.put(struct.pack(layout, 2, 500_000_000))
    assert kernel.value("nanosleep", half, 0) == 0
    kernel.value("clock_gettime", 0, DATA)
    assert kernel.unpack(layout) == (1767225602, 505_001_000)
    kernel.value("clock_gettime", 2, DATA)
    assert kernel.unpack(layout) == (0, 5_001_000)
    kernel.fails("EINVAL", "clock_gettime", 99, DATA)
    kernel.fails("EINVAL", "nanosleep", kernel.put(struct.pack(layout, 0, 1 << 30)), 0)
    kernel.value("gettimeofday", DATA, 0)
    assert kernel.unpack(">qi" if kernel.guest.is64 else ">ii") == (1767225602, 505_001)
    kernel.fails("EPERM", "settimeofday", DATA, 0)


def test_time64_calls_of_32_bit_programs(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, False)
    kernel.value("clock_gettime64", 0, DATA)
    assert kernel.unpack(">qq") == (1767225600, 5_000_000)
    kernel.value("clock_nanosleep_time64", 1, 0, kernel.put(struct.pack(">qq", 1, 0)), 0)
    kernel.value("clock_gettime64", 0, DATA)
    assert kernel.unpack(">qq") == (1767225601, 5_000_000)


def test_identity_limits_and_names(kernel: Kernel) -> None:
    assert kernel.value("getpid") == kernel.value("gettid") == 1000
    assert kernel.value("getuid") == kernel.value("geteuid") == 1000
    kernel.fails("EPERM", "setuid", 0)
    assert kernel.value("prlimit64", 0, 3, 0, DATA) == 0
    assert kernel.unpack(">QQ") == (8 << 20, (1 << 64) - 1)
    kernel.value("getrlimit", 0, DATA)
    infinity = (1 << 64) - 1 if kernel.guest.is64 else 0x7FFFFFFF
    assert kernel.unpack(f">2{kernel.word}") == (infinity, infinity)
    kernel.fails("EINVAL", "getrlimit", 99, DATA)
    kernel.value("uname", DATA)
    assert kernel.guest.read(DATA, 6) == b"Linux\0"
    assert kernel.value("umask", 0o77) == 0o22
    assert kernel.value("umask", 0) == 0o77
    kernel.fails("ECHILD", "wait4", -1, 0, 0, 0)


def test_randomness_is_seeded(tmp_path: Path) -> None:
    drawn = []
    for seed in (1, 1, 2):
        kernel = Kernel(tmp_path, True, seed)
        assert kernel.value("getrandom", DATA, 16, 0) == 16
        drawn.append(kernel.guest.read(DATA, 16))
    assert drawn[0] == drawn[1] == RandomBytes(1, "getrandom").take(16)
    assert drawn[2] != drawn[0]


def test_signal_handlers_and_masks(kernel: Kernel) -> None:
    if kernel.guest.is64:
        action = struct.pack(">QQQQ", 0x5000, 4, 0, 1 << 29 | 1 << 8)
        mask_bits = struct.pack(">Q", 1 << 29 | 1 << 40)
    else:
        action = struct.pack(">IIIII", 0x5000, 4, 0, 1 << 29 | 1 << 8, 0)
        mask_bits = struct.pack(">II", 1 << 29, 1 << 8)
    new = kernel.put(action)
    assert kernel.value("rt_sigaction", 11, new, 0, 0x7000, 8) == 0
    installed = kernel.guest.signals.action(11)
    assert (installed.handler, installed.flags, installed.restorer) == (0x5000, 4, 0x7000)
    assert installed.mask == 1 << 29  # SIGKILL is never blocked
    assert kernel.value("rt_sigaction", 11, 0, DATA, 0, 8) == 0
    assert kernel.unpack(f">2{kernel.word}") == (0x5000, 4)
    kernel.fails("EINVAL", "rt_sigaction", 9, new, 0, 0, 8)
    kernel.fails("EINVAL", "rt_sigaction", 11, new, 0, 0, 4)
    kernel.fails("EINVAL", "rt_sigaction", 65, 0, DATA, 0, 8)
    assert kernel.value("rt_sigprocmask", 1, kernel.put(mask_bits), 0, 8) == 0
    assert kernel.guest.signals.blocked == 1 << 29 | 1 << 40
    assert kernel.value("rt_sigprocmask", 0, 0, DATA, 8) == 0
    assert kernel.guest.read(DATA, 8) == mask_bits
    assert kernel.value("rt_sigprocmask", 4, kernel.put(bytes(8)), DATA, 8) == 0
    assert kernel.guest.signals.blocked == 0
    kernel.fails("EINVAL", "rt_sigprocmask", 3, DATA, 0, 8)
    assert kernel("rt_sigreturn") == Replaced()
    assert kernel.guest.returns == 1


def test_sending_and_waiting_for_signals(kernel: Kernel) -> None:
    assert kernel.value("kill", 1000, 0) == 0
    assert kernel.value("kill", 1000, 30) == 0
    assert kernel.value("tgkill", 1000, 1000, 6) == 0
    assert kernel.value("tkill", 1000, 6) == 0
    assert kernel.guest.raised == [30, 6, 6]
    kernel.fails("ESRCH", "kill", 5, 9)
    kernel.fails("EINVAL", "kill", 1000, 65)
    with pytest.raises(UnsupportedError, match="waits forever"):
        kernel("pause")
    kernel.guest.signals.post(SignalInfo(30, 0))
    kernel.fails("EINTR", "rt_sigsuspend", kernel.put(bytes(8)), 8)
    assert kernel.guest.suspended == [0]


def test_alternate_stack(kernel: Kernel) -> None:
    layout = ">Qi4xQ" if kernel.guest.is64 else ">IiI"
    assert kernel.value("sigaltstack", 0, DATA) == 0
    assert kernel.unpack(layout) == (0, 2, 0)
    new = kernel.put(struct.pack(layout, DATA + 0x10000, 0, 16384))
    assert kernel.value("sigaltstack", new, 0) == 0
    kernel.value("sigaltstack", 0, DATA)
    assert kernel.unpack(layout) == (DATA + 0x10000, 0, 16384)
    kernel.fails("ENOMEM", "sigaltstack", kernel.put(struct.pack(layout, DATA, 0, 100)), 0)


def test_futex(kernel: Kernel) -> None:
    word = kernel.put(struct.pack(">I", 7))
    assert kernel.value("futex", word, 128 | 1, 1) == 0
    kernel.fails("EAGAIN", "futex", word, 128, 8, 0)
    with pytest.raises(UnsupportedError, match="no other thread"):
        kernel("futex", word, 128, 7, 0)
    layout = ">qq" if kernel.guest.is64 else ">ii"
    timeout = kernel.put(struct.pack(layout, 3, 0))
    kernel.fails("ETIMEDOUT", "futex", word, 128, 7, timeout)
    kernel.value("clock_gettime", 0, DATA)
    assert kernel.unpack(layout)[0] == 1767225603


MISSING_SERVICES = [
    ("EAFNOSUPPORT", "socket"),
    ("EAFNOSUPPORT", "socketpair"),
    ("EAGAIN", "fork"),
    ("EAGAIN", "vfork"),
    ("EAGAIN", "clone"),
    ("ENOSYS", "ptrace"),
    ("ENOSYS", "process_vm_readv"),
    ("ENOSYS", "process_vm_writev"),
    ("ENOSYS", "epoll_create1"),
]
"""What Linux answers where it lacks the service: errors(3), socket(2), fork(2), clone(2)."""


@pytest.mark.parametrize(("error", "name"), MISSING_SERVICES)
def test_a_missing_service_answers_as_linux_does_without_it(
    kernel: Kernel, error: str, name: str
) -> None:
    kernel.fails(error, name, 1, 1, 1, DATA)
    kernel.fails(error, name, 1, 1, 1, DATA)
    assert kernel.calls.refused == {RefusedCall(name, error): 2}


SOCKET_CALLS = [
    "bind", "connect", "listen", "accept", "accept4", "getsockname", "getpeername", "getsockopt",
    "setsockopt", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown",
]  # fmt: skip


@pytest.mark.parametrize("name", SOCKET_CALLS)
def test_socket_calls_find_no_socket_and_are_not_refused(kernel: Kernel, name: str) -> None:
    kernel.fails("EBADF", name, 99, DATA, 16)
    kernel.fails("ENOTSOCK", name, 0, DATA, 16)
    assert not kernel.calls.refused


def test_socketcall_leads_to_the_same_answers(kernel: Kernel) -> None:
    layout = ">3Q" if kernel.guest.is64 else ">3I"
    arguments = kernel.put(struct.pack(layout, 99, 1, 0))
    kernel.fails("EAFNOSUPPORT", "socketcall", 1, arguments)
    kernel.fails("EAFNOSUPPORT", "socketcall", 8, arguments)
    kernel.fails("EBADF", "socketcall", 3, arguments)
    kernel.guest.write(arguments, bytes(24))
    kernel.fails("ENOTSOCK", "socketcall", 20, arguments)
    kernel.fails("EINVAL", "socketcall", 0, arguments)
    kernel.fails("EINVAL", "socketcall", 21, arguments)
    kernel.fails("EFAULT", "socketcall", 1, kernel.mask)
    assert kernel.calls.refused == {
        RefusedCall("socket", "EAFNOSUPPORT"): 1,
        RefusedCall("socketpair", "EAFNOSUPPORT"): 1,
    }


def test_a_program_that_is_not_there_cannot_be_started_anyway(
    kernel: Kernel, tmp_path: Path
) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(b"#!/bin/sh\n")
    kernel.fails("ENOENT", "execve", b"missing", 0, 0)
    kernel.fails("EACCES", "execve", b"tool", 0, 0)  # may not be executed
    assert not kernel.calls.refused
    tool.chmod(0o755)
    kernel.fails("EACCES", "execve", b"tool", 0, 0)
    kernel.fails("EACCES", "execveat", -100, b"tool", 0, 0, 0)
    kernel.fails("EINVAL", "execveat", -100, b"tool", 0, 0, 1)
    assert kernel.calls.refused == {
        RefusedCall("execve", "EACCES"): 1,
        RefusedCall("execveat", "EACCES"): 1,
    }


def test_timers_are_refused_not_ignored(kernel: Kernel) -> None:
    assert kernel.value("alarm", 0) == 0
    kernel.fails("ENOSYS", "alarm", 5)
    layout = ">4q" if kernel.guest.is64 else ">4i"
    kernel.fails("ENOSYS", "setitimer", 0, kernel.put(struct.pack(layout, 0, 0, 1, 0)), 0)
    assert kernel.value("setitimer", 0, kernel.put(struct.pack(layout, 1, 0, 0, 0)), 0) == 0
    assert kernel.calls.refused == {
        RefusedCall("alarm", "ENOSYS"): 1,
        RefusedCall("setitimer", "ENOSYS"): 1,
    }


def test_unknown_calls_are_remembered(kernel: Kernel) -> None:
    assert kernel.calls.call(4321, (0,) * 6) == Failed(90)
    assert kernel.calls.refused == {RefusedCall("number 4321", "ENOSYS"): 1}
    kernel.fails("ENOSYS", "set_robust_list", DATA, 24)  # as under qemu-user
    assert kernel.calls.refused.total() == 1


def test_a_strict_kernel_ends_the_run_at_the_first(kernel: Kernel, tmp_path: Path) -> None:
    strict = Kernel(tmp_path, kernel.guest.is64, strict=True)
    call = RefusedCall("socket", "EAFNOSUPPORT")
    assert strict("socket", 1, 1, 0) == Refused(call)
    assert strict.calls.refused == {call: 1}
    strict.fails("ENOTSOCK", "listen", 0, 1)


def test_special_files(kernel: Kernel, tmp_path: Path) -> None:
    null = kernel.value("open", b"/dev/null", 2)
    assert kernel.value("write", null, b"x", 1) == 1
    assert kernel.value("read", null, DATA, 10) == 0
    zero = kernel.value("open", b"/dev/zero", 0)
    kernel.guest.write(DATA, b"xxxx")
    assert kernel.value("read", zero, DATA, 4) == 4
    assert kernel.guest.read(DATA, 4) == bytes(4)
    full = kernel.value("open", b"/dev/full", 1)
    kernel.fails("ENOSPC", "write", full, b"x", 1)
    assert kernel.value("read", kernel.value("open", b"/dev/urandom", 0), DATA, 9) == 9
    assert kernel.value("write", kernel.value("open", b"/dev/stdout", 1), b"y", 1) == 1
    assert bytes(kernel.output) == b"y"
    maps = kernel.value("open", b"/proc/self/maps", 0)
    size = kernel.value("read", maps, DATA, 4096)
    assert b"00200000-00300000 rw-p" in kernel.guest.read(DATA, size)
    size = kernel.value("readlink", b"/proc/self/exe", DATA, 4096)
    assert kernel.guest.read(DATA, size) == str(tmp_path / "program").encode()
    kernel.fails("ENXIO", "open", b"/dev/tty", 2)


def test_no_call_raises_whatever_its_arguments(kernel: Kernel) -> None:
    """Every call with hostile arguments: an outcome or a clear refusal, nothing else."""
    hostile = (0, 1, 3, DATA, kernel.mask, 1 << 31, 0x7FFFFFFF)
    for name in sorted(set(kernel.calls._handlers) & set(kernel.numbers)):
        for value in hostile:
            for second in (0, DATA, kernel.mask):
                try:
                    outcome = kernel(name, value, second, value, second, value, second)
                except UnsupportedError:
                    continue
                assert isinstance(outcome, Returned | Failed | Exited | Replaced)


def test_host_errors_become_sparc_numbers() -> None:
    assert sparc.guest_errno(errno.ENOSYS) == 90
    assert sparc.guest_errno(errno.ENOTEMPTY) == 66
    assert sparc.guest_errno(errno.ELOOP) == 62
    assert sparc.guest_errno(errno.EOPNOTSUPP) == 45
    assert sparc.guest_errno(errno.ENOENT) == 2
    assert sparc.guest_errno(12345) == sparc.ERRNO["EIO"]
