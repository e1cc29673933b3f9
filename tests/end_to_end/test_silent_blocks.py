"""Runs in which blocks raise no events count what runs count in which all blocks do."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.engine import silence
from simprof.profiler.engine.silence import EventsLostError, RunThinning, Silence
from simprof.profiler.engine.walk import WalkContext
from simprof.profiler.reports import run_json
from simprof.profiler.request.request import SchemeOptions, Setting, TableChoice
from simprof.simulator.machine import machine
from simprof.simulator.machine.hooks import NO_LIMIT
from simprof.simulator.machine.running import BlockPlace
from tests.oracles.exact import check_against_qemu, simulate_settings
from tests.support.turns import first

PROGRAMS = {
    "bench": ["1"],
    "calls": ["9"],
    "control": [],
    "deep": ["300"],
    "faults": [],
    "floats": [],
    "loops": [],
    "loops_plain": [],
    "manypaths": [],
    "nonlocal": [],
    "pointers": [],
    "records": [],
    "sieve": ["1"],
    "signals": [],
    "switches": [],
    "switches_pic": [],
    "tailcalls": [],
    "wide": [],
    "words": [],
}
HASHED = SchemeOptions(table=TableChoice.HASH)
SETTINGS = (
    Setting("pp", "pp", SchemeOptions()),
    Setting("hashed", "pp", HASHED),
    Setting("qpt2", "qpt2", SchemeOptions()),
)
TEXT = b"the quick brown fox\njumps over the lazy dog\n" * 9


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[BlockPlace, int]]:
    """Have blocks chosen early and often, all that can be; the choices."""
    found: list[Mapping[BlockPlace, int]] = []
    begin = RunThinning.begin_silence

    def note(self: RunThinning, sizes: Mapping[BlockPlace, int]) -> None:
        found.append(sizes)
        begin(self, sizes)

    monkeypatch.setattr(RunThinning, "begin_silence", note)
    monkeypatch.setattr(silence, "INSTRUCTIONS_PER_TRANSITION", 0)
    monkeypatch.setattr(machine, "FIRST_LOOK", 2000)
    monkeypatch.setattr(machine, "NEXT_LOOK", 3000)
    monkeypatch.setattr(machine, "DENSE_END", 500)
    monkeypatch.setattr(silence, "LEAST_SHARE", 1 << 40)
    monkeypatch.setattr(silence, "LEAST_GAIN", -1.0)
    return found


def counted(path: Path, arguments: list[str], directory: Path, budget: int | None = None) -> Any:
    """What a run says of itself and under each of `SETTINGS`."""
    simulated = simulate_settings(
        path, arguments, TEXT, directory=directory, settings=SETTINGS, max_instructions=budget
    )
    result = simulated.observation.result
    reports = {name: run_json.render(each) for name, each in simulated.measurements.items()}
    ending = result.status, result.reason, result.instructions, result.spills, result.fills
    return *ending, simulated.output, simulated.errors, reports


def dense(path: Path, arguments: list[str], directory: Path, budget: int | None = None) -> Any:
    """The same with an event for every block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "FIRST_LOOK", NO_LIMIT)
        return counted(path, arguments, directory, budget)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "width"),
    first(1, zip([*PROGRAMS][::2], itertools.cycle(("v8", "v8plus", "v9")), strict=False)),
)
def test_silent_blocks_change_no_count(
    fixture_elf: Callable[..., Path],
    tmp_path: Path,
    chosen: list[Mapping[BlockPlace, int]],
    name: str,
    width: str,
) -> None:
    path, arguments = fixture_elf(name, width), PROGRAMS[name]
    expected = dense(path, arguments, tmp_path)
    assert not chosen
    assert counted(path, arguments, tmp_path) == expected
    assert any(chosen)


@pytest.mark.long
def test_budgets_end_where_they_do_with_all_events(
    fixture_elf: Callable[..., Path], tmp_path: Path, chosen: list[Mapping[BlockPlace, int]]
) -> None:
    path, source = fixture_elf("sieve"), random.Random(3)
    for _ in range(3):
        budget = source.randrange(4000, 1_000_000)
        assert counted(path, ["1"], tmp_path, budget) == dense(path, ["1"], tmp_path, budget)
    assert any(chosen)


def test_what_is_lost_is_run_again_with_all_events(
    fixture_elf: Callable[..., Path],
    tmp_path: Path,
    chosen: list[Mapping[BlockPlace, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = fixture_elf("sieve")
    expected = dense(path, ["1"], tmp_path)
    asked = []

    def lose(self: Silence, context: WalkContext, address: int) -> tuple[BlockPlace, ...]:
        asked.append(address)
        raise EventsLostError("as if it could not be told")

    monkeypatch.setattr(Silence, "way", lose)
    assert counted(path, ["1"], tmp_path) == expected
    assert any(chosen)
    assert len(asked) == 1


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v9"])
def test_operations_that_trap_between_silent_blocks(
    compile_c: Callable[..., Path],
    tmp_path: Path,
    chosen: list[Mapping[BlockPlace, int]],
    width: str,
) -> None:
    """A trap stands for `fsmuld`, which ends its block; qemu is right about it, but for NaNs."""
    path = compile_c(TRAPPED, ("-O2", "-mcpu=ultrasparc"), width=width)
    check_against_qemu(path, directory=tmp_path)
    assert any(chosen)


TRAPPED = """
#include <stdio.h>
static float f[8] = {1.5f, 2.5f, 3.25f, -1.f, 7.f, 9.f, 11.f, 0.5f};
int main(void)
{
    double sum = 0;
    for (int i = 0; i < 3000; i++) {
        double product;
        asm volatile("fsmuld %1, %2, %0" : "=e"(product) : "f"(f[i & 7]), "f"(f[i >> 3 & 7]));
        sum += product;
        if (i % 3 == 0)
            sum -= 5;
    }
    printf("%g\\n", sum);
    return 0;
}
"""
