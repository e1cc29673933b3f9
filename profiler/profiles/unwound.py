"""Exceptions as gcov sees them, in a routine's edges: lines are then counted as it counts them.

Terms: a *landing pad* is where an exception goes that a call has let through. Its *clean-up* calls
destructors, one after the other, up to a handler (`__cxa_begin_catch`) or out of the routine
(`_Unwind_Resume`).
"""

# gcov's graph has an edge from the call that an exception leaves to the landing pad, and between
# two parts of a clean-up, and before the choice of a handler, a block that belongs to no line. In
# the code of the program, the activation ends early at the call, and such blocks are gone.

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ENTRY, EdgeKind, VertexName
from simprof.profiler.profiles.profile import EdgeCount, RoutineProfile
from simprof.simulator.binary.landing_pads import landing_pads
from simprof.simulator.binary.program import Program

_CAUGHT, _RESUMED = "__cxa_begin_catch", "_Unwind_Resume"
_CALL, _OPCODE, _DISPLACEMENT = 0x40000000, 0xC0000000, 0x3FFFFFFF


class Exceptions:
    """Where a program's exceptions go."""

    def __init__(self, program: Program) -> None:
        self._pads = {
            pad: calls
            for table in program.unwinding
            for pad, calls in landing_pads(table, program.segments, program.is64).items()
        }
        self._named = {s.address: s.name for s in program.symbols if s.name in (_CAUGHT, _RESUMED)}

    def edges(
        self, routine: RoutineProfile, words: Mapping[int, int | None]
    ) -> Collection[EdgeCount]:
        """Return the edges of a routine as gcov has them; `words`: its instructions."""
        edges = routine.edge_counts
        if not any(edge.kind is EdgeKind.REENTRY and edge.count for edge in edges):
            return edges
        apart = self._parts_of_cleanups(routine, words)
        # Of an edge across a block without a line, the source is on no line either.
        cut = [replace(e, source=ENTRY) if e in apart else e for e in edges]
        return [each for edge in cut for each in self._from_calls(edge, routine)]

    def _from_calls(self, edge: EdgeCount, routine: RoutineProfile) -> Iterator[EdgeCount]:
        """Yield a re-entry as edges from the calls that were left."""
        if edge.kind is EdgeKind.REENTRY and edge.count:
            for name, count in self._left(edge.target, routine).items():
                count = min(count, edge.count)
                edge = replace(edge, count=edge.count - count)
                yield replace(edge, source=name, count=count)
        yield edge

    def _left(self, pad: VertexName, routine: RoutineProfile) -> Counter[VertexName]:
        """Return the blocks from which exceptions come to a landing pad, and how often.

        Where `longjmp` comes back to, it is the call of `setjmp`.
        """
        calls = self._pads.get(pad.start, []) if isinstance(pad.start, int) else []
        if not calls:
            into = [edge for edge in routine.edge_counts if edge.target == pad]
            came = sum(edge.count for edge in into if edge.kind is EdgeKind.REENTRY)
            return Counter({e.source: came for e in into if e.kind is EdgeKind.CALL_RETURN})
        transfers = {block.name: block.transfer for block in routine.block_counts}
        left: Counter[VertexName] = Counter()
        for edge in routine.edge_counts:
            # A call of what never returns, such as `throw`, has an edge to EXIT.
            is_left = edge.kind in (EdgeKind.EARLY, EdgeKind.EXIT) and edge.count
            if is_left and any(transfers[edge.source] in span for span in calls):
                left[edge.source] += edge.count
        return left

    def _parts_of_cleanups(
        self, routine: RoutineProfile, words: Mapping[int, int | None]
    ) -> set[EdgeCount]:
        """Return the edges from one part of a clean-up to the next, or to the choice of a handler.

        None where code is found that belongs to no clean-up: the names of what it calls are not
        known then.
        """
        calls = {b.name: self._called(b.transfer, words) for b in routine.block_counts}
        out: dict[VertexName, list[EdgeCount]] = defaultdict(list)
        for edge in routine.edge_counts:
            out[edge.source].append(edge)
        work = [edge.target for edge in out[ENTRY] if edge.kind is EdgeKind.REENTRY]
        seen, parts = set(work), set[EdgeCount]()
        while work:
            block = work.pop()
            if calls.get(block) is not None:
                continue
            for edge in out[block]:
                if edge.kind is EdgeKind.EXIT:
                    return set()
                if edge.kind is EdgeKind.CALL_RETURN and calls[edge.target] != _RESUMED:
                    parts.add(edge)
                if edge.kind is not EdgeKind.EARLY and edge.target not in seen:
                    seen.add(edge.target)
                    work.append(edge.target)
        return parts

    def _called(self, address: int, words: Mapping[int, int | None]) -> str | None:
        """Return which of the two routines is called there, None for any other."""
        word = words.get(address)
        if word is None or word & _OPCODE != _CALL:
            return None
        distance = (word & _DISPLACEMENT) - ((word & 0x20000000) << 1)
        return self._named.get(address + 4 * distance)
