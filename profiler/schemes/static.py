"""Common parts of `static`, the facts of plans in `simprof explain`.

Lists by edge follow the graph's edges; they have null where a scheme has nothing for the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag, DagEdge
from simprof.profiler.graphs.numbering import PathNumbering
from simprof.profiler.graphs.spanning import ChordIncrements, SpanningTree

# What joins the halves of a spanning tree: no edge of the graph, and no code can be on it. Where
# it is a chord (`root_increment`), code of its own is in EXIT.
ROOT_EDGE = ["EXIT", "ENTRY"]


def end_names(cfg: ControlFlowGraph, edge: int) -> list[str]:
    """Return the names of an edge's source and target."""
    return [str(cfg.name_of(vertex)) for vertex in cfg.edges[edge][1:3]]


def by_block(cfg: ControlFlowGraph, numbers: Sequence[int]) -> dict[str, int]:
    """Return numbers by vertex as numbers by block name."""
    return {str(cfg.name_of(block.id)): numbers[block.id] for block in cfg.blocks}


def describe_tree(tree: SpanningTree) -> dict[str, Any]:
    """Return which edges of the routine are in the spanning tree that chose the counted ones."""
    return {"tree": list(tree.in_tree), "root_edge": ROOT_EDGE}


def describe_acyclic(
    dag: Dag,
    edge_weights: Sequence[float],
    numbering: PathNumbering,
    tree: SpanningTree,
    chord_increments: ChordIncrements,
) -> dict[str, Any]:
    """Return what numbering and placement computed on the acyclic graph that is instrumented."""
    cfg, increments = dag.cfg, chord_increments.increments
    real = [dag.real.get(edge.id) for edge in cfg.edges]
    weights = dag.edge_weights(edge_weights)
    root = {} if tree.root_edge else {"root_increment": chord_increments.root}
    return {
        "num_paths": by_block(cfg, numbering.num_paths),
        "values": by_edge(real, numbering.values),
        "order": numbering.rule.value,
        "tree": [edge is not None and tree.in_tree[edge] for edge in real],
        "root_edge": ROOT_EDGE,
        **root,
        "increments": by_edge(real, increments),
        "dummy_edges": [
            describe_dummy(cfg, edge)
            | {
                "value": numbering.values[edge.id],
                "increment": increments[edge.id],
                "weight": weights[edge.id],
                "tree": tree.in_tree[edge.id],
            }
            for edge in dag.dummies
        ],
    }


def by_edge(real: Sequence[int | None], values: Sequence[int]) -> list[int | None]:
    """Return values by dag edge as values by edge; `real` is the dag edge of each, or None."""
    return [None if edge is None else values[edge] for edge in real]


def describe_dummy(cfg: ControlFlowGraph, edge: DagEdge) -> dict[str, Any]:
    """Return a dummy edge's ends, and the edges that it stands for."""
    return {
        "from": str(cfg.name_of(edge.source)),
        "to": str(cfg.name_of(edge.target)),
        "for": list(edge.stands_for),
    }
