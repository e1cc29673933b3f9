"""SIGKILL at any moment: between any two changes of files that a command makes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from simprof.profiler.cli import run
from simprof.profiler.experiments.cells.cells import Cell, Job
from simprof.profiler.experiments.cells.run import JobGroup
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.experiments.cells.sweep import JobOrder, sweep
from simprof.profiler.experiments.cells.workers import Finished
from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.sources import suite_cache
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.profiles.fingerprint import file_sha256
from tests.conftest import FIXTURES
from tests.support.killing import Scenario, kill_everywhere
from tests.support.report_tables import document_of

PROGRAMS = ("faults", "control", "switches")
MODES = ("pp", "qpt2")
ELF = FIXTURES / "bin" / "v9" / "switches.elf"
SIEVE = FIXTURES / "bin" / "v9" / "sieve.elf"


def order() -> JobOrder:
    """Six cells in three groups."""
    return JobOrder(
        tuple(
            Job(Cell(name, setting(mode)), FIXTURES / "bin" / "v9" / f"{name}.elf")
            for name in PROGRAMS
            for mode in MODES
        )
    )


class Sweep(Scenario):
    """Three groups with made-up results; which were executed is written where nothing is killed."""

    @property
    def log(self) -> Path:
        return self.base / "executed"

    def prepare(self, directory: Path) -> None:
        self.log.write_text("")

    def run(self, work: Sequence[JobGroup]) -> Iterator[Finished]:
        for number, group in enumerate(work):
            with self.log.open("a") as log:
                log.write(f"{group[0].cell.benchmark}\n")
            # Long results, so that a transaction is more than one page of the file.
            yield (
                number,
                tuple(
                    document_of(base=7, warnings=(group[0].cell.benchmark * 3000,)) for _ in group
                ),
            )

    def executed(self) -> Counter[str]:
        return Counter(self.log.read_text().split())

    def act(self, directory: Path) -> None:
        sweep(order(), directory / "sweep.db", self.run)

    def check(self, directory: Path) -> None:
        path = directory / "sweep.db"
        before, stored = self.executed(), names_in(path)
        assert set(stored.values()) <= {len(MODES)}, "a group is stored whole or not at all"
        assert set(stored) <= set(before)
        assert len(before) - len(stored) <= 1, "a finished group is stored before the next begins"
        self.act(directory)
        again = self.executed() - before
        assert again == Counter(set(PROGRAMS) - set(stored)), "stored groups do not run again"
        assert names_in(path) == Counter(PROGRAMS * len(MODES))
        assert [file.name for file in directory.iterdir()] == ["sweep.db"]


def names_in(path: Path) -> Counter[str]:
    """How many cells a results file has of each program."""
    if not path.exists():
        return Counter()
    with Store(path) as store:
        return Counter(cell.benchmark for cell in store.cells())


class Output(Scenario):
    """`simprof cfg -o` over an old file."""

    old = b"what was there before"

    def prepare(self, directory: Path) -> None:
        (directory / "out").write_bytes(self.old)

    def act(self, directory: Path) -> None:
        quietly("cfg", str(ELF), "--routine", "main", "-o", str(directory / "out"))

    def check(self, directory: Path) -> None:
        path = directory / "out"
        found = path.read_bytes()
        self.act(directory)
        assert found in (self.old, path.read_bytes()), "the old file or the new one"
        assert [file.name for file in directory.iterdir()] == ["out"]


class NamedOutput(Output):
    """The same on a file system whose files have names from the beginning."""

    def act(self, directory: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("simprof.profiler.profiles.output._unnamed", lambda directory: None)
            super().act(directory)

    def check(self, directory: Path) -> None:
        wait_until(lambda: len(list(directory.iterdir())) == 1)
        super().check(directory)


class NewOutput(Output):
    """The same where there is no file yet: a kill leaves nothing at all."""

    def prepare(self, directory: Path) -> None:
        pass

    def check(self, directory: Path) -> None:
        path = directory / "out"
        found = path.read_bytes() if path.exists() else None
        expected = [] if found is None else [path]
        wait_until(lambda: list(directory.iterdir()) == expected)
        self.act(directory)
        assert found in (None, path.read_bytes())


class Baseline(Scenario):
    """`simprof regress record -o` over an older baseline, which then still can be checked."""

    def prepare(self, directory: Path) -> None:
        older = self.base / "older"
        if not older.exists():
            (self.base / "program.elf").write_bytes(ELF.read_bytes())
            self.record(directory, "qpt2")
            older.write_bytes((directory / "base").read_bytes())
        (directory / "base").write_bytes(older.read_bytes())

    def record(self, directory: Path, mode: str) -> None:
        program = self.base / "program.elf"
        baseline = directory / "base"
        quietly("regress", "record", str(program), "--mode", mode, "-o", str(baseline))

    def act(self, directory: Path) -> None:
        self.record(directory, "pp")

    def check(self, directory: Path) -> None:
        quietly("regress", "check", str(directory / "base"))
        self.act(directory)
        assert [file.name for file in directory.iterdir()] == ["base"]


class Build(Scenario):
    """A suite's program is built from an archive, its input is generated."""

    suite_text = """\
title = "one"
[[benchmark]]
name = "one"
group = "INT"
stands_for = "none"
why = "a test"
directory = "."
sources = ["*.c"]
package = "one"
[benchmark.inputs.train]
arguments = ["1"]
[benchmark.inputs.ref]
stdin = "words.txt"
files = [{ name = "words.txt", make = "text", size = 100, seed = 1 }]
[package.one]
archive = "one.tar"
sha256 = "SHA256"
directory = "one-1"
"""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        (base / "one-1").mkdir()
        (base / "one-1" / "one.c").write_text("int main(void) { return 0; }\n")
        with tarfile.open(base / "one.tar", "w") as tar:
            tar.add(base / "one-1", "one-1")
        text = self.suite_text.replace("SHA256", file_sha256(base / "one.tar"))
        (base / "own.toml").write_text(text)
        self.states: list[str] = []

    def prepare(self, directory: Path) -> None:
        os.environ["XDG_CACHE_HOME"] = str(directory)
        archives = suite_cache() / "archives"
        archives.mkdir(parents=True)
        shutil.copy(self.base / "one.tar", archives)

    def act(self, directory: Path) -> None:
        self.states = []
        suite = load_suite(str(self.base / "own.toml"))
        report = build_suite(
            suite,
            widths=(64,),
            jobs=1,
            progress=lambda progress: self.states.append(progress.text.split()[0]),
        )
        assert report.failures == {}

    def check(self, directory: Path) -> None:
        cache = suite_cache()
        scratch = ("build-*", "tree-*", "fetch-*")
        wait_until(lambda: not [path for name in scratch for path in cache.glob(name)])
        whole = [path for path in cache.glob("bin/*.json") if is_json(path)]
        trees = [path.name for path in cache.glob("trees/*")]
        self.act(directory)
        assert self.states[-1] == ("cached" if whole else "built")
        assert ("fetching" in self.states) == (not trees), "what is there is not made again"
        assert len(list(cache.glob("bin/*"))) == 2 and len(list(cache.glob("trees/*"))) == 1
        known = {"archives", "bin", "inputs", "locks", "logs", "trees"}
        assert {path.name for path in cache.iterdir()} <= known
        self.act(directory)
        assert self.states == ["cached"]


def is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except ValueError:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something is so: the shells that tidy up need a moment."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.01)


def quietly(*arguments: str) -> None:
    """Run a command of simprof that must succeed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = run(arguments)
    assert status == 0, printed.getvalue()


def start(place: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a command of simprof whose temporary files and cache are below `place`."""
    (place / "temporary").mkdir(parents=True)
    names = {"TMPDIR": str(place / "temporary"), "XDG_CACHE_HOME": str(place / "cache")}
    script = "from simprof.profiler.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **names}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def kill_when(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    """Kill a process as soon as something is so."""
    try:
        wait_until(lambda: condition() or process.poll() is not None)
        assert process.poll() is None, f"it ended with {process.returncode}"
    finally:
        process.kill()
        process.wait()


def running(words: str) -> bool:
    """Whether a process with these arguments runs."""
    wanted = words.encode().replace(b" ", b"\0") + b"\0"
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_bytes() == wanted:
                return True
    return False


@pytest.mark.long
@pytest.mark.parametrize("command", ["regress record -o BASE", "sweep --mode pp -o BASE"])
def test_temporary_folders_do_not_outlive_a_killed_command(command: str, tmp_path: Path) -> None:
    """The program runs for minutes; the kill comes when its output has been opened."""
    (tmp_path / "spin.toml").write_text(
        f"modes = ['pp']\n[[program]]\nfile = '{SIEVE}'\narguments = ['100000000']\n"
    )
    words = command.replace("BASE", str(tmp_path / "base")).split()
    if words[0] == "sweep":
        words = ["sweep", str(tmp_path / "spin.toml"), "-o", str(tmp_path / "base")]
    else:
        words += [str(SIEVE), "--", "100000000"]
    process = start(tmp_path / "own", *words)
    folder = tmp_path / "own" / "temporary"
    kill_when(process, lambda: bool(list(folder.rglob("stdout"))))
    wait_until(lambda: not list(folder.iterdir()))
    left = {path.name for path in tmp_path.iterdir()} - {"spin.toml", "own"}
    assert left <= {"base"}


@pytest.mark.toolchain
def test_nothing_that_a_killed_build_started_goes_on(tmp_path: Path) -> None:
    """The command that the build starts is one that starts another, as `make` does."""
    seconds = 1000 + os.getpid()  # told from other sleepers by this
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "own.toml").write_text(f"""
title = "one"
[[benchmark]]
name = "one"
group = "INT"
stands_for = "none"
why = "a test"
sources = ["one.c"]
prepare = ["sh -c 'sleep {seconds}; true'"]
[benchmark.inputs.train]
[benchmark.inputs.ref]
""")
    own = str(tmp_path / "own.toml")
    process = start(tmp_path / "own", "suite", "build", own, "--allow-commands")
    kill_when(process, lambda: running(f"sleep {seconds}"))
    cache = tmp_path / "own" / "cache" / "simprof" / "suites"
    wait_until(lambda: not running(f"sleep {seconds}"))
    wait_until(lambda: not list(cache.glob("tree-*")))
    assert not list(cache.glob("trees/*"))


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("scenario", "least"),
    [(NewOutput, 3), (Output, 4), (NamedOutput, 5), (Baseline, 4), (Sweep, 40), (Build, 20)],
)
def test_a_kill_between_any_two_changes(
    scenario: type[Scenario], least: int, tmp_path: Path
) -> None:
    started = time.monotonic()
    kills = kill_everywhere(scenario, tmp_path)
    assert kills >= least, f"{kills} in {time.monotonic() - started:.0f} s"
