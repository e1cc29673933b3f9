"""The transfer decoder against hand-encoded words, objdump, and itself on random words."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind, decode_transfers
from simprof.simulator.isa.disassembly import disassemble
from tests.support.turns import first

K = TransferKind

WORDS = [
    (0x01000000, K.NONE, -1, False),  # nop
    (0x10800004, K.BRANCH_ALWAYS, 0x1010, False),  # ba .+16
    (0x30BFFFFF, K.BRANCH_ALWAYS, 0x0FFC, True),  # ba,a .-4
    (0x00800004, K.BRANCH_NEVER, 0x1010, False),  # bn
    (0x20800004, K.BRANCH_NEVER, 0x1010, True),  # bn,a
    (0x12800002, K.BRANCH, 0x1008, False),  # bne .+8
    (0x32800002, K.BRANCH, 0x1008, True),  # bne,a .+8
    (0x126FFFFF, K.BRANCH, 0x0FFC, False),  # bne,pn %xcc, .-4
    (0x12500002, K.ILLEGAL, -1, False),  # BPcc with a reserved condition-code selector
    (0x13800003, K.BRANCH, 0x100C, False),  # fbne .+12
    (0x33480003, K.BRANCH, 0x100C, True),  # fbne,a,pt %fcc0, .+12
    (0x02C84002, K.BRANCH, 0x1008, False),  # brz,pt %g1, .+8
    (0x00C84002, K.ILLEGAL, -1, False),  # reserved register condition 0
    (0x22F07FFF, K.BRANCH, 0x0FFC, True),  # brz,a,pn %g1, .-4 with d16hi set
    (0x12C04042, K.COMPARE_BRANCH, 0x1008, False),  # cwbne
    (0x32C04042, K.COMPARE_BRANCH, 0x1008, False),  # cwbneg: bit 29 is part of its condition
    (0x40000002, K.CALL, 0x1008, False),  # call .+8
    (0x50000000, K.CALL, 0x1000 + (1 << 30), False),  # call, 1 GiB ahead
    (0x7FFFFFFF, K.CALL, 0x0FFC, False),  # call .-4
    (0x9FC04000, K.INDIRECT_CALL, -1, False),  # call %g1
    (0x81C04000, K.JUMP, -1, False),  # jmp %g1
    (0x81C06008, K.JUMP, -1, False),  # jmp %g1 + 8
    (0x81C7E008, K.RETURN_JUMP, -1, False),  # ret
    (0x81C3E008, K.RETURN_JUMP, -1, False),  # retl
    (0x81C7E00C, K.RETURN_JUMP, -1, False),  # jmp %i7 + 12
    (0x81C7E010, K.JUMP, -1, False),  # jmp %i7 + 16
    (0x83C04000, K.JUMP_AND_LINK, -1, False),  # jmpl %g1, %g1
    (0x81CFE008, K.RETURN, -1, False),  # return %i7 + 8
    (0x91D0206D, K.TRAP_ALWAYS, -1, False),  # ta 0x6d
    (0x83D02006, K.TRAP_CONDITIONAL, -1, False),  # te 6
    (0x81D02006, K.NONE, -1, False),  # tn 6
    (0x81F00000, K.TRAP_RETURN, -1, False),  # done
    (0x83F00000, K.TRAP_RETURN, -1, False),  # retry
    (0x00000000, K.ILLEGAL, -1, False),  # unimp 0
]


@pytest.mark.parametrize(("word", "kind", "target", "annulled"), WORDS)
def test_single_words(word: int, kind: TransferKind, target: int, annulled: bool) -> None:
    transfers = decode_transfers(np.array([word], dtype=np.uint32), 0x1000)
    assert TransferKind(int(transfers.kind[0])) is kind
    assert transfers.target[0] == target
    assert transfers.annulled[0] == annulled


def test_targets_wrap_in_32_bit_programs_only() -> None:
    words = np.array([0x40000004], dtype=np.uint32)
    assert decode_transfers(words, 0xFFFFFFF8, 32).target[0] == 8
    assert decode_transfers(words, 0xFFFFFFF8).target[0] == 0x100000008
    backwards = np.array([0x7FFFFFF0], dtype=np.uint32)
    assert decode_transfers(backwards, 0x10).target[0] == -1


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_words_decode_alone_as_together(words: list[int]) -> None:
    together = decode_transfers(np.array(words, dtype=np.uint32), 0x4000)
    for position, word in enumerate(words):
        alone = decode_transfers(np.array([word], dtype=np.uint32), 0x4000 + 4 * position)
        assert alone.kind[0] == together.kind[position]
        assert alone.target[0] == together.target[position]
        assert (alone.target[0] >= 0) <= bool(HAS_DELAY_SLOT[alone.kind[0]]) or (
            alone.kind[0] == TransferKind.COMPARE_BRANCH
        )


@given(st.integers(0, 2**32 - 1))
def test_every_word_has_text(word: int) -> None:
    assert disassemble(word, 0x1000).strip()


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0xC61A2008, "ldd [%o0 + 8], %g3"),
        (0xC63A2008, "std %g3, [%o0 + 8]"),
        (0x81D82000, "flush %g0 + %lo(0)"),
        (0xC2DA1040, "ldxa [%o0] #ASI_PNF, %g1"),
        (0x87802082, "wr %g0, 0x82, %asi"),
        (0x83414000, "rd %pc, %g1"),
        (0xC1082000, "ld [%g0 + %lo(0)], %fsr"),
        (0xC26A0000, "ldstub [%o0], %g1"),
        (0x40000002, "call 0x1008"),
        (0x00000005, "illtrap 0x5"),
    ],
)
def test_text_of_words_that_capstone_lacks(word: int, text: str) -> None:
    assert disassemble(word, 0x1000) == text


BRANCH = re.compile(
    r"^(b(n?e|n?z|gu?|leu?|geu?|lu?|c[cs]|pos|neg|v[cs])"
    r"|fb(u|g|ug|l|ul|lg|n?e|ue|ge|uge|le|ule|o)"
    r"|br(z|lez|lz|nz|gz|gez))(,a)?(,p[nt])?$"
)


def _kind_from_text(mnemonic: str, operands: str) -> set[TransferKind]:
    """The kinds that objdump's text of an instruction allows."""
    if mnemonic in {"ret", "retl"}:
        return {K.RETURN_JUMP}
    if mnemonic == "call":
        return {K.CALL if re.match(r"^[0-9a-f]+ ", operands + " ") else K.INDIRECT_CALL}
    if mnemonic in {"jmp", "jmpl"}:
        return {K.JUMP, K.RETURN_JUMP, K.JUMP_AND_LINK, K.INDIRECT_CALL}
    if mnemonic in {"return", "rett"}:
        return {K.RETURN}
    if mnemonic in {"done", "retry"}:
        return {K.TRAP_RETURN}
    if mnemonic == "illtrap":
        return {K.ILLEGAL}
    if mnemonic == "ta":
        return {K.TRAP_ALWAYS}
    if mnemonic in {"b", "b,a", "b,pn", "b,a,pn", "fb", "fba"}:
        return {K.BRANCH_ALWAYS}
    if mnemonic.split(",")[0] in {"bn", "fbn"}:
        return {K.BRANCH_NEVER}
    if BRANCH.match(mnemonic):
        return {K.BRANCH}
    if re.match(r"^t(n?e|gu?|leu?|geu?|lu?|c[cs]|pos|neg|v[cs])$", mnemonic):
        return {K.TRAP_CONDITIONAL}
    return {K.NONE}


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", first(1, ["-m32", "-m64"], at=1))
def test_every_word_agrees_with_objdump(width: str, tmp_path: Path) -> None:
    source = tmp_path / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { return puts("x") < 0; }\n')
    binary = tmp_path / "hello"
    command = ["sparc64-linux-gnu-gcc-12", width, "-O2", "-static", "-o", str(binary), str(source)]
    subprocess.run(command, check=True)
    dump = ["sparc64-linux-gnu-objdump", "-d", "-j", ".text", str(binary)]
    text = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
    pattern = re.compile(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} ){4})\t(\S+) *\t?(.*)$", re.MULTILINE)
    lines = [match.groups() for match in pattern.finditer(text)]
    assert len(lines) > 50_000
    addresses = np.array([int(line[0], 16) for line in lines], dtype=np.int64)
    base = int(addresses[0])
    words = np.zeros((int(addresses[-1]) - base) // 4 + 1, dtype=np.uint32)
    indices = (addresses - base) // 4
    words[indices] = [int(line[1].replace(" ", ""), 16) for line in lines]
    transfers = decode_transfers(words, base)
    for index, (address, _, mnemonic, operands) in zip(indices, lines, strict=True):
        kind = TransferKind(int(transfers.kind[index]))
        if mnemonic == ".word":
            continue
        assert kind in _kind_from_text(mnemonic, operands), (address, mnemonic, operands)
        if transfers.target[index] >= 0:
            shown = operands.split("<")[0].split(",")[-1].strip()
            assert int(transfers.target[index]) == int(shown, 16), (address, mnemonic, operands)
            assert bool(transfers.annulled[index]) == (",a" in mnemonic)
