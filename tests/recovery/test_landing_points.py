"""Where control lands in the middle of routines: what saves a context, and behind its calls."""

from __future__ import annotations

import numpy as np

from profiler.recovery.landing_points import landing_points, saves_context
from simulator.binary.program import MachineKind
from simulator.isa import assembler as asm
from simulator.isa.assembler import Instruction, Register
from simulator.isa.assembly import assemble
from simulator.isa.decode import decode_transfers
from tests.support.assembled import BASE, code
from tests.support.explored import Explored

R = Register


def saves(*items: Instruction | str, is64: bool = True) -> bool:
    """Whether a routine of these instructions returns again later."""
    found = assemble(code(*items), BASE).instructions
    words = [each.word for each in found]
    decoded = decode_transfers(np.array(words, np.uint32), BASE, 64)
    targets = [(target - BASE) // 4 for target in decoded.target.tolist()]
    return saves_context(words, decoded.kind.tolist(), targets, 0, is64)


STACK, ADDRESS = asm.store("stx", R.SP, R.O0, 0), asm.store("stx", R.O7, R.O0, 8)
RETURN = (asm.retl(), asm.mov(0, R.O0))


def test_what_stores_the_stack_pointer_and_the_return_address_returns_again() -> None:
    assert saves(STACK, ADDRESS, *RETURN)
    assert saves(STACK, asm.retl(), ADDRESS) is False, "no further than the return"
    assert not saves(STACK, *RETURN) and not saves(ADDRESS, *RETURN)
    elsewhere = asm.store("stx", R.O7, R.O1, 8)
    assert not saves(STACK, elsewhere, *RETURN), "where the first argument does not point"


def test_what_is_stored_may_be_encrypted() -> None:
    """Glibc has it so."""
    keys = [asm.arithmetic("xor", R.SP, R.G4, R.G1), asm.arithmetic("xor", R.O7, R.G4, R.G2)]
    stores = [asm.store("st", R.G1, R.O0, 0), asm.store("st", R.G2, R.O0, 4)]
    assert saves(*keys, *stores, *RETURN)
    assert not saves(*keys, asm.mov(0, R.G2), *stores, *RETURN), "overwritten"


def test_a_routine_that_goes_on_in_one_that_saves_does() -> None:
    assert saves(asm.branch("a", "next"), asm.mov(1, R.O1), *RETURN, "next", STACK, ADDRESS)
    assert saves(asm.branch("a", "next"), STACK, *RETURN, "next", ADDRESS, *RETURN)
    loop: list[Instruction | str] = ["again", asm.branch("a", "again"), asm.nop()]
    assert not saves(*loop)


def test_a_routine_with_a_window_or_a_choice_saves_nothing() -> None:
    window = asm.arithmetic("save", R.SP, -176, R.SP)
    assert not saves(window, STACK, ADDRESS, *RETURN)
    assert not saves(asm.branch("e", "next"), asm.nop(), "next", STACK, ADDRESS, *RETURN)


def test_the_kernel_saves_a_64_bit_context() -> None:
    items = [asm.mov(0, R.G1), asm.trap_always(0x6E), *RETURN]
    assert saves(*items)
    assert not saves(*items, is64=False)
    assert not saves(asm.mov(0, R.G1), asm.trap_always(0x6D), *RETURN)


def points(body: list[Instruction | str], machine: MachineKind = MachineKind.SPARCV9) -> set[str]:
    explored = Explored({"f": code(*body)}, machine)
    return explored.places(landing_points(explored.program, explored.code))


def test_control_lands_behind_calls_of_what_saves_a_context() -> None:
    calls: list[Instruction | str] = [asm.call("saver"), asm.nop(), "first", asm.call("other")]
    calls += [asm.nop(), asm.call("saver"), asm.nop(), "second", *RETURN, "other", *RETURN]
    assert points([*calls, "saver", STACK, ADDRESS, *RETURN]) == {"first", "second"}
    assert points([*calls, "saver", STACK, *RETURN]) == set()


def test_control_lands_behind_the_trap_that_gets_a_64_bit_context() -> None:
    body: list[Instruction | str] = [asm.trap_always(0x6E), "behind", *RETURN]
    assert points(body) == {"behind"}
    assert points(body, MachineKind.SPARCV8PLUS) == set()


def test_a_landing_is_an_entry_where_it_is_clear_whose() -> None:
    """Without symbols, what a routine has not reached may be another's."""
    caller = [asm.call("leaf"), asm.nop(), *RETURN]
    leaf: list[Instruction | str] = [asm.branch("e", "in"), asm.nop(), *RETURN, "in", *RETURN]
    body = code(*caller, "leaf", *leaf, "far", *RETURN)
    explored = Explored({"f": body}, stripped=True, landings=["in", "far"])
    found = explored.run()
    assert explored.places(found.entries[1]) == {"leaf", "in"}
    assert not found.stale
    named = Explored({"f": body}, landings=["in", "far"])
    assert {"in", "far"} <= named.places(named.run().entries[0])
