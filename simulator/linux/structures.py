"""Linux/SPARC structures as bytes, in both widths (64-bit, 32-bit)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from simprof.simulator.linux.outside import BLOCK_SIZE, USER, DirectoryEntry, FileStatus

SECOND = 1_000_000_000  # nanoseconds
# Seconds, and nanoseconds or microseconds, by width: in 64-bit programs the latter are an int.
TIMESPEC = {True: struct.Struct(">qq"), False: struct.Struct(">ii")}
TIMEVAL = {True: struct.Struct(">qi4x"), False: struct.Struct(">ii")}

STATX_BASIC = 0x7FF
_STATFS_TYPE = 0xEF53  # ext2/3/4
_STATFS_BLOCKS = 1 << 20


def signed(value: int, bits: int) -> int:
    """Return the lowest bits of a value as a signed number."""
    return (value & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1)


# Layouts follow `arch/sparc/include/uapi/asm` and `include/uapi/asm-generic` of Linux 6.1. All
# functions that encode return the bytes that the kernel would copy out.
def stat(status: FileStatus, is64: bool) -> bytes:
    """`struct stat` of the plain stat calls."""
    seconds, nanoseconds = divmod(status.modified, SECOND)
    size, mode, links = status.size, status.mode, status.links
    rdev, device, inode = status.special_device, status.device, status.inode
    if is64:
        times = (seconds,) * 3
        return struct.pack(
            ">I4xQIh2xIII4xqqqqqqQQ",
            device, inode, mode, links, USER, USER, rdev, size, *times, BLOCK_SIZE,
            status.blocks, 0, 0,
        )  # fmt: skip
    times32 = (signed(seconds, 32), nanoseconds) * 3
    return struct.pack(
        ">H2xIHhHHH2xiiIiIiIii8x",
        device, inode, mode, links, USER, USER, rdev, signed(size, 32), *times32, BLOCK_SIZE,
        status.blocks,
    )  # fmt: skip


def stat64(status: FileStatus, is64: bool) -> bytes:
    """`struct stat64`."""
    seconds, nanoseconds = divmod(status.modified, SECOND)
    head = (status.device, status.inode)
    if is64:
        times = (seconds, nanoseconds) * 3
        return struct.pack(
            ">QQQIIIIQqqQqQqQqQ24x",
            *head, status.links, status.mode, USER, USER, 0, status.special_device, status.size,
            BLOCK_SIZE, status.blocks, *times,
        )  # fmt: skip
    times = (seconds & 0xFFFFFFFF, nanoseconds) * 3
    return struct.pack(
        ">QQIIIIQ8xqI8xIIIIIII8x",
        *head, status.mode, status.links, USER, USER, status.special_device, status.size,
        BLOCK_SIZE, status.blocks & 0xFFFFFFFF, *times,
    )  # fmt: skip


def statx(status: FileStatus) -> bytes:
    """`struct statx` with the basic fields."""
    seconds, nanoseconds = divmod(status.modified, SECOND)
    stamp = struct.pack(">qI4x", seconds, nanoseconds)
    head = struct.pack(
        ">IIQIIIH2xQQQQ",
        STATX_BASIC, BLOCK_SIZE, 0, status.links, USER, USER, status.mode, status.inode,
        status.size, status.blocks, 0,
    )  # fmt: skip
    special = status.special_device
    numbers = struct.pack(">IIII", special >> 8, special & 0xFF, 0, status.device)
    return (head + stamp + bytes(16) + stamp * 2 + numbers).ljust(256, b"\0")


def statfs(wide: bool, is64: bool) -> bytes:
    """`struct statfs`, or `struct statfs64` where `wide`: one file system, half full."""
    layout = ">7q2i3q32x" if is64 else ">II5Q2i3I16x" if wide else ">7I2i3I16x"
    half = _STATFS_BLOCKS // 2
    counts = (_STATFS_BLOCKS, half, half, _STATFS_BLOCKS, half)
    return struct.pack(layout, _STATFS_TYPE, BLOCK_SIZE, *counts, 0, 1, 255, BLOCK_SIZE, 0)


def timespec(nanoseconds: int, wide: bool) -> bytes:
    """`struct timespec`; `wide` for 64-bit programs and the *_time64 calls."""
    seconds, rest = divmod(nanoseconds, SECOND)
    return TIMESPEC[wide].pack(seconds if wide else signed(seconds, 32), rest)


def timeval(nanoseconds: int, is64: bool) -> bytes:
    """`struct timeval`."""
    seconds, rest = divmod(nanoseconds, SECOND)
    return TIMEVAL[is64].pack(seconds if is64 else signed(seconds, 32), rest // 1000)


def rusage(user_nanoseconds: int, is64: bool) -> bytes:
    """`struct rusage`: user time only."""
    rest = bytes(14 * (8 if is64 else 4))
    return timeval(user_nanoseconds, is64) + timeval(0, is64) + rest


def sysinfo(uptime: int, total: int, free: int, is64: bool) -> bytes:
    """`struct sysinfo`; `uptime` in seconds, memory in bytes."""
    memory = (total, free, 0, 0, 0, 0)
    if is64:
        return struct.pack(">q3Q6QH6x2QI4x", uptime, 0, 0, 0, *memory, 1, 0, 0, 1)
    # The unit stays 1, as under qemu-user: the C library's arithmetic depends on it.
    shown = tuple(min(value, 0xFFFFE000) for value in memory)
    return struct.pack(">i3I6IH2x2II8x", signed(uptime, 32), 0, 0, 0, *shown, 1, 0, 0, 1)


def utsname() -> bytes:
    """`struct new_utsname`: a 32-bit program sees the 64-bit kernel too."""
    fields = (b"Linux", b"simprof", b"6.1.0", b"#1", b"sparc64", b"(none)")
    return b"".join(field.ljust(65, b"\0") for field in fields)


def directory_entries(
    entries: Sequence[DirectoryEntry], position: int, room: int, layout: str
) -> tuple[bytes, int]:
    """Encode what fits into `room` bytes of entries from `position` on; return it and its end."""
    # `layout`: "dirent64", or "dirent" with 8-byte ("dirent/64") or 4-byte ("dirent/32") words.
    encoded = b""
    for entry in entries[position:]:
        record = _dirent(entry, position + 1, layout)
        if len(encoded) + len(record) > room:
            break
        encoded += record
        position += 1
    return encoded, position


def _dirent(entry: DirectoryEntry, offset: int, layout: str) -> bytes:
    if layout == "dirent64":
        length = (19 + len(entry.name) + 1 + 7) & ~7
        head = struct.pack(">QqHB", entry.inode, offset, length, entry.kind)
        return (head + entry.name).ljust(length, b"\0")
    word = 8 if layout.endswith("64") else 4
    length = (2 * word + 2 + len(entry.name) + 2 + word - 1) & ~(word - 1)
    head = struct.pack(">QQH" if word == 8 else ">IIH", entry.inode, offset, length)
    return (head + entry.name).ljust(length - 1, b"\0") + bytes([entry.kind])
