import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import make_dag
from simprof.profiler.graphs.flow import unit_flow
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import number_by_weight
from simprof.profiler.plan.actions import Execution, SetRegister
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.schemes.ppp.options import ValuePlaces
from simprof.profiler.schemes.ppp.planner import Parts, PppPlan, PredictedPlan, plan_ppp
from simprof.profiler.schemes.tpp.code import CountHotPath, Poison
from simprof.profiler.schemes.tpp.planner import TppPlan, plan_tpp
from tests.oracles import practical
from tests.oracles.brute import random_graph, random_walk
from tests.oracles.tpp import Key, ending, hot_paths, tally, uncounted_paths
from tests.support.figures import edge, letters, named, walk
from tests.support.targeted import check_plan, crossings, routine

NOTHING = Parts(0, 0.0, 0, ValuePlaces.EPP, True, True, 0.0)


def some_walks(rng: random.Random, cfg: ControlFlowGraph) -> list[tuple[int, ...]]:
    return [tuple(w) for _ in range(rng.choice([3, 30])) if (w := random_walk(rng, cfg))]


def skewed_walks(rng: random.Random, cfg: ControlFlowGraph) -> list[tuple[int, ...]]:
    """Few different activations, some of them very often: there are hot paths and cold ones."""
    walks = some_walks(rng, cfg)
    if rng.random() < 0.4:  # Some end early.
        walks = [walk[: rng.randrange(len(walk)) + 1] for walk in walks]
    return [walk for walk in walks for _ in range(rng.choice([1, 1, 5, 40]))]


def parts_of(rng: random.Random, cfg: ControlFlowGraph, counts: Sequence[int]) -> Parts:
    return Parts(
        unit_flow=unit_flow(cfg, counts) * rng.choice([1, 1, 3]),
        share=rng.choice([0.0, 0.1, 2.0, 10.0, 30.0]),
        limit=rng.choice([0, 0, 1, 3, 4000]),
        numbering=rng.choice(list(ValuePlaces)),
        tested=rng.random() < 0.25,
        no_pushing=rng.random() < 0.5,
        skip=0.0,
    )


def planned(cfg: ControlFlowGraph, counts: Sequence[int], parts: Parts, **given: Any) -> PppPlan:
    plan = plan_ppp(cfg, counts, parts, **given)
    assert isinstance(plan, PppPlan)
    return plan


def options(rng: random.Random) -> dict[str, Any]:
    return {
        "cold": rng.choice([0, 1, 5, 20, 35, 60]),
        "loop": rng.choice([0, 0, 15, 40, 80]),
        "path_limit": rng.choice([None, None, 1, 3, 10]),
        "table": rng.choice([None, None, CounterTable.ARRAY, CounterTable.HASH]),
    }


def check_random(seed: int) -> None:
    rng = random.Random(seed)
    cfg = routine(rng)
    walks = skewed_walks(rng, cfg)
    counts = crossings(cfg, walks)
    if rng.random() < 0.2:
        counts = [rng.choice([0, 1, 5, 100]) for _ in cfg.edges]
    parts, given = parts_of(rng, cfg, counts), options(rng)
    plan = planned(cfg, counts, parts, **given)
    check_cold(cfg, plan, parts, given["cold"])
    if parts.no_pushing and (not parts.tested or not (parts.share or parts.limit)):
        check_plan(cfg, plan, walks, cold_counter=parts.tested)
    check_counts(cfg, plan, walks)
    check_poison(cfg, plan, walks)


@pytest.mark.long
@pytest.mark.seeds(range(700))
def test_random_graphs(seed: int) -> None:
    check_random(seed)


def check_cold(cfg: ControlFlowGraph, plan: PppPlan, parts: Parts, local: float) -> None:
    """What is left out is cold by one of the criteria, at the given share or at a doubled one."""
    bodies = [loop.body for loop in plan.disconnection.loops]
    shares = [Fraction(str(parts.share))]
    if not parts.share:
        assert parts.limit or plan.cold in (
            set(),
            practical.cold_edges(
                cfg, plan.edge_profile, parts.unit_flow, Fraction(local), Fraction(0), bodies
            ),
        )
    if parts.limit:
        first = shares[0] or Fraction(1, 10)
        shares += [first * 2**k for k in range(1, 12)]
    expected = [
        practical.cold_edges(cfg, plan.edge_profile, parts.unit_flow, Fraction(local), each, bodies)
        for each in shares
    ]
    assert plan.cold in expected or not (parts.share or plan.cold)
    first_below = expected.index(set(plan.cold)) if plan.cold in expected else 0
    if first_below > (not parts.share):  # at first `tpp` may have left nothing out
        # With less left out there were too many paths.
        ended = ending(cfg, plan.disconnection.cuts, plan.disconnection.merged)
        assert len(hot_paths(cfg, ended, expected[first_below - 1])) > parts.limit
    if parts.limit:
        assert plan.numbering.total <= parts.limit or plan.natural is not CounterTable.HASH


def keys_of(plan: TppPlan) -> list[Key]:
    return [(record.blocks, record.edges) for record in plan.all_paths()]


def check_counts(cfg: ControlFlowGraph, plan: PppPlan, walks: Sequence[Sequence[int]]) -> None:
    """Paths with counters are exact, but for what is said to be counted too often at most."""
    plan.validate()
    ended = ending(cfg, plan.cut_edges, plan.split_edges)
    whole, partial = tally(cfg, walks, ended)
    keys = keys_of(plan)
    hot = hot_paths(cfg, ended, plan.cold)
    assert set(keys) == hot and len(keys) == len(hot)
    obvious = {key for path, key in enumerate(keys) if plan.is_obvious(path)}
    assert obvious == uncounted_paths(cfg, hot, plan.edge_profile)
    reading = plan.read(execute(cfg, plan.plan, [ExecutedWalk(tuple(walk)) for walk in walks]))
    found = Counter(
        {keys[path]: n for path, n in reading.paths.items() if keys[path] in hot - obvious}
    )
    known = Counter({(r.blocks, r.edges): n for r, n in reading.partial.items()})
    assert known <= partial, "no unfinished path is taken for another"
    unknown = reading.lost.get("unknown_unfinished", 0)
    assert known.total() + unknown == partial.total()
    over, under = practical.wrongly_hot(
        cfg, walks, ended, Counter({key: found[key] for key in hot - obvious})
    )
    for key in hot - obvious:
        found.setdefault(key, 0)
    assert not any(found[key] < whole[key] for key in hot - obvious) and not under
    if plan.edge_profile == tuple(crossings(cfg, walks)):
        pushed = reading.lost.get("pushed_paths", 0)
        assert over <= pushed
        assert pushed == plan.pushed == reading.inferred.get("pushed_paths", 0)
        assert plan.graphs.pushes or not pushed
        cold = sum(count for key, count in whole.items() if key not in hot)
        if not obvious and not pushed:
            assert reading.lost.get("cold_paths", 0) == cold
    if not plan.graphs.pushes:
        assert not over


def check_poison(cfg: ControlFlowGraph, plan: PppPlan, walks: Sequence[Sequence[int]]) -> None:
    """Register by register: a path that has turned cold counts beyond the numbers, in the array."""
    if not plan.graphs.free:
        return
    placed = list(chain.from_iterable(plan.plan.actions.values()))
    assert not any(isinstance(action, Poison | CountHotPath) for action in placed)
    total = plan.numbering.total
    hot_edges = set(plan.graphs.hot.real)
    ended = ending(cfg, plan.cut_edges, plan.split_edges)
    for steps in walks:
        execution = Execution([123456789])
        cold = False
        for step in steps:
            before = len(execution.counted)
            if step not in ended and step not in hot_edges:
                cold |= cfg.edges[step].source != cfg.edges[step].target
            for action in plan.plan.actions.get(step, ()):
                action.execute(execution)
            for counter, _ in execution.counted[before:]:
                assert counter >= 0
                if plan.plan.table is CounterTable.ARRAY:
                    assert counter < plan.plan.path_counters
                # Behind an edge that ends a path the count may be of the next one, taken ahead.
                is_next = step in ended and cfg.edges[step].target in plan.dag.entry_dummy
                if cold and not (plan.graphs.pushes or is_next):
                    assert counter >= total
            if step in ended:
                target = cfg.edges[step].target
                cold = target not in plan.graphs.hot.entry_dummy and target != cfg.exit
    assert plan.plan.path_counters <= 2 * total or plan.plan.table is not CounterTable.ARRAY


@pytest.mark.seeds(range(60))
def test_poison_is_as_far_from_the_numbers_as_it_must_be(seed: int) -> None:
    """Any way on from any cold edge, executed or not, and no counter of the array is in vain."""
    rng = random.Random(seed)
    cfg = routine(rng)
    walks = skewed_walks(rng, cfg)
    counts = crossings(cfg, walks)
    parts = replace_parts(parts_of(rng, cfg, counts), tested=False, no_pushing=True, share=10.0)
    plan = planned(cfg, counts, parts, cold=20, loop=0, table=CounterTable.ARRAY)
    if plan.plan.table is CounterTable.NONE:
        return
    total, ended = plan.numbering.total, set(plan.dag.removed)
    greatest = total - 1
    for step, group in plan.plan.actions.items():
        target, last = cfg.edges[step].target, group[-1]
        starts = step in ended and target in plan.graphs.hot.entry_dummy
        is_hot = step in plan.graphs.hot.real or starts
        if is_hot or not isinstance(last, SetRegister):
            continue
        sums = {last.constant + s for s in suffix_sums(plan, target)}
        assert min(sums) == total
        greatest = max(greatest, *sums)
    assert greatest + 1 == plan.plan.path_counters


def suffix_sums(plan: PppPlan, vertex: int) -> set[int]:
    if vertex == plan.cfg.exit:
        return {plan.increments.root}
    dag = plan.dag
    return {
        plan.increments.increments[e] + rest
        for e in dag.out_edges[vertex]
        for rest in suffix_sums(plan, dag.edges[e].target)
    }


def replace_parts(parts: Parts, **changed: Any) -> Parts:
    return parts._replace(**changed)


@pytest.mark.seeds(range(150))
def test_all_parts_switched_off_is_tpp(seed: int) -> None:
    rng = random.Random(seed)
    cfg = routine(rng)
    counts = crossings(cfg, some_walks(rng, cfg))
    given = options(rng)
    mine = planned(cfg, counts, replace_parts(NOTHING, unit_flow=unit_flow(cfg, counts)), **given)
    theirs = plan_tpp(cfg, counts, **given)
    assert mine.plan == theirs.plan
    assert mine.numbering == theirs.numbering and mine.cold == theirs.cold
    assert mine.increments == theirs.increments
    mine.validate()


@pytest.mark.seeds(range(60))
def test_hash_tables_that_targeting_avoids_are_the_same_as_under_tpp(seed: int) -> None:
    """A graph with so many paths that `tpp` leaves cold edges out."""
    rng = random.Random(seed)
    cfg = named(" ".join(f"{a}>{b}" for a, b in diamonds(14)), "A0", "A14")
    counts = [rng.choice([0, 3, 1000, 1000]) for _ in cfg.edges]
    mine = planned(cfg, counts, NOTHING, cold=5, loop=0)
    theirs = plan_tpp(cfg, counts, cold=5, loop=0)
    assert mine.plan == theirs.plan and mine.cold == theirs.cold


def diamonds(count: int) -> list[tuple[str, str]]:
    sides = ((f"A{k}", f"{side}{k}", f"A{k + 1}") for k in range(count) for side in "BC")
    return [pair for a, b, c in sides for pair in ((a, b), (b, c))]


def test_self_adjusting_makes_an_array_of_a_hash_table() -> None:
    cfg = named(" ".join(f"{a}>{b}" for a, b in diamonds(16)), "A0", "A16")
    rng = random.Random(2)
    counts = [1 for _ in cfg.edges]
    for k in range(16):
        rare = rng.choice([30, 300])
        for side, count in (("B", 1000 - rare), ("C", rare)):
            counts[edge(cfg, f"A{k}>{side}{k}")] = count
            counts[edge(cfg, f"{side}{k}>A{k + 1}")] = count
    for ends in ("ENTRY>A0", "A16>EXIT"):
        counts[edge(cfg, ends)] = 1000
    parts = replace_parts(NOTHING, unit_flow=1000, share=0.1)
    whole = planned(cfg, counts, parts, cold=0, loop=0)
    assert whole.natural is CounterTable.HASH
    fitting = planned(cfg, counts, replace_parts(parts, limit=4000), cold=0, loop=0)
    assert fitting.natural is CounterTable.ARRAY
    assert 1 < fitting.numbering.total <= 4000
    # 30 of 1000 are cold at 3.2 %, the fifth doubling; 300 would be at 51.2 % only
    assert {counts[e] for e in fitting.cold} == {30}


@pytest.mark.seeds(range(200))
def test_smart_numbering_is_perfect_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    dag = make_dag(cfg, depth_first(cfg))
    weights = [rng.choice([0, 1, 2, 9]) for _ in cfg.edges]
    numbering = number_by_weight(dag, weights)
    numbering.validate()
    paths = list(numbering.paths())
    assert [sum(numbering.values[e] for e in path) for path in paths] == list(range(len(paths)))
    assert len(set(paths)) == numbering.total
    heavy = dag.edge_weights(weights)
    for vertex in dag.topological:
        if edges := dag.out_edges[vertex]:
            free = [edge for edge in edges if not numbering.values[edge]]
            assert [heavy[edge] for edge in free] == [max(heavy[edge] for edge in edges)]


@pytest.mark.seeds(range(60))
def test_the_hottest_way_adds_nothing(seed: int) -> None:
    rng = random.Random(seed)
    cfg = routine(rng)
    walks = skewed_walks(rng, cfg)
    counts = crossings(cfg, walks)
    parts = Parts(unit_flow(cfg, counts), numbering=ValuePlaces.EDGES, skip=0.0)
    plan = planned(cfg, counts, parts, cold=0, loop=0)
    flow = plan.dag.edge_weights(counts)
    for vertex in plan.dag.topological:
        if edges := plan.dag.out_edges[vertex]:
            most = max(flow[edge] for edge in edges)
            assert most in {flow[e] for e in edges if not plan.increments.increments[e]}
    assert plan.increments.increments == plan.numbering.values


# -- routines that are left out


def check_predicted(seed: int) -> None:
    rng = random.Random(seed)
    cfg = routine(rng)
    walks = skewed_walks(rng, cfg)
    counts = crossings(cfg, walks)
    share = rng.choice([1.0, 30.0, 75.0, 100.0])
    parts = Parts(unit_flow(cfg, counts), skip=share)
    limit = rng.choice([None, 2, 10])
    plan = plan_ppp(cfg, counts, parts, cold=5, loop=15, path_limit=limit)
    plan.validate()
    # Whether it is left out follows from the definite flow of every path.
    other = plan_ppp(cfg, counts, Parts(0, skip=1e-9), cold=5, loop=15, path_limit=limit)
    cut = other.cut_edges if isinstance(other, PredictedPlan) else ()
    ended = ending(cfg, cut, ())
    if not isinstance(other, PredictedPlan):
        assert not isinstance(plan, PredictedPlan)
        return
    whole, _ = tally(cfg, walks, ended)
    every = hot_paths(cfg, ended, ())
    definite = {key: practical.definite_flow(cfg, counts, cut, key) for key in every}
    for key, least in definite.items():
        assert least <= whole[key], "no path executed less than its definite flow"
    is_left = sum(definite.values()) * 100 >= Fraction(str(share)) * whole.total()
    assert isinstance(plan, PredictedPlan) == is_left
    if isinstance(plan, PredictedPlan):
        reading = plan.read(execute(cfg, plan.plan, [ExecutedWalk(walk) for walk in walks]))
        records = {path: plan.decode(path) for path in reading.paths}
        found = {(r.blocks, r.edges): reading.paths[path] for path, r in records.items()}
        assert found == {key: least for key, least in definite.items() if least}
        lost = reading.lost.get("unpredicted_paths", 0)
        assert sum(found.values()) + lost == whole.total()
        assert not plan.plan.actions


@pytest.mark.seeds(range(400), few=200)
def test_predicted_routines(seed: int) -> None:
    check_predicted(seed)


@pytest.mark.seeds(range(60))
def test_unit_flow_is_as_many_paths_as_begin(seed: int) -> None:
    rng = random.Random(seed)
    cfg = routine(rng)
    walks = some_walks(rng, cfg)
    counts = crossings(cfg, walks)
    whole, partial = tally(cfg, walks, ending(cfg, (), ()))
    assert unit_flow(cfg, counts) == practical.begun_paths(cfg, counts)
    assert unit_flow(cfg, counts) == whole.total() + partial.total()


CROSSED = "A>B A>C B>D C>D D>E D>F E>G F>G G>H G>X H>I X>I"


def crossed() -> tuple[ControlFlowGraph, list[ExecutedWalk]]:
    """Two choices one after the other, and a cold way at G, taken 1 time in 100."""
    cfg = named(CROSSED, "A", "I")
    paths = {"ABDEGHI": 50, "ACDFGHI": 30, "ABDFGHI": 10, "ACDEGHI": 9, "ACDFGXI": 1}
    walks = [ExecutedWalk(tuple(walk(cfg, path)), count) for path, count in paths.items()]
    return cfg, walks


@pytest.mark.parametrize("pushes", [False, True])
def test_pushed_counts_are_before_cold_edges(pushes: bool) -> None:
    cfg, walks = crossed()
    counts = [sum(w.count for w in walks if e.id in w.edges) for e in cfg.edges]
    parts = Parts(100, share=2.0, skip=0.0, no_pushing=not pushes)
    plan = planned(cfg, counts, parts, cold=0, loop=0)
    plan.validate()
    reading = plan.read(execute(cfg, plan.plan, walks))
    hot = {letters(cfg, plan.decode(path).blocks): n for path, n in reading.paths.items()}
    expected = {"ABDEGHI": 50, "ACDFGHI": 30 + pushes, "ABDFGHI": 10, "ACDEGHI": 9}
    assert hot == expected
    # All counts and the cold paths, less those counted as hot, are the paths executed.
    assert reading.lost == {"cold_paths": 1} | ({"pushed_paths": 1} if pushes else {})
