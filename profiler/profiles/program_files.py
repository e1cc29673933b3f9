"""Files that a profile refers to: the program, and its sources, which may have moved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.profiles.calls import CalledRoutine
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.simulator.binary.dynamic import load_linked
from simprof.simulator.binary.program import Program, Range
from simprof.simulator.errors import SimulatorError, UsageError

Routine = TypeVar("Routine", RoutineProfile, CalledRoutine)

LARGEST_SOURCE = 64 << 20  # Bytes of a source file; a larger one is not read


class FoundProgram(Struct, frozen=True):
    """The program of a profile; where its file is not found `note` says why."""

    program: Program | None
    note: str | None = None
    # Address -> name of functions, where the user named a file that has symbols which this has not
    names: Mapping[int, str] = MappingProxyType({})

    def named(self, measurement: RunMeasurement) -> RunMeasurement:
        """Return the measurement with names for routines that had none of their own."""
        if not self.names:
            return measurement
        tree = measurement.call_tree
        if tree is not None:
            tree = replace(tree, routines=tuple(map(self._named, tree.routines)))
        routines = tuple(map(self._named, measurement.routines))
        return replace(measurement, routines=routines, call_tree=tree)

    def _named(self, routine: Routine) -> Routine:
        return replace(routine, name=self.names.get(routine.address, routine.name))


def find_program(
    measurement: RunMeasurement,
    # Where the user says that the program is; None: where it was when it ran, seen from here or
    # from the directory of the profile's file.
    given: Path | None = None,
    profile: Path | None = None,
) -> FoundProgram:
    """Look for the program that a profile is of.

    The user may also name one with the same code, such as that before it was stripped, which then
    says what the lines are, and how routines are called. Raises UsageError if it is another
    program, SimulatorError if that file is no SPARC program, or cannot be read.
    """
    name = measurement.program.file
    if given is not None:
        program = load_linked(given, measurement.program.modules)
        if program.sha256 == measurement.program.sha256:
            return FoundProgram(program)
        ran = find_program(measurement, None, profile).program
        if ran is not None and _has_same_code(ran, program):
            # Its lines and names alone: with its symbols, routines would not be the profile's.
            debug = program.debug_file or program.path
            known = {each.address for each in ran.symbols}
            names = {
                each.address: each.name
                for each in program.symbols
                if each.is_function and each.address not in known
            }
            found = replace(ran, lines=program.lines, debug_file=debug)
            return FoundProgram(found, names=names)
        raise UsageError(
            f"{given} is another program than the profile is of, {name}: name that, or one with "
            "the same code beside it"
        )
    places = [Path(name)] if profile is None else [Path(name), profile.parent / Path(name).name]
    note = f"{name} is not there: say where it is by --program FILE"
    for place in places:
        if not place.is_file():
            continue
        try:
            program = load_linked(place, measurement.program.modules)
        except SimulatorError as error:
            note = f"{place}: {error}"
            continue
        if program.sha256 == measurement.program.sha256:
            return FoundProgram(program)
        note = f"{place} has changed since it ran: say where the program is by --program FILE"
    return FoundProgram(None, note)


def _has_same_code(ran: Program, other: Program) -> bool:
    """Whether two files differ in what is not executed: one was stripped, as a rule."""
    return ran.code == other.code and all(
        _bytes(ran, span) == _bytes(other, span) for span in ran.code
    )


def _bytes(program: Program, span: Range) -> bytes:
    for each in program.segments:
        if each.address <= span.start < each.address + each.memory_size:
            return each.data[span.start - each.address : span.end - each.address]
    return b""


class SourceFiles(Struct, frozen=True):
    """Reads source files, those that have moved from where they are now."""

    # (directory when the program was compiled, directory now); the first that fits is used. Like
    # GDB's `set substitute-path`, it replaces whole components of a path.
    moved: tuple[tuple[str, str], ...] = ()

    def place(self, file: str) -> Path:
        """Return where a source file is now."""
        for before, now in self.moved:
            if _is_below(file, before):
                return Path(now + file[len(before.rstrip("/")) :])
        return Path(file)

    def unused(self, files: Collection[str]) -> list[str]:
        """Say of each directory that no source file of `files`, all that there are, is below."""
        if not files:
            return []
        example = min(files, key=lambda file: (len(file), file))
        return [
            f"--source-dir {before}={now}: no source path of the program begins with {before}; "
            f"one is {example}"
            for before, now in self.moved
            if not any(_is_below(file, before) for file in files)
        ]

    def text(self, file: str) -> Sequence[str] | None:
        """Return the lines of a source file, None where it cannot be read."""
        return _text(self.place(file))


def _is_below(file: str, directory: str) -> bool:
    start = directory.rstrip("/")
    return file == start or file.startswith(f"{start}/")


@cache
def _text(path: Path) -> Sequence[str] | None:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_SOURCE:
            return None
        content = path.read_bytes()
    except (OSError, ValueError):
        return None
    lines = content.decode(errors="backslashreplace").split("\n")
    # What ends the last line begins none.
    return tuple(line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1]))
