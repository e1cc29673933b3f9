"""What an export is made of: a measurement, and the program that it is of.

The program is read when a format first asks for it: most of what a profile says needs no program.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from profiler.profiles.profile import Measurement
from profiler.recovery.recovery import RecoveredProgram, recover
from profiler.request.errors import ProfileMismatchError
from simulator.binary import elf
from simulator.binary.program import Program
from simulator.errors import UsageError


class ExportSource:
    """A measurement and its program.

    Parameters
    ----------
    measurement
        What was measured.
    name
        What messages call the profile: the name of its file.
    program_file
        The program's file; None: the one that the profile names.
    table
        Which table to write, in formats that hold one; None: the format's first.
    """

    def __init__(
        self,
        measurement: Measurement,
        name: str = "the profile",
        program_file: Path | None = None,
        table: str | None = None,
    ) -> None:
        self.measurement = measurement
        self.name = name
        self.table = table
        self._program_file = program_file

    @cached_property
    def program(self) -> Program:
        """The program.

        Raises
        ------
        UsageError, ProfileMismatchError
            If it is not there, or is another one now.
        """
        known = self.measurement.program
        path = Path(known.file) if self._program_file is None else self._program_file
        if not path.is_file():
            raise UsageError(
                f"{self.name} is of {path}, which is not there: name the program with --program"
            )
        program = elf.load(path)
        if program.sha256 != known.sha256:
            raise ProfileMismatchError(
                f"{self.name} is of another program than {path} is now: name that with --program"
            )
        return program

    @cached_property
    def recovered(self) -> RecoveredProgram:
        """The program's graphs, as its code alone tells them."""
        return recover(self.program)
