"""A graph from a file, in simprof's own format or in one that networkx reads.

Steps
-----
1. `parse_content` chooses by the name: `.graphml`, `.gml`, and JSON otherwise, or where the file
   begins with a brace. JSON with `nodes`, and `links` or `edges` that are objects, is node-link
   data, unless it has what our own format has; all other JSON is `reader`'s.
2. `form_checks` lets no document type pass (its entities can grow to any size), nor what networkx
   would merge, invent or leave out without a word.
3. networkx reads the file; `interchange.from_networkx` says which attributes count.

networkx is imported for its own formats only.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from simprof.profiler.graphfiles.form_checks import (
    FormError,
    check_gml,
    check_graphml,
    check_node_link,
)
from simprof.profiler.graphfiles.reader import (
    GraphDocument,
    GraphFileError,
    parse,
    parse_json,
    read_file,
)
from simprof.profiler.profiles import codec

if TYPE_CHECKING:
    import networkx as nx

OBJECT = re.compile(rb"(\xef\xbb\xbf)?\s*\{")
"""How a JSON object begins, and no other format."""


def load(path: Path) -> GraphDocument:
    """Read the graph file `path`.

    Raises
    ------
    GraphFileError
        Naming the file and the place in it, if it cannot be read or is no graph file.
    """
    return parse_content(read_file(path), path)


def parse_content(data: bytes, path: Path) -> GraphDocument:
    """Return the graph in the content of a file; `path` is its name. Raises as `load` does."""
    sha256 = hashlib.sha256(data).hexdigest()
    suffix = path.suffix.lower()
    if OBJECT.match(data):
        suffix = ".json"
    if suffix == ".graphml":
        graph = _library(lambda: _read_graphml(data), path, "GraphML")
    elif suffix == ".gml":
        graph = _library(lambda: _read_gml(data), path, "GML")
    else:
        document = parse_json(data, path)
        if not is_node_link(document):
            return parse(document, str(path), sha256)
        graph = _library(lambda: _read_node_link(document), path, "node-link data")
    from simprof.profiler.graphfiles.interchange import from_networkx

    return from_networkx(graph, str(path), sha256)


def is_node_link(document: object) -> bool:
    """Whether a JSON document is node-link data, and no graph file of our own."""
    if not isinstance(document, Mapping) or not isinstance(document.get("nodes"), list):
        return False
    if _has_our_keys(document):
        return False
    edges = document.get("links", document.get("edges"))
    return isinstance(edges, list) and all(isinstance(edge, Mapping) for edge in edges)


def _has_our_keys(document: Mapping[str, Any]) -> bool:
    """Whether a document has blocks or an entry, and edges as our own format has them."""
    edges = document.get("edges")
    return (
        ("entry" in document or "blocks" in document)
        and isinstance(edges, list)
        and not any(isinstance(edge, Mapping) for edge in edges)
    )


def _library(read: Callable[[], nx.MultiDiGraph], path: Path, what: str) -> nx.MultiDiGraph:
    """Return what `read` returns; networkx raises a dozen kinds on damaged files."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = read()
    except MemoryError:
        raise
    except FormError as error:
        raise GraphFileError(f"{path}: {error}") from error
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset + 1}"
        reason = expat.ErrorString(error.code)
        raise GraphFileError(f"{path}: {where}: not XML: {reason}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if codec.is_long_number(error):
            reason = codec.LONG_NUMBER
        raise GraphFileError(f"{path}: not {what}: {reason:.200}") from error
    if not isinstance(graph.graph, dict):
        raise GraphFileError(f"{path}: not {what}: 'graph' must hold an object")
    return graph


def _read_graphml(data: bytes) -> nx.MultiDiGraph:
    import networkx as nx

    edges = check_graphml(data)
    graph = nx.read_graphml(io.BytesIO(data), force_multigraph=True)
    if graph.number_of_edges() != edges:
        raise ValueError("two edges between the same nodes have the same id")
    roles = [data.get("role") for _, data in graph.nodes(data=True) if "routine" in data]
    if (routines := roles.count("entry")) > 1:
        raise FormError(
            f"holds {routines} routines; "
            "write one with `simprof cfg --routine NAME --format graphml`"
        )
    return graph


def _read_gml(data: bytes) -> nx.MultiDiGraph:
    """Read GML; nodes are named by their labels, or where one has none by their ids."""
    import networkx as nx

    check_gml(data)
    try:
        return nx.read_gml(io.BytesIO(data), label="label")
    except nx.NetworkXError as error:
        if "has no 'label' attribute" not in str(error):
            raise
    except TypeError as error:  # a list where networkx needs a key of a dictionary
        raise FormError(
            "the names that nodes and edges have ('id', 'label', 'source', 'target', 'key') "
            "must be text or numbers, and no lists"
        ) from error
    return nx.read_gml(io.BytesIO(data), label="id")


def _read_node_link(document: Mapping[str, Any]) -> nx.MultiDiGraph:
    """Read node-link data, which is directed if it does not say; edges keep the file's order."""
    import networkx as nx

    key = "links" if "links" in document else "edges"
    edges = document[key]
    check_node_link(document, edges)
    if not any("id" in edge for edge in edges):
        edges = [{**edge, "id": place} for place, edge in enumerate(edges)]
    graph = nx.node_link_graph({**document, key: edges}, directed=True, edges=key)
    if graph.number_of_edges() != len(edges):
        raise ValueError("parallel edges of a graph that is no multigraph, or with the same key")
    named = {str(node["id"]) for node in document["nodes"] if "id" in node}
    if len(named) < sum("id" in node for node in document["nodes"]):
        raise ValueError("two nodes have the same id")
    return graph
