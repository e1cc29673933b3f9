"""`fifo`: its plans, and what windows tell of paths and edges."""

from __future__ import annotations

from collections import Counter

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import CountConstantPath, CountEdge, CountPath, SetRegister
from simprof.profiler.plan.decoders import Reading
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.schemes.bittrace.code import CountWords, ShiftRecord, StartWords
from simprof.profiler.schemes.bittrace.planner import FifoPlan, plan_fifo
from tests.oracles.brute import graph
from tests.support.figures import EPP_1_PROFILES, edge, epp_1, epp_2, letters, walk


def read(plan: FifoPlan, walks: list[list[int]]) -> Reading:
    plan.validate()
    counted = Counter(map(tuple, walks))
    executed = [ExecutedWalk(steps, count) for steps, count in counted.items()]
    return plan.read(execute(plan.cfg, plan.plan, executed))


def windows(cfg: ControlFlowGraph, k: int, walks: list[list[int]]) -> dict[str, int]:
    plan = plan_fifo(cfg, branches=k)
    found: Counter[str] = Counter()
    for number, count in read(plan, walks).paths.items():
        found[letters(cfg, plan.decode(number).blocks)] += count
    return dict(found)


def test_windows_over_a_back_edge() -> None:
    """EPP section 2: cyclic paths are truncated like acyclic ones, at the boundary of the FIFO."""
    cfg = epp_2()
    found = windows(cfg, 3, [walk(cfg, "ABDF" + "ACDEF")])
    assert found == dict.fromkeys(("AB", "ABD", "ABDF", "BDFA", "DFAC", "FACDE", "ACDEF"), 1)


def test_figure_1_has_profiles_that_edges_do_not_tell_apart() -> None:
    """EPP figure 1: both profiles have the same edges, and other windows."""
    cfg = epp_1()
    profiles = [
        [walk(cfg, path) for path, counts in EPP_1_PROFILES.items() for _ in range(counts[number])]
        for number in (0, 1)
    ]
    plans = [read(plan_fifo(cfg, branches=3), walks) for walks in profiles]
    assert plans[0].edges == plans[1].edges
    assert windows(cfg, 1, profiles[0]) == windows(cfg, 1, profiles[1])
    assert windows(cfg, 3, profiles[0]) != windows(cfg, 3, profiles[1])


@pytest.mark.parametrize(("k", "words"), [(2, 1), (10, 1), (11, 2), (21, 3)])
def test_every_branch_shifts_and_counts(k: int, words: int) -> None:
    cfg = epp_1()
    plan = plan_fifo(cfg, branches=k).plan
    start = plan.actions[edge(cfg, "ENTRY>A")]
    kinds = [type(action) for action in plan.actions[edge(cfg, "B>D")]]
    assert plan.table is CounterTable.HASH
    assert plan.registers == plan.key_words == words
    if words == 1:
        assert start == (SetRegister(7),)
        assert kinds == [ShiftRecord, CountPath]
    else:
        assert start == (StartWords(0, words - 1, 7, words),)
        assert kinds == [ShiftRecord, CountWords]
    assert edge(cfg, "C>D") not in plan.actions


def test_one_branch_needs_no_register() -> None:
    plan = plan_fifo(epp_1(), branches=1).plan
    assert not plan.uses_register
    actions = [action for each in plan.actions.values() for action in each]
    assert actions == [CountConstantPath(record) for record in range(1, 7)]


def test_without_a_branch_an_edge_is_counted() -> None:
    """Straight code, and a cycle that nothing leaves: no window tells their counts."""
    straight = plan_fifo(graph(2, [(0, 1)]), branches=4)
    assert straight.plan.table is CounterTable.NONE
    assert [a for each in straight.plan.actions.values() for a in each] == [CountEdge(0)]
    cfg = graph(3, [(0, 1), (0, 2), (1, 1)], exits=(2,))
    plan = plan_fifo(cfg, branches=4)
    turns = [out for out in cfg.out_edges[1] if cfg.edges[out].target == 1]
    assert plan.edge_counters == tuple(turns)


def test_what_does_not_fit_is_lost_by_name() -> None:
    ways = [(0, k) for k in range(1, 41)] + [(k, 41) for k in range(1, 41)]
    cfg = graph(42, [*ways, (41, 0)])
    plan = plan_fifo(cfg, branches=21)
    assert read(plan, []).lost == {"limited_routines": 1}
    assert plan.codes.branches == 20
    assert plan.untruncated_paths > plan.num_paths
    assert read(plan_fifo(cfg, branches=20), []).lost == {}
