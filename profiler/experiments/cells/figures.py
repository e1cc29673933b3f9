"""The view `results` of a results file: a row a cell, a plain column a figure, for people with SQL.

Everything that a cell found is in `cells.result`, which only simprof reads. The table `figures`
repeats the totals, and the view joins them with the cell's names. Both are made from `cells`, when
something is written: in files of an older simprof, too, and for the rows that one has written.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from simprof.profiler.experiments.cells.settings import cell_options, parse, parse_options, reads
from simprof.profiler.profiles.codec import big_integers, parse_json
from simprof.profiler.request.request import OptionValue
from simprof.profiler.schemes.definition import plain as as_shown
from simprof.simulator.errors import UsageError

LARGEST = (1 << 63) - 1
"""The largest whole number that SQLite keeps; larger ones are kept as floating point."""
LARGEST_RESULT = 1 << 26
"""Bytes of a cell's result, unpacked: a damaged or hostile file must not fill the memory."""


class Figure(NamedTuple):
    """A column: its name, where it is in a result, and what it means."""

    name: str
    place: tuple[str, ...]
    meaning: str


FIGURES = (
    Figure("reason", ("reason",), "how the run ended: `exit`, `signal`, `fault`, `budget`"),
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
    Figure("snippets", ("sizes", "snippets"), "pieces of code added"),
    Figure("code_bytes", ("sizes", "code_bytes"), "bytes of code added"),
    Figure("trace_bits", ("sizes", "trace_bits"), "bits of trace"),
    Figure("executed_paths", ("facts", "paths"), "different paths executed"),
    Figure("path_executions", ("facts", "executions"), "executions of paths"),
    Figure("cold_paths", ("lost", "cold_paths"), "path executions not told apart"),
    Figure(
        "flow_blocks", ("lost", "flow_blocks"), "blocks of all paths, where a judge counts them"
    ),
    Figure("overcounted_blocks", ("lost", "overcounted_blocks"), "of them counted too much"),
    Figure("undercounted_blocks", ("lost", "undercounted_blocks"), "of them not counted"),
    Figure("unknown_edges", ("lost", "unknown_edges"), "edges without a count"),
    Figure("predicted", ("counts", "predicted"), "of `execute`: what was predicted to be added"),
    Figure("rewriting", ("counts", "rewriting"), "of `execute`: what rewriting executes besides"),
)

NAMES = (
    "suite", "category", "benchmark", "build", "input", "kind",
)  # fmt: skip


def option_columns() -> tuple[str, ...]:
    """Return the columns of options: one for each that a cell can have, with schemes' own."""
    return tuple(f"option_{name}" for name in cell_options())


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
    cells.program, cells.compiler, cells.simprof, cells.cost_model, cells.key
FROM cells LEFT JOIN figures USING (key) LEFT JOIN times USING (key)
ORDER BY cells.suite, cells.position, cells.benchmark, cells.input, cells.setting
"""


def keep_up(connection: sqlite3.Connection) -> None:
    """Make table and view where they are not, or those of another simprof; add the missing rows.

    `connection`: A results file, in a transaction.
    """
    found = tuple(row[1] for row in connection.execute("PRAGMA table_info(figures)"))
    wanted = columns()
    if found != wanted:
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
    mode, _, _ = setting.partition("[")
    values = (_value(plain, figure.place) for figure in FIGURES)
    return (key, mode, json.dumps(_options(setting)), *_effective(setting), *values)


def _effective(text: str) -> list[OptionValue | None]:
    """Return the value of every option in a setting, its default where none is given.

    None: the mode does not read the option, or this simprof does not have the mode.
    """
    known = cell_options()
    try:
        setting = parse(text)
    except UsageError:
        return [None] * len(known)
    given, read = dict(setting.options), reads(setting.mode)
    return [
        as_shown(given.get(name, option.default)) if name in read else None
        for name, option in known.items()
    ]


def _options(setting: str) -> dict[str, object]:
    """Return the options of a setting; as text where this simprof does not have its mode."""
    try:
        return dict(parse(setting).options)
    except UsageError:
        return dict(parse_options(setting.partition("[")[2].removesuffix("]")))


def _value(plain: Mapping[str, Any], place: tuple[str, ...]) -> object:
    found: Any = plain
    for step in place:
        found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, int) and abs(found) > LARGEST:
        return float(found)
    return None if found == "" else found
