"""The end of a trace of which there are only the tokens.

A program that writes its trace itself knows nothing of crossings, and its last token is not its
end. Where control goes from there, the graphs tell, up to the block in which the program ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from simprof.profiler.engine.walk import UNKNOWN
from simprof.profiler.plan.tracing import free_way
from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.profiler.trace import regeneration_kernel as kernel
from simprof.profiler.trace.format import Trace, TraceEnd, TraceEvent
from simprof.profiler.trace.regeneration import NO_EVENT, Regenerator, StopError

LONGEST_TAIL = 1 << 20
"""Crossings behind the last token after which the end is given up."""


@dataclass(frozen=True)
class Completion:
    """What a trace lacked.

    Attributes
    ----------
    event
        The program's end.
    end
        The totals. The digest is that of what the tokens lead to: the run itself told none.
    """

    event: TraceEvent
    end: TraceEnd


def complete(trace: Trace, recovered: RecoveredProgram, block: int, bits: int) -> Completion:
    """Find out how a trace goes on behind its tokens.

    Parameters
    ----------
    trace
        What there is: the tokens of all routines and the stream. It has no events.
    recovered
        The graphs of its program.
    block
        Program-wide number of the block whose system call ended the program. It is taken to be
        the first time that control comes there behind the last token.
    bits
        Of the token stream.

    Raises
    ------
    StopError
        If the tokens do not lead to that end; the text says why.
    """
    whole = replace(trace, certain=1, events=(), end=TraceEnd(0, 0, bits))
    return _Follower(whole, recovered, check=False, sink=lambda blocks: None).follow(block)


class _Follower(Regenerator):
    """Regenerates all that the tokens tell, and then goes on to a block."""

    def follow(self, block: int) -> Completion:
        """Return what comes behind the tokens; parameters and errors as those of `complete`."""
        state = self._state
        leaving = self._index.exit_edge.get(block, UNKNOWN)
        state[kernel.LIMIT], state[kernel.EVENT_BITS] = NO_EVENT, -1
        self._begin()
        longest = -1
        while not self._has_ended(block, leaving):
            crossed = int(state[kernel.CROSSINGS])
            if state[kernel.BITS] >= self._end:
                longest = crossed + LONGEST_TAIL if longest < 0 else longest
                state[kernel.CERTAIN] = crossed + 1  # one more edge, without a token
            if 0 <= longest <= crossed:
                raise StopError("the block that the program ended in is not met")
            self._step(block, crossed)
        return self._completion(block, leaving)

    def _has_ended(self, block: int, leaving: int) -> bool:
        place, bits = int(self._state[kernel.PLACE]), int(self._state[kernel.BITS])
        if leaving != UNKNOWN and place == -2 - leaving:
            return bits == self._end
        return place == block and bits + self._width(leaving) == self._end

    def _width(self, edge: int) -> int:
        return 0 if edge == UNKNOWN else max(0, int(self._tables.width[edge]))

    def _step(self, block: int, crossed: int) -> None:
        """Regenerate as far as tokens lead, or by one edge behind them."""
        state = self._state
        arguments = (self._stack, self._output, self._digests)
        status = kernel.regenerate(self._tables, self._stream, self._end, state, *arguments)
        match status:
            case kernel.OUTPUT_FULL:
                self._flush()
            case kernel.STACK_FULL:
                self._grow()
            case kernel.NO_TOKEN if state[kernel.BITS] >= self._end:
                if state[kernel.CROSSINGS] == crossed and state[kernel.CERTAIN] > crossed:
                    self._take_free_way(block)
            case _:
                raise StopError(self._reason(status))

    def _take_free_way(self, block: int) -> None:
        """Go from a predicate behind the last token to the end, which is in the same routine."""
        place, index = int(self._state[kernel.PLACE]), self._index
        if place < 0:
            raise StopError(self._reason(kernel.NO_TOKEN))
        routine = index.routine(place)
        first = int(index.first_block[routine])
        way = None
        if index.routine(block) == routine:
            tokens = self._trace.routines.get(routine, {})
            cfg = index.recovered.routines[routine]
            way = free_way(cfg, tokens, place - first, block - first)
        if not way:
            raise StopError(self._reason(kernel.NO_TOKEN))
        for edge in way:
            self._cross(int(index.first_edge[routine]) + edge)

    def _completion(self, block: int, leaving: int) -> Completion:
        state = self._state
        left = int(state[kernel.PLACE]) != block
        at = int(state[kernel.CROSSINGS]) - left
        bits = int(state[kernel.BITS]) - (self._width(leaving) if left else 0)
        if leaving != UNKNOWN and not left:
            self._cross(leaving)
        crossed = () if leaving == UNKNOWN else (leaving,)
        event = TraceEvent(at, bits, block, crossed, 0, UNKNOWN, UNKNOWN)
        digest = int(state[kernel.DIGEST]) % (1 << 64)
        return Completion(event, TraceEnd(int(state[kernel.CROSSINGS]), digest, self._end))
