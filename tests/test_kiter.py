import random
from collections import Counter
from collections.abc import Sequence

import pytest

from brute import Path, all_paths, graph, random_graph, random_walk, split
from figures import edge, letters, named, walk
from iterations_oracle import KLoop, all_iteration_paths, iterated_loops, split_iterations
from loop_graphs import random_loops
from profiler.cfg import ControlFlowGraph
from profiler.flow import check
from profiler.interpret import ExecutedWalk, execute
from profiler.schemes.base import PathEnd, PathStart
from profiler.schemes.kiter import IterationPlan, plan_kiter
from profiler.schemes.pp import plan_pp


def oracle_loops(cfg: ControlFlowGraph, plan: IterationPlan, k: int) -> list[KLoop]:
    """The loops that should be iterated, with the k that the plan chose for each."""
    chosen = {loop.head: loop.iterations for loop in plan.loops}
    loops = [loop for loop in iterated_loops(cfg, k) if loop.head in chosen]
    assert {loop.head for loop in loops} == set(chosen)
    return [KLoop(x.head, x.body, x.back, chosen[x.head]) for x in loops]


def assert_profile_is_exact(
    cfg: ControlFlowGraph,
    plan: IterationPlan,
    walks: Sequence[Sequence[int]],
    loops: Sequence[KLoop],
) -> None:
    counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(steps)) for steps in walks])
    reading = plan.read(counters)
    found: Counter[Path] = Counter()
    for path_id, count in reading.paths.items():
        assert count > 0
        record = plan.decode(path_id)
        found[Path(record.blocks, record.edges, False)] += count
    for record, count in reading.partial.items():
        assert record.partial
        found[Path(record.blocks, record.edges, True)] += count
    expected = Counter(
        path for steps in walks for path in split_iterations(cfg, steps, loops, plan.cut_edges)
    )
    assert found == expected
    true = Counter(step for steps in walks for step in steps)
    assert reading.edges == tuple(true[each.id] for each in cfg.edges)
    check(cfg, reading.edges, counters.early, activations=len(walks))


def check_random_graph(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice((4, 6, 9))
    cfg = random_graph(rng, size) if rng.random() < 0.3 else random_loops(rng, size)
    k = rng.choice((1, 2, 2, 2, 3, 3, 4))
    limit = rng.choice((None, None, None, 10**8, 10**8, 1, 5, 20, 60))
    total = rng.choice((None, 20, 2**31 - 1, 2**31 - 1))
    plan = plan_kiter(
        cfg, iterations=k, path_limit=limit, total_limit=total, event_counting=rng.random() < 0.8
    )
    plan.validate()
    loops = oracle_loops(cfg, plan, k)
    if limit is None and k > 1:
        clear = {x.head for x in iterated_loops(cfg, k)} - {x.head for x in loops}
        assert not clear or len(iterated_loops(cfg, k)) > len(loops)
    if plan.num_paths < 1500:
        records = list(plan.all_paths())
        assert records == [plan.decode(path_id) for path_id in range(plan.num_paths)]
        found = Counter(Path(record.blocks, record.edges, False) for record in records)
        assert found == Counter(all_iteration_paths(cfg, loops, plan.cut_edges))
        assert plan.numbering.blocks_of_all_paths() == sum(len(r.blocks) for r in records)
    walks = [random_walk(rng, cfg, rng.choice((3, 15, 60))) for _ in range(20)]
    assert_profile_is_exact(cfg, plan, walks, loops)


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs(seed: int) -> None:
    check_random_graph(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_many_random_graphs(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check_random_graph(seed)
