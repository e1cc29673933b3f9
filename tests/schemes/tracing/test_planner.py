"""Trace plans: the figures of BL94 section 4 and 6.2, and random graphs."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.plan.actions import WriteTrace
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.tracing import decisions, free_way
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.tracing.code import WriteTarget
from simprof.profiler.schemes.tracing.planner import (
    TracePlan,
    bits_for,
    blockers,
    call_blocks,
    place_witnesses,
    plan_blocks,
    plan_outcomes,
    plan_witness,
    predicates,
    standard_width,
)
from tests.oracles import brute
from tests.support.figures import by_edge, edge, named


def with_calls(cfg: ControlFlowGraph, calls: str) -> ControlFlowGraph:
    """The graph with calls at the ends of some blocks, which must have one successor."""
    sources = {block.id for block in cfg.blocks if str(block.label) in calls}
    edges = tuple(
        each._replace(kind=EdgeKind.CALL_RETURN)
        if each.source in sources and each.target != cfg.exit
        else each
        for each in cfg.edges
    )
    return ControlFlowGraph(cfg.name, 0, 0, cfg.blocks, edges)


def all_live(cfg: ControlFlowGraph) -> set[int]:
    return {each.id for each in cfg.edges}


def names(cfg: ControlFlowGraph, edges: Iterable[int]) -> set[str]:
    pairs = [(cfg.edges[e].source, cfg.edges[e].target) for e in edges]
    return {f"{cfg.name_of(a).start}>{cfg.name_of(b).start}" for a, b in pairs}


# Figure 13: a loop P, A, B, C, whose witnesses are t, u and v; C leaves to X, their EXIT.


def figure_13() -> ControlFlowGraph:
    return named("P>A P>B B>A B>C A>C C>P C>X", "P", "X", "BL94 figure 13")


def test_figure_13_witness_sets() -> None:
    cfg = figure_13()
    t, u, v = (edge(cfg, ends) for ends in ("P>A", "B>A", "B>C"))
    p, b, c = (next(i.id for i in cfg.blocks if i.label == name) for name in "PBC")
    witnessed = {t, u, v}
    at_p, at_b, at_c = (decisions(cfg, witnessed, each) for each in (p, b, c))
    assert at_p == {t: t, u: edge(cfg, "P>B"), v: edge(cfg, "P>B")}
    assert at_b == {u: u, v: v}
    assert at_c == {each: edge(cfg, "C>P") for each in (t, u, v)}  # C > EXIT has EOF alone


def test_figure_13_without_t_two_executions_write_the_same() -> None:
    cfg = figure_13()
    witnessed = {edge(cfg, "B>A"), edge(cfg, "B>C")}
    with pytest.raises(ValueError, match="two ways"):
        decisions(cfg, witnessed, 0)


def test_figure_13_several_procedures_block_the_exit() -> None:
    """EOF is no witness where a caller goes on: the edge to EXIT writes one."""
    cfg = figure_13()
    assert names(cfg, blockers(cfg, {cfg.exit}, all_live(cfg))) == {"C>X"}
    assert edge(cfg, "C>X") in plan_witness(cfg).tokens


# Figure 15 as its text fixes it: calls B, H and I; blockers at the predicates, not at the calls. In
# the paper B is a predicate, too: it is B and B' in `docs/schemes/figures/bl94-15.json`, and leads
# to F only here.


def figure_15() -> ControlFlowGraph:
    """A forks to B's way and G's; B, H, I call; G forks to H and I; H leads to I."""
    graph = named("A>C A>G C>D C>B D>F B>F G>H G>I H>I I>F F>X", "A", "X", "BL94 figure 15")
    return with_calls(graph, "BHI")


def test_figure_15_blockers_stand_at_predicates() -> None:
    cfg = figure_15()
    found = blockers(cfg, call_blocks(cfg), all_live(cfg))
    # H > I is no blocker: no predicate comes before I on that way but G, which is blocked at G > H.
    assert names(cfg, found) == {"C>B", "G>H", "G>I"}
    every = {e.id for e in cfg.edges if e.target in call_blocks(cfg)}
    assert names(cfg, every) == {"C>B", "G>H", "G>I", "H>I"}
    assert edge(cfg, "H>I") not in plan_witness(cfg).tokens


def test_blockers_before_straight_code_cost_no_more_and_solve_more() -> None:
    """A predicate whose two ways both lead to a call through blocks of their own (figure 15)."""
    cfg = with_calls(named("B>D B>E D>G E>G G>I I>X", "B", "X"), "I")
    weights = by_edge(cfg, {"B>D": 1, "B>E": 1, "D>G": 1, "E>G": 1, "G>I": 2, "I>X": 2})
    placed = place_witnesses(cfg, weights)
    assert names(cfg, placed) == {"B>D", "B>E"}  # cost 2, and nothing at G > I, cost 2, plus B > D
    assert sum(weights[e] for e in placed) == 2


# Figure 16: blockers first, or the spanning tree first.


def figure_16() -> tuple[ControlFlowGraph, list[float]]:
    """P forks to a call C and to Q, which joins C; the lighter edge is the other one."""
    cfg = with_calls(named("P>C P>Q Q>R Q>S R>J S>J C>J J>X", "P", "X", "BL94 figure 16"), "C")
    weights = by_edge(
        cfg,
        {"P>C": 3, "P>Q": 2, "Q>R": 1, "Q>S": 1, "R>J": 1, "S>J": 1, "C>J": 3, "J>X": 5},
    )
    return cfg, weights


def test_figure_16_blockers_first_is_no_dearer() -> None:
    cfg, weights = figure_16()
    first = place_witnesses(cfg, weights)
    blocking = blockers(cfg, {cfg.exit, *call_blocks(cfg)}, all_live(cfg))
    # The other order: chords of an unrestricted tree, and then the blockers that are missing.
    from simprof.profiler.graphs.spanning import maximum_spanning_tree

    ends = [(each.source, each.target) for each in cfg.edges]
    entries = [e.id for e in cfg.edges if e.source == cfg.entry]
    tree = maximum_spanning_tree(cfg.vertex_count, ends, weights, None, entries)
    second = frozenset(tree.chords) | blocking
    assert blocking <= first
    assert sum(weights[e] for e in first) <= sum(weights[e] for e in second)


# Figure 18: witnesses of two bits on some edges, or one bit at every predicate.


def figure_18() -> ControlFlowGraph:
    """A loop with two conditionals one after the other and a latch: three predicates a turn."""
    return named("A>B A>C B>D C>D D>E D>F E>G F>G G>A G>X", "A", "X", "BL94 figure 18")


def test_figure_18_bits_write_three_a_turn() -> None:
    cfg = figure_18()
    plan = plan_outcomes(cfg, packed=True)
    turn = [edge(cfg, ends) for ends in ("A>B", "B>D", "D>F", "F>G", "G>A")]
    crossings = [turn.count(e) for e in range(len(cfg.edges))]
    assert plan.standard_bits(crossings) == plan.minimal_bits(crossings) == 3
    assert {token.width for token in plan.tokens.values()} == {1}


def test_figure_18_other_ways_of_tracing() -> None:
    """BL94 4: a witness in each block, and AE's old way, a byte at each outcome of a predicate."""
    cfg = figure_18()
    turn = [edge(cfg, ends) for ends in ("A>B", "B>D", "D>F", "F>G", "G>A")]
    crossings = [turn.count(e) for e in range(len(cfg.edges))]
    assert plan_blocks(cfg).standard_bits(crossings) == 5 * 8  # five blocks a turn
    outcomes = plan_outcomes(cfg, packed=False)
    assert outcomes.standard_bits(crossings) == 3 * 8
    assert outcomes.minimal_bits(crossings) == 3


def test_a_block_trace_writes_in_blocks_and_at_outcomes_that_are_no_block() -> None:
    """Figure 13, with a predicate that leaves the routine and one with parallel edges."""
    plan = plan_blocks(figure_13())
    assert not plan.plan.actions
    assert {block: str(a) for block, (a,) in plan.plan.blocks.items()} == {
        block: f"trace {block}:8" for block in range(5)
    }
    cfg = brute.graph(3, [(0, 1), (0, 2), (1, 2), (1, 2)], exits=(0, 2))
    plan = plan_blocks(cfg)
    plan.validate()
    assert {b: a[0].value for b, a in plan.plan.blocks.items() if isinstance(a[0], WriteTrace)} == {
        0: 0, 1: 1
    }  # fmt: skip
    values = {e: str(action) for e, (action,) in plan.plan.actions.items()}
    assert values == {1: "trace 2:8", 2: "trace 3:8", 3: "trace 4:8", 5: "trace 5:8"}


def test_figure_18_witnesses_need_two_bits() -> None:
    cfg = figure_18()
    edges = [edge(cfg, ends) for ends in ("A>B", "D>E", "G>A", "G>X")]
    assert bits_for(len(edges)) == 2
    assert len(plan_witness(cfg).tokens) == 4  # two to break the diamonds, two to leave the loop
    assert plan_witness(cfg).minimal_width == 2


@pytest.mark.parametrize(
    ("witnesses", "width"), [(0, 8), (1, 8), (256, 8), (257, 16), (65536, 16), (65537, 32)]
)
def test_standard_sizes(witnesses: int, width: int) -> None:
    assert standard_width(witnesses) == width


@pytest.mark.parametrize(("values", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (256, 8)])
def test_bits_for(values: int, bits: int) -> None:
    assert bits_for(values) == bits


def test_a_switch_writes_the_bits_that_its_edges_need() -> None:
    cfg = named("A>B A>C A>D A>E A>F B>X C>X D>X E>X F>X", "A", "X")
    for packed, width in ((True, 3), (False, 8)):
        tokens = plan_outcomes(cfg, packed=packed).tokens.values()
        assert [str(token) for token in tokens] == [f"trace {k}:{width}" for k in range(5)]


def test_straight_code_writes_nothing() -> None:
    cfg = named("A>B B>C", "A", "C")
    for plan in (plan_witness(cfg), plan_outcomes(cfg, packed=True)):
        assert not plan.tokens
        counters = execute(cfg, plan.plan, [ExecutedWalk((2, 0, 1, 3), 7)])
        assert plan.read(counters).edges == (7, 7, 7, 7)


def test_a_loop_without_predicate_writes_one_token_a_turn() -> None:
    cfg = brute.graph(2, [(0, 1), (1, 0)], exits=())
    for plan in (plan_witness(cfg), plan_outcomes(cfg, packed=True)):
        assert len(plan.tokens) == 1
        walk = [2, *[0, 1] * 5, 0]
        counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(walk))])
        assert plan.read(counters).edges == (6, 5, 1)


def test_indirect_calls_write_their_target() -> None:
    plain = with_calls(named("A>B B>C", "A", "C"), "AB")
    cfg = ControlFlowGraph(plain.name, 0, 0, plain.blocks, plain.edges, frozenset({1}))
    plan = plan_witness(cfg)
    assert plan.plan.block_ends == {1: (WriteTarget(1),)}
    assert plan.targets([3, 3, 3, 3]) == 3
    assert plan.standard_bits([3, 3, 3, 3]) == 96


def test_free_ways_are_found() -> None:
    cfg = figure_13()
    witnessed = {edge(cfg, ends) for ends in ("P>A", "B>A", "B>C")}
    a, p = 1, 0
    assert free_way(cfg, witnessed, a, p) == [edge(cfg, "A>C"), edge(cfg, "C>P")]
    assert free_way(cfg, witnessed, p, a) is None
    assert free_way(cfg, witnessed, a, a) == []


# Random graphs


def directed_cycle_or_diamond(cfg: ControlFlowGraph, free: set[int]) -> bool:
    """Whether some two vertices are joined by two ways over `free` edges, or one by a cycle."""
    for start in range(cfg.vertex_count):
        ways = [0] * cfg.vertex_count
        work = [(start, frozenset([start]))]
        while work:
            vertex, seen = work.pop()
            for each in cfg.out_edges[vertex]:
                if each not in free:
                    continue
                target = cfg.edges[each].target
                if target in seen:
                    return True
                ways[target] += 1
                if ways[target] > 1:
                    return True
                work.append((target, seen | {target}))
    return False


def blocked(cfg: ControlFlowGraph, plan: TracePlan, live: set[int]) -> bool:
    """Whether no witness-free way leads from a predicate to a call or EXIT, by walking."""
    forks = predicates(cfg, live)
    ends = {cfg.exit, *call_blocks(cfg)}
    for fork in forks:
        seen: set[int] = set()
        work = [fork]
        while work:
            for each in cfg.out_edges[work.pop()]:
                target = cfg.edges[each].target
                if each in plan.tokens or target in seen:
                    continue
                if target in ends:
                    return False
                seen.add(target)
                work.append(target)
    return True


def check_random(seed: int) -> None:
    rng = random.Random(seed)
    cfg = brute.random_graph(rng)
    calls = "".join(
        str(b.id)
        for b in cfg.blocks
        if len(cfg.out_edges[b.id]) == 1 and rng.random() < 0.4 and b.id < 10
    )
    labelled = tuple(b._replace(label=str(b.id)) for b in cfg.blocks)
    cfg = with_calls(ControlFlowGraph(cfg.name, 0, 0, labelled, cfg.edges), calls or "-")
    live = {e.id for e in cfg.edges if e.source in brute.reachable(cfg)}
    walks = [brute.random_walk(rng, cfg) for _ in range(4)]
    weights = [rng.random() for _ in cfg.edges] if rng.random() < 0.5 else None
    for plan in (
        plan_witness(cfg, weights=weights),
        plan_outcomes(cfg, packed=True, weights=weights),
        plan_outcomes(cfg, packed=False, weights=weights),
        plan_blocks(cfg, weights=weights),
    ):
        plan.validate()
        free = {e for e in live if e not in plan.tokens and cfg.edges[e].source != cfg.entry}
        assert not directed_cycle_or_diamond(cfg, free)
        assert blocked(cfg, plan, live)
        counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(walk)) for walk in walks])
        counts = brute.edge_counts(cfg, walks)
        assert plan.read(counters).edges == counts
        written = sum(counts[e] for e in plan.tokens)
        assert plan.written(counts) == written
        assert plan.minimal_bits(counts) <= plan.standard_bits(counts)
        for each, token in plan.tokens.items():
            at_top = plan.plan.blocks.get(cfg.edges[each].target)
            assert plan.plan.actions.get(each, at_top) == (token,)
            assert isinstance(token, WriteTrace)


@pytest.mark.seeds(range(1100), few=100)
def test_random_graphs(seed: int) -> None:
    check_random(seed)


@pytest.mark.parametrize("mode", ["witness", "bits", "bytes", "block-trace"])
def test_addresses_change_nothing_else_of_a_plan(mode: str) -> None:
    cfg = brute.random_graph(random.Random(5), 6)
    plan = registry.make_plan(cfg, mode, SchemeOptions())
    more = registry.make_plan(cfg, mode, SchemeOptions.of(addresses=True))
    assert more.plan == replace(plan.plan, addresses=True)
    assert not plan.plan.addresses
