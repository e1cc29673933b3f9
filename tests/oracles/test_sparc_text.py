"""The interpreter of printed code: what it counts, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.oracles.listing import ListingError, read
from tests.oracles.sparc_text import Activation, Machine, Program, TextError

RUNTIME = {
    0x5000_0000: "save %sp, -0x60, %sp",
    0x5000_0004: "add %i0, 1, %i0",
    0x5000_0008: "ret",
    0x5000_000C: "restore",
}


def execute(lines: Sequence[str], is_v8: bool = True, **registers: int) -> Machine:
    """Run a piece of code; `o0=5` sets a register before."""
    machine = Machine(is_v8, {})
    values = [0] * 33
    values[14] = 0xF000_0000
    for name, value in registers.items():
        values[{"o": 8, "l": 16}[name[0]] + int(name[1])] = value
    machine.enter(Activation(values))
    Program(RUNTIME, {"routine": 0x5000_0000}).add(lines)(machine)
    return machine


def test_a_counter_is_incremented() -> None:
    machine = execute(
        ["sethi %hi(0x51000400), %o0", "ld [%o0 + 4], %o1", "add %o1, 1, %o1", "st %o1, [%o0 + 4]"]
    )
    assert machine.words == {0x5100_0404: 1}
    assert machine.executed == 4


def test_a_called_routine_counts() -> None:
    machine = execute(["call routine", "mov 6, %o0"])
    assert machine.r[8] == 7
    assert machine.executed == 6


@pytest.mark.parametrize(("value", "executed"), [(0, 3), (1, 4)])
def test_a_branch_over_a_conditional_part(value: int, executed: int) -> None:
    code = ["brz %o0, .+12", "nop", "mov 9, %o1", "mov 8, %o2"]
    assert execute(code, is_v8=False, o0=value).executed == executed


@pytest.mark.parametrize(("value", "executed"), [(0, 3), (1, 3)])
def test_an_annulled_slot_does_not_count(value: int, executed: int) -> None:
    code = ["cmp %o0, 0", "be,a .+12", "mov 1, %o1", "mov 2, %o1"]
    machine = execute(code, o0=value)
    assert machine.r[9] == (1 if value == 0 else 2)
    assert machine.executed == executed


def test_a_jump_into_the_program_ends_a_piece() -> None:
    assert execute(["mov 1, %o0", "ba 0x10094", "mov 2, %o0", "mov 3, %o0"]).executed == 3


@pytest.mark.parametrize(
    "text", ["fadds %f0, %f1, %f2", "add %q0, 1, %o0", "call nobody", "ld [%o0 * 2], %o1"]
)
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(TextError):
        execute([text])


def test_a_listing_with_other_lines_is_refused() -> None:
    with pytest.raises(ListingError):
        read("main at 0x10094: mode pp, 1 snippet, 1 instruction, 4 bytes\n  something new\n")
