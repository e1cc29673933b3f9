"""Graph files to and from networkx's `MultiDiGraph`.

Attributes
----------
graph
    `name`; `entry` and `exit`, the names of the first and the last block; `runs`, the graph
    file's runs as JSON text (a list is read too).
node
    The block's name. `instructions`, 1 where not given; `vertex`, its number among the blocks,
    which the graph's order tells where it is not given. In place of the graph's `entry` and
    `exit`, the attribute `role` of a node may be "entry" or "exit", as in graphs that
    `graphs.interchange` makes of recovered routines.
edge
    `weight`, where given. `id`, the edge's place in the file's `edges`; without, edges come as
    `graphs.interchange.ordered_edges` says.

Other attributes are left alone. A graph is checked as a graph file is, by `reader.parse`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simprof.profiler.graphfiles.reader import GraphDocument, GraphFileError, parse
from simprof.profiler.graphs.interchange import (
    InterchangeError,
    number,
    only_node,
    ordered_edges,
    ordered_nodes,
)
from simprof.profiler.profiles.codec import parse_json

if TYPE_CHECKING:
    import networkx as nx


def to_networkx(document: GraphDocument) -> nx.MultiDiGraph:
    """Return a graph with the attributes that the module describes."""
    import networkx as nx

    cfg = document.cfg
    inner = cfg.edges[: len(document.weights)]
    first, last = cfg.edges[len(inner) :]
    graph = nx.MultiDiGraph(
        name=cfg.name, entry=cfg.name_of(first.target).start, exit=cfg.name_of(last.source).start
    )
    if document.walks:
        runs = [[{"edges": list(walk.edges[1:-1])}, walk.count] for walk in document.walks]
        graph.graph["runs"] = json.dumps(runs)
    for block in cfg.blocks:
        graph.add_node(block.label, vertex=block.id, instructions=block.instructions)
    for edge, weight in zip(inner, document.weights, strict=True):
        source, target = cfg.name_of(edge.source).start, cfg.name_of(edge.target).start
        attributes = {"id": edge.id} if weight is None else {"id": edge.id, "weight": weight}
        graph.add_edge(source, target, key=edge.id, **attributes)
    return graph


def from_networkx(graph: nx.MultiDiGraph, file: str = "graph", sha256: str = "") -> GraphDocument:
    """Return the graph file that `graph` stands for.

    Parameters
    ----------
    graph
        Any directed graph of networkx with an entry and an exit.
    file, sha256
        Where it comes from, for messages and answers.

    Raises
    ------
    GraphFileError
        Naming `file` and the place in it.
    """
    if not graph.is_directed():
        raise GraphFileError(f"{file}: the graph is not directed; control flow is")
    try:
        document = _document(graph, file)
    except InterchangeError as error:
        raise GraphFileError(f"{file}: {error}") from error
    return parse(document, file, sha256)


def _document(graph: nx.MultiDiGraph, file: str) -> dict[str, Any]:
    """Return the graph as the JSON object of a graph file."""
    nodes = ordered_nodes(graph)
    blocks = {str(node): number(data.get("instructions", 1)) for node, data in nodes.items()}
    if len(blocks) < len(nodes):
        raise GraphFileError(f"{file}: two nodes have the same name when written as text")
    edges = []
    for source, target, data in ordered_edges(graph):
        weight = number(data.get("weight"))
        ends = [str(source), str(target)]
        edges.append(ends if weight is None else [*ends, weight])
    document = {"blocks": blocks, "edges": edges, "runs": _runs(graph.graph.get("runs"), file)}
    for role in ("entry", "exit"):
        document[role] = _end(graph.graph, nodes, role)
    if graph.graph.get("name"):
        document["name"] = graph.graph["name"]
    return document


def _end(attributes: Mapping[str, Any], nodes: Mapping[Any, Mapping[str, Any]], role: str) -> str:
    given = attributes.get(role)
    if given is not None:
        return str(given)
    try:
        return str(only_node(nodes, role))
    except InterchangeError as error:
        raise InterchangeError(
            f"the graph has no attribute {role!r}, and {error}, or name the node in the graph's"
        ) from None


def _runs(runs: object, file: str) -> object:
    if runs is None:
        return []
    if not isinstance(runs, str):
        return runs
    try:
        return parse_json(runs)
    except (ValueError, RecursionError) as error:
        raise GraphFileError(f"{file}: runs: not JSON: {error}") from error
