"""Poison that nothing could meet: it is left out, and costs nothing (TPP A.2, A.3)."""

from __future__ import annotations

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.schemes.tpp.code import Poison
from simprof.profiler.schemes.tpp.planner import TppPlan, plan_tpp
from tests.oracles.brute import graph
from tests.support.figures import by_edge, edge, named, walk


def poisoned(plan: TppPlan) -> set[int]:
    """Edges that poison the register."""
    actions = plan.plan.actions.items()
    return {edge for edge, group in actions if any(isinstance(each, Poison) for each in group)}


def planned(cfg: ControlFlowGraph, counts: list[int]) -> TppPlan:
    plan = plan_tpp(cfg, counts, cold=40, loop=0, cold_always=True)
    plan.validate()
    return plan


def test_no_poison_where_no_count_is_behind_it() -> None:
    """The cold way leads into a block that is never left: no counter will see the register."""
    cfg = named("A>B A>C C>A", "A", "C")
    counts = by_edge(cfg, {"A>B": 4, "A>C": 11, "C>A": 5, "ENTRY>A": 10, "C>EXIT": 6})
    plan = planned(cfg, list(map(int, counts)))
    assert plan.cold == {edge(cfg, "A>B")}
    assert plan.plan.uses_register
    assert poisoned(plan) == set()
    assert edge(cfg, "A>B") not in plan.plan.actions
    walks = [walk(cfg, "ACAC"), walk(cfg, "AC"), [*walk(cfg, "AC")[:-1], edge(cfg, "C>A"), 0]]
    counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(steps)) for steps in walks])
    assert sum(counters.paths.values()) == 4


def test_poison_where_a_count_is_behind_it() -> None:
    """The same with a way out of the cold block, to where paths are counted."""
    cfg = named("A>B A>C C>A B>C", "A", "C")
    counts = {"A>B": 4, "A>C": 11, "C>A": 8, "ENTRY>A": 7, "B>C": 4, "C>EXIT": 7}
    plan = planned(cfg, list(map(int, by_edge(cfg, counts))))
    assert plan.cold == {edge(cfg, "A>B")}
    assert poisoned(plan) == {edge(cfg, "A>B")}


def test_no_poison_on_a_cold_edge_to_where_hot_paths_are_not_counted() -> None:
    """Block 1 is entered from outside as well; the only paths through it are obvious."""
    cfg = graph(3, [(1, 0), (1, 2), (0, 1), (0, 2), (0, 2)], entries=(0, 1), exits=(0,))
    plan = planned(cfg, [5, 1, 1, 1, 4, 5, 5, 4])
    assert plan.cold == {1, 2, 3}
    assert 2 not in poisoned(plan) and poisoned(plan) == {1, 3}
