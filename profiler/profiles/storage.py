"""Profile files: a `RunMeasurement` on disk.

A file is one line of text, ``simprof-profile VERSION``, followed by gzip'd JSON: the fields of
`RunMeasurement` by name (`tail -n +2 FILE | zcat` shows them). The same measurement always gives
the same bytes. gzip's checksum covers the content.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

from msgspec import Struct

from simprof.profiler.graphs.cfg import ENTRY, EXIT
from simprof.profiler.profiles.codec import big_integers, decode, encode, parse_json
from simprof.profiler.profiles.output import write_atomically
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.simulator.errors import UsageError

# Bytes within which the header of a trace, a recording or a counter file must end.
LONGEST_HEADER = 1 << 26
_SHOWN = 20  # bytes of a version in a message


class FileFormat(Struct, frozen=True):
    """A format of files whose first line is ``simprof-KIND VERSION``."""

    kind: str  # What such a file is: "profile", "trace".
    version: int  # The version that this simprof writes and reads
    option: str  # The command that writes such files, for messages: "run -o".
    longest: int  # Bytes at the start of a file within which the line must end

    @property
    def magic(self) -> bytes:
        """The line up to the version."""
        return f"simprof-{self.kind} ".encode()

    @property
    def first_line(self) -> bytes:
        """The whole line, with its end."""
        return self.magic + f"{self.version}\n".encode()

    def check(self, data: bytes, name: str) -> int:
        """Check the first line of a file; return its length in bytes, its end included.

        Raises UsageError if the file is of another kind or version; `name` is for messages.
        """
        line, newline, _ = data[: self.longest].partition(b"\n")
        if not line.startswith(self.magic) or not newline:
            raise UsageError(
                f"{name} is not a simprof {self.kind}: give a file that `{self.option}` wrote"
            )
        version = line[len(self.magic) :][:_SHOWN].decode("ascii", "replace")
        if version != str(self.version):
            raise UsageError(
                f"{name} is a {self.kind} of version {version}, this simprof reads version "
                f"{self.version}: record it again"
            )
        return len(line) + 1


FORMAT = FileFormat("profile", version=5, option="run -o", longest=64)
MAGIC = FORMAT.magic
# Bytes of JSON for each byte of a file, and besides: a hostile one must not fill the memory. Saved
# profiles have ten or twenty.
LARGEST_RATIO, ROOM = 200, 16 << 20
# Of what is executed: shares of it, and products with lengths, are finite then.
GREATEST_COUNT = 10**200
# Instructions of a routine, each of which may get a count of its own: 16 MB of code.
LARGEST_ROUTINE = 1 << 22


def save(measurement: RunMeasurement, path: Path) -> None:
    """Write `measurement` to `path`, whole or not at all; UsageError if that is impossible."""
    write_atomically(path, to_bytes(measurement))


def load(path: Path) -> RunMeasurement:
    """Read the measurement saved in `path`.

    Raises UsageError if the file cannot be read, is no profile, is damaged, or has another version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return from_bytes(data, str(path))


def validate(measurement: RunMeasurement) -> None:
    """Check that a measurement, saved and loaded, is the same.

    Raises AssertionError naming the first field that changes, or saying why it cannot be loaded.
    """
    try:
        loaded = from_bytes(to_bytes(measurement), "saved and loaded, it")
    except UsageError as error:
        raise AssertionError(str(error)) from error
    for name in measurement.__struct_fields__:
        same = getattr(measurement, name) == getattr(loaded, name)
        assert same, f"saved and loaded, its `{name}` is another"


def to_bytes(measurement: RunMeasurement) -> bytes:
    """Return the content of a profile file."""
    with big_integers():
        text = json.dumps(encode(measurement), separators=(",", ":"))
    return FORMAT.first_line + gzip.compress(text.encode(), compresslevel=6, mtime=0)


def from_bytes(data: bytes, name: str) -> RunMeasurement:
    """Return the measurement in the content of a profile file; `name` is for messages.

    Raises UsageError as `load` does.
    """
    body = data[FORMAT.check(data, name) :]
    try:
        with big_integers():
            content = parse_json(decompress(body))
            measurement = decode(RunMeasurement, content)
            _check_positions(measurement)
            return measurement
    except (ValueError, TypeError, zlib.error, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{name} is a damaged profile ({reason}): record it again") from error


def _check_positions(measurement: RunMeasurement) -> None:
    """Raise ValueError if something refers to what is not there, or a count is negative."""
    for routine in measurement.routines:
        edges, blocks = len(routine.edge_counts), len(routine.block_counts)
        if any(not 0 <= edge < edges for path in routine.path_counts for edge in path.edges):
            raise ValueError(f"a path of {routine.name} has an edge that it lacks")
        if any(not 0 <= cut.block < blocks for cut in routine.cut_blocks):
            raise ValueError(f"{routine.name} lacks a block that was cut short")
        ends = {ENTRY, EXIT, *(block.name for block in routine.block_counts)}
        if any(not ends.issuperset((edge.source, edge.target)) for edge in routine.edge_counts):
            raise ValueError(f"an edge of {routine.name} is between blocks that it lacks")
        lengths = [block.instructions for block in routine.block_counts]
        if min(lengths, default=0) < 0 or sum(lengths) > LARGEST_ROUTINE:
            raise ValueError(f"{routine.name} has blocks of impossible lengths")
        counts = [routine.activations, routine.added, routine.instructions]
        counts += (n for path in routine.path_counts for n in (path.count, path.instructions))
        counts += (n for cut in routine.cut_blocks for n in (cut.executed, abs(cut.count)))
        counts += (n for edge in routine.edge_counts for n in (edge.count, edge.added))
        counts += (n for block in routine.block_counts for n in (block.count, block.added))
        if min(counts) < 0:
            raise ValueError(f"a count of {routine.name} is negative")
        if max(counts) > GREATEST_COUNT:
            raise ValueError(f"a count of {routine.name} is larger than 10^200")
    of_run = (measurement.base, measurement.added, *measurement.counts.values())
    if max(map(abs, (*of_run, *measurement.sizes.values()))) > GREATEST_COUNT:
        raise ValueError("a count of the run is larger than 10^200")


def decompress(body: bytes) -> bytes:
    """Unpack gzip'd `body`, which must be one whole member and nothing else."""
    unpacker = zlib.decompressobj(wbits=31)
    most = LARGEST_RATIO * len(body) + ROOM
    content = unpacker.decompress(body, most)
    if not unpacker.eof:
        raise ValueError("it inflates to too much" if len(content) == most else "it is cut short")
    if unpacker.unused_data:
        raise ValueError("there is something after its end")
    return content
