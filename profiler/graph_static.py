"""The part of `simprof graph`'s answer that no run is needed for (DESIGN section 9).

Lists by edge follow the answer's `edges`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler.cfg import ControlFlowGraph
from profiler.graph_pricing import Prices
from profiler.loops import DepthFirst
from profiler.schemes.pp import PathPlan
from profiler.schemes.qpt import EdgePlan
from profiler.spanning import SpanningTree


def describe(
    cfg: ControlFlowGraph, dfs: DepthFirst, plan: PathPlan | EdgePlan, prices: Prices
) -> dict[str, Any]:
    """Return `static`: what numbering, spanning tree and placement computed, with the code."""
    edges = range(len(cfg.edges))
    actions = plan.plan.actions
    static: dict[str, Any] = {
        "back_edges": [_ends(cfg, edge) for edge in sorted(dfs.back_edges)],
        "weights": list(plan.weights),
        "code": [[str(action) for action in actions.get(edge, ())] for edge in edges],
        "sparc": [list(prices.texts.get(edge, ())) for edge in edges],
        "costs": [prices.costs.get(edge, 0) for edge in edges],
    }
    if isinstance(plan, PathPlan):
        return static | _path_static(cfg, plan)
    return static | {"tree": list(plan.tree.in_tree), "dummy_edges": []}


def _path_static(cfg: ControlFlowGraph, plan: PathPlan) -> dict[str, Any]:
    """Return what numbering and placement computed; null for edges outside the acyclic graph."""
    numbering, increments = plan.numbering, plan.increments.increments
    real = [plan.dag.real.get(edge.id) for edge in cfg.edges]
    return {
        "num_paths": {str(block.label): numbering.num_paths[block.id] for block in cfg.blocks},
        "values": _by_edge(real, numbering.values),
        "tree": [edge is not None and plan.tree.in_tree[edge] for edge in real],
        "increments": _by_edge(real, increments),
        "cut_edges": [_ends(cfg, edge) for edge in plan.cut_edges],
        "dummy_edges": _dummies(cfg, plan, plan.tree),
        "valid_paths": plan.num_paths,
    }


def _by_edge(real: Sequence[int | None], values: Sequence[int]) -> list[int | None]:
    return [None if edge is None else values[edge] for edge in real]


def _dummies(cfg: ControlFlowGraph, plan: PathPlan, tree: SpanningTree) -> list[dict[str, Any]]:
    weights = plan.dag.edge_weights(plan.weights)
    return [
        {
            "from": cfg.vertex_name(edge.source),
            "to": cfg.vertex_name(edge.target),
            "for": list(edge.stands_for),
            "value": plan.numbering.values[edge.id],
            "increment": plan.increments.increments[edge.id],
            "weight": weights[edge.id],
            "tree": tree.in_tree[edge.id],
        }
        for edge in plan.dag.edges
        if edge.cfg_edge is None
    ]


def _ends(cfg: ControlFlowGraph, edge: int) -> list[int | str]:
    return [cfg.vertex_name(cfg.edges[edge].source), cfg.vertex_name(cfg.edges[edge].target)]
