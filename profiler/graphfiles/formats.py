"""A graph from a file, in simprof's own format or in one that networkx reads.

Steps -> functions
1. `parse_content` chooses by the name: `.graphml`, `.gml`, `.json`, and lines otherwise, or by how
   the file begins: JSON with a brace, DOT with `digraph` (`texts`). JSON with `nodes`, and
   `links` or `edges` that are objects, is node-link data, unless it has what our own format has;
   all other JSON is `reader`'s.
2. `check_graphml`, `check_gml`, `check_node_link` let no document type pass (its entities can grow
   to any size), nor what networkx would merge, invent or leave out without a word.
3. networkx reads the file; `from_networkx` says which attributes count, `reader.parse` checks all.

networkx is imported for its own formats only.

Graphs go to and come from networkx's `MultiDiGraph` (`to_networkx`, `from_networkx`), with these
attributes; others are left alone.

graph
    `name`; `entry` and `exit`, the names of the first and the last block; `runs`, the graph
    file's runs as JSON text (a list is read too).
node
    The block's name. `instructions`, 1 where not given; `vertex`, its number among the blocks,
    which the graph's order tells where it is not given; `call`, true where it ends with a call. In
    place of the graph's `entry` and `exit`, the attribute `role` of a node may be "entry" or
    "exit", as in graphs that `graphs.interchange` makes of recovered routines.
edge
    `weight`, where given. `id`, the edge's place in the file's `edges`; without, edges come as
    `graphs.interchange.ordered_edges` says.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from xml.parsers import expat

from simprof.profiler.graphfiles.reader import (
    EARLY,
    GraphDocument,
    GraphFileError,
    parse,
    read_file,
    read_json,
)
from simprof.profiler.graphfiles.texts import DOT, FormError, read_dot, read_lines
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.graphs.interchange import (
    InterchangeError,
    number,
    only_node,
    ordered_edges,
    ordered_nodes,
)
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.profiles import codec
from simprof.profiler.profiles.codec import parse_json

if TYPE_CHECKING:
    import networkx as nx

OBJECT = re.compile(rb"(\xef\xbb\xbf)?\s*\{")  # How a JSON object begins, and no other format


def load(path: Path) -> GraphDocument:
    """Read a graph file; GraphFileError naming it and the place in it, if it cannot be read."""
    return parse_content(read_file(path), path)


def parse_content(data: bytes, path: Path) -> GraphDocument:
    """Return the graph in the content of a file; `path` is its name. Raises as `load` does."""
    sha256 = hashlib.sha256(data).hexdigest()
    suffix = ".json" if OBJECT.match(data) else path.suffix.lower()
    if suffix == ".graphml":
        graph = _library(lambda: _read_graphml(data), path, "GraphML")
    elif suffix == ".gml":
        graph = _library(lambda: _read_gml(data), path, "GML")
    elif suffix in (".dot", ".gv") or DOT.match(data):
        graph = _library(lambda: read_dot(data.decode("utf-8-sig")), path, "DOT")
    elif suffix != ".json":
        graph = _library(lambda: read_lines(data.decode("utf-8-sig")), path, "lines `A B 3`")
    else:
        document = read_json(data, path)
        if not is_node_link(document):
            return parse(document, str(path), sha256)
        graph = _library(lambda: _read_node_link(document), path, "node-link data")
    return from_networkx(graph, str(path), sha256)


def is_node_link(document: object) -> bool:
    """Whether a JSON document is node-link data, and no graph file of our own."""
    if not isinstance(document, Mapping) or not isinstance(document.get("nodes"), list):
        return False
    edges = document.get("edges")
    lists = isinstance(edges, list) and not any(isinstance(edge, Mapping) for edge in edges)
    if lists and ("entry" in document or "blocks" in document):
        return False  # edges as our own format has them
    edges = document.get("links", edges)
    return isinstance(edges, list) and all(isinstance(edge, Mapping) for edge in edges)


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


DEEPEST_ELEMENT = 100  # XML elements within each other; GraphML needs five

# A key of GML that we check, with a value that is no list; or a bracket.
GML_VALUE = re.compile(
    r'(?<!\w)(?P<key>graph|node|edge|directed)\s+(?P<value>"\n*"|[^\s\[\]"]+)|(?P<bracket>[\[\]])'
)


# networkx makes a node of every name that an edge mentions, takes any value for true, and fails on
# damaged files with messages about its own code. So a file's content is checked before it reads it.
def check_graphml(data: bytes) -> int:
    """Check GraphML and return how many edges it has; expat.ExpatError if it is no XML."""
    reader = _GraphML()
    reader.parser.Parse(data, True)
    return reader.check()


class _GraphML:
    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._refuse_document_type
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.depth = 0
        self.graphs = 0
        self.nodes: set[str] = set()
        self.edges: list[tuple[str, str, int]] = []  # source, target, line

    def check(self) -> int:
        """Check what only the end of the file shows; return how many edges there are."""
        if self.graphs > 1:
            raise FormError(f"holds {self.graphs} graphs: give each its own file")
        for source, target, line in self.edges:
            for name in (source, target):
                if name not in self.nodes:
                    raise FormError(
                        f"line {line}: the edge from {source!r:.60} to {target!r:.60}: "
                        f"there is no node {name!r:.60}"
                    )
        return len(self.edges)

    def _refuse_document_type(self, *_: object) -> NoReturn:
        raise FormError("has a document type (<!DOCTYPE), which is not read: drop it")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > DEEPEST_ELEMENT:
            raise FormError("nested too deeply for GraphML")
        kind = tag.rpartition(":")[2]
        if kind == "graph":
            self.graphs += 1
        elif kind == "node":
            name = self._attribute(kind, attributes, "id")
            if name in self.nodes:
                raise FormError(f"the node {name!r:.60} is given twice")
            self.nodes.add(name)
        elif kind == "edge":
            source, target = (self._attribute(kind, attributes, k) for k in ("source", "target"))
            self.edges.append((source, target, self.parser.CurrentLineNumber))

    def _end(self, _: str) -> None:
        self.depth -= 1

    def _attribute(self, kind: str, attributes: Mapping[str, str], key: str) -> str:
        if key not in attributes:
            line = self.parser.CurrentLineNumber
            raise FormError(f"line {line}: this {kind} has no attribute {key!r}")
        return attributes[key]


def check_gml(data: bytes) -> None:
    """Check that GML has lists where it needs them, and says clearly whether it is directed."""
    text = re.sub(r'#.*|"[^"]*"', _blank, data.decode("latin-1"))
    depth = 0
    for match in GML_VALUE.finditer(text):
        if match["bracket"]:
            depth += 1 if match["bracket"] == "[" else -1
            continue
        key = match["key"]
        if depth != (0 if key == "graph" else 1):
            continue  # an attribute that happens to have this name
        line = 1 + text.count("\n", 0, match.start())
        if key != "directed":
            raise FormError(f"line {line}: {key!r} must hold a list in [ ]")
        if match["value"] not in ("0", "1"):
            raise FormError(f"line {line}: 'directed' must be 1 (or 0: such graphs are not read)")


def _blank(match: re.Match[str]) -> str:
    """Return an empty string of GML, or no comment, with as many lines as the one matched."""
    lines = "\n" * match[0].count("\n")
    return f'"{lines}"' if match[0].startswith('"') else lines


def check_node_link(document: Mapping[str, Any], edges: Sequence[Mapping[str, Any]]) -> None:
    """Check node-link data whose edges are `edges`."""
    for key in ("directed", "multigraph"):
        if not isinstance(document.get(key, True), bool):
            raise FormError(f"{key!r} must be true or false, not {document[key]!r:.60}")
    names = set()
    for place, node in enumerate(document["nodes"]):
        if not isinstance(node, Mapping):
            raise FormError(f"node {place}: must be an object with an 'id', not {node!r:.60}")
        names.add(_name(node.get("id", place), f"node {place}: 'id'"))
    for place, edge in enumerate(edges):
        for end in ("source", "target"):
            if end not in edge:
                raise FormError(f"edge {place}: has no {end!r}; name the node there")
            if _name(edge[end], f"edge {place}: {end!r}") not in names:
                raise FormError(f"edge {place}: {end!r}: there is no node {edge[end]!r:.60}")
        if edge.get("key") is not None:
            _name(edge["key"], f"edge {place}: 'key'")


def _name(value: object, where: str) -> str | int | float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise FormError(f"{where} must be text or a number, not {value!r:.60}")
    return value


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
        runs = [_run(walk, last.id) for walk in document.walks]
        graph.graph["runs"] = json.dumps(runs)
    for block in cfg.blocks:
        graph.add_node(block.label, vertex=block.id, instructions=block.instructions)
        if any(cfg.edges[edge].kind is EdgeKind.CALL_RETURN for edge in cfg.out_edges[block.id]):
            graph.nodes[block.label]["call"] = True
    for edge, weight in zip(inner, document.weights, strict=True):
        source, target = cfg.name_of(edge.source).start, cfg.name_of(edge.target).start
        attributes = {"id": edge.id} if weight is None else {"id": edge.id, "weight": weight}
        graph.add_edge(source, target, key=edge.id, **attributes)
    return graph


def _run(walk: ExecutedWalk, exit_edge: int) -> list[object]:
    is_early = walk.edges[-1] != exit_edge
    inner = walk.edges[1:] if is_early else walk.edges[1:-1]
    return [{"edges": list(inner)}, walk.count, *([EARLY] if is_early else [])]


def from_networkx(graph: nx.MultiDiGraph, file: str = "graph", sha256: str = "") -> GraphDocument:
    """Return the graph file that `graph` stands for, any directed one with an entry and an exit.

    `file` and `sha256` say where it comes from; GraphFileError names the file and the place in it.
    """
    if not graph.is_directed():
        raise GraphFileError(f"{file}: the graph is not directed; control flow is")
    try:
        document = _document(graph, file)
    except InterchangeError as error:
        raise GraphFileError(f"{file}: {error}") from error
    return parse(document, file, sha256)


def _document(graph: nx.MultiDiGraph, file: str) -> dict[str, Any]:
    nodes = ordered_nodes(graph)
    blocks = {str(node): number(data.get("instructions", 1)) for node, data in nodes.items()}
    if len(blocks) < len(nodes):
        raise GraphFileError(f"{file}: two nodes have the same name when written as text")
    edges = []
    for source, target, data in ordered_edges(graph):
        weight = number(data.get("weight"))
        ends = [str(source), str(target)]
        edges.append(ends if weight is None else [*ends, weight])
    document: dict[str, Any] = {"blocks": blocks, "edges": edges}
    document["runs"] = _runs(graph.graph.get("runs"), file)
    document["calls"] = [str(node) for node, data in nodes.items() if data.get("call")]
    for role in ("entry", "exit"):
        document[role] = _end(graph.graph, nodes, role)
    if graph.graph.get("name"):
        document["name"] = graph.graph["name"]
    return document


def _end(attributes: Mapping[str, Any], nodes: Mapping[Any, Mapping[str, Any]], role: str) -> str:
    given = attributes.get(role)
    try:
        return str(only_node(nodes, role) if given is None else given)
    except InterchangeError as error:
        raise InterchangeError(
            f"the graph has no attribute {role!r}, and {error}, or name the node in the graph's"
        ) from None


def _runs(runs: object, file: str) -> object:
    if not isinstance(runs, str):
        return [] if runs is None else runs
    try:
        return parse_json(runs)
    except (ValueError, RecursionError) as error:
        raise GraphFileError(f"{file}: runs: not JSON: {error}") from error
