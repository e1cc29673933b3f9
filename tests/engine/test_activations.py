"""The stack of activations on frames put there by hand: who continues, and who has ended early.

The program is recursive: `main` calls itself, and `f`, which calls `g`. A frame is (where the
activation returns to, its caller's %sp); the lowest has no caller.
"""

from __future__ import annotations

import pytest

from simprof.profiler.engine import kernels
from simprof.profiler.engine.activations import (
    ENDED_BIT,
    SignalRecord,
)
from simprof.profiler.engine.stacks import EarlyEnd
from simprof.profiler.engine.walk import (
    UNKNOWN,
    Cross,
    MissingEntry,
    MissingReturn,
)
from simprof.simulator.errors import UnsupportedError
from tests.support.activations import DEPTH, Stack


def test_everybody_who_waits_ends_early_with_the_program() -> None:
    """Main, main, f, g: both mains wait in the blocks of their calls, and so does `f`."""
    stack = Stack()
    stack.push("back", 0x9000)
    stack.push("last", 0x8000)
    stack.push("inner", 0x7000)
    stack.activations.end_callers_early()
    assert stack.early() == {"deeper": 1, "back": 1, "f": 1}


def test_an_early_end_keeps_what_the_segment_register_holds() -> None:
    stack = Stack()
    stack.push("back", 0x9000, register=77)
    stack.push("last", 0x8000, register=5)
    stack.activations.end_callers_early()
    blocks = stack.graphs.block
    assert stack.tally.early == {
        EarlyEnd(blocks("deeper"), 0, 0): 1,
        EarlyEnd(blocks("back"), 77, 0): 1,
    }


def test_a_caller_whose_path_ended_at_the_call_is_not_counted_again() -> None:
    stack = Stack()
    stack.push("back", 0x9000)
    stack.push("last", 0x8000)
    stack.memory.state.frames[stack.activations.current + kernels.FRAME_RETURN] |= ENDED_BIT
    stack.activations.end_callers_early()
    assert stack.early() == {"deeper": 1}


def test_what_has_been_accounted_for_does_not_end_early() -> None:
    stack = Stack()
    stack.activations.end_early(0, UNKNOWN)
    assert stack.tally.early == {}


def test_the_stack_pointer_tells_which_of_several_activations_continues() -> None:
    """Three mains and g: the landing is in the second one, which owns 0x7000 to 0x8000."""
    stack = Stack(entries=["last"])
    stack.push("back", 0x9000)
    stack.push("back", 0x8000)
    stack.push("last", 0x7000)
    stack.land("last", 0x7800, stack.graphs.block("g"), returned=False)
    assert stack.depth == 2
    # `g` and the third `main` are gone; so is the old activation in the frame that goes on.
    assert stack.early() == {"g": 1, "back": 1}
    assert stack.crossed == [("ENTRY>last", 2)]


def test_a_landing_further_down_ends_all_in_between() -> None:
    stack = Stack(entries=["last"])
    stack.push("back", 0x9000)
    stack.push("back", 0x8000)
    stack.push("last", 0x7000)
    stack.land("last", 0x8800, stack.graphs.block("g"), returned=False)
    assert stack.depth == 1
    assert stack.early() == {"g": 1, "back": 1, "deeper": 1}


def test_who_owns_the_stack_continues_rather_than_who_lies_below_it() -> None:
    """The second and third main run on another stack, at higher addresses than the first's."""
    stack = Stack(entries=["last"])
    stack.push("back", 0x9000)
    stack.push("back", 0x50000)
    stack.push("last", 0x40000)
    stack.land("last", 0x9800, stack.graphs.block("g"), returned=False)
    assert stack.depth == 0
    assert stack.early() == {"g": 1, "back": 1, "deeper": 2}


def test_who_has_returned_already_does_not_end_early() -> None:
    """`g` crossed its EXIT edge, but went on in `main`: `f` ends early, `g` does not."""
    stack = Stack(entries=["last"])
    stack.push("last", 0x9000)
    stack.push("inner", 0x8000)
    stack.land("last", 0x9000, returned=True)
    assert stack.depth == 0
    assert stack.early() == {"f": 1, "back": 1}
    assert stack.crossed == [("ENTRY>last", 0)]


def test_a_landing_without_an_entry_edge_is_reported() -> None:
    stack = Stack()
    stack.push("last", 0x9000)
    stack.push("inner", 0x8000)
    stack.land("last", 0x9000, returned=True)
    assert stack.missing == [MissingEntry(stack.graphs.address("last"), again=True)]
    assert stack.crossed == []


def test_where_nobody_continues_the_stacks_owner_is_put_below() -> None:
    """As the 64-bit longjmp arrives, inside a setjmp whose activation is long gone.

    main > f > g, and control goes on in another activation of `g`, with %sp in f's part.
    """
    stack = Stack()
    stack.push("last", 0x9000)
    stack.push("inner", 0x8000)
    stack.land("g", 0x8000, stack.graphs.block("g"), returned=False)
    assert stack.depth == 2
    assert stack.early() == {"g": 1, "f": 1}
    assert stack.crossed == [("ENTRY>g", 2)]
    stack.activations.end_callers_early()
    assert stack.early() == {"g": 1, "f": 1, "back": 1}, "f's end is counted once"


def test_a_return_to_the_right_address_needs_no_stack() -> None:
    """The graph had no return there: the call was taken as one that does not return."""
    stack = Stack()
    stack.push("last", 0x9000)
    frames = stack.memory.state.frames
    frames[stack.activations.current + kernels.FRAME_RETURN] |= ENDED_BIT
    stack.land("last", 0, returned=True)
    assert stack.depth == 0
    call = stack.graphs.address("last") - 8
    last = stack.graphs.address("last")
    assert stack.missing == [MissingReturn(call), MissingEntry(last, behind=True)]
    assert stack.early() == {}


def test_steps_on_behalf_of_another_frame_leave_the_current_one() -> None:
    stack = Stack()
    stack.push("back", 0x9000)
    stack.push("last", 0x8000)
    stack.activations.apply((Cross(stack.graphs.edge("deeper>back")),), kernels.STRIDE)
    assert stack.crossed == [("deeper>back", 1)]
    assert stack.depth == 2


# -- signals


def test_a_handler_sits_above_what_it_interrupts_and_leaves_it_as_it_was() -> None:
    stack = Stack()
    stack.push("last", 0x9000)
    f, pc = stack.graphs.block("f"), stack.graphs.address("f+1")
    record = stack.interrupt(f, pc)
    stack.activations.enter_handler(record, 0x8000, stack.graphs.address("g"))
    assert stack.depth == 2
    assert stack.crossed == [("ENTRY>g", 2)]
    assert stack.activations.leave_handler(pc) == SignalRecord(f, pc, pc, pc + 4)
    assert stack.depth == 1
    assert stack.early() == {}


def test_what_a_handler_called_ends_early_when_it_is_left() -> None:
    stack = Stack()
    record = stack.interrupt(stack.graphs.block("main"), stack.graphs.address("main"))
    stack.activations.enter_handler(record, 0x9000, stack.graphs.address("f"))
    stack.push("inner", 0x8000)
    assert stack.activations.leave_handler(0) is not None
    assert stack.depth == 0
    assert stack.early() == {"f": 1}


def test_an_interrupted_activation_that_ends_early_has_instructions_left() -> None:
    """Of `last`, three instructions, the signal came before the second: two are left."""
    stack = Stack()
    last = stack.graphs.block("last")
    record = stack.interrupt(last, stack.graphs.address("last+1"))
    stack.activations.enter_handler(record, 0x9000, stack.graphs.address("g"))
    stack.activations.end_callers_early()
    assert stack.early() == {"last": 1}
    assert stack.tally.cut == {(last, stack.graphs.address("last+1")): 1}


@pytest.mark.parametrize("place", [0x18, 0x7FFFFFF0])
def test_a_block_that_was_left_for_nowhere_has_executed_whole(place: int) -> None:
    """The signal came at an address without a graph, below or above: nothing is left of `last`."""
    stack = Stack()
    last = stack.graphs.block("last")
    record = stack.interrupt(last, place)
    stack.activations.enter_handler(record, 0x9000, stack.graphs.address("g"))
    stack.activations.end_callers_early()
    assert stack.early() == {"last": 1}
    assert not stack.tally.cut


def test_leaving_a_handler_that_never_began_is_noticed() -> None:
    stack = Stack()
    stack.push("last", 0x9000)
    assert stack.activations.leave_handler(0) is None


def test_the_innermost_handler_is_left_first() -> None:
    stack = Stack()
    places = [("main", 0x9000), ("f", 0x8000)]
    for place, pointer in places:
        record = stack.interrupt(stack.graphs.block(place), stack.graphs.address(place))
        stack.activations.enter_handler(record, pointer, stack.graphs.address("g"))
    records = [stack.activations.leave_handler(0) for _ in places]
    blocks = [record.state for record in records if record is not None]
    assert blocks == [stack.graphs.block("f"), stack.graphs.block("main")]


def test_handlers_run_out_of_frames_with_a_message() -> None:
    stack = Stack()
    for _ in range(DEPTH - 1):
        stack.push("back", 0x9000)
    record = stack.interrupt(stack.graphs.block("main"), stack.graphs.address("main"))
    with pytest.raises(UnsupportedError, match="nested calls"):
        stack.activations.enter_handler(record, 0x9000, stack.graphs.address("g"))
