"""Machine code where none is shipped: what is compiled, what is said, and where it is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.engine import kernel_builder, kernel_cache
from simprof.simulator.cpu import compiled, machine_code
from simprof.simulator.errors import EngineError

ROOT = Path(__file__).resolve().parents[2]
PART = "simprof.profiler.engine.landing_kernel"
Environment = dict[str, str]


class Builder:
    """Stands for a process that compiles: says what it was asked for."""

    def __init__(self, code: bytes, returncode: int = 0) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.code, self.returncode = code, returncode

    def __call__(self, modules: Sequence[str]) -> Builder:
        self.asked.append(tuple(modules))
        return self

    def communicate(self) -> tuple[bytes, None]:
        return self.code, None

    def kill(self) -> None:
        """Do nothing."""


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Have nothing shipped, an empty cache, and a process that answers at once."""
    code = machine_code.pack(b"code", "a test", {}, [], 0)
    made = Builder(code)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv(machine_code.VARIABLE, "1")
    monkeypatch.setattr(kernel_builder, "start", made)
    monkeypatch.setattr(kernel_cache._Building, "process", None)
    monkeypatch.setattr(kernel_cache._Building, "tell", None)
    monkeypatch.setattr(compiled, "is_at_hand", lambda module: False)
    return made


def test_what_is_needed_is_compiled_once_and_said(builder: Builder) -> None:
    said: list[str] = []
    kernel_cache.on_compiling(said.append)
    assert kernel_cache.provide(PART) == builder.code == kernel_cache.provide(PART)
    assert builder.asked == [(PART,)]
    assert said == ["compiling landing_kernel, once: about 5 s"]
    assert kernel_cache.place() is None


def test_the_engine_is_begun_early_and_is_one(builder: Builder) -> None:
    said: list[str] = []
    kernel_cache.on_compiling(said.append)
    kernel_cache.begin()
    kernel_cache.begin()
    for module in kernel_builder.ENGINE:
        assert kernel_cache.provide(module) == builder.code
    assert builder.asked == [kernel_builder.ENGINE]
    assert said == ["compiling the engine, once: about 40 s"]
    kernel_cache._Building.process = None
    kernel_cache.begin()  # it is kept
    assert len(builder.asked) == 1


def test_nothing_is_begun_where_it_is_at_hand(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "is_at_hand", lambda module: True)
    kernel_cache.begin()
    assert builder.asked == []


def test_it_is_kept_where_nobody_else_may_write(builder: Builder, tmp_path: Path) -> None:
    own = tmp_path / "cache" / "simprof" / "kernels"
    kernel_cache.provide(kernel_builder.ENGINE[0])
    place = kernel_cache.place()
    assert place is not None and place.parent == own
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)  # others may have written it
    kernel_cache.provide(kernel_builder.ENGINE[0])
    place = kernel_cache.place()
    assert place is not None
    assert place.parent == tmp_path / "tmp" / f"simprof-{os.geteuid()}" / "kernels"
    assert len(builder.asked) == 2


@pytest.mark.parametrize("home", ["/proc/x", "file"])
def test_without_a_place_it_is_compiled_each_time(
    home: str, builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The superuser may write anything below /proc, says the system, but makes no file there."""
    (tmp_path / "file").touch()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.setenv("TMPDIR", str(tmp_path / home))
    for _ in range(2):
        assert kernel_cache.provide(PART) == builder.code
    assert len(builder.asked) == 2 and kernel_cache.place() is None


def test_what_is_kept_for_other_sources_is_not_used(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_cache.provide(PART)
    monkeypatch.setattr(machine_code, "digest", lambda: "0" * 32)
    builder.code = machine_code.pack(b"other", "a test", {}, [], 0)
    assert kernel_cache.provide(PART) == builder.code


@pytest.mark.parametrize(
    "change", [lambda b: setattr(b, "returncode", 1), lambda b: setattr(b, "code", b"")]
)
def test_a_failure_is_an_error_of_one_line(
    builder: Builder, change: Callable[[Builder], None]
) -> None:
    change(builder)
    with pytest.raises(EngineError, match="landing_kernel could not be compiled"):
        kernel_cache.provide(PART)


def test_a_process_compiles_a_module(tmp_path: Path) -> None:
    """The real one: what it makes can be loaded, and no caller has to read what it writes."""
    module = "simprof.simulator.cpu.crash"
    code = kernel_builder.start([module]).communicate()[0]
    assert machine_code.fits(code)
    head, _ = machine_code.parts(code)
    assert {name.rpartition(".")[0] for name in head.symbols} == {module}
    assert machine_code.load(code).keys() == head.symbols.keys()


@pytest.mark.long
def test_what_is_compiled_here_counts_what_is_shipped(tmp_path: Path) -> None:
    """The first command says that it compiles, and the second need not; answers are the same."""

    def run(*words: str, **variables: str) -> tuple[Any, str]:
        command = [sys.executable, "-m", "simprof", "run", "--json=-", *words]
        done = subprocess.run(
            [*command, "fixtures/bin/v9/calls.elf"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)} | variables,
        )
        return json.loads(done.stdout), done.stderr

    words = ("--mode=pp",)
    shipped, _ = run(*words)
    first, said = run(*words, SIMPROF_COMPILE="1")
    second, silent = run(*words, SIMPROF_COMPILE="1")
    assert first == second == shipped
    assert "compiling the engine, once: about 40 s\n" in said and "compiling" not in silent
    # a part that this one needs besides
    tree, more = run(*words, "--call-tree", SIMPROF_COMPILE="1")
    assert tree == run(*words, "--call-tree")[0]
    assert "compiling context_kernel, once: about 5 s\n" in more and "engine" not in more
