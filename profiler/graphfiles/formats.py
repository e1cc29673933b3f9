"""A graph from a file, in simprof's own format or in one that networkx reads.

Steps
-----
1. `load` chooses by the file's name: `.graphml`, `.gml`, and JSON otherwise. JSON with `nodes`, and
   `links` or `edges` that are objects, is node-link data; all other JSON is `reader`'s.
2. `_check_xml` lets no document type pass (its entities can grow to any size), nor what networkx
   would merge or leave out without a word.
3. networkx reads the file; `interchange.from_networkx` says which attributes count.

networkx is imported for its own formats only.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from profiler.graphfiles.reader import GraphDocument, GraphFileError, parse, parse_json, read_file

if TYPE_CHECKING:
    import networkx as nx

DEEPEST_ELEMENT = 100
"""XML elements within each other; GraphML needs five."""


def load(path: Path) -> GraphDocument:
    """Read the graph file `path`.

    Raises
    ------
    GraphFileError
        Naming the file and the place in it, if it cannot be read or is no graph file.
    """
    data = read_file(path)
    sha256 = hashlib.sha256(data).hexdigest()
    suffix = path.suffix.lower()
    if suffix == ".graphml":
        graph = _library(lambda: _read_graphml(data, path), path, "GraphML")
    elif suffix == ".gml":
        graph = _library(lambda: _read_gml(data), path, "GML")
    else:
        document = parse_json(data, path)
        if not is_node_link(document):
            return parse(document, str(path), sha256)
        graph = _library(lambda: _read_node_link(document), path, "node-link data")
    from profiler.graphfiles.interchange import from_networkx

    return from_networkx(graph, str(path), sha256)


def is_node_link(document: object) -> bool:
    """Whether a JSON document is node-link data, and no graph file of our own."""
    if not isinstance(document, Mapping) or not isinstance(document.get("nodes"), list):
        return False
    edges = document.get("links", document.get("edges"))
    return isinstance(edges, list) and all(isinstance(edge, Mapping) for edge in edges)


def _library(read: Callable[[], nx.MultiDiGraph], path: Path, what: str) -> nx.MultiDiGraph:
    """Return what `read` returns; networkx raises a dozen kinds on damaged files."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = read()
    except (MemoryError, GraphFileError):
        raise
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset + 1}"
        reason = expat.ErrorString(error.code)
        raise GraphFileError(f"{path}: {where}: not XML: {reason}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise GraphFileError(f"{path}: not {what}: {reason:.200}") from error
    if not isinstance(graph.graph, dict):
        raise GraphFileError(f"{path}: not {what}: 'graph' must hold an object")
    return graph


def _read_graphml(data: bytes, path: Path) -> nx.MultiDiGraph:
    import networkx as nx

    edges = _check_xml(data, path)
    graph = nx.read_graphml(io.BytesIO(data), force_multigraph=True)
    if graph.number_of_edges() != edges:
        raise ValueError("two edges between the same nodes have the same id")
    return graph


def _check_xml(data: bytes, path: Path) -> int:
    """Refuse XML that is hostile, or that networkx would not read whole; return its edges."""
    counts = {"graph": 0, "edge": 0}
    nodes: set[str | None] = set()
    depth = 0

    def refuse(*_: object) -> None:
        raise GraphFileError(f"{path}: has a document type (<!DOCTYPE), which is not read: drop it")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST_ELEMENT:
            raise GraphFileError(f"{path}: nested too deeply for GraphML")
        kind = tag.rpartition(":")[2]
        if kind in counts:
            counts[kind] += 1
        elif kind == "node":
            if (name := attributes.get("id")) in nodes:
                raise GraphFileError(f"{path}: the node {name!r:.60} is given twice")
            nodes.add(name)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.Parse(data, True)
    if counts["graph"] > 1:
        raise GraphFileError(f"{path}: holds {counts['graph']} graphs: give each its own file")
    return counts["edge"]


def _read_gml(data: bytes) -> nx.MultiDiGraph:
    """Read GML; nodes are named by their labels, or where one has none by their ids."""
    import networkx as nx

    try:
        return nx.read_gml(io.BytesIO(data), label="label")
    except nx.NetworkXError as error:
        if "has no 'label' attribute" not in str(error):
            raise
    return nx.read_gml(io.BytesIO(data), label="id")


def _read_node_link(document: Mapping[str, Any]) -> nx.MultiDiGraph:
    """Read node-link data, which is directed if it does not say; edges keep the file's order."""
    import networkx as nx

    key = "links" if "links" in document else "edges"
    edges = document[key]
    if not any("id" in edge for edge in edges):
        edges = [{**edge, "id": place} for place, edge in enumerate(edges)]
    graph = nx.node_link_graph({**document, key: edges}, directed=True, edges=key)
    if graph.number_of_edges() != len(edges):
        raise ValueError("parallel edges of a graph that is no multigraph, or with the same key")
    named = {str(node["id"]) for node in document["nodes"] if "id" in node}
    if len(named) < sum("id" in node for node in document["nodes"]):
        raise ValueError("two nodes have the same id")
    return graph
