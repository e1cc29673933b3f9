"""The formats of `simprof export`: one entry each, the function that writes it, what it reads.

A new format is a module with a function `ExportSource -> bytes`, and an entry here. Modules are
imported when their format is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.profiles import tables
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.program_files import SourceFiles, find_program
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.listings import RowChoice
from simprof.profiler.request.likeness import unknown
from simprof.simulator.binary.program import Program
from simprof.simulator.errors import UsageError


# The program is read when a format first asks for it: most of what a profile says needs none.
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
        self.profile = profile
        self.table = table
        self._found = None if elf is None else find_program(measurement, elf, profile)
        self.measurement = measurement if self._found is None else self._found.named(measurement)
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
        found = self._found or find_program(self.measurement, None, self.profile)
        if found.program is None:
            raise UsageError(f"{self.name}: {found.note}")
        return found.program

    @cached_property
    def recovered(self) -> ProgramGraphs:
        """The program's graphs, as its code alone tells them."""
        return recover(self.program, told=self._told)

    @property
    def names(self) -> Mapping[int, str]:
        """Address -> name of functions that the program's own file does not name."""
        return {} if self._found is None else self._found.names

    def place(self, file: str) -> str:
        """Return where a source file is now."""
        self._placed.add(file)
        return str(self._sources.place(file))

    @property
    def unused_directories(self) -> list[str]:
        """What is to be said of directories of sources that no file was below."""
        return self._sources.unused(self._placed)


Writer = Callable[[ExportSource], bytes]


class FormatNeed(StrEnum):
    """What a format needs besides counts of edges, which every profile has."""

    PROGRAM = "the program's file"
    LINES = "line information of the program (compiled with -g)"
    CALLS = "a call tree (`simprof run --call-tree`)"


class ExportFormat(Struct, frozen=True):
    """One format."""

    name: str  # As `--format` takes it
    summary: str  # What a file holds, and what opens it, in one line
    place: str  # The function that writes it, "module:function" within this package
    needs: frozenset[FormatNeed] = frozenset()  # What it needs besides the profile
    # The names of the tables of which a file holds one; the first where none is asked for.
    tables: tuple[str, ...] = ()
    # Whether it has counts by address, beside which it names source lines where they are known
    by_address: bool = False
    # Whether a file of some routines says nothing of the others. Coverage would call them
    # unexecuted, and call trees and totals have them in them.
    by_routine: bool = False
    ending: str = ""  # How the names of files must end for their reader to find them

    @property
    def writer(self) -> Writer:
        """The function that writes it."""
        writer: Writer = _function(self.place)
        return writer


def _function(place: str) -> Any:
    module, _, function = place.partition(":")
    return getattr(import_module(f"simprof.profiler.exports.{module}"), function)


_COVERAGE = frozenset({FormatNeed.PROGRAM, FormatNeed.LINES})
_ENTRIES = (
    ExportFormat(
        "cobertura",
        "coverage of lines, branches and functions as XML, for CI servers",
        "coverage_formats:write_cobertura",
        needs=_COVERAGE,
    ),
    ExportFormat(
        "callgrind",
        "instructions, source lines, branches and calls, for callgrind_annotate and KCachegrind",
        "callgrind:write",
        frozenset({FormatNeed.PROGRAM}),
        by_address=True,
    ),
    ExportFormat(
        "collapsed",
        "folded stacks with the program's instructions, for flamegraph.pl; from a call tree",
        "stacks:write_base",
        frozenset({FormatNeed.CALLS}),
    ),
    ExportFormat(
        "collapsed_added",
        "folded stacks with the instructions that the scheme added; from a call tree",
        "stacks:write_added",
        frozenset({FormatNeed.CALLS}),
    ),
    ExportFormat(
        "pprof",
        "stacks with addresses and lines, for `go tool pprof`; from a call tree",
        "stacks:write_pprof",
        frozenset({FormatNeed.PROGRAM, FormatNeed.CALLS}),
        by_address=True,
    ),
    ExportFormat(
        "speedscope",
        "stacks for https://www.speedscope.app; from a call tree",
        "stacks:write_speedscope",
        frozenset({FormatNeed.CALLS}),
    ),
    ExportFormat(
        "csv",
        "one table of counts (--table), for spreadsheets and pandas",
        "tables:write_csv",
        by_routine=True,
        tables=tables.NAMES,
    ),
    ExportFormat(
        "dot",
        "graphs of the routines that ran, with counts on edges, for Graphviz",
        "graphs:write_dot",
        by_routine=True,
    ),
    ExportFormat(
        "gcov",
        "coverage in the JSON of `gcov --json-format`, for gcovr",
        "coverage_formats:write_gcov",
        needs=_COVERAGE,
        ending=".gcov.json.gz",
    ),
    ExportFormat(
        "graphml",
        "graphs of the routines that ran, with counts, for networkx, yEd, Gephi",
        "graphs:write_graphml",
        by_routine=True,
    ),
    ExportFormat(
        "lcov",
        "coverage of lines, branches and functions, for genhtml and editors",
        "coverage_formats:write_lcov",
        needs=_COVERAGE,
    ),
    ExportFormat(
        "parquet",
        "one table of counts (--table), for pandas, DuckDB, Spark; needs simprof[parquet]",
        "tables:write_parquet",
        by_routine=True,
        tables=tables.NAMES,
    ),
    ExportFormat(
        "tsim",
        "words executed, branches taken and not, as TSIM writes it, for RTEMS's covoar",
        "coverage_formats:write_tsim",
    ),
)
FORMATS: Mapping[str, ExportFormat] = MappingProxyType({each.name: each for each in _ENTRIES})


def find(name: str) -> ExportFormat:
    """Return a format by its name; UsageError if there is none."""
    if name not in FORMATS:
        raise UsageError(
            f"unknown export format {name!r}: choose from {', '.join(sorted(FORMATS))}"
        )
    return FORMATS[name]


def select(form: ExportFormat, measurement: RunMeasurement, choice: RowChoice) -> RunMeasurement:
    """Return the measurement with those of its routines that a file is to have.

    Raises UsageError if the format has no such files, or no routine is left.
    """
    if not (choice.routines or choice.exclude):
        return measurement
    if not form.by_routine:
        others = ", ".join(name for name, each in FORMATS.items() if each.by_routine)
        raise UsageError(
            f"--format {form.name} is about all routines of a profile: choose one of {others}, or "
            "leave out --routine and --exclude"
        )
    routines = tuple(filter(choice.takes_routine, measurement.routines))
    if not routines:
        raise UsageError(
            "--routine and --exclude leave no routine: `simprof show PROFILE routines` lists them"
        )
    return replace(measurement, routines=routines)


def export(form: ExportFormat, source: ExportSource) -> bytes:
    """Return the content of a file; UsageError if the profile or program lacks what it needs."""
    _check_table(form, source)
    if form.needs - {FormatNeed.CALLS}:
        _check_program(form, source)
    if FormatNeed.CALLS in form.needs and source.measurement.call_tree is None:
        raise UsageError(
            f"{source.name} has no call tree: record it with `simprof run --call-tree -o`"
        )
    return form.writer(source)


def _check_table(form: ExportFormat, source: ExportSource) -> None:
    if source.table is None:
        return
    if not form.tables:
        raise UsageError(f"--format {form.name} holds no table of its own: leave out --table")
    if source.table not in form.tables:
        raise UsageError(unknown("table", source.table, form.tables))
    if source.table == "paths" and not mode_facts.collects_paths(source.measurement):
        mode = source.measurement.mode
        raise UsageError(f"{source.name} has no paths: mode {mode} collects none")


def notes(form: ExportFormat, source: ExportSource) -> tuple[str, ...]:
    """Return what the reader of a file must know, one sentence each."""
    if FormatNeed.LINES in form.needs:
        said: tuple[str, ...] = _function("coverage:placing_notes")(source)
        return said
    if not form.by_address or any(True for _ in source.program.lines.stretches()):
        return ()
    return (
        f"{source.program.path} has no line information (compile it with -g): counts are by "
        "address only",
    )


def _check_program(form: ExportFormat, source: ExportSource) -> None:
    program = source.program  # if it is not there, this says so
    if FormatNeed.LINES in form.needs and not any(
        map(program.lines.find, source.recovered.arrays.addresses.tolist())
    ):
        others = ", ".join(name for name, each in FORMATS.items() if each.by_address)
        raise UsageError(
            f"--format {form.name} shows source lines, and {program.path} has no line information: "
            f"compile it with -g, or choose a format with counts by address ({others}, tsim, csv)"
        )
