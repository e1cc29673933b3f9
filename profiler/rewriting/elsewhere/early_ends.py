"""Activations that were active when a program ended, from the return addresses of its stack.

An activation that waits for a call ends early in the block of that call (BL94 3.2, EPP 3.6), unless
the graph says that the call does not return: then it has left its routine already.

The first word of a stack is what %o7 held where the program ended. In a routine without a window
that is the call it would have returned to, and part of the stack; in others it is whatever the last
call of their own left there. The next words are those of the windows, up to the program's start.

Where a signal ended the program (`signals`), another word comes first: the address of the
interrupted instruction plus 1. Behind a system call, that is the one that follows the trap.

Paths under way (`read_with_ends`): their path registers died with the program, and they are in no
counter. But flow is conserved: a path that began and did not end left more arrivals where it began
than the finished paths account for. So each path through the code that an unfinished path can have
taken is tried, and the counters are read as if it had; what no execution can have counted is
dropped. If one reading is left, it is the right one. If several are, the counters do not tell, and
nothing is guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement, islice, product

import numpy as np

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.engine.walk import UNKNOWN, GraphIndex
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.flow import FlowError, check
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan.actions import Execution
from simprof.profiler.plan.decoders import Plan, Reading, RoutineCounters, UnfinishedPath
from simprof.profiler.plan.interpret import begin, follow
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.rewriting.elsewhere.memory import MemoryCounters
from simprof.profiler.rewriting.elsewhere.recipe import CopiedCalls
from simprof.profiler.trace.calls import Callees
from simprof.simulator.errors import UsageError
from simprof.simulator.isa.decode import TransferKind

_SIGNAL = 1
_TRAPS = (TransferKind.TRAP_ALWAYS, TransferKind.TRAP_CONDITIONAL)


def _is_signal(frames: Sequence[int]) -> bool:
    """Whether a signal ended the program: the first word is 1 more than an address."""
    return bool(frames) and frames[0] & _SIGNAL != 0


class StackReader:
    """Reads the stacks of one program."""

    def __init__(
        self, recovered: ProgramGraphs, contexts: ProgramContexts, copies: CopiedCalls
    ) -> None:
        # recovered, contexts: The program's graphs, and what is known of its registers.
        # copies: Where its calls were copied to.
        self._recovered = recovered
        self._contexts = contexts
        self._copies = copies
        self._index = GraphIndex(recovered)
        self._callees = Callees(self._index)

    def ends(self, frames: Sequence[int]) -> dict[int, Counter[int]]:
        """Return how many activations ended early, by routine number and block; UsageError if a
        word is behind no call of the program, or several blocks may have ended it.
        """
        # frames: The words of a stack, innermost first.
        if _is_signal(frames):
            blocks, trap = self._interrupted(frames)
            ended = [] if self._index.exit_edge[trap] != UNKNOWN else [trap]
        else:
            blocks, last = self._calls(frames)
            ended = self._ended(last)
        waiting = [block for block in blocks if self._waits(block)]
        ends: dict[int, Counter[int]] = {}
        for block in [*waiting, *ended]:
            routine = self._index.routine(block)
            own = block - int(self._index.first_block[routine])
            ends.setdefault(routine, Counter())[own] += 1
        return ends

    def last_block(self, frames: Sequence[int]) -> int | None:
        """Return the block, by program-wide number, whose system call ended the program.

        None where the stack does not tell. Parameters and errors are those of `ends`.
        """
        if _is_signal(frames):
            return self._interrupted(frames)[1]
        _, last = self._calls(frames)
        traps = [] if last == UNKNOWN else self._traps(last)
        leaving = [block for block in traps if self._index.exit_edge[block] != UNKNOWN]
        candidates = leaving or traps
        return candidates[0] if len(candidates) == 1 else None

    def _calls(self, frames: Sequence[int]) -> tuple[list[int], int]:
        """Return the blocks of the calls on a stack, and the routine that the program ended in."""
        words = [self._original(word) for word in frames]
        leaf = self._leaf(words[0]) if words else UNKNOWN
        calls = words if leaf != UNKNOWN else words[1:]
        blocks = [self._call(word) for word in calls]
        return blocks, leaf if leaf != UNKNOWN else self._last(words[:1], blocks)

    def _original(self, address: int) -> int:
        """Return where a call was; one that is no copy is where it was."""
        return self._copies.get(address, address)

    def _interrupted(self, frames: Sequence[int]) -> tuple[list[int], int]:
        """Return the blocks of the calls on the stack of a signal, and the block of the trap.

        The signal came with a system call. %o7 is the return address of a routine that has no
        window there.
        """
        trap = self._original(frames[0] - _SIGNAL - 4)
        block = next((b for b in self._trap_blocks if b[0] == trap), None)
        if block is None or frames[0] - _SIGNAL - 4 not in self._copies:
            raise UsageError(
                f"a signal ended the program within a block, at {frames[0] - _SIGNAL:#x} of the "
                "instrumented one: its profile cannot be derived"
            )
        _, routine, own = block
        analysis = self._contexts.of(routine).analysis
        last = self._recovered.routines[routine].blocks[own].instructions - 1
        leaf = analysis is not None and analysis.frames.before(own, last).depth == 0
        calls = [self._original(word) for word in frames[1 if leaf else 2 :]]
        first = int(self._index.first_block[routine])
        return [self._call(word) for word in calls], first + own

    @cached_property
    def _trap_blocks(self) -> list[tuple[int, int, int]]:
        """Return (address of a trap, routine, block) of all traps that end blocks."""
        kinds = self._recovered.code.transfers.kind
        return [
            (block.end - 4, number, block.id)
            for number, cfg in enumerate(self._recovered.routines)
            for block in cfg.blocks
            if not block.is_slot and kinds[self._recovered.code.index(block.end - 4)] in _TRAPS
        ]

    def _call(self, address: int) -> int:
        """Return the block that ends with the call at `address`."""
        block = self._index.call_block(address + 8)
        if block == UNKNOWN:
            raise UsageError(
                f"the program ended with a return address that is behind none of its calls "
                f"({address:#x}), in a signal handler perhaps: its profile cannot be derived"
            )
        return block

    def _waits(self, block: int) -> bool:
        """Whether the call at the end of `block` returns."""
        routine = self._index.routine(block)
        cfg = self._recovered.routines[routine]
        own = block - int(self._index.first_block[routine])
        return any(cfg.edges[edge].kind is EdgeKind.CALL_RETURN for edge in cfg.out_edges[own])

    def _callee(self, block: int) -> int:
        """Return the routine that a direct call leads to, or UNKNOWN."""
        entry = self._callees.callee(block)
        if entry == UNKNOWN and self._index.exit_edge[block] != UNKNOWN:
            _, entry = self._callees.exit(self._index.exit_edge[block])
        if entry == UNKNOWN:
            return UNKNOWN
        return int(np.searchsorted(self._index.first_edge, entry, "right")) - 1

    def _leaf(self, address: int) -> int:
        """Return the routine without a window that the call at `address` leads to, if it can end.

        UNKNOWN where it leads elsewhere: then the program has not ended in such a routine.
        """
        block = self._index.call_block(address + 8)
        routine = UNKNOWN if block == UNKNOWN else self._callee(block)
        if routine == UNKNOWN or not self._traps(routine):
            return UNKNOWN
        analysis = self._contexts.of(routine).analysis
        windowed = analysis is None or analysis.frames.has_window
        return UNKNOWN if windowed else routine

    def _last(self, outgoing: Sequence[int], blocks: Sequence[int]) -> int:
        """Return the routine with a window in which the program ended, UNKNOWN if none tells."""
        routine = self._callee(blocks[0]) if blocks else UNKNOWN
        if routine == UNKNOWN and outgoing:
            block = self._index.call_block(outgoing[0] + 8)
            routine = UNKNOWN if block == UNKNOWN else self._index.routine(block)
        return routine if routine != UNKNOWN and self._traps(routine) else UNKNOWN

    def _traps(self, routine: int) -> list[int]:
        """Return the blocks of a routine that end with a trap."""
        code, cfg = self._recovered.code, self._recovered.routines[routine]
        first = int(self._index.first_block[routine])
        return [
            first + block.id
            for block in cfg.blocks
            if not block.is_slot and code.transfers.kind[code.index(block.end - 4)] in _TRAPS
        ]

    def _ended(self, routine: int) -> list[int]:
        """Return the block in which the program's last activation ended early, if it did.

        It did not where the graph says that the trap does not return.
        """
        traps = [] if routine == UNKNOWN else self._traps(routine)
        if not traps or any(self._index.exit_edge[block] != UNKNOWN for block in traps):
            return []
        if len(traps) > 1:
            name = self._recovered.routines[routine].name
            raise UsageError(
                f"{name} has several system calls, and which of them ended the program is not "
                "known: its profile cannot be derived"
            )
        return traps


MOST_WAYS = 256  # Ways to one block that are tried
MOST_READINGS = 4096  # Readings of one routine that are tried


def read_with_ends(
    plan: Plan, memory: MemoryCounters, early: Mapping[int, int]
) -> tuple[RoutineCounters, Reading]:
    """Return a routine's counters with its unfinished paths, and what they say; UsageError if the
    counters break flow, or do not tell which way the unfinished paths took.
    """
    # plan: The plan, which counts acyclic paths.
    # early: Block id -> activations that ended early in it, one at least.
    cfg = plan.cfg
    found: list[tuple[RoutineCounters, Reading]] = []
    each = [
        combinations_with_replacement(_ends_in(plan, block), count)
        for block, count in sorted(early.items())
    ]
    # all unfinished paths together can have taken any combination of these paths
    for tried, chosen in enumerate(product(*each)):
        if tried == MOST_READINGS:
            raise _untold(cfg)
        ends = tuple(end for ends in chosen for end in ends)
        counters = RoutineCounters(memory.paths, memory.events, early, unfinished=ends)
        reading = _possible(plan, counters)
        if reading is not None and all(reading != other for _, other in found):
            found.append((counters, reading))
        if len(found) > 1:
            raise _untold(cfg)
    if not found:
        raise UsageError(
            f"{cfg.name}: its counters are none that an execution leaves: run the program again"
        )
    return found[0]


def _untold(cfg: ControlFlowGraph) -> UsageError:
    return UsageError(
        f"{cfg.name} was active when the program ended, and its path counters do not show which "
        "path it was on: instrument for edges (qpt2), or without this routine (--exclude)"
    )


def _possible(plan: Plan, counters: RoutineCounters) -> Reading | None:
    """Return what the counters say; None if no execution leaves them."""
    if any(count < 0 for count in counters.finished_paths.values()):
        return None
    try:
        reading = plan.read(counters)
        if reading.all_edges is None:
            raise _untold(plan.cfg)
        check(plan.cfg, reading.all_edges, counters.early)
    except (FlowError, ValueError):
        return None
    # a landing needs an activation before it: control cannot have come in only where calls return
    cfg, edges = plan.cfg, reading.edges or ()
    entered = [cfg.edges[edge].target for edge in cfg.out_edges[cfg.entry] if edges[edge]]
    landed = (
        any(cfg.edges[edge].kind is EdgeKind.CALL_RETURN for edge in cfg.in_edges[block])
        for block in entered
    )
    return None if entered and all(landed) else reading


def _ends_in(plan: Plan, block: int) -> Sequence[UnfinishedPath]:
    """Return the states that an activation can be in on its first visit of a path to `block`."""
    cfg, counted = plan.cfg, plan.plan.counted_region
    dfs = depth_first(cfg)
    breaks = (dfs.back_edges - dfs.self_loops) | frozenset(plan.cut_edges)
    ways = list(islice(_ways(cfg, breaks | dfs.self_loops, breaks, block), MOST_WAYS + 1))
    if len(ways) > MOST_WAYS:
        raise _untold(cfg)
    ends: dict[UnfinishedPath, None] = {}
    for way in ways:
        state: Execution = begin(plan.plan)
        follow(plan.plan, way, state)
        last = state.last if block in counted else None
        ends[UnfinishedPath(block, tuple(state.registers), last, 1)] = None
    return tuple(ends)


def _ways(
    cfg: ControlFlowGraph, left_out: frozenset[int], breaks: frozenset[int], block: int
) -> Iterator[tuple[int, ...]]:
    """Yield the edges of each way to `block`: from ENTRY, or behind an edge that ends paths."""
    work: list[tuple[int, tuple[int, ...]]] = [(block, ())]
    while work:
        vertex, way = work.pop()
        if vertex == cfg.entry:
            yield way
            continue
        behind = [edge for edge in cfg.in_edges[vertex] if edge in breaks]
        if behind:
            yield (behind[0], *way)
        work += [
            (cfg.edges[edge].source, (edge, *way))
            for edge in cfg.in_edges[vertex]
            if edge not in left_out
        ]
