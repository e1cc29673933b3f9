import random
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import graph_facts, number
from simprof.profiler.graphs.paths import PathRecord
from simprof.profiler.graphs.spanning import chord_increments, maximum_spanning_tree
from simprof.profiler.plan.actions import Action, CountEdge
from simprof.profiler.plan.decoders import Reading
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.path_plan import PathPlan
from simprof.profiler.plan.placement import place
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.schemes.pp import plan_pp
from simprof.profiler.schemes.tpp.code import (
    COLD_COUNTER,
    CountColdPath,
    CountHotPath,
    Poison,
)
from simprof.profiler.schemes.tpp.planner import TppPlan, plan_tpp
from simprof.profiler.schemes.tpp.reduction import Disconnection, disconnect
from tests.oracles.brute import graph, random_graph, random_walk
from tests.oracles.exact import simulate
from tests.oracles.tpp import (
    locally_cold,
)
from tests.support.figures import by_edge, edge, letters, named, walk
from tests.support.targeted import check_cold, check_plan, crossings, routine


def settings(rng: random.Random) -> dict[str, Any]:
    return {
        "cold": rng.choice([0, 1, 5, 20, 35, 60, 100]),
        "loop": rng.choice([0, 0, 15, 40, 80, 100]),
        "cold_always": rng.random() < 0.8,
        "path_limit": rng.choice([None, 1, 3, 10, 100]),
        "table": rng.choice([None, None, CounterTable.ARRAY, CounterTable.HASH]),
        "count_obvious": rng.random() < 0.25,
        "cold_counter": rng.random() < 0.7,
        "literal_cold": rng.random() < 0.4,
        "obvious_first": rng.random() < 0.4,
        "branching": rng.random() < 0.4,
    }


RULES = ("count_obvious", "cold_counter", "literal_cold", "obvious_first", "branching")


def check_random(seed: int) -> None:
    rng = random.Random(seed)
    cfg = routine(rng)
    walks = [walk for _ in range(rng.choice([3, 30])) if (walk := random_walk(rng, cfg))]
    counts = crossings(cfg, walks)
    if rng.random() < 0.25:
        counts = [rng.choice([0, 1, 5, 100]) for _ in cfg.edges]
    given = settings(rng)
    plan = plan_tpp(cfg, counts, **given)
    check_cold(plan, given["cold"], given["cold_always"])
    check_plan(cfg, plan, walks, **{name: given[name] for name in RULES})


@pytest.mark.seeds(range(400), few=100)
def test_random_graphs(seed: int) -> None:
    check_random(seed)


def profile_by_record(plan: TppPlan | PathPlan, reading: Reading) -> Counter[PathRecord]:
    return Counter({plan.decode(path): count for path, count in reading.paths.items()})


@pytest.mark.seeds(range(60))
def test_nothing_removed_is_pp(seed: int) -> None:
    """TPP(0, 0) tells every path as `pp` does, and counts no more often."""
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [walk for _ in range(20) if (walk := random_walk(rng, cfg, 200))]
    walks = [walk for walk in walks if cfg.edges[walk[-1]].target == cfg.exit]
    executed = [ExecutedWalk(tuple(walk)) for walk in walks]
    limit = rng.choice([2, 10, None])
    counts = crossings(cfg, walks)
    tpp = plan_tpp(cfg, counts, cold=0, loop=0, cold_always=True, path_limit=limit)
    pp = plan_pp(cfg, path_limit=limit)
    assert not tpp.cold and tpp.cut_edges == pp.cut_edges
    assert not tpp.plan.named_counters
    mine, theirs = execute(cfg, tpp.plan, executed), execute(cfg, pp.plan, executed)
    assert mine.path_increments <= theirs.path_increments
    assert profile_by_record(tpp, tpp.read(mine)) == profile_by_record(pp, pp.read(theirs))


def test_all_that_tpp_removes_switched_off_is_pp() -> None:
    """Nothing cold, no loop disconnected, obvious paths counted: pp's code on every edge."""
    rng = random.Random(5)
    for _ in range(60):
        cfg = random_graph(rng)
        counts = crossings(cfg, [walk for _ in range(9) if (walk := random_walk(rng, cfg))])
        tpp = plan_tpp(cfg, counts, cold=0, loop=0, cold_always=True, count_obvious=True)
        pp = plan_pp(cfg)
        assert without_events(tpp) == without_events(pp)
        if without_events(pp):
            assert tpp.plan.table is pp.plan.table
            assert tpp.plan.path_counters == pp.plan.path_counters
        assert not any(tpp.is_obvious(path) for path in range(tpp.num_paths))


def without_events(plan: TppPlan | PathPlan) -> dict[int, list[Action]]:
    """The actions by edge that count paths: `pp` has counters that tell edge counts beside."""
    kept = {
        edge: [action for action in group if not isinstance(action, CountEdge)]
        for edge, group in plan.plan.actions.items()
    }
    return {edge: group for edge, group in kept.items() if group}


@pytest.mark.parametrize("table", [CounterTable.ARRAY, CounterTable.HASH])
def test_cold_paths_that_are_not_counted_change_no_other_count(table: CounterTable) -> None:
    cfg = diamonds(8)
    profile = biased(cfg, 8, 2)
    rng = random.Random(3)
    walks = [ExecutedWalk(diamond_walk(rng, 8)) for _ in range(300)]
    plans = [
        plan_tpp(cfg, profile, cold=5, loop=0, cold_always=True, table=table, cold_counter=counter)
        for counter in (True, False)
    ]
    counted, ignored = (execute(cfg, plan.plan, walks) for plan in plans)
    cold = counted.paths[COLD_COUNTER]
    assert cold > 20 and counted.path_increments - ignored.path_increments == cold
    assert counted.paths == {COLD_COUNTER: cold, **ignored.paths}
    own = plan_tpp(
        cfg,
        by_walks(cfg, walks),
        cold=20,
        loop=0,
        cold_always=True,
        table=table,
        cold_counter=False,
    )
    shown = own.read(execute(cfg, own.plan, walks))
    assert shown.lost == {"cold_paths": cold}, "as many as the edge profile shows"


def diamond_walk(rng: random.Random, count: int) -> tuple[int, ...]:
    """A walk through `diamonds`: both ways as often in the first two, in the others 1 of 20."""
    steps = [4 * count]  # from ENTRY
    for k in range(count):
        rare = rng.random() < (0.5 if k < 2 else 0.05)
        steps += [4 * k + rare, 4 * k + 2 + rare]
    return (*steps, 4 * count + 1)


@pytest.mark.seeds(range(40))
def test_pruned_code_counts_no_more_than_whole_code(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [walk for _ in range(20) if (walk := random_walk(rng, cfg))]
    executed = [ExecutedWalk(tuple(walk)) for walk in walks]
    profile = crossings(cfg, walks)
    pruned = plan_tpp(cfg, profile, cold=0, loop=30, weights=profile, path_limit=None)
    dag = pruned.graphs.hot
    numbering = number(dag)
    ends = [(edge.source, edge.target) for edge in dag.edges]
    weights = dag.edge_weights(profile)
    tree = maximum_spanning_tree(cfg.vertex_count, ends, weights, (cfg.exit, cfg.entry))
    found = chord_increments(tree, numbering.values).increments
    whole = replace(pruned.plan, actions=place(dag, tree, found).actions)
    fewer, more = execute(cfg, pruned.plan, executed), execute(cfg, whole, executed)
    assert fewer.path_increments <= more.path_increments
    if not pruned.graphs.kept.edges:
        assert {a for group in pruned.plan.actions.values() for a in group} == {
            CountEdge(counter) for counter in range(pruned.plan.edge_counters)
        }
        assert set(pruned.plan.actions) == dag.dfs.self_loops - set(dag.removed)


# -- the paper's figures


FIGURE_7 = "A>B B>D D>B D>C"  # B and D are the figure's block B
MANY_AB_AND_BC = [(1001, 100)]  # (iterations, activations)
MANY_ABC = [(1, 99), (100_001, 1)]


def figure_7_walks(cfg: ControlFlowGraph, shape: list[tuple[int, int]]) -> list[ExecutedWalk]:
    back, around = edge(cfg, "D>B"), edge(cfg, "B>D")
    first = [edge(cfg, "ENTRY>A"), edge(cfg, "A>B"), around]
    last = [edge(cfg, "D>C"), edge(cfg, "C>EXIT")]
    return [
        ExecutedWalk((*first, *([back, around] * (turns - 1)), *last), count)
        for turns, count in shape
    ]


FIGURE_7_PP = [
    {"ABD": 100, "BD": 99_900, "BDC": 100},
    {"ABDC": 99, "ABD": 1, "BD": 99_999, "BDC": 1},
]


@pytest.mark.parametrize("profile", [0, 1], ids=["c", "d"])
def test_figure_7_without_disconnection_no_path_is_obvious(profile: int) -> None:
    """Two path profiles with one edge profile: 100 entries, 100,100 executions of the loop."""
    cfg = named(FIGURE_7, "A", "C")
    walks = figure_7_walks(cfg, [MANY_AB_AND_BC, MANY_ABC][profile])
    counts = by_walks(cfg, walks)
    assert counts[edge(cfg, "A>B")] == 100
    assert counts[edge(cfg, "B>D")] == 100_100
    plan = plan_tpp(cfg, counts, cold=5, loop=0)
    assert plan.num_paths == 4
    assert not plan.obvious.first_edges
    assert by_letters(plan, walks) == FIGURE_7_PP[profile]


@pytest.mark.parametrize("profile", [0, 1], ids=["c", "d"])
def test_figure_7_disconnected_loop_leaves_three_obvious_paths(profile: int) -> None:
    cfg = named(FIGURE_7, "A", "C")
    walks = figure_7_walks(cfg, [MANY_AB_AND_BC, MANY_ABC][profile])
    plan = plan_tpp(cfg, by_walks(cfg, walks), cold=5, loop=15)
    assert set(plan.cut_edges) == {edge(cfg, "A>B"), edge(cfg, "D>C")}
    assert plan.plan.actions == {}
    assert plan.plan.table is CounterTable.NONE
    assert by_letters(plan, walks) == {"A": 100, "BD": 100_100, "C": 100}


def test_figure_7_loop_of_one_block() -> None:
    cfg = named("A>B B>B B>C", "A", "C")
    turn = edge(cfg, "B>B")
    counts = by_edge(cfg, {"ENTRY>A": 100, "A>B": 100, "B>B": 100_000, "B>C": 100, "C>EXIT": 100})
    plan = plan_tpp(cfg, list(map(int, counts)), cold=5, loop=15)
    plan.validate()
    assert plan.plan.actions == {}
    assert plan.split_edges == {edge(cfg, "A>B"), edge(cfg, "B>C"), turn}
    assert by_letters(plan, []) == {"A": 100, "B": 100_100, "C": 100}
    # Not disconnected, it is not obvious (figure 7b): the self-loop keeps its counter of pp, though
    # it ends no path (EPP 4.1).
    whole = plan_tpp(cfg, list(map(int, counts)), cold=5, loop=0)
    whole.validate()
    assert whole.plan.actions == {turn: (CountEdge(0),)}
    assert whole.plan.table is CounterTable.NONE
    assert by_letters(whole, []) == {"ABC": 100}
    for tpp, turns in ((plan, ()), (whole, (7,))):
        assert (
            execute(cfg, tpp.plan, [ExecutedWalk(tuple(walk(cfg, "ABBBBBBBBC")))]).events == turns
        )


def test_self_loop_in_a_larger_disconnected_loop_keeps_its_counter() -> None:
    """Only where the block is a disconnected loop of its own are its turns obvious."""
    cfg = named("A>B B>C C>C C>B C>D", "A", "D")
    counts = by_edge(cfg, {"A>B": 10, "B>C": 1000, "C>C": 500, "C>B": 990, "C>D": 10}, rest=10)
    plan = plan_tpp(cfg, list(map(int, counts)), cold=0, loop=15)
    plan.validate()
    assert [loop.body for loop in plan.disconnection.loops] == [{1, 2}]
    assert plan.plan.actions == {edge(cfg, "C>C"): (CountEdge(0),)}


@pytest.mark.parametrize(("loop", "cut"), [(9.9, False), (10, False), (10.1, True)])
def test_loops_with_entries_below_the_threshold_are_disconnected(loop: float, cut: bool) -> None:
    cfg = named(FIGURE_7, "A", "C")
    counts = by_walks(cfg, figure_7_walks(cfg, [(10, 7)]))
    assert bool(plan_tpp(cfg, counts, cold=0, loop=loop).disconnection.loops) == cut


def test_a_loop_at_entry_and_exit_needs_no_instrumentation() -> None:
    """The edges from ENTRY and to EXIT are truncated too: one path, the body."""
    cfg = named("A>B B>A", "A", "B")
    entry, leave = edge(cfg, "ENTRY>A"), edge(cfg, "B>EXIT")
    counts = by_edge(cfg, {"ENTRY>A": 5, "A>B": 1000, "B>A": 995, "B>EXIT": 5})
    plan = plan_tpp(cfg, list(map(int, counts)), cold=5, loop=15)
    plan.validate()
    assert set(plan.cut_edges) == {entry, leave}
    assert plan.plan.actions == {}
    assert by_letters(plan, []) == {"AB": 1000}


def test_figure_2_routine_of_obvious_paths_has_no_code() -> None:
    cfg = named("A>B A>C C>D C>E E>F E>G B>X D>X F>X G>X", "A", "X")
    counts = by_edge(cfg, {"ENTRY>A": 4, "A>C": 3, "C>E": 2, "E>F": 1, "X>EXIT": 4}, rest=1)
    plan = plan_tpp(cfg, list(map(int, counts)), cold=0, loop=0)
    assert plan.plan.actions == {}
    assert plan.num_paths == 4
    assert len(plan.obvious.first_edges) == 4


def test_edges_before_early_ends_define_no_path() -> None:
    """Of 50 activations through B and 50 through C 10 each end in D: no edge count tells that."""
    cfg = named("A>B A>C B>D C>D D>E", "A", "E")
    full, cut = walk(cfg, "ABDE"), walk(cfg, "ACDE")
    walks = [
        *(ExecutedWalk(tuple(each), 40) for each in (full, cut)),
        *(ExecutedWalk(tuple(each[:-2]), 10) for each in (full, cut)),
    ]
    plan = plan_tpp(cfg, by_walks(cfg, walks), cold=0, loop=0)
    plan.validate()
    assert plan.obvious.first_edges == ()
    reading = plan.read(execute(cfg, plan.plan, walks))
    assert {letters(cfg, plan.decode(p).blocks): n for p, n in reading.paths.items()} == {
        "ABDE": 40,
        "ACDE": 40,
    }
    unfinished = {letters(cfg, record.blocks): n for record, n in reading.partial.items()}
    assert unfinished == {"ABD": 10, "ACD": 10}
    assert reading.lost == {}
    told = plan_tpp(cfg, by_walks(cfg, walks[:2]), cold=0, loop=0)
    assert len(told.obvious.first_edges) == 2


def test_obvious_region_beside_one_that_is_not() -> None:
    """Only what leads to a recording point that is not obvious is instrumented (figure 8)."""
    # The loop C D is obvious once it is disconnected; A B | E F .. X is not.
    cfg = named("A>C C>D D>C D>B B>E B>F E>G F>G G>H G>I H>X I>X", "A", "X")
    profile = by_edge(cfg, {"C>D": 100, "D>C": 99, "A>C": 1, "D>B": 1}, rest=1)
    counts = list(map(int, profile))
    plan = plan_tpp(cfg, counts, cold=0, loop=15)
    plan.validate()
    obvious = [plan.decode(p) for p in range(plan.num_paths) if plan.is_obvious(p)]
    assert sorted(letters(cfg, record.blocks) for record in obvious) == ["A", "CD"]
    assert plan.numbering.total == 4
    for ends in ("A>C", "C>D", "D>C"):
        assert not actions_on(plan, ends)
    # One recording point that other paths reach too: the obvious paths are counted with them.
    joined = named("A>B A>C C>X B>E B>F E>G F>G G>H G>I H>X I>X", "A", "X")
    assert not plan_tpp(joined, [1] * len(joined.edges), cold=0, loop=0).obvious.first_edges


PART = "A>B B>C B>D C>E D>E E>F E>G F>X G>H H>I I>H I>X"


def test_figure_8_recording_points_lead_into_the_exit_block() -> None:
    """EXIT is a basic block (2.1): only the obvious path X takes I>X, so nothing is counted there.

    The loop H I is disconnected; what leads to F and G is not obvious.
    """
    cfg = named(PART, "A", "X")
    executed = [
        ExecutedWalk(tuple(walk(cfg, blocks)), times)
        for blocks, times in (("ABCEFX", 30), ("ABDEGHIHIHIHIX", 20), ("ABCEGHIX", 5))
    ]
    plan = plan_tpp(cfg, by_walks(cfg, executed), cold=0, loop=60)
    plan.validate()
    assert plan.obvious.split == cfg.edges[edge(cfg, "X>EXIT")].source
    counting = {e for e, group in plan.plan.actions.items() if any(map(counts_a_path, group))}
    assert counting == {edge(cfg, "F>X"), edge(cfg, "G>H")}
    assert by_letters(plan, executed) == {
        **{"ABCEFX": 30, "ABDEG": 20, "ABCEG": 5},
        **{"HI": 85, "X": 25},
    }
    check_plan(cfg, plan, [list(each.edges) for each in executed])
    # An activation that ends in X, by either way: whether it was counted is known.
    check_plan(cfg, plan, [walk(cfg, "ABCEFX")[:-1], walk(cfg, "ABCEGHIX")[:-1]])
    # With several blocks that control leaves from, EXIT is a vertex, reached by non-obvious paths.
    several = named(f"{PART} A>Y", "A", "X Y")
    counts = [100] * len(several.edges)
    for ends in ("G>H", "I>X"):
        counts[edge(several, ends)] = 20
    both = plan_tpp(several, counts, cold=0, loop=60)
    assert any(map(counts_a_path, actions_on(both, "I>X"))) and both.obvious.split is None


def counts_a_path(action: object) -> bool:
    return "count[" in str(action)


def test_exit_block_whatever_the_weights_choose() -> None:
    """Weights that would count at X>EXIT: the obvious path's way into X stays without code."""
    cfg = named(PART, "A", "X")
    walks = [walk(cfg, each) for each in ("ABCEFX", "ABDEGHIHIHIHIX", "ABCEGHIX")]
    for seed in range(20):
        rng = random.Random(seed)
        weights = [rng.choice([0.5, 1, 7, 30]) for _ in cfg.edges]
        weights[edge(cfg, "X>EXIT")] = 0.1
        counts = crossings(cfg, walks)
        plan = plan_tpp(cfg, counts, cold=0, loop=60, weights=weights)
        assert plan.obvious.split is not None and not actions_on(plan, "I>X")
        assert not actions_on(plan, "X>EXIT")
        check_plan(cfg, plan, walks)


def diamonds(count: int) -> ControlFlowGraph:
    """Stacked conditionals (figure 5): blocks 3k, 3k + 1, 3k + 2 are one."""
    edges = []
    for k in range(count):
        edges += [(3 * k, 3 * k + 1), (3 * k, 3 * k + 2)]
        edges += [(3 * k + 1, 3 * k + 3), (3 * k + 2, 3 * k + 3)]
    return graph(3 * count + 1, edges)


def biased(cfg: ControlFlowGraph, count: int, unbiased: int) -> list[int]:
    """100 executions of each diamond, 50:50 in the first ones, 99:1 in the others."""
    counts = [100] * len(cfg.edges)
    for k in range(count):
        rare = 50 if k < unbiased else 1
        counts[4 * k : 4 * k + 4] = [100 - rare, rare, 100 - rare, rare]
    return counts


def test_figure_5_cold_edges_make_a_hash_table_an_array() -> None:
    cfg = diamonds(14)
    counts = biased(cfg, 14, 2)
    assert (
        plan_tpp(cfg, counts, cold=1, loop=0).plan.table is CounterTable.HASH
    )  # 1 is not below 1 %
    plan = plan_tpp(cfg, counts, cold=2, loop=0)
    plan.validate()
    assert (plan.plan.table, plan.num_paths) == (CounterTable.ARRAY, 4)
    assert plan.cold == {4 * k + 1 for k in range(2, 14)}
    poisoned = {e for e, group in plan.plan.actions.items() if Poison() in group}
    assert poisoned == plan.cold
    everything = {a for group in plan.plan.actions.values() for a in group}
    (count,) = {a for a in everything if isinstance(a, CountHotPath)}
    assert not count.hashed
    assert graph_facts(plan.cfg).potential_paths == 2**14


def test_cold_edges_stay_where_an_array_does_anyway() -> None:
    cfg = diamonds(5)
    counts = biased(cfg, 5, 1)
    assert plan_tpp(cfg, counts, cold=50, loop=0).cold == frozenset()
    always = plan_tpp(cfg, counts, cold=2, loop=0, cold_always=True)
    # Two paths are left, both obvious.
    assert len(always.cold) == 4 and always.num_paths == 2
    assert always.plan.actions == {}


@pytest.mark.long
@pytest.mark.parametrize("limit", [None, 10**8])
def test_very_many_paths(limit: int | None) -> None:
    cfg = diamonds(100)
    few = plan_tpp(cfg, biased(cfg, 100, 3), cold=5, loop=15, path_limit=limit)
    assert graph_facts(cfg).potential_paths == 2**100
    assert (few.num_paths, few.plan.table) == (8, CounterTable.ARRAY)
    many = plan_tpp(cfg, biased(cfg, 100, 90), cold=5, loop=15, path_limit=limit, cold_always=True)
    many.validate()
    assert many.cold and many.reach < 1 << 29
    rng = random.Random(2)
    check_plan(cfg, few, [random_walk(rng, cfg, 10**4) for _ in range(20)])


# -- cold back edges (4.1.2, figure 6)


def cold_plan(edges: str, counts: dict[str, int], end: str = "X") -> TppPlan:
    cfg = named(edges, "A", end)
    profile = list(map(int, by_edge(cfg, counts)))
    return plan_tpp(cfg, profile, cold=5, loop=0, cold_always=True)


def actions_on(plan: TppPlan, ends: str) -> tuple[object, ...]:
    return tuple(plan.plan.actions.get(edge(plan.cfg, ends), ()))


def test_figure_6a_cold_back_edge_poisons() -> None:
    """The loop A..D almost never repeats; the paths behind its back edge have no numbers."""
    plan = cold_plan(
        "A>B A>C B>D C>D D>A D>E D>F E>X F>X",
        {"ENTRY>A": 99, "A>B": 50, "A>C": 50, "B>D": 50, "C>D": 50, "D>A": 1, "D>E": 49}
        | {"D>F": 50, "E>X": 49, "F>X": 50, "X>EXIT": 99},
    )
    assert actions_on(plan, "D>A") == (CountColdPath(), Poison())
    assert plan.num_paths == 4
    rng = random.Random(1)
    check_plan(plan.cfg, plan, [random_walk(rng, plan.cfg) for _ in range(30)])


def test_figure_6b_cold_back_edge_resets() -> None:
    """Another back edge to the same header is hot: paths that start there have numbers."""
    plan = cold_plan(
        "A>B A>C B>D C>D D>A D>E E>A E>F E>X F>X",
        {"ENTRY>A": 60, "A>B": 50, "A>C": 50, "B>D": 50, "C>D": 50, "D>A": 1, "D>E": 99}
        | {"E>A": 39, "E>F": 30, "E>X": 30, "F>X": 30, "X>EXIT": 60},
    )
    count, *rest = actions_on(plan, "D>A")
    assert count == CountColdPath()
    assert Poison() not in rest
    assert plan.numbering.total == plan.num_paths == 12
    rng = random.Random(1)
    check_plan(plan.cfg, plan, [random_walk(rng, plan.cfg) for _ in range(30)])


def test_figure_6c_back_edge_of_a_cold_loop_leaves_the_register() -> None:
    plan = cold_plan(
        "A>B A>C B>D C>D D>L L>M M>L M>X D>E D>F E>X F>X X>Y X>Z Y>W Z>W",
        {"ENTRY>A": 100, "A>B": 50, "A>C": 50, "B>D": 50, "C>D": 50, "D>L": 1, "D>E": 49}
        | {"D>F": 50, "E>X": 49, "F>X": 50, "L>M": 1, "M>X": 1, "X>Y": 50, "X>Z": 50}
        | {"Y>W": 50, "Z>W": 50, "W>EXIT": 100},
        "W",
    )
    # The loop never repeated: its back edge is below 5 % of M.
    assert actions_on(plan, "M>L") == (CountColdPath(),)
    assert actions_on(plan, "D>L") == (Poison(),)
    rng = random.Random(1)
    check_plan(plan.cfg, plan, [random_walk(rng, plan.cfg) for _ in range(50)])


def test_footnote_2_block_with_cold_and_hot_back_edges() -> None:
    """Paths end at D with numbers, so both back edges record them as usual."""
    plan = cold_plan(
        "A>B B>C B>E C>D E>D D>A D>B D>X",
        {"ENTRY>A": 49, "A>B": 50, "B>C": 50, "B>E": 50, "C>D": 50, "E>D": 50, "D>A": 1}
        | {"D>B": 50, "D>X": 49, "X>EXIT": 49},
    )
    assert edge(plan.cfg, "D>A") in plan.cold
    assert CountColdPath() not in actions_on(plan, "D>A")
    assert actions_on(plan, "D>A")[0] == actions_on(plan, "D>B")[0]
    rng = random.Random(1)
    check_plan(plan.cfg, plan, [random_walk(rng, plan.cfg) for _ in range(50)])


def test_hot_loop_behind_a_cold_edge_stays_hot() -> None:
    plan = cold_plan(
        "A>B A>X B>C B>D C>E D>E E>B E>X",
        {"ENTRY>A": 1000, "A>B": 10, "A>X": 990, "B>C": 50, "B>D": 50, "C>E": 50, "D>E": 50}
        | {"E>B": 90, "E>X": 10, "X>EXIT": 1000},
    )
    assert Poison() in actions_on(plan, "A>B")
    found = {letters(plan.cfg, record.blocks) for record in plan.all_paths()}
    assert {"BCE", "BDE"} <= found
    rng = random.Random(1)
    check_plan(plan.cfg, plan, [random_walk(rng, plan.cfg) for _ in range(50)])


HOT_LOOP_NEVER_ENTERED = "A>B A>H H>P H>Q P>T Q>T T>H T>U U>V U>W V>X W>X B>X"


def test_what_never_executes_is_cold() -> None:
    """Neither the loop H..T, by its own entry dummy, nor what follows it has a number (4.1)."""
    cfg = named(HOT_LOOP_NEVER_ENTERED, "A", "X")
    path = walk(cfg, "ABX")
    plan = plan_tpp(cfg, by_walks(cfg, [ExecutedWalk(tuple(path), 1000)]), cold=5, loop=15)
    assert plan.num_paths == plan_pp(cfg).num_paths == 13  # an array does: cold edges stay
    never = plan_tpp(cfg, list(plan.edge_profile), cold=0.001, loop=0, cold_always=True)
    never.validate()
    assert [letters(cfg, record.blocks) for record in never.all_paths()] == ["ABX"]
    assert never.cold == {e.id for e in cfg.edges} - set(path)
    rare = [walk(cfg, blocks) for blocks in ("AHPTHQTUVX", "AHQTUWX", "ABX", "AHPTHQTUVX")]
    check_plan(cfg, never, [*rare[:3], rare[3][:-4]])
    assert plan_tpp(cfg, list(plan.edge_profile), cold=0, loop=0, cold_always=True).cold == set()


def test_figure_6c_loop_that_never_executes_leaves_the_register() -> None:
    """Where the profile shows nothing, no back edge is hot; a way into the loop poisons."""
    edges = HOT_LOOP_NEVER_ENTERED + " B>C B>D C>X D>X X>Y X>Z Y>E Z>E"
    cfg = named(edges, "A", "E")
    executed = [ExecutedWalk(tuple(walk(cfg, f"AB{a}X{b}E")), 9) for a in "CD" for b in "YZ"]
    plan = plan_tpp(cfg, by_walks(cfg, executed), cold=1, loop=0, cold_always=True)
    assert {letters(cfg, record.blocks) for record in plan.all_paths()} == {
        "ABCXYE",
        "ABCXZE",
        "ABDXYE",
        "ABDXZE",
    }
    assert actions_on(plan, "A>H") == (Poison(),)
    assert actions_on(plan, "T>H") == (CountColdPath(),)
    rng = random.Random(1)
    check_plan(cfg, plan, [random_walk(rng, cfg) for _ in range(50)])


def test_figure_6b_hot_loop_behind_a_cold_edge_resets() -> None:
    """Its back edge is hot, so its dummy edges are there: only the first turn's path is cold."""
    cfg = named("A>B A>H H>P H>Q P>R Q>R R>S R>T S>U T>U U>H U>X B>X", "A", "X")
    turns = "HPRSU" + "HQRTU" * 2 + "HPRTU"
    executed = [
        ExecutedWalk(tuple(walk(cfg, "ABX")), 990),
        ExecutedWalk(tuple(walk(cfg, "A" + turns * 25 + "X")), 10),
    ]
    plan = plan_tpp(cfg, by_walks(cfg, executed), cold=5, loop=0, cold_always=True)
    assert plan.cold == {edge(cfg, "A>H"), edge(cfg, "U>X")}
    assert actions_on(plan, "A>H") == (Poison(),)
    count, *reset = actions_on(plan, "U>H")
    assert isinstance(count, CountHotPath) and Poison() not in reset
    assert plan.num_paths == 1 + 4
    # Of the first turn of each activation the path is cold, and so is that of the last one.
    assert by_letters(plan, executed) == {"ABX": 990, "HPRSU": 240, "HQRTU": 500, "HPRTU": 240}
    assert plan.read(execute(cfg, plan.plan, executed)).lost["cold_paths"] == 20


def test_figure_6c_by_the_letter_a_loop_behind_a_cold_edge_is_cold() -> None:
    """4.1.1: no hot path from ENTRY to EXIT leads through H..U, hot as its back edge is."""
    cfg = named("A>B A>H H>P H>Q P>R Q>R R>S R>T S>U T>U U>H U>X B>X X>Y X>Z", "A", "Y Z")
    turns = "HPRSU" + "HQRTU" * 2 + "HPRTU"
    executed = [
        ExecutedWalk(tuple(walk(cfg, blocks)), times)
        for blocks, times in (("ABXY", 500), ("ABXZ", 490), (f"A{turns * 25}XY", 10))
    ]
    options: dict[str, Any] = {"cold": 5, "loop": 0, "cold_always": True, "count_obvious": True}
    plan = plan_tpp(cfg, by_walks(cfg, executed), literal_cold=True, **options)
    assert plan.cold == {edge(cfg, "A>H"), edge(cfg, "U>X")}, "by themselves"
    assert plan.num_paths == 2
    assert actions_on(plan, "A>H") == (Poison(),)
    assert actions_on(plan, "U>H") == (CountColdPath(),), "and the register stays as it is"
    walks = [list(each.edges) for each in executed for _ in range(each.count)]
    check_plan(cfg, plan, walks, literal_cold=True, count_obvious=True)
    assert by_letters(plan, executed) == {"ABXY": 500, "ABXZ": 490}
    reading = plan.read(execute(cfg, plan.plan, executed))
    assert reading.lost["cold_paths"] == 10 * 100
    # It changes nothing where the profile shows no loop behind cold edges alone.
    usual = plan_tpp(cfg, by_walks(cfg, executed), **options)
    assert usual.num_paths == 2 + 4


def test_section_4_3_obvious_before_cold_overcounts_nothing() -> None:
    """`test_obvious_paths_are_overcounted_by_cold_paths` the other way round: none is obvious."""
    cfg = named("A>B A>C B>D C>D D>E D>F E>X F>X", "A", "X")
    walks = [walk(cfg, "ABDEX")] * 58 + [walk(cfg, "ABDFX")] * 39
    walks += [walk(cfg, "ACDEX")] * 2 + [walk(cfg, "ACDFX")]
    options: dict[str, Any] = {"cold": 5, "loop": 0, "cold_always": True}
    after = plan_tpp(cfg, crossings(cfg, walks), **options)
    assert after.plan.actions == {} and by_letters(after, []) == {"ABDEX": 60, "ABDFX": 40}
    before = plan_tpp(cfg, crossings(cfg, walks), obvious_first=True, **options)
    assert not before.obvious.first_edges
    check_plan(cfg, before, walks, obvious_first=True)
    executed = [ExecutedWalk(tuple(each)) for each in walks]
    assert by_letters(before, executed) == {"ABDEX": 58, "ABDFX": 39}
    assert before.read(execute(cfg, before.plan, executed)).lost == {"cold_paths": 3}


def test_section_4_3_a_cold_path_may_be_obvious() -> None:
    """C is cold, and its path the only one there: among all paths it is obvious, and exact."""
    cfg = named("A>B A>C B>D B>E D>F E>F F>G F>H", "A", "C G H")
    walks = [walk(cfg, f"AB{a}F{b}") for a in "DE" for b in "GH"] * 25 + [walk(cfg, "AC")]
    options: dict[str, Any] = {"cold": 5, "loop": 0, "cold_always": True}
    before = plan_tpp(cfg, crossings(cfg, walks), obvious_first=True, **options)
    assert before.cold == {edge(cfg, "A>C")} and not actions_on(before, "A>C")
    check_plan(cfg, before, walks, obvious_first=True)
    assert by_letters(before, [ExecutedWalk(tuple(each)) for each in walks])["AC"] == 1
    after = plan_tpp(cfg, crossings(cfg, walks), **options)
    assert CountColdPath() in actions_on(after, "C>EXIT")


@pytest.mark.parametrize("table", [CounterTable.ARRAY, CounterTable.HASH])
def test_a_branch_counts_what_a_conditional_move_counts(table: CounterTable) -> None:
    """4.1: the two forms of `if r < 0: cold++ else count[r]++` have the same counts."""
    cfg = diamonds(8)
    rng = random.Random(3)
    walks = [ExecutedWalk(diamond_walk(rng, 8)) for _ in range(300)]
    given: dict[str, Any] = {"cold": 5, "loop": 0, "cold_always": True, "table": table}
    moving, branching = (
        plan_tpp(cfg, biased(cfg, 8, 2), branching=branches, **given) for branches in (False, True)
    )
    one, other = (execute(cfg, plan.plan, walks) for plan in (moving, branching))
    assert one.paths == other.paths and other.paths[COLD_COUNTER] > 20
    # Conditional code is that of cold paths, but for those that are cold whatever r holds.
    crossed = by_walks(cfg, walks)
    sure = sum(
        crossed[e] for e, group in branching.plan.actions.items() if CountColdPath() in group
    )
    assert sum(other.taken.values()) == other.paths[COLD_COUNTER] - sure > 20


def test_profile_of_a_loop_that_nothing_enters() -> None:
    """Counts that no run gives: what control does not reach from ENTRY never executed."""
    cfg = named(HOT_LOOP_NEVER_ENTERED, "A", "X")
    executed = dict.fromkeys(("ENTRY>A", "A>B", "B>X", "X>EXIT"), 9.0)
    loop = {"H>P": 50.0, "H>Q": 50.0, "P>T": 50.0, "Q>T": 50.0, "T>H": 100.0}
    plan = plan_tpp(
        cfg, list(map(int, by_edge(cfg, executed | loop))), cold=5, loop=0, cold_always=True
    )
    assert [letters(cfg, record.blocks) for record in plan.all_paths()] == ["ABX"]


@pytest.mark.long
@pytest.mark.toolchain
def test_routine_of_a_library_that_is_hardly_executed(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """80 million million potential paths, entered once: without what never executes, a dozen."""
    hello = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
    run = simulate(compile_c(hello), modes=("tpp",), directory=tmp_path)
    plans = (run.observation.schemes[0].routine_plan(n) for n in run.observation.events)
    (plan,) = (each for each in plans if each and each.cfg.name == "_dl_non_dynamic_init")
    assert isinstance(plan, TppPlan)
    assert graph_facts(plan.cfg).potential_paths > 10**13
    assert plan.plan.table is CounterTable.ARRAY
    assert 5 <= plan.num_paths <= 20 and not plan.cut_edges


def test_all_cold() -> None:
    """No hot path is left: everything goes to the cold counter, without a register."""
    cfg = named("A>B A>C B>X C>X", "A", "X")
    counts = [50] * len(cfg.edges)
    plan = plan_tpp(cfg, counts, cold=60, loop=0, cold_always=True)
    plan.validate()
    assert plan.num_paths == 0 and not plan.plan.uses_register
    check_plan(cfg, plan, [walk(cfg, "ABX"), walk(cfg, "ACX"), walk(cfg, "ABX")[:2]])


# -- where poison forbids what EPP's figure 8 does


def test_initialisation_stays_above_a_join_of_cold_paths() -> None:
    cfg = named("A>B A>C C>D B>D D>E D>F E>G F>G B>G", "A", "G")
    counts = by_edge(cfg, {"A>B": 1, "B>D": 1}, rest=100)
    counts[edge(cfg, "D>E")] = counts[edge(cfg, "D>F")] = 50
    plan = plan_tpp(cfg, list(map(int, counts)), cold=5, loop=0, cold_always=True)
    assert edge(cfg, "A>B") in plan.cold
    for path in ("ABDEG", "ABDFG", "ABG", "ACDEG", "ACDFG"):
        check_plan(cfg, plan, [walk(cfg, path)])


def test_counts_stay_below_a_cold_exit() -> None:
    """G has one hot way on, and a cold one: whether the path is hot is known behind G only."""
    cfg = named("A>B A>C B>D C>D D>E D>F E>G F>G G>H G>K H>X K>X", "A", "X")
    profile = by_edge(cfg, {"ENTRY>A": 100, "G>H": 99, "G>K": 1, "H>X": 99, "K>X": 1}, rest=50)
    plan = plan_tpp(cfg, list(map(int, profile)), cold=5, loop=0, cold_always=True)
    assert plan.cold == {edge(cfg, "G>K")}
    assert plan.numbering.total == 4
    check_plan(cfg, plan, [walk(cfg, "ABDEGHX"), walk(cfg, "ACDFGKX"), walk(cfg, "ACDFGHX")])


def test_counts_stay_below_an_exit_into_an_obvious_region() -> None:
    """Block 1 leads to block 2, kept, and to block 3, where only an obvious path ends."""
    diamond = [(4, 5), (4, 6), (5, 7), (6, 7), (7, 8), (7, 9), (8, 2), (9, 2)]
    cfg = graph(10, [(0, 1), (0, 4), (1, 2), (1, 3), *diamond], exits=(2, 3))
    weights = [1.0] * len(cfg.edges)
    weights[2] = weights[-2] = weights[1] = 100.0  # the tree has 0 > 4, 1 > 2 and 2 > EXIT
    plan = plan_tpp(cfg, [10] * len(cfg.edges), cold=0, loop=0, weights=weights)
    assert [plan.decode(p).blocks for p in range(plan.num_paths) if plan.is_obvious(p)] == [
        (0, 1, 3)
    ]
    leave = len(cfg.edges) - 1
    walks = [[12, 0, 2, leave - 1], [12, 0, 3, leave], [12, 1, 4, 6, 8, 10, leave - 1]]
    for each in walks:
        check_plan(cfg, plan, [each])


def test_cold_edge_from_an_obvious_region_poisons() -> None:
    """Block 1 is on an obvious path only, without code; a cold edge leads into a hot loop."""
    loop = [(2, 3), (2, 4), (3, 5), (4, 5), (5, 6), (5, 7), (6, 8), (7, 8), (8, 2)]
    cfg = graph(9, [(0, 1), (1, 2), *loop], exits=(1, 8))
    counts = [1000, 1, *[500] * 8, 990, 1000, 999, 10]
    plan = plan_tpp(cfg, counts, cold=5, loop=0, cold_always=True)
    assert plan.cold == {1, 13}
    assert plan.plan.actions[1] == (Poison(),)
    assert [plan.decode(p).blocks for p in range(plan.num_paths) if plan.is_obvious(p)] == [(0, 1)]
    rng = random.Random(1)
    check_plan(cfg, plan, [random_walk(rng, cfg) for _ in range(50)])


def disconnected(cfg: ControlFlowGraph, profile: Sequence[float]) -> Disconnection:
    counts = list(map(int, profile))
    return disconnect(cfg, depth_first(cfg), counts, block_counts(cfg, counts), Fraction(15))


def test_exit_edges_of_nested_loops_are_measured_against_the_loop_that_they_leave_least() -> None:
    """B>X leaves both loops: 1 of 101 exits of the inner one, but half of those of the outer."""
    cfg = named("A>B B>C C>B C>D D>A D>X B>X", "A", "X")
    counts = by_edge(cfg, {"ENTRY>A": 2, "A>B": 101, "C>B": 2000, "C>D": 100, "D>A": 99, "D>X": 1})
    counts[edge(cfg, "B>C")], counts[edge(cfg, "B>X")] = 2100, 1
    counts[edge(cfg, "X>EXIT")] = 2
    cut = disconnected(cfg, counts)
    assert len(cut.loops) == 2
    assert cut.exit_flow == {edge(cfg, "B>X"): 2, edge(cfg, "D>X"): 2, edge(cfg, "C>D"): 101}


def test_irreducible_region_is_one_loop() -> None:
    cfg = named("A>B A>C B>C C>B C>D", "A", "D")
    counts = by_edge(cfg, {"ENTRY>A": 10, "A>B": 5, "A>C": 5, "B>C": 995, "C>B": 990, "C>D": 10})
    cut = disconnected(cfg, counts)
    assert [loop.body for loop in cut.loops] == [{1, 2}]
    assert cut.cuts == {edge(cfg, "A>B"), edge(cfg, "A>C"), edge(cfg, "C>D")}


def test_early_ends_of_cold_and_hot_paths_are_told_apart() -> None:
    cfg = diamonds(14)
    plan = plan_tpp(cfg, biased(cfg, 14, 2), cold=2, loop=0)
    rng = random.Random(4)
    walks = [random_walk(rng, cfg, rng.randrange(1, 30)) for _ in range(300)]
    check_plan(cfg, plan, walks)


def test_obvious_paths_are_overcounted_by_cold_paths() -> None:
    """4.3: the defining edges of a hot path are on cold paths too."""
    cfg = named("A>B A>C B>D C>D D>E D>F E>X F>X", "A", "X")
    counts = by_edge(cfg, {"A>B": 97, "A>C": 3, "B>D": 97, "C>D": 3}, rest=100)
    counts[edge(cfg, "D>E")] = counts[edge(cfg, "E>X")] = 60
    counts[edge(cfg, "D>F")] = counts[edge(cfg, "F>X")] = 40
    plan = plan_tpp(cfg, list(map(int, counts)), cold=5, loop=0, cold_always=True)
    found = by_letters(plan, [])
    assert plan.plan.actions == {}
    assert found == {"ABDEX": 60, "ABDFX": 40}  # 97 of these are true
    reading = plan.read(execute(cfg, plan.plan, []))
    assert reading.lost == {"cold_paths": 0}  # which no edge count shows


def test_cold_paths_without_code_are_told_by_the_edge_profile() -> None:
    cfg = named("A>B A>C B>X C>X", "A", "X")
    counts = list(map(int, by_edge(cfg, {"A>B": 98, "A>C": 2, "B>X": 98, "C>X": 2}, rest=100)))
    plan = plan_tpp(cfg, counts, cold=5, loop=0, cold_always=True)
    assert plan.plan.actions == {}
    reading = plan.read(execute(cfg, plan.plan, []))
    assert (reading.paths, reading.lost) == ({0: 98}, {"cold_paths": 2})
    assert reading.inferred["cold_paths"] == 2  # which are those of the profile's run


@pytest.mark.parametrize(("cold", "loop"), [(-1, 0), (101, 0), (0, -0.1), (0, 100.5)])
def test_percentages_are_percentages(cold: float, loop: float) -> None:
    cfg = diamonds(1)
    with pytest.raises(ValueError, match="0 to 100"):
        plan_tpp(cfg, [0] * len(cfg.edges), cold=cold, loop=loop)


def test_thresholds_are_exact_decimals() -> None:
    """1 of 1000 is not less than 0.1 %, though 0.1 is a little more as a float."""
    cfg = named("A>B A>C B>X C>X", "A", "X")
    counts = list(map(int, by_edge(cfg, {"A>B": 1, "A>C": 999}, rest=1000)))
    assert not plan_tpp(cfg, counts, cold=0.1, loop=0, cold_always=True).cold
    assert plan_tpp(cfg, counts, cold=0.11, loop=0, cold_always=True).cold


@pytest.mark.seeds(range(50))
def test_local_criterion(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    counts = crossings(cfg, [walk for _ in range(9) if (walk := random_walk(rng, cfg))])
    plan = plan_tpp(cfg, counts, cold=20, loop=0, cold_always=True)
    assert plan.cold == locally_cold(cfg, counts, Fraction(20))


def by_walks(cfg: ControlFlowGraph, walks: Sequence[ExecutedWalk]) -> list[int]:
    counts = [0] * len(cfg.edges)
    for each in walks:
        for step in each.edges:
            counts[step] += each.count
    return counts


def by_letters(plan: TppPlan, walks: Sequence[ExecutedWalk]) -> dict[str, int]:
    reading = plan.read(execute(plan.cfg, plan.plan, walks))
    return {letters(plan.cfg, plan.decode(p).blocks): n for p, n in reading.paths.items()}
