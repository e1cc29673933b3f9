"""Native code that finds out what the processor did from the words of the program."""

from __future__ import annotations

import pytest

from simulator.cpu import traps
from simulator.cpu.address_space import AddressSpace
from simulator.cpu.guest import PAGE_SIZE, Protection
from simulator.isa import assembler as asm
from simulator.isa.assembler import Instruction, Register
from simulator.isa.assembly import assemble
from tests.support.assembled import code

R = Register
BASE = 1 << 20


def reaches(word: int, target: int) -> bool:
    """Whether an instruction at `BASE` may jump to `BASE + target`."""
    space = AddressSpace(is64=True, limit=1 << 24)
    space.map(BASE, PAGE_SIZE, Protection.READ | Protection.WRITE)
    space.write(BASE, word.to_bytes(4, "big"))
    return bool(traps.may_jump(space.table.ctypes.data, BASE, BASE + target))


def word_to(instruction: Instruction, words: int) -> int:
    """Return the word of a transfer to the label `there`, which is so many words further on."""
    gap = [asm.nop()] * (words - 1 if words > 0 else -words)
    ahead = code(instruction, *gap, "there", asm.nop())
    items = ahead if words > 0 else code("there", *gap, instruction)
    return assemble(items, BASE).instructions[0 if words > 0 else -1].word


TRANSFERS = [
    asm.branch("e", "there"),
    asm.branch("ne", "there", True),
    asm.branch_predicted("e", "%xcc", "there"),
    asm.branch_register("nz", R.O0, "there"),
    asm.call("there"),
]


@pytest.mark.parametrize("words", [2, 5, -1, -7, 0x1001])
@pytest.mark.parametrize("transfer", TRANSFERS, ids=lambda each: each.text.split()[0])
def test_a_transfer_leads_to_its_own_target_only(transfer: Instruction, words: int) -> None:
    word = word_to(transfer, words)
    assert reaches(word, 4 * words)
    assert not any(reaches(word, 4 * words + away) for away in (4, -4, 64, 0x8000, -0x8000))


@pytest.mark.parametrize("words", [0x1234, 0x3FFF, 0x4000, 0x7FFF, -0x4000, -0x4001, -0x8000])
def test_a_branch_on_a_register_has_two_fields_of_displacement(words: int) -> None:
    """Fourteen bits at the end of the word, and two above the register."""
    low, high = words & 0x3FFF, words >> 14 & 3
    word = 0x02C00000 | R.O0 << 14 | high << 20 | low
    assert reaches(word, 4 * words)
    for bit in range(16):
        assert not reaches(word, 4 * (words ^ 1 << bit)), f"bit {bit} is not looked at"


def test_jumps_by_register_may_lead_anywhere_and_other_words_nowhere() -> None:
    for jump in (asm.jmpl(R.O0, 8, R.G0), asm.return_(R.I7, 8)):
        assert reaches(jump.word, 4096)
    for other in (asm.nop(), asm.mov(1, R.O0), asm.load("ld", R.SP, 64, R.O0), asm.restore()):
        assert not reaches(other.word, 8)
