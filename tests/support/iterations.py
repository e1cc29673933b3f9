"""Profiles of k-iteration paths compared with their definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import check
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.schemes.kiter.planner import IterationPlan
from tests.oracles.brute import Path
from tests.oracles.iterations import KLoop, split_iterations


def assert_profile_is_exact(
    cfg: ControlFlowGraph,
    plan: IterationPlan,
    walks: Sequence[Sequence[int]],
    loops: Sequence[KLoop],
) -> None:
    """Check what the plan reads of its counters against the paths of the walks."""
    counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(steps)) for steps in walks])
    reading = plan.read(counters)
    found: Counter[Path] = Counter()
    for path_id, count in reading.paths.items():
        assert count > 0
        record = plan.decode(path_id)
        found[Path(record.blocks, record.edges, False)] += count
    for record, count in reading.partial.items():
        assert record.partial
        found[Path(record.blocks, record.edges, True)] += count
    expected = Counter(
        path for steps in walks for path in split_iterations(cfg, steps, loops, plan.cut_edges)
    )
    assert found == expected
    true = Counter(step for steps in walks for step in steps)
    assert reading.edges == tuple(true[each.id] for each in cfg.edges)
    check(cfg, reading.all_edges or (), counters.early, activations=len(walks))
