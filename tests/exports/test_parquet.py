"""`simprof export --format parquet`: pandas reads the tables back as they are."""

from __future__ import annotations

import io
import sys

import pandas as pd
import pytest
from msgspec.structs import replace

from simprof.profiler.exports.formats import ExportSource, export, find
from simprof.profiler.profiles import tables
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.tables import ColumnKind
from simprof.profiler.reports.listings import RowChoice, listing
from simprof.simulator.errors import UsageError
from tests.support.hostile_profile import hostile_measurement
from tests.support.samples import measurement


def read_back(whole: RunMeasurement, name: str) -> pd.DataFrame:
    content = export(find("parquet"), ExportSource(whole, table=name))
    return pd.read_parquet(io.BytesIO(content))


def plain(cell: object) -> object:
    """A cell as Python has it: pandas gives NaN where there is no number or text."""
    return None if pd.isna(cell) else cell  # type: ignore[call-overload]


@pytest.mark.parametrize("name", tables.NAMES)
@pytest.mark.parametrize("whole", [measurement(), hostile_measurement()], ids=["plain", "hostile"])
def test_pandas_reads_the_same_back(whole: RunMeasurement, name: str) -> None:
    expected = listing(name, whole, RowChoice()).table
    frame = read_back(whole, name)
    assert list(frame.columns) == [column.name for column in expected.columns]
    assert len(frame) == len(expected.rows)
    for place, column in enumerate(expected.columns):
        cells: list[object] = [row[place] for row in expected.cells()]
        if column.kind not in (ColumnKind.WHOLE, ColumnKind.NUMBER, ColumnKind.FLAG):
            cells = [
                cell if cell is None else str(cell).encode(errors="backslashreplace").decode()
                for cell in cells
            ]
        assert [plain(cell) for cell in frame[column.name]] == cells, column.name


def test_types_do_not_depend_on_the_rows() -> None:
    empty, full = (
        read_back(measurement(routines=routines), "routines").dtypes.to_dict()
        for routines in ((), measurement().routines)
    )
    whole = {name for name, kind in full.items() if kind == "int64"} - {"line"}
    assert {"entered", "instructions", "added"} <= whole
    assert {empty[name] for name in whole} == {full["entered"]}


def test_path_numbers_of_any_length_are_text() -> None:
    (routine,) = measurement().routines
    (first, *others) = routine.path_counts
    paths = (replace(first, id=10**5000), *others)
    frame = read_back(measurement(routines=(replace(routine, path_counts=paths),)), "paths")
    assert "1" + "0" * 5000 in list(frame["path"])


def test_a_count_beyond_64_bits_is_one_line() -> None:
    (routine,) = measurement().routines
    whole = measurement(routines=(replace(routine, activations=1 << 63),))
    with pytest.raises(UsageError, match=r"^column entered has a number .*: use --format csv$"):
        read_back(whole, "routines")


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"needs pyarrow: `pip install 'simprof\[parquet\]'`"):
        export(find("parquet"), ExportSource(measurement()))
