"""Calls of thunks in copies: with another constant where it is certain, else from the old place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.rewriting.calls import thunk_call
from simprof.profiler.rewriting.draft import CallPlaces, CopyDraft, OldProgram, ThunkCall
from simprof.profiler.rewriting.program import copy_routines, place_program, program_items
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register, assign_labels
from tests.support.assembled import BASE, Assembled, code

R = Register
DISTANCE = 0x12345
CALL = BASE + 8
THUNK = code(asm.retl(), asm.arithmetic("add", R.O7, R.L7, R.L7))


def made(
    slot: Instruction | None = None,
    before: Instruction | None = None,
    behind: Instruction | None = None,
    thunk: Sequence[Item] = THUNK,
) -> Assembled:
    """A routine that calls a thunk as compilers do, or with other instructions at some places."""
    main = code(
        asm.arithmetic("save", R.SP, -176, R.SP),
        before or asm.sethi(DISTANCE, R.L7),
        asm.call("thunk"),
        slot or asm.arithmetic("add", R.L7, DISTANCE & 0x3FF, R.L7),
        behind or asm.mov(R.L7, R.I0),
        asm.ret(),
        asm.restore(),
    )
    return Assembled({"main": main, "thunk": thunk})


def found(program: Assembled) -> ThunkCall | None:
    """Return what is known of the call."""
    recovered = program.recovered
    old = OldProgram(recovered, CallPlaces(recovered, ProgramContexts(recovered)))
    draft = CopyDraft(0, recovered.routines[0], program.context("main"), old)
    (back,) = [e for e in draft.cfg.edges if e.kind is EdgeKind.CALL_RETURN]
    return thunk_call(draft, draft.block(back.source))


def value(words: tuple[int, int]) -> int:
    """Compute what `sethi` and its companion leave in a register of 64 bits."""
    sethi, second = words
    low = (second & 0x1FFF ^ 0x1000) - 0x1000
    high = (sethi & 0x3FFFFF) << 10
    return high ^ low if second >> 19 & 63 == 3 else high + low


def test_the_call_of_a_thunk_is_found() -> None:
    assert found(made()) == ThunkCall(CALL, R.L7, DISTANCE)
    by_or = made(slot=asm.arithmetic("or", R.L7, DISTANCE & 0x3FF, R.L7))
    assert found(by_or) == ThunkCall(CALL, R.L7, DISTANCE)


@pytest.mark.parametrize(
    "program",
    [
        made(slot=asm.nop()),
        made(slot=asm.arithmetic("add", R.L7, 4, R.L6)),
        made(slot=asm.arithmetic("add", R.L6, 4, R.L7)),
        made(slot=asm.arithmetic("or", R.L7, 0x400, R.L7)),
        made(before=asm.sethi(DISTANCE, R.L6)),
        made(before=asm.mov(1, R.L7)),
        made(behind=asm.mov(R.O7, R.I0)),
        made(thunk=code(asm.retl(), asm.arithmetic("sub", R.L7, R.O7, R.L7))),
        made(thunk=code(asm.retl(), asm.arithmetic("add", R.O7, R.L7, R.L6))),
        made(thunk=code(asm.retl(), asm.arithmetic("add", R.O7, R.L6, R.L6))),
    ],
    ids=["no slot", "to another", "from another", "or of more bits", "sethi of another", "no sethi",
         "return address read", "difference", "to another in thunk", "another in thunk"],
)  # fmt: skip
def test_what_is_otherwise_is_not_changed(program: Assembled) -> None:
    assert found(program) is None


@pytest.mark.parametrize("new", [CALL, CALL + 4, BASE - 0x80000, CALL + DISTANCE, CALL + 0x700000])
def test_the_sum_is_the_same_from_the_new_place(new: int) -> None:
    """Also where the tables lie below the call, so that the distance is negative."""
    words = ThunkCall(CALL, R.L7, DISTANCE).words(new)
    assert new + value(words) == CALL + DISTANCE
    assert all(word >> 25 & 31 == R.L7 for word in words)


def test_the_same_distance_gives_the_same_words() -> None:
    first, second = ThunkCall(CALL, R.L7, DISTANCE).words(CALL)
    assert first == asm.sethi(DISTANCE, R.L7).word
    assert second == asm.arithmetic("add", R.L7, DISTANCE & 0x3FF, R.L7).word


@pytest.mark.parametrize("base", [BASE - 0x10000, BASE + 0x100000])
def test_a_copy_calls_the_thunk_itself_with_the_constant_of_its_place(base: int) -> None:
    recovered = made().recovered
    contexts = ProgramContexts(recovered)
    copies = copy_routines(recovered, contexts, {}, CallPlaces(recovered, contexts))
    assert copies.routines[0].kept_calls == {}
    assert copies.routines[0].charges == []
    items = program_items(recovered, copies, ())
    placed = place_program(copies, items, base, assign_labels(items, base), BASE)
    call = placed.labels[f"r0.call.{CALL:x}"]
    at = call - base

    def word(offset: int) -> int:
        return int.from_bytes(placed.code[at + offset : at + offset + 4], "big")

    assert call + value((word(-4), word(4))) == CALL + DISTANCE
    assert word(0) >> 30 == 1
