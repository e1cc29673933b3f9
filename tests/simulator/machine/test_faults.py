"""What faults mean to the program: signal, code, address and words, as on Linux/SPARC."""

from __future__ import annotations

import pytest

from simprof.simulator.cpu.cpu import Cpu, MemoryAccess
from simprof.simulator.cpu.traps import Trap
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Register
from simprof.simulator.linux.signals import Signal
from simprof.simulator.machine import faults

PC = 0x10000
MAPERR, ACCERR = 1, 2


@pytest.mark.parametrize(("mapped", "code", "what"), [(False, MAPERR, "unmapped"),
                                                      (True, ACCERR, "protected")])  # fmt: skip
@pytest.mark.parametrize(
    ("access", "verb"),
    [(MemoryAccess.READ, "read from"), (MemoryAccess.WRITE, "write to"),
     (MemoryAccess.FETCH, "jump to")],
)  # fmt: skip
def test_refused_accesses(
    access: MemoryAccess, verb: str, mapped: bool, code: int, what: str
) -> None:
    kind = faults.memory_fault(access, 0x1234, mapped)
    assert (kind.signal, kind.code, kind.address) == (Signal.SEGV, code, 0x1234)
    assert kind.text == f"{verb} {what} address 0x1234"
    info = faults.signal_info(kind)
    assert (info.number, info.code, info.address) == (11, code, 0x1234)


@pytest.mark.parametrize(
    ("address", "mapped", "signal", "code"),
    [
        (0x8000, False, Signal.SEGV, MAPERR),
        (0x8000, True, Signal.SEGV, ACCERR),
        (0x8008, False, Signal.SEGV, MAPERR),
        (0x8004, True, Signal.BUS, 1),  # windows are saved in doublewords
        (0x8001, False, Signal.BUS, 1),
    ],
)
def test_windows_that_cannot_be_saved(
    address: int, mapped: bool, signal: Signal, code: int
) -> None:
    kind = faults.stack_fault(address, mapped)
    assert (kind.signal, kind.code, kind.address) == (signal, code, address)


@pytest.mark.parametrize(
    ("trap", "signal", "code"),
    [
        (Trap.DIVISION_BY_ZERO, Signal.FPE, 1),
        (Trap.SOFTWARE_DIVISION, Signal.FPE, 1),
        (Trap.BREAKPOINT, Signal.TRAP, 1),
        (Trap.PRIVILEGED_OPCODE, Signal.ILL, 5),
        (Trap.TAG_OVERFLOW, Signal.EMT, 1),
    ],
)
def test_traps_of_instructions(trap: Trap, signal: Signal, code: int) -> None:
    kind = faults.trap_fault(trap, Cpu(True), PC, asm.nop().word)
    assert (kind.signal, kind.code, kind.address) == (signal, code, PC)


def test_an_unaligned_access_has_its_address() -> None:
    cpu = Cpu(True)
    cpu.set_register(Register.G1, 0x2000)
    word = asm.load("ld", Register.G1, 6, Register.G2).word
    kind = faults.trap_fault(Trap.UNALIGNED, cpu, PC, word)
    assert (kind.signal, kind.code, kind.address) == (Signal.BUS, 1, 0x2006)


def test_words_that_are_no_instructions() -> None:
    kind = faults.illegal_instruction(PC, 0)
    assert (kind.signal, kind.code, kind.address) == (Signal.ILL, 1, PC)
    assert kind.text == "illegal instruction 0x00000000"


@pytest.mark.parametrize(
    ("word", "address", "is_unaligned"),
    [
        (0xC2004000, 1, True),  # ld [%g1], %g1
        (0xC2004000, 8, False),
        (0xC4304000, 5, True),  # sth %g2, [%g1]
        (0xC4184000, 12, True),  # ldd [%g1], %g2
        (0xC5184000, 12, False),  # ldd [%g1], %f2, which Linux does itself at multiples of 4
        (0xC5384000, 14, True),  # std %f2, [%g1]
        (0xC4084000, 3, False),  # ldub [%g1], %g2
    ],
)
def test_alignment_is_checked_before_the_page_is_looked_for(
    word: int, address: int, is_unaligned: bool
) -> None:
    cpu = Cpu(is64=True)
    cpu.set_register(1, address)
    kind = faults.unaligned_access(cpu, word)
    assert (kind is not None) == is_unaligned
    if kind is not None:
        assert (kind.signal, kind.code, kind.address) == (Signal.BUS, 1, address)
