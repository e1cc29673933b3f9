"""What networkx would accept in a graph file without a word, refused in words.

networkx makes a node of every name that an edge mentions, takes any value for true, and fails on
damaged files with messages about its own code. These checks look at a file's content before
networkx does: `check_graphml`, `check_gml` and `check_node_link`. Each raises `FormError`, whose
text says what is wrong and where; `formats` puts the file's name before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from xml.parsers import expat

from simprof.simulator.errors import SimulatorError

DEEPEST_ELEMENT = 100
"""XML elements within each other; GraphML needs five."""

GML_VALUE = re.compile(
    r'(?<!\w)(?P<key>graph|node|edge|directed)\s+(?P<value>"\n*"|[^\s\[\]"]+)|(?P<bracket>[\[\]])'
)
"""A key of GML that we check, with a value that is no list; or a bracket."""


class FormError(SimulatorError):
    """A graph file that networkx would misread."""


def check_graphml(data: bytes) -> int:
    """Check GraphML and return how many edges it has.

    Raises
    ------
    FormError
        If it is hostile, or has parts that networkx would merge, invent or leave out.
    expat.ExpatError
        If it is no XML.
    """
    reader = _GraphML()
    reader.parser.Parse(data, True)
    return reader.check()


class _GraphML:
    """Follows the elements of a GraphML file."""

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
    """Check that GML has lists where it needs them, and says clearly whether it is directed.

    Raises
    ------
    FormError
        Naming the line.
    """
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
    """Check node-link data whose edges are `edges`.

    Raises
    ------
    FormError
        Naming the node or the edge by its position in the file.
    """
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
