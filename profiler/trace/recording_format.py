"""Recordings: what `simprof record` writes and `--replay` reads.

A file is a line ``simprof-recording VERSION``, a line of JSON (`RecordingHeader`), and frames as
traces have them (`trace.format`), each with its check:

====  ==========================================================================================
kind  content, compressed with zstandard
====  ==========================================================================================
C     the next bytes of the log of system calls and their answers (`outside.CallLog`)
Z     the end, JSON: how the run ended (`RecordingEnd`)
====  ==========================================================================================

A recording without its end is refused: a run needs all answers.
"""

from __future__ import annotations

from pathlib import Path

import zstandard
from msgspec import Struct

from simprof.profiler.profiles.codec import decode, parse_json
from simprof.profiler.profiles.storage import LONGEST_HEADER, FileFormat
from simprof.profiler.request.request import LARGEST_STACK_SIZE
from simprof.profiler.trace.format import FrameFile, FrameReader, check_counts, read_header
from simprof.simulator.errors import UsageError
from simprof.simulator.linux.outside import PIECE, CallLog
from simprof.simulator.machine.running import Reason

FORMAT = FileFormat("recording", version=4, option="simprof record", longest=LONGEST_HEADER)
LEVEL = 6  # Of compression: higher ones take longer and save little


class RecordedGuest(Struct, frozen=True, forbid_unknown_fields=True):
    """What decides a run beside the program, its arguments and what the outside answers."""

    # name, file, shown, environment: As the program sees them, in hexadecimal: argv[0], the path of
    # its file, the same in the auxiliary vector, its environment.
    name: str
    file: str
    shown: str
    environment: tuple[str, ...]
    # SHA-256 of the file that it reads; "": simprof's own input, or something that is no file.
    stdin: str
    sysroot: str | None  # Where its libraries are; None: in the usual place.
    max_instructions: int | None
    timeout: float | None
    memory_limit: int
    stack_size: int
    heap_start: int | None
    strict: bool
    thread_seed: int

    def __post_init__(self) -> None:
        """Check that the strings are bytes, and the limits some: ValueError if they are not."""
        for text in (self.name, self.file, self.shown, *self.environment):
            bytes.fromhex(text)
        limits = self.max_instructions, self.memory_limit, self.stack_size, self.heap_start
        check_counts(filter(None, (*limits, self.thread_seed)))
        if self.stack_size > LARGEST_STACK_SIZE:
            raise ValueError(f"a stack of {self.stack_size} bytes")


class RecordingHeader(Struct, frozen=True, forbid_unknown_fields=True):
    """What a recording is of."""

    # file, sha256, machine: The program.
    file: str
    sha256: str
    machine: str
    arguments: tuple[str, ...]  # Its arguments, in hexadecimal
    simprof: str  # The version of simprof that made it
    guest: RecordedGuest

    def __post_init__(self) -> None:
        """Check that the arguments are bytes: ValueError if they are not."""
        for argument in self.arguments:
            bytes.fromhex(argument)


class RecordingEnd(Struct, frozen=True, forbid_unknown_fields=True):
    """How a recorded run ended."""

    # calls, digest: How many calls the log has, and the digest of its bytes, in hexadecimal.
    calls: int
    digest: str
    # status, reason, signal, instructions: As in `RunResult`.
    status: int
    reason: Reason
    signal: int | None
    instructions: int
    output: str  # SHA-256 of what the program wrote to standard output
    modules: tuple[tuple[str, str], ...]  # (file, SHA-256) of what it loaded: libraries

    def __post_init__(self) -> None:
        """Check what is counted: ValueError if it cannot be."""
        check_counts((self.calls, self.instructions))


class RecordingFile(FrameFile):
    """Writes a recording."""

    _option, _format = "-o", FORMAT
    _buffering = 0  # a run that is killed leaves a file that says what it is

    def __init__(self, path: Path, header: RecordingHeader) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        super().__init__(path, header)

    def log(self, log: CallLog) -> None:
        """Write the log of a run; raises as `CallLog.check`."""
        for piece in log.pieces():
            self._frame(b"C", piece)

    def _frame(self, kind: bytes, content: bytes) -> None:
        super()._frame(kind, self._compressor.compress(content))


class Recording:
    """A recording: what it is of, how its run ended, and the answers that the run had."""

    # Raises UsageError if the file cannot be read, is cut or damaged, or no recording of this
    # version.

    def __init__(self, path: Path) -> None:
        self._name = str(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        self.header, start = read_header(data, self._name, FORMAT, RecordingHeader)
        reader = FrameReader(data, start)
        frames = list(reader.frames())
        if not frames or frames[-1][0] != b"Z":
            raise UsageError(f"{path}: {reader.cut}: record it again")
        self._pieces = [content for _, content in frames[:-1]]
        try:
            self.end = decode(RecordingEnd, parse_json(_plain(frames[-1][1])), "end")
        except (ValueError, RecursionError, zstandard.ZstdError):
            raise self._damaged() from None

    def log(self) -> CallLog:
        """Return the log of the run; raises UsageError if it is not the one that was written."""
        log = CallLog(limit=None)
        try:
            for piece in self._pieces:
                log.extend(_plain(piece), 0)
        except (ValueError, zstandard.ZstdError):
            raise self._damaged() from None
        log.extend(b"", self.end.calls)
        if log.digest.hex() != self.end.digest:
            raise self._damaged()
        return log

    def _damaged(self) -> UsageError:
        return UsageError(f"{self._name} is damaged: record it again")


def _plain(content: bytes) -> bytes:
    """Return a frame's content, unpacked; raises ValueError where it says to be too large."""
    size = zstandard.frame_content_size(content)
    if not 0 <= size <= PIECE:
        raise ValueError(f"a frame of {size} bytes")
    return zstandard.ZstdDecompressor().decompress(content)
