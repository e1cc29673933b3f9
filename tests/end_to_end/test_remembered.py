"""Results of programs that earlier runs have shown something of, and where nothing can be kept."""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.profiles.cache_files import VARIABLE, CacheFiles, is_wanted
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session import session
from simprof.profiler.session.session import compare_program
from tests.conftest import FIXTURES, ROOT
from tests.support.turns import first

Find = Callable[..., Path]
MANIFEST = tomllib.loads((FIXTURES / "manifest.toml").read_text())
SETTINGS = tuple(Setting(mode, mode, SchemeOptions()) for mode in ("pp", "tpp"))


def without_runs(measurement: RunMeasurement) -> RunMeasurement:
    """Return a measurement without how often the program was emulated."""
    counts = {k: v for k, v in measurement.counts.items() if k not in ("runs", "whole_runs")}
    return replace(measurement, counts=counts)


@pytest.fixture
def silent() -> Iterator[int]:
    """Return a descriptor of nowhere."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "width"),
    first(1, zip(sorted(MANIFEST)[::2], itertools.cycle(["v9", "v8plus"]), strict=False)),
)
def test_every_fixture_counts_the_same_with_and_without(
    name: str,
    width: str,
    fixture_elf: Find,
    tmp_path: Path,
    silent: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "binaries", lambda: CacheFiles(tmp_path / "cache"))
    given = MANIFEST[name].get("input")
    root = tmp_path / "root"
    root.mkdir()
    guest = GuestOptions(
        root=root,
        stdin=Path(os.devnull) if given is None else FIXTURES / "input" / given,
        stdout=silent,
        stderr=silent,
    )
    request = RunRequest(fixture_elf(name, width), guest)

    def measured(remember: bool) -> tuple[list[RunMeasurement], int]:
        comparison = compare_program(replace(request, remember=remember), SETTINGS)
        return [without_runs(each) for each in comparison.measurements], comparison.emulations

    plain, emulations = measured(False)
    assert not (tmp_path / "cache").exists()
    assert measured(True) == (plain, emulations)
    assert measured(True) == (plain, emulations)


def environment(cache: Path) -> dict[str, str]:
    """Return the environment of a command that uses a cache."""
    return {**os.environ, "XDG_CACHE_HOME": str(cache), VARIABLE: ""}


def simprof(*words: str) -> list[str]:
    """Return the words of a command."""
    return [sys.executable, "-c", "from simprof.profiler.cli import main; main()", *words]


def run(cache: Path, *words: str) -> Any:
    """Run a command with a cache; return its JSON."""
    done = subprocess.run(
        simprof(*words), cwd=ROOT, env=environment(cache), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for name in ("runs", "whole_runs"):
        result.get("counts", {}).pop(name, None)
    return result


RUN = ("run", "--mode=tpp", "--json=-", "fixtures/bin/v9/switches.elf")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what a run counts that remembers nothing."""
    return run(tmp_path_factory.mktemp("none"), *RUN, "--no-cache")


@pytest.mark.long
def test_runs_that_are_killed_spoil_nothing(expected: Any, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    draw = random.Random(1994)
    everywhere = {"env": environment(cache), "cwd": ROOT}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for _ in range(6):
        started = [subprocess.Popen(simprof(*RUN), **everywhere, **quiet) for _ in range(2)]  # type: ignore[call-overload]
        for each in started:
            time.sleep(draw.uniform(0.2, 1.0))
            each.kill()
            each.wait()
        assert run(cache, *RUN) == expected
        if draw.random() < 0.5:
            shutil.rmtree(cache)
    assert not [path for path in cache.rglob("*") if path.name.startswith(".")]


@pytest.mark.long
def test_a_cache_that_is_a_file_or_cannot_be_made_is_none(expected: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert run(file, *RUN) == expected
    assert run(Path("/proc/simprof"), *RUN) == expected
    (tmp_path / "cache" / "simprof").mkdir(parents=True)
    (tmp_path / "cache" / "simprof" / "binaries").write_text("")
    assert run(tmp_path / "cache", *RUN) == expected


@pytest.mark.long
def test_a_full_disk_only_takes_time(expected: Any, tmp_path: Path) -> None:
    limit = (1000, resource.RLIM_INFINITY)
    done = subprocess.run(
        simprof(*RUN),
        cwd=ROOT,
        # Python would leave its own compiled modules damaged.
        env={**environment(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    result = json.loads(done.stdout)
    for name in ("runs", "whole_runs"):
        result["counts"].pop(name)
    assert result == expected
    kept = list((tmp_path / "simprof" / "binaries").iterdir())
    assert all(path.stat().st_size <= limit[0] for path in kept)


@pytest.mark.long
def test_verify_uses_what_is_known(tmp_path: Path) -> None:
    words = ("verify", "--mode=pp", "--on=emulator", "--json=-", RUN[-1])
    cold, warm = run(tmp_path, *words), run(tmp_path, *words)
    kept = {path.name.split(".")[-1] for path in (tmp_path / "simprof" / "binaries").iterdir()}
    assert {name.split("-")[0] for name in kept} == {"graphs"}
    assert cold == warm


def test_the_environment_says_whether_anything_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, wanted in (("", True), ("0", True), ("no", True), ("1", False), ("yes", False)):
        monkeypatch.setenv(VARIABLE, value)
        assert is_wanted() is wanted
    monkeypatch.delenv(VARIABLE)
    assert is_wanted()
