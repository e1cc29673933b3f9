"""Recordings: what `simprof record` writes and `--replay` reads.

A file is a line ``simprof-recording VERSION``, a line of JSON (`RecordingHeader`), and frames as
traces have them (`trace.format`), each with its check:

====  ==========================================================================================
kind  content, compressed with zstandard
====  ==========================================================================================
P     a piece: what the run did from one full buffer to the next (`engine.recording`)
Z     the end, JSON: what is known of the whole run (`RecordingEnd`)
====  ==========================================================================================

A piece is a sequence of numbers of 4 bytes, the lowest first, and bytes behind them. The numbers
are: how many routines are met for the first time, how many numbers describe stretches that are,
and how many routines have a stream; then for each of the first the routine and 8 bytes of a digest
of its graph; for each stretch its routine, what it does, its block + 1, how many edges it has, and
these; for each stream its routine and where its bytes end (`recording_kernel.pack`).

Every frame follows all that it builds on, and is handed to the operating system when it is whole.
A file that was cut has all pieces up to there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from simprof.profiler.engine.recording import RecordedPiece, RecordedStretch
from simprof.profiler.profiles.codec import decode, parse_json
from simprof.profiler.profiles.storage import LONGEST_HEADER, FileFormat
from simprof.profiler.trace.format import (
    FrameFile,
    FrameReader,
    read_header,
)
from simprof.simulator.errors import UsageError
from simprof.simulator.values import dataclass

FORMAT = FileFormat("recording", version=3, option="simprof record", longest=LONGEST_HEADER)
LARGEST_FRAME = 1 << 28  # Bytes of a frame's content, unpacked
LEVEL = 6  # Of compression: higher ones take longer and save little
_WORD = np.dtype("<u4")
_HEAD_WORDS = 3


@dataclass(frozen=True)
class RecordedGuest:
    """What decides a run beside the program, its arguments and its budgets."""

    # What it finds in directories is not there.

    # name, file, environment: As the program sees them, in hexadecimal: argv[0], the path of its
    # file, its environment.
    name: str
    file: str
    environment: tuple[str, ...]
    # SHA-256 of the file that it reads; "": simprof's own input, or something that is no file.
    stdin: str
    memory_limit: int
    stack_size: int
    strict: bool

    def __post_init__(self) -> None:
        """Check that the strings are bytes: ValueError if they are not."""
        for text in (self.name, self.file, *self.environment):
            bytes.fromhex(text)


@dataclass(frozen=True)
class RecordingHeader:
    """What a recording is of."""

    # file, sha256, machine: The program.
    file: str
    sha256: str
    machine: str
    arguments: tuple[str, ...]  # Its arguments, in hexadecimal
    simprof: str  # The version of simprof that made it
    discoveries: Mapping[str, Any]  # The fields of `recovery.Discoveries`, as lists
    # max_instructions, timeout: The budgets of the run.
    max_instructions: int | None
    timeout: float | None
    guest: RecordedGuest

    def __post_init__(self) -> None:
        """Check that the arguments are bytes: ValueError if they are not."""
        for argument in self.arguments:
            bytes.fromhex(argument)


@dataclass(frozen=True)
class RecordingEnd:
    """What is known of a whole run."""

    result: Mapping[str, Any]  # The fields of `RunResult`
    edges: Sequence[tuple[int, Sequence[int]]]  # (routine, edge counts) of those that were entered
    early: Sequence[tuple[int, int, int]]  # (routine, block, count) of activations that ended early
    unattributed: Sequence[int]  # What no graph has (`execution.Unattributed`)
    # (address, reason) of code that was executed though recovery refused to follow it
    irregular: Sequence[tuple[int, str]]
    output: str  # SHA-256 of what the program wrote to standard output
    # (routine, block, instructions executed, count) of executions of blocks that did not come to
    # their end
    cut: Sequence[tuple[int, int, int, int]] = ()


# A piece behind what it says of graphs: routine that it is the first to have -> digest.
FilePiece = tuple[Mapping[int, bytes], RecordedPiece]


class RecordingFile(FrameFile):
    """Writes a recording."""

    _option, _format = "-o", FORMAT
    _buffering = 0  # each frame is handed to the operating system when it is whole

    def __init__(self, path: Path, header: RecordingHeader) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        super().__init__(path, header)

    def piece(self, digests: Mapping[int, bytes], piece: RecordedPiece) -> None:
        """Write a piece."""
        head: list[int] = []
        for routine, digest in digests.items():
            head += (routine, *np.frombuffer(digest, _WORD).tolist())
        described: list[int] = []
        for stretch in piece.stretches:
            described += (stretch.routine, stretch.does, stretch.block + 1, len(stretch.edges))
            described += stretch.edges
        counts = [len(digests), len(described), len(piece.routines)]
        streams = np.stack([piece.routines, piece.ends], axis=1)
        words = np.concatenate([counts, head, described, streams.ravel()])
        self._frame(b"P", words.astype(_WORD).tobytes() + piece.data)

    def _frame(self, kind: bytes, content: bytes) -> None:
        super()._frame(kind, self._compressor.compress(content))


class Recording:
    """A recording as far as its file goes: what it is of, and what is known of the whole run."""

    # `end` is None where the file was cut, and `cut` says why and where.
    # Raises UsageError if the file cannot be read, or is no recording of this version.

    def __init__(self, path: Path) -> None:
        self._name = str(path)
        try:
            self._data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        self.header, start = read_header(self._data, self._name, FORMAT, RecordingHeader)
        reader = FrameReader(self._data, start)
        frames = list(reader.frames())
        self._decompressor = zstandard.ZstdDecompressor()
        self._pieces = [content for kind, content in frames if kind == b"P"]
        ends = [content for kind, content in frames if kind == b"Z"]
        self.end = self._read_end(ends[0]) if ends else None
        self.cut = None if ends else reader.cut

    def _read_end(self, content: bytes) -> RecordingEnd:
        try:
            return decode(RecordingEnd, parse_json(self._plain(content)), "end")
        except (ValueError, RecursionError, zstandard.ZstdError):
            raise self._damaged() from None

    def pieces(self) -> Iterator[FilePiece]:
        """Yield the pieces."""
        # Raises UsageError if one cannot be what `RecordingFile` writes.
        for content in self._pieces:
            try:
                yield _piece(self._plain(content))
            except (ValueError, IndexError, zstandard.ZstdError):
                raise self._damaged() from None

    def _plain(self, content: bytes) -> bytes:
        """Return a frame's content, unpacked; raises ValueError where it says to be too large."""
        size = zstandard.frame_content_size(content)
        if not 0 <= size <= LARGEST_FRAME:
            raise ValueError(f"a frame of {size} bytes")
        return self._decompressor.decompress(content)

    def _damaged(self) -> UsageError:
        return UsageError(f"{self._name} is damaged: record it again")


def _piece(content: bytes) -> FilePiece:
    """Return the piece that a frame's plain content is."""
    words = np.frombuffer(content, _WORD, len(content) // _WORD.itemsize)
    new, described, streamed = words[:_HEAD_WORDS].tolist()
    at = _HEAD_WORDS
    heads = words[at : at + 3 * new].reshape(-1, 3)
    digests = {int(row[0]): row[1:].tobytes() for row in heads}
    at += 3 * new
    stretches = _stretches(words[at : at + described].tolist())
    at += described
    streams = words[at : at + 2 * streamed].reshape(-1, 2).astype(np.int64)
    data = content[_WORD.itemsize * (at + 2 * streamed) :]
    piece = RecordedPiece(stretches, streams[:, 0], streams[:, 1], data)
    return digests, piece


def _stretches(words: list[int]) -> list[RecordedStretch]:
    stretches = []
    at = 0
    while at < len(words):
        routine, does, block, size = words[at : at + 4]
        at += 4
        stretches.append(RecordedStretch(routine, tuple(words[at : at + size]), does, block - 1))
        at += size
    return stretches
