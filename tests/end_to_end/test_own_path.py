"""What a program sees of its own file is the same wherever it lies: so is what it executes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.session import session
from simprof.profiler.session.world import open_world
from simprof.simulator.binary.dynamic import load_program
from simprof.simulator.errors import SimulatorError, UsageError
from tests.support.turns import turns

SOURCE = r"""
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char text[PATH_MAX], real[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", text, sizeof text - 1);
    text[length] = 0;
    printf("%s %s %s\n", argv[0], (char *)getauxval(AT_EXECFN), text);
    printf("%s", getcwd(text, sizeof text));
    for (int i = 1; i < argc; i++)
        printf(" %s", realpath(argv[i], real) ? real : "none");
    FILE *self = fopen(realpath("/proc/self/exe", real), "r");
    FILE *maps = fopen("/proc/self/maps", "r");
    int letters = 0;
    while (getc(maps) != EOF)
        letters++;
    printf(" %d %d\n", getc(self), letters);
    return 0;
}
"""
DIRECTORIES = ("a", "bb/c", "d" * 17, "e/" * 20 + "f", "g" * 100 + "/h" * 7)
Run = Callable[..., tuple[int, int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run what `simprof run` would run, on the emulator: status, instructions, output."""

    def run_it(*words: str | Path) -> tuple[int, int, str]:
        requests: list[RunRequest] = []

        def take(request: RunRequest) -> None:
            requests.append(request)
            raise SimulatorError("taken")

        monkeypatch.setattr(session, "run_program", take)
        assert cli.run(["run", "--mode=edges", *map(str, words)]) == 125
        (request,) = requests
        output = tmp_path / "output"
        with output.open("wb") as out:
            guest = replace(request.guest, stdout=out.fileno())
            program = load_program(request.program, guest.sysroot)
            with open_world(program, request.arguments, guest) as world:
                result = world.machine().run()
        return result.status, result.instructions, output.read_text()

    return run_it


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(("width", "static"), turns(["v9", "v8plus"], [True, False]))
def test_counts_are_the_same_from_any_directory(
    compile_c: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    width: str,
    static: bool,
) -> None:
    program = compile_c(SOURCE, width=width, static=static)
    found = set()
    for each in DIRECTORIES:
        directory = tmp_path / each
        directory.mkdir(parents=True)
        shutil.copy(program, directory / "own")
        (directory / "link").symlink_to("own")
        (directory / "data").touch()
        monkeypatch.chdir(directory)
        found.add(run("own", "data"))
    for spelled in ("./own", directory / "own", "link"):
        found.add(run(spelled, "data"))
    ((status, _, output),) = found
    assert status == 0
    assert output.startswith("own /own /own\n/ /data 127 ")
    monkeypatch.chdir(tmp_path)
    assert len({run(f"{each}/own") for each in DIRECTORIES}) == 1


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("mode", ["pp"])
def test_reports_are_the_same_from_any_directory(
    compile_c: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    program = compile_c(SOURCE)
    reports, answers = set(), set()
    for each in DIRECTORIES:
        directory = tmp_path / each
        directory.mkdir(parents=True)
        shutil.copy(program, directory / "own")
        monkeypatch.chdir(directory)
        report, found = tmp_path / "report", tmp_path / "found"
        files = ["--report", str(report), "--json", str(found)]
        assert cli.run(["run", "--mode", mode, *files, "./own"]) == 0
        reports.add(report.read_text())
        answers.add(json.dumps(json.loads(found.read_text())))
    assert len(reports) == len(answers) == 1


@pytest.mark.toolchain
def test_what_a_program_sees_of_its_own_file(
    compile_c: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Its path below --root, /NAME elsewhere; --argv0, --exe and --cwd say otherwise."""
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "work").mkdir()
    (tmp_path / "other").mkdir()
    program = root / "bin" / "own"
    shutil.copy(compile_c(SOURCE), program)

    def seen(*words: str | Path) -> list[str]:
        status, _, output = run(*words, program)
        assert status == 0
        return output.split()[:4]

    monkeypatch.chdir(root / "work")
    assert seen() == ["own", "/own", "/own", "/"]
    assert seen("--root", "..") == ["own", "/bin/own", "/bin/own", "/work"]
    assert seen("--root", tmp_path / "other") == ["own", "/own", "/own", "/"]
    assert seen("--argv0", "me", "--root", "..") == ["me", "/bin/own", "/bin/own", "/work"]
    assert seen("--exe", "/usr/bin/x") == ["x", "/usr/bin/x", "/usr/bin/x", "/"]
    assert seen("--cwd", "/home/me") == ["own", "/own", "/own", "/home/me"]
    assert seen("--root", "..", "--cwd", "/x/work") == ["own", "/bin/own", "/bin/own", "/x/work"]


LIBRARY = "int answer(void) { return 42; }\n"
USER = "int answer(void);\nint main(void) { return answer(); }\n"


@pytest.mark.toolchain
def test_libraries_beside_a_program_are_found(
    compile_c: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """$ORIGIN is where the program's file is, whatever path it sees."""
    place = tmp_path / "place"
    place.mkdir()
    library = compile_c(LIBRARY, flags=("-shared", "-fPIC"), static=False)
    shutil.copy(library, place / "libanswer.so")
    given = (f"-L{place}", "-lanswer", "-Wl,-rpath,$ORIGIN")
    shutil.copy(compile_c(USER, flags=given, static=False), place / "user")
    for directory, words in (
        (place, ["user"]),
        (tmp_path, ["place/user"]),
        (tmp_path, ["--root", ".", "place/user"]),
        (tmp_path, ["--exe", "/opt/user", "place/user"]),
    ):
        monkeypatch.chdir(directory)
        assert run(*words)[0] == 42


def test_working_directories_that_cannot_be(fixture_elf: Callable[..., Path]) -> None:
    program = load_program(fixture_elf("sieve"))
    for cwd in (b"x", b"/x/other"):
        guest = GuestOptions(program.path.parent.parent, working=program.path.parent, cwd=cwd)
        with (
            pytest.raises(UsageError, match=r"--cwd .*: give an absolute path that ends in /v9"),
            open_world(program, (), guest),
        ):
            pass
