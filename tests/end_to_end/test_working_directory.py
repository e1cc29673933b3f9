"""Where a program starts: in the shell's directory, where it may read that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler import cli
from tests.support.turns import first

SOURCE = """
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char line[64] = "", where[4096];
  FILE *file = fopen(argv[1], "r");
  if (!file || !fgets(line, sizeof line, file)) return 3;
  printf("%s in %s", line, getcwd(where, sizeof where));
  return argc - 2;
}
"""


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("root", "name", "seen"),
    first(
        1,
        [
            (None, "here", "/"),
            ("..", "../there", "/inner"),
            ("..", "here", "/inner"),
            ("../..", "here", "/top/inner"),
            ("../other", "elsewhere", "/"),
        ],
    ),
)
def test_relative_paths_are_the_shells_where_the_program_may_read_there(
    compile_c: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    root: str | None,
    name: str,
    seen: str,
) -> None:
    program = compile_c(SOURCE)
    for path in ("top/inner/here", "top/there", "top/other/elsewhere"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    monkeypatch.chdir(tmp_path / "top" / "inner")
    words = [] if root is None else ["--root", root]
    report = ["--report", str(tmp_path / "report")]
    assert cli.run(["run", "--mode=edges", *words, *report, str(program), "--", name]) == 0
    directory = {"here": "top/inner", "../there": "top", "elsewhere": "top/other"}[name]
    assert capfd.readouterr().out == f"{directory}/{Path(name).name} in {seen}"


@pytest.mark.long
@pytest.mark.toolchain
def test_outside_of_the_root_nothing_is_read(
    compile_c: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compile_c(SOURCE)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root").mkdir()
    monkeypatch.chdir(tmp_path)
    words = ["run", "--mode=edges", "--root", "root", "--report", str(tmp_path / "report")]
    assert cli.run([*words, str(program), "--", "secret"]) == 3
    assert cli.run([*words, str(program), "--", "../secret"]) == 3
