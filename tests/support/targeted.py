"""Plans of `tpp`, and of what has more parts, against paths that are enumerated."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import Execution
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.schemes.tpp.code import (
    COLD_COUNTER,
    CountBranching,
    CountHotPath,
)
from simprof.profiler.schemes.tpp.planner import TppPlan
from tests.oracles.brute import graph, random_graph, structured_graph
from tests.oracles.tpp import (
    Key,
    cold_executions,
    ending,
    hot_paths,
    literally_cold,
    locally_cold,
    self_loop_counts,
    tally,
    uncounted_paths,
)


def crossings(cfg: ControlFlowGraph, walks: Sequence[Sequence[int]]) -> list[int]:
    true = Counter(step for walk in walks for step in walk)
    return [true[edge.id] for edge in cfg.edges]


def counted(plan: TppPlan, walks: Sequence[Sequence[int]], garbage: int) -> Counter[int]:
    """Counters of the plan, executed with a register that holds anything at first."""
    found: Counter[int] = Counter()
    for steps in walks:
        execution = Execution([garbage])
        for step in steps:
            for action in plan.plan.actions.get(step, ()):
                action.execute(execution)
        found.update(counter for counter, _ in execution.counted)
    return found


def check_plan(
    cfg: ControlFlowGraph,
    plan: TppPlan,
    walks: Sequence[Sequence[int]],
    *,
    count_obvious: bool = False,
    cold_counter: bool = True,
    literal_cold: bool = False,
    obvious_first: bool = False,
    branching: bool = False,
) -> None:
    """Everything that the plan's counters say against what the walks did."""
    plan.validate()
    disconnected = [loop.body for loop in plan.disconnection.loops]
    ended = ending(cfg, plan.cut_edges, plan.split_edges)
    whole, partial = tally(cfg, walks, ended)
    cold_edges = literally_cold(cfg, plan.cold) if literal_cold else plan.cold
    hot = hot_paths(cfg, ended, cold_edges)
    uncounted = uncounted_paths(cfg, hot, plan.edge_profile)
    if obvious_first:  # among all paths (4.3)
        every = hot_paths(cfg, ended, ())
        uncounted = set() if count_obvious else uncounted_paths(cfg, every, plan.edge_profile)
        hot |= uncounted
    keys = [(record.blocks, record.edges) for record in plan.all_paths()]
    assert len(keys) == plan.num_paths
    obvious_keys = {key for path, key in enumerate(keys) if plan.is_obvious(path)}
    assert set(keys) == hot, "the hot paths have the numbers"
    if not count_obvious:
        assert obvious_keys == uncounted
    assert not (count_obvious and obvious_keys)
    if not (literal_cold or obvious_first):
        check_untruncated(plan, hot)
    elif set(plan.cut_edges) <= plan.disconnection.cuts | plan.disconnection.merged:
        assert plan.untruncated_paths == len(hot)
    placed = {type(action) for group in plan.plan.actions.values() for action in group}
    assert not placed & ({CountHotPath} if branching else {CountBranching})
    assert len(set(keys)) == len(keys)
    counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(walk)) for walk in walks])
    assert counters.events == self_loop_counts(cfg, walks, disconnected)
    assert counters.paths == counted(plan, walks, 123456789)
    assert cold_counter or not (plan.plan.named_counters or COLD_COUNTER in counters.paths)
    reading = plan.read(counters)
    found = {keys[path]: count for path, count in reading.paths.items()}
    for key in hot - obvious_keys:
        assert found.get(key, 0) == whole[key]
    cold = reading.lost.get("cold_paths", 0)
    own_profile = plan.edge_profile == tuple(crossings(cfg, walks))
    if own_profile:
        overcounted = bool(partial or (plan.cold and not obvious_first))
        check_obvious(whole, obvious_keys, found, overcounted)
        excess = reading.lost.get("overcounted_paths", 0)
        assert sum(found.values()) + cold - excess == whole.total()
        check_unexecuted(plan, walks, hot - obvious_keys if obvious_first else hot)
    if not obvious_keys and (cold_counter or own_profile):
        assert cold == cold_executions(whole, hot)
    known = Counter({(r.blocks, r.edges): n for r, n in reading.partial.items()})
    assert known <= partial
    unknown = reading.lost.get("unknown_unfinished", 0)
    assert known.total() + unknown == partial.total()


def check_untruncated(plan: TppPlan, hot: set[Key]) -> None:
    """Without a path limit no other edges end paths than those of disconnected loops."""
    loops = plan.disconnection
    free = loops.cuts | loops.merged
    if set(plan.cut_edges) <= free:
        assert plan.untruncated_paths == len(hot)
    ended = ending(plan.cfg, plan.disconnection.cuts, plan.disconnection.merged)
    assert plan.untruncated_paths == len(hot_paths(plan.cfg, ended, plan.cold))


def check_unexecuted(plan: TppPlan, walks: Sequence[Sequence[int]], hot: set[Key]) -> None:
    """Where cold paths are left out, those that hold anything unexecuted are (TPP 4.1)."""
    if plan.cold:
        taken = {step for walk in walks for step in walk}
        visited = {plan.cfg.edges[step].target for step in taken}
        assert all(visited.issuperset(blocks) and taken.issuperset(e) for blocks, e in hot)


def check_cold(plan: TppPlan, cold: float, always: bool) -> None:
    """The edges left out, if any are, are those that the oracle takes for cold."""
    bodies = [loop.body for loop in plan.disconnection.loops]
    expected = locally_cold(plan.cfg, plan.edge_profile, Fraction(cold), bodies)
    assert plan.cold == expected or (not always and not plan.cold)


def check_obvious(
    whole: Counter[Key], obvious: set[Key], found: dict[Key, int], overcounted: bool
) -> None:
    for key in obvious:
        if overcounted:
            assert found.get(key, 0) >= whole[key]
        else:
            assert found.get(key, 0) == whole[key]


def routine(rng: random.Random) -> ControlFlowGraph:
    """Any graph, often with one block that control leaves from, which does nothing else."""
    cfg = random_graph(rng) if rng.random() < 0.6 else structured_graph(rng, 2)
    if rng.random() < 0.5:
        return cfg
    blocks = len(cfg.blocks)
    inner = [(e.source, e.target) for e in cfg.edges if {e.source, e.target} <= set(range(blocks))]
    leaving = [(cfg.edges[edge].source, blocks) for edge in cfg.in_edges[cfg.exit]]
    leaving += [(rng.randrange(blocks), blocks) for _ in range(rng.choice([0, 1, 2, 3]))]
    entries = [cfg.edges[edge].target for edge in cfg.out_edges[cfg.entry]]
    return graph(blocks + 1, [*inner, *leaving], entries)
