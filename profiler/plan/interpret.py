"""Plans executed directly on walks, one action after the other: the slow, plain reading.

What the kernel does with `segments`, without a kernel: for graph files, and for tests of schemes
against brute force. Only the costs of hashing, which depend on the order of all counts of a
table, are not here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.plan.actions import Execution
from simprof.profiler.plan.decoders import RoutineCounters, UnfinishedPath
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan


@dataclass(frozen=True)
class ExecutedWalk:
    """One activation, `count` times: the edges it crossed, from an ENTRY edge on.

    It ended early if the last of them does not lead to EXIT.
    """

    edges: tuple[int, ...]
    count: int = 1


def follow(plan: InstrumentationPlan, edges: Iterable[int], execution: Execution) -> None:
    """Execute the actions on `edges`, in order."""
    for edge in edges:
        execution.edge = edge
        for action in plan.actions.get(edge, ()):
            action.execute(execution)
        if edge in plan.uncounted_entries:
            execution.last = None


def begin(plan: InstrumentationPlan) -> Execution:
    """An activation's state before its ENTRY edge."""
    return Execution([0] * plan.registers)


def execute(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, walks: Iterable[ExecutedWalk]
) -> RoutineCounters:
    """Execute `plan` along `walks`; `hash_instructions` stays 0."""
    crossings = [0] * len(cfg.edges)
    paths: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    early: Counter[int] = Counter()
    unfinished: Counter[tuple[int, tuple[int, ...], int | None]] = Counter()
    hashed_increments = 0
    for walk in walks:
        execution = begin(plan)
        follow(plan, walk.edges, execution)
        for edge in walk.edges:
            crossings[edge] += walk.count
        for counter, _ in execution.counted:
            paths[counter] += walk.count
            if plan.table is CounterTable.HASH and counter >= 0:
                hashed_increments += walk.count
        for edge in execution.taken:
            taken[edge] += walk.count
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
