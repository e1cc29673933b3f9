"""What an export is made of: a measurement, and the program that it is of.

The program is read when a format first asks for it: most of what a profile says needs no program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.program_files import SourceFiles, find_program
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.simulator.binary.program import Program
from simprof.simulator.errors import UsageError


class ExportSource:
    """A measurement and its program.

    - `profile`: The profile's file, as messages call it too; None: there is none.
    - `elf`: The program's file; None: the one that the profile names.
    - `table`: Which table to write, in formats that hold one; None: the format's first.
    - `sources`: Where source files are now; None: where they were.
    - `told`: Who is told how many routines are recovered, and of how many, if anybody.
    """

    def __init__(
        self,
        measurement: RunMeasurement,
        profile: Path | None = None,
        elf: Path | None = None,
        table: str | None = None,
        sources: SourceFiles | None = None,
        told: Callable[[int, int], None] | None = None,
    ) -> None:
        self.measurement = measurement
        self.profile = profile
        self.table = table
        self._elf = elf
        self._told = told
        self._sources = SourceFiles() if sources is None else sources
        self._placed: set[str] = set()

    @property
    def name(self) -> str:
        """What messages call the profile."""
        return "the profile" if self.profile is None else str(self.profile)

    @cached_property
    def program(self) -> Program:
        """The program; UsageError if it is not there, or is another one now."""
        found = find_program(self.measurement, self._elf, self.profile)
        if found.program is None:
            raise UsageError(f"{self.name}: {found.note}")
        return found.program

    @cached_property
    def recovered(self) -> ProgramGraphs:
        """The program's graphs, as its code alone tells them."""
        return recover(self.program, told=self._told)

    def place(self, file: str) -> str:
        """Return where a source file is now."""
        self._placed.add(file)
        return str(self._sources.place(file))

    @property
    def unused_directories(self) -> list[str]:
        """What is to be said of directories of sources that no file was below."""
        return self._sources.unused(self._placed)
