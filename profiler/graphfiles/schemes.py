"""What each scheme computes on a graph, for `static` of `simprof graph`'s answer.

Lists by edge have null where a scheme has nothing for the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler.graphfiles.answer import GraphRun
from profiler.graphs.cfg import ControlFlowGraph
from profiler.graphs.dag import Dag, DagEdge
from profiler.schemes.bittrace.planner import BitTracePlan
from profiler.schemes.cs6120.planner import CallsPlan
from profiler.schemes.kiter.planner import IterationPlan
from profiler.schemes.pp.planner import PathPlan
from profiler.schemes.qpt.planner import EdgeHeuristicPlan, EdgePlan, VertexPlan
from profiler.schemes.tpp.planner import TppPlan
from profiler.schemes.tracing.planner import TracePlan


def structures(run: GraphRun) -> dict[str, Any]:
    """Return what the scheme's plan was made from."""
    cfg, plan = run.cfg, run.plan
    match plan:
        case PathPlan():
            return _acyclic(cfg, plan)
        case BitTracePlan():
            return _branch_codes(cfg, plan)
        case IterationPlan():
            return _iterations(cfg, plan)
        case TppPlan():
            return _acyclic(cfg, plan) | _targeted(cfg, plan)
        case EdgePlan():
            return {"tree": list(plan.tree.in_tree), "dummy_edges": []}
        case EdgeHeuristicPlan():
            counted = {"counted_edges": list(plan.counted), "removed_counters": list(plan.removed)}
            return {"tree": list(plan.tree.in_tree)} | counted
        case VertexPlan():
            return {"counted_blocks": [cfg.vertex_name(block) for block in plan.counted]}
        case CallsPlan():
            return _calls(cfg, plan)
        case TracePlan():
            return _trace(cfg, plan)
    return {}


def ends(cfg: ControlFlowGraph, edge: int) -> list[int | str]:
    """Names of an edge's source and target."""
    return [cfg.vertex_name(cfg.edges[edge].source), cfg.vertex_name(cfg.edges[edge].target)]


def _num_paths(cfg: ControlFlowGraph, numbers: Sequence[int]) -> dict[str, int]:
    return {str(cfg.vertex_name(block.id)): numbers[block.id] for block in cfg.blocks}


def _acyclic(cfg: ControlFlowGraph, plan: PathPlan | TppPlan) -> dict[str, Any]:
    """Return what numbering and placement computed on the acyclic graph that is instrumented."""
    numbering, increments = plan.numbering, plan.increments.increments
    real = [plan.dag.real.get(edge.id) for edge in cfg.edges]
    weights = plan.dag.edge_weights(plan.weights)
    return {
        "num_paths": _num_paths(cfg, numbering.num_paths),
        "values": _by_edge(real, numbering.values),
        "tree": [edge is not None and plan.tree.in_tree[edge] for edge in real],
        "increments": _by_edge(real, increments),
        "dummy_edges": [
            _dummy(cfg, edge)
            | {
                "value": numbering.values[edge.id],
                "increment": increments[edge.id],
                "weight": weights[edge.id],
                "tree": plan.tree.in_tree[edge.id],
            }
            for edge in _dummies(plan.dag)
        ],
    }


def _by_edge(real: Sequence[int | None], values: Sequence[int]) -> list[int | None]:
    return [None if edge is None else values[edge] for edge in real]


def _dummies(dag: Dag) -> list[DagEdge]:
    return [edge for edge in dag.edges if edge.cfg_edge is None]


def _dummy(cfg: ControlFlowGraph, edge: DagEdge) -> dict[str, Any]:
    return {
        "from": cfg.vertex_name(edge.source),
        "to": cfg.vertex_name(edge.target),
        "for": list(edge.stands_for),
    }


def _targeted(cfg: ControlFlowGraph, plan: TppPlan) -> dict[str, Any]:
    """Return what TPP leaves out; `cold` edges are those on no hot path, `obvious` paths by id."""
    hot = plan.graphs.hot
    kept = set(hot.real) | {removed for edge in hot.edges for removed in edge.stands_for}
    live = {edge.id for edge in cfg.edges if edge.source in hot.dfs.reached} - hot.dfs.self_loops
    return {
        "edge_profile": list(plan.edge_profile),
        "cold": [edge.id in live - kept for edge in cfg.edges],
        "locally_cold": [ends(cfg, edge) for edge in sorted(plan.cold)],
        "disconnected_loops": [
            {
                "blocks": [cfg.vertex_name(block) for block in sorted(loop.body)],
                "entries": [ends(cfg, edge) for edge in loop.entries],
                "exits": [ends(cfg, edge) for edge in loop.exits],
            }
            for loop in plan.disconnection.loops
        ],
        "counted_paths": plan.numbering.total,
        "obvious": list(range(plan.numbering.total, plan.num_paths)),
    }


def _branch_codes(cfg: ControlFlowGraph, plan: BitTracePlan) -> dict[str, Any]:
    """Return the label, and its bits, that each edge appends; initial values of path starts."""
    dag, codes = plan.dag, plan.codes
    real = [dag.real.get(edge.id) for edge in cfg.edges]
    labels = [codes.labels[edge.id] for edge in dag.edges]
    widths = [codes.widths[edge.source] for edge in dag.edges]
    return {
        "num_paths": _num_paths(cfg, plan.numbering.num_paths),
        "labels": _by_edge(real, labels),
        "bits": _by_edge(real, widths),
        "words": codes.word_count,
        "largest_code": codes.largest,
        "dummy_edges": [
            _dummy(cfg, edge)
            | {
                "label": labels[edge.id],
                "bits": widths[edge.id],
                "initial": codes.initial.get(edge.id),
            }
            for edge in _dummies(dag)
        ],
    }


def _iterations(cfg: ControlFlowGraph, plan: IterationPlan) -> dict[str, Any]:
    """Return numbers by iteration: lists of one where an edge is in no iterated loop."""
    unrolled, numbering = plan.unrolled, plan.numbering
    increments, in_tree = plan.increments.increments, plan.tree.in_tree
    weights = unrolled.edge_weights(plan.weights)
    copies = [unrolled.by_cfg_edge.get(edge.id) for edge in cfg.edges]
    return {
        "loops": [
            {
                "head": cfg.vertex_name(loop.head),
                "blocks": [cfg.vertex_name(block) for block in sorted(loop.body)],
                "back_edges": list(loop.back_edges),
                "iterations": loop.iterations,
            }
            for loop in plan.loops
        ],
        "num_paths": _num_paths(cfg, numbering.num_paths),
        "invalid_paths": _num_paths(cfg, numbering.invalid_paths),
        "values": _by_iteration(copies, numbering.values),
        "compensation": _by_iteration(copies, numbering.compensation),
        "tree": _by_iteration(copies, in_tree),
        "increments": _by_iteration(copies, increments),
        "dummy_edges": [
            {
                "from": cfg.vertex_name(unrolled.copies[edge.source].vertex),
                "to": cfg.vertex_name(unrolled.copies[edge.target].vertex),
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


def _calls(cfg: ControlFlowGraph, plan: CallsPlan) -> dict[str, Any]:
    """Return the logged edges' pairs of numbers, and where `logdisrupt` is called."""
    pairs: list[list[int] | None] = [None] * len(cfg.edges)
    for pair in plan.logged:
        pairs[pair.edge] = [pair.source, pair.destination]
    disrupted = plan.disrupted
    static: dict[str, Any] = {
        "pairs": pairs,
        "disrupted_blocks": [cfg.vertex_name(block) for block in sorted(disrupted.blocks)],
        "disrupted_edges": sorted(disrupted.edges),
    }
    return static if plan.tree is None else static | {"tree": list(plan.tree.in_tree)}


def _trace(cfg: ControlFlowGraph, plan: TracePlan) -> dict[str, Any]:
    """Return the value and the bits that each edge writes, and the least that would do."""
    tokens = [plan.tokens.get(edge.id) for edge in cfg.edges]
    return {
        "witnesses": [None if token is None else token.value for token in tokens],
        "bits": [None if token is None else token.width for token in tokens],
        "minimal_width": plan.minimal_width,
        "tree": list(plan.tree.in_tree),
    }
