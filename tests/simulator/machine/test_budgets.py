"""Budgets that are spent at the last place of a page: a branch there, its delay slot behind it.

The engine reports the slot as a block of its own. A run that stopped before it could not go on:
the branch is taken already, and only npc knows where to. So the slot is executed first.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Label, Register, assign_labels
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import Limits, RunResult
from tests.support.assembled import BASE, code, program_of

R = Register
WORDS = PAGE_SIZE // 4
MAIN = code(
    asm.mov(3, R.L0), *[asm.nop()] * (WORDS - 3), "loop", asm.arithmetic("subcc", R.L0, 1, R.L0),
    asm.branch("ne", "loop"), "slot", asm.arithmetic("add", R.L1, 1, R.L1),
    "out", asm.mov(1, R.G1), asm.trap_always(0x6D),
)  # fmt: skip
LABELS = assign_labels([Label("main"), *MAIN], BASE)
SLOT, LOOP, OUT = LABELS["slot"], LABELS["loop"], LABELS["out"]
BEFORE = WORDS - 2
"""Instructions before the loop."""


def run(directory: Path, budget: int) -> RunResult:
    host = Host(directory, program=directory / "program", stdin=b"", stdout=-1, stderr=-1)
    machine = Machine(
        program_of({"main": MAIN}), arguments=[b"main"], host=host, limits=Limits(budget)
    )
    return machine.run()


def test_the_slot_is_on_the_next_page() -> None:
    assert SLOT % PAGE_SIZE == 0 and SLOT == LOOP + 8


@pytest.mark.parametrize("turn", [1, 2])
def test_a_budget_for_a_branch_pays_for_its_slot(tmp_path: Path, turn: int) -> None:
    """It is overdrawn by one instruction; the next one to be executed is the branch's target."""
    budget = BEFORE + 3 * turn - 1
    result = run(tmp_path, budget)
    assert (result.reason, result.status) == ("budget", 124)
    assert result.instructions == budget + 1
    assert result.last_pc == LOOP


def test_behind_a_branch_that_is_not_taken_the_run_stops_before_the_slot(tmp_path: Path) -> None:
    """Control goes on behind the slot anyway: it can be continued from there."""
    result = run(tmp_path, BEFORE + 3 * 3 - 1)
    assert (result.reason, result.instructions) == ("budget", BEFORE + 3 * 3 - 1)
    assert (result.last_pc, SLOT + 4) == (SLOT, OUT)


@pytest.mark.parametrize("turn", [1, 2, 3])
@pytest.mark.parametrize("more", [0, 1])
def test_other_budgets_are_not_overdrawn(tmp_path: Path, turn: int, more: int) -> None:
    budget = BEFORE + 3 * (turn - 1) + more
    result = run(tmp_path, budget)
    assert result.reason == "budget"
    assert result.instructions <= budget
    assert result.last_pc != SLOT


def test_the_whole_program(tmp_path: Path) -> None:
    result = run(tmp_path, BEFORE + 9 + 2)
    assert (result.reason, result.instructions) == ("exit", BEFORE + 9 + 2)
