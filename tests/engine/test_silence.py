"""Ways through blocks that raise no events, on assembled routines; nothing runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simprof.profiler.engine.silence import EventsLostError, Silence, Ways
from simprof.profiler.engine.walk import WalkContext, Walker
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register
from simprof.simulator.machine.running import BlockPlace
from tests.support.assembled import code
from tests.support.event_player import IndexedGraphs

R = Register
DIAMOND = code(
    asm.branch("e", "right"),
    asm.nop(),
    "left",
    asm.mov(1, R.O0),
    asm.branch("a", "join"),
    asm.nop(),
    "right",
    asm.mov(2, R.O0),
    asm.branch("a", "join"),
    asm.nop(),
    "join",
    asm.retl(),
    asm.nop(),
)
ANNULLED = code(
    "head",
    asm.branch("e", "head", True),
    asm.mov(1, R.O0),
    "after",
    asm.retl(),
    asm.nop(),
)


class Routine:
    """One routine, and silent blocks in it: label -> instructions."""

    def __init__(self, body: Sequence[Item], **silent: int) -> None:
        self.graphs = IndexedGraphs({"main": body})
        self.walker = Walker(self.graphs.index)
        self.ways = Ways(self.walker, self.graphs.index.recovered.code)
        self.silence = Silence(
            self.ways, {self.place(label): 4 * words for label, words in silent.items()}
        )

    def at(self, place: str) -> int:
        return self.graphs.address(place)

    def place(self, label: str) -> BlockPlace:
        return BlockPlace(self.at(label), self.at(label) + 4)

    def after(self, label: str, words: int) -> WalkContext:
        """The context behind a block."""
        context = self.walker.land(self.at(label))
        for word in range(1, words):
            _, context = self.walker.step(context, self.at(label) + 4 * word)
        return context

    def way(self, context: WalkContext, to: str) -> list[str]:
        return [self.graphs.name(place.pc) for place in self.silence.way(context, self.at(to))]


def test_a_way_leads_through_silent_blocks_and_no_others() -> None:
    routine = Routine(DIAMOND, left=3)
    start = routine.after("main", 2)
    assert routine.way(start, "join") == ["left"]
    assert routine.way(start, "right") == []
    assert routine.way(routine.after("right", 3), "join") == []


def test_a_way_crosses_the_edges_on_it_and_counts_its_instructions() -> None:
    routine = Routine(DIAMOND, left=3)
    start = routine.after("main", 2)
    path = routine.silence.way(start, routine.at("join"))
    steps, context, instructions = routine.silence.walk(start, path)
    names = routine.graphs.edge_names()
    assert [names[step.edge] for step in steps if hasattr(step, "edge")] == ["main>left"]
    assert (context.block, instructions) == (routine.graphs.block("left"), 3)


def test_two_ways_are_none() -> None:
    routine = Routine(DIAMOND, left=3, right=3)
    with pytest.raises(EventsLostError, match="2 ways"):
        routine.way(routine.after("main", 2), "join")


def test_control_that_comes_from_anywhere_has_not_come_through_silent_blocks() -> None:
    routine = Routine(DIAMOND, left=3)
    returned = routine.after("join", 2)
    assert routine.way(returned, "main") == []
    assert routine.way(returned, "right") == []
    with pytest.raises(EventsLostError, match="unknown path"):
        routine.way(returned, "join")


def test_an_event_that_cannot_follow_is_lost_where_silent_blocks_may() -> None:
    routine = Routine(DIAMOND, left=3)
    with pytest.raises(EventsLostError, match="0 ways"):
        routine.way(routine.after("main", 2), "main")
    assert routine.way(routine.after("right", 3), "main") == []


def test_a_fault_tells_how_far_the_program_has_come() -> None:
    routine = Routine(DIAMOND, left=3)
    start, block = routine.after("main", 2), range(routine.at("main"), routine.at("left"))
    assert routine.silence.place(start, routine.at("main+1"), block) == ()
    assert routine.silence.place(start, routine.at("left+1"), block) == (routine.place("left"),)
    with pytest.raises(EventsLostError, match="2 ways"):
        routine.silence.place(start, routine.at("left+1"), range(0, 1 << 30, 4))


def test_an_annulled_slot_is_followed_by_the_branchs_target_alone() -> None:
    routine = Routine(ANNULLED)
    slot = BlockPlace(routine.at("head+1"), routine.at("head"))
    silence = Silence(routine.ways, {slot: 4})
    head = routine.after("head", 1)
    assert routine.ways.after(head) == (slot, routine.place("after"))
    assert silence.way(head, routine.at("head")) == (slot,)
    assert silence.way(head, routine.at("after")) == ()
    assert silence.behind == {routine.at("head")}


@pytest.mark.parametrize(
    ("instruction", "may"),
    [
        (asm.mov(1, R.O0), True),
        (asm.nop(), True),
        (asm.load("ld", R.O0, 0, R.O1), True),
        (asm.store("st", R.O1, R.O0, 0), True),
        (asm.arithmetic("sdivx", R.O0, R.O1, R.O2), False),
        (asm.retl(), False),
    ],
)
def test_what_may_trap_is_not_silent(instruction: Instruction, may: bool) -> None:
    routine = Routine(code(instruction, asm.nop(), asm.retl(), asm.nop()))
    assert routine.ways.may_be_silent(routine.at("main"), routine.at("main+1")) is may
