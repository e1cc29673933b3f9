"""Errors made on purpose in the code that is put into a program: verification catches each.

Only what is emitted is wrong, in one snippet; prices and predictions are those of the right code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.rewriting import program
from simprof.profiler.rewriting.verification import EMULATOR, QEMU, ModeResult
from simprof.profiler.rewriting.verify import verify
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Instruction
from tests.support.tiny_programs import ENTRY, program_file
from tests.support.turns import turns
from tests.support.wrong_on_purpose import STATUS, Change, Code, Wrong, flags_destroyed, items

MAIN, ROUTINE = f"sub_{ENTRY:x}", f"sub_{ENTRY + 4 * 22:x}"


def mode_result(
    machine: MachineKind, mode: str, directory: Path, way: str = EMULATOR
) -> ModeResult:
    """Verify the program in one mode."""
    path, root = directory / "program", directory / "root"
    path.write_bytes(program_file(machine, items(machine)))
    root.mkdir()
    request = RunRequest(path, GuestOptions(root=root, stdin=path))
    result = verify(request, [Setting(mode, mode, SchemeOptions())], [way])
    (found,) = result.modes
    assert result.passed == (not found.differences)
    return found


# --- the errors


def one_short(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """The last instruction of a snippet is missing."""
    return {edge: right[edge][:-1] for edge in ("equal>low",) if edge in right}


def wrong_register(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """A counter is written back from another register."""

    def wrong(before: Code) -> Code:
        last = before[-1]
        assert last.text.startswith("st ")
        return (*before[:-1], Instruction("st %g0", last.word & ~(31 << 25)))

    return {edge: wrong(right[edge]) for edge in ("equal>ten",) if edge in right}


def wrong_chord(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """Two edges have each other's counters."""
    one, other = "low>next", "high>next"
    return {one: right[other], other: right[one]} if one in right else {}


def missed_exit(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """A return has no code."""
    return {edge: () for edge in ("few>EXIT",) if edge in right}


def wrong_symbol(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """A number that is no path's is written in place of a symbol."""

    def wrong(one: Instruction) -> Instruction:
        is_symbol = one.text.startswith("or ")
        return Instruction("or %g2, 4095, %g2", one.word | 0xFFF) if is_symbol else one

    return {edge: tuple(map(wrong, right[edge])) for edge in ("few>EXIT",) if edge in right}


@dataclass(frozen=True)
class Case:
    """An error in the code of a mode, and what verification says of it."""

    change: Change
    mode: str
    said: tuple[str, ...]


CASES = [
    Case(
        one_short,
        "naive",
        (
            f"{MAIN}: edge counter 4 holds 0, not 9",
            "instructions were executed, -9",
            "each block was executed as often as predicted",
        ),
    ),
    Case(wrong_register, "naive", (f"{MAIN}: edge counter 5 holds 0, not 1",)),
    Case(
        flags_destroyed,
        "naive",
        (
            f"the status is 41, not {STATUS}",
            f"{MAIN}: its block at {ENTRY + 4 * 7:#x} was executed 10 times, not 9",
        ),
    ),
    Case(
        wrong_chord,
        "qpt2",
        (f"{MAIN}: edge counter 0 holds 10, not 9; edge counter 2 holds 9, not 10",),
    ),
    Case(
        missed_exit,
        "pp",
        (f"{ROUTINE}: the counter of path 0 holds 0, not 1", "instructions were executed, -4"),
    ),
    Case(
        wrong_symbol,
        "wpp",
        (
            f"{ROUTINE}: the counter of path 0 holds 0, not 1",
            "the trace has paths that no routine has: 1",
        ),
    ),
]


@pytest.mark.parametrize(("machine", "mode"), turns(MachineKind, ["naive", "qpt2", "pp"]))
def test_the_right_code_passes(machine: MachineKind, mode: str, tmp_path: Path) -> None:
    result = mode_result(machine, mode, tmp_path)
    assert result.differences == ()
    assert (result.output_equal, result.counters_equal) == (True, True)
    assert result.executed == {EMULATOR: result.predicted}


@pytest.mark.long
@pytest.mark.parametrize(("machine", "case"), turns(MachineKind, CASES))
def test_an_error_is_caught(
    machine: MachineKind, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Wrong(machine, case.change)
    monkeypatch.setattr(program, "emit", wrong)
    result = mode_result(machine, case.mode, tmp_path)
    assert wrong.changed
    for words in case.said:
        assert any(words in line for line in result.differences), result.differences


@pytest.mark.qemu
def test_where_blocks_differ_is_asked_of_the_emulator_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went wrong elsewhere need not go wrong there."""
    monkeypatch.setattr(program, "emit", Wrong(MachineKind.SPARCV9, flags_destroyed))
    result = mode_result(MachineKind.SPARCV9, "naive", tmp_path, QEMU)
    assert not result.output_equal
    assert any(f"the status is 41, not {STATUS}" in line for line in result.differences)
    assert not any(line.startswith(EMULATOR) for line in result.differences)
