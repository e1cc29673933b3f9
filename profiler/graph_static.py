"""The part of `simprof graph`'s answer that no run is needed for (DESIGN section 9).

Lists by edge follow the answer's `edges`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profiler.cfg import ControlFlowGraph
from profiler.codegen import Snippet
from profiler.graph_answer import GraphRun
from profiler.plan import Action
from profiler.schemes.pp import PathPlan
from profiler.schemes.qpt import EdgePlan
from profiler.spanning import SpanningTree


def describe(run: GraphRun) -> dict[str, Any]:
    """Return `static`: what numbering, spanning tree and placement computed, with the code."""
    static = _code(run)
    plan = run.plan
    if isinstance(plan, PathPlan):
        return static | _path_static(run.cfg, plan)
    if isinstance(plan, EdgePlan):
        return static | {"tree": list(plan.tree.in_tree), "dummy_edges": []}
    return static


def _code(run: GraphRun) -> dict[str, Any]:
    """Return what is there in every mode."""
    cfg, plan, prices = run.cfg, run.plan.plan, run.prices
    edges = range(len(cfg.edges))
    static: dict[str, Any] = {
        "back_edges": [_ends(cfg, edge) for edge in sorted(run.dfs.back_edges)],
        "weights": list(run.plan.weights),
        "code": [[str(action) for action in plan.actions.get(edge, ())] for edge in edges],
        "sparc": [list(prices.texts.get(edge, ())) for edge in edges],
        "costs": [prices.costs.get(edge, 0) for edge in edges],
    }
    taken = {edge: snippet.taken_cost for edge, snippet in prices.code.snippets.items()}
    if any(taken.values()):
        static["taken_costs"] = [taken.get(edge, 0) for edge in edges]
    for place, actions, snippets in (
        ("block", plan.blocks, prices.code.block_snippets),
        ("block_end", plan.block_ends, prices.code.block_end_snippets),
    ):
        if actions:
            static[f"{place}_code"] = _block_actions(cfg, actions)
            static[f"{place}_sparc"] = _block_texts(cfg, snippets)
    return static


def _block_actions(
    cfg: ControlFlowGraph, actions: Mapping[int, tuple[Action, ...]]
) -> dict[str, list[str]]:
    """Block name -> what is done whenever the block is executed."""
    return {
        str(cfg.vertex_name(block)): [str(action) for action in actions[block]]
        for block in sorted(actions)
    }


def _block_texts(cfg: ControlFlowGraph, snippets: Mapping[int, Snippet]) -> dict[str, list[str]]:
    """Block name -> the code for that."""
    return {str(cfg.vertex_name(block)): list(snippets[block].text) for block in sorted(snippets)}


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
