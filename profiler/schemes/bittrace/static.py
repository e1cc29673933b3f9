"""What bit tracing's plan was made from, for `simprof explain`."""

from __future__ import annotations

from typing import Any

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.bittrace.planner import BitTracePlan
from simprof.profiler.schemes.static import by_edge, dummies, dummy, num_paths


def describe(plan: RoutinePlan) -> dict[str, Any]:
    """Return the label, and its bits, that each edge appends; initial values of path starts."""
    assert isinstance(plan, BitTracePlan)
    cfg, dag, codes = plan.cfg, plan.dag, plan.codes
    real = [dag.real.get(edge.id) for edge in cfg.edges]
    labels = [codes.labels[edge.id] for edge in dag.edges]
    widths = [codes.widths[edge.source] for edge in dag.edges]
    return {
        "num_paths": num_paths(cfg, plan.numbering.num_paths),
        "labels": by_edge(real, labels),
        "bits": by_edge(real, widths),
        "words": codes.word_count,
        "largest_code": codes.largest,
        "dummy_edges": [
            dummy(cfg, edge)
            | {
                "label": labels[edge.id],
                "bits": widths[edge.id],
                "initial": codes.initial.get(edge.id),
            }
            for edge in dummies(dag)
        ],
    }
