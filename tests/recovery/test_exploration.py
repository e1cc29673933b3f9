"""The fixpoint of reachable code and returning routines, with jumps resolved by the test."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simprof.profiler.recovery.exploration import Resolution
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register
from tests.support.assembled import code
from tests.support.explored import Explored

R = Register
RETURN = (asm.retl(), asm.nop())
EXIT = (asm.mov(1, R.G1), asm.trap_always(0x6D))
SAVE = asm.arithmetic("save", R.SP, -176, R.SP)


def test_mutual_recursion_returns_only_if_one_of_them_does() -> None:
    """Least fixpoint: that each returns if the other does is no reason to return."""

    def pair(*way_out: Instruction) -> Explored:
        explored = Explored({
            "f": code(*way_out, asm.call("g"), asm.nop(), "back", *RETURN),
            "g": code(asm.call("f"), asm.nop(), "behind", *RETURN),
        })  # fmt: skip
        explored.run()
        return explored

    assert pair().exploration.returning == [False, False]
    assert pair(asm.branch("e", "back"), asm.nop()).exploration.returning == [True, True]


@pytest.mark.parametrize(
    "leave",
    [
        (asm.branch("a", "g"), asm.nop()),
        (asm.call("g"), asm.restore()),
        (asm.branch("a", "g", True),),
        (),
    ],
    ids=["jump", "call, restore", "annulled jump", "fall through"],
)
@pytest.mark.parametrize("returns", [True, False])
def test_a_tail_call_returns_if_its_target_does(
    leave: Sequence[Instruction], returns: bool
) -> None:
    target = RETURN if returns else (asm.branch("a", "g"), asm.nop())
    explored = Explored({"f": code(asm.nop(), *leave), "g": code(*target)})
    found = explored.run()
    assert found.returning == [returns, returns]


@pytest.mark.parametrize("window", [False, True])
def test_a_leaf_that_a_run_saw_entered_behind_another_routine_is_one(window: bool) -> None:
    """Without symbols. In a window of the routine before it, the code would return otherwise."""
    leave = (asm.arithmetic("restore", R.G0, R.G0, R.G0),) if window else ()
    body = code(SAVE, asm.ret(), asm.restore(), "leaf", asm.nop(), *leave, *RETURN)
    explored = Explored({"f": body}, stripped=True, entries=["leaf"])
    found = explored.run()
    starts = explored.places(r.start for r in found.routine_map.routines)
    assert starts == ({"f"} if window else {"f", "leaf"})


# -- what is refused


def test_couples_and_slots_outside_are_irregular_and_named() -> None:
    couple = Explored(
        {"f": code(asm.branch("e", "out"), asm.branch("a", "out"), asm.nop(), "out", *RETURN)}
    )
    found = couple.run()
    assert found.irregular == {0: "has a control transfer in its delay slot"}
    assert couple.flow("f").leaves
    cut = Explored({"f": code(asm.nop(), asm.retl())})
    assert cut.run().irregular == {1: "has its delay slot outside the code"}
    assert cut.flow("f+1").leaves and not cut.flow("f+1").has_slot
    assert not couple.flow("f").slot_block and couple.flow("f").has_slot


# -- indirect jumps

JUMP = code(asm.jmpl(R.G1, 0, R.G0), asm.nop(), "one", *RETURN, "two", *RETURN, "three", *RETURN)


def test_a_resolved_jump_has_its_targets_and_no_others() -> None:
    explored = Explored({"f": JUMP})
    jump, targets = explored.index("f"), explored.indices(["one", "three"])
    found = explored.run(lambda _: {jump: Resolution(targets)})
    assert explored.leaders() == {"f", "one", "three"}
    assert explored.flow("f").switch == set(targets)
    assert not explored.flow("f").leaves
    assert found.unresolved == {}


def test_a_jump_back_to_the_caller_is_a_return() -> None:
    explored = Explored({"f": JUMP})
    found = explored.run(lambda _: {explored.index("f"): Resolution(frozenset(), returns=True)})
    assert explored.flow("f").leaves
    assert found.returning == [True]


def test_a_jump_is_resolved_again_when_its_routine_has_grown() -> None:
    """The first answer opens "one"; its second jump is asked about then, and so is the first."""
    body = code(
        asm.jmpl(R.G1, 0, R.G0),
        asm.nop(),
        "one",
        asm.jmpl(R.G2, 0, R.G0),
        asm.nop(),
        "two",
        *RETURN,
    )
    explored = Explored({"f": body})
    first, second = explored.index("f"), explored.index("one")
    sizes = []

    def resolve(_: int) -> dict[int, Resolution | None]:
        sizes.append(len(explored.exploration.leaders(0)))
        answer: dict[int, Resolution | None] = {first: Resolution(explored.indices(["one"]))}
        if second in explored.exploration.jumps[0]:
            answer[second] = Resolution(explored.indices(["two"]))
        return answer

    found = explored.run(resolve)
    assert sizes == [1, 2, 3]
    assert explored.leaders() == {"f", "one", "two"}
    assert not found.stale


def test_an_answer_that_does_not_survive_its_own_code_is_distrusted() -> None:
    """`run` stops; the caller explores again without believing in this jump."""
    explored = Explored({"f": JUMP})
    jump = explored.index("f")

    def resolve(_: int) -> dict[int, Resolution | None]:
        grown = len(explored.exploration.leaders(0)) > 1
        return {jump: Resolution(explored.indices(["two" if grown else "one"]))}

    found = explored.run(resolve)
    assert found.stale
    assert found.distrusted == {jump}
    again = Explored({"f": JUMP}, distrusted=["f"])
    found = again.run(resolve)
    assert not found.stale
    assert found.unresolved == {jump: 0}


def test_a_jump_that_leads_to_more_than_before_is_still_trusted() -> None:
    """More code shows more of an index: here that the jump leads to "two" as well."""
    explored = Explored({"f": JUMP})
    jump = explored.index("f")

    def resolve(_: int) -> dict[int, Resolution | None]:
        grown = len(explored.exploration.leaders(0)) > 1
        return {jump: Resolution(explored.indices(["one", "two"] if grown else ["one"]))}

    found = explored.run(resolve)
    assert not found.stale
    assert found.unresolved == {}
    assert explored.places(explored.flow("f").switch) == {"one", "two"}


def test_a_guess_adds_targets_and_leaves_the_jump_unresolved() -> None:
    explored = Explored({"f": JUMP}, targets={"f": ["two"]})
    jump = explored.index("f")
    guess = Resolution(explored.indices(["one"]), proven=False)
    found = explored.run(lambda _: {jump: guess})
    assert not found.stale
    assert found.unresolved == {jump: 0}
    assert explored.places(explored.flow("f").switch) == {"one", "two"}
    assert not explored.flow("f").leaves


def test_what_was_proven_of_a_distrusted_jump_is_a_guess() -> None:
    explored = Explored({"f": JUMP}, distrusted=["f"])
    jump = explored.index("f")
    found = explored.run(lambda _: {jump: Resolution(explored.indices(["one"]))})
    assert found.unresolved == {jump: 0}
    assert explored.places(explored.flow("f").switch) == {"one"}


# -- code that no symbol covers


def test_a_routine_inside_another_starts_everything_over() -> None:
    """`back` was reached as part of `f` before the call in `leaf` made it a routine."""
    body = code(
        asm.branch("e", "back"), asm.nop(), asm.call("leaf"), asm.nop(), "back", *RETURN,
        "leaf", asm.call("back"), asm.nop(), *RETURN,
    )  # fmt: skip
    explored = Explored({"f": body}, stripped=True)
    assert explored.run().stale


def test_a_jump_to_another_prologue_leaves() -> None:
    """Where no symbol says how far `f` reaches, `save` says that something else starts."""
    body = code(SAVE, asm.branch("a", "g"), asm.nop(), "g", SAVE, asm.ret(), asm.restore())
    explored = Explored({"f": body}, stripped=True)
    found = explored.run()
    assert explored.flow("f+1").leaves
    assert explored.places(r.start for r in found.routine_map.routines) == {"f", "g"}
