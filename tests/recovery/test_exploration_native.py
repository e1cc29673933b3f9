"""The kernel of exploration as machine code, beside the same functions in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.recovery import exploration
from simprof.profiler.recovery import exploration_kernel as k
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs, recover
from simprof.simulator.binary import elf
from simprof.simulator.isa.decode import TransferKind
from tests.support.turns import turns

Find = Callable[..., Path]
NATIVE = exploration._in_machine_code


def explored(monkeypatch: pytest.MonkeyPatch, kernel: Any, *given: Any) -> ProgramGraphs:
    """Recover a program with one of the kernels."""
    calls = []

    def counted(*arguments: Any) -> int:
        calls.append(arguments[1])
        result: int = kernel(*arguments)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(exploration, "_in_machine_code", counted)
        recovered = recover(*given)
    assert {k.BEGIN, k.FOLLOW_BLOCKS, k.SETTLE} <= set(calls)
    return recovered


@pytest.mark.parametrize(
    ("name", "machine"), turns(["switches", "calls", "signals", "nonlocal"], ["v8", "v8plus", "v9"])
)
def test_machine_code_finds_what_python_finds(
    monkeypatch: pytest.MonkeyPatch, fixture_elf: Find, name: str, machine: str
) -> None:
    program = elf.load(fixture_elf(name, machine))
    first = recover(program)
    inside = [cfg.blocks[-1].start for cfg in first.routines]
    everything = Discoveries(
        frozenset((jump, to) for jump in first.unresolved_jumps for to in inside[:9]),
        frozenset(inside[::3]),
        first.no_return_calls,
    )
    for discoveries in (Discoveries(), everything):
        native = explored(monkeypatch, NATIVE, program, discoveries)
        python = explored(monkeypatch, exploration._in_python, program, discoveries)
        assert native.routines == python.routines
        assert tuple(native.routines) == tuple(python.routines)
        for what in ("unresolved_jumps", "no_return_calls", "call_aliases", "irregular"):
            assert getattr(native, what) == getattr(python, what)
    assert native.routines != first.routines


def test_kinds_of_transfers_are_those_of_the_decoder() -> None:
    names = {"WINDOW_RETURN": "RETURN"}
    for name in (
        "NONE", "BRANCH", "BRANCH_ALWAYS", "BRANCH_NEVER", "CALL", "INDIRECT_CALL", "JUMP",
        "RETURN_JUMP", "WINDOW_RETURN", "JUMP_AND_LINK", "TRAP_ALWAYS", "COMPARE_BRANCH",
        "TRAP_RETURN",
    ):  # fmt: skip
        assert getattr(k, name) == TransferKind[names.get(name, name)]
