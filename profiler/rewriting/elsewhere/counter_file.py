"""Counter files: what an instrumented program writes when it ends.

A file is a line ``simprof-counters/2``, a line of JSON (the header, which is made with the program
and which the program only copies), and, all numbers big-endian,

====================  ==========================================================================
part                  bytes
====================  ==========================================================================
each region           an array, or the slots of logged pairs: `size` bytes of memory. A hash
                      table, or a pool: its bytes up to the first that is not used
frames                a word of 32 bits: how many; one that says how the program ended; then the
                      words, of the program's width
the end               ``simprof`` and a newline: without it the file is cut
====================  ==========================================================================

The frames are the return addresses on the stack when the file was written, innermost first.

Several files of one program are merged by adding what was counted: counters have 32 bits, and sums
are modulo 2^32, as if one run had counted all. Hash tables have the layout of `hash_routine` and,
for keys of several words, of `hash_routine`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from simprof.profiler.code.hash_routine import MAX_WORDS, TableLayout
from simprof.profiler.code.layout import SLOT_SIZE
from simprof.profiler.plan.plan import POOL_START
from simprof.profiler.profiles.codec import decode, encode, parse_json
from simprof.profiler.profiles.storage import LONGEST_HEADER
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError

KIND = b"simprof-counters/"
VERSION = "2"
FIRST_LINE = KIND + VERSION.encode() + b"\n"
LAST_LINE = b"simprof\n"
TRACE_SUFFIX = ".trace"  # What a program appends to the file's name for its trace
WORD = 4
# How a program ended: one of these plus its exit status, or plus the signal; 0: it has not.
EXITED, KILLED = 0x100, 0x200


class RegionKind(StrEnum):
    """What a region of memory holds."""

    ARRAY = "array"  # words
    PAIRS = "pairs"  # slots of logged pairs: owner and count (CS6120)
    TABLE = "table"  # a hash table (EPP 5.3)
    POOL = "pool"  # what a scheme's run-time routine handed out (`plan.plan.Buffer.is_pool`)


class FileRegion(Struct, frozen=True, omit_defaults=True):
    """Memory whose content is in the file."""

    kind: RegionKind
    address: int
    size: int  # In bytes; of a hash table or a pool the room that it has.
    words: int = 1  # Of a hash table: 32-bit words of a key (see `hash_routine`).

    @property
    def is_sound(self) -> bool:
        """Whether there can be such a region."""
        numbers = self.address, self.size, self.size % WORD == 0, 1 <= self.words <= MAX_WORDS
        return min(numbers[:2]) >= 0 and all(numbers[2:])

    @property
    def is_table(self) -> bool:
        """Whether it is a hash table."""
        return self.kind is RegionKind.TABLE

    @property
    def grows(self) -> bool:
        """Whether the file has as much of it as is in use: of a hash table, and a pool."""
        return self.kind in (RegionKind.TABLE, RegionKind.POOL)

    @property
    def table(self) -> TableLayout:
        """How the hash table is laid out."""
        return TableLayout(self.words)

    @property
    def free(self) -> int:
        """Of what grows: the address of the word that has the address behind its last byte."""
        return self.address + (self.table.free if self.is_table else 0)

    def holds(self, size: int) -> bool:
        """Whether what grows can have so many bytes in use."""
        first, step = (self.table.pool, self.table.node_size) if self.is_table else (POOL_START, 4)
        return size >= first and (size - first) % step == 0


class InstrumentedProgram(Struct, frozen=True):
    """A program before it was instrumented."""

    file: str
    sha256: str
    machine: MachineKind


# Routine number -> counts by edge id; routines that were not entered may be absent.
Counts = Mapping[int, tuple[int, ...]]
# Routine number -> blocks and edges of the paths that guided its plan, and how often each was
# executed
CountedPaths = Mapping[int, tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...]]


class CounterRecipe(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was instrumented, and how: the header of counter files.

    Graphs follow from the program's file and what was discovered beside it, plans from graphs and
    options, and addresses of counters from the plans in their order (`layout.CounterSpace`). So a
    reader needs no plan, only what decided them (`recipe`).
    """

    program: InstrumentedProgram
    # mode, options: The scheme, and what shapes its plans.
    mode: str
    options: Mapping[str, Any]
    regions: tuple[FileRegion, ...]  # What the program writes behind the header, in order
    # What the graphs rest on beside the program's file (`trace.format.discovery_fields`)
    discoveries: Mapping[str, Any] = {}
    # Numbers of the routines that were instrumented, in the order of their counters
    routines: tuple[int, ...] = ()
    # edge_counts, path_counts: The profiles that guided the plans, if any did.
    edge_counts: Counts = {}
    path_counts: CountedPaths = {}
    weights: Counts = {}  # The counts that edge weights were taken from, if they were
    # How many acyclic paths the program began by the edge profile, where that guided the plans, too
    unit_flow: int | None = None
    copies: tuple[tuple[int, int], ...] = ()  # Addresses of a call's copy, and of the call
    # Routine number -> words for path registers beside the stack, where only its code told how many
    # it needs (`CounterSpace.with_words`)
    words: Mapping[int, int] = {}
    left: tuple[int, ...] = ()  # Those of `routines` that were left alone: they count nothing.
    trace: bool = False  # Whether the program writes a trace, too

    def header(self) -> bytes:
        """Return the first two lines of counter files."""
        fields = json.dumps(encode(self), separators=(",", ":"), sort_keys=True)
        return FIRST_LINE + fields.encode() + b"\n"


class CounterFile(Struct, frozen=True):
    """What a run of an instrumented program counted; or several runs, added up."""

    name: str  # Where it comes from, for messages
    recipe: CounterRecipe  # What is counted, and where
    memory: Mapping[int, bytes]  # Region's address -> its bytes
    # For each run, the return addresses on the stack at its end, innermost first
    frames: tuple[tuple[int, ...], ...]
    # For each run, how it ended: `EXITED` plus its status, `KILLED` plus a signal, 0 if unknown.
    ends: tuple[int, ...] = ()

    @property
    def trace_name(self) -> str:
        """What the trace beside it is called."""
        return self.name + TRACE_SUFFIX

    def read(self, address: int, size: int) -> bytes:
        """Return memory of the run's end; UsageError if it is not in the file."""
        for base, data in self.memory.items():
            if base <= address and address + size <= base + len(data):
                return data[address - base : address - base + size]
        raise UsageError(f"{self.name} does not have the {size} bytes at {address:#x}")


def load(path: Path) -> CounterFile:
    """Read a counter file; UsageError if it cannot be read, is none, is cut, or does not have the
    sizes that its header says.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return parse(data, str(path))


def parse(data: bytes, name: str = "the counter file") -> CounterFile:
    """Return what the content of a counter file says; `name` is for messages. Raises as `load`."""
    recipe, at = _recipe(data, name)
    width = 8 if recipe.program.machine is MachineKind.SPARCV9 else 4
    memory: dict[int, bytes] = {}
    for region in recipe.regions:
        size = _used_size(data, at, region, name) if region.grows else region.size
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
    return CounterFile(name, recipe, memory, (frames,), (end,))


def _recipe(data: bytes, name: str) -> tuple[CounterRecipe, int]:
    """Return what the header says, and where it ends."""
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
            f"{name} is not a counter file: give one that an instrumented program has written"
        )
    text, newline, _ = data[len(FIRST_LINE) : LONGEST_HEADER].partition(b"\n")
    if not newline:
        raise UsageError(f"{name} is cut in its header: run the program again")
    try:
        recipe = decode(CounterRecipe, parse_json(text), "header")
        if not all(region.is_sound for region in recipe.regions):
            raise ValueError("no such region")
    except (ValueError, RecursionError):
        raise UsageError(f"{name} is damaged in its header: run the program again") from None
    return recipe, len(FIRST_LINE) + len(text) + 1


def _take(data: bytes, at: int, size: int, name: str) -> bytes:
    taken = data[at : at + size]
    if len(taken) < size:
        raise UsageError(f"{name} is cut at byte {len(data)}: run the program again")
    return taken


def _used_size(data: bytes, at: int, region: FileRegion, name: str) -> int:
    """Return how many bytes of a hash table or a pool there are."""
    place = at + region.free - region.address
    end = int.from_bytes(_take(data, place, WORD, name), "big")
    size = end - region.address
    if not region.holds(size):
        raise UsageError(f"{name} is damaged at byte {place}: run the program again")
    if size > region.size:
        what = "hash table" if region.is_table else "pool"
        raise UsageError(
            f"{name}: more paths were executed than the {what} at {region.address:#x} has "
            "room for, and counts are lost: instrument with a smaller --path-limit"
        )
    return size


MASK = (1 << 32) - 1


def merged(files: Sequence[CounterFile]) -> CounterFile:
    """Return what all of `files`, one at least, have counted together.

    Words of arrays and counts of pairs add up one by one, those of hash tables by key.

    Raises ProfileMismatchError if they are not of one program instrumented in one way: naming what
    differs.
    """
    first, *others = files
    for other in others:
        if first.recipe.trace:
            raise ProfileMismatchError(
                f"{first.name} and {other.name}: traces cannot be merged: read one at a time"
            )
        if any(region.kind is RegionKind.POOL for region in first.recipe.regions):
            raise ProfileMismatchError(
                f"{first.name} and {other.name}: counters of mode {first.recipe.mode} cannot be "
                "merged: read one at a time"
            )
        if first.recipe != other.recipe:
            different = _difference(first.recipe, other.recipe)
            raise ProfileMismatchError(
                f"{other.name} is not of the same instrumented program as {first.name}: {different}"
            )
    if not others:
        return first
    memory = {region.address: _sum(region, files) for region in first.recipe.regions}
    frames = tuple(frames for each in files for frames in each.frames)
    ends = tuple(end for each in files for end in each.ends)
    return CounterFile(first.name, first.recipe, memory, frames, ends)


def _difference(ours: CounterRecipe, theirs: CounterRecipe) -> str:
    """Say what differs first between two headers, in the order of what a user would ask."""
    if ours.program.sha256 != theirs.program.sha256:
        files = theirs.program.file, ours.program.file
        then = " as it was then" if files[0] == files[1] else ""
        return f"the program is {files[0]}, not {files[1]}{then}"
    if ours.mode != theirs.mode:
        return f"the mode is {theirs.mode}, not {ours.mode}"
    for name in sorted({*ours.options, *theirs.options}):
        values = theirs.options.get(name), ours.options.get(name)
        if values[0] != values[1]:
            return f"the option {name} is {values[0]}, not {values[1]}"
    names = sorted(CounterRecipe.__struct_fields__, key=lambda name: (name != "regions", name))
    name = next(name for name in names if getattr(ours, name) != getattr(theirs, name))
    return f"the {name} differ" if name.endswith("s") else f"the {name} differs"


def _sum(region: FileRegion, files: Sequence[CounterFile]) -> bytes:
    contents = [each.memory[region.address] for each in files]
    if region.is_table:
        counts: dict[tuple[int, ...], int] = {}
        for content in contents:
            for key, count in table_counts(content, region.words):
                counts[key] = counts.get(key, 0) + count & MASK
        return table_bytes(region, counts)
    step = SLOT_SIZE // WORD if region.kind is RegionKind.PAIRS else 1
    total = np.frombuffer(contents[0], ">u4").copy()
    for content in contents[1:]:
        # the sums of unsigned words are modulo 2^32
        total[step - 1 :: step] += np.frombuffer(content, ">u4")[step - 1 :: step]
    return total.tobytes()


def table_counts(content: bytes, words: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the key, by word, and the count of each path in a table, as they were first counted."""
    # content: The table up to the first node that is not used.
    # words: 32-bit words of a key.
    table = TableLayout(words)
    for node in struct.iter_unpack(f">{words + 2}I", content[table.pool :]):
        yield node[:words], node[words]


def table_bytes(region: FileRegion, counts: Mapping[tuple[int, ...], int]) -> bytes:
    """Return a table that holds `counts` for readers: its chains are not linked."""
    table = region.table
    content = bytearray(table.initial(region.address))
    for key, count in counts.items():
        content += struct.pack(f">{region.words + 2}I", *key, count, 0)
    content[table.free : table.free + 4] = (region.address + len(content)).to_bytes(4, "big")
    return bytes(content)
