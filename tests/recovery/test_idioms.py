"""Instruction sequences that say how code calls, returns and ends, from the assembler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from simprof.profiler.recovery.idioms import (
    ending_trap,
    is_prologue,
    is_restore,
    return_point,
    starts_leaf,
    writes_integer,
)
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register, assemble
from simprof.simulator.isa.decode import decode_transfers
from tests.support.assembled import BASE, code
from tests.support.explored import word

R = Register
EXIT_64, EXIT_32 = asm.trap_always(0x6D), asm.trap_always(0x10)


def words_of(items: Sequence[Item]) -> tuple[list[int], list[int]]:
    """Words and their transfer kinds, as a 64-bit program has them."""
    words = [i.word for i in assemble(items, BASE).instructions]
    kinds = decode_transfers(np.array(words, np.uint32), BASE, 64).kind
    return words, kinds.tolist()


def test_restores_and_prologues() -> None:
    save = asm.arithmetic("save", R.SP, -176, R.SP)
    large = asm.arithmetic("save", R.SP, R.G1, R.SP)
    other = asm.arithmetic("save", R.SP, -176, R.L0)
    words, _ = words_of([save, large, other, asm.restore(), asm.nop()])
    assert [is_prologue(words, index) for index in range(-1, 6)] == [
        False, True, True, False, False, False, False,
    ]  # fmt: skip
    assert [is_restore(each) for each in words] == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([], True),
        ([asm.mov(1, R.O0), asm.cmp(R.O0, 2), asm.branch("e", "out"), asm.nop()], True),
        ([asm.mov(1, R.O0)] * 100, False),  # too far away
        ([asm.call("out"), asm.nop()], False),
        ([asm.jmpl(R.G1, 0, R.G0), asm.nop()], False),
        ([asm.data_word(0x81CFE008), asm.nop()], False),
        ([asm.restore()], False),
        ([asm.arithmetic("save", R.SP, -176, R.SP)], False),
        ([asm.branch("a", "out"), asm.nop()], False),
        ([asm.branch_predicted("a", "%icc", "out"), asm.nop()], False),
        ([asm.sethi(0x123 << 10, R.I0)], True),  # its bits are none of a branch's condition
    ],
)  # fmt: skip
def test_a_leaf_comes_straight_to_its_return(before: list[Item], expected: bool) -> None:
    words, _ = words_of([*before, *code("out", asm.retl(), asm.nop())])
    assert starts_leaf(words, 0) is expected
    assert not starts_leaf(words[: len(before)], 0), "it has no end"


@pytest.mark.parametrize(
    ("items", "is64", "setter"),
    [
        ([asm.mov(1, R.G1), EXIT_64], True, 0),
        ([asm.mov(188, R.G1), asm.nop(), EXIT_64], True, 0),
        ([asm.mov(1, R.G1), EXIT_32], False, 0),
        ([asm.mov(1, R.G1), EXIT_64], False, None),  # no system call of a 32-bit program
        ([asm.mov(20, R.G1), EXIT_64], True, None),  # getpid returns
        ([asm.mov(1, R.G2), EXIT_64], True, None),
        ([asm.mov(1, R.G1), asm.mov(20, R.G1), EXIT_64], True, None),
        ([asm.mov(20, R.G1), asm.mov(1, R.G1), EXIT_64], True, 1),
        ([asm.mov(1, R.G1), asm.arithmetic("add", R.G1, 1, R.G1), EXIT_64], True, None),
        ([asm.mov(1, R.G1), asm.store("st", R.G1, R.SP, 64), EXIT_64], True, 0),
        ([asm.mov(1, R.G1), asm.load("ld", R.SP, 64, R.G1), EXIT_64], True, None),
        ([asm.mov(1, R.G1), asm.retl(), EXIT_64], True, None),  # not straight to the trap
        ([asm.trap_always(5)], True, 0),
        ([asm.trap_always(0x6F)], True, 0),  # setcontext
        ([asm.trap_always(0x6F)], False, None),
        ([EXIT_64], True, None),
    ],
)
def test_traps_that_do_not_return(items: list[Instruction], is64: bool, setter: int | None) -> None:
    words, kinds = words_of(items)
    assert ending_trap(words, kinds, len(words) - 1, is64) == setter


def test_the_number_is_looked_for_close_by_only() -> None:
    for distance, found in ((30, 0), (31, None)):
        words, kinds = words_of([asm.mov(1, R.G1), *[asm.nop()] * distance, EXIT_64])
        assert ending_trap(words, kinds, len(words) - 1, True) == found


CALL = asm.jmpl(R.G1, 0, R.O7)


@pytest.mark.parametrize(
    ("slot", "point"),
    [
        (asm.nop(), 2),
        (asm.restore(), -1),  # a tail call
        (asm.mov(R.G1, R.O7), -1),  # it returns to where somebody else said
        (asm.arithmetic("add", R.O7, 8, R.O7), 4),
        (asm.arithmetic("sub", R.O7, -8, R.O7), 4),
        (asm.arithmetic("add", R.O7, 2, R.O7), -1),
        (asm.arithmetic("add", R.L0, 8, R.O7), -1),
        (asm.sethi(0x400, R.O7), -1),
        (asm.load("ld", R.SP, 64, R.O7), 2),  # of a load nothing is claimed
    ],
)
def test_where_a_callee_returns_to(slot: Instruction, point: int) -> None:
    words, kinds = words_of([CALL, slot, *[asm.nop()] * 4])
    assert return_point(words, kinds, 0, True) == point


def test_functions_that_return_structures_skip_a_word() -> None:
    """The word behind the slot is the structure's size (V8 ABI, 32 bits only)."""
    words, kinds = words_of(code(CALL, asm.nop(), word(8), asm.nop()))
    assert return_point(words, kinds, 0, False) == 3
    assert return_point(words, kinds, 0, True) == 2
    words, kinds = words_of(code(CALL, asm.nop(), asm.nop()))
    assert return_point(words, kinds, 0, False) == 2


@pytest.mark.parametrize(
    ("instruction", "writes"),
    [
        (asm.sethi(0x400, R.G1), True),
        (asm.mov(1, R.G1), True),
        (asm.load("ldx", R.SP, 0, R.G1), True),
        (asm.load("swap", R.SP, 0, R.G1), True),
        (asm.store("st", R.G1, R.SP, 0), False),
        (asm.store("stx", R.G1, R.SP, 0), False),
        (asm.branch("a", "here"), False),
        (word(2 << 30 | 1 << 25 | 0x34 << 19 | 0x42 << 5), False),  # faddd
        (word(3 << 30 | 1 << 25 | 0x20 << 19), False),  # ldf
    ],
)
def test_which_words_may_write_an_integer_register(instruction: Instruction, writes: bool) -> None:
    assert writes_integer(instruction.word) is writes
