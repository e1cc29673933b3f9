"""Suites as values: which programs, how each is obtained and built, with which inputs it runs.

A suite is described by one TOML file in `fixtures/suites/` (`suite_file` reads it, and says how it
is written). `build_suite` fetches, compiles and caches; what cannot be built is told in the report
and does not keep the others from being built.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from simprof.simulator.errors import UsageError

Group = Literal["INT", "FP"]
InputName = Literal["train", "ref"]
BuildState = Literal["fetching", "building", "built", "cached", "failed"]
Width = Literal[64, 32]

INPUT_NAMES: tuple[InputName, ...] = ("train", "ref")
# Name of the build of each width.
BUILDS: Mapping[Width, str] = MappingProxyType({64: "v9-O2", 32: "v8plus-O2"})
DEFAULT_BUILD = BUILDS[64]


ANY_STATUS = -1


class CounterBuild(StrEnum):
    """Whose counters a build has in it."""

    NONE = "none"  # nobody's: the program that is profiled
    ARCS = "arcs"  # gcc's own edge profiling, -fprofile-arcs


def build_name(width: Width, counters: CounterBuild = CounterBuild.NONE) -> str:
    """Return the name of a build: "v9-O2", "v9-O2-arcs"."""
    return with_counters(BUILDS[width], counters)


def with_counters(plain: str, counters: CounterBuild) -> str:
    """Return the name of the build that differs from `plain` by its counters only."""
    return plain if counters is CounterBuild.NONE else f"{plain}-{counters}"


def parse_build(name: str) -> tuple[Width, CounterBuild]:
    """Return width and counters of a build by its name.

    Raises UsageError if there is no build of that name.
    """
    known = {build_name(width, each): (width, each) for each in CounterBuild for width in BUILDS}
    if name not in known:
        raise UsageError(f"unknown build {name!r}: choose from {', '.join(known)}")
    return known[name]


class InputFile(Struct, frozen=True):
    """A file that a program reads."""

    name: str  # Its path below the input's root
    source: Path | None = None  # The committed file that it is a copy of; None: it is generated.
    # generator, parameters: A function of `generate` and its arguments, in their order.
    generator: str | None = None
    parameters: tuple[tuple[str, int], ...] = ()
    unpacked: str | None = None  # The file of the program's unpacked source that it is a copy of


class Input(Struct, frozen=True):
    """One run of a benchmark."""

    # "train" or "ref", as in SPEC: an input to learn from, and the one that is measured.
    name: InputName
    arguments: tuple[str, ...] = ()  # Without the program's own name
    stdin: Path | None = None  # File that is the standard input; None: it is empty.
    root: Path | None = None  # The directory that the program may read; None: it reads no files.
    environment: tuple[tuple[str, str], ...] = ()  # All variables that it has
    files: tuple[InputFile, ...] = ()  # What `root` holds. They are there after `build_suite`.
    status: int = 0  # The exit status of a good run; `ANY_STATUS`: any.
    # File that holds what a good run writes to standard output; None: not recorded.
    expected: Path | None = None


NO_INPUT = Input("ref", status=ANY_STATUS)


class Package(Struct, frozen=True, forbid_unknown_fields=True):
    """A Debian source package: its upstream archive, and the directory that this unpacks to."""

    name: str
    archive: str
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    directory: str


class Recipe(Struct, frozen=True):
    """How a program is obtained."""

    # Path of the committed program, `{width}` in it standing for "v9" or "v8plus"; None: it is
    # built.
    committed: str | None = None
    package: Package | None = None  # Where its source comes from; None: from `files` alone.
    files: tuple[Path, ...] = ()  # Committed files that are copied into the source directory
    directory: str = "."  # Where in the source directory the commands are executed
    # Commands that make sources with the host's own tools, executed once for all widths
    prepare: tuple[str, ...] = ()
    # Commands that build `product`, for one width; empty: one call of the compiler does.
    commands: tuple[str, ...] = ()
    # sources, exclude: Glob patterns of the files to compile, and of those among them that are left
    # out.
    sources: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    language: Literal["c", "c++", "fortran"] = "c"  # Which compiler: "c", "c++" or "fortran".
    flags: tuple[str, ...] = ()  # More arguments of the compiler
    # Give the program a clock that stands still, where what it does depends on the time
    constant_clock: bool = False
    product: str | None = None  # The file that `commands` make
    # Of a committed program: how it is built from its sources to have a compiler's counters in it;
    # None: it cannot be.
    counted: Recipe | None = None


class Benchmark(Struct, frozen=True):
    """A program of a suite."""

    name: str
    group: Group  # INT or FP, as SPEC divides its programs
    # The program of SPEC95, SPEC2000 or the Mälardalen set that it stands in for; "none" where it
    # is there for its own sake.
    stands_for: str
    why: str  # In which respect it is like that one
    recipe: Recipe
    inputs: Mapping[str, Input]  # By name; both are there, and may be the same.


class Suite(Struct, frozen=True):
    """A named list of benchmarks."""

    name: str
    title: str
    benchmarks: tuple[Benchmark, ...]
    path: Path  # The file that describes it
    # Glob patterns of the benchmarks that tables instrument and run, unless told otherwise
    executed: tuple[str, ...] = ()
    may_execute: bool = False  # Whether commands that its file names may be executed

    def benchmark(self, name: str) -> Benchmark:
        """Return a benchmark; raises UsageError if there is none of that name."""
        for benchmark in self.benchmarks:
            if benchmark.name == name:
                return benchmark
        raise UsageError(f"suite {self.name} has no benchmark {name}: see simprof suite list")


class BuiltProgram(Struct, frozen=True):
    """A program ready to run."""

    benchmark: str
    build: str  # "v9-O2" or "v8plus-O2"; "v9-O2-arcs" and so on with counters in it.
    path: Path
    sha256: str  # Of the file at `path`
    # First line of the compiler's version; for a committed program as its record has it.
    compiler: str
    flags: tuple[str, ...]  # The flags that the compiler got in this build
    source_hash: str  # Digest of everything that the build reads: archive, committed files, recipe.


class BuildReport(Struct, frozen=True):
    """The programs that could be built, and one line on why each other could not.

    Keys are (benchmark name, build name).
    """

    suite: str
    programs: Mapping[tuple[str, str], BuiltProgram] = field(default_factory=dict)
    failures: Mapping[tuple[str, str], str] = field(default_factory=dict)
