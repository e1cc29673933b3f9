"""Plans as they are kept: what was made of numbers of any size is there again, and nothing more."""

from __future__ import annotations

import random

import pytest

from simprof.profiler.graphs.compact import compact
from simprof.profiler.profiles.cache_files import dumps, loads
from simprof.profiler.schemes.kiter.planner import plan_kiter
from simprof.profiler.schemes.pp.planner import plan_pp
from tests.oracles.brute import graph, random_graph


@pytest.mark.parametrize(
    ("greatest", "kind"), [(1 << 15, "i"), (1 << 31, "q"), ((1 << 15) - 1, "h")]
)
def test_the_shortest_kind_is_taken(greatest: int, kind: str) -> None:
    found = compact([greatest, -3])
    assert not isinstance(found, tuple)
    assert (found.typecode, found.tolist()) == (kind, [greatest, -3])
    assert compact((1 << 63, 0)) == (1 << 63, 0)


@pytest.mark.seeds(range(40))
def test_kept_plans_are_the_plans(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    for plan in (plan_pp(cfg), plan_kiter(cfg)):
        again = loads(dumps(plan, cfg), cfg)
        assert again == plan
        again.validate()
        assert again.dag.columns == plan.dag.columns
        assert again.dag.edges == plan.dag.edges


def test_kept_numbers_beyond_a_word_are_exact() -> None:
    edges = []
    for top in range(0, 210, 3):
        edges += [(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]
    plan = plan_pp(graph(211, edges), path_limit=None, total_limit=None)
    again = loads(dumps(plan))
    assert again == plan and again.numbering.total == 1 << 70
    last = again.numbering.total - 1
    assert again.numbering.decode(last) == plan.numbering.decode(last)
