"""What guides a scheme on a graph file: edge weights, and `tpp`'s edge profile.

Terms: the *file's weights* are those that its edges carry. ENTRY and EXIT edges, which a file
cannot name, get what the flow law gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any, TypeVar

from simprof.profiler.graphfiles.reader import GraphDocument, read_file
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.weights import heuristic, postorder, uniform
from simprof.profiler.profiles.codec import parse_json
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.request.request import Weights

Number = TypeVar("Number", int, float)

GREATEST_COUNT = 10**300
"""Counts of an edge profile are at most this, so that shares of them are finite."""


def edge_weights(document: GraphDocument, wanted: Weights | None) -> tuple[float, ...] | None:
    """Return weights by edge id.

    Parameters
    ----------
    document
        The graph.
    wanted
        None for the file's own, completed by the heuristic's.

    Returns
    -------
    tuple[float, ...] or None
        None where nothing was asked for and the file has none: the scheme's own choice.
    """
    cfg = document.cfg
    if wanted is Weights.UNIFORM:
        return uniform(cfg, depth_first(cfg))
    if wanted is Weights.POSTORDER:
        return tuple(map(float, postorder(cfg, depth_first(cfg))))
    if wanted is Weights.HEURISTIC:
        return heuristic(cfg, depth_first(cfg))
    if all(weight is None for weight in document.weights):
        return None
    weights = list(heuristic(cfg, depth_first(cfg)))
    for edge, weight in enumerate(document.weights):
        if weight is not None:
            weights[edge] = float(weight)
    _close(cfg, weights)
    return tuple(weights)


def edge_profile(document: GraphDocument, file: Path | None) -> tuple[int, ...]:
    """Return the edge profile that guides `tpp`, by edge id.

    Parameters
    ----------
    document
        The graph.
    file
        An answer of `simprof graph --json` whose counts are used; None for those of the graph's
        own runs, or, if it has none but edges with weights, these in proportion.

    Raises
    ------
    ProfileMismatchError
        If the file holds no edge counts of this graph.
    """
    if file is not None:
        return _saved_profile(document, file)
    if document.walks or all(weight is None for weight in document.weights):
        return crossings(document)
    values = [Fraction(weight or 0) for weight in document.weights]
    scale = lcm(*(value.denominator for value in values))
    scale = min(scale, max(GREATEST_COUNT // int(sum(values) + 1), 1))
    counts = [int(value * scale) for value in values] + [scale, scale]
    _close(document.cfg, counts)
    return tuple(counts)


def crossings(document: GraphDocument) -> tuple[int, ...]:
    """How often the graph's runs cross each edge."""
    counts = [0] * len(document.cfg.edges)
    for walk in document.walks:
        for edge in walk.edges:
            counts[edge] += walk.count
    return tuple(counts)


def _close(cfg: ControlFlowGraph, flow: list[Number]) -> None:
    """Give the ENTRY and the EXIT edge, which are last, what the flow law gives them.

    Where both are at one block only their difference is known: what they have is kept.
    """
    nothing = flow[0] * 0
    balance = [nothing] * cfg.vertex_count
    entry_edge, exit_edge = cfg.edges[-2:]
    for edge in cfg.edges[:-2]:
        balance[edge.source] += flow[edge.id]
        balance[edge.target] -= flow[edge.id]
    if entry_edge.target != exit_edge.source:
        flow[entry_edge.id] = max(balance[entry_edge.target], nothing)
        flow[exit_edge.id] = max(-balance[exit_edge.source], nothing)


def _saved_profile(document: GraphDocument, file: Path) -> tuple[int, ...]:
    """Find the answer about this graph among the lines of `file`."""
    cfg = document.cfg
    wanted = [
        (cfg.name_of(edge.source).as_json(), cfg.name_of(edge.target).as_json())
        for edge in cfg.edges
    ]
    answers = _answers(file)
    for answer in answers:
        edges = answer.get("edges")
        if not isinstance(edges, list) or not all(isinstance(edge, Mapping) for edge in edges):
            continue
        if [(edge.get("source"), edge.get("target")) for edge in edges] == wanted:
            counts = [edge.get("count") for edge in edges]
            if _are_counts(counts):
                return tuple(counts)
            raise ProfileMismatchError(
                f"{file}: has no whole edge counts of {cfg.name!r}: make the profile with a mode "
                "that counts edges"
            )
    raise ProfileMismatchError(
        f"{file}: is no edge profile of the graph {cfg.name!r}: make one with "
        "`simprof graph --json`"
    )


def _answers(file: Path) -> list[Mapping[str, Any]]:
    try:
        lines = [parse_json(line) for line in read_file(file).splitlines() if line.strip()]
    except (ValueError, RecursionError):
        lines = []
    return [line for line in lines if isinstance(line, Mapping)]


def _are_counts(counts: Sequence[object]) -> bool:
    return all(
        isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= GREATEST_COUNT
        for count in counts
    )
