"""The first line of simprof's binary files: what kind of file it is, and of which version."""

from __future__ import annotations

from dataclasses import dataclass

from simprof.simulator.errors import UsageError

LONGEST_HEADER = 1 << 26
"""Bytes within which the header of a trace, a recording or a counter file must end."""
_SHOWN = 20  # bytes of a version in a message


@dataclass(frozen=True)
class FileFormat:
    """A format of files whose first line is ``simprof-KIND VERSION``.

    Attributes
    ----------
    kind
        What such a file is: "profile", "trace".
    version
        The version that this simprof writes and reads.
    option
        The command that writes such files, for messages: "run -o".
    longest
        Bytes at the start of a file within which the line must end.
    """

    kind: str
    version: int
    option: str
    longest: int

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

        Parameters
        ----------
        data
            The file's content.
        name
            The file, for messages.

        Raises
        ------
        UsageError
            If the file is of another kind or version.
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
