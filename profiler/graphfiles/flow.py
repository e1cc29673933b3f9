"""What an edge profile tells of the paths of a graph file's runs: for the answer.

Two numbers, both weighted by the lengths of paths in blocks:

- *definite flow* of schemes that count all acyclic paths: what of these the runs' edge profile
  alone tells (`profiles.definite`);
- *attribution* of schemes that are judged by another (`tpp` by `pp`): what of that one's profile
  the scheme tells rightly (`profiles.accuracy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simprof.profiler.plan.decoders import Reading
from simprof.profiler.plan.path_plan import AcyclicPathPlan
from simprof.profiler.profiles.definite import EdgeFlow, definite_flow


def edge_flow(plan: AcyclicPathPlan, crossings: Sequence[int]) -> EdgeFlow:
    """Return the runs' edge profile on the acyclic graph of a plan."""
    return EdgeFlow(plan.cfg, frozenset(plan.dag.removed), crossings)


def definite_object(
    plan: AcyclicPathPlan, crossings: Sequence[int], reading: Reading
) -> dict[str, Any]:
    """Return `definite_flow` of the answer.

    Parameters
    ----------
    plan, reading
        The scheme on the graph, and what its counters tell.
    crossings
        By edge id: how often the runs crossed it.
    """
    records = ((plan.decode(path), count) for path, count in reading.paths.items())
    paths = ((record.blocks[0], record.edges, count) for record, count in records)
    flow = definite_flow(plan.cfg, frozenset(plan.dag.removed), crossings, paths)
    return {
        "executions": flow.executions,
        "definite_executions": flow.definite_executions,
        "blocks": flow.blocks,
        "definite_blocks": flow.definite_blocks,
        "share": flow.share,
    }
