"""Suite files: TOML in, `Suite` out.

docs/EXPERIMENTS.md has `title`, `executed`, `[[benchmark]]` and `[package.NAME]`. A `[[manifest]]`
describes programs that are written here: its `file` has one table a program, called like it, with
the keys of a `[[benchmark]]` but for paths, which are relative to the manifest. Besides there are
`expected`, a template of the paths of recorded outputs; `committed`, a template of the paths of
programs that need not be built; and `counted`, how these are built from their sources with a
compiler's counters in them: `copy` (files beside each program's own), `flags`, `commands` (in which
`{own}` stands for the program's own flags) and `product`.

Tables are read as the structures below: a key that they do not have is an error, so that a
misspelt one is not simply without effect.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from simprof.profiler.experiments.suites.sources import (
    GENERATORS,
    input_directory,
    is_shipped,
    leads_out,
    suites_directory,
)
from simprof.profiler.experiments.suites.suite import (
    INPUT_NAMES,
    Benchmark,
    Group,
    Input,
    InputFile,
    InputName,
    Package,
    Recipe,
    Suite,
)
from simprof.profiler.profiles.codec import decode, parse_toml
from simprof.profiler.request.likeness import unknown
from simprof.simulator.errors import UsageError

Text = Annotated[str, Meta(min_length=1)]
Number = Annotated[int, Meta(ge=0)]
Texts = tuple[str, ...]
T = TypeVar("T")


class TomlTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a TOML file; what is not said is None, or as a default says."""


class _FileTable(TomlTable, frozen=True):
    name: Text
    copy: Text | None = None
    make: Text | None = None
    unpacked: Text | None = None


class _InputTable(TomlTable, frozen=True):
    arguments: Texts = ()
    stdin: Text | None = None
    environment: dict[str, Text] = {}  # copied for each value
    files: tuple[dict[str, Any], ...] = ()
    status: Number = 0
    expected: Text | None = None


class _Inputs(TomlTable, frozen=True):
    train: _InputTable = _InputTable()
    ref: _InputTable = _InputTable()


class _BenchmarkTable(TomlTable, frozen=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_.+-]*$")]
    group: Group
    why: Text
    stands_for: Text = "none"
    inputs: _Inputs = _Inputs()
    committed: Text | None = None
    package: Text | None = None
    copy: Texts = ()
    directory: Text = "."
    prepare: Texts = ()
    commands: Texts = ()
    sources: Texts = ()
    exclude: Texts = ()
    language: Literal["c", "c++", "fortran"] = "c"
    flags: Texts = ()
    constant_clock: bool = False
    product: Text | None = None


class _CountedTable(TomlTable, frozen=True):
    product: Text
    copy: Texts = ()
    flags: Texts = ()
    commands: Texts = ()


class _Manifest(TomlTable, frozen=True):
    file: Text
    committed: Text | None = None
    expected: Text | None = None
    counted: _CountedTable | None = None


class _SuiteTable(TomlTable, frozen=True):
    title: Text
    executed: Texts = ()
    package: dict[str, dict[str, Any]] = {}  # copied for each value
    benchmark: tuple[dict[str, Any], ...] = ()
    manifest: tuple[_Manifest, ...] = ()


def as_table(kind: type[T], table: object, where: str) -> T:
    """Return a table as a structure; UsageError if it is none, naming the key and `where`."""
    try:
        return decode(kind, table, "")
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def read_suite(path: Path) -> Suite:
    """Read the suite file at `path`.

    Raises UsageError: in one line, what is wrong in which table.
    """
    table = as_table(_SuiteTable, load_toml(path), str(path))
    packages = {name: _package(path, name, each) for name, each in table.package.items()}
    reader = _SuiteReader(path, packages)
    benchmarks = [
        reader.benchmark(each, f"{path}: benchmark {number}")
        for number, each in enumerate(table.benchmark, 1)
    ]
    for number, manifest in enumerate(table.manifest, 1):
        benchmarks += reader.listed(manifest, f"{path}: manifest {number}")
    if not benchmarks:
        raise UsageError(f"{path}: no [[benchmark]] in it")
    names = [benchmark.name for benchmark in benchmarks]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{path}: two benchmarks are called {name}: rename one")
    for pattern in table.executed:
        if not fnmatch.filter(names, pattern):
            raise UsageError(f"{path}: executed: no benchmark matches {pattern!r}")
    return Suite(path.stem, table.title, tuple(benchmarks), path, table.executed)


def load_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; raises UsageError if there is none."""
    try:
        return parse_toml(path.read_bytes().decode())
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name a TOML file") from None
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {error}") from None


def _package(path: Path, name: str, table: dict[str, Any]) -> Package:
    where = f"{path}: package {name}"
    package = as_table(Package, {**table, "name": name}, where)
    for part in (name, package.archive, package.directory):
        if "/" in part or part.startswith((".", "-")):
            raise UsageError(f"{where}: {part!r} must be a plain name")
    return package


class _SuiteReader:
    def __init__(self, path: Path, packages: dict[str, Package]) -> None:
        self._path = path
        self._base = path.parent
        self._is_shipped = is_shipped(path)
        self._packages = packages

    def listed(self, manifest: _Manifest, where: str) -> Iterator[Benchmark]:
        """Yield the benchmarks of a manifest, in its order."""
        path, expected = self._file(where, manifest.file), manifest.expected
        for name, table in load_toml(path).items():
            if not isinstance(table, dict):
                raise UsageError(f"{path}: {name} is not a table")
            benchmark = self.benchmark(
                self._completed(name, table, path.parent, manifest.committed), f"{path}: {name}"
            )
            if manifest.counted is not None:
                counted = self._counted(manifest.counted, table, path.parent, where)
                benchmark = replace(benchmark, recipe=replace(benchmark.recipe, counted=counted))
            inputs = dict(benchmark.inputs)
            if expected is not None:
                own_output = expected.replace("{name}", benchmark.name)
                for key, each in inputs.items():
                    output = self._file(where, own_output.replace("{input}", each.name))
                    inputs[key] = replace(each, expected=output)
            yield replace(benchmark, inputs=inputs)

    def _completed(
        self, name: str, table: dict[str, Any], directory: Path, committed: str | None
    ) -> dict[str, Any]:
        """A program's table in a manifest, as the table of a benchmark."""
        completed = table | {"name": name}
        if committed is not None:
            for key in ("sources", "flags"):
                completed.pop(key, None)
            completed["committed"] = committed.replace("{name}", name)
            return completed
        for key in ("sources", "copy"):
            if isinstance(completed.get(key), list):
                completed[key] = [
                    _from_base(directory, self._base, each) for each in completed[key]
                ]
        return completed

    def _counted(
        self, shared: _CountedTable, own: dict[str, Any], directory: Path, where: str
    ) -> Recipe:
        """Return how a committed program is built with counters: what all share, and its own."""
        sources, flags = (as_table(Texts, own.get(key, ()), where) for key in ("sources", "flags"))
        files = (*shared.copy, *(_from_base(directory, self._base, each) for each in sources))
        return Recipe(
            files=tuple(self._own(where, name) for name in files),
            commands=tuple(each.replace("{own}", " ".join(flags)) for each in shared.commands),
            flags=shared.flags,
            product=_below(where, "product", shared.product),
        )

    def benchmark(self, plain: dict[str, Any], where: str) -> Benchmark:
        """Return the benchmark that a table describes."""
        table = as_table(_BenchmarkTable, plain, where)
        where += f" ({table.name})"
        inputs: dict[str, Input] = {
            name: self._input(table.name, name, getattr(table.inputs, name), where)
            for name in INPUT_NAMES
        }
        facts = (table.name, table.group, table.stands_for, table.why)
        return Benchmark(*facts, self._recipe(table, where), inputs)

    def _recipe(self, table: _BenchmarkTable, where: str) -> Recipe:
        package = table.package
        if package is not None and package not in self._packages:
            raise UsageError(f"{where}: package {package!r} has no [package.{package}] table")
        for key in ("sources", "exclude"):
            for name in getattr(table, key):
                _below(where, key, name)
        for key, path in (("product", table.product or "."), ("directory", table.directory)):
            _below(where, key, path)
        same = set(Recipe.__struct_fields__) & set(_BenchmarkTable.__struct_fields__) - {"package"}
        recipe = Recipe(
            package=None if package is None else self._packages[package],
            files=tuple(self._own(where, name) for name in table.copy),
            **{name: getattr(table, name) for name in same},
        )
        if recipe.committed is not None:
            for build in ("v9", "v8plus"):
                self._file(where, recipe.committed.replace("{width}", build))
            return replace(recipe, committed=str(self._base / recipe.committed))
        if bool(recipe.commands) == bool(recipe.sources):
            raise UsageError(f"{where}: write one of committed, sources, commands")
        if recipe.commands and recipe.product is None:
            raise UsageError(f"{where}: commands need product, the file that they make")
        if recipe.package is None and recipe.sources and not recipe.files:
            # committed sources are copied, and then compiled by their names
            files = tuple(self._own(where, name) for name in recipe.sources)
            return replace(recipe, files=files, sources=tuple(path.name for path in files))
        return recipe

    def _input(self, benchmark: str, name: InputName, table: _InputTable, where: str) -> Input:
        where += f": inputs: {name}"
        files = tuple(self._input_file(each, f"{where}: files") for each in table.files)
        root, stdin = input_directory(self._path, benchmark, name), table.stdin
        if stdin is not None and stdin not in [file.name for file in files]:
            raise UsageError(f"{where}: stdin {stdin!r} is none of its files")
        return Input(
            name=name,
            arguments=table.arguments,
            stdin=None if stdin is None else root / stdin,
            root=root if files else None,
            environment=tuple(table.environment.items()),
            files=files,
            status=table.status,
            expected=None if table.expected is None else self._file(where, table.expected),
        )

    def _input_file(self, plain: dict[str, Any], where: str) -> InputFile:
        own = set(_FileTable.__struct_fields__)
        table = as_table(_FileTable, {key: plain[key] for key in plain if key in own}, where)
        numbers = {key: value for key, value in plain.items() if key not in own}
        name, generator, unpacked = table.name, table.make, table.unpacked
        if name.startswith("/") or ".." in Path(name).parts:
            raise UsageError(f"{where}: {name!r} is not below the input's directory")
        if [table.copy, generator, unpacked].count(None) != 2:
            raise UsageError(f"{where}: {name!r} needs one of copy, make, unpacked")
        path = None if table.copy is None else self._own(where, table.copy)
        _below(where, "unpacked", unpacked or ".")
        if generator not in (None, *GENERATORS):
            names = ", ".join(GENERATORS)
            raise UsageError(f"{where}: make {generator!r}: write one of {names}")
        needed = () if generator is None else tuple(signature(GENERATORS[generator]).parameters)
        given = {key: as_table(Number, numbers[key], f"{where}: {key}") for key in numbers}
        if set(given) != set(needed):
            raise UsageError(f"{where}: {name!r} needs the numbers {', '.join(needed) or 'none'}")
        return InputFile(name, path, generator, tuple((n, given[n]) for n in needed), unpacked)

    def _own(self, where: str, name: str) -> Path:
        """Return a file of the suite, which is copied."""
        if not self._is_shipped and leads_out(name, self._base):
            raise UsageError(
                f"{where}: {name!r} leads out of {self._base}: put it below that directory"
            )
        return self._file(where, name)

    def _file(self, where: str, name: str) -> Path:
        path = self._base / name
        if not path.is_file():
            raise UsageError(f"{where}: {path} is missing")
        return path


def _below(where: str, key: str, name: str) -> str:
    """Return a path in a program's sources, which are elsewhere."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise UsageError(f"{where}: {key} {name!r} leads out of the program's sources")
    return name


def _from_base(directory: Path, base: Path, name: object) -> str:
    """A path in a manifest, from the suite file's directory."""
    path = directory / str(name)
    return str(path.relative_to(base) if path.is_relative_to(base) else path)


def suite_names() -> tuple[str, ...]:
    """Return the names of the suites that simprof comes with, smallest first."""
    shipped = {path.stem for path in suites_directory().glob("*.toml")}
    first = [name for name in ("micro", "wcet", "spec-like", "real") if name in shipped]
    return (*first, *sorted(shipped.difference(first)))


def load_suite(name: str, *, allow_commands: bool = False) -> Suite:
    """Return a suite by its name, or from the file that `name` is the path of (`*.toml`).

    `allow_commands`: Whether a file that does not come with simprof may have commands executed.

    Raises UsageError if there is no such suite, or its file is not as it should be.
    """
    if name.endswith(".toml"):
        path = Path(name)
        shipped = is_shipped(path)
        return replace(read_suite(path), may_execute=shipped or allow_commands)
    known = suite_names()
    if name not in known:
        raise UsageError(f"{unknown('suite', name, known)} (or name a .toml file)")
    return replace(read_suite(suites_directory() / f"{name}.toml"), may_execute=True)
