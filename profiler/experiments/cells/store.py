"""Results of cells in one SQLite file.

Rows of `cells` are facts: the same cell gives the same row on any machine at any time. When a row
was written and how long it took is kept apart, in `times`. Every finished group of cells is one
transaction, so that whatever ends the writer, what was finished is there and nothing else.

Everything that a cell found is in `cells.result`, which only simprof reads. For people with SQL the
table `figures` repeats the totals, and the view `results` joins them with the cell's names. Both
are made from `cells`, when something is written: in files of an older simprof, too.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple, replace

from simprof.profiler.experiments.cells.cells import (
    Cell,
    CellKey,
    CellKind,
    CellResult,
    Job,
    RunFiles,
    Timing,
)
from simprof.profiler.experiments.cells.provenance import Versions, row_key
from simprof.profiler.experiments.cells.settings import (
    cell_options,
    option_words,
    parse,
    reads,
    word_of,
)
from simprof.profiler.profiles import output
from simprof.profiler.profiles.cache_files import own_cache_directory
from simprof.profiler.profiles.codec import big_integers, decode, encode, parse_json
from simprof.profiler.profiles.measures import MEASURES
from simprof.profiler.request.request import OptionValue
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import plain as as_shown
from simprof.profiler.schemes.mode_options import BEFORE_OPTION
from simprof.simulator.errors import UsageError

# The largest whole number that SQLite keeps; larger ones are kept as floating point.
LARGEST = (1 << 63) - 1
# Bytes of a cell's result, unpacked: a damaged or hostile file must not fill the memory.
LARGEST_RESULT = 1 << 26


class Figure(NamedTuple):
    """A column: its name, where it is in a result, and what it means."""

    name: str
    place: tuple[str, ...]
    meaning: str


FIGURES = (
    Figure(
        "reason", ("reason",), "how the run ended: `exit`, `signal`, `fault`, `budget`, `timeout`"
    ),
    Figure("status", ("status",), "its exit status, or 128 plus the signal"),
    Figure("blocks", ("counts", "blocks"), "basic blocks executed"),
    Figure("transfers", ("counts", "transfers"), "edges crossed"),
    Figure("path_increments", ("counts", "path_increments"), "increments of path counters"),
    Figure("hashed_increments", ("counts", "hashed_increments"), "of them through a hash table"),
    Figure("hashing", ("counts", "hashing"), "instructions inside the hashing routine"),
    Figure("edge_increments", ("counts", "edge_increments"), "increments of edge counters"),
    Figure("jumps", ("counts", "jumps"), "executed jumps that code on edges needed"),
    Figure("inferred_paths", ("counts", "inferred_paths"), "path executions known uncounted"),
    Figure("trace_tokens", ("counts", "trace_tokens"), "tokens written to the trace"),
    Figure("system_calls", ("counts", "system_calls"), "system calls"),
    Figure("unattributed_transfers", ("counts", "unattributed_transfers"), "transfers in no graph"),
    Figure(
        "unattributed_instructions",
        ("counts", "unattributed_instructions"),
        "instructions in no graph",
    ),
    Figure("counter_bytes", ("sizes", "counter_bytes"), "bytes of counters"),
    Figure("snippets", ("sizes", "snippets"), "instrumentation sites"),
    Figure("code_bytes", ("sizes", "code_bytes"), "bytes of code added"),
    Figure("trace_bits", ("sizes", "trace_bits"), "bits of trace"),
    Figure("address_bits", ("sizes", "address_bits"), "bits of addresses of data"),
    Figure("executed_paths", ("facts", "paths"), "different paths executed"),
    Figure("path_executions", ("facts", "executions"), "executions of paths"),
    Figure("cold_paths", ("lost", "cold_paths"), "path executions counted together"),
    Figure(
        "flow_blocks", ("lost", "flow_blocks"), "blocks of all paths, where a judge counts them"
    ),
    Figure("overcounted_blocks", ("lost", "overcounted_blocks"), "of them counted too much"),
    Figure("undercounted_blocks", ("lost", "undercounted_blocks"), "of them not counted"),
    Figure("unknown_edges", ("lost", "unknown_edges"), "edges without a count"),
    *(
        Figure(name, ("quality", name), f"{text}, of modes that are judged")
        for name, text in MEASURES.items()
    ),
    Figure("predicted", ("counts", "predicted"), "of `execute`: what was predicted to be added"),
    Figure("rewriting", ("counts", "rewriting"), "of `execute`: what rewriting executes besides"),
)

NAMES = (
    "suite", "category", "benchmark", "build", "input", "kind",
)  # fmt: skip


def option_columns() -> tuple[str, ...]:
    """Return the columns of options: one for each word, with those of schemes' own."""
    return tuple(f"option_{word}" for word in option_words())


def columns() -> tuple[str, ...]:
    """Return the columns of the table `figures`."""
    return ("key", "mode", "options", *option_columns(), *(figure.name for figure in FIGURES))


def _view() -> str:
    return f"""
CREATE VIEW results AS SELECT
    {", ".join(f"cells.{name}" for name in NAMES)},
    figures.mode, figures.options, {", ".join(f"figures.{name}" for name in option_columns())},
    cells.error, cells.base, cells.added,
    CASE WHEN cells.base THEN 1.0 * cells.added / cells.base END AS overhead,
    {", ".join(f"figures.{figure.name}" for figure in FIGURES)},
    json_extract(times.timing, '$.run') AS seconds,
    datetime(times.written, 'unixepoch') AS written,
    cells.program, nullif(cells.stdin, '') AS input_sha256,
    cells.compiler, cells.simprof, cells.cost_model, cells.key
FROM cells LEFT JOIN figures USING (key) LEFT JOIN times USING (key)
ORDER BY cells.suite, cells.position, cells.benchmark, cells.input, cells.setting
"""


def keep_up(connection: sqlite3.Connection) -> None:
    """Make table and view where they are not, or those of another simprof; add the missing rows.

    `connection`: A results file, in a transaction.
    """
    found = tuple(row[1] for row in connection.execute("PRAGMA table_info(figures)"))
    wanted = columns()
    view = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'results'").fetchone()
    if found != wanted or view != (_view().strip(),):
        connection.execute("DROP VIEW IF EXISTS results")
        connection.execute("DROP TABLE IF EXISTS figures")
        others = ", ".join(wanted[1:])
        connection.execute(
            "CREATE TABLE figures (key TEXT PRIMARY KEY REFERENCES cells (key) "
            f"ON DELETE CASCADE, {others})"
        )
        connection.execute(_view())
    missing = connection.execute(
        "SELECT key FROM cells WHERE key NOT IN (SELECT key FROM figures)"
    ).fetchall()
    places = ",".join("?" * len(wanted))
    query = "SELECT key, setting, result FROM cells WHERE key = ?"
    rows = (figures(*connection.execute(query, key).fetchone()) for key in missing)
    connection.executemany(f"INSERT INTO figures VALUES ({places})", rows)


def figures(key: str, setting: str, result: bytes) -> tuple[object, ...]:
    """Return the row of `figures` for one of `cells`."""
    try:
        with big_integers():
            plain = parse_json(zlib.decompressobj().decompress(result, LARGEST_RESULT))
    except (ValueError, TypeError, RecursionError, zlib.error):
        plain = {}  # damaged: an error for those who read it, and not for others
    if not isinstance(plain, dict):
        plain = {}
    mode, _, _ = setting.partition(BEFORE_OPTION)
    scheme = registry.find(mode)
    lost = () if scheme is None else scheme.losses
    nothing: dict[tuple[str, ...], int]
    nothing = {("lost", loss.name): 0 for loss in lost} if plain.get("base") else {}
    found = ((_value(plain, figure.place), figure.place) for figure in FIGURES)
    # A scheme that can lose something and lost nothing may leave it out of its result.
    values = (nothing.get(place) if value is None else value for value, place in found)
    return (key, mode, json.dumps(_options(setting)), *_effective(setting), *values)


def _effective(text: str) -> list[OptionValue | None]:
    """Return the value of every option in a setting, its default where none is given.

    None: the mode does not read the option, or this simprof does not have the mode.
    """
    try:
        setting = parse(text)
    except UsageError:
        return [None] * len(option_words())
    given = dict(setting.options)
    values = {
        word_of(option): as_shown(given.get(option.name, option.default))
        for option in reads(setting.mode)
    }
    return [values.get(word) for word in option_words()]


def _options(setting: str) -> dict[str, object]:
    """Return the options of a setting; as text where this simprof does not have its mode."""
    try:
        chosen = parse(setting)
        words = {option.name: word_of(option) for option in reads(chosen.mode)}
        given = dict(chosen.options)
        given |= {name: cell_options()[name].default for name in chosen.asked if name not in given}
        return {words[name]: as_shown(value) for name, value in given.items()}
    except UsageError:
        parts = (part.partition("=") for part in setting.split(BEFORE_OPTION)[1:])
        return {word.replace("-", "_"): value if equals else True for word, equals, value in parts}


def _value(plain: Mapping[str, Any], place: tuple[str, ...]) -> object:
    found: Any = plain
    for step in place:
        found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, int) and abs(found) > LARGEST:
        return float(found)
    return None if found == "" else found


APPLICATION = 0x53505246  # "SPRF"
VERSION = 2
LARGEST_VALUE = 1 << 25  # Bytes of a value in the file
_MODE = re.compile(r"[a-z][\w-]*")  # What a mode is called, if a file is not damaged
STEPS = 1 << 20  # Steps of SQLite's machine between two looks at how many a statement has taken
# Millions of steps, some seconds, that statements may take on any file; on large ones more.
LEAST_STEPS = 300
PATIENCE = 60.0  # Seconds to wait for another process that writes to the file

_FACTS = (
    "key", "suite", "position", "category", "benchmark", "build", "input", "kind", "setting",
    "program", "compiler", "arguments", "environment", "stdin", "files", "max_instructions",
    "simprof", "engine", "cost_model", "error", "base", "added", "result",
)  # fmt: skip

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE cells (
    key TEXT PRIMARY KEY,             -- digest of everything that decides the result
    suite TEXT NOT NULL, position INTEGER NOT NULL, category TEXT NOT NULL,
    benchmark TEXT NOT NULL, build TEXT NOT NULL, input TEXT NOT NULL,
    kind TEXT NOT NULL, setting TEXT NOT NULL,
    program TEXT NOT NULL,            -- SHA-256 of the ELF file
    compiler TEXT NOT NULL,
    arguments TEXT NOT NULL, environment TEXT NOT NULL, stdin TEXT NOT NULL, files TEXT NOT NULL,
    max_instructions INTEGER,
    simprof TEXT NOT NULL, engine TEXT NOT NULL, cost_model TEXT NOT NULL,
    error TEXT,                       -- NULL where all went well
    base INTEGER NOT NULL, added INTEGER NOT NULL,
    result BLOB NOT NULL              -- zlib'd JSON of a CellResult
);
CREATE TABLE times (
    key TEXT PRIMARY KEY REFERENCES cells (key) ON DELETE CASCADE,
    written REAL NOT NULL,            -- seconds since 1970
    timing TEXT NOT NULL              -- JSON of a Timing
);
"""


def default_store_path() -> Path:
    """Return the file of results that commands share where none is named."""
    return own_cache_directory() / f"cells-{VERSION}.sqlite"


class StoredBenchmark(Struct, frozen=True):
    """A benchmark of which a store has results; `group` is "INT", "FP" or ""."""

    suite: str
    name: str
    group: str


class Store:
    """An open results file; a context manager.

    `path`: The file; it is made where there is none (or an empty one). `create`: False: it must be
    there.

    Raises UsageError if it is not such a file, is damaged, or cannot be used. It is left as it is.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        if not _exists(path):
            if not create:
                raise UsageError(f"{path} does not exist: make it with `simprof sweep -o {path}`")
            _create(path)
        _check_header(path)
        self._connection, self._steps = _connect(path)

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

    def get(self, job: Job, key: CellKey) -> CellResult | None:
        """Return the result of a job, None where there is none."""
        query = "SELECT result, timing FROM cells LEFT JOIN times USING (key) WHERE cells.key = ?"
        with self._guarded():
            row = self._connection.execute(query, (row_key(job, key),)).fetchone()
        return None if row is None else self._unpack(*row)

    def put(self, records: Iterable[tuple[Job, CellKey, CellResult]]) -> None:
        """Add results of jobs in one transaction; those that are there already stay."""
        rows = [
            (
                _facts(job, key, result),
                (row_key(job, key), time.time(), json.dumps(encode(result.timing))),
            )
            for job, key, result in records
        ]
        places = ",".join("?" * len(_FACTS))
        with self._transaction():
            for facts, times in rows:
                self._connection.execute(f"INSERT OR IGNORE INTO cells VALUES ({places})", facts)
                self._connection.execute("INSERT OR IGNORE INTO times VALUES (?,?,?)", times)
            keep_up(self._connection)

    def forget(self, keys: Iterable[str]) -> None:
        """Remove rows by their keys (`provenance.row_key`), so that they are made again."""
        with self._transaction():
            for key in keys:
                self._connection.execute("DELETE FROM times WHERE key = ?", (key,))
                self._connection.execute("DELETE FROM cells WHERE key = ?", (key,))

    def latest(self) -> Versions | None:
        """Return what made the row written last; None where there is none."""
        query = (
            "SELECT simprof, engine, cost_model FROM cells JOIN times USING (key) "
            "ORDER BY written DESC, times.rowid DESC LIMIT 1"
        )
        with self._guarded():
            row = self._connection.execute(query).fetchone()
        return None if row is None else Versions(*row)

    def cells(self, suite: str | None = None) -> Mapping[Cell, CellResult]:
        """Return results by name, those of the latest versions; of equal names the newest.

        `suite`: Name of a suite; None: all.
        """
        rows = self._of_latest(
            "benchmark, setting, input, kind, build, result, timing",
            "AND (suite = ? OR ? IS NULL) ORDER BY written, times.rowid",
            (suite, suite),
        )
        return {self._cell(*row[:-2]): self._unpack(*row[-2:]) for row in rows}

    def files(self, suite: str) -> tuple[RunFiles, ...]:
        """Return what was run, of the latest versions; of equal names the newest."""
        rows = self._of_latest(
            "benchmark, build, input, program, stdin",
            "AND suite = ? ORDER BY written, times.rowid",
            (suite,),
        )
        return tuple({row[:3]: RunFiles(*row) for row in map(self._texts, rows)}.values())

    def benchmarks(self) -> tuple[StoredBenchmark, ...]:
        """Return the benchmarks that rows of the latest versions are of, in their suites' order."""
        rows = self._of_latest(
            "suite, benchmark, category",
            "GROUP BY suite, benchmark ORDER BY suite, min(position), benchmark",
        )
        return tuple(StoredBenchmark(*row) for row in map(self._texts, rows))

    def _of_latest(
        self, columns: str, rest: str, values: tuple[str | None, ...] = ()
    ) -> list[tuple[Any, ...]]:
        """Return columns of the rows of the latest versions; `rest`: of the query."""
        if (newest := self.latest()) is None:
            return []
        query = (
            f"SELECT {columns} FROM cells JOIN times USING (key) "
            f"WHERE (simprof, engine, cost_model) = (?, ?, ?) {rest}"
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

    def _plain(self, blob: bytes) -> bytes:
        try:
            unpacker = zlib.decompressobj()
            plain = unpacker.decompress(blob, LARGEST_RESULT)
        except (TypeError, zlib.error) as error:
            raise _damaged(self.path, error) from None
        if not unpacker.eof:
            raise _damaged(self.path, "a result is cut short or too large")
        return plain

    def _unpack(self, blob: bytes, timing: str | None) -> CellResult:
        with big_integers():
            try:
                result = decode(CellResult, parse_json(self._plain(blob)))
                spent = Timing() if timing is None else decode(Timing, parse_json(timing))
            except (ValueError, TypeError, RecursionError) as error:
                raise _damaged(self.path, error) from None
        return replace(result, timing=spent)

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
        connection.executescript(_SCHEMA)
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
        raise UsageError(f"{path} is no results file of simprof: name another file")
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


def _connect(path: Path) -> tuple[sqlite3.Connection, _Steps]:
    """Open a file that anybody may have made: what its schema says is not executed."""
    steps = _Steps(path.stat().st_size)
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_authorizer(_authorize)
    connection.set_progress_handler(steps, STEPS)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        connection.execute("PRAGMA foreign_keys = ON")
        names = tuple(row[1] for row in connection.execute("PRAGMA table_info(cells)"))
    except sqlite3.OperationalError as error:
        connection.close()
        raise UsageError(f"{path} cannot be used: {error}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        connection.close()
        raise _damaged(path, error) from None
    if verdict != "ok" or names != _FACTS:
        connection.close()
        raise _damaged(path, verdict if verdict != "ok" else "its columns are others")
    return connection, steps


def _damaged(path: Path, reason: object) -> UsageError:
    text = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
    return UsageError(f"{path} is damaged ({text}): restore it, or name a new file")


def _facts(job: Job, key: CellKey, result: CellResult) -> Sequence[object]:
    cell = job.cell
    with big_integers():
        plain = encode(replace(result, timing=Timing()))
        text = json.dumps(plain, separators=(",", ":"), sort_keys=True)
    return (
        row_key(job, key),
        job.suite,
        job.position,
        job.group,
        cell.benchmark,
        cell.build,
        cell.input,
        cell.kind.value,
        cell.setting.label,
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
        result.error,
        result.base,
        result.added,
        zlib.compress(text.encode(), 6),
    )
