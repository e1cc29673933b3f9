"""Counters placed for merged blocks tell what the others tell, and are the contracted graph's."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from simprof.profiler.graphs.contraction import contract
from simprof.profiler.plan.decoders import Plan, Reading
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.schemes.qpt.options import BlockBasis, VertexPlacement
from simprof.profiler.schemes.qpt.planner import MergedPlan, make_plan, plan_qpt
from tests.oracles.brute import graph, random_graph, random_walk, structured_graph, with_slots
from tests.support.figures import named


def events(plan: Plan, walks: Sequence[Sequence[int]]) -> tuple[int, ...]:
    counted = Counter(map(tuple, walks))
    return execute(plan.cfg, plan.plan, (ExecutedWalk(w, n) for w, n in counted.items())).events


def read(plan: Plan, walks: Sequence[Sequence[int]]) -> Reading:
    counted = Counter(map(tuple, walks))
    return plan.read(execute(plan.cfg, plan.plan, (ExecutedWalk(w, n) for w, n in counted.items())))


def contracted(plan: MergedPlan, walks: Sequence[Sequence[int]]) -> list[list[int]]:
    """The same activations as walks of the contracted graph."""
    number = {edge: at for at, edge in enumerate(plan.contraction.kept)}
    return [[number[step] for step in steps if step in number] for steps in walks]


@pytest.mark.parametrize("basis", (BlockBasis.MERGED, BlockBasis.FOLDED))
@pytest.mark.parametrize("placement", VertexPlacement)
@pytest.mark.seeds(range(80), few=26)
def test_random_graphs(seed: int, placement: VertexPlacement, basis: BlockBasis) -> None:
    rng = random.Random(seed)
    cfg = with_slots(rng, random_graph(rng, 10) if seed % 2 else structured_graph(rng))
    walks = [random_walk(rng, cfg, rng.choice((2, 40))) for _ in range(20)]
    crossed = Counter(step for steps in walks for step in steps)
    entered = Counter(cfg.edges[step].target for steps in walks for step in steps)
    exact = [crossed[each.id] for each in cfg.edges]
    weights = rng.choice((None, exact, [rng.randint(0, 5) for _ in cfg.edges]))
    plan = make_plan(cfg, placement, basis, weights)
    assert isinstance(plan, MergedPlan)
    plan.validate()
    reading = read(plan, walks)
    assert reading.edges is None or reading.edges == tuple(exact)
    assert (reading.edges is None) == (read(plan.inner, contracted(plan, walks)).edges is None)
    if placement in (VertexPlacement.EDGE, VertexPlacement.MIXED):
        assert reading.edges is not None
    else:
        assert reading.blocks is not None
        for block, count in enumerate(reading.blocks):
            untold = block in plan.contraction.folded and reading.edges is None
            assert count == (None if untold else entered[block])
    # What the counters hold is what they hold on the contracted graph.
    assert events(plan, walks) == events(plan.inner, contracted(plan, walks))


@pytest.mark.seeds(range(80))
def test_merging_takes_counters_from_blocks_and_none_from_edges(seed: int) -> None:
    rng = random.Random(seed)
    cfg = structured_graph(rng)
    walks = [random_walk(rng, cfg, 40) for _ in range(20)]
    # Early ends are not in the weights, which then obey no flow law.
    walks = [steps for steps in walks if cfg.edges[steps[-1]].target == cfg.exit]
    crossed = Counter(step for steps in walks for step in steps)
    exact = [crossed[each.id] for each in cfg.edges]
    spent = {
        (placement, basis): sum(events(make_plan(cfg, placement, basis, exact), walks))
        for placement in VertexPlacement
        for basis in BlockBasis
    }
    for placement in (VertexPlacement.EDGE, VertexPlacement.VERTEX_OPTIMAL):
        assert len({spent[placement, basis] for basis in BlockBasis}) == 1
    inside = sum(crossed[edge] for edge in contract(cfg).inside)
    redundant = VertexPlacement.REDUNDANT
    assert spent[redundant, BlockBasis.MERGED] == spent[redundant, BlockBasis.SPLIT] - inside


def test_an_early_end_in_the_middle_of_a_chain() -> None:
    cfg = graph(4, [(0, 1), (1, 2), (2, 3)])
    plan = make_plan(cfg, VertexPlacement.REDUNDANT, BlockBasis.MERGED)
    assert dict(plan.plan.blocks) == dict(
        plan_qpt(graph(1, []), placement=VertexPlacement.REDUNDANT).plan.blocks
    )
    reading = read(plan, [[3, 0, 1, 2, 4], [3, 0], [3]])
    assert reading.blocks == (3, 2, 1, 1)
    assert reading.edges == (2, 1, 1, 3, 1)


def test_answers_of_graph_files_are_by_the_routines_own_edges() -> None:
    cfg = named("A>B B>C B>D C>E D>E E>F", "A", "F")
    plan = make_plan(cfg, VertexPlacement.EDGE, BlockBasis.MERGED)
    found = plan.describe()
    assert found["merged_blocks"] == [["A", "B"], ["C"], ["D"], ["E", "F"]]
    assert len(found["tree"]) == len(cfg.edges)
    assert {e for e, inside in enumerate(found["tree"]) if not inside} == set(plan.plan.actions)
    heuristic = make_plan(cfg, VertexPlacement.EDGE_HEURISTIC, BlockBasis.MERGED).describe()
    assert heuristic["counted_edges"] == sorted(plan.plan.actions)
