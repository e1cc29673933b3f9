"""Suites as values: which programs, how each is obtained and built, with which inputs it runs.

A suite is described by one TOML file in `fixtures/suites/` (`suite_file` reads it, and says how it
is written). `build_suite` fetches, compiles and caches; what cannot be built is told in the report
and does not keep the others from being built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from simprof.simulator.errors import UsageError

Group = Literal["INT", "FP"]
InputName = Literal["train", "ref"]
BuildState = Literal["fetching", "building", "built", "cached", "failed"]
Width = Literal[64, 32]

GROUPS: tuple[Group, ...] = ("INT", "FP")
INPUT_NAMES: tuple[InputName, ...] = ("train", "ref")
BUILDS: Mapping[Width, str] = MappingProxyType({64: "v9-O2", 32: "v8plus-O2"})
"""Name of the build of each width."""
DEFAULT_BUILD = BUILDS[64]


class Counters(StrEnum):
    """Whose counters a build has in it."""

    NONE = "none"  # nobody's: the program that is profiled
    ARCS = "arcs"  # gcc's own edge profiling, -fprofile-arcs


def build_name(width: Width, counters: Counters = Counters.NONE) -> str:
    """Return the name of a build: "v9-O2", "v9-O2-arcs"."""
    return with_counters(BUILDS[width], counters)


def with_counters(plain: str, counters: Counters) -> str:
    """Return the name of the build that differs from `plain` by its counters only."""
    return plain if counters is Counters.NONE else f"{plain}-{counters}"


def parse_build(name: str) -> tuple[Width, Counters]:
    """Return width and counters of a build by its name.

    Raises
    ------
    UsageError
        If there is no build of that name.
    """
    known = {build_name(width, each): (width, each) for each in Counters for width in BUILDS}
    if name not in known:
        raise UsageError(f"there is no build {name!r}: name one of {', '.join(known)}")
    return known[name]


@dataclass(frozen=True)
class InputFile:
    """A file that a program reads.

    Attributes
    ----------
    name
        Its path below the input's root.
    source
        The committed file that it is a copy of; None: it is generated.
    generator, parameters
        A function of `generate` and its arguments, in their order.
    unpacked
        The file of the program's unpacked source that it is a copy of.
    """

    name: str
    source: Path | None = None
    generator: str | None = None
    parameters: tuple[tuple[str, int], ...] = ()
    unpacked: str | None = None


@dataclass(frozen=True)
class Input:
    """One run of a benchmark.

    Attributes
    ----------
    name
        "train" or "ref", as in SPEC: an input to learn from, and the one that is measured.
    arguments
        Without the program's own name.
    stdin
        File that is the standard input; None: it is empty.
    root
        The directory that the program may read; None: it reads no files.
    environment
        All variables that it has.
    files
        What `root` holds. They are there after `build_suite`.
    status
        The exit status of a good run.
    expected
        File that holds what a good run writes to standard output; None: not recorded.
    """

    name: InputName
    arguments: tuple[str, ...] = ()
    stdin: Path | None = None
    root: Path | None = None
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[InputFile, ...] = ()
    status: int = 0
    expected: Path | None = None


@dataclass(frozen=True)
class Package:
    """A Debian source package: its upstream archive, and the directory that this unpacks to."""

    name: str
    archive: str
    sha256: str
    directory: str


@dataclass(frozen=True)
class Recipe:
    """How a program is obtained.

    Attributes
    ----------
    committed
        Path of the committed program, `{width}` in it standing for "v9" or "v8plus"; None: it is
        built.
    package
        Where its source comes from; None: from `files` alone.
    files
        Committed files that are copied into the source directory.
    directory
        Where in the source directory the commands are executed.
    prepare
        Commands that make sources with the host's own tools, executed once for all widths.
    commands
        Commands that build `product`, for one width; empty: one call of the compiler does.
    sources, exclude
        Glob patterns of the files to compile, and of those among them that are left out.
    language
        Which compiler: "c", "c++" or "fortran".
    flags
        More arguments of the compiler.
    constant_clock
        Give the program a clock that stands still, where what it does depends on the time.
    product
        The file that `commands` make.
    counted
        Of a committed program: how it is built from its sources to have a compiler's counters in
        it; None: it cannot be.
    """

    committed: str | None = None
    package: Package | None = None
    files: tuple[Path, ...] = ()
    directory: str = "."
    prepare: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    language: Literal["c", "c++", "fortran"] = "c"
    flags: tuple[str, ...] = ()
    constant_clock: bool = False
    product: str | None = None
    counted: Recipe | None = None


@dataclass(frozen=True)
class Benchmark:
    """A program of a suite.

    Attributes
    ----------
    group
        INT or FP, as SPEC divides its programs.
    stands_for
        The program of SPEC95, SPEC2000 or the Mälardalen set that it stands in for; "none" where
        it is there for its own sake.
    why
        In which respect it is like that one.
    inputs
        By name; both are there, and may be the same.
    """

    name: str
    group: Group
    stands_for: str
    why: str
    recipe: Recipe
    inputs: Mapping[str, Input]


@dataclass(frozen=True)
class Suite:
    """A named list of benchmarks.

    Attributes
    ----------
    path
        The file that describes it.
    executed
        Glob patterns of the benchmarks that tables instrument and run, unless told otherwise.
    may_execute
        Whether commands that its file names may be executed.
    """

    name: str
    title: str
    benchmarks: tuple[Benchmark, ...]
    path: Path
    executed: tuple[str, ...] = ()
    may_execute: bool = False

    def benchmark(self, name: str) -> Benchmark:
        """Return a benchmark.

        Raises
        ------
        UsageError
            If there is none of that name.
        """
        for benchmark in self.benchmarks:
            if benchmark.name == name:
                return benchmark
        raise UsageError(f"suite {self.name} has no benchmark {name}: see simprof suite list")


@dataclass(frozen=True)
class BuiltProgram:
    """A program ready to run.

    Attributes
    ----------
    build
        "v9-O2" or "v8plus-O2"; "v9-O2-arcs" and so on with counters in it.
    sha256
        Of the file at `path`.
    compiler
        First line of the compiler's version; for a committed program as its record has it.
    flags
        The flags that the compiler got in this build.
    source_hash
        Digest of everything that the build reads: archive, committed files, recipe.
    """

    benchmark: str
    build: str
    path: Path
    sha256: str
    compiler: str
    flags: tuple[str, ...]
    source_hash: str


@dataclass(frozen=True)
class BuildProgress:
    """What a build is doing; `done` of `total` programs are finished."""

    benchmark: str
    build: str
    state: BuildState
    done: int
    total: int


@dataclass(frozen=True)
class BuildReport:
    """The programs that could be built, and one line on why each other could not.

    Keys are (benchmark name, build name).
    """

    suite: str
    programs: Mapping[tuple[str, str], BuiltProgram] = field(default_factory=dict)
    failures: Mapping[tuple[str, str], str] = field(default_factory=dict)
