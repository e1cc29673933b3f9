"""What is found of all graphs of a program in one call, beside what is found of each alone."""

from __future__ import annotations

import random

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.columns import columns_of
from simprof.profiler.graphs.loops import depth_first, survey
from simprof.profiler.graphs.numbering import graph_facts
from simprof.profiler.graphs.packed import PackedGraphs
from simprof.profiler.graphs.paths import number_paths
from simprof.profiler.graphs.plan_calls import LIMIT
from simprof.profiler.request.weights import Guess
from simprof.simulator.cpu import compiled
from tests.oracles import planning
from tests.oracles.brute import diamonds, random_graph, structured_graph


@pytest.fixture(params=["machine code", "Python"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the kernel run in one of the two ways."""
    if request.param == "Python":
        monkeypatch.setattr(compiled, "native", lambda function: None)
    elif compiled.is_plain():
        pytest.skip("NUMBA_DISABLE_JIT is set")


@pytest.mark.usefixtures("by")
def test_columns_are_what_is_found_of_each_graph_alone() -> None:
    rng = random.Random(11)
    made = [random_graph(rng, rng.choice((3, 9, 25))) for _ in range(30)]
    made += [structured_graph(rng) for _ in range(10)] + [diamonds(count) for count in (3, 62, 64)]
    alone = [
        ControlFlowGraph(f"f{n}", 4 * n, 0, each.blocks, each.edges) for n, each in enumerate(made)
    ]
    for cfg, given in zip(PackedGraphs.of(alone), alone, strict=True):
        assert cfg == given
        assert survey(cfg)[:3] == survey(given)[:3]
        assert graph_facts(cfg) == graph_facts(given)
        slow = planning.search(cfg)
        assert survey(cfg).heuristic == tuple(planning.heuristic(cfg, slow, Guess()))
        assert survey(cfg).proper == planning.proper_back_edges(cfg, slow)
        known = planning.dag(cfg, slow, [], [])
        assert graph_facts(cfg).potential_paths == planning.number(known)[0][cfg.entry]
        dfs, weights = depth_first(cfg), survey(cfg).heuristic
        for limit in (None, 7, 1000):
            found, other = (
                number_paths(cfg, dfs, each, path_limit=limit, total_limit=limit)
                for each in (weights, [*weights])  # a list: others', so that it is planned alone
            )
            assert found == other
            assert found.numbering.order == other.numbering.order


@pytest.mark.usefixtures("by")
def test_numbers_beyond_a_word_are_marked() -> None:
    small, large = (columns_of(diamonds(count)).most for count in (60, 62))
    assert (small, large) == (1 << 60, LIMIT)
