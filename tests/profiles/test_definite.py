"""Definite flow against every path profile that an edge profile allows, and EPP figure 1."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from simprof.profiler.graphs.paths import PathEnd
from simprof.profiler.plan.path_plan import PathPlan
from simprof.profiler.profiles.edge_flow import DefiniteFlow, EdgeFlow, definite_flow
from simprof.profiler.schemes.pp import plan_pp
from tests.oracles.brute import random_graph, random_walk, split
from tests.support.figures import EPP_1_PROFILES, epp_1, letters, named, walk

Profile = dict[tuple[int, ...], int]
"""Dag edges of a path -> executions."""


def flow_of(plan: PathPlan, walks: Sequence[Sequence[int]]) -> tuple[EdgeFlow, list[int]]:
    crossed = Counter(edge for steps in walks for edge in steps)
    counts = [crossed[edge.id] for edge in plan.cfg.edges]
    return EdgeFlow(plan.cfg, frozenset(plan.dag.removed), counts), counts


@pytest.mark.parametrize("which", [0, 1])
def test_figure_1_is_hardly_definite(which: int) -> None:
    """EPP figure 1: both profiles have one edge profile. By hand: what must take which path."""
    plan = plan_pp(epp_1())
    walks = [walk(plan.cfg, path) for path, n in EPP_1_PROFILES.items() for _ in range(n[which])]
    flow, counts = flow_of(plan, walks)
    found = {
        letters(plan.cfg, record.blocks): flow.definite_count(record.blocks[0], record.edges)
        for record in plan.all_paths()
    }
    # 150 of the 270 activations go from A to C and on to D, which 110 leave for F: 40 for E.
    assert found == dict.fromkeys(EPP_1_PROFILES, 0) | {"ACDEF": 40}
    lowest = {path: min(n) for path, n in EPP_1_PROFILES.items()}
    assert all(found[path] <= lowest[path] for path in found)
    assert sum_up(plan, walks, counts) == DefiniteFlow(270, 40, 1340, 5 * 40)


def sum_up(plan: PathPlan, walks: Sequence[Sequence[int]], counts: Sequence[int]) -> DefiniteFlow:
    executed = Counter(path for steps in walks for path in split(plan.cfg, steps, plan.cut_edges))
    whole = [(path.blocks[0], path.edges, n) for path, n in executed.items() if not path.partial]
    return definite_flow(plan.cfg, frozenset(plan.dag.removed), counts, whole)


def profiles(plan: PathPlan, counts: Sequence[int]) -> Iterator[Profile]:
    """Yield every path profile with these edge counts."""
    dag = plan.dag
    left = [
        counts[edge.cfg_edge]
        if edge.cfg_edge is not None
        else sum(counts[each] for each in edge.stands_for)
        for edge in dag.edges
    ]
    paths = list(plan.numbering.paths())
    covers = [frozenset(path) for path in paths]

    def choose(index: int, chosen: dict[tuple[int, ...], int]) -> Iterator[Profile]:
        open_edges = {edge for edge, count in enumerate(left) if count}
        if not open_edges:
            yield dict(chosen)
            return
        if index == len(paths) or not open_edges <= frozenset().union(*covers[index:]):
            return
        path = paths[index]
        most = min(left[edge] for edge in path)
        for count in range(most + 1):
            for edge in path:
                left[edge] -= count
            if count:
                chosen[path] = count
            yield from choose(index + 1, chosen)
            chosen.pop(path, None)
            for edge in path:
                left[edge] += count

    return choose(0, {})


def brute_bounds(plan: PathPlan, counts: Sequence[int]) -> tuple[Profile, Profile]:
    """Return the least and the most executions of each path in all profiles."""
    found = iter(profiles(plan, counts))
    least = most = next(found)
    for each in found:
        least = {path: min(count, each.get(path, 0)) for path, count in least.items()}
        most = {path: max(most.get(path, 0), each.get(path, 0)) for path in {**most, **each}}
    return least, most


def test_definite_and_potential_flow_are_the_bounds_of_all_profiles() -> None:
    indefinite = definite = 0
    for seed in range(400):
        rng = random.Random(seed)
        cfg = random_graph(rng, rng.choice((4, 6, 8)))
        plan = plan_pp(cfg, path_limit=rng.choice((None, 1, 4)))
        walks = [random_walk(rng, cfg, 60) for _ in range(rng.randint(1, 4))]
        walks = [steps for steps in walks if cfg.edges[steps[-1]].target == cfg.exit]
        if plan.num_paths > 30 or sum(map(len, walks)) > 40:
            continue
        flow, counts = flow_of(plan, walks)
        least, most = brute_bounds(plan, counts)
        for path in plan.numbering.paths():
            record = plan.decode(plan.numbering.encode(path))
            found = flow.definite_count(record.blocks[0], record.edges)
            assert found == least.get(path, 0), (seed, record)
            potential = flow.potential_count(record.blocks[0], record.edges)
            if record.end is not PathEnd.DEAD_END:  # those come to no end that could be counted
                assert potential == most.get(path, 0), (seed, record)
            definite += found > 0
        total = sum_up(plan, walks, counts)
        assert total.definite_executions == sum(least.values())
        indefinite += total.definite_executions < total.executions
    assert definite > 100
    assert indefinite > 20


@pytest.mark.long
def test_early_ends_are_never_counted_as_whole_paths() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        cfg = random_graph(rng, 8)
        plan = plan_pp(cfg)
        walks = [random_walk(rng, cfg, rng.choice((3, 6, 40))) for _ in range(20)]
        flow, _ = flow_of(plan, walks)
        executed = Counter(path for steps in walks for path in split(cfg, steps))
        for path, count in executed.items():
            if not path.partial:
                assert flow.definite_count(path.blocks[0], path.edges) <= count, seed


def test_a_routine_without_branches_is_definite() -> None:
    cfg = named("A>B B>C", "A", "C")
    plan = plan_pp(cfg)
    walks = [walk(cfg, "ABC")] * 7
    _, counts = flow_of(plan, walks)
    total = sum_up(plan, walks, counts)
    assert total == DefiniteFlow(7, 7, 21, 21)
    assert total.share == 1.0
    assert DefiniteFlow().share is None
    assert total + total == DefiniteFlow(14, 14, 42, 42)
