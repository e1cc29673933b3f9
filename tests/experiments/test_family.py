"""The table of all schemes: means over programs, and what is known of profiles that none judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from simprof.profiler.experiments.cells.cells import Cell, CellDocument, failure
from simprof.profiler.experiments.tables.others import PUBLISHED, family
from simprof.profiler.experiments.tables.results import tables
from simprof.profiler.experiments.tables.spec import SuiteMember, View, make
from simprof.profiler.experiments.tables.table import ReportTable, Value
from simprof.profiler.profiles.measures import Quality
from simprof.profiler.schemes import registry
from tests.support.report_tables import document_of

COUNTS = {"path_increments": 0, "hashed_increments": 0, "edge_increments": 0}
PROGRAMS = [SuiteMember("one"), SuiteMember("two")]


def ran(added: int, paths: int = 0, hashed: int = 0, edges: int = 0, **more: Any) -> CellDocument:
    counts = {"path_increments": paths, "hashed_increments": hashed, "edge_increments": edges}
    plain: dict[str, Any] = {
        k: v.as_json() if isinstance(v, Quality) else v for k, v in more.items()
    }
    return document_of(base=1000, added=added, counts=counts, **plain)


def table_of(results: Mapping[str, Mapping[str, CellDocument]]) -> ReportTable:
    """The table of results by program and mode."""
    cells: dict[Cell, CellDocument] = {}
    for program, found in results.items():
        for mode, result in found.items():
            cells[View().cell(family().needs[mode], program)] = result
    return make(family(), PROGRAMS, cells, View())


def by_scheme(table: ReportTable) -> dict[Value, dict[str, Value]]:
    return {row.values[0]: table.by_key(row) for row in table.made}


def test_rows_are_schemes_and_numbers_means_over_programs() -> None:
    of_edges = Quality("pp", accuracy=0.5, coverage=0.25)
    found = by_scheme(
        table_of(
            {
                "one": {
                    "pp": ran(
                        500,
                        80,
                        20,
                        20,
                        sizes={"counter_bytes": 100},
                        edge_quality=of_edges,
                    ),
                    "tpp": ran(100, 10, quality=Quality("pp", accuracy=1.0, coverage=0.9)),
                    "qpt2": ran(400, edges=50, sizes={"counter_bytes": 8}),
                    "qpt": ran(800, edges=90, lost={"unknown_edges": 3}),
                    "witness": ran(900),
                },
                "two": {
                    "pp": ran(300, 40, sizes={"counter_bytes": 51}, edge_quality=of_edges),
                    "tpp": ran(200, 30, quality=Quality("pp", accuracy=0.5, coverage=0.8)),
                    "qpt2": ran(200, edges=10),
                },
            }
        )
    )
    assert list(found) == [
        mode for mode in registry.planned_modes() if mode in ("pp", "qpt2", "qpt", "witness", "tpp")
    ]
    assert found["pp"] == {
        "scheme": "pp", "overhead": 40.0, "increments": 70.0, "hashed": 10.0, "bytes": 76,
        "accuracy": 100.0, "coverage": 100.0, "published": PUBLISHED["pp"].short,
    }  # fmt: skip
    assert found["tpp"]["accuracy"] == 75.0
    assert found["tpp"]["coverage"] == pytest.approx(85.0)
    assert (found["qpt2"]["accuracy"], found["qpt2"]["coverage"]) == (50.0, 25.0)
    assert (found["qpt2"]["bytes"], found["qpt2"]["hashed"]) == (8, None)
    assert (found["qpt"]["accuracy"], found["qpt"]["overhead"]) == (None, 80.0)
    assert (found["witness"]["accuracy"], found["witness"]["increments"]) == (100.0, None)
    assert found["witness"]["published"] is None


def test_a_program_that_fails_is_said_and_counts_nowhere() -> None:
    fine = {"pp": ran(500, 80), "qpt2": ran(400, edges=50)}
    table = table_of({"one": fine, "two": {"pp": failure("no such file"), "qpt2": ran(100)}})
    found = by_scheme(table)
    assert found["pp"]["overhead"] == 50.0
    assert found["qpt2"]["overhead"] == 25.0
    assert table.failures == (("two", "no such file"),)


def test_programs_without_any_result_have_failed() -> None:
    table = table_of({"one": {"pp": ran(500, 80)}})
    assert [name for name, _ in table.failures] == ["two"]
    assert table_of({}).made == ()


def test_it_has_every_mode_and_marks_what_was_published() -> None:
    assert tables()["family"] is family()
    assert set(family().needs) == set(registry.planned_modes())
    assert all(each.short[-3:] in ("[A]", "[M]", "[S]") for each in PUBLISHED.values())
