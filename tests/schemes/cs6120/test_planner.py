"""`naive`, `calls` and `calls-optimal` against a plain logging library and brute force."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.graphs.flow import check, propagate
from simprof.profiler.plan.decoders import Plan, RoutineCounters
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.schemes.cs6120.code import LogDestination, LogDisrupt, LogSource
from simprof.profiler.schemes.cs6120.planner import (
    CallsPlan,
    Disruptions,
    _calls,
    interior_entries,
    plan_calls,
    plan_calls_optimal,
    plan_naive,
)
from simprof.profiler.schemes.qpt.planner import plan_qpt2
from tests.oracles.brute import early_ends, edge_counts, graph, random_graph, random_walk
from tests.oracles.extrapolation import extrapolate
from tests.oracles.log_machine import Program, find_miscount, random_routine


def planners(cfg: ControlFlowGraph) -> list[Plan]:
    return [plan_naive(cfg), plan_calls(cfg), plan_calls_optimal(cfg)]


def check_walks(cfg: ControlFlowGraph, walks: list[list[int]]) -> None:
    """All three schemes read the true counts from their own counters."""
    true = edge_counts(cfg, walks)
    for plan in planners(cfg):
        plan.validate()
        counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(walk)) for walk in walks])
        reading = plan.read(counters)
        assert reading.edges == true
        check(cfg, reading.all_edges or (), counters.early, len(walks))


@pytest.mark.seeds(range(100))
def test_counts_are_true(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    check_walks(cfg, [random_walk(rng, cfg) for _ in range(15)])


@pytest.mark.long
@pytest.mark.seeds(range(100, 400))
def test_counts_are_true_on_many_graphs(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_routine(rng, 14)
    check_walks(cfg, [random_walk(rng, cfg) for _ in range(15)])


def check_program(seed: int, routines: int) -> None:
    """The library counts each logged edge as often as it is crossed, whatever nests."""
    rng = random.Random(seed)
    graphs = [random_routine(rng) for _ in range(routines)]
    for plans in ([plan_calls(g) for g in graphs], [plan_calls_optimal(g) for g in graphs]):
        program = Program(rng, plans, rng.choice([0.0, 0.5]))
        program.run()
        for routine, plan in enumerate(plans):
            walks = program.walks[routine]
            true = edge_counts(plan.cfg, walks)
            pairs = [program.library.counts[routine, pair.edge] for pair in plan.logged]
            assert pairs == [true[pair.edge] for pair in plan.logged], plan.disrupted
            counters = RoutineCounters({}, tuple(pairs), early_ends(plan.cfg, walks))
            assert plan.read(counters).edges == true


@pytest.mark.seeds(range(400), few=100)
def test_library_counts_crossings_in_whole_programs(seed: int) -> None:
    check_program(seed, 1 + seed % 4)


@pytest.mark.seeds(range(100))
def test_no_execution_is_miscounted(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_routine(rng, 5)
    assert find_miscount(plan_calls(cfg)) is None
    plan = plan_calls_optimal(cfg, weights=[rng.randrange(4) for _ in cfg.edges])
    assert find_miscount(plan) is None


def without(plan: CallsPlan, disrupted: Disruptions) -> CallsPlan:
    actions = _calls(plan.cfg, plan.logged, disrupted)
    return replace(plan, plan=actions, disrupted=disrupted)


def disrupted_places(plan: CallsPlan) -> list[Disruptions]:
    """The plan's places, each time without one of them; entries into the middle stay."""
    blocks, edges = plan.disrupted.blocks, plan.disrupted.edges
    fewer = [Disruptions(blocks - {block}, edges) for block in sorted(blocks)]
    free = sorted(edges - interior_entries(plan.cfg))
    return fewer + [Disruptions(blocks, edges - {edge}) for edge in free]


@pytest.mark.seeds(range(100))
def test_every_disruption_is_necessary(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_routine(rng, 5)
    plan = plan_calls_optimal(cfg, weights=[rng.randrange(4) for _ in cfg.edges])
    for fewer in disrupted_places(plan):
        assert find_miscount(without(plan, fewer)) is not None, fewer
        with pytest.raises(AssertionError):
            without(plan, fewer).validate()


def test_disruptions_of_all_kinds_occur() -> None:
    rng = random.Random(1)
    kinds: Counter[str] = Counter()
    for _ in range(200):
        cfg = random_routine(rng, 6)
        plan = plan_calls_optimal(cfg, weights=[rng.randrange(4) for _ in cfg.edges])
        inside = interior_entries(cfg)
        kinds["block"] += len(plan.disrupted.blocks)
        for number in plan.disrupted.edges:
            edge = cfg.edges[number]
            kinds["entry" if edge.source == cfg.entry else str(edge.kind)] += number not in inside
            kinds["guard"] += number in inside
    assert set(kinds) == {"block", "entry", "exit", "slot", "guard"}
    assert min(kinds.values()) > 0


def test_entries_into_the_middle_forget_the_last_source() -> None:
    """A non-local exit to another routine goes on in a waiting activation as a return does."""
    rng = random.Random(6)
    plans = [plan_calls_optimal(random_routine(rng, 5)) for _ in range(30)]
    assert all(find_miscount(plan) is None for plan in plans)
    assert any(find_miscount(plan, guarded=False) is not None for plan in plans)


def blog_main() -> ControlFlowGraph:
    """A program with the shape of the post's main: a loop, a conditional call, a return.

    Blocks: 0 entry, 1 loop test, 2 body (calls printf), 3 latch, 4 test of num, 5 then (calls),
    6 end (calls).
    """
    names = [(0, 1), (1, 2), (2, 3), (3, 1), (1, 4), (4, 5), (5, 6), (4, 6)]
    calls = {(2, 3), (5, 6)}
    edges = [
        Edge(k, *ends, EdgeKind.CALL_RETURN if ends in calls else EdgeKind.TAKEN)
        for k, ends in enumerate(names)
    ]
    edges += [Edge(8, 7, 0, EdgeKind.ENTRY), Edge(9, 6, 8, EdgeKind.EXIT)]
    blocks = tuple(Block(k, 4 * k, 1) for k in range(7))
    return ControlFlowGraph("main", 0, 28, blocks, tuple(edges))


def test_the_posts_program() -> None:
    """Two functions; as many logged edges as the post's tree leaves; naive and optimal agree."""
    main, test = blog_main(), graph(3, [(0, 1), (0, 2), (1, 2)], name="testFunc")
    # The post logs [0->2], [6->4] and [9->10]: a conditional in the one, a loop and a conditional
    # in the other. The edge EXIT -> ENTRY, which counts activations, costs one more in each.
    assert len(plan_calls_optimal(test).logged) == 1 + 1
    assert len(plan_calls_optimal(main).logged) == 2 + 1
    odd = [3, 0, 2, 4]
    even = [3, 1, 4]
    loop = [1, 2, 3]
    walk = [8, 0, *loop * 5, 4, 7, 9]
    check_walks(test, [odd, even])
    check_walks(main, [walk])
    plan = plan_naive(main)
    counts = plan.read(execute(main, plan.plan, [ExecutedWalk(tuple(walk))])).edges
    assert counts == (1, 5, 5, 5, 1, 0, 0, 1, 1, 1)


def test_at_most_one_call_of_a_kind_in_a_block() -> None:
    rng = random.Random(5)
    for _ in range(50):
        plan = plan_calls(random_routine(rng))
        assert all(len(actions) == 1 for actions in plan.plan.blocks.values())
        assert all(len(actions) == 1 for actions in plan.plan.block_ends.values())


def test_a_loops_back_edge_as_in_the_post() -> None:
    """`logsrc` in the latch, `logdest` in the header, which control also enters from outside."""
    cfg = graph(3, [(0, 1), (1, 1), (1, 2)])
    plan = plan_calls_optimal(cfg, weights=[9, 0, 9, 9, 9])
    number = {pair.edge: pair for pair in plan.logged}
    pair = number[1]
    assert plan.plan.block_ends[1] == (LogSource(pair.source),)
    assert plan.plan.blocks[1] == (LogDestination(pair.destination),)


def test_calls_are_on_the_return_edge() -> None:
    """The callee logs too, so nothing is logged before the call."""
    plan = plan_calls(blog_main())
    assert 2 not in plan.plan.block_ends
    assert [type(action) for action in plan.plan.actions[2]] == [LogSource]
    assert isinstance(plan.plan.blocks[3][0], LogDestination)


def test_a_conditional_without_else_needs_a_disruption() -> None:
    """0 -> 1 -> 2 beside 0 -> 2: the blog's rare case, an un-instrumented way."""
    cfg = graph(3, [(0, 1), (0, 2), (1, 2)])
    plan = plan_calls_optimal(cfg, weights=[9, 1, 9, 9, 2])
    assert {pair.edge for pair in plan.logged} == {1, 4}
    assert plan.disrupted == Disruptions(frozenset({1}), frozenset())
    assert isinstance(plan.plan.blocks[1][0], LogDisrupt)


def test_calls_need_no_disruption() -> None:
    rng = random.Random(3)
    for _ in range(60):
        cfg = random_routine(rng)
        assert plan_calls(cfg).disrupted == Disruptions(frozenset(), frozenset())


def test_parallel_edges_are_told_apart() -> None:
    cfg = graph(2, [(0, 1), (0, 1), (1, 0), (1, 0)])
    plan = plan_calls(cfg)
    pairs = [(pair.source, pair.destination) for pair in plan.logged]
    assert len(set(pairs)) == len(pairs)
    check_walks(cfg, [[4, 0, 2, 1, 3, 1, 5], [4, 1, 5]])


def test_chords_are_those_of_qpt2() -> None:
    rng = random.Random(9)
    for _ in range(40):
        cfg = random_routine(rng)
        weights = [rng.randrange(9) for _ in cfg.edges]
        chords = plan_qpt2(cfg, weights=weights).tree.chords
        assert plan_calls_optimal(cfg, weights=weights).plan.slot_edges == chords


@pytest.mark.seeds(range(60))
def test_iteration_and_tree_agree(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng, 12)
    tree = plan_qpt2(cfg).tree
    walks = [random_walk(rng, cfg) for _ in range(9)]
    true, early = edge_counts(cfg, walks), early_ends(cfg, walks)
    chords = {edge: true[edge] for edge in tree.chords}
    dead = dict.fromkeys(tree.excluded, 0)
    assert extrapolate(cfg, chords | dead, early) == propagate(cfg, tree, chords, early) == true


def test_extrapolation_refuses_what_stays_open() -> None:
    cfg = graph(3, [(0, 1), (0, 2), (1, 2)])
    with pytest.raises(ValueError, match="graph"):
        extrapolate(cfg, {3: 5})


def test_numbers_stay_dense() -> None:
    """Rows of pairs are packed: the table is not much larger than its pairs."""
    rng = random.Random(2)
    for _ in range(30):
        cfg = random_graph(rng, 60)
        plan = plan_calls(cfg)
        assert plan.plan.numbers[0] <= len(plan.logged)
        assert sum(plan.plan.numbers) <= 2 * len(plan.logged) + 2


def chain(diamonds: int) -> ControlFlowGraph:
    edges = []
    for k in range(diamonds):
        top = 3 * k
        edges += [(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]
    return graph(3 * diamonds + 1, edges)


def test_large_routines() -> None:
    """Two to the thousandth paths, and code in one line."""
    check_walks(chain(1000), [])
    line = graph(3000, [(k, k + 1) for k in range(2999)])
    assert len(plan_calls_optimal(line).logged) == 1


def test_routines_without_a_way_out_and_dead_blocks() -> None:
    endless = graph(2, [(0, 1), (1, 0)], exits=())
    check_walks(endless, [[2, 0, 1, 0], [2]])
    dead = graph(3, [(0, 1), (2, 1)], exits=(1,))
    check_walks(dead, [[2, 0, 3]])
    assert 1 not in plan_naive(dead).counted
    check_walks(graph(1, []), [[0, 1]] * 3)


def test_validate_finds_damage() -> None:
    plan = plan_calls_optimal(chain(3))
    with pytest.raises(AssertionError):
        replace(plan, logged=plan.logged[1:]).validate()
    with pytest.raises(AssertionError):
        replace(plan, plan=replace(plan.plan, blocks={})).validate()
    naive = plan_naive(chain(2))
    with pytest.raises(AssertionError):
        replace(naive, counted=naive.counted[1:]).validate()
