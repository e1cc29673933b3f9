"""The view `results` of a sweep's file: what its documentation shows, older files, pandas."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest

from simprof.profiler import cli
from simprof.profiler.experiments.cells.cells import Cell, CellResult, Job
from simprof.profiler.experiments.cells.settings import combinations
from simprof.profiler.experiments.cells.store import Store, columns, figures
from simprof.profiler.experiments.reports.suites import render_sweep
from simprof.profiler.profiles.codec import big_integers

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "EXPERIMENTS.md").read_text()
SECTION = PAGE.split("### In SQL\n")[1]
SHOWN = re.findall(r"```sql\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the sweep that the page shows."""
    path = tmp_path_factory.mktemp("sweep") / "sweep.db"
    (words,) = re.findall(r"^    simprof (sweep .*?)-o sweep\.db$", SECTION, re.DOTALL | re.M)
    given = [
        str(ROOT / word) if word.endswith(".elf") else word
        for word in words.replace("\\", "").split()
    ]
    assert cli.run([*given, "-o", str(path)]) == 0
    return path


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


@pytest.mark.long
def test_queries_answer_what_the_page_shows(swept: Path) -> None:
    assert len(SHOWN) == 3
    with opened(swept) as connection:
        for query, answer in SHOWN:
            rows = connection.execute(query).fetchall()
            assert ["|".join(map(str, row)) for row in rows] == answer.splitlines()


@pytest.mark.long
def test_what_a_mode_can_lose_is_a_number_and_null_elsewhere(swept: Path) -> None:
    with opened(swept) as connection:
        rows = connection.execute("SELECT DISTINCT mode, cold_paths FROM results ORDER BY mode")
        assert rows.fetchall() == [("pp", None), ("qpt2", None), ("tpp", 0)]
    stored = [zlib.compress(json.dumps(result).encode()) for result in
              ({"base": 5, "lost": {}}, {"base": 5, "lost": {"cold_paths": 0}},
               {"base": 0, "lost": {}})]  # fmt: skip
    place = columns().index("cold_paths")
    assert [figures("k", "tpp", each)[place] for each in stored] == [0, 0, None]


def test_options_that_were_asked_for_are_there_though_they_are_defaults() -> None:
    place = columns().index("options")
    assert json.loads(str(figures("k", "tpp:cold=5", b"")[place])) == {"cold": 5}
    assert json.loads(str(figures("k", "tpp:cold=0", b"")[place])) == {"cold": 0, "loop": 0}


def test_the_closing_table_has_every_setting_and_program(tmp_path: Path) -> None:
    settings = list(combinations([f"tpp:cold={cold}" for cold in range(11)]))
    results = {
        Job(Cell(f"program{number}", each), tmp_path): CellResult(base=1000, added=number)
        for number in range(25)
        for each in settings
    }
    text = render_sweep(results, tmp_path, 1000, color=False)
    assert all(re.search(rf"\b{each.label}\b", text) for each in settings)
    assert all(len(re.findall(rf"^program{n} ", text, re.MULTILINE)) == 2 for n in range(25))
    assert "more" not in text


@pytest.mark.long
def test_every_column_is_documented(swept: Path) -> None:
    with opened(swept) as connection:
        names = [row[0] for row in connection.execute("SELECT * FROM results").description]
    table = PAGE.split("| column of `results` |")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(names)


def test_pandas_reads_plain_columns_that_are_the_results(swept: Path) -> None:
    with opened(swept) as connection:
        frame = pd.read_sql("SELECT * FROM results", connection)
    found = {(row["benchmark"], row["mode"]): row for row in frame.to_dict("records")}
    with Store(swept) as store:
        results = store.cells()
    assert len(frame) == len(found) == len(results) == 6
    for cell, result in results.items():
        row = found[cell.benchmark, cell.setting.mode]
        assert (row["base"], row["added"]) == (result.base, result.added)
        assert row["overhead"] == result.overhead
        assert row["code_bytes"] == result.sizes["code_bytes"]
        assert row["blocks"] == result.counts["blocks"]


def test_an_older_file_gets_the_view_with_all_its_rows(swept: Path, tmp_path: Path) -> None:
    """One without it, and one that another simprof made with other columns."""
    whole = swept.read_bytes()
    for changed in (
        "DROP VIEW results; DROP TABLE figures;",
        "DROP VIEW results; DROP TABLE figures; CREATE TABLE figures (key TEXT, other);"
        "CREATE VIEW results AS SELECT * FROM figures;",
        "DELETE FROM figures WHERE mode = 'pp';",
    ):
        old = tmp_path / "old.db"
        old.write_bytes(whole)
        with opened(old) as connection:
            before = connection.execute("SELECT * FROM results").fetchall()
            connection.executescript(changed)
        with Store(old) as store:
            store.put(())
        with opened(old) as connection:
            assert connection.execute("SELECT * FROM results").fetchall() == before


def test_rows_that_are_forgotten_are_in_no_figures(swept: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(swept.read_bytes())
    with Store(copy) as store:
        with opened(copy) as connection:
            keys = [row[0] for row in connection.execute("SELECT key FROM cells")]
        store.forget(keys[:2])
    with opened(copy) as connection:
        assert connection.execute("SELECT count(*) FROM figures").fetchone() == (len(keys) - 2,)


def test_a_view_that_lacks_a_column_is_made_again(swept: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    old.write_bytes(swept.read_bytes())
    with opened(old) as connection:
        connection.executescript("DROP VIEW results; CREATE VIEW results AS SELECT * FROM figures;")
    with Store(old) as store:
        store.put(())
    query = "SELECT * FROM results ORDER BY key"
    with opened(old) as changed, opened(swept) as kept:
        assert changed.execute(query).fetchall() == kept.execute(query).fetchall()


def test_rows_have_the_digests_of_program_and_input(swept: Path, tmp_path: Path) -> None:
    with opened(swept) as connection:
        rows = dict(
            connection.execute("SELECT benchmark, program FROM results WHERE input_sha256 IS NULL")
        )
    programs = {name: ROOT / "fixtures" / "bin" / "v9" / f"{name}.elf" for name in rows}
    assert rows == {name: sha256(path.read_bytes()).hexdigest() for name, path in programs.items()}
    assert len(rows) == 2
    with Store(swept) as store:
        assert {each.benchmark: each.program for each in store.files("")} == rows


def test_what_is_damaged_or_too_large_does_not_stop_others(swept: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(swept.read_bytes())
    with opened(copy) as connection:
        connection.execute("DELETE FROM figures")
        connection.execute("UPDATE cells SET result = x'00' WHERE setting = 'pp'")
        connection.execute("UPDATE cells SET setting = 'unknown:a=b' WHERE setting = 'tpp'")
    with Store(copy) as store:
        store.put(())
    with opened(copy) as connection:
        query = "SELECT mode, options, blocks IS NULL FROM results GROUP BY mode ORDER BY mode"
        rows = connection.execute(query).fetchall()
    assert rows == [("pp", "{}", 1), ("qpt2", "{}", 0), ("unknown", '{"a": "b"}', 0)]


def test_numbers_that_sqlite_lacks_are_near() -> None:
    from simprof.profiler.profiles.codec import encode

    with big_integers():
        plain = encode(CellResult(counts={"blocks": 1 << 80}))
        row = figures("k", "pp:path-limit=7", zlib.compress(json.dumps(plain).encode()))
    named = dict(zip(columns(), row, strict=True))
    assert named["blocks"] == float(1 << 80)
    assert (named["mode"], named["options"]) == ("pp", '{"path_limit": 7}')
    assert named["transfers"] is None


def test_options_are_called_what_stands_behind_a_mode() -> None:
    row = figures("k", "kiter:k=3:k-of=main=4:hash-above=6", b"")
    named = dict(zip(columns(), row, strict=True))
    assert json.loads(str(named["options"])) == {"k": 3, "k_of": "main=4", "hash_above": 6}
    assert (named["option_k"], named["option_k_of"], named["option_hash_above"]) == (3, "main=4", 6)
    assert "option_iterations" not in named
    traced = dict(zip(columns(), figures("k", "fifo", b""), strict=True))
    assert (traced["option_k"], traced["option_k_of"]) == (8, None)
    absent = dict(zip(columns(), figures("k", "absent:cold-always:k=2", b""), strict=True))
    assert absent["options"] == '{"cold_always": true, "k": "2"}'


def test_a_file_with_the_names_of_an_older_simprof_is_read_and_gets_new_ones(
    swept: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old.db"
    old.write_bytes(swept.read_bytes())
    with opened(old) as connection:
        connection.executescript(
            "DROP VIEW results; ALTER TABLE figures RENAME option_k TO option_iterations;"
            "ALTER TABLE figures RENAME option_k_of TO option_iterations_of;"
            "CREATE VIEW results AS SELECT cells.*, figures.* FROM cells JOIN figures USING (key);"
        )
    with Store(swept) as first, Store(old) as second:
        assert second.cells() == first.cells()
        second.put(())
    queries = "SELECT * FROM results ORDER BY key", "SELECT option_k, option_k_of FROM results"
    for query in queries:
        with opened(old) as changed, opened(swept) as kept:
            assert changed.execute(query).fetchall() == kept.execute(query).fetchall()


def test_options_are_columns_with_their_defaults(swept: Path) -> None:
    names = "option_path_limit, option_cold, option_cold_always, option_weights, option_user_only"
    query = f"SELECT mode, {names} FROM results WHERE benchmark = 'loops' ORDER BY mode"
    with opened(swept) as connection:
        rows = connection.execute(query).fetchall()
    assert rows == [
        ("pp", 100_000_000, None, None, "heuristic", 0),
        ("qpt2", None, None, None, "heuristic", 0),
        ("tpp", 100_000_000, 5.0, 0, "heuristic", 0),
    ]
