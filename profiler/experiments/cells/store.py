"""Results of cells in one SQLite file, a row a cell.

The same cell gives the same row on any machine at any time, but for the columns that say when it
was written and how long it took. Every finished group of cells is one transaction, so that whatever
ends the writer, what was finished is there and nothing else.

What a cell found is the JSON document of `run --json`, in the row. The view `results` has
expressions over it, a column a figure, for people with SQL.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec.structs import astuple

from simprof.profiler.experiments.cells.cells import (
    Cell,
    CellDocument,
    CellKey,
    CellKind,
    Job,
    RunFiles,
    Versions,
    row_key,
    unpack,
)
from simprof.profiler.experiments.cells.settings import (
    CellSetting,
    option_words,
    parse,
    reads,
    word_of,
)
from simprof.profiler.profiles import output
from simprof.profiler.profiles.cache_files import own_cache_directory
from simprof.profiler.profiles.codec import big_integers, parse_json
from simprof.profiler.profiles.measures import MEASURES
from simprof.profiler.request.request import OptionValue
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import plain as as_shown
from simprof.profiler.schemes.mode_options import BEFORE_OPTION
from simprof.simulator.errors import UsageError

# The largest whole number that SQLite keeps; larger ones are kept as floating point.
LARGEST = (1 << 63) - 1
# Columns of the view `results` -> their places in the document; docs/EXPERIMENTS.md has what
# they mean. Those of modes that lose something are 0 where nothing was lost.
FIGURES: Mapping[str, str] = {
    **{name: f"exit.{name}" for name in ("reason", "status")},
    **{
        name: f"counts.{name}"
        for name in (
            "blocks transfers path_increments hashed_increments hashing edge_increments jumps "
            "inferred_paths trace_tokens system_calls unattributed_transfers "
            "unattributed_instructions"
        ).split()
    },
    **{
        name: f"sizes.{name}"
        for name in "counter_bytes snippets code_bytes trace_bits address_bits".split()
    },
    "executed_paths": "facts.paths",
    "path_executions": "facts.executions",
    **{
        name: f"lost.{name}"
        for name in (
            "cold_paths flow_blocks overcounted_blocks undercounted_blocks unknown_edges"
        ).split()
    },
    **{name: f"quality.{name}" for name in MEASURES},
    **{name: f"counts.{name}" for name in ("predicted", "rewriting")},
}
_NAMES = ("suite", "category", "benchmark", "build", "input", "kind", "mode", "options")


def _view() -> str:
    """Return what makes the view `results`: `cells` with a column for each option and figure."""
    options = (f"json_extract(all_options, '$.{word}') AS option_{word}" for word in option_words())
    figures = (f"json_extract(found, '$.{place}') AS {name}" for name, place in FIGURES.items())
    # what is damaged is an error for those who read it, and not for others
    return f"""
CREATE VIEW results AS SELECT
    {", ".join(_NAMES)}, {", ".join(options)},
    error, base, added, CASE WHEN base THEN 1.0 * added / base END AS overhead,
    {", ".join(figures)},
    json_extract(timing, '$.run') AS seconds, datetime(written, 'unixepoch') AS written,
    program, nullif(stdin, '') AS input_sha256, compiler, simprof, cost_model, key
FROM (
    SELECT *, json_extract(found, '$.instructions.base') AS base,
        json_extract(found, '$.instructions.added') AS added,
        json_extract(found, '$.error') AS error
    FROM (SELECT *, iif(json_valid(document), document, '{{}}') AS found FROM cells)
)
ORDER BY suite, position, benchmark, input, setting
"""


def _keep_view(connection: sqlite3.Connection) -> None:
    """Make the view where it is not, or is that of another simprof."""
    found = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'results'").fetchone()
    if found != (_view().strip(),):
        connection.execute("DROP VIEW IF EXISTS results")
        connection.execute(_view())


def all_options(setting: CellSetting) -> dict[str, OptionValue]:
    """Return the options that a setting's mode reads, by their words, with defaults."""
    given = dict(setting.own)
    return {
        word_of(option): as_shown(given.get(option.name, option.default))
        for option in reads(setting.mode)
    }


def options(setting: CellSetting) -> dict[str, OptionValue]:
    """Return the options that were asked for, or have no default, by their words."""
    asked = {*setting.asked, *dict(setting.own)}
    words = {word_of(option): option.name for option in reads(setting.mode)}
    return {word: value for word, value in all_options(setting).items() if words[word] in asked}


APPLICATION = 0x53505246  # "SPRF"
VERSION = 5
LARGEST_VALUE = 1 << 25  # Bytes of a value in the file
_MODE = re.compile(r"[a-z][\w-]*")  # What a mode is called, if a file is not damaged
STEPS = 1 << 20  # Steps of SQLite's machine between two looks at how many a statement has taken
# Millions of steps, some seconds, that statements may take on any file; on large ones more.
LEAST_STEPS = 300
PATIENCE = 60.0  # Seconds to wait for another process that writes to the file

_FACTS = (
    "key", "suite", "position", "category", "benchmark", "build", "input", "kind", "mode",
    "setting", "options", "all_options", "program", "compiler", "arguments", "environment", "stdin",
    "files", "max_instructions", "simprof", "engine", "cost_model", "document", "lists",
)  # fmt: skip
_COLUMNS = (*_FACTS, "written", "timing")

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE cells (
    key TEXT PRIMARY KEY,             -- digest of everything that decides the result
    suite TEXT NOT NULL, position INTEGER NOT NULL, category TEXT NOT NULL,
    benchmark TEXT NOT NULL, build TEXT NOT NULL, input TEXT NOT NULL, kind TEXT NOT NULL,
    mode TEXT NOT NULL, setting TEXT NOT NULL,
    options TEXT NOT NULL,            -- JSON, those asked for
    all_options TEXT NOT NULL,        -- JSON, with defaults
    program TEXT NOT NULL,            -- SHA-256 of the ELF file
    compiler TEXT NOT NULL,
    arguments TEXT NOT NULL, environment TEXT NOT NULL, stdin TEXT NOT NULL, files TEXT NOT NULL,
    max_instructions INTEGER,
    simprof TEXT NOT NULL, engine TEXT NOT NULL, cost_model TEXT NOT NULL,
    document TEXT NOT NULL,           -- JSON, as `run --json` writes it, without
    lists BLOB NOT NULL,              -- its routines and paths: JSON, zlib'd
    written REAL NOT NULL,            -- seconds since 1970
    timing TEXT NOT NULL              -- JSON, seconds
);
"""


def default_store_path() -> Path:
    """Return the file of results that commands share where none is named."""
    return own_cache_directory() / f"cells-{VERSION}.sqlite"


class Store:
    """An open results file; a context manager.

    `path`: The file; it is made where there is none (or an empty one). `create`: False: it must be
    there, and is only read.

    Raises UsageError if it is not such a file, is damaged, or cannot be used. It is left as it is.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        if not _exists(path):
            if not create:
                raise UsageError(f"{path} does not exist: make it with `simprof sweep -o {path}`")
            _create(path)
        _check_header(path)
        self._connection, self._steps = _connect(path, "rw" if create else "ro")

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def get(self, job: Job, key: CellKey) -> CellDocument | None:
        """Return the result of a job, None where there is none."""
        query = f"SELECT {_RESULT} FROM cells WHERE key = ?"
        with self._guarded():
            row = self._connection.execute(query, (row_key(job, key),)).fetchone()
        return None if row is None else self._unpack(*row)

    def put(self, records: Iterable[tuple[Job, CellKey, CellDocument]]) -> None:
        """Add results of jobs in one transaction; those that are there already stay."""
        rows = [
            (*_facts(job, key, result), time.time(), json.dumps(result.timing))
            for job, key, result in records
        ]
        places = ",".join("?" * len(_COLUMNS))
        with self._transaction():
            _keep_view(self._connection)
            self._connection.executemany(f"INSERT OR IGNORE INTO cells VALUES ({places})", rows)

    def forget(self, keys: Iterable[str]) -> None:
        """Remove rows by their keys (`cells.row_key`), so that they are made again."""
        with self._transaction():
            for key in keys:
                self._connection.execute("DELETE FROM cells WHERE key = ?", (key,))

    def latest(self) -> Versions | None:
        """Return what made the row written last; None where there is none."""
        query = (
            "SELECT simprof, engine, cost_model FROM cells "
            "ORDER BY written DESC, rowid DESC LIMIT 1"
        )
        with self._guarded():
            row = self._connection.execute(query).fetchone()
        return None if row is None else Versions(*row)

    def cells(self, suite: str | None = None) -> Mapping[Cell, CellDocument]:
        """Return results by name, those of the latest versions; of equal names the newest.

        `suite`: Name of a suite; None: all.
        """
        rows = self._of_latest(
            f"benchmark, setting, input, kind, build, {_RESULT}",
            "AND (suite = ? OR ? IS NULL) ORDER BY written, rowid",
            (suite, suite),
        )
        return {self._cell(*row[:5]): self._unpack(*row[5:]) for row in rows}

    def files(self, suite: str) -> tuple[RunFiles, ...]:
        """Return what was run, of the latest versions; of equal names the newest."""
        rows = self._of_latest(
            "benchmark, build, input, program, stdin",
            "AND suite = ? ORDER BY written, rowid",
            (suite,),
        )
        return tuple({row[:3]: RunFiles(*row) for row in map(self._texts, rows)}.values())

    def benchmarks(self) -> tuple[tuple[str, str, str], ...]:
        """Return suite, name and group of the benchmarks that rows of the latest versions are of.

        They come in their suites' order. A group is "INT", "FP" or "".
        """
        rows = self._of_latest(
            "suite, benchmark, category",
            "GROUP BY suite, benchmark ORDER BY suite, min(position), benchmark",
        )
        return tuple(map(self._texts, rows))

    def _of_latest(
        self, columns: str, rest: str, values: tuple[str | None, ...] = ()
    ) -> list[tuple[Any, ...]]:
        """Return columns of the rows of the latest versions; `rest`: of the query."""
        if (newest := self.latest()) is None:
            return []
        query = (
            f"SELECT {columns} FROM cells WHERE (simprof, engine, cost_model) = (?, ?, ?) {rest}"
        )
        with self._guarded():
            return self._connection.execute(query, (*astuple(newest), *values)).fetchall()

    def _texts(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        if not all(isinstance(text, str) for text in row):
            raise _damaged(self.path, "a name is no text")
        return row

    def rows(self) -> tuple[tuple[object, ...], ...]:
        """Return all facts, sorted, results unpacked: equal for files with the same results."""
        query = f"SELECT {','.join(_FACTS)} FROM cells ORDER BY key"
        with self._guarded():
            rows = self._connection.execute(query)
            return tuple((*row[:-1], self._plain(row[-1])) for row in rows)

    def _cell(self, benchmark: str, setting: str, input_: str, kind: str, build: str) -> Cell:
        self._texts((benchmark, setting, input_, kind, build))
        mode = setting.partition(BEFORE_OPTION)[0]
        if mode not in registry.modes() and _MODE.fullmatch(mode):
            raise UsageError(
                f"{self.path} has results of {mode}, a scheme that is not installed: install the "
                f"package that brings it (entry point {mode} of {registry.GROUP}) beside simprof"
            )
        try:
            return Cell(benchmark, parse(setting), input_, CellKind(kind), build)
        except (ValueError, UsageError) as error:
            raise _damaged(self.path, error) from None

    def _plain(self, lists: bytes) -> bytes:
        try:
            return unpack(lists)
        except ValueError as error:
            raise _damaged(self.path, error) from None

    def _unpack(self, text: str, lists: bytes, timing: str) -> CellDocument:
        self._plain(lists)  # checked; what is in it is read when it is asked for
        try:
            return CellDocument.checked(parse_json(text), lists, parse_json(timing))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise _damaged(self.path, error) from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guarded():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn SQLite's errors into ones that a user can act on."""
        self._steps.begin()
        try:
            yield
        except sqlite3.OperationalError as error:
            raise UsageError(f"{self.path} cannot be used: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise _damaged(self.path, error) from None


def _exists(path: Path) -> bool:
    """Whether there is something in the file; one that was only just opened has nothing in it."""
    try:
        return path.stat().st_size > 0 or not path.is_file()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UsageError(f"{path} cannot be used: {error.strerror}") from None


def _create(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(":memory:")
        connection.executescript(_SCHEMA + _view())
        empty = connection.serialize()
        connection.close()
        try:
            output.create(path, empty)  # unlike a rename, never over what another has made
        except FileExistsError:
            if not _exists(path):
                output.replace(path, empty)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} cannot be written: {reason}") from None


_HEADER = 100  # Bytes of the header of an SQLite file (its documentation, "Database File Format")


def _check_header(path: Path) -> None:
    """Check that the file is one of ours before SQLite touches it."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    application = int.from_bytes(header[68:72], "big")
    if not header.startswith(b"SQLite format 3\0") or application != APPLICATION:
        raise UsageError(f"{path} is not a results file of simprof: name another file")
    version = int.from_bytes(header[60:64], "big")
    if version != VERSION:
        raise UsageError(
            f"{path} is a results file of version {version}, this simprof uses version {VERSION}: "
            "name a new file"
        )


class _Steps:
    """Counts the steps of statements, and ends one that takes too many."""

    def __init__(self, size: int) -> None:
        self._limit = LEAST_STEPS + (size >> 20)
        self._taken = 0

    def begin(self) -> None:
        self._taken = 0

    def __call__(self) -> bool:
        self._taken += 1
        return self._taken > self._limit


def _authorize(
    action: int, first: str | None, second: str | None, database: str | None, within: str | None
) -> int:
    """Let statements do everything but use views and triggers, which are the file's own code."""
    foreign = within is not None or action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
    return sqlite3.SQLITE_DENY if foreign else sqlite3.SQLITE_OK


def _connect(path: Path, how: str) -> tuple[sqlite3.Connection, _Steps]:
    """Open a file that anybody may have made: what its schema says is not executed."""
    steps = _Steps(path.stat().st_size)
    uri = f"{path.absolute().as_uri()}?mode={how}"
    connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_authorizer(_authorize)
    connection.set_progress_handler(steps, STEPS)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        names = tuple(row[1] for row in connection.execute("PRAGMA table_info(cells)"))
    except sqlite3.OperationalError as error:
        connection.close()
        raise UsageError(f"{path} cannot be used: {error}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        connection.close()
        raise _damaged(path, error) from None
    if verdict != "ok" or names != _COLUMNS:
        connection.close()
        raise _damaged(path, verdict if verdict != "ok" else "its columns are others")
    return connection, steps


def _damaged(path: Path, reason: object) -> UsageError:
    text = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
    return UsageError(f"{path} is damaged ({text}): restore it, or name a new file")


_RESULT = "document, lists, timing"


def _facts(job: Job, key: CellKey, result: CellDocument) -> Sequence[object]:
    cell = job.cell
    with big_integers():
        document = json.dumps(result.document, separators=(",", ":"))
    return (
        row_key(job, key),
        job.suite,
        job.position,
        job.group,
        cell.benchmark,
        cell.build,
        cell.input,
        cell.kind.value,
        cell.setting.mode,
        cell.setting.label,
        json.dumps(options(cell.setting)),
        json.dumps(all_options(cell.setting)),
        key.program,
        job.compiler,
        json.dumps(key.arguments),
        json.dumps(key.environment),
        key.stdin,
        key.files,
        key.max_instructions,
        key.simprof,
        key.engine,
        key.cost_model,
        document,
        result.lists,
    )
