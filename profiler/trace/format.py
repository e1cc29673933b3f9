"""Trace files: what `simprof run --trace` writes and `simprof read` reads.

A file is a line ``simprof-trace VERSION``, a line of JSON (the header: program, arguments, mode,
what recovery must know to make the same graphs), and frames:

    kind (1 byte), length of the content (4 bytes), their CRC-32 (its last 2 bytes),
    content, CRC-32 of kind and content (4 bytes)

====  ==========================================================================================
kind  content (numbers are big-endian)
====  ==========================================================================================
R     a routine met for the first time: its number, then of each token edge, value, width
C     crossings so far (8 bytes), then the next bytes of the token stream
K     checkpoints: pairs of crossings so far and digest of their edges' numbers (8 bytes each)
E     an event, JSON: what no reader could know (`TraceEvent`)
Z     the end, JSON: totals (`TraceEnd`)
====  ==========================================================================================

The token stream is what the instrumented program would write, most significant bit first. A
frame follows all that it builds on, so a file cut anywhere can be read up to there. What is there
of a cut chunk is read, too: the first check tells a cut from a damaged length.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from simprof.profiler.profiles.codec import decode, encode, parse_json
from simprof.profiler.profiles.output import discard
from simprof.profiler.profiles.profile import Option
from simprof.profiler.profiles.storage import LONGEST_HEADER, FileFormat
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs, recover
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.simulator.binary.dynamic import load_linked
from simprof.simulator.binary.program import Program
from simprof.simulator.errors import UsageError

FORMAT = FileFormat("trace", version=1, option="run --trace", longest=LONGEST_HEADER)
HEAD, TAIL = 7, 4  # Bytes of a frame before and behind its content
CHECKPOINT_SPAN = 1 << 16  # Crossings between two checkpoints


class TraceEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """Control went where only the run tells: signals, non-local exits, early ends."""

    at: int  # Crossings before it
    bits: int  # Bits of the token stream before it
    block: int  # Block that the activation was in, -1 where no edge to it is open
    crossed: tuple[int, ...]  # Edges crossed meanwhile, for whatever activation, in order
    depth: int  # Activations below the one that goes on
    after: int  # Block in which that goes on, -1 after the end
    waiting: int  # Block in which its caller waits, -1 where no return by the graphs leads there


class TraceEnd(Struct, frozen=True, forbid_unknown_fields=True):
    """Totals of a whole trace."""

    # crossings, digest: Edges crossed, and the digest of their numbers.
    crossings: int
    digest: int
    bits: int  # Of the token stream


class TraceHeader(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a trace is of."""

    # file, sha256, machine, arguments: The program and its arguments.
    file: str
    sha256: str
    machine: str
    arguments: tuple[str, ...]
    mode: str  # "witness" or "bits"
    discoveries: Mapping[str, Any]  # The fields of `recovery.Discoveries`, as lists
    # What shaped its plans, and the digest of its input; unknown in traces of older versions.
    options: Mapping[str, Option] | None = None
    input_sha256: str | None = None


Tokens = Mapping[int, tuple[int, int]]  # Edge -> (value, width) of what crossing it writes


class FrameFile:
    """Writes a file of frames, which is emptied first, behind its first line and its header."""

    # Every method raises UsageError if the file cannot be written.

    _option: str  # That names the file, for messages
    _format: FileFormat
    _buffering = -1

    def __init__(self, path: Path, header: Struct) -> None:
        self._path = path
        text = json.dumps(encode(header), separators=(",", ":"), sort_keys=True)
        try:
            self._file = path.open("wb", buffering=self._buffering)
        except OSError as error:
            raise self._cannot_write(error) from None
        try:
            self._write(self._format.first_line + text.encode() + b"\n")
        except UsageError:
            self.discard()
            raise

    def close(self, end: Struct | None = None) -> None:
        """Write the end, if there is one, and close the file."""
        if end is not None:
            self._frame(b"Z", json.dumps(asdict(end), separators=(",", ":")).encode())
        try:
            self._file.close()
        except OSError as error:
            raise self._cannot_write(error) from None

    def discard(self) -> None:
        """Remove the file: what was to be written down has failed."""
        with suppress(OSError):
            self._file.close()
        discard(self._path)

    def _frame(self, kind: bytes, content: bytes) -> None:
        self._write(frame(kind, content))

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            with suppress(OSError):  # what is buffered cannot be written, either
                self._file.close()
            raise self._cannot_write(error) from None

    def _cannot_write(self, error: OSError) -> UsageError:
        return UsageError(
            f"{self._option} {self._path} cannot be written ({error.strerror}): name another file"
        )


class TraceFile(FrameFile):
    """Writes a trace."""

    _option, _format = "--trace", FORMAT

    def routine(self, number: int, tokens: Tokens) -> None:
        """Write what the edges of routine `number` write."""
        words = [number, *(w for edge, token in tokens.items() for w in (edge, *token))]
        self._frame(b"R", b"".join(word.to_bytes(4, "big") for word in words))

    def chunk(self, crossings: int, stream: bytes) -> None:
        """Write the next bytes of the token stream."""
        self._frame(b"C", crossings.to_bytes(8, "big") + stream)

    def checkpoint(self, crossings: int, digest: int) -> None:
        """Write a checkpoint; `digest` may be signed."""
        self._frame(b"K", crossings.to_bytes(8, "big") + (digest % (1 << 64)).to_bytes(8, "big"))

    def event(self, event: TraceEvent) -> None:
        """Write an event."""
        self._frame(b"E", json.dumps(asdict(event), separators=(",", ":")).encode())


def frame(kind: bytes, content: bytes) -> bytes:
    """Return a frame as it is in a file."""
    head = kind + len(content).to_bytes(4, "big")
    return head + _head_check(head) + content + zlib.crc32(kind + content).to_bytes(4, "big")


def _head_check(head: bytes) -> bytes:
    return (zlib.crc32(head) & 0xFFFF).to_bytes(2, "big")


class Trace(Struct, frozen=True):
    """A trace as far as its file goes."""

    header: TraceHeader  # What it is of
    routines: Mapping[int, Tokens]  # Routine number -> what its edges write
    stream: bytes  # The token stream; of a trace cut short maybe less than its events speak of.
    certain: int  # Crossings that have happened for sure, even if no token tells
    checkpoints: Mapping[int, int]  # Crossings -> digest, unsigned
    events: tuple[TraceEvent, ...]  # In order
    end: TraceEnd | None  # Totals; None where the file was cut.
    cut: str | None  # Why and where the file ends before the trace does; None where it is whole.


def load(path: Path) -> Trace:
    """Read a trace as far as it goes."""
    # Raises UsageError if the file cannot be read, or is cut before its header ends, or is none of
    # this version.
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return parse(data, str(path))


def parse(data: bytes, name: str) -> Trace:
    """Return the trace in the content of a file; `name` is for messages. Raises as `load` does."""
    header, start = read_header(data, name, FORMAT, TraceHeader)
    try:
        return _frames(header, FrameReader(data, start))
    except (ValueError, RecursionError):
        raise UsageError(f"{name} is damaged: record it again") from None


def _frames(header: TraceHeader, reader: FrameReader) -> Trace:
    """Read the frames; raises ValueError where one is not as the module says."""
    routines: dict[int, Tokens] = {}
    stream = bytearray()
    certain = 0
    checkpoints: dict[int, int] = {}
    events: list[TraceEvent] = []
    end: TraceEnd | None = None
    for kind, content in reader.frames():
        match kind:
            case b"R":
                number, *words = _words(content) or [-1]
                routines[number] = {e: (v, w) for e, v, w in zip(*[iter(words)] * 3, strict=True)}
            case b"C":
                stream += content[8:]
                certain = int.from_bytes(content[:8], "big") if reader.whole else certain
            case b"K":
                certain = int.from_bytes(content[:8], "big")
                checkpoints[certain] = int.from_bytes(content[8:], "big")
            case b"E":
                events.append(decode(TraceEvent, parse_json(content), "event"))
                certain = max(certain, events[-1].at)
            case b"Z":
                end = decode(TraceEnd, parse_json(content), "end")
    cut = reader.cut if end is None else None
    return Trace(header, routines, bytes(stream), certain, checkpoints, tuple(events), end, cut)


Header = TypeVar("Header")


def read_header(
    data: bytes, name: str, file_format: FileFormat, kind: type[Header]
) -> tuple[Header, int]:
    """Return the header of a file of frames, and where it ends; `name` is for messages."""
    # Raises UsageError if the file is of another kind or version, or is cut before its header ends.
    start = file_format.check(data, name)
    text, newline, _ = data[start:LONGEST_HEADER].partition(b"\n")
    try:
        header = decode(kind, parse_json(text if newline else b""), "header")
    except (ValueError, RecursionError):
        raise UsageError(f"{name} is cut in its header: record it again") from None
    return header, start + len(text) + 1


def _words(content: bytes) -> list[int]:
    return [int.from_bytes(content[at : at + 4], "big") for at in range(0, len(content), 4)]


class FrameReader:
    """Frames from byte `at` on; `cut` says afterwards where they stopped and why."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self.cut: str | None = None
        self.whole = True

    def frames(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield (kind, content); of a cut chunk what there is, with `whole` False."""
        data = self._data
        while self._at < len(data):
            head = data[self._at : self._at + HEAD - 2]
            start = self._at + HEAD
            size = int.from_bytes(head[1:], "big")
            content = data[start : start + size]
            check = data[start + size : start + size + TAIL]
            if start <= len(data) and data[start - 2 : start] != _head_check(head):
                self.cut = f"the file is damaged at byte {self._at}"
                return
            if start > len(data) or len(check) < TAIL:
                self.cut = f"the file ends within a frame, at byte {len(data)}"
                if head[:1] == b"C" and len(content) > 8:
                    self.whole = False
                    yield head[:1], content
                return
            if int.from_bytes(check, "big") != zlib.crc32(head[:1] + content):
                self.cut = f"the file is damaged at byte {self._at}"
                return
            yield head[:1], content
            self._at = start + size + TAIL
        self.cut = f"the file ends at byte {len(data)}, before the trace does"


_ADDRESSES = 1 << 64
_WORDS = 1 << 32


def discovery_fields(discoveries: Discoveries) -> dict[str, Any]:
    """Return discoveries as JSON has them; modules and re-entries only where there are some."""
    # For all headers that have them: those of traces, recordings and counter files.
    sets: dict[str, frozenset[Any]] = asdict(discoveries)
    known = {name: json.loads(json.dumps(encode(sorted(sets[name])))) for name in sets}
    if not discoveries.modules:
        del known["modules"], known["earlier"]
    if not discoveries.reentries:
        del known["reentries"]
    return known


def read_discoveries(given: Mapping[str, Any]) -> Discoveries:
    """Return the discoveries that `discovery_fields` wrote; what is not there is none."""
    # Raises ValueError if they are nothing of the kind.
    found = decode(Discoveries, given, "discoveries")
    pairs = (*found.indirect_targets, *found.late_words)
    addresses = {*found.entries, *found.returning_calls, *found.reentries}
    addresses |= {each for pair in pairs for each in pair}
    if any(not 0 <= address < _ADDRESSES for address in addresses):
        raise ValueError("an address beyond all memory")
    if any(word >= _WORDS for _, word in found.late_words):
        raise ValueError("a word of more than 32 bits")
    return found


def graphs_again(
    saved: str,  # The saved file, for messages
    program: Path | Program,  # What it is of, or where that was
    sha256: str,  # Of that program, then
    discoveries: Mapping[str, Any],  # What its graphs rested on, as `discovery_fields` wrote it
    recover: Callable[[Program, Discoveries], ProgramGraphs] = recover,
) -> ProgramGraphs:
    """Return the graphs of the program that a trace, a counter file or a profile is of, as they
    were.
    """
    # Raises UsageError or ProfileMismatchError if the program is not there, or is another one now;
    # UsageError if the discoveries are none.
    path = program if isinstance(program, Path) else program.path
    if not path.is_file():
        raise UsageError(f"{saved} is of {path}, which is not there: name it with --program")
    try:
        known = read_discoveries(discoveries)
    except ValueError as error:
        raise UsageError(f"{saved} is damaged in its discoveries ({error})") from None
    if isinstance(program, Path) or known.modules:
        program = load_linked(path, known.modules, known.earlier)
    if program.sha256 != sha256:
        raise ProfileMismatchError(
            f"{saved} is of another program than {path} is now: name that with --program"
        )
    return recover(program, known)


_MOST = 1 << 62  # Crossings, and bits, that no trace has
_WIDEST = 32  # Bits of a token


def check_numbers(trace: Trace, recovered: ProgramGraphs) -> None:
    """Check that routines, edges and blocks are there, and that counts can be counted."""
    # Native code takes the numbers of a trace as they are. Raises ValueError: naming what is not.
    for number, tokens in trace.routines.items():
        if not 0 <= number < len(recovered.routines):
            raise ValueError(f"there is no routine {number}")
        edges = len(recovered.routines[number].edges)
        for edge, (value, width) in tokens.items():
            if edge >= edges or width > _WIDEST or value >> width:
                raise ValueError(f"edge {edge} cannot write {value} in {width} bits")
    counts = [trace.certain, *trace.checkpoints]
    if trace.end is not None:
        counts += [trace.end.crossings, trace.end.bits]
    check_counts(counts)
    if trace.events:
        edges = int(recovered.arrays.first_edge[-1])
        for event in trace.events:
            _check_event(event, recovered.block_count, edges)


def _check_event(event: TraceEvent, blocks: int, edges: int) -> None:
    check_counts((event.at, event.bits))
    if not all(-1 <= block < blocks for block in (event.block, event.after, event.waiting)):
        raise ValueError("an event names a block that is not there")
    if not all(0 <= edge < edges for edge in event.crossed):
        raise ValueError("an event names an edge that is not there")
    # Each activation begins with an edge that it crosses.
    if not 0 <= event.depth <= event.at + len(event.crossed) + 1:
        raise ValueError(f"{event.depth} activations after {event.at} edges")


def check_counts(counts: Iterable[int]) -> None:
    """Check that counts can be counted; raises ValueError."""
    if not all(0 <= count < _MOST for count in counts):
        raise ValueError("a count beyond all counting")
