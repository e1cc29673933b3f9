"""The view `results` of a sweep's file: what its documentation shows, older files, pandas."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest

from simprof.profiler import cli
from simprof.profiler.experiments.cells.cells import Cell, Job, missing_key
from simprof.profiler.experiments.cells.settings import combinations, parse
from simprof.profiler.experiments.cells.store import Store, all_options, options
from simprof.profiler.experiments.reports.suites import render_sweep
from simprof.simulator.errors import UsageError
from tests.support.report_tables import document_of

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


def test_options_that_were_asked_for_are_there_though_they_are_defaults() -> None:
    assert options(parse("tpp:cold=5")) == {"cold": 5}
    assert options(parse("tpp:cold=0")) == {"cold": 0, "loop": 0}


def test_the_closing_table_has_every_setting_and_program(tmp_path: Path) -> None:
    settings = list(combinations([f"tpp:cold={cold}" for cold in range(11)]))
    results = {
        Job(Cell(f"program{number}", each), tmp_path): document_of(base=1000, added=number)
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


def test_the_view_of_another_simprof_is_made_again(swept: Path, tmp_path: Path) -> None:
    """One that has other columns, and where there is none."""
    old = tmp_path / "old.db"
    for changed in ("", "CREATE VIEW results AS SELECT key FROM cells"):
        old.write_bytes(swept.read_bytes())
        with opened(old) as connection:
            connection.executescript(f"DROP VIEW results; {changed}")
        with Store(old) as store:
            store.put(())
        query = "SELECT * FROM results ORDER BY key"
        with opened(old) as found, opened(swept) as kept:
            assert found.execute(query).fetchall() == kept.execute(query).fetchall()


def test_a_file_that_is_read_is_not_written(swept: Path) -> None:
    with Store(swept, create=False) as store, pytest.raises(UsageError, match="readonly"):
        store.forget(["a key"])


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
        connection.execute("UPDATE cells SET document = '{' WHERE mode = 'pp'")
        connection.execute("UPDATE cells SET document = x'00' WHERE mode = 'tpp'")
        query = "SELECT mode, blocks IS NULL FROM results GROUP BY mode ORDER BY mode"
        assert connection.execute(query).fetchall() == [("pp", 1), ("qpt2", 0), ("tpp", 1)]


def test_numbers_that_sqlite_lacks_are_near(tmp_path: Path) -> None:
    path, job = tmp_path / "sweep.db", Job(Cell("p", parse("pp:path-limit=7")), tmp_path)
    with Store(path) as store:
        store.put([(job, missing_key(job), document_of(counts={"blocks": 1 << 80}))])
        assert store.cells()[job.cell].counts["blocks"] == 1 << 80
    query = "SELECT blocks, mode, options, option_path_limit, transfers FROM results"
    with opened(path) as connection:
        row = connection.execute(query).fetchone()
    assert row == (float(1 << 80), "pp", '{"path_limit": 7}', 7, None)


def test_options_are_called_what_stands_behind_a_mode() -> None:
    setting = parse("kiter:k=3:k-of=main=4:hash-above=6")
    assert options(setting) == {"k": 3, "k_of": "main=4", "hash_above": 6}
    assert all_options(setting).items() > options(setting).items()
    assert all_options(parse("fifo"))["k"] == 8


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
