"""Suite files: TOML in, `Suite` out.

docs/EXPERIMENTS.md has `title`, `executed`, `[[benchmark]]` and `[package.NAME]`. A `[[manifest]]`
describes programs that are written here: its `file` has one table a program, called like it, with
the keys of a `[[benchmark]]` but for paths, which are relative to the manifest. Besides there are
`expected`, a template of the paths of recorded outputs; `committed`, a template of the paths of
programs that need not be built; and `counted`, how these are built from their sources with a
compiler's counters in them: `copy` (files beside each program's own), `flags`, `commands` (in which
`{own}` stands for the program's own flags) and `product`.

Every key that is not known is an error, so that a misspelt one is not simply without effect.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from simprof.profiler.experiments.suites.sources import (
    GENERATORS,
    input_directory,
    is_shipped,
    leads_out,
    suites_directory,
)
from simprof.profiler.experiments.suites.suite import (
    GROUPS,
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
from simprof.profiler.profiles.codec import parse_toml
from simprof.profiler.request.likeness import unknown
from simprof.simulator.errors import UsageError

NAME = re.compile(r"[a-z0-9][a-z0-9_.+-]*")
SHA256 = re.compile(r"[0-9a-f]{64}")
LANGUAGES = ("c", "c++", "fortran")


class Fields:
    """The keys of one table, taken one after the other; `finish` refuses what is left."""

    def __init__(self, table: object, where: str) -> None:
        if not isinstance(table, dict):
            raise UsageError(f"{where} is not a table: see docs/EXPERIMENTS.md")
        self._left = dict(table)
        self.where = where

    def fail(self, message: str) -> UsageError:
        """Return the error that says `message` about this table."""
        return UsageError(f"{self.where}: {message}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; without `default` it must be there."""
        value = self._left.pop(key, default)
        if value is None:
            raise self.fail(f"{key} is missing")
        if not isinstance(value, str) or not value:
            raise self.fail(f"{key} must be a text that is not empty")
        return value

    def optional(self, key: str) -> str | None:
        """Return a text, or None where it is not there."""
        return self.text(key) if key in self._left else None

    def one_of(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """Return a text that is one of `choices`."""
        value = self.text(key, default)
        if value not in choices:
            raise self.fail(f"{key} is {value!r}: write one of {', '.join(choices)}")
        return value

    def matching(self, key: str, pattern: re.Pattern[str], what: str) -> str:
        """Return a text that `pattern` matches whole."""
        value = self.text(key)
        if not pattern.fullmatch(value):
            raise self.fail(f"{key} {value!r} is not {what}")
        return value

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of texts; it may be empty only if `default` is."""
        if key not in self._left:
            return default
        value = self._left.pop(key)
        is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if not is_list or (default and not value):
            raise self.fail(f"{key} must be a list of texts")
        return tuple(value)

    def flag(self, key: str) -> bool:
        """Return a truth value, false where it is not there."""
        value = self._left.pop(key, False)
        if not isinstance(value, bool):
            raise self.fail(f"{key} must be true or false")
        return value

    def number(self, key: str, default: int | None = None, least: int = 0) -> int:
        """Return an integer that is not below `least`."""
        value = self._left.pop(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.fail(f"{key} must be a whole number, {least} or more")
        return value

    def tables(self, key: str) -> list[object]:
        """Return a list of tables, empty where it is not there."""
        value = self._left.pop(key, [])
        if not isinstance(value, list):
            raise self.fail(f"{key} must be a list of tables")
        return value

    def table(self, key: str) -> Mapping[str, object]:
        """Return a table, empty where it is not there."""
        value = self._left.pop(key, {})
        if not isinstance(value, dict):
            raise self.fail(f"{key} must be a table")
        return value

    def rest(self) -> dict[str, object]:
        """Return what nobody has taken, in the file's order, and leave it there."""
        return dict(self._left)

    def finish(self) -> None:
        """Refuse keys that nobody took."""
        for key in self._left:
            raise self.fail(f"unknown key {key!r}")


def read_suite(path: Path) -> Suite:
    """Read the suite file at `path`.

    Raises UsageError: in one line, what is wrong in which table.
    """
    fields = Fields(load_toml(path), str(path))
    reader = _SuiteReader(path)
    title, executed = fields.text("title"), fields.texts("executed")
    for name, table in fields.table("package").items():
        reader.packages[name] = _package(name, table, f"{path}: package {name}")
    benchmarks = list(reader.benchmarks(fields, str(path)))
    for number, table in enumerate(fields.tables("manifest"), 1):
        benchmarks += reader.listed(Fields(table, f"{path}: manifest {number}"))
    fields.finish()
    if not benchmarks:
        raise UsageError(f"{path}: no [[benchmark]] in it")
    names = [benchmark.name for benchmark in benchmarks]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{path}: two benchmarks are called {name}: rename one")
    for pattern in executed:
        if not fnmatch.filter(names, pattern):
            raise UsageError(f"{path}: executed: no benchmark matches {pattern!r}")
    return Suite(path.stem, title, tuple(benchmarks), path, executed)


def load_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; raises UsageError if there is none."""
    try:
        return parse_toml(path.read_bytes().decode())
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name a TOML file") from None
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {error}") from None


def _package(name: str, table: object, where: str) -> Package:
    fields = Fields(table, where)
    package = Package(
        name=name,
        archive=fields.text("archive"),
        sha256=fields.matching("sha256", SHA256, "64 hexadecimal digits"),
        directory=fields.text("directory"),
    )
    fields.finish()
    for part in (package.name, package.archive, package.directory):
        if "/" in part or part.startswith((".", "-")):
            raise fields.fail(f"{part!r} must be a plain name")
    return package


class _SuiteReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._base = path.parent
        self._is_shipped = is_shipped(path)
        self.packages: dict[str, Package] = {}

    def listed(self, fields: Fields) -> Iterator[Benchmark]:
        """Yield the benchmarks of the manifest that a table names, in the manifest's order."""
        path = self._file(fields, fields.text("file"))
        committed, expected = fields.optional("committed"), fields.optional("expected")
        counted = fields.table("counted")
        fields.finish()
        for name, table in load_toml(path).items():
            if not isinstance(table, dict):
                raise UsageError(f"{path}: {name} is not a table")
            completed = self._completed(name, table, path.parent, committed)
            benchmark = self._benchmark(Fields(completed, f"{path}: {name}"))
            if counted:
                own = Fields(table, f"{path}: {name}")
                shared = Fields(counted, f"{fields.where}: counted")
                recipe = replace(benchmark.recipe, counted=self._counted(shared, own, path.parent))
                benchmark = replace(benchmark, recipe=recipe)
            inputs = dict(benchmark.inputs)
            if expected is not None:
                own_output = expected.replace("{name}", benchmark.name)
                for key, each in inputs.items():
                    output = self._file(fields, own_output.replace("{input}", each.name))
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

    def _counted(self, shared: Fields, own: Fields, directory: Path) -> Recipe:
        """Return how a committed program is built with counters: what all share, and its own."""
        sources = [_from_base(directory, self._base, each) for each in own.texts("sources")]
        flags = " ".join(own.texts("flags"))
        recipe = Recipe(
            files=tuple(self._own(shared, name) for name in (*shared.texts("copy"), *sources)),
            commands=tuple(each.replace("{own}", flags) for each in shared.texts("commands")),
            flags=shared.texts("flags"),
            product=self._below(shared, "product", shared.text("product")),
        )
        shared.finish()
        return recipe

    def benchmarks(self, fields: Fields, where: str) -> Iterator[Benchmark]:
        for number, table in enumerate(fields.tables("benchmark"), 1):
            yield self._benchmark(Fields(table, f"{where}: benchmark {number}"))

    def _benchmark(self, fields: Fields) -> Benchmark:
        name = fields.matching("name", NAME, "a name of small letters, digits and _.+-")
        fields.where += f" ({name})"
        inputs = Fields(fields.table("inputs"), f"{fields.where}: inputs")
        benchmark = Benchmark(
            name=name,
            group=cast(Group, fields.one_of("group", GROUPS)),
            stands_for=fields.text("stands_for"),
            why=fields.text("why"),
            recipe=self._recipe(fields),
            inputs={each: self._input(name, each, inputs) for each in INPUT_NAMES},
        )
        inputs.finish()
        fields.finish()
        return benchmark

    def _recipe(self, fields: Fields) -> Recipe:
        package = fields.optional("package")
        if package is not None and package not in self.packages:
            raise fields.fail(f"package {package!r} has no [package.{package}] table")
        recipe = Recipe(
            committed=fields.optional("committed"),
            package=None if package is None else self.packages[package],
            files=tuple(self._own(fields, name) for name in fields.texts("copy")),
            directory=self._below(fields, "directory", fields.text("directory", ".")),
            prepare=fields.texts("prepare"),
            commands=fields.texts("commands"),
            sources=tuple(self._below(fields, "sources", each) for each in fields.texts("sources")),
            exclude=tuple(self._below(fields, "exclude", each) for each in fields.texts("exclude")),
            language=cast(Any, fields.one_of("language", LANGUAGES, "c")),
            flags=fields.texts("flags"),
            constant_clock=fields.flag("constant_clock"),
            product=fields.optional("product"),
        )
        self._below(fields, "product", recipe.product or ".")
        if recipe.committed is not None:
            for build in ("v9", "v8plus"):
                self._file(fields, recipe.committed.replace("{width}", build))
            return replace(recipe, committed=str(self._base / recipe.committed))
        if bool(recipe.commands) == bool(recipe.sources):
            raise fields.fail("write one of committed, sources, commands")
        if recipe.commands and recipe.product is None:
            raise fields.fail("commands need product, the file that they make")
        if recipe.package is None and recipe.sources and not recipe.files:
            # committed sources are copied, and then compiled by their names
            files = tuple(self._own(fields, name) for name in recipe.sources)
            return replace(recipe, files=files, sources=tuple(path.name for path in files))
        return recipe

    def _input(self, benchmark: str, name: InputName, all_inputs: Fields) -> Input:
        table = all_inputs.table(name)
        fields = Fields(table, f"{all_inputs.where}: {name}")
        files = tuple(self._input_file(fields, each) for each in fields.tables("files"))
        root = input_directory(self._path, benchmark, name)
        stdin = fields.optional("stdin")
        if stdin is not None and stdin not in [file.name for file in files]:
            raise fields.fail(f"stdin {stdin!r} is none of its files")
        expected = fields.optional("expected")
        environment = Fields(fields.table("environment"), f"{fields.where}: environment")
        result = Input(
            name=name,
            arguments=fields.texts("arguments"),
            stdin=None if stdin is None else root / stdin,
            root=root if files else None,
            environment=tuple((key, environment.text(key)) for key in environment.rest()),
            files=files,
            status=fields.number("status", 0),
            expected=None if expected is None else self._file(fields, expected),
        )
        fields.finish()
        return result

    def _input_file(self, outer: Fields, table: object) -> InputFile:
        fields = Fields(table, f"{outer.where}: files")
        name = fields.text("name")
        if name.startswith("/") or ".." in Path(name).parts:
            raise fields.fail(f"{name!r} is not below the input's directory")
        source, generator = fields.optional("copy"), fields.optional("make")
        unpacked = fields.optional("unpacked")
        if [source, generator, unpacked].count(None) != 2:
            raise fields.fail(f"{name!r} needs one of copy, make, unpacked")
        path = None if source is None else self._own(fields, source)
        self._below(fields, "unpacked", unpacked or ".")
        if generator not in (None, *GENERATORS):
            raise fields.fail(f"make {generator!r}: write one of {', '.join(GENERATORS)}")
        needed = () if generator is None else signature(GENERATORS[generator]).parameters
        parameters = tuple((key, fields.number(key)) for key in needed)
        fields.finish()
        return InputFile(name, path, generator, parameters, unpacked)

    def _below(self, fields: Fields, key: str, name: str) -> str:
        """Return a path in a program's sources, which are elsewhere."""
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise fields.fail(f"{key} {name!r} leads out of the program's sources")
        return name

    def _own(self, fields: Fields, name: str) -> Path:
        """Return a file of the suite, which is copied."""
        if not self._is_shipped and leads_out(name, self._base):
            raise fields.fail(f"{name!r} leads out of {self._base}: put it below that directory")
        return self._file(fields, name)

    def _file(self, fields: Fields, name: str) -> Path:
        path = self._base / name
        if not path.is_file():
            raise fields.fail(f"{path} is missing")
        return path


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
