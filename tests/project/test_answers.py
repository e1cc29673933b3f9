"""Comparing what two versions answer: all that differs is told, but for keys that are left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import answers

BEFORE: dict[str, Any] = {
    "schema": "simprof/run/2",
    "simprof": {"version": "1"},
    "routines": [{"name": "main", "count": 3}, {"name": "f", "count": 0}],
    "paths": [],
}


def compared(tmp_path: Path, after: object, *left_out: str) -> int:
    for name, document in (("before", BEFORE), ("after", after)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps(document))
    return answers.compare(tmp_path / "before", tmp_path / "after", left_out)


def test_equal_results_are_no_difference(tmp_path: Path) -> None:
    assert compared(tmp_path, BEFORE) == 0


def test_another_count_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    routines = [{"name": "main", "count": 4}, {"name": "f", "count": 0}]
    assert compared(tmp_path, {**BEFORE, "routines": routines}) == 1
    assert "a.json: routines[0].count: 3 -> 4" in capsys.readouterr().out


def test_what_stands_under_a_key_may_be_left_out(tmp_path: Path) -> None:
    assert compared(tmp_path, {**BEFORE, "simprof": {"version": "2"}}, "simprof") == 0


def test_a_value_that_one_version_lacks_is_a_difference(tmp_path: Path) -> None:
    assert compared(tmp_path, {**BEFORE, "simprofs": 1}, "simprof") == 1


def test_a_result_that_one_version_lacks_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "b.json").write_text("{}")
    assert answers.compare(tmp_path / "before", tmp_path / "after") == 1


def test_everything_that_is_committed_is_recorded() -> None:
    jobs = [*answers.fixture_jobs(), *answers.suite_jobs()]
    programs = {job.program[0] for job in jobs}
    assert len(programs) == 57 + 27
    assert len({job.name for job in jobs}) == len(jobs)
    assert {job.program[0] for job in jobs if job.command == ("compare",)} == programs
