"""Targets that read what simprof has written of results: profiles, baselines, sweeps, suites."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tools.fuzzing import commands, corpus
from tools.fuzzing.framed import mutate_profile
from tools.fuzzing.mutation import NUMBERS, VALUES, json_text, mutate_bytes, mutate_words
from tools.fuzzing.worker import Target

PROGRAM = "tests/corpora/dwarf/dwarf5.elf"


def read_profile(data: bytes, where: Path) -> Hashable:
    """Do one of the things that are done with saved profiles."""
    path, out = where / "profile", where / "out"
    path.write_bytes(data)
    good = corpus.CORPORA / "profile" / "seed-pp"
    ways: list[tuple[str | Path, ...]] = [
        ("show", "--details", path),
        ("show", "--json", path),
        ("show", "--html", where / "page", path),
        *(("show", path, view) for view in ("routines", "edges", "paths")),
        *(("show", "--json", path, view) for view in ("routines", "edges", "paths")),
        ("show", "--csv", path, "routines"),
        ("show", path, "source"),
        ("show", "--code", path, "source", "*"),
        ("show", "--json", path, "source"),
        ("diff", path, good),
        ("diff", "--json", good, path),
        ("merge", path, path, "-o", out),
        ("merge", path, good, "-o", out),
        ("graph-weights",),
    ]
    from simprof.profiler.exports.formats import FORMATS

    for name, form in FORMATS.items():
        ways += [
            ("export", "--format", name, *(("--table", table) if table else ()), "-o", out, path)
            for table in form.tables or ("",)
        ]
    way = ways[commands.chosen(data, len(ways))]
    if way[0] == "graph-weights":
        return _guide(path)
    return " ".join(word for word in way if isinstance(word, str)), commands.run(way)


def load_profile(data: bytes, where: Path) -> Hashable:
    """Read a saved profile, and nothing else."""
    from simprof.profiler.profiles.storage import from_bytes

    return from_bytes(data, "the profile").mode


def _guide(path: Path) -> Hashable:
    """Have a profile guide a scheme: its counts as weights of a program's edges."""
    return "instrument", commands.run(
        ("instrument", "--mode=tpp", "--edge-profile", path, "-o", path.with_name("o"), PROGRAM)
    )


def read_baseline(data: bytes, where: Path) -> Hashable:
    """Read a baseline, write it again, compare it with a good one, and report what differs."""
    from simprof.profiler.experiments.regress import file
    from simprof.profiler.experiments.regress.regress import Check, CheckLimits, compare_runs
    from simprof.profiler.experiments.reports import regress

    path = where / "baseline"
    path.write_bytes(data)
    found = file.load(path)
    again = file.from_text(file.to_text(found), "again")
    assert again == found, "read, written and read again, it is another"
    good = file.load(corpus.CORPORA / "baseline" / "seed")
    for old, new in ((found, good), (good, found)):
        check = Check("baseline", tuple(compare_runs(old, new, CheckLimits(None))), new)
        regress.render_text(check, 80, color=False)
        for render in (regress.render_json, regress.render_junit, regress.render_markdown):
            render(check)
    return len(found.runs), len(found.settings)


def read_sweep(data: bytes, where: Path) -> Hashable:
    """Open a results file, and read all of it; then have a table made of it."""
    from simprof.profiler.experiments.cells.store import Store

    path = where / "sweep.db"
    for old in where.glob("sweep.db*"):
        old.unlink()
    path.write_bytes(data)
    with Store(path, create=False) as store:
        cells, rows, known = store.cells(), store.rows(), store.benchmarks()
    commands.run(("table", "overheads", "--from", path))
    return len(cells), len(rows), len(known)


def mutate_sweep(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change values in a results file, with SQL; sometimes its bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, data, other)
    connection = sqlite3.connect(":memory:")
    try:
        with suppress(sqlite3.Error, UnicodeError, OverflowError):
            connection.deserialize(data)
            connection.execute("PRAGMA ignore_check_constraints = ON")
            for _ in range(1 + int(rng.expovariate(0.9))):
                _change_cell(rng, connection)
            connection.commit()
            return connection.serialize()
    finally:
        connection.close()
    return mutate_bytes(rng, data, other)


def _change_cell(rng: Random, connection: sqlite3.Connection) -> None:
    tables = [row[0] for row in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]  # fmt: skip
    table = rng.choice(tables)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info('{table}')")]
    column = rng.choice(columns)
    rows = connection.execute(f"SELECT rowid, {column} FROM '{table}'").fetchall()
    if not rows:
        return
    number, value = rng.choice(rows)
    query = f"UPDATE OR IGNORE '{table}' SET {column} = ? WHERE rowid = ?"
    connection.execute(query, (_other_cell(rng, value), number))


def _other_cell(rng: Random, value: Any) -> Any:
    if isinstance(value, bytes):
        with suppress(zlib.error):
            return zlib.compress(json_text(rng, zlib.decompress(value), b"{}"))
        return mutate_bytes(rng, value, value)
    choice = rng.random()
    if isinstance(value, str) and choice < 0.5:
        text = json_text(rng, value.encode(), b"{}") if value[:1] in "[{" else None
        return (text or mutate_bytes(rng, value.encode(), b"x")).decode("latin-1")
    if choice < 0.7:
        return rng.choice((rng.choice(NUMBERS) % (1 << 63), -1, 0, 0.5, b"\0", "", None))
    found = rng.choice(VALUES)
    if isinstance(found, int) and not -(1 << 63) <= found < 1 << 63:
        return 0
    return found if isinstance(found, str | int | float | None) else b"\x78\x9c"


def read_suite(data: bytes, where: Path) -> Hashable:
    """Read a suite, a grid of a sweep, and a suite's listing."""
    path = where / "suite.toml"
    path.write_bytes(data)
    if b"[[benchmark]]" in data or b"[[manifest]]" in data:
        from simprof.profiler.experiments.reports.suites import render_suite
        from simprof.profiler.experiments.suites.suite_file import read_suite as read

        suite = read(path)
        render_suite(suite, 80)
        return len(suite.benchmarks)
    from simprof.profiler.experiments.cells.sweep import read_grid

    grid = read_grid(path)
    return len(grid.settings()), len(grid.programs)


TARGETS = (
    Target("profile", "saved profiles: reports, lists, exports, differences, merged", read_profile,
           mutate_profile, commands.prepare, accept=load_profile),
    Target("baseline", "baselines, and what is compared with them", read_baseline, mutate_words),
    Target("sweep", "results files of sweeps, and tables made of them", read_sweep, mutate_sweep,
           commands.prepare),
    Target("suite", "suites and grids of sweeps", read_suite, mutate_words, commands.prepare),
)  # fmt: skip
