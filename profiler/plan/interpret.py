"""Plans executed directly on walks, one action after the other: the slow, plain reading.

What the kernel does with `segments`, without a kernel: for graph files, and for tests of schemes
against brute force. Only the costs of hashing, which depend on the order of all counts of a
table, are not here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat

from msgspec import Struct

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.plan.actions import Execution, Guard, TakenPart
from simprof.profiler.plan.decoders import RoutineCounters, UnfinishedPath
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.simulator.errors import UsageError


class ExecutedWalk(Struct, frozen=True):
    """One activation, `count` times: the edges it crossed, from an ENTRY edge on."""

    edges: tuple[int, ...]  # It ended early if the last of them does not lead to EXIT.
    count: int = 1


# Activations that are executed one by one where the order of all of them matters.
MOST_TURNS = 1 << 20


class ProgramWords:
    """The words of the whole program that guards count down."""

    def __init__(self) -> None:
        self._words: Counter[str] = Counter()

    def passes(self, guard: Guard | None) -> bool:
        """Execute a guard; return whether it lets its action pass."""
        if guard is None:
            return False
        self._words[guard.word] -= 1
        if self._words[guard.word] > 0:
            return False
        self._words[guard.word] = guard.interval
        if guard.burst is not None:
            word, samples, stride = guard.burst
            self._words[word] = (self._words[word] + 1) % samples
            if self._words[word]:
                self._words[guard.word] = stride
        return True


def follow(
    plan: InstrumentationPlan,
    edges: Iterable[int],
    execution: Execution,
    words: ProgramWords | None = None,
) -> None:
    """Execute the actions on `edges`, in order; `words`: None where no action is guarded."""
    for edge in edges:
        if words is not None:
            execution.passes = words.passes(plan.guards.get(edge))
        execution.run(edge, plan.actions.get(edge, ()))
        if edge in plan.uncounted_entries:
            execution.last = None


def turns(
    plan: InstrumentationPlan, walks: Iterable[ExecutedWalk]
) -> tuple[ProgramWords | None, Iterable[ExecutedWalk]]:
    """Return the words for `follow`, and the walks as they have to be followed, in order;
    UsageError while they are followed if they are more than `MOST_TURNS`.
    """
    # Guards decide differently each time, so that each walk comes as often as it was executed.
    return (ProgramWords(), _one_by_one(walks)) if plan.guards else (None, walks)


def _one_by_one(walks: Iterable[ExecutedWalk]) -> Iterator[ExecutedWalk]:
    turn = 0
    for walk in walks:
        turn += walk.count
        if turn > MOST_TURNS:
            raise UsageError(
                f"a scheme whose counters depend on the order of all activations executes "
                f"{MOST_TURNS:,} of them at most: lower the counts of the runs"
            )
        yield from repeat(ExecutedWalk(walk.edges), walk.count)


def begin(plan: InstrumentationPlan) -> Execution:
    """An activation's state before its ENTRY edge."""
    return Execution(list(plan.initial), is_duplicated=plan.is_duplicated)


def execute(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, walks: Iterable[ExecutedWalk]
) -> RoutineCounters:
    """Execute `plan` along `walks`; `hash_instructions` stays 0. UsageError as for `turns`."""
    words, walks = turns(plan, walks)
    crossings = [0] * len(cfg.edges)
    paths: Counter[int] = Counter()
    taken: Counter[TakenPart] = Counter()
    early: Counter[int] = Counter()
    unfinished: Counter[tuple[int, tuple[int, ...], int | None]] = Counter()
    hashed_increments = 0
    for walk in walks:
        execution = begin(plan)
        follow(plan, walk.edges, execution, words)
        for edge in walk.edges:
            crossings[edge] += walk.count
        for counter, _ in execution.counted:
            paths[counter] += walk.count
            if plan.table is CounterTable.HASH and counter >= 0:
                hashed_increments += walk.count
        for part in execution.taken:
            taken[part] += walk.count
        block = cfg.edges[walk.edges[-1]].target
        if block != cfg.exit:
            early[block] += walk.count
            last = execution.last if block in plan.counted_region else None
            unfinished[block, tuple(execution.registers), last] += walk.count
    return RoutineCounters(
        paths=paths,
        events=plan.event_counts(crossings, block_counts(cfg, crossings)),
        early=early,
        unfinished=tuple(
            UnfinishedPath(*end, count) for end, count in unfinished.items() if plan.counts_paths
        ),
        hashed_increments=hashed_increments,
        taken=taken,
    )
