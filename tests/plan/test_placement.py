import random
from collections import Counter

import pytest

from simprof.profiler.graphs.spanning import ChordIncrements
from simprof.profiler.plan.path_plan import PathPlan
from simprof.profiler.plan.placement import choose_table
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.profiler.schemes.pp import plan_pp
from tests.oracles.brute import graph, random_graph, random_walk, run_plan
from tests.support.figures import EPP_7_WEIGHTS, by_edge, edge, epp_1, epp_10, named


def code(plan: PathPlan) -> dict[str, str]:
    cfg = plan.cfg
    return {
        f"{cfg.name_of(cfg.edges[e].source).start}>{cfg.name_of(cfg.edges[e].target).start}":
        "; ".join(map(str, actions)) for e, actions in plan.plan.actions.items()
    }  # fmt: skip


def test_figure_9() -> None:
    cfg = epp_1()
    plan = plan_pp(cfg, weights=by_edge(cfg, EPP_7_WEIGHTS))
    assert code(plan) == {
        "A>C": "r=0",
        "B>C": "r=2",
        "B>D": "r=4",
        "D>E": "count[r+1]++",
        "D>F": "count[r]++",
    }
    assert plan.plan.uses_register
    names = [str(cfg.name_of(vertex)) for vertex in sorted(plan.static_region)]
    assert names == ["A", "B"]
    assert {str(cfg.name_of(v)) for v in plan.plan.counted_region} == {"E", "F"}


def test_back_edge_carries_both_dummies() -> None:
    cfg = epp_10()
    plan = plan_pp(cfg)
    increments = plan.increments.increments
    (start,) = plan.dag.entry_dummy.values()
    (end,) = plan.dag.exit_dummy.values()
    texts = code(plan)["E>B"].split("; ")
    assert texts[0].startswith("count[r")
    assert texts[1] == f"r={increments[start]}"
    assert not plan.tree.in_tree[start] or increments[start] == 0
    assert not plan.tree.in_tree[end] or texts[0] == "count[r]++"


def test_single_path_is_counted_by_a_constant() -> None:
    plan = plan_pp(graph(3, [(0, 1), (1, 2)]))
    (actions,) = plan.plan.actions.values()
    assert [str(action) for action in actions] == ["count[0]++"]
    assert not plan.plan.uses_register
    assert plan.plan.path_counters == 1


def test_self_loop_counts_and_ends_no_path() -> None:
    cfg = named("A>A A>B", "A", "B")
    plan = plan_pp(cfg)
    assert code(plan)["A>A"] == "edge[0]++"
    assert plan.num_paths == 1
    assert plan.edge_counters == (edge(cfg, "A>A"),)


def test_parallel_back_edges_are_told_apart_by_a_counter() -> None:
    cfg = graph(3, [(0, 1), (1, 2), (1, 0), (1, 0)])
    plan = plan_pp(cfg, weights=[1, 1, 5, 4, 1, 1])
    assert plan.edge_counters == (3,)
    assert [str(a) for a in plan.plan.actions[3]][-1] == "edge[0]++"
    assert not any("edge" in str(a) for a in plan.plan.actions[2])


def table_for(greatest: int) -> tuple[CounterTable, Addressing | None]:
    return choose_table(ChordIncrements((0, greatest), (0, 0)).greatest)


@pytest.mark.parametrize(
    ("greatest", "table", "addressing"),
    [
        (0, CounterTable.ARRAY, Addressing.ADDRESS),
        (-1023, CounterTable.ARRAY, Addressing.ADDRESS),
        (1024, CounterTable.ARRAY, Addressing.INDEX),
        (-1024, CounterTable.ARRAY, Addressing.INDEX),
        (4095, CounterTable.ARRAY, Addressing.INDEX),
        (4096, CounterTable.HASH, None),
        (-4096, CounterTable.HASH, None),
    ],
)
def test_table_follows_the_greatest_increment(
    greatest: int, table: CounterTable, addressing: Addressing | None
) -> None:
    assert table_for(greatest) == (table, addressing)


def test_table_can_be_forced() -> None:
    cfg = epp_1()
    hashed = plan_pp(cfg, table=CounterTable.HASH).plan
    assert (hashed.table, hashed.addressing, hashed.path_counters) == (CounterTable.HASH, None, 0)
    array = plan_pp(cfg, table=CounterTable.ARRAY).plan
    assert (array.table, array.addressing, array.path_counters) == (
        CounterTable.ARRAY,
        Addressing.ADDRESS,
        6,
    )


@pytest.mark.seeds(range(150))
def test_no_path_is_initialised_or_counted_twice(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    plan = plan_pp(cfg, weights=[rng.randint(0, 9) for _ in cfg.edges])
    for path_id in range(min(plan.num_paths, 50)):
        texts = []
        steps = [plan.dag.edges[step] for step in plan.numbering.decode(path_id)]
        if not steps[-1].stands_for and steps[-1].cfg_edge is None:
            continue  # a dead end: control never leaves it, nothing is counted
        removed_start = steps[0].stands_for[:1] if steps[0].cfg_edge is None else ()
        removed_end = steps[-1].stands_for[:1] if steps[-1].cfg_edge is None else ()
        for number in removed_start:
            texts += [str(a) for a in plan.plan.actions.get(number, ())][-1:]
        for step in steps:
            if step.cfg_edge is not None:
                texts += [str(a) for a in plan.plan.actions.get(step.cfg_edge, ())]
        for number in removed_end:
            texts += [str(a) for a in plan.plan.actions.get(number, ())][:1]
        texts = [text for text in texts if not text.startswith("edge")]
        assert sum(text.startswith("r=") for text in texts[1:]) <= 1


@pytest.mark.seeds(range(120))
def test_dynamic_increments_never_exceed_the_plain_plan(seed: int) -> None:
    """The tree saves: chords execute no more often than all edges with a value would."""
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [random_walk(rng, cfg) for _ in range(20)]
    walks = [steps for steps in walks if cfg.edges[steps[-1]].target == cfg.exit]
    counts = Counter(step for steps in walks for step in steps)
    plan = plan_pp(cfg, weights=[counts[each.id] for each in cfg.edges])
    weights = plan.dag.edge_weights(plan.weights)
    chords = sum(weights[chord] for chord in plan.tree.chords)
    # Unoptimised (EPP 3.2): r=0 at the start, r+=Val on every edge with a value, count at the end.
    paths = sum(weights[each.id] for each in plan.dag.edges if each.source == cfg.entry)
    valued = sum(weights[step] for step, value in enumerate(plan.numbering.values) if value)
    outcome = run_plan(cfg, plan.plan, walks)
    edge_steps = sum(outcome.counters)
    assert sum(outcome.paths.values()) == paths
    assert outcome.steps - edge_steps <= 2 * paths + valued
    assert chords <= sum(weights) - max(weights, default=0)
    any_tree = plan_pp(cfg, weights=[rng.random() for _ in cfg.edges])
    assert chords <= sum(weights[chord] for chord in any_tree.tree.chords)
