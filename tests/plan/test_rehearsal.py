"""Plans tried out: the activations cross everything, right plans pass, wrong ones do not."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first, live_edges
from simprof.profiler.plan.actions import CountPath
from simprof.profiler.plan.interpret import MOST_WALKS, ExecutedWalk, activations, execute, rehearse
from simprof.profiler.schemes.pp import plan_pp
from simprof.profiler.schemes.qpt.options import VertexPlacement
from simprof.profiler.schemes.qpt.planner import VertexPlan, plan_qpt, plan_qpt2
from tests.oracles.brute import random_graph
from tests.support.figures import edge, named
from tests.support.figures import walk as walk_of


def crossed(cfg: ControlFlowGraph) -> set[int]:
    return {edge for walk in activations(cfg) for edge in walk.edges}


@pytest.mark.seeds(range(60))
def test_activations_cross_every_edge_and_are_ways_from_entry(seed: int) -> None:
    cfg = random_graph(random.Random(seed), 8)
    assert crossed(cfg) == live_edges(cfg, depth_first(cfg))
    for walk in activations(cfg):
        ends = [cfg.edges[edge] for edge in walk.edges]
        assert ends[0].source == cfg.entry
        assert all(before.target == after.source for before, after in pairwise(ends))


def test_activations_run_to_the_end_over_edges_that_were_crossed_before() -> None:
    """The second way ends its new edges at C, three edges before EXIT."""
    cfg = named("A>B A>X B>C X>C C>D D>E", "A", "E")
    whole = activations(cfg)[::2]
    assert len(whole) == 2
    for walk in whole:
        assert [cfg.edges[each].target for each in walk.edges][-4:] == [
            *(cfg.edges[edge(cfg, ends)].target for ends in ("B>C", "C>D", "D>E")), cfg.exit
        ]  # fmt: skip


def test_there_are_only_so_many_activations() -> None:
    names = [f"N{k}" for k in range(100)]
    cfg = named(" ".join(f"A>{name} {name}>Z" for name in names), "A", "Z")
    walks = activations(cfg)
    assert len(walks) == 2 * MOST_WALKS
    assert [walk.count for walk in walks] == list(range(1, 1 + len(walks)))


def test_a_loop_that_is_never_left_ends_early() -> None:
    cfg = named("A>B B>B A>C", "A", "C")
    assert crossed(cfg) == {each.id for each in cfg.edges}
    rehearse(plan_qpt2(cfg), None, activations(cfg))


@pytest.mark.seeds(range(20))
def test_right_plans_pass(seed: int) -> None:
    cfg = random_graph(random.Random(seed), 8)
    walks = activations(cfg)
    plan = plan_pp(cfg)
    rehearse(plan, plan, walks)
    rehearse(plan_qpt2(cfg), None, walks)


def test_wrong_paths_and_wrong_counts_are_seen() -> None:
    cfg = named("A>B A>C B>D C>D D>A", "A", "D")
    plan, walks = plan_pp(cfg), activations(cfg)
    rehearse(plan, plan, walks)
    leaving = edge(cfg, "D>EXIT")
    (count,) = plan.plan.actions[leaving]
    assert isinstance(count, CountPath)
    actions = {**plan.plan.actions, leaving: (replace(count, constant=count.constant ^ 1),)}
    wrong = replace(plan, plan=replace(plan.plan, actions=actions))
    with pytest.raises(AssertionError, match=r"the path A . D counts . for . executions at most"):
        rehearse(wrong, wrong, walks)
    with pytest.raises(AssertionError, match=r"edge A -> . counts . for . crossings"):
        rehearse(wrong, None, walks)


def test_wrong_blocks_are_seen_where_no_edge_is_told() -> None:
    """All blocks are counted; which way led from A, B to C, D they do not tell."""
    cfg = named("E>A E>B A>C A>D B>C B>D C>X D>X", "E", "X")
    plan = plan_qpt(cfg, placement=VertexPlacement.REDUNDANT)
    assert isinstance(plan, VertexPlan)
    walks = [
        ExecutedWalk(tuple(walk_of(cfg, "EACX")), 3),
        ExecutedWalk(tuple(walk_of(cfg, "EBDX"))),
    ]
    assert plan.read(execute(cfg, plan.plan, walks)).edges is None
    rehearse(plan, None, walks)
    wrong = replace(plan, counted=plan.counted[::-1])
    with pytest.raises(AssertionError, match=r"in a rehearsal block . counts . for . executions"):
        rehearse(wrong, None, walks)
