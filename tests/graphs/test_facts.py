"""The facts that reports give of a graph, against plain enumeration and on the papers' figures."""

import random

import pytest

from simprof.profiler.graphs.facts import GraphFacts, graph_facts
from simprof.profiler.schemes.pp.planner import plan_pp
from tests.oracles.brute import all_paths, back_edges, random_graph
from tests.support.figures import epp_1, named


def test_figure_1_of_epp_has_six_paths() -> None:
    assert graph_facts(epp_1()) == GraphFacts(
        blocks=6, edges=10, back_edges=0, irreducible=False, potential_paths=6
    )


def test_a_loop_with_two_entries_is_irreducible() -> None:
    facts = graph_facts(named("A>B A>C B>C C>B C>D", "A", "D"))
    assert facts.irreducible
    assert facts.back_edges == 1


@pytest.mark.seeds(range(60))
def test_paths_are_counted_before_any_edge_is_cut(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    facts = graph_facts(cfg)
    assert facts.potential_paths == len(all_paths(cfg))
    assert facts.potential_paths == plan_pp(cfg, path_limit=None).num_paths
    assert facts.back_edges == len(back_edges(cfg))
