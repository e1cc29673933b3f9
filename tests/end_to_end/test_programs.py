"""Real programs, built from Debian's source packages: simprof against qemu-user.

They are fetched and built once, as `simprof suite build` does, in its cache.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session import shared
from tests.oracles.qemu import trace
from tests.support.real_programs import (
    EMULATORS,
    RUNS,
    WIDTHS,
    ProgramRun,
    build_programs,
    compare,
    count_plugin,
)
from tests.support.replay import measured
from tests.support.turns import first

SANDBOX = r"""
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void tell(const char *what, int result)
{
    printf("%s: %s\n", what, result < 0 ? "refused" : "DONE");
}

int main(int argc, char **argv)
{
    char *outside = argv[1];
    struct stat status;
    struct dirent *entry;

    tell("read /etc/passwd", open("/etc/passwd", O_RDONLY));
    tell("read ..", open("../secret", O_RDONLY));
    tell("read absolute", open(outside, O_RDONLY));
    tell("read many ..", open("../../../../../../../../../../../../etc/passwd", O_RDONLY));
    tell("read by link", open("link", O_RDONLY));
    tell("read by linked directory", open("linked/secret", O_RDONLY));
    tell("read by proc", open("/proc/self/root/etc/passwd", O_RDONLY));
    tell("read by proc cwd", open("/proc/self/cwd/../secret", O_RDONLY));
    tell("stat by link", stat("link", &status));
    tell("make own link", symlink(outside, "out/own"));
    tell("read by own link", open("out/own", O_RDONLY));
    tell("write by own link", open("out/own", O_WRONLY | O_TRUNC));
    tell("chmod by own link", chmod("out/own", 0777));
    tell("create by dangling link", open("out/dangling", O_WRONLY | O_CREAT, 0666));
    tell("write own input", open("input", O_WRONLY));
    tell("create beside", open("new", O_WRONLY | O_CREAT, 0666));
    tell("rename out", rename("out/mine", "../taken"));
    tell("rename in", rename("input", "out/input"));
    tell("link in", link(outside, "out/hard"));
    tell("remove", unlink("input"));
    tell("make directory", mkdir("../made", 0777));
    tell("truncate", truncate(outside, 0));
    tell("read inside", open("input", O_RDONLY));
    tell("write below", open("out/mine", O_WRONLY | O_CREAT, 0666));
    tell("rename below", rename("out/mine", "out/yours"));
    tell("change directory", chdir(".."));
    tell("read above", open("secret", O_RDONLY));
    tell("stat above", stat("secret", &status));
    tell("create above", open("new", O_WRONLY | O_CREAT, 0666));
    for (DIR *above = opendir("."); (entry = readdir(above)) != NULL;)
        if (entry->d_name[0] != '.')
            printf("entry %s: seen\n", entry->d_name);
    (void)argc;
    return 0;
}
"""
ALLOWED = {"make own link", "read inside", "write below", "rename below", "change directory"}
"""Directories above the root are there, so that getcwd and `..` work, but show nothing else."""


LEFT_OUT = ("speedtest1", "speedtest1-file", "bzip2-files", "bzip2-test", "lua-stdin")
"""The other run of speedtest1 writes a journal, too; bzip2 and lua have two more."""


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the built programs and of their inputs, one for each of the tests' workers.

    That they cannot be built is an error: skipped tests would have shown nothing.
    """
    path = tmp_path_factory.mktemp("programs")
    build_programs(path)
    return path


@pytest.fixture(scope="session")
def plugin() -> Iterator[Path]:
    with count_plugin() as path:
        yield path


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("run", "width"),
    [
        (run, width)
        for run, width in zip(RUNS, cycle(WIDTHS), strict=False)
        if run.name not in LEFT_OUT
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_program_is_exact(cache: Path, plugin: Path, run: ProgramRun, width: str) -> None:
    comparison = compare(cache, run, width, plugin)
    assert comparison.differences == ()
    assert comparison.instructions > 100_000
    assert comparison.paths > 0


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("name", "width"),
    [("minigzip-files", 32)],
)
def test_ways_to_measure_agree(
    cache: Path, name: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process in the run itself; what earlier runs knew; several processes on a recording."""
    (run,) = (each for each in RUNS if each.name == name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(shared, "LARGE_PROGRAM", 0)
    null = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(
        root=cache / "inputs",
        stdin=cache / "inputs" / run.input if run.input else Path(os.devnull),
        environment=tuple((key.encode(), value.encode()) for key, value in run.environment),
        stdout=null,
        stderr=null,
    )
    program = cache / "bin" / f"{run.program}.{width}"
    request = RunRequest(program, guest, tuple(map(os.fsencode, run.arguments)))
    remembering = replace(request, remember=True)
    edges = [Setting("edges", "edges", SchemeOptions())]
    schemes = [Setting(mode, mode, SchemeOptions()) for mode in ("pp", "tpp", "kiter", "qpt")]
    plain = measured(request, edges)
    assert [measured(remembering, edges) for _ in range(2)] == [plain, plain]
    plain = measured(request, schemes)
    assert measured(request, schemes, jobs=2) == plain
    assert [measured(remembering, schemes, jobs=2) for _ in range(2)] == [plain, plain]


@pytest.mark.qemu
@pytest.mark.parametrize(("width", "build"), [("64", "v9"), ("32", "v8plus")])
def test_the_plugin_counts_what_the_log_shows(
    fixture_elf: Callable[..., Path], plugin: Path, tmp_path: Path, width: str, build: str
) -> None:
    """The fixture recurses deeply, so that qemu repeats many window instructions."""
    program = fixture_elf("deep", build)
    expected = trace(program, ["300"], directory=tmp_path)
    assert expected.repeats > 100
    log = tmp_path / "log"
    counting = ["-plugin", str(plugin), "-d", "plugin", "-D", str(log)]
    subprocess.run(
        [EMULATORS[width], *counting, str(program), "300"],
        env={"PATH": os.environ["PATH"]}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    match = re.match(r"instructions (\d+) repeats (\d+)", log.read_text())
    assert match is not None
    assert (int(match[1]), int(match[2])) == (expected.instructions, expected.repeats)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", first(1, ["v9", "v8plus"]))
def test_nothing_leads_out_of_the_sandbox(
    compile_c: Callable[..., Path], tmp_path: Path, width: str
) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    (root / "out").mkdir(parents=True)
    secret.write_text("secret")
    (root / "input").write_text("input")
    (root / "link").symlink_to(secret)
    (root / "linked").symlink_to(tmp_path)
    (root / "out" / "dangling").symlink_to(tmp_path / "created")
    program = compile_c(SANDBOX, width=width)
    start = "from simprof.profiler.cli import main; main()"
    command = [sys.executable, "-c", start, "run", "--root", str(root)]
    command += ["--cwd", str(root)]  # with something above it
    command += ["--writable", str(root / "out"), "--report", str(tmp_path / "report")]
    done = subprocess.run(
        [*command, program, "--", secret], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = dict(line.split(": ") for line in done.stdout.splitlines())
    assert {what for what, answer in answers.items() if answer == "seen"} == {"entry root"}
    assert len(answers) == SANDBOX.count("    tell(") + 1
    assert {what for what, answer in answers.items() if answer == "DONE"} == ALLOWED
    assert secret.read_text() == "secret"
    assert (root / "input").read_text() == "input"
    assert {path.name for path in root.iterdir()} == {"input", "link", "linked", "out"}
    assert {path.name for path in (root / "out").iterdir()} == {"dangling", "own", "yours"}
    assert {path.name for path in tmp_path.iterdir()} == {"root", "secret", "report"}
