"""Any name of a routine selects it, in every command that selects routines, and in the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import simprof
from simprof.profiler import cli
from simprof.profiler.profiles.storage import load
from tests.support.turns import first

pytestmark = pytest.mark.toolchain

Compile = Callable[..., Path]

SOURCE = """
#include <stdlib.h>
extern "C" __attribute__((noinline)) int task(int n)
{ int sum = 0; for (int i = 0; i < n; i++) sum += i % 3; return sum; }
extern "C" int work(int n) __attribute__((alias("task")));
namespace queue { __attribute__((noinline)) int push(int n) { return n + 1; } }
int main(int argc, char **)
{ void *volatile p = malloc(10 + argc); free(p); return work(argc * 4) - queue::push(argc) - 1; }
"""


@pytest.fixture(scope="module")
def program(compile_c: Compile) -> Path:
    return compile_c(SOURCE, flags=("-O1",), language="c++")


@pytest.mark.long
@pytest.mark.parametrize(
    ("pattern", "name", "alias"),
    first(
        2,
        [
            ("work", "task", "work"),
            ("queue::push*", "_ZN5queue4pushEi", None),
            ("task", "task", None),
            ("wo?k", "task", "work"),
            ("malloc", "__libc_malloc", "malloc"),
        ],
    ),
)
def test_a_run_profiles_the_routine_and_says_its_alias(
    program: Path, tmp_path: Path, pattern: str, name: str, alias: str | None
) -> None:
    answer, report, profile = (tmp_path / each for each in ("json", "report", "profile"))
    options = ["--json", str(answer), "--report", str(report), "-o", str(profile)]
    assert cli.run(["run", "--routine", pattern, *options, str(program)]) == 0
    data = json.loads(answer.read_text())
    assert [(each["symbol"], each["alias"]) for each in data["routines"]] == [(name, alias)]
    shown = "queue::push" if "push" in name else name
    assert (f"{shown} ({alias})" if alias else f"{shown}\n") in report.read_text()
    assert load(profile).routines[0].alias == alias


@pytest.mark.long
def test_compare_and_the_api(program: Path, tmp_path: Path) -> None:
    answer = tmp_path / "json"
    command = ["compare", "--mode", "pp,qpt2", "--routine", "work", "--json", str(answer)]
    assert cli.run([*command, "--report", str(tmp_path / "report"), str(program)]) == 0
    for mode in json.loads(answer.read_text())["modes"].values():
        assert [each["symbol"] for each in mode["routines"]] == ["task"]
    assert [each.alias for each in simprof.run(program, routine="work").routines] == ["work"]


@pytest.mark.long
@pytest.mark.parametrize("code", [(), ("--code", "pp")])
def test_cfg_shows_the_routine(
    program: Path, capsys: pytest.CaptureFixture[str], code: tuple[str, ...]
) -> None:
    assert cli.run(["cfg", *code, "--routine", "work", str(program)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("task (work) at 0x")
    assert cli.run(["cfg", *code, "--routine", "task", str(program)]) == 0
    assert capsys.readouterr().out == shown.replace("task (work) at", "task at")


@pytest.mark.long
def test_regress_records_and_checks_the_routine(program: Path, tmp_path: Path) -> None:
    alias, own = tmp_path / "alias", tmp_path / "own"
    for name, baseline in (("work", alias), ("task", own)):
        record = ["regress", "record", "--mode", "pp", "--routine", name, "-o", str(baseline)]
        assert cli.run([*record, str(program)]) == 0
    assert cli.run(["regress", "check", str(alias)]) == 0
    assert '"task"' in alias.read_text()


@pytest.mark.long
def test_a_name_of_no_routine_is_refused(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "cfg"):
        assert cli.run([command, "--routine", "worker", str(program)]) == 125
        assert "no routine matches 'worker'" in capsys.readouterr().err


@pytest.mark.long
def test_contexts_take_the_name_or_say_which(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "--report", "/dev/null"]
    assert cli.run([*run, "--entry", "work", str(program)]) == 0
    assert cli.run([*run, "--follow", "work", str(program)]) == 125
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "simprof: --follow work: reports call that routine task: name it so"
