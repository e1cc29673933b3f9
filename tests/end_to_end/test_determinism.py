"""The same answers whatever surrounds simprof: hash seed, locale, directory, processors, ..."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools import determinism
from tools.determinism import PLAIN, Case, answers, cases, compared, differences, forms

Find = Callable[..., Path]


@pytest.mark.long
def test_fixtures_give_the_same_answers_twice(fixture_elf: Find, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    wanted = [
        Case("switches", fixture_elf("switches"), root=files),
        Case("nonlocal", fixture_elf("nonlocal", "v8plus"), status=4),
    ]
    told: list[str] = []
    assert compared(wanted, told.append) == 0, told


@pytest.mark.long
def test_what_differs_is_named(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(PLAIN, environment={**PLAIN.environment, "COLUMNS": "61"})
    monkeypatch.setattr(determinism, "OTHER", other)
    monkeypatch.setattr(determinism, "COMMANDS", {"run": ("run", "--mode=pp")})
    told: list[str] = []
    assert compared([Case("loops", fixture_elf("loops"))], told.append) == 1
    assert told == ["loops, run: report: other bytes"]


def test_the_place_in_json_is_named(tmp_path: Path) -> None:
    for name, text in (("one", '{"a": [1, {"b": 2}]}'), ("other", '{"a": [1, {"b": 3}]}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "json").write_text(text)
        (tmp_path / name / "profile").write_bytes(b"same")
    one, other = tmp_path / "one", tmp_path / "other"
    assert list(differences(one, other)) == ["json: .a[1].b: 2 and 3"]
    shutil.copy(one / "json", other / "json")
    assert list(differences(one, other)) == []
    (other / "profile").unlink()
    assert list(differences(one, other)) == ["profile: other bytes"]


def test_a_program_that_fails_is_no_answer(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(determinism, "COMMANDS", {"run": ("run", "--mode=edges")})
    with pytest.raises(Exception, match=r"^loops, run: exit status 0$"):
        answers([Case("loops", fixture_elf("loops"), status=7)], PLAIN, tmp_path)


@pytest.mark.long
@pytest.mark.toolchain
def test_other_forms_of_programs_give_the_same_answers_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All modes and both commands have the suites' programs: a whole C library takes long.

    Of the programs with threads, one has drawn turns, and one is dynamic.
    """
    told: list[str] = []
    wanted = list(forms(tmp_path))
    assert [each.name for each in wanted] == [
        "forms/leon", "forms/threads", "forms/threads-drawn", "forms/dynamic"
    ]  # fmt: skip
    for name, words, some in (
        ("run", determinism.COMMANDS["run"], wanted[3:]),
        ("compare", (*determinism.COMMANDS["compare"], "--mode", "pp,witness"), wanted[:3:2]),
    ):
        monkeypatch.setattr(determinism, "COMMANDS", {name: words})
        assert compared(some, told.append) == 0, told


@pytest.mark.long
@pytest.mark.parametrize("suite", ["micro", "wcet"])
def test_suites_give_the_same_answers_twice(suite: str) -> None:
    told: list[str] = []
    wanted = list(cases(suite))[:: {"micro": 7, "wcet": 3}[suite]]
    assert compared(wanted, told.append) == 0, told
    assert len(wanted) == 3
