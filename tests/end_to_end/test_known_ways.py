"""A run that knows the ways of another takes them without Python, and counts the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simprof.profiler.engine.automaton import Automaton
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session.session import compare_program
from tests.conftest import FIXTURES
from tests.support.replay import PROGRAMS
from tests.support.turns import first

SOURCES = Path(__file__).resolve().parents[1] / "programs"
SETTINGS = [Setting(mode, mode, SchemeOptions()) for mode in ("edges", "qpt2")]
Compile = Callable[..., Path]


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """What Python had to learn: the states that transitions came from, run by run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found: list[int] = []
    resolve = Automaton._resolve

    def noted(automaton: Automaton, source: int, address: int, size: int) -> None:
        found.append(source)
        resolve(automaton, source, address, size)

    monkeypatch.setattr(Automaton, "_resolve", noted)
    return found


def measured(request: RunRequest) -> list[RunMeasurement]:
    return [
        replace(each, counts={k: v for k, v in each.counts.items() if "runs" not in k})
        for each in compare_program(request, SETTINGS).measurements
    ]


def requested(program: Path, directory: Path, arguments: tuple[str, ...] = ()) -> RunRequest:
    null = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root=directory, stdout=null, stderr=null)
    given = tuple(argument.encode() for argument in arguments)
    return RunRequest(program, guest, given, remember=True)


@pytest.mark.parametrize(
    ("name", "width"), first(2, zip(PROGRAMS, ("v9", "v8plus", "v8") * 5, strict=False))
)
def test_nothing_is_learnt_twice(name: str, width: str, learnt: list[int], tmp_path: Path) -> None:
    """The same run of fixtures: every number is the same."""
    program = FIXTURES / "bin" / width / f"{name}.elf"
    request = requested(program, tmp_path, PROGRAMS[name])
    plain = measured(replace(request, remember=False))
    assert measured(request) == plain
    assert learnt
    learnt.clear()
    assert measured(request) == plain
    assert not learnt


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("source", ["landing.cc", "signals.c", "nowhere.c"])
def test_early_ends_and_landings(
    source: str, compile_c: Compile, learnt: list[int], tmp_path: Path
) -> None:
    """Where control lands natively, it does so in runs that have not learnt to, too."""
    language = "c++" if source.endswith(".cc") else "c"
    program = compile_c(SOURCES / source, ("-O1", "-lm"), language=language)
    request = requested(program, tmp_path)
    plain = measured(replace(request, remember=False))
    assert measured(request) == plain
    learnt.clear()
    assert measured(request) == plain
    before = len(learnt)
    learnt.clear()
    assert measured(request) == plain
    assert len(learnt) <= before < 200  # those behind blocks that fall silent


def test_a_run_that_goes_further_learns_the_rest(learnt: list[int], tmp_path: Path) -> None:
    """And a later one knows that, too."""
    short = requested(FIXTURES / "bin" / "v9" / "bench.elf", tmp_path)
    short = replace(short, guest=replace(short.guest, max_instructions=300_000))
    whole = replace(short, guest=replace(short.guest, max_instructions=None))
    plain = measured(replace(whole, remember=False))
    every = len(learnt)
    learnt.clear()
    measured(short)
    first = len(learnt)
    assert 0 < first < every
    learnt.clear()
    assert measured(whole) == plain
    assert len(learnt) == every - first
    learnt.clear()
    assert measured(whole) == plain
    assert len(learnt) < (every - first) // 2  # those behind blocks that fall silent


BEHIND_A_PAGE = r"""
#include <string.h>
#include <sys/mman.h>
int main(void) {
    char *page = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char other[16] = "the end";
    int same = 0;
    munmap(page + 8192, 8192);
    for (int i = 0; i < 40; i++) {
        char *text = page + 8192 - 8 - i % 5;
        memcpy(text, "the end", 8);
        same += strncmp(text, other, 12) == 0;
    }
    return same != 40;
}
"""
"""glibc reads behind the string by loads that may not fault: simprof executes these."""


@pytest.mark.long
@pytest.mark.toolchain
def test_blocks_that_are_left_in_their_middle(
    compile_c: Compile, learnt: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python goes on with the rest of such a block every time, and counts that once."""
    resumed = []
    resume = Automaton._resume

    def noted(automaton: Automaton, address: int, size: int) -> None:
        resumed.append(address)
        resume(automaton, address, size)

    monkeypatch.setattr(Automaton, "_resume", noted)
    program = compile_c(BEHIND_A_PAGE, ("-O1", "-w"))
    request = requested(program, tmp_path)
    plain = measured(replace(request, remember=False))
    assert resumed
    for _ in range(3):
        assert measured(request) == plain
