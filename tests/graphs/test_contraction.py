"""Contraction against its definition, and counts of the contracted graph against executed walks."""

import random
from collections import Counter

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.contraction import contract
from simprof.profiler.graphs.flow import check
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.spanning import heuristic
from tests.oracles.brute import (
    graph,
    random_graph,
    random_walk,
    reachable,
    structured_graph,
    with_slots,
)
from tests.support.figures import epp_1, letters, named


def chains(cfg: ControlFlowGraph) -> list[str]:
    return [letters(cfg, chain) for chain in contract(cfg).chains]


def merged_one_by_one(cfg: ControlFlowGraph) -> set[tuple[int, ...]]:
    """Merge two neighbours at a time until no straight-line split is left."""
    live = reachable(cfg)
    edges = [(e.source, e.target) for e in cfg.edges if e.source in live]
    groups: dict[int, tuple[int, ...]] = {
        block.id: (block.id,) for block in cfg.blocks if block.id in live
    }
    while True:
        for source, target in edges:
            alone = [s for s, _ in edges].count(source) == [t for _, t in edges].count(target) == 1
            if alone and source in groups and target in groups and source != target:
                break
        else:
            return set(groups.values())
        groups[source] += groups.pop(target)
        edges.remove((source, target))
        edges = [(source if s == target else s, t) for s, t in edges]


def test_straight_lines_become_one_block() -> None:
    cfg = named("A>B B>C C>D C>E D>F E>F F>G", "A", "G")
    assert chains(cfg) == ["ABC", "D", "E", "FG"]
    made = contract(cfg).graph
    assert [block.instructions for block in made.blocks] == [3, 1, 1, 2]
    assert str(made.name_of(0)) == "A"
    assert len(made.edges) - made.vertex_count == len(cfg.edges) - cfg.vertex_count


def test_a_loop_of_two_blocks_becomes_a_self_loop() -> None:
    cfg = named("A>B B>C C>B C>D", "A", "D")
    assert chains(cfg) == ["A", "BC", "D"]
    assert [(e.source, e.target) for e in contract(cfg).graph.edges[:3]] == [(0, 1), (1, 1), (1, 2)]


def test_nothing_is_merged_where_nothing_is_split() -> None:
    cfg = epp_1()
    made = contract(cfg)
    assert made.graph == cfg
    assert made.inside == ()


def test_a_block_that_is_entered_in_the_middle_of_the_routine_is_no_continuation() -> None:
    assert contract(graph(3, [(0, 1), (1, 2)])).chains == ((0, 1, 2),)
    assert contract(graph(3, [(0, 1), (1, 2)], entries=(0, 1))).chains == ((0,), (1, 2))


def test_code_that_cannot_be_reached_is_nobodys_predecessor() -> None:
    dead = graph(4, [(0, 1), (2, 1), (2, 3), (3, 2)], exits=(1,))
    made = contract(dead)
    assert made.chains == ((0, 1),)
    assert made.block_counts((7,)) == (7, 7, 0, 0)
    assert made.edge_counts((7, 7)) == (7, 0, 0, 0, 7, 7)


@pytest.mark.seeds(range(300))
def test_what_is_counted_there_is_counted_here(seed: int) -> None:
    """Early ends in the middle of chains included: the first step where counts part."""
    rng = random.Random(seed)
    cfg = random_graph(rng, 14) if seed % 3 else structured_graph(rng)
    made = contract(cfg)
    made.validate()
    assert set(made.chains) == merged_one_by_one(cfg)
    walks = [random_walk(rng, cfg)[: rng.choice((1, 2, 3, 5, None))] for _ in range(12)]
    crossed = Counter(step for steps in walks for step in steps)
    early = Counter(
        target for steps in walks if (target := cfg.edges[steps[-1]].target) != cfg.exit
    )
    entered = Counter(cfg.edges[step].target for steps in walks for step in steps)
    counts = [crossed[edge] for edge in made.kept]
    heads = [entered[chain[0]] for chain in made.chains]
    check(made.graph, counts, made.early(early), activations=12)
    assert made.edge_counts(counts, early) == tuple(crossed[e.id] for e in cfg.edges)
    assert made.block_counts(heads, early) == tuple(entered[b.id] for b in cfg.blocks)
    assert sum(early.values()) == sum(made.early(early).values())


@pytest.mark.seeds(range(200))
def test_a_folded_slot_is_a_part_of_its_edge(seed: int) -> None:
    """As if the routine had no slots: only what ended early in one differs."""
    rng = random.Random(seed)
    plain = random_graph(rng, 9) if seed % 2 else structured_graph(rng)
    cfg = with_slots(rng, plain)
    made = contract(cfg, fold_slots=True)
    made.validate()
    slots = {block.id for block in cfg.blocks if block.is_slot}
    assert made.folded.keys() == slots & reachable(cfg)
    # Where nothing else was split the graph is the one without slots, in the same order.
    without = contract(plain)
    assert [(e.source, e.target) for e in made.graph.edges] == [
        (e.source, e.target) for e in without.graph.edges
    ]
    assert made.chains == without.chains
    walks = [random_walk(rng, cfg)[: rng.choice((1, 2, 3, 5, None))] for _ in range(12)]
    crossed = Counter(step for steps in walks for step in steps)
    entered = Counter(cfg.edges[step].target for steps in walks for step in steps)
    early = Counter(
        target for steps in walks if (target := cfg.edges[steps[-1]].target) != cfg.exit
    )
    counts = [crossed[edge] for edge in made.kept]
    check(made.graph, counts, made.early(early), activations=12)
    assert made.edge_counts(counts, early) == tuple(crossed[e.id] for e in cfg.edges)
    blocks = made.block_counts([entered[chain[0]] for chain in made.chains], early)
    for block in cfg.blocks:
        assert blocks[block.id] == (None if block.id in made.folded else entered[block.id])


def test_slots_are_folded_on_request_alone() -> None:
    cfg = with_slots(random.Random(0), named("A>B A>C B>C C>D", "A", "D"), share=1.0)
    assert contract(cfg).folded == {}
    # That of A -> B becomes one block with B; to C there is another way.
    assert [len(chain) for chain in contract(cfg).chains] == [1, 2, 2, 1]
    made = contract(cfg, fold_slots=True)
    assert made.chains == ((0,), (1,), (2, 3))
    assert {cfg.edges[edge].kind for edge in made.folded.values()} == {EdgeKind.SLOT}


@pytest.mark.seeds(range(60))
def test_the_heuristic_weighs_both_graphs_alike(seed: int) -> None:
    """BL94's rules hand a weight along a straight line unchanged."""
    cfg = structured_graph(random.Random(seed))
    made = contract(cfg)
    here = heuristic(cfg, depth_first(cfg))
    there = heuristic(made.graph, depth_first(made.graph))
    assert there == pytest.approx(made.weights(here))


def test_weights_of_the_routine_are_those_of_the_contracted_graph() -> None:
    cfg = named("A>B B>C C>D C>E", "A", "D")
    made = contract(cfg)
    names = {e.id: f"{cfg.name_of(e.source)}>{cfg.name_of(e.target)}" for e in cfg.edges}
    weights = made.edge_counts([float(edge) for edge in made.kept], dead=0.0)
    (entry,) = (edge for edge, name in names.items() if name == "ENTRY>A")
    for edge, weight in enumerate(weights):
        assert weight == (entry if names[edge] in ("A>B", "B>C") else edge)
