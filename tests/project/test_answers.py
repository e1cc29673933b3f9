"""Comparing what two versions answer: known changes of keys are no difference, all else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import answers

BEFORE = {
    "schema": "simprof/run/2",
    "routines": [
        {"name": "main", "address": 16, "count": 3},
        {"name": "f", "address": 32, "count": 0},
    ],
    "paths": [],
    "old": {"of": 1},
}
CHANGES = """
[[change]]
in = ["run"]
was = "routines[].address"
now = "routines[].at"
value = "hex"

[[change]]
in = ["run"]
was = "old"

[[change]]
in = ["run"]
now = "version"
"""


@pytest.fixture
def known(tmp_path: Path) -> list[answers.Change]:
    (tmp_path / "changes.toml").write_text(CHANGES)
    return answers.changes(tmp_path / "changes.toml")


def compared(tmp_path: Path, after: object, known: list[answers.Change]) -> int:
    for name, document in (("before", BEFORE), ("after", after)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps(document))
    return answers.compare(tmp_path / "before", tmp_path / "after", known)


def renamed(count: int) -> dict[str, object]:
    return {
        "schema": "simprof/run/2",
        "version": {"simprof": "1"},
        "routines": [
            {"name": "main", "at": "0x10", "count": count},
            {"name": "f", "at": "0x20", "count": 0},
        ],
        "paths": [],
    }


def test_known_changes_are_no_difference(tmp_path: Path, known: list[answers.Change]) -> None:
    assert compared(tmp_path, renamed(3), known) == 0


def test_another_count_is_one(
    tmp_path: Path, known: list[answers.Change], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared(tmp_path, renamed(4), known) == 1
    assert "a.json: routines[0].count: 3 -> 4" in capsys.readouterr().out


def test_without_the_list_of_changes_all_are_differences(tmp_path: Path) -> None:
    assert compared(tmp_path, renamed(3), []) == 1


def test_a_result_that_one_version_lacks_is_a_difference(
    tmp_path: Path, known: list[answers.Change]
) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "b.json").write_text("{}")
    assert answers.compare(tmp_path / "before", tmp_path / "after", known) == 1


def test_everything_that_is_committed_is_recorded() -> None:
    jobs = [*answers.fixture_jobs(), *answers.suite_jobs()]
    programs = {job.program[0] for job in jobs}
    assert len(programs) == 57 + 27
    assert len({job.name for job in jobs}) == len(jobs)
    assert {job.program[0] for job in jobs if job.command == ("compare",)} == programs


def test_the_projects_list_of_changes_can_be_read() -> None:
    answers.changes(answers.RENAMED)
