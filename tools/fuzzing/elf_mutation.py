"""ELF files changed at random, field by field.

Random bytes are refused for the first wrong magic number. Here the fields of the ELF header, of
program and section headers, of symbols and of the dynamic section get values that other parts of
the file make interesting: its size, offsets and addresses of others, numbers around powers of two.
`crowd` makes tables of very many entries: what is quadratic hangs there.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from random import Random
from typing import NamedTuple

from tools.fuzzing.mutation import NUMBERS, mutate_bytes

_HEADER_32 = (2, 2, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2)
_HEADER_64 = (2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2)
_SEGMENT_32, _SEGMENT_64 = (4,) * 8, (4, 4, 8, 8, 8, 8, 8, 8)
_SECTION_32, _SECTION_64 = (4,) * 10, (4, 4, 8, 8, 8, 8, 4, 4, 8, 8)
_SYMBOL_32, _SYMBOL_64 = (4, 4, 4, 1, 1, 2), (4, 1, 1, 2, 8, 8)
_IDENTITY = 16
_SYMBOL_TABLES, _DYNAMIC = (2, 11), 6
_MOST = 4096
"""Fields of one table that are told apart."""


class Field(NamedTuple):
    """A number in a file: `size` bytes at `at`."""

    at: int
    size: int


class Layout(NamedTuple):
    """Where the numbers of an ELF file are, and its sections as (offset, size)."""

    fields: tuple[Field, ...]
    values: tuple[int, ...]
    debug: tuple[tuple[int, int], ...]


@lru_cache(maxsize=512)
def layout(data: bytes) -> Layout:
    """Return where the numbers of a file are, as far as its headers tell."""
    is64 = data[4:5] == b"\2"
    header = _HEADER_64 if is64 else _HEADER_32
    fields = [Field(at, 1) for at in range(4, 9)]
    fields += _record(_IDENTITY, header)
    numbers = [_value(data, field) for field in fields[5:]]
    _, _, _, _, segments, sections, _, _, _, segment_count, _, section_count, names = numbers
    segment, section = (_SEGMENT_64, _SECTION_64) if is64 else (_SEGMENT_32, _SECTION_32)
    fields += _table(data, segments, segment_count, segment)
    spans: list[tuple[int, int]] = []
    for head in _records(data, sections, section_count, section):
        fields += head
        _, kind, _, _, offset, size, *_ = (_value(data, field) for field in head)
        spans.append((offset, min(size, max(len(data) - offset, 0))))
        if kind in _SYMBOL_TABLES:
            symbol = _SYMBOL_64 if is64 else _SYMBOL_32
            fields += _table(data, offset, min(size // sum(symbol), 32), symbol)
        elif kind == _DYNAMIC:
            word = 8 if is64 else 4
            fields += _table(data, offset, min(size // (2 * word), 32), (word, word))
    values = {_value(data, field) for field in fields} | {len(data)}
    _ = names
    return Layout(tuple(fields), tuple(values), tuple(span for span in spans if span[1] > 0))


def _record(at: int, sizes: tuple[int, ...]) -> list[Field]:
    fields = []
    for size in sizes:
        fields.append(Field(at, size))
        at += size
    return fields


def _records(data: bytes, at: int, count: int, sizes: tuple[int, ...]) -> list[list[Field]]:
    size = sum(sizes)
    there = max(min(count, (len(data) - at) // size, _MOST), 0)
    return [_record(at + size * number, sizes) for number in range(there)]


def _table(data: bytes, at: int, count: int, sizes: tuple[int, ...]) -> list[Field]:
    return [field for record in _records(data, at, count, sizes) for field in record]


def _value(data: bytes, field: Field) -> int:
    return int.from_bytes(data[field.at : field.at + field.size], "big")


def mutate_fields(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change a few fields of a file's tables; sometimes bytes anywhere, or what a section holds."""
    choice = rng.random()
    if choice < 0.1:
        return mutate_bytes(rng, data, other)
    known = layout(data)
    result = bytearray(data)
    if choice < 0.25 and known.debug:
        _change_section(rng, result, known)
        return bytes(result)
    for _ in range(1 + int(rng.expovariate(0.8))):
        field = rng.choice(known.fields)
        put(result, field, _wanted(rng, _value(data, field), known))
    return bytes(result)


def mutate_sections(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change what the sections of a file hold, and sometimes its tables."""
    known = layout(data)
    if rng.random() < 0.15 or not known.debug:
        return mutate_fields(rng, data, other)
    result = bytearray(data)
    for _ in range(1 + int(rng.expovariate(0.5))):
        _change_section(rng, result, known)
    return bytes(result)


def _change_section(rng: Random, data: bytearray, known: Layout) -> None:
    """Change a number in one of the sections, each as likely as the others."""
    offset, size = rng.choice(known.debug)
    at = offset + rng.randrange(min(size, 64) if rng.random() < 0.4 else size)
    width = rng.choice((1, 1, 1, 2, 4, 8))
    current = int.from_bytes(data[at : at + width], "big")
    put(data, Field(at, width), _wanted(rng, current, known))


def _wanted(rng: Random, current: int, known: Layout) -> int:
    choice = rng.random()
    if choice < 0.3:
        return rng.choice(NUMBERS)
    if choice < 0.6:
        return rng.choice(known.values) + rng.choice((0, 0, 0, -1, 1, 4, -4))
    if choice < 0.8:
        return current + rng.choice((-8, -4, -1, 1, 2, 3, 4, 8, 0x1000, 0x10000))
    if choice < 0.9:
        return current ^ 1 << rng.randrange(64)
    return rng.getrandbits(64)


def put(data: bytearray, field: Field, value: int) -> None:
    """Write a number, without its bits that have no room; the file keeps its size."""
    if field.at + field.size <= len(data):
        data[field.at : field.at + field.size] = (value % (1 << 8 * field.size)).to_bytes(
            field.size, "big"
        )


def crowd(rng: Random, machine: int = 43) -> bytes:
    """Return a 64-bit program with very many segments, sections or symbols, all within limits.

    Each is allowed by itself: segments one behind the other, sections of code, symbols whose names
    are the ends of one long one. A reader has to take them all, or to refuse the file.
    """
    many = 1 << rng.randrange(8, 16)
    segments = rng.choice((2, many, 0xFFFF))
    sections = rng.choice((3, many, 0xFFFF))
    symbols = rng.choice((0, many, 1 << 17))
    content = 1 << rng.randrange(8, 21)
    head, table = 64, 64 + 56 * segments
    strings = table + 64 * sections
    names = strings + content
    size = names + 24 * symbols
    base, step = 0x100000, (content + 0x1FFF) & ~0x1FFF
    header = struct.pack(
        ">16sHHIQQQIHHHHHH",
        b"\x7fELF\2\2\1".ljust(16, b"\0"), 2, machine, 1, base, head, table, 0,
        64, 56, segments, 64, sections, 1,
    )  # fmt: skip
    parts = [header]
    inside = content & ~3
    start = strings & ~3
    for number in range(segments):
        address = base + number * step
        parts.append(struct.pack(">IIQQQQQQ", 1, 5, start, address, 0, inside, inside, 8))
    rows = [(0, 0, 0, 0, 0, 0, 0, 0, 0, 0), (0, 3, 0, 0, strings, content, 0, 0, 1, 0)]
    rows.append((0, 2, 0, 0, names, 24 * symbols, 1, 0, 8, 24))
    for number in range(sections - 3):
        address = base + (number % segments) * step + 8 * (number // segments % 16)
        rows.append((0, 1, 6, address, start, 8, 0, 0, 4, 0))
    parts += [struct.pack(">IIQQQQIIQQ", *row) for row in rows[:sections]]
    parts.append(b"n" * content)
    for number in range(symbols):
        address = base + rng.randrange(min(segments, 64)) * step
        parts.append(struct.pack(">IBBHQQ", number % content, 0x12, 0, 1, address, 4))
    return b"".join(parts)[:size]
