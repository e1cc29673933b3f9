"""Counter files: what an instrumented program writes when it ends.

A file is a line ``simprof-counters/2``, a line of JSON (the header, which is made with the program
and which the program only copies), and, all numbers big-endian,

====================  ==========================================================================
part                  bytes
====================  ==========================================================================
each region           an array, or the slots of logged pairs: `size` bytes of memory. A hash
                      table: its bytes up to the first node that is not used
frames                a word of 32 bits: how many; one that says how the program ended; then the
                      words, of the program's width
the end               ``simprof`` and a newline: without it the file is cut
====================  ==========================================================================

The frames are the return addresses on the stack when the file was written, innermost first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from simprof.profiler.code.runtime.word_hash_routine import MAX_WORDS, WordTable
from simprof.profiler.profiles.codec import parse_json
from simprof.profiler.profiles.first_line import LONGEST_HEADER
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError

KIND = b"simprof-counters/"
VERSION = "2"
FIRST_LINE = KIND + VERSION.encode() + b"\n"
LAST_LINE = b"simprof\n"
WORD = 4
EXITED, KILLED = 0x100, 0x200
"""How a program ended: one of these plus its exit status, or plus the signal; 0: it has not."""


class RegionKind(StrEnum):
    """What a region of memory holds."""

    ARRAY = "array"  # words
    PAIRS = "pairs"  # slots of logged pairs: owner and count (CS6120)
    TABLE = "table"  # a hash table (EPP 5.3)


@dataclass(frozen=True)
class Region:
    """Memory whose content is in the file.

    Attributes
    ----------
    size
        In bytes; of a hash table the room that it has.
    words
        Of a hash table: 32-bit words of a key (see `word_hash_routine`).
    """

    kind: RegionKind
    address: int
    size: int
    words: int = 1

    @property
    def table(self) -> WordTable:
        """How the hash table is laid out."""
        return WordTable(self.words)

    @property
    def free(self) -> int:
        """Of a hash table: the address of the word that has its end's address."""
        return self.address + self.table.free


@dataclass(frozen=True)
class CounterFile:
    """What a run of an instrumented program counted; or several runs, added up.

    Attributes
    ----------
    name
        Where it comes from, for messages.
    header
        What is counted, and where (`header`).
    memory
        Region's address -> its bytes.
    frames
        For each run, the return addresses on the stack at its end, innermost first.
    ends
        For each run, how it ended: `EXITED` plus its status, `KILLED` plus a signal, 0 if unknown.
    """

    name: str
    header: Mapping[str, Any]
    memory: Mapping[int, bytes]
    frames: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...] = ()

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The regions, in the file's order."""
        return tuple(
            Region(RegionKind(r["kind"]), r["address"], r["size"], r.get("words", 1))
            for r in self.header["regions"]
        )

    def read(self, address: int, size: int) -> bytes:
        """Return memory of the run's end.

        Raises
        ------
        UsageError
            If it is not in the file.
        """
        for base, data in self.memory.items():
            if base <= address and address + size <= base + len(data):
                return data[address - base : address - base + size]
        raise UsageError(f"{self.name} does not have the {size} bytes at {address:#x}")


def header(
    *,
    file: str,
    sha256: str,
    machine: MachineKind,
    mode: str,
    options: Mapping[str, Any],
    regions: Sequence[Region],
    more: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the first two lines of a program's counter files.

    Parameters
    ----------
    file, sha256, machine
        The program, before it was instrumented.
    mode, options
        The scheme, and what shapes its plans.
    regions
        What the program writes behind these lines, in order.
    more
        What else a reader needs, by name.
    """
    fields = {
        "program": {"file": file, "sha256": sha256, "machine": str(machine)},
        "mode": mode,
        "options": dict(options),
        "regions": [_region_fields(region) for region in regions],
        **(more or {}),
    }
    return FIRST_LINE + json.dumps(fields, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def _region_fields(region: Region) -> dict[str, Any]:
    fields = {"kind": str(region.kind), "address": region.address, "size": region.size}
    return fields | ({"words": region.words} if region.kind is RegionKind.TABLE else {})


def load(path: Path) -> CounterFile:
    """Read a counter file.

    Raises
    ------
    UsageError
        If it cannot be read, is none, is cut, or does not have the sizes that its header says.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return parse(data, str(path))


def parse(data: bytes, name: str = "the counter file") -> CounterFile:
    """Return what the content of a counter file says; `name` is for messages. Raises as `load`."""
    fields, at = _header(data, name)
    known = CounterFile(name, fields, {}, ())
    width = _check_header(known)
    memory: dict[int, bytes] = {}
    for region in known.regions:
        size = _table_size(data, at, region, name) if _is_table(region) else region.size
        memory[region.address] = _take(data, at, size, name)
        at += size
    count = int.from_bytes(_take(data, at, WORD, name), "big")
    end = int.from_bytes(_take(data, at + WORD, WORD, name), "big")
    words = _take(data, at + 2 * WORD, count * width, name)
    at += 2 * WORD + len(words)
    if _take(data, at, len(LAST_LINE), name) != LAST_LINE or len(data) != at + len(LAST_LINE):
        raise UsageError(f"{name} is damaged: it does not end where its sizes say: run it again")
    frames = tuple(
        int.from_bytes(words[place : place + width], "big") for place in range(0, len(words), width)
    )
    return CounterFile(name, fields, memory, (frames,), (end,))


def _is_table(region: Region) -> bool:
    return region.kind is RegionKind.TABLE


def _header(data: bytes, name: str) -> tuple[dict[str, Any], int]:
    """Return the header, and where it ends."""
    if not data.startswith(FIRST_LINE):
        kind, newline, _ = data[:64].partition(b"\n")
        if kind.startswith(KIND) and newline:
            version = kind[len(KIND) :].decode("ascii", "replace")
            raise UsageError(
                f"{name} is a counter file of version {version}, this simprof reads version "
                f"{VERSION}: instrument the program again"
            )
        if FIRST_LINE.startswith(data):
            raise UsageError(f"{name} is cut in its header: run the program again")
        raise UsageError(
            f"{name} is no counter file: give one that an instrumented program has written"
        )
    text, newline, _ = data[len(FIRST_LINE) : LONGEST_HEADER].partition(b"\n")
    if not newline:
        raise UsageError(f"{name} is cut in its header: run the program again")
    try:
        fields = parse_json(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"{name} is damaged in its header: run the program again")
    return fields, len(FIRST_LINE) + len(text) + 1


def _check_header(known: CounterFile) -> int:
    """Check the fields that every header has; return the bytes of a frame's word."""
    try:
        machine = MachineKind(known.header["program"]["machine"])
        texts = (
            *(known.header["program"][key] for key in ("file", "sha256")),
            known.header["mode"],
        )
        whole = all(isinstance(text, str) for text in texts)
        whole &= isinstance(known.header["options"], dict)
        for region in known.regions:
            numbers = (region.address, region.size, region.words)
            whole &= all(type(n) is int and n >= 0 for n in numbers)
            whole &= region.size % WORD == 0 and 1 <= region.words <= MAX_WORDS
    except (KeyError, TypeError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise UsageError(f"{known.name} is damaged in its header: run the program again")
    return 8 if machine is MachineKind.SPARCV9 else 4


def _take(data: bytes, at: int, size: int, name: str) -> bytes:
    taken = data[at : at + size]
    if len(taken) < size:
        raise UsageError(f"{name} is cut at byte {len(data)}: run the program again")
    return taken


def _table_size(data: bytes, at: int, region: Region, name: str) -> int:
    """Return how many bytes of a hash table there are."""
    place = at + region.table.free
    end = int.from_bytes(_take(data, place, WORD, name), "big")
    size = end - region.address
    if size < region.table.pool or (size - region.table.pool) % region.table.node_size:
        raise UsageError(f"{name} is damaged at byte {place}: run the program again")
    if size > region.size:
        raise UsageError(
            f"{name}: more paths were executed than the hash table at {region.address:#x} has room "
            "for, and counts are lost: instrument with a smaller --path-limit"
        )
    return size
