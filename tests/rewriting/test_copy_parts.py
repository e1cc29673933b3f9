"""The small parts of copying, by hand: transfers, system calls, frames, charges."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.emission import Emission
from simprof.profiler.profiles.profile import CutBlock
from simprof.profiler.rewriting import draft, placing
from simprof.profiler.rewriting.calls import TrapEnding, ending_of, trap_number
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import FixupKind, Instruction, Item, Label, Register, assemble
from simprof.simulator.isa.decode import TransferKind, simm13

R = Register

CALL = 0x40000005  # call .+20
BNE = 0x12800005  # bne .+20
BNE_A = 0x32800005  # bne,a .+20
BPNE = 0x12680005  # bne %xcc, .+20
BRNZ = 0x0ACA0005  # brnz %o0, .+20
BA = 0x10800005  # ba .+20
BA_A = 0x30800005  # ba,a .+20
BPA = 0x10680005  # ba %xcc, .+20
RD_PC_L7 = 0xAF414000  # rd %pc, %l7
TA_6D = 0x91D0206D
TA_10 = 0x91D02010
G1_IS_1 = 0x82102001  # mov 1, %g1
G1_IS_188 = 0x821020BC
G1_IS_4 = 0x82102004
G1_IS_O0 = 0x82100008
G1_LOADED = 0xC2022000  # ld [%o0], %g1
O0_IS_0 = 0x90102000


def linked(item: Instruction, distance: int) -> int:
    """The word of a transfer to a place so many bytes behind it."""
    items: list[Item] = [item, *(asm.nop() for _ in range(distance // 4 - 1)), Label("there")]
    return int.from_bytes(assemble(items, 0x10000).code[:4], "big")


# --- transfers


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        (CALL, FixupKind.DISP30),
        (BNE, FixupKind.DISP22),
        (BNE_A, FixupKind.DISP22),
        (BPNE, FixupKind.DISP19),
        (BRNZ, FixupKind.DISP16),
    ],
)
def test_a_retargeted_transfer_differs_in_its_displacement_alone(
    word: int, kind: FixupKind
) -> None:
    """The words above go 20 bytes on: to that distance again, they are themselves."""
    assert draft.displacement_kind(word) is kind
    transfer = TransferKind.CALL if word == CALL else TransferKind.BRANCH
    assert linked(draft.retargeted(word, transfer, "there"), 20) == word
    assert linked(draft.retargeted(word, transfer, "there"), 24) == word + 1


def test_what_is_always_taken_becomes_ba() -> None:
    for word, wanted in ((BA, BA), (BPA, BA), (BA_A, BA_A)):
        new = draft.retargeted(word, TransferKind.BRANCH_ALWAYS, "there")
        assert linked(new, 20) == wanted
    assert linked(draft.jump("there"), 20) == BA_A


def test_which_branches_are_short() -> None:
    assert draft.is_short(BPNE, TransferKind.BRANCH)
    assert draft.is_short(BRNZ, TransferKind.BRANCH)
    assert not draft.is_short(BNE, TransferKind.BRANCH)
    assert not draft.is_short(BPA, TransferKind.BRANCH_ALWAYS)  # becomes `ba`


def test_reading_the_program_counter() -> None:
    assert draft.reads_pc(RD_PC_L7)
    assert not draft.reads_pc(0xAF408000)  # rd %ccr, %l7
    assert not draft.reads_pc(0xAE10000F)  # mov %o7, %l7
    assert draft.raw(RD_PC_L7).word == RD_PC_L7


@pytest.mark.parametrize("value", [0, 1, 0x3FF, 0x400, 0x10001234, 0xFFFFFFFF])
def test_an_address_takes_two_instructions(value: int) -> None:
    first, second = draft.constant(value, R.O7)
    assert (first.word >> 25 & 31, second.word >> 25 & 31, second.word >> 14 & 31) == (15, 15, 15)
    assert (first.word & 0x3FFFFF) << 10 | second.word & 0x1FFF == value


# --- system calls


@pytest.mark.parametrize(
    ("words", "is64", "ending"),
    [
        ([G1_IS_1, TA_6D], True, TrapEnding.EXITS),
        ([G1_IS_188, O0_IS_0, TA_10], False, TrapEnding.EXITS),
        ([G1_IS_4, TA_6D], True, TrapEnding.GOES_ON),
        ([G1_IS_1, G1_IS_4, TA_10], False, TrapEnding.GOES_ON),  # the last one counts
        ([G1_IS_4, G1_IS_1, TA_10], False, TrapEnding.EXITS),
        ([G1_IS_1, TA_10], True, TrapEnding.GOES_ON),  # another trap
        ([G1_IS_1, TA_6D], False, TrapEnding.GOES_ON),
        ([TA_6D], True, TrapEnding.UNKNOWN),
        ([G1_IS_O0, TA_6D], True, TrapEnding.UNKNOWN),
        ([G1_IS_1, G1_LOADED, TA_10], False, TrapEnding.UNKNOWN),
    ],
)
def test_which_traps_end_the_program(words: list[int], is64: bool, ending: TrapEnding) -> None:
    assert ending_of(words, is64) is ending


def test_a_traps_number() -> None:
    assert trap_number(TA_6D) == 0x6D
    assert trap_number(0x91D04008) is None  # ta %g1 + %o0
    assert trap_number(0x91D06010) is None  # ta %g1 + 0x10


# --- frames


def test_a_larger_frame_takes_one_instruction_or_two() -> None:
    save = asm.arithmetic("save", R.SP, -176, R.SP).word
    assert placing.is_save(save)
    (one,) = placing.larger_save(save, 48)
    assert (placing.is_save(one.word), simm13(one.word)) == (True, -224)
    most = asm.arithmetic("save", R.SP, -4096 + 48, R.SP).word
    (exactly,) = placing.larger_save(most, 48)
    assert simm13(exactly.word) == -4096
    too_much = asm.arithmetic("save", R.SP, -4096 + 32, R.SP).word
    two = placing.larger_save(too_much, 48)
    assert [i.word for i in two] == [too_much, asm.arithmetic("add", R.SP, -48, R.SP).word]
    by_register = asm.arithmetic("save", R.SP, R.G1, R.SP).word
    assert placing.larger_save(by_register, 48)[0].word == by_register
    assert len(placing.larger_save(by_register, 48)) == 2


def test_what_is_no_save_of_a_frame() -> None:
    assert not placing.is_save(asm.arithmetic("save", R.G0, R.G0, R.G0).word)
    assert not placing.is_save(asm.restore().word)
    assert not placing.is_save(asm.arithmetic("add", R.SP, -176, R.SP).word)


def test_what_moves_the_stack() -> None:
    assert placing.moves_stack(asm.arithmetic("sub", R.SP, R.G1, R.SP).word)
    assert placing.moves_stack(asm.mov(R.FP, R.SP).word)
    assert not placing.moves_stack(asm.arithmetic("add", R.SP, 64, R.O0).word)
    assert not placing.moves_stack(asm.arithmetic("save", R.SP, -96, R.SP).word)
    assert not placing.moves_stack(asm.restore().word)
    assert not placing.moves_stack(asm.load("ld", R.SP, 64, R.O0).word)


@pytest.mark.parametrize(("is64", "first_free"), [(True, 2047 + 176), (False, 92)])
def test_frames_grow_by_what_is_stored_for_callees(is64: bool, first_free: int) -> None:
    """Words for more than six arguments lie where snippets would keep theirs."""
    context = RoutineContext.free(is64)
    assert placing.growth((), context) == 256  # 28 words of snippets, 224 bytes, in blocks of 64
    for offset, more in ((-16, 256), (408, 640), (416, 704)):  # 224 + 416 is a multiple of 64
        word = asm.store("st", R.O0, R.SP, first_free + offset).word
        assert placing.growth([word], context) == more
    assert placing.growth([asm.store("st", R.O0, R.FP, -8).word], context) == 256


def test_code_without_loads_and_stores_uses_no_stack_words() -> None:
    assert not placing.uses_stack_words(Emission({}, {}, ()))


# --- charges


def test_charges_are_made_for_edges_and_blocks() -> None:
    charges = [
        draft.Charge(draft.Cause.ENTRIES, 1, edge=1),
        draft.Charge(draft.Cause.ENTRIES, 2, block=0),
        draft.Charge(draft.Cause.LINES, 3, edge=0),
        draft.Charge(draft.Cause.FRAMES, 5, block=1),
    ]
    found = draft.charged(charges, edges=[10, 20], executions=[100, 0])
    wanted = Counter({draft.Cause.ENTRIES: 20 + 200, draft.Cause.LINES: 30, draft.Cause.FRAMES: 0})
    assert cast("dict[draft.Cause, int]", dict(found)) == dict(wanted)
    assert draft.Charge(draft.Cause.DUMP, 7, block=1).times([1], [0, 4]) == 4
    cut = [CutBlock(block=1, executed=2, count=3), CutBlock(block=0, executed=0, count=9)]
    reached = [
        draft.Charge(draft.Cause.DUMP, 7, block=1, at=at).times([1], [9, 4], cut)
        for at in (-1, 1, 2)
    ]
    assert reached == [4, 4, 1]
