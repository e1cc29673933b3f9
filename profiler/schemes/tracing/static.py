"""What a trace plan was made from, for `simprof explain`."""

from __future__ import annotations

from typing import Any

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.tracing.planner import TracePlan


def describe(plan: RoutinePlan) -> dict[str, Any]:
    """Return the value and the bits that each edge writes, and the least that would do."""
    assert isinstance(plan, TracePlan)
    cfg = plan.cfg
    tokens = [plan.tokens.get(edge.id) for edge in cfg.edges]
    return {
        "witnesses": [None if token is None else token.value for token in tokens],
        "bits": [None if token is None else token.width for token in tokens],
        "minimal_width": plan.minimal_width,
        "tree": list(plan.tree.in_tree),
    }
