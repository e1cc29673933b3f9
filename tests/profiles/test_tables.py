"""Rows of profiles: what is not known is None, which is not a count of 0."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.profiles import tables
from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.profiles.profile import RoutineProfile
from simprof.simulator.binary.program import SourceLine
from tests.support.samples import measurement, routine


def executed_paths(profile: RoutineProfile) -> object:
    found = tables.table(measurement(routines=(profile,)), "routines")
    names = [column.name for column in found.columns]
    return found.rows[0][names.index("executed_paths")]


@pytest.mark.parametrize(("numbered", "executed"), [(None, None), (4, 0)])
def test_executed_paths_are_unknown_where_the_scheme_counts_none(
    numbered: int | None, executed: int | None
) -> None:
    assert executed_paths(routine(numbered_paths=numbered, path_counts=())) == executed


def test_path_coverage_is_what_was_executed_of_the_paths_told_apart() -> None:
    whole = routine().path_counts
    counts = (*whole[:2], replace(whole[2], count=0), replace(whole[0], id=None, partial=True))
    for numbered, covered in ((8, 0.25), (2, 1.0), (None, None)):
        profile = routine(numbered_paths=numbered, path_counts=counts)
        found = tables.table(measurement(routines=(profile,)), "routines")
        names = [column.name for column in found.columns]
        assert found.rows[0][names.index("path_coverage")] == covered


# By kind: values that there are, None among them
VALUES: dict[tables.ColumnKind, tuple[Any, ...]] = {
    tables.ColumnKind.WHOLE: (0, 2**62, None),
    tables.ColumnKind.LONG: (10**6000, 7, None),
    tables.ColumnKind.NUMBER: (0.1, 0.0, None),
    tables.ColumnKind.TEXT: ('a "quoted" \\ 100 % \N{GREEK SMALL LETTER ALPHA}\n', "", None),
    tables.ColumnKind.FLAG: (True, False, None),
    tables.ColumnKind.ADDRESS: (0x101918, 0, None),
    tables.ColumnKind.BLOCK: (VertexName(16, True), VertexName('l"%s\u00e9'), None),
    tables.ColumnKind.BLOCKS: ((VertexName(16), VertexName("a")), (), None),
    tables.ColumnKind.LINES: ((SourceLine("a.c", 3), SourceLine('"%', 4)), (), None),
    tables.ColumnKind.POSITIONS: ((0, 3), (), None),
}


@pytest.mark.long
def test_rows_in_json_are_those_that_the_json_module_writes() -> None:
    assert set(VALUES) == set(tables.ColumnKind)
    columns = tuple(tables.DataColumn(f"{kind.name} 100 %", kind) for kind in VALUES)
    some = tuple(zip(*VALUES.values(), strict=True))
    rows = some * 1500  # several of the pieces in which they are written
    objects = [
        {
            column.name: (tables.listed if column.kind in tables.LISTS else tables.cell)(
                column, value
            )
            for column, value in zip(columns, row, strict=True)
        }
        for row in some
    ]
    pieces = list(tables.json_rows(columns, rows))
    assert len(pieces) > 1
    with big_integers():
        assert f"[{', '.join(pieces)}]" == json.dumps(objects * 1500)
    assert list(tables.ProfileTable("t", columns, some).objects()) == objects
    assert not list(tables.json_rows(columns, ()))
