"""What happens to simprof itself: Ctrl-C, full disks, closed pipes, limits of memory and of files.

What a kill leaves is tested in `tests/experiments/test_kills.py`.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path

import pytest

from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.profiles.storage import load
from tests.conftest import FIXTURES, ROOT
from tests.support.crashes import handles
from tests.support.turns import in_step

SIEVE = FIXTURES / "bin" / "v9" / "sieve.elf"
SWITCHES = FIXTURES / "bin" / "v9" / "switches.elf"
QUIET = "from simprof.profiler.cli import main; main()"
# simprof says that it has started with the first thing that `main` does: an interrupt that comes
# before is Python's own, with its traceback.
START = """
import gc
from simprof.profiler.cli import main
set_threshold = gc.set_threshold
def first(objects):
    set_threshold(objects)
    print("started", flush=True)
gc.set_threshold = first
main()
"""
MOMENTS = 24
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
SAYING = {
    number: re.compile(rf"^simprof: interrupted \({number.name}\)\n|\({number.name}\)", re.M)
    for number in STOPPING
} | {signal.SIGINT: re.compile(r"^simprof: interrupted\n|\(Ctrl-C\)", re.M)}
UNREAD = "simprof: stdout cannot be written (nobody reads it): send it somewhere else\n"


def environment(place: Path) -> dict[str, str]:
    """Return an environment whose temporary files and cache are below `place`."""
    (place / "temporary").mkdir(parents=True, exist_ok=True)
    own = {"TMPDIR": str(place / "temporary"), "XDG_CACHE_HOME": str(place / "cache")}
    # Where files may not grow, Python would leave its own compiled modules damaged.
    own |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **own}


def simprof(place: Path, *words: str | Path, limit: int = 0, size: int = 0) -> tuple[int, str]:
    """Run simprof to its end, with a limit on memory or files; return its status, its messages."""

    def limited() -> None:
        if limit:
            resource.setrlimit(limit, (size, size))

    done = subprocess.run(
        [sys.executable, "-c", START, *map(str, words)],
        env=environment(place), preexec_fn=limited, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


@contextlib.contextmanager
def nothing_left(place: Path) -> Iterator[None]:
    """Check that no process and no temporary file is left; shells that tidy up need a moment."""
    yield
    mark = f"TMPDIR={place / 'temporary'}\0".encode()
    deadline = time.monotonic() + 30
    while list((place / "temporary").iterdir()) or processes(mark):
        assert time.monotonic() < deadline, (list((place / "temporary").iterdir()), processes(mark))
        time.sleep(0.05)


def processes(mark: bytes) -> list[str]:
    """Return the processes whose environment has `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_text())
    return found


def interrupted(place: Path, number: int, after: float, *words: str | Path) -> tuple[int, str]:
    """Start simprof, send it a signal some seconds after it has begun; return status, messages."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, *map(str, words)],
        env=environment(place), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "started\n"
    time.sleep(after)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


@pytest.mark.long
def test_an_interrupt_at_any_moment(tmp_path: Path) -> None:
    """Twelve moments of the first 0.1 seconds, and as many of the rest of a run; by all signals."""
    words = ("run", "--json", tmp_path / "json", "-o", tmp_path / "profile", SIEVE, "--", "1")
    simprof(tmp_path, *words)
    started = time.monotonic()
    assert simprof(tmp_path, *words)[0] == 0
    whole = time.monotonic() - started
    complete = {name: (tmp_path / name).read_bytes() for name in ("json", "profile")}
    half = MOMENTS // 2
    moments = [0.1 * k / half for k in range(half)] + [whole * (k + 1) / half for k in range(half)]
    statuses = set()
    for moment, number in zip(moments, cycle(STOPPING), strict=False):
        for name in complete:
            (tmp_path / name).unlink(missing_ok=True)
        with nothing_left(tmp_path):
            status, errors = interrupted(tmp_path, number, moment, *words)
        # Python handles Ctrl-C from the beginning; of others a process dies that has just begun.
        dies = number != signal.SIGINT and moment < 0.5
        assert status in (0, 128 + number, *((-number,) if dies else ())), (moment, errors)
        assert "Traceback" not in errors, (moment, errors)
        assert status <= 0 or SAYING[number].search(errors), (moment, errors)
        there = {name for name in complete if (tmp_path / name).exists()}
        for name in there if status == 0 else ():
            assert (tmp_path / name).read_bytes() == complete[name]
        assert {path.name for path in tmp_path.iterdir()} - there <= {"temporary", "cache"}
        statuses.add(status)
    assert len(statuses & {128 + number for number in STOPPING}) > 2


LOST = {
    "in a callback": """
import ctypes
ask = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))
""",
    "while a class is made": """
class Asking:
    def __set_name__(self, owner, name):
        signal.raise_signal(number)
def ask():
    type("Made", (), {"asking": Asking()})
""",
}
AND_THEN_RUN = """
import signal, sys
from simprof.profiler.cli import main
from simprof.simulator.binary import dwarf_lines
number, plain = int(sys.argv.pop(1)), dwarf_lines._line_rows
def rows(data):
    ask()
    yield from plain(data)
dwarf_lines._line_rows = rows
main()
"""


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", LOST)
def test_an_interrupt_that_python_loses(where: str, number: signal.Signals, tmp_path: Path) -> None:
    """What is raised there goes no further: the run would go on, without its source lines."""
    profile = tmp_path / "profile"
    words = [*map(str, ("run", "-o", profile, SIEVE, "--", "1"))]
    kept = environment(tmp_path)
    del kept["SIMPROF_NO_CACHE"]
    script = LOST[where] + AND_THEN_RUN
    done = subprocess.run(
        [sys.executable, "-c", script, str(int(number)), *words],
        env=kept, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 128 + number, done.stderr
    assert SAYING[number].search(done.stderr) and len(done.stderr.split("\n")) <= 3
    assert not profile.exists()
    # Nor does the cache keep what was read by then.
    found = []
    for env in (kept, environment(tmp_path)):
        subprocess.run(
            [sys.executable, "-c", START, *words], env=env, capture_output=True, check=True
        )
        found.append(load(profile).lines)
    assert found[0] == found[1] and found[0]


def spinning(
    place: Path, *before: str, program: Sequence[str | Path] = (SIEVE, "--", "100000000")
) -> subprocess.Popen[str]:
    """Start a run of minutes, behind other words of a command; return it once it executes."""
    words = ["run", "-o", str(place / "profile"), *map(str, program)]
    process = subprocess.Popen(
        [*before, sys.executable, "-c", START, *words],
        env=environment(place), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not handles(process.pid, signal.SIGSEGV):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    time.sleep(0.2)
    return process


@pytest.mark.long
@pytest.mark.parametrize("number", STOPPING[1:])
def test_a_signal_keeps_the_profile_and_the_report(number: signal.Signals, tmp_path: Path) -> None:
    with nothing_left(tmp_path):
        process = spinning(tmp_path)
        process.send_signal(number)
        _, report = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"interrupted ({number.name})" in report and "PARTIAL" in report
    kept = load(tmp_path / "profile")
    assert kept.partial and kept.base > 0
    assert (kept.ending.reason, kept.ending.code) == ("interrupted", 128 + number)


FAULTING = """#include <signal.h>
static volatile int count;
static void again(int number) { count++; }
int main(void) { signal(SIGSEGV, again); return *(volatile int *)16; }
"""


@pytest.mark.long
@pytest.mark.toolchain
def test_a_signal_ends_a_program_that_faults_for_ever(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """It comes in the run that waits for code which programs write while they start."""
    program = compile_c(FAULTING, ("-O1",))
    process = spinning(tmp_path, program=(program,))
    process.send_signal(signal.SIGTERM)
    _, report = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "interrupted (SIGTERM)" in report
    assert load(tmp_path / "profile").partial
    status, report = simprof(tmp_path, "run", "--timeout", "0.5", program)
    assert status == 124 and "time limit reached" in report


@pytest.mark.long
def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    process = spinning(tmp_path, "nohup")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert load(tmp_path / "profile").partial


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_sweep_that_is_ended_keeps_what_it_has(number: int, tmp_path: Path) -> None:
    """The first program is done in no time, the second one runs for minutes."""
    grid, results = tmp_path / "grid.toml", tmp_path / "results.db"
    grid.write_text(
        f"modes = ['pp']\n[[program]]\nfile = '{SWITCHES}'\n"
        f"[[program]]\nfile = '{SIEVE}'\narguments = ['100000000']\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", START, "sweep", str(grid), "-o", str(results)],
        env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    with nothing_left(tmp_path):
        while "switches" not in kept(results):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.2)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    assert process.returncode == 128 + number
    assert kept(results) == {"switches"}
    left = {path.name for path in tmp_path.iterdir()} - {"cache"}
    assert left == {"temporary", "grid.toml", "results.db"}


def kept(results: Path) -> set[str]:
    """Return the programs that have results."""
    if not results.exists():
        return set()
    with Store(results) as store:
        return {cell.benchmark for cell in store.cells()}


@pytest.mark.long
@pytest.mark.parametrize("old", [None, b"what was there before"])
def test_a_file_that_cannot_be_written_whole_is_not_there(
    old: bytes | None, tmp_path: Path
) -> None:
    output = tmp_path / "profile"
    if old is not None:
        output.write_bytes(old)
    with nothing_left(tmp_path):
        status, errors = simprof(
            tmp_path, "cfg", SWITCHES, "-o", output, limit=resource.RLIMIT_FSIZE, size=1000
        )
    assert (status, errors) == (125, f"simprof: {output} cannot be written: File too large\n")
    assert {path.name for path in tmp_path.iterdir()} - {"cache"} == (
        {"temporary"} if old is None else {"temporary", "profile"}
    )
    assert old is None or output.read_bytes() == old


def test_a_full_disk_behind_standard_output_is_told(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", QUIET, "cfg", str(SWITCHES)],
            env=environment(tmp_path), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 125
    assert done.stderr.startswith("simprof: stdout cannot be written (No space left on device)")
    assert done.stderr.count("\n") == 1


DISKS = {
    "full": "mount -t tmpfs -o size=4k none {0} && head -c 4096 /dev/zero > {0}/filler",
    "filling": "mount -t tmpfs -o size=8k none {0} && head -c 4096 /dev/zero > {0}/filler",
    "read-only": "mount -t tmpfs none {0} && mount -o remount,ro {0}",
}
"""File systems on which nothing, a page, or no file at all can be written."""
NO_MOUNT = "no file system can be mounted here"


def mounting(place: Path, disk: str, *words: str | Path) -> list[str]:
    """Return a command with its own file system at `place`, of which it lists the files at last."""
    then = '"$@"; status=$?; echo FILES; ls -A {0} | grep -vx filler; exit $status'
    script = f"{DISKS[disk]} || exit 99; {then}".format(place)
    alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    return [*alone, "sh", "-c", script, "sh", *map(str, words)]


def on_disk(place: Path, disk: str, *words: str | Path, **changes: str) -> tuple[int, str, str]:
    """Run simprof with a file system at `place / "disk"`; return status, messages, files there.

    `changes` are those of its environment.
    """
    directory = place / "disk"
    directory.mkdir()
    if subprocess.run(
        mounting(directory, disk, "true"), capture_output=True, check=False
    ).returncode:
        pytest.skip(NO_MOUNT)
    done = subprocess.run(
        mounting(directory, disk, sys.executable, "-c", START, *words),
        env={**environment(place), **changes}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr, done.stdout.rpartition("FILES\n")[2]


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved profile, a grid beside it."""
    place = tmp_path_factory.mktemp("profile")
    assert simprof(place, "run", "--mode", "pp", "-o", place / "profile", SWITCHES)[0] == 0
    (place / "grid.toml").write_text(f"modes = ['pp']\n[[program]]\nfile = '{SWITCHES}'\n")
    return place / "profile"


WRITING = {
    "run -o": ("run", "--mode", "pp", "-o", "OUTPUT", SWITCHES),
    "run --json": ("run", "--mode", "pp", "--json", "OUTPUT", SWITCHES),
    "run --trace": ("run", "--mode", "bits", "--trace", "OUTPUT", SWITCHES),
    "compare": ("compare", "--json", "OUTPUT", SWITCHES),
    "record": ("record", "-o", "OUTPUT", SWITCHES, "--", random.Random(1).randbytes(6000).hex()),
    "export": ("export", "--format", "callgrind", "-o", "OUTPUT", "PROFILE"),
    "show --html": ("show", "--html", "OUTPUT", "PROFILE"),
    "cfg": ("cfg", "-o", "OUTPUT", SWITCHES),
    "instrument": ("instrument", "--mode", "pp", "-o", "OUTPUT", SWITCHES),
    "sweep": ("sweep", "GRID", "-o", "OUTPUT"),
}


@pytest.mark.long
@pytest.mark.parametrize(("command", "disk"), in_step(WRITING, DISKS))
def test_a_disk_that_takes_no_output_is_told(
    command: str, disk: str, profile: Path, tmp_path: Path
) -> None:
    output = tmp_path / "disk" / "output"
    given = {"OUTPUT": output, "PROFILE": profile, "GRID": profile.with_name("grid.toml")}
    words = [given.get(str(word), word) for word in WRITING[command]]
    with nothing_left(tmp_path):
        status, errors, files = on_disk(tmp_path, disk, *words)
    assert (status, files) == (125, ""), (errors, files)
    why = "its directory may not be written" if disk == "read-only" else "No space left on device"
    assert errors.startswith("simprof: ") and str(output) in errors and why in errors
    assert errors.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize("disk", DISKS)
def test_a_cache_that_cannot_be_written_ends_nothing(disk: str, tmp_path: Path) -> None:
    plain = tmp_path / "plain.json"
    assert simprof(tmp_path, "run", "--mode", "pp", "--json", plain, SWITCHES)[0] == 0
    answer, cache = tmp_path / "answer.json", str(tmp_path / "disk")
    words = ("run", "--mode", "pp", "--json", answer, SWITCHES)
    status, errors, files = on_disk(
        tmp_path, disk, *words, XDG_CACHE_HOME=cache, SIMPROF_NO_CACHE=""
    )
    assert status == 0, errors
    assert answer.read_bytes() == plain.read_bytes()
    assert files == ("" if disk == "read-only" else "simprof\n")


def test_a_place_where_no_file_can_be_made_is_told(tmp_path: Path) -> None:
    status, errors = simprof(tmp_path, "cfg", SWITCHES, "-o", "/proc/none")
    assert status == 125
    assert errors.startswith("simprof: /proc/none cannot be written: ")


def test_a_pipe_that_nobody_reads(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", START, "cfg", str(SIEVE), "--format", "json"],
        env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "started\n"
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), errors) == (125, UNREAD)


@pytest.mark.long
@pytest.mark.parametrize("gigabytes", [0.4, 3])
def test_too_little_memory_is_told(gigabytes: float, tmp_path: Path) -> None:
    """The second limit leaves room for simprof, but not for the program's address space."""
    size = int(gigabytes * (1 << 30))
    with nothing_left(tmp_path):
        status, errors = simprof(tmp_path, "run", SWITCHES, limit=resource.RLIMIT_AS, size=size)
    assert status == 125
    assert errors.count("\n") == 1 and "memory" in errors


@pytest.mark.long
def test_too_little_memory_in_a_worker_is_a_failed_cell(tmp_path: Path) -> None:
    grid, results = tmp_path / "grid.toml", tmp_path / "results.db"
    grid.write_text(f"modes = ['pp']\n[[program]]\nfile = '{SWITCHES}'\n")
    with nothing_left(tmp_path):
        status, errors = simprof(
            tmp_path, "sweep", grid, "-o", results, limit=resource.RLIMIT_AS, size=3 << 30
        )
    assert status == 1
    assert "switches ref pp (file): no address space for the program's memory" in errors
