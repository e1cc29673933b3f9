"""What the k-iteration plan was made from, for `simprof explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.kiter.planner import IterationPlan
from simprof.profiler.schemes.static import ROOT_EDGE, num_paths


def describe(plan: RoutinePlan) -> dict[str, Any]:
    """Return numbers by iteration: lists of one where an edge is in no iterated loop."""
    assert isinstance(plan, IterationPlan)
    cfg, unrolled, numbering = plan.cfg, plan.unrolled, plan.numbering
    increments, in_tree = plan.increments.increments, plan.tree.in_tree
    weights = unrolled.edge_weights(plan.weights)
    copies = [unrolled.by_cfg_edge.get(edge.id) for edge in cfg.edges]
    return {
        "loops": [
            {
                "head": str(cfg.name_of(loop.head)),
                "blocks": [str(cfg.name_of(block)) for block in sorted(loop.body)],
                "back_edges": list(loop.back_edges),
                "iterations": loop.iterations,
            }
            for loop in plan.loops
        ],
        "num_paths": num_paths(cfg, numbering.num_paths),
        "invalid_paths": num_paths(cfg, numbering.invalid_paths),
        "values": _by_iteration(copies, numbering.values),
        "compensation": _by_iteration(copies, numbering.compensation),
        "tree": _by_iteration(copies, in_tree),
        "root_edge": ROOT_EDGE,
        "increments": _by_iteration(copies, increments),
        "dummy_edges": [
            {
                "from": str(cfg.name_of(unrolled.copies[edge.source].vertex)),
                "to": str(cfg.name_of(unrolled.copies[edge.target].vertex)),
                "for": list(edge.stands_for),
                "iteration": edge.iteration,
                "value": numbering.values[edge.id],
                "compensation": numbering.compensation[edge.id],
                "increment": increments[edge.id],
                "weight": weights[edge.id],
                "tree": in_tree[edge.id],
            }
            for edge in unrolled.edges
            if edge.cfg_edge is None
        ],
    }


def _by_iteration(
    copies: Sequence[tuple[int, ...] | None], values: Sequence[int]
) -> list[list[int] | None]:
    return [None if each is None else [values[copy] for copy in each] for each in copies]
