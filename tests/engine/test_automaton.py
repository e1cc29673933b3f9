"""The automaton on event sequences written by hand: edges, early ends, signals, surprises.

Every expected count follows from the listing above its test by counting on one's fingers; the
instructions of the events and those of the blocks crossed must come to the same number.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simprof.profiler.engine import kernels
from simprof.profiler.engine.walk import MissingEntry, MissingTarget
from simprof.simulator.errors import SimulatorError, UnsupportedError
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.assembled import code
from tests.support.event_player import EventPlayer

R = Register
EXIT = (asm.mov(1, R.G1), asm.trap_always(0x6D))
"""`exit`: a block of two instructions that ends its activation by the book."""

LOOP = code(
    asm.mov(3, R.O0),
    "loop",
    asm.arithmetic("subcc", R.O0, 1, R.O0),
    asm.branch("ne", "loop"),
    asm.nop(),
    "out",
    *EXIT,
)
# The emulator reports `main` and the first turn as one block: no event tells of the leader.
LOOP_EVENTS = (("main", 4), ("loop", 3), ("loop", 3), ("out", 2))


def test_a_loop_without_an_event_for_its_first_turn() -> None:
    player = EventPlayer({"main": LOOP})
    player.play(*LOOP_EVENTS)
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed() == {
        "ENTRY>main": 1, "main>loop": 1, "loop>loop": 2, "loop>out": 1, "out>EXIT": 1,
    }  # fmt: skip
    assert player.early() == {}
    assert player.automaton.counts.attributed_instructions() == 4 + 3 + 3 + 2
    assert player.missing == []
    assert player.automaton.counts.unattributed_transfers() == 0


def test_python_is_asked_where_the_program_begins_alone() -> None:
    """START > main; main > loop, loop > loop and the other 98 turns are the kernel's."""
    player = EventPlayer({"main": LOOP})
    player.play(("main", 4), *[("loop", 3)] * 100)
    assert player.asked == 1
    assert player.crossed() == {"ENTRY>main": 1, "main>loop": 1, "loop>loop": 100}


def test_edges_of_a_block_count_when_it_is_left() -> None:
    """`main` has been entered, and that it fell through to `loop` nobody knows yet."""
    player = EventPlayer({"main": LOOP})
    player.play(("main", 4))
    assert player.crossed() == {"ENTRY>main": 1}
    player.play(("loop", 3))
    assert player.crossed() == {"ENTRY>main": 1, "main>loop": 1, "loop>loop": 1}


def test_edges_within_a_block_count_however_it_is_left() -> None:
    """`top` and the first turn of `inner` are one event; it is followed by `inner` or `next`."""
    nest = code(
        "top", asm.nop(),
        "inner", asm.arithmetic("subcc", R.O0, 1, R.O0), asm.branch("ne", "inner"), asm.nop(),
        "next", asm.branch("l", "top"), asm.nop(), "out", *EXIT,
    )  # fmt: skip
    player = EventPlayer({"main": [asm.nop(), *nest]})
    player.play(("main", 5), ("inner", 3), ("next", 2))
    player.play(("top", 4), ("next", 2), ("top", 4), ("inner", 3), ("next", 2), ("out", 2))
    crossed = player.crossed()
    assert (crossed["main>top"], crossed["next>top"], crossed["top>inner"]) == (1, 2, 3)
    assert (crossed["inner>inner"], crossed["inner>next"]) == (2, 3)


def test_one_address_split_by_a_page_is_the_same_walk() -> None:
    """The emulator may cut a block anywhere: an event in the middle of one crosses nothing."""
    player = EventPlayer({"main": LOOP})
    player.play(("main", 2), ("loop+1", 2), ("loop", 1), ("loop+1", 2), ("out", 2))
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed() == {
        "ENTRY>main": 1, "main>loop": 1, "loop>loop": 1, "loop>out": 1, "out>EXIT": 1,
    }  # fmt: skip
    assert player.automaton.counts.attributed_instructions() == 2 + 2 + 1 + 2 + 2


ANNULLED = code(
    asm.cmp(R.O0, 0),
    asm.branch("e", "there", True),
    asm.mov(5, R.O1),
    "here",
    *EXIT,
    "there",
    *EXIT,
)


@pytest.mark.parametrize(
    ("events", "edges"),
    [
        ([("main", 2), ("here", 2)], ["ENTRY>main", "main>here", "here>EXIT"]),
        (
            [("main", 2), ("main+2", 1), ("there", 2)],
            ["ENTRY>main", "main>main+2s", "main+2s>there", "there>EXIT"],
        ),
    ],
    ids=["not taken", "taken"],
)
def test_an_annulled_slot_runs_on_the_taken_edge_only(
    events: Sequence[tuple[str, int]], edges: list[str]
) -> None:
    player = EventPlayer({"main": ANNULLED})
    player.play(*events)
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed() == dict.fromkeys(edges, 1)
    assert player.automaton.counts.attributed_instructions() == sum(count for _, count in events)


@pytest.mark.parametrize("faults", [False, True])
def test_an_annulled_slot_is_entered_when_it_has_executed(faults: bool) -> None:
    player = EventPlayer({"main": ANNULLED})
    player.play(("main", 2), ("main+2", 1))
    player.automaton.finish(exited=False, fault_pc=player.address("main+2") if faults else None)
    entered = {} if faults else {"main>main+2s": 1}
    assert player.crossed() == {"ENTRY>main": 1, **entered}
    assert player.early() == {"main" if faults else "main+2": 1}
    assert player.automaton.counts.attributed_instructions() == (2 if faults else 3)
    assert player.automaton.counts.cut == {}


@pytest.mark.parametrize("executed", [False, True])
def test_a_signal_at_an_annulled_slot_finds_it_executed_or_not(executed: bool) -> None:
    """A handler that never returns: what was interrupted ends before or behind the slot."""
    player = EventPlayer({"main": ANNULLED, "handler": EXIT})
    player.play(("main", 2), ("main+2", 1))
    player.interrupt(player.address("there" if executed else "main+2"), 0x8000)
    player.play(("handler", 2))
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed().get("main>main+2s", 0) == executed
    assert player.early() == {"main+2" if executed else "main": 1}


CALLS: dict[str, Sequence[Item]] = {
    "main": code(asm.call("f"), asm.nop(), "back", asm.call("f"), asm.nop(), "again", *EXIT),
    "f": code(asm.retl(), asm.nop()),
}


def test_calls_push_and_returns_pop() -> None:
    player = EventPlayer(CALLS)
    depths = []
    for event in [("main", 2), ("f", 2), ("back", 2), ("f", 2), ("again", 2)]:
        player.play(event)
        depths.append(player.depth)
    assert depths == [0, 1, 0, 1, 0]
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed() == {
        "ENTRY>main": 1, "main>back": 1, "back>again": 1, "again>EXIT": 1,
        "ENTRY>f": 2, "f>EXIT": 2,
    }  # fmt: skip
    assert player.early() == {}


def test_activations_that_wait_when_the_program_ends_end_early() -> None:
    """`f` faults at its return: it ends in its block, and `main` where it waits for it."""
    player = EventPlayer(CALLS)
    player.play(("main", 2), ("f", 2))
    player.automaton.finish(exited=False, fault_pc=player.address("f"))
    assert player.crossed() == {"ENTRY>main": 1, "ENTRY>f": 1}
    assert player.early() == {"f": 1, "main": 1}
    # Both instructions of `f` were entered, neither was executed to its end.
    assert player.automaton.counts.unexecuted == 2
    assert player.automaton.counts.attributed_instructions() == 2


def test_a_budget_ends_the_run_behind_its_last_block() -> None:
    """`f` has executed, and what follows has not: no edge leads out of it."""
    player = EventPlayer(CALLS)
    player.play(("main", 2), ("f", 2))
    player.automaton.finish(exited=False, fault_pc=None)
    assert player.early() == {"f": 1, "main": 1}
    assert player.automaton.counts.attributed_instructions() == 4


NESTED: dict[str, Sequence[Item]] = {
    "main": code(asm.call("f"), asm.nop(), "back", *EXIT),
    "f": code(asm.call("g"), asm.nop(), "inner", asm.retl(), asm.nop()),
    "g": code(asm.retl(), asm.nop()),
}


def test_a_return_past_its_caller_is_a_landing() -> None:
    """`g` goes on in `main`, as longjmp does: `f` and `main` end early, `main` begins anew."""
    player = EventPlayer(NESTED, entries=["back"])
    player.stack_pointer(0x9000)
    player.play(("main", 2))
    player.stack_pointer(0x8000)
    player.play(("f", 2))
    player.stack_pointer(0x7000)
    player.play(("g", 2))
    player.stack_pointer(0x9000)
    player.play(("back", 2))
    assert player.depth == 0
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed() == {
        "ENTRY>main": 1, "ENTRY>f": 1, "ENTRY>g": 1, "g>EXIT": 1,
        "ENTRY>back": 1, "back>EXIT": 1,
    }  # fmt: skip
    assert player.early() == {"main": 1, "f": 1}
    assert player.missing == []


RECURSIVE: dict[str, Sequence[Item]] = {
    "main": code(
        asm.branch("e", "deep"), asm.nop(),
        "call", asm.call("main"), asm.nop(),
        "deep", asm.call("unwind"), asm.nop(),
        "pad", asm.branch("e", "out"), asm.nop(),
        asm.retl(), asm.nop(),
        "out", *EXIT,
    ),
    "unwind": code(asm.retl(), asm.nop()),
}  # fmt: skip


def recursion(pointer_at_pad: int) -> EventPlayer:
    """Let `main` call itself, and the inner one `unwind`, which goes on at `pad`."""
    player = EventPlayer(RECURSIVE, entries=["pad"])
    for pointer, event in [
        (0x9000, ("main", 2)), (0x9000, ("call", 2)), (0x9000, ("main", 2)),
        (0x8000, ("deep", 2)), (0x8000, ("unwind", 2)), (pointer_at_pad, ("pad", 2)),
    ]:  # fmt: skip
        player.stack_pointer(pointer)
        player.play(event)
    player.play(("out", 2))
    return player


def test_an_exception_that_lands_where_its_call_returns_to_is_a_landing() -> None:
    """The stack is that of the outer `main`: both of them end early, and one begins anew."""
    player = recursion(0x9000)
    assert player.depth == 0
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed() == {
        "ENTRY>main": 2, "main>call": 1, "main>deep": 1, "ENTRY>unwind": 1, "unwind>EXIT": 1,
        "ENTRY>pad": 1, "pad>out": 1, "out>EXIT": 1,
    }  # fmt: skip
    assert player.early() == {"call": 1, "deep": 1}


@pytest.mark.parametrize("pointer", [0x8000, 0x7F80, 0x8080])
def test_a_return_may_leave_its_caller_another_stack_pointer(pointer: int) -> None:
    """As long as the stack there is the caller's own, or nobody's."""
    player = recursion(pointer)
    assert player.depth == 1
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed() == {
        "ENTRY>main": 2, "main>call": 1, "main>deep": 1, "ENTRY>unwind": 1, "unwind>EXIT": 1,
        "deep>pad": 1, "pad>out": 1, "out>EXIT": 1,
    }  # fmt: skip
    assert player.early() == {"call": 1}


def test_a_landing_that_the_graph_lacks_is_reported() -> None:
    player = EventPlayer(NESTED)
    for stack, event in [(0x9000, ("main", 2)), (0x8000, ("f", 2)), (0x7000, ("g", 2))]:
        player.stack_pointer(stack)
        player.play(event)
    player.stack_pointer(0x9000)
    player.play(("back", 2))
    assert player.missing == [MissingEntry(player.address("back"), again=True)]


JUMPS: dict[str, Sequence[Item]] = {
    "main": code(
        asm.jmpl(R.G1, 0, R.G0), asm.nop(),
        "one", asm.branch("a", "main"), asm.nop(),
        "two", asm.branch("a", "main"), asm.nop(),
        "three", asm.branch("a", "main"), asm.nop(),
        "four", *EXIT,
    ),
}  # fmt: skip
TARGETS = [("main", name) for name in ("one", "two", "three", "four")]


def test_successors_beyond_a_states_row_are_counted_too() -> None:
    """A state has room for two successors; `main` has four, taken 1, 2, 3 and 1 times."""
    player = EventPlayer(JUMPS, targets=TARGETS)
    for place in ("one", "two", "three", "two", "three", "three"):
        player.play(("main", 2), (place, 2))
    player.play(("main", 2), ("four", 2))
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed() == {
        "ENTRY>main": 1, "main>one": 1, "main>two": 2, "main>three": 3, "main>four": 1,
        "one>main": 1, "two>main": 2, "three>main": 3, "four>EXIT": 1,
    }  # fmt: skip


def test_an_unknown_target_is_reported_once_and_counted_each_time() -> None:
    """The graph knows "one" only; three times the jump goes to "two"."""
    player = EventPlayer(JUMPS, targets=TARGETS[:1])
    player.play(("main", 2), ("one", 2), *[("main", 2), ("two", 2)] * 3)
    target = MissingTarget(player.address("main"), player.address("two"))
    assert player.missing.count(target) == 1
    assert player.automaton.counts.unattributed_transfers() == 3
    assert player.crossed()["main>one"] == 1


SIGNALS: dict[str, Sequence[Item]] = {
    "main": LOOP,
    "handler": code(asm.retl(), asm.nop()),
    "trampoline": code(asm.mov(101, R.G1), asm.trap_always(0x6D)),
}


def test_a_handler_is_an_activation_of_its_own_and_the_interrupted_one_goes_on() -> None:
    """`main` sends itself a signal; behind the handler the system call returns."""
    kill = code(asm.mov(37, R.G1), asm.trap_always(0x6D), "behind", *EXIT)
    player = EventPlayer(SIGNALS | {"main": kill}, entries=["handler", "trampoline"])
    player.play(("main", 2))
    behind = player.address("behind")
    player.interrupt(behind, 0x9000)
    player.play(("handler", 2))
    assert player.depth == 1
    player.play(("trampoline", 2))
    player.automaton.signal_returned(behind)
    player.play(("behind", 2))
    assert player.depth == 0
    player.automaton.finish(exited=True, fault_pc=None)
    assert player.crossed() == {
        "ENTRY>main": 1, "main>behind": 1, "behind>EXIT": 1,
        "ENTRY>handler": 1, "handler>EXIT": 1, "ENTRY>trampoline": 1, "trampoline>EXIT": 1,
    }  # fmt: skip
    assert player.early() == {}


def test_a_block_that_a_signal_interrupts_in_its_middle_is_one_block() -> None:
    """Of `loop`, one instruction is done; behind the handler the other two follow."""
    player = EventPlayer(SIGNALS, entries=["handler", "trampoline"])
    player.stack_pointer(0x9000)
    player.play(("main", 4), ("loop", 3))
    interrupted = player.address("loop+1")
    player.interrupt(interrupted, 0x9000)
    player.play(("handler", 2), ("trampoline", 2))
    player.automaton.signal_returned(interrupted)
    player.play(("loop+1", 2), ("out", 2))
    player.automaton.finish(exited=True, fault_pc=None)
    crossed = player.crossed()
    assert (crossed["loop>loop"], crossed["loop>out"], crossed["out>EXIT"]) == (1, 1, 1)
    assert player.early() == {}


def test_what_was_reached_is_what_blocks_that_ran_hold() -> None:
    player = EventPlayer(SIGNALS, entries=["handler", "trampoline"])
    player.play(("main", 4), ("loop", 3))
    places = {name: player.address(name) for name in ("main", "loop", "loop+1", "handler")}
    reached = player.automaton.reached(places.values())
    assert reached == {places[name] for name in ("main", "loop", "loop+1")}
    assert player.automaton.reached([places["main"] - 4, places["handler"]]) == set()


def test_a_handler_that_is_nowhere_leaves_what_it_interrupted_to_end_early() -> None:
    player = EventPlayer(SIGNALS, entries=["handler", "trampoline"])
    player.play(("main", 4), ("loop", 3))
    player.interrupt(player.address("loop+1"), 0x9000)
    player.automaton.finish(exited=False, fault_pc=0x18)
    assert player.early() == {"loop": 1}
    assert player.automaton.counts.unexecuted == 2


def test_the_fault_of_a_handler_that_is_nowhere_may_be_handled() -> None:
    """`loop` ends when the first handler cannot begin; the second one returns to nowhere."""
    player = EventPlayer(SIGNALS, entries=["handler", "trampoline"])
    player.play(("main", 4), ("loop", 3))
    player.interrupt(player.address("loop+1"), 0x9000)
    player.interrupt(0x18, 0x8000)
    player.play(("handler", 2))
    assert player.early() == {"loop": 1}
    player.play(("trampoline", 2))
    player.automaton.signal_returned(0x18)
    player.automaton.finish(exited=False, fault_pc=0x18)
    assert player.early() == {"loop": 1}
    assert player.automaton.counts.unexecuted == 2


def test_what_a_handler_skips_has_not_executed() -> None:
    """It returns behind the two instructions of the loop that were still to come."""
    player = EventPlayer(SIGNALS, entries=["handler", "trampoline"])
    player.play(("main", 4), ("loop", 3))
    player.interrupt(player.address("loop+1"), 0x9000)
    player.play(("handler", 2), ("trampoline", 2))
    player.automaton.signal_returned(player.address("loop"))
    player.play(("loop", 3))
    assert player.automaton.counts.unexecuted == 2


def test_a_handler_steps_over_what_it_interrupted() -> None:
    player = EventPlayer(SIGNALS, entries=["handler", "trampoline"])
    player.play(("main", 4))
    player.interrupt(player.address("main"), 0x9000)
    player.play(("handler", 2), ("trampoline", 2))
    player.automaton.signal_returned(player.address("main") + 4)
    player.play(("main+1", 3), ("loop", 3))
    assert (player.early(), player.automaton.counts.unexecuted) == ({}, 1)
    assert player.crossed()["ENTRY>main"] == 1


def test_what_comes_between_two_blocks_is_not_stepped_over() -> None:
    """Nothing of the second block has begun: the handler goes on elsewhere."""
    player = EventPlayer(SIGNALS, entries=["handler", "trampoline"])
    player.play(("main", 4))
    player.interrupt(player.address("loop"), 0x9000, between=True)
    player.play(("handler", 2), ("trampoline", 2))
    player.automaton.signal_returned(player.address("loop") + 4)
    player.play(("loop+1", 2))
    assert (player.early(), player.automaton.counts.unexecuted) == ({"loop": 1}, 0)
    assert player.missing == [MissingEntry(player.address("loop") + 4, again=True)]


def test_a_handler_that_never_returns_leaves_what_it_interrupted_to_end_early() -> None:
    player = EventPlayer(SIGNALS, entries=["handler", "trampoline"])
    player.stack_pointer(0x9000)
    player.play(("main", 4), ("loop", 3))
    player.interrupt(player.address("loop+1"), 0x9000)
    player.play(("handler", 2))
    player.automaton.finish(exited=False, fault_pc=player.address("handler+1"))
    # The handler's return has executed, and with it the code of its edge, which stands before it.
    assert player.early() == {"loop": 1}
    # The handler's slot has not executed, nor have two instructions of the loop's second turn.
    assert player.automaton.counts.unexecuted == 1 + 2
    assert player.crossed() == {
        "ENTRY>main": 1, "main>loop": 1, "loop>loop": 1, "ENTRY>handler": 1, "handler>EXIT": 1,
    }  # fmt: skip


def test_a_resumption_elsewhere_is_a_defect_and_said_so() -> None:
    player = EventPlayer(SIGNALS, entries=["handler", "trampoline"])
    player.play(("main", 4), ("loop", 3))
    player.interrupt(player.address("loop+1"), 0)
    player.play(("handler", 2), ("trampoline", 2))
    player.automaton.signal_returned(player.address("loop+1"))
    with pytest.raises(SimulatorError, match="resumed at"):
        player.play(("loop+2", 1))


RECURSION: dict[str, Sequence[Item]] = {
    "main": code(asm.call("main"), asm.nop(), "back", asm.retl(), asm.nop())
}


def test_endless_recursion_is_refused_before_it_runs_out_of_frames() -> None:
    player = EventPlayer(RECURSION)
    player.automaton.clock[kernels.FRAME_LIMIT] = 4 * kernels.STRIDE
    player.play(*[("main", 2)] * 4)
    assert player.depth == 3
    with pytest.raises(UnsupportedError, match="nested calls"):
        player.play(("main", 2))


def test_errors_of_callbacks_are_kept_and_stop_the_engine() -> None:
    """Native code cannot raise: the first error waits, the clock tells the engine to stop."""
    player = EventPlayer({"main": LOOP})
    first, second = ValueError("first"), ValueError("second")

    def fail(error: Exception) -> None:
        raise error

    player.automaton.guard(lambda: fail(first))
    player.automaton.guard(lambda: fail(second))
    assert player.automaton.error is first
    assert player.automaton.clock[kernels.LIMIT] == -1
    assert player.automaton.clock[kernels.INTERRUPTED] == kernels.FAILED
    player.automaton.decide(kernels.MISS, player.address("main"), 16)
    assert player.crossed() == {}
