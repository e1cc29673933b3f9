"""Plans of `wpp`: symbols in the order of the walk, on random graphs with calls."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.plan.interpret import ExecutedWalk, begin, execute, follow
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.schemes.wpp.planner import (
    MOST_PATHS,
    WholePathPlan,
    WriteConstantPath,
    WritePath,
    plan_wpp,
)
from tests.oracles.brute import (
    Path,
    back_edges,
    edge_counts,
    graph,
    random_graph,
    random_walk,
    split,
    structured_graph,
)

GRAPHS, LONG_GRAPHS = 150, 500


def with_calls(rng: random.Random, cfg: ControlFlowGraph) -> ControlFlowGraph:
    """Make calls of some edges that are the only way out of a block."""
    edges = tuple(
        edge._replace(kind=EdgeKind.CALL_RETURN)
        if edge.source < cfg.entry
        and edge.target < cfg.entry
        and len(cfg.out_edges[edge.source]) == 1
        and rng.random() < 0.6
        else edge
        for edge in cfg.edges
    )
    return replace(cfg, edges=edges)


def ending(cfg: ControlFlowGraph, plan: WholePathPlan) -> set[int]:
    """Edges that end paths: those the oracle finds, calls, and what the limit has cut."""
    calls = {edge.id for edge in cfg.edges if edge.kind is EdgeKind.CALL_RETURN}
    return back_edges(cfg) | calls | set(plan.cut_edges)


def check(cfg: ControlFlowGraph, plan: WholePathPlan, walks: list[list[int]]) -> None:
    plan.validate()
    ends = ending(cfg, plan)
    true: Counter[Path] = Counter()
    for walk in walks:
        execution = begin(plan.plan)
        written: list[tuple[int, ...]] = []
        # A call block is the last of its path, and that is written before the call.
        for place, edge in enumerate(walk, 1):
            before = len(execution.counted)
            follow(plan.plan, [edge], execution)
            done = split(cfg, walk[:place], ends)
            written += [plan.decode(c.counter).blocks for c in execution.counted[before:]]
            finished = [path for path in done if not path.partial]
            target = cfg.edges[edge].target
            out = [cfg.edges[e].kind for e in cfg.out_edges[target]] if target < cfg.entry else []
            expected = [path.blocks for path in finished]
            if out == [EdgeKind.CALL_RETURN]:
                expected.append(done[-1].blocks)
            assert written == expected
        true.update(split(cfg, walk, ends))
    counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(walk)) for walk in walks])
    reading = plan.read(counters)
    assert reading.edges == edge_counts(cfg, walks)
    found: Counter[Path] = Counter()
    for number, count in reading.paths.items():
        record = plan.decode(number)
        found[Path(record.blocks, record.edges, False)] += count
    for record, count in reading.partial.items():
        found[Path(record.blocks, record.edges, True)] += count
    assert found == true


@pytest.mark.parametrize("graphs", [GRAPHS, pytest.param(LONG_GRAPHS, marks=pytest.mark.long)])
@pytest.mark.parametrize("make", [random_graph, structured_graph])
def test_symbols_come_in_the_order_of_the_walk(make: object, graphs: int) -> None:
    calls = 0
    for seed in range(graphs):
        rng = random.Random(seed)
        cfg = with_calls(rng, make(rng))  # type: ignore[operator]
        plan = plan_wpp(cfg, path_limit=rng.choice((None, 1, 3, 10)))
        walks = [random_walk(rng, cfg) for _ in range(5)]
        check(cfg, plan, walks)
        calls += sum(cfg.edges[e].kind is EdgeKind.CALL_RETURN for walk in walks for e in walk)
    assert calls > graphs


def test_a_call_ends_a_path_and_a_loop_of_one_block_writes_a_turn() -> None:
    cfg = graph(4, [(0, 1), (1, 1), (1, 2), (2, 3)])
    cfg = replace(
        cfg,
        edges=tuple(
            edge._replace(kind=EdgeKind.CALL_RETURN) if edge[1:3] == (2, 3) else edge
            for edge in cfg.edges
        ),
    )
    plan = plan_wpp(cfg)
    assert plan.plan.table is CounterTable.STREAM
    entry, to_exit = cfg.out_edges[cfg.entry][0], cfg.in_edges[cfg.exit][0]
    execution = begin(plan.plan)
    follow(plan.plan, [entry, 0, 1, 1, 2], execution)
    written = [plan.decode(each.counter).blocks for each in execution.counted]
    assert written == [(0, 1), (1,), (1, 2)]  # that before the call is there already
    follow(plan.plan, [3, to_exit], execution)
    assert plan.decode(execution.counted[-1].counter).blocks == (3,)
    kinds = {type(action) for group in plan.plan.actions.values() for action in group}
    assert WriteConstantPath in kinds or WritePath in kinds


def test_a_routine_has_no_more_paths_than_symbols_allow() -> None:
    edges = [(2 * k + i, 2 * k + 2 + j) for k in range(20) for i in (0, 1) for j in (0, 1)]
    cfg = graph(42, edges, entries=(0,), exits=(41,))
    assert plan_wpp(cfg, path_limit=None).num_paths <= MOST_PATHS
