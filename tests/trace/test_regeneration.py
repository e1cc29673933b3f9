"""From traces written by hand, of assembled routines, back to the blocks that they are of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from simprof.profiler.engine.kernels import DIGEST_FACTOR
from simprof.profiler.trace.format import Trace, TraceEnd, TraceEvent, TraceHeader
from simprof.profiler.trace.regeneration import Regeneration, Regenerator
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Register
from tests.support.assembled import code
from tests.support.event_player import IndexedGraphs

R = Register
EXIT = (asm.mov(1, R.G1), asm.trap_always(0x6D))
RETURN = (asm.retl(), asm.nop())
GRAPHS = IndexedGraphs({
    "main": code(
        asm.mov(3, R.O0), "loop", asm.call("f"), asm.nop(), "back",
        asm.branch("ne", "loop"), asm.nop(), "out", *EXIT,
    ),
    "f": code(*RETURN),
})  # fmt: skip
STAY, GO = GRAPHS.edge("back>loop"), GRAPHS.edge("back>out")
TURN = ["loop", "f", "back"]
CROSSED = ["ENTRY>main", "main>loop", "ENTRY>f", "f>EXIT", "loop>back", "back>loop",
           "ENTRY>f", "f>EXIT", "loop>back", "back>out"]  # fmt: skip
"""Round, and out; the last edge, out>EXIT, is the event's."""


def digest_of(names: list[str]) -> int:
    digest = 0
    for name in names:
        digest = (digest + GRAPHS.edge(name) + 1) * DIGEST_FACTOR % (1 << 64)
    return digest


END = TraceEnd(11, digest_of([*CROSSED, "out>EXIT"]), 2)
TRACE = Trace(
    header=TraceHeader("program", "", "sparcv9", (), "bits", {}),
    routines={0: {STAY: (1, 1), GO: (0, 1)}, 1: {}},
    stream=bytes([0b10_000000]),
    certain=10,
    checkpoints={},
    events=(
        TraceEvent(10, 2, GRAPHS.block("out"), (GRAPHS.edge("out>EXIT"),), 0, -1, -1),
    ),
    end=END,
    cut=None,
)  # fmt: skip


def regenerated(trace: Trace) -> tuple[list[str], Regeneration]:
    """The blocks that a trace gives, by name, and what became of it."""
    blocks: list[str] = []
    recovered = GRAPHS.index.recovered
    starts = [block.start for cfg in recovered.routines for block in cfg.blocks]

    def receive(more: NDArray[np.int64]) -> None:
        blocks.extend(GRAPHS.name(starts[block]) for block in more.tolist())

    return blocks, Regenerator(trace, recovered, check=True, sink=receive).run()


def test_tokens_decide_and_calls_and_returns_need_none() -> None:
    blocks, result = regenerated(TRACE)
    assert result.problem is None
    assert blocks == ["main", *TURN, *TURN, "out"]
    assert (result.crossings, result.bits, result.blocks) == (11, 2, 8)
    assert result.place == GRAPHS.block("out")
    assert result.digest == END.digest


def test_a_trace_without_tokens_ends_where_the_first_is_asked_for() -> None:
    """The file was cut before its token stream: the branch at "back" may go either way."""
    cut = replace(TRACE, stream=b"", events=(), end=None, cut="the file ends", certain=5)
    blocks, result = regenerated(cut)
    assert blocks == ["main", *TURN]
    assert result.crossings == 5
    assert result.problem is not None


def test_another_token_is_another_execution_and_is_noticed() -> None:
    """Both tokens 1: the loop goes round twice, and the event's block is not reached."""
    blocks, result = regenerated(replace(TRACE, stream=bytes([0b11_000000])))
    assert result.problem == "it is elsewhere than the event at edge 10 says"
    assert blocks == ["main", *TURN, *TURN, "loop"]


def test_the_digest_tells_edges_that_no_token_does() -> None:
    wrong = replace(END, digest=END.digest ^ 1)
    _, result = regenerated(replace(TRACE, end=wrong))
    assert result.problem == "differs from the execution between edge 0 and edge 11"


def test_tokens_that_nobody_asks_for_are_noticed() -> None:
    """The stream says one bit more than the walk reads."""
    _, result = regenerated(replace(TRACE, end=replace(END, bits=3)))
    assert result.problem == "it ends at edge 11 of 11"


def test_bits_behind_the_end_are_no_tokens() -> None:
    """The last byte of a stream is filled up; here the end says that one bit of it counts."""
    shorter = replace(TRACE, end=replace(END, bits=1))
    blocks, result = regenerated(shorter)
    assert blocks == ["main", *TURN, *TURN]
    assert (result.bits, result.crossings) == (1, 9)
    assert result.problem is not None


# The bits of events: where in the token stream an event is


def with_event(bits: int, **more: Any) -> Trace:
    """The trace with its event at another bit, and the end there as well."""
    (event,) = TRACE.events
    moved = replace(TRACE, events=(replace(event, bits=bits),), end=replace(END, bits=bits))
    return replace(moved, **more)


def test_an_event_behind_bits_that_no_edge_wrote_does_not_fit() -> None:
    """All else agrees: the edges, their digest, and the bits at the end."""
    blocks, result = regenerated(with_event(3))
    assert result.problem == "its tokens do not fit the event at edge 10"
    assert (blocks[-1], result.crossings, result.bits) == ("out", 10, 2)


def test_the_target_that_an_event_is_about_is_32_bits_of_the_stream() -> None:
    blocks, result = regenerated(with_event(2 + 32, stream=bytes([0b10_000000, 0, 0, 0, 0])))
    assert result.problem is None
    assert (blocks[-1], result.bits) == ("out", 34)


def test_an_event_whose_bits_are_cut_off_did_maybe_not_happen() -> None:
    """The stream has no 32 bits for its target: the file was cut before them."""
    cut = with_event(2 + 32, end=None, cut="the file ends")
    blocks, result = regenerated(cut)
    assert result.problem == "the file ends"
    assert (blocks[-1], result.crossings, result.bits) == ("out", 10, 2)


def test_at_the_bit_of_the_next_event_no_token_decides() -> None:
    """Leaving the loop writes nothing: that the event's bit is reached tells it, and no token."""
    silent = with_event(1, routines={0: {STAY: (1, 1)}, 1: {}})
    blocks, result = regenerated(silent)
    assert result.problem is None
    assert blocks == ["main", *TURN, *TURN, "out"]
    assert (result.crossings, result.bits) == (11, 1)


@pytest.mark.parametrize("token", [1, 0])
def test_a_token_where_there_is_no_choice_is_compared_as_well(token: int) -> None:
    """The one way on from the entry writes a 1: a trace with a 0 there is of another execution."""
    ways = {GRAPHS.edge("main>loop"): (1, 1), STAY: (1, 1), GO: (0, 1)}
    stream = bytes([token << 7 | 0b010_00000])
    blocks, result = regenerated(with_event(3, routines={0: ways, 1: {}}, stream=stream))
    if token:
        assert result.problem is None
    else:
        assert result.problem == "its token at bit 0 cannot come here"
        assert blocks == ["main"]


def test_a_token_behind_the_end_of_the_stream_is_not_there() -> None:
    """The one way on from the entry writes a 0; nothing of it is left, though it has happened."""
    ways = {GRAPHS.edge("main>loop"): (0, 1), STAY: (1, 1), GO: (0, 1)}
    cut = replace(TRACE, routines={0: ways, 1: {}}, stream=b"", events=(), end=None, certain=5)
    blocks, result = regenerated(replace(cut, cut="the file ends"))
    assert result.problem == "the file ends"
    assert (blocks, result.crossings, result.bits) == (["main"], 1, 0)
