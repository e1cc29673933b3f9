"""Shared by tests: what `tests/simulator/binary/test_elf.py` and others use."""

from __future__ import annotations

import struct

CODE = struct.pack(">4I", 0x82102001, 0x90102003, 0x91D0206D, 0x01000000)

BASE = 0x100000


def tiny_elf(
    machine: int = 43,
    *,
    flags: int = 5,
    kind: int = 2,
    entry: int = BASE + 0x200,
    order: int = 2,
    extra: tuple[bytes, ...] = (),
) -> bytes:
    """Build a program of one segment: headers, then `CODE` at offset 0x200."""
    is64 = machine == 43
    headers = [program_header(is64, 1, flags, 0, BASE, 0x210, 0x1000), *extra]
    ident = b"\x7fELF" + bytes([2 if is64 else 1, order, 1]) + bytes(9)
    if is64:
        rest = (kind, machine, 1, entry, 64, 0, 0, 64, 56, len(headers), 64, 0, 0)
        head = ident + struct.pack(">HHIQQQIHHHHHH", *rest)
    else:
        rest = (kind, machine, 1, entry, 52, 0, 0, 52, 32, len(headers), 40, 0, 0)
        head = ident + struct.pack(">HHIIIIIHHHHHH", *rest)
    return (head + b"".join(headers)).ljust(0x200, b"\0") + CODE


def program_header(
    is64: bool, kind: int, flags: int, offset: int, address: int, size: int, memory: int
) -> bytes:
    """Encode one program header."""
    if is64:
        return struct.pack(">IIQQQQQQ", kind, flags, offset, address, 0, size, memory, 8)
    return struct.pack(">IIIIIIII", kind, offset, address, 0, size, memory, flags, 8)
