import random
from collections import Counter
from collections.abc import Sequence

import pytest

from brute import random_graph, random_walk
from profiler.cfg import ControlFlowGraph
from profiler.interpret import ExecutedWalk, execute
from profiler.plan import Execution, Table
from profiler.schemes.tpp import TppPlan, plan_tpp
from tpp_oracle import Key, ending, hot_paths, tally


def crossings(cfg: ControlFlowGraph, walks: Sequence[Sequence[int]]) -> list[int]:
    true = Counter(step for walk in walks for step in walk)
    return [true[edge.id] for edge in cfg.edges]


def counted(plan: TppPlan, walks: Sequence[Sequence[int]], garbage: int) -> Counter[int]:
    """Counters of the plan, executed with a register that holds anything at first."""
    found: Counter[int] = Counter()
    for walk in walks:
        execution = Execution([garbage])
        for step in walk:
            for action in plan.plan.actions.get(step, ()):
                action.execute(execution)
        found.update(counter for counter, _ in execution.counted)
    return found


def check_plan(cfg: ControlFlowGraph, plan: TppPlan, walks: Sequence[Sequence[int]]) -> None:
    """Everything that the plan's counters say against what the walks did."""
    plan.validate()
    ended = ending(cfg, plan.cut_edges, plan.split_edges)
    whole, partial = tally(cfg, walks, ended)
    hot = hot_paths(cfg, ended, plan.cold)
    keys = [(record.blocks, record.edges) for record in plan.all_paths()]
    assert len(keys) == plan.num_paths
    obvious_keys = {key for path, key in enumerate(keys) if plan.is_obvious(path)}
    assert set(keys) == hot, "the hot paths have the numbers"
    assert len(set(keys)) == len(keys)
    counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(walk)) for walk in walks])
    assert counters.paths == counted(plan, walks, 123456789)
    reading = plan.read(counters)
    found = {keys[path]: count for path, count in reading.paths.items()}
    for key in hot - obvious_keys:
        assert found.get(key, 0) == whole[key]
    check_cold(plan, whole, hot, obvious_keys, reading.lost.get("cold_paths", 0))
    if plan.edge_profile == tuple(crossings(cfg, walks)):
        check_obvious(plan, whole, partial, obvious_keys, found)
    known = Counter({(r.blocks, r.edges): n for r, n in reading.partial.items()})
    assert known <= partial
    unknown = reading.lost.get("unknown_unfinished", 0)
    assert known.total() + unknown == partial.total()


def check_cold(
    plan: TppPlan, whole: Counter[Key], hot: set[Key], obvious: set[Key], cold: int
) -> None:
    true = sum(count for key, count in whole.items() if key not in hot)
    if obvious:
        assert cold <= true
    else:
        assert cold == true


def check_obvious(
    plan: TppPlan,
    whole: Counter[Key],
    partial: Counter[Key],
    obvious: set[Key],
    found: dict[Key, int],
) -> None:
    for key in obvious:
        if plan.cold or partial:
            assert found.get(key, 0) >= whole[key]
        else:
            assert found.get(key, 0) == whole[key]


def settings(rng: random.Random) -> dict[str, object]:
    return {
        "cold": rng.choice([0, 1, 5, 20, 35, 60, 100]),
        "loop": rng.choice([0, 0, 15, 40, 80, 100]),
        "cold_always": rng.random() < 0.8,
        "path_limit": rng.choice([None, 1, 3, 10, 100]),
        "table": rng.choice([None, None, Table.ARRAY, Table.HASH]),
    }


def check_random(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [walk for _ in range(rng.choice([3, 30])) if (walk := random_walk(rng, cfg))]
    counts = crossings(cfg, walks)
    if rng.random() < 0.25:
        counts = [rng.choice([0, 1, 5, 100]) for _ in cfg.edges]
    check_plan(cfg, plan_tpp(cfg, counts, **settings(rng)), walks)


@pytest.mark.parametrize("seed", range(100))
def test_random_graphs(seed: int) -> None:
    check_random(seed)
