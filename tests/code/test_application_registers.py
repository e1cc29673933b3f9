"""Which registers carry values between routines, on a few instructions each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.registers import abi, mask
from simprof.profiler.recovery.recovery import recover
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.assembled import code, program_of

R = Register
V9, V8PLUS = MachineKind.SPARCV9, MachineKind.SPARCV8PLUS
RETURN = (asm.retl(), asm.nop())
SCRATCH = code(asm.mov(1, R.G2), asm.arithmetic("add", R.G2, R.G2, R.O0), *RETURN)
BUMP = code(asm.arithmetic("add", R.G3, 1, R.G3), *RETURN)


SAVE = asm.arithmetic("save", R.SP, -176, R.SP)
END = (asm.ret(), asm.restore())


def carried(
    routines: dict[str, Sequence[Item]],
    machine: MachineKind = V9,
    named: frozenset[int] = frozenset(),
) -> int:
    program = replace(program_of(routines, machine), named_registers=named)
    return ProgramContexts(recover(program)).carried


def test_scratch_within_a_routine_carries_nothing() -> None:
    main = code(SAVE, asm.call("scratch"), asm.mov(3, R.G4), *END)
    assert carried({"main": main, "scratch": SCRATCH}) == 0


def test_what_is_read_at_an_entry_is_carried() -> None:
    main = code(SAVE, asm.call("bump"), asm.mov(3, R.G3), *END)
    assert carried({"main": main, "bump": BUMP}) == mask(R.G3)


def test_what_is_read_behind_a_call_is_carried() -> None:
    main = code(SAVE, asm.call("scratch"), asm.mov(3, R.G4), asm.mov(R.G4, R.I0), *END)
    assert carried({"main": main, "scratch": SCRATCH}) == mask(R.G4)


def test_the_callee_may_be_entered_by_a_branch() -> None:
    """The routine that branches has not written what the other one reads."""
    main = code(SAVE, asm.call("last"), asm.mov(3, R.G3), *END)
    last = code(asm.branch("a", "bump"), asm.nop())
    assert carried({"main": main, "last": last, "bump": BUMP}) == mask(R.G3)


def test_parts_of_a_routine_hand_each_other_registers() -> None:
    main = code(SAVE, asm.call("first"), asm.nop(), *END)
    first = code(asm.branch("a", "bump"), asm.mov(0, R.G3))
    assert carried({"main": main, "first": first, "bump": BUMP}) == 0


@pytest.mark.parametrize(("machine", "chain"), [(V9, R.G5), (V8PLUS, R.G2)])
def test_the_static_chain_is_an_argument(machine: MachineKind, chain: Register) -> None:
    """A nested function that a caller enters which has set the chain; one that has not."""
    nested = code(asm.mov(chain, R.O0), *RETURN)
    main = code(SAVE, asm.call("nested"), asm.mov(R.SP, chain), *END)
    assert carried({"main": main, "nested": nested}, machine) == 0
    main = code(SAVE, asm.call("nested"), asm.nop(), *END)
    assert carried({"main": main, "nested": nested}, machine) == mask(chain)


def test_g5_belongs_to_the_system_in_32_bits() -> None:
    main = code(SAVE, asm.mov(R.G5, R.I0), *END)
    assert carried({"main": main}, V8PLUS) == 0
    assert abi(False).reserved & mask(R.G5)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("named", [False, True])
def test_nothing_comes_back_from_a_routine_without_a_return(named: bool, padding: int) -> None:
    """What stands behind such calls is reached by branches, as in glibc's `_int_malloc`."""
    fail = code(SAVE, asm.call("end"), asm.nop(), *[asm.nop()] * padding)
    end = code(SAVE, *END)  # not always, as glibc's `__libc_message`
    main = code(
        SAVE,
        asm.mov(3, R.G4),
        asm.cmp(R.I0, 1),
        asm.branch("e", "on"),
        asm.nop(),
        asm.call("fail"),
        asm.nop(),
        "on",
        asm.cmp(R.I0, 2),
        asm.branch("e", "read"),
        asm.nop(),
        asm.call("fail"),
        asm.nop(),
        "read",
        asm.mov(R.G4, R.I0),
        *END,
    )
    # nobody calls it: without symbols nothing but its `save` says that it begins there
    other = code(asm.mov(2, R.O0), *RETURN) if named else code(SAVE, *END)
    program = program_of({"main": main, "fail": fail, "other": other, "end": end})
    program = program if named else replace(program, symbols=())
    assert ProgramContexts(recover(program)).carried == 0


def maybe(body: Sequence[Item]) -> dict[str, Sequence[Item]]:
    """Return a routine that reads %g4 where it comes from a call, or has written it itself."""
    main = code(
        SAVE,
        asm.cmp(R.I0, 1),
        asm.branch("e", "on"),
        asm.mov(3, R.G4),
        asm.call("callee"),
        asm.nop(),
        "on",
        asm.mov(R.G4, R.I0),
        *END,
    )
    return {"main": main, "callee": body}


def test_behind_a_call_that_leaves_no_value_others_have_written() -> None:
    assert carried(maybe(SCRATCH)) == 0


def test_behind_a_call_that_leaves_a_value_it_is_carried() -> None:
    assert carried(maybe(code(asm.mov(7, R.G4), *RETURN))) == mask(R.G4)


def test_procedure_linkage_hands_over_two_registers() -> None:
    main = code(SAVE, *END)
    bind = code(SAVE, asm.load("ldx", R.G4, 8, R.O0), asm.mov(R.G1, R.O1), *END)
    assert carried({"main": main, "bind": bind}) == 0
    bind = code(SAVE, asm.load("ldx", R.G4, 8, R.O0), asm.mov(R.I0, R.O1), *END)
    assert carried({"main": main, "bind": bind}) == mask(R.G4)


def test_symbols_name_registers() -> None:
    main = code(SAVE, asm.mov(3, R.G2), *END)
    assert carried({"main": main}, named=frozenset({2, 7})) == mask(R.G2)


@pytest.mark.parametrize("register", [R.G2, R.G3, R.G4, R.G5])
def test_no_code_uses_what_is_carried(register: Register) -> None:
    rules = abi(True, mask(register))
    assert register in abi(True).temporaries
    assert register not in (*rules.temporaries, *rules.caller_saved)
    assert not mask(register) & rules.call_writes
    sets = (rules.reserved, rules.call_reads, rules.return_reads, rules.tail_reads)
    assert all(mask(register) & each for each in sets)
