"""What path counters say of a routine in which activations ended early.

Their path registers died with the program, and the paths that they were on are in no counter. But
flow is conserved: a path that began and did not end left more arrivals where it began than the
finished paths account for. So each way that an unfinished path can have taken is tried, and the
counters are read as if it had; what no execution can have counted is dropped. If one reading is
left, it is the right one. If several are, the counters do not tell, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, islice, product

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.flow import FlowError, check
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan.actions import Execution
from simprof.profiler.plan.decoders import PathDecoder, Reading, RoutineCounters, UnfinishedPath
from simprof.profiler.plan.interpret import begin, follow
from simprof.profiler.rewriting.memory import MemoryCounters
from simprof.simulator.errors import UsageError

MOST_WAYS = 256
"""Ways to one block that are tried."""
MOST_READINGS = 4096
"""Readings of one routine that are tried."""


def read_with_ends(
    plan: PathDecoder, memory: MemoryCounters, early: Mapping[int, int]
) -> tuple[RoutineCounters, Reading]:
    """Return a routine's counters with its unfinished paths, and what they say.

    Parameters
    ----------
    plan
        The plan, which counts acyclic paths.
    memory
        What the counters hold.
    early
        Block id -> activations that ended early in it, one at least.

    Raises
    ------
    UsageError
        If the counters break flow, or do not tell which way the unfinished paths took.
    """
    cfg = plan.cfg
    found: list[tuple[RoutineCounters, Reading]] = []
    for tried, ends in enumerate(_all_ends(plan, early)):
        if tried == MOST_READINGS:
            raise _untold(cfg)
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
        f"{cfg.name} was active when the program ended, and its path counters do not tell which "
        "way it had taken: instrument for edges (qpt2), or without this routine (--exclude)"
    )


def _possible(plan: PathDecoder, counters: RoutineCounters) -> Reading | None:
    """Return what the counters say; None if no execution leaves them."""
    if any(count < 0 for count in counters.finished_paths.values()):
        return None
    try:
        reading = plan.read(counters)
        check(plan.cfg, reading.edges or (), counters.early)
    except (FlowError, ValueError):
        return None
    return None if _only_landed(plan.cfg, reading.edges or ()) else reading


def _only_landed(cfg: ControlFlowGraph, edges: Sequence[int]) -> bool:
    """Whether control came in only where calls return: a landing needs an activation before it."""
    entered = [edge for edge in cfg.out_edges[cfg.entry] if edges[edge]]
    return bool(entered) and all(_is_landing(cfg, cfg.edges[edge].target) for edge in entered)


def _is_landing(cfg: ControlFlowGraph, block: int) -> bool:
    """Whether a call returns to a block."""
    return any(cfg.edges[edge].kind is EdgeKind.CALL_RETURN for edge in cfg.in_edges[block])


def _all_ends(plan: PathDecoder, early: Mapping[int, int]) -> Iterator[tuple[UnfinishedPath, ...]]:
    """Yield the ways that all unfinished paths together can have taken."""
    each = [
        combinations_with_replacement(_ends_in(plan, block), count)
        for block, count in sorted(early.items())
    ]
    for chosen in product(*each):
        yield tuple(end for ends in chosen for end in ends)


def _ends_in(plan: PathDecoder, block: int) -> Sequence[UnfinishedPath]:
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
