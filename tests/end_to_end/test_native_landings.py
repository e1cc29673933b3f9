"""Programs that jump out of activations count the same natively and in Python."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.engine.automaton import Automaton
from simprof.profiler.engine.stacks import EarlyEnd
from simprof.profiler.engine.walk import Land
from simprof.profiler.reports import run_json
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.session import observe
from simprof.simulator.machine import machine

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
NEVER = 1 << 60
Compile = Callable[..., Path]


def _count(
    program: Path, natively: bool, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[Counter[EarlyEnd]], int]:
    """Measure; `natively`: native code handles landings that are known, and sets contexts.

    Returns
    -------
    list of dict, list of Counter, int
        What the schemes measure, the early ends of every emulation, and the landings that Python
        handled.
    """
    ends: list[Counter[EarlyEnd]] = []
    landed: list[int] = []
    finish, land = Automaton.finish, Automaton._land

    def remember(self: Automaton, **how: Any) -> None:
        finish(self, **how)
        ends.append(+self.tally.early)

    def noted(self: Automaton, operation: int, landing: Land) -> None:
        landed.append(operation)
        land(self, operation, landing)

    with monkeypatch.context() as patched, Path(os.devnull).open("wb") as output:
        patched.setattr(machine, "PYTHON_CONTEXT_TRAPS", 0 if natively else NEVER)
        if not natively:
            patched.setattr(Automaton, "_native_landings", lambda self: None)
        patched.setattr(Automaton, "finish", remember)
        patched.setattr(Automaton, "_land", noted)
        guest = GuestOptions(root=program.parent, stdout=output.fileno(), stderr=output.fileno())
        settings = [Setting(mode, mode, SchemeOptions()) for mode in ("pp", "bits")]
        measured = measure_all(observe(RunRequest(program=program, guest=guest), settings))
        return [run_json.render(each) for each in measured], ends, len(landed)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v8plus"])
def test_native_landings_change_no_count(
    compile_c: Compile, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    """And Python handles few of them: those that are new, and those out of signal handlers."""
    program = compile_c(PROGRAMS / "landing.cc", ("-O1",), width=width, language="c++")
    python, python_ends, all_landings = _count(program, False, monkeypatch)
    native, native_ends, landings = _count(program, True, monkeypatch)
    assert native == python
    assert [_by_place(ends) for ends in native_ends] == [_by_place(ends) for ends in python_ends]
    assert landings < all_landings / 3


def _by_place(ends: Counter[EarlyEnd]) -> Counter[int]:
    """Early ends by block."""
    counts: Counter[int] = Counter()
    for end, count in ends.items():
        counts[end.block] += count
    return counts
