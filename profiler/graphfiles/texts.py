"""Graphs written as text: DOT, and lines `A B 3`.

Both are read into networkx graphs (`formats` says which attributes count). Where a file does not
say which block is the first, that is the only one that no edge enters, or else the first that it
names; the last is the only one that no edge leaves. Nodes ENTRY and EXIT with one edge each, as
papers draw them, say which they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise, product
from typing import TYPE_CHECKING, Any

from simprof.profiler.graphfiles.reader import GREATEST_EDGES, GREATEST_WEIGHT, RESERVED
from simprof.simulator.errors import SimulatorError

if TYPE_CHECKING:
    import networkx as nx


ENTRY, EXIT = RESERVED


class FormError(SimulatorError):
    """A graph file that would be misread: what is wrong and where, without its name."""


# How DOT begins, and no other format
DOT = re.compile(
    rb"(\xef\xbb\xbf)?\s*((//|#).*\s*|/\*(?s:.*?)\*/\s*)*(strict\s+)?(di)?graph\b[^>]*?\{", re.I
)


def read_lines(text: str) -> nx.MultiDiGraph:
    """Read lines of source, target, and a weight if any; `#` begins a comment."""
    import networkx as nx

    graph = nx.MultiDiGraph()
    # Numbered by line: networkx counts edges one by one.
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) not in (2, 3):
            raise FormError(f"line {number}: must be `SOURCE TARGET [WEIGHT]`, not {line!r:.60}")
        weight = {"weight": words[2]} if len(words) == 3 else {}
        if weight and not _is_weight(words[2]):
            raise FormError(
                f"line {number}: a weight is a number from 0 to {GREATEST_WEIGHT:g}, "
                f"not {words[2]!r:.60}"
            )
        graph.add_edge(words[0], words[1], id=number, **weight)
    return with_ends(graph)


def _is_weight(word: str) -> bool:
    try:
        return 0 <= float(word) <= GREATEST_WEIGHT
    except ValueError:
        return False


def with_ends(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """Find the first and the last block where the graph does not name them."""
    if not graph:
        raise FormError("holds no edge")
    named = {*graph.graph, *(role for _, role in graph.nodes.data("role"))}
    drawn = (("entry", ENTRY, graph.succ, graph.pred), ("exit", EXIT, graph.pred, graph.succ))
    for role, node, onwards, back in drawn:
        if role not in named and node in graph and len(onwards[node]) == 1 and not back[node]:
            (graph.graph[role],) = onwards[node]
            graph.remove_node(node)
            named.add(role)
    if "entry" not in named:
        free = [node for node in graph if not graph.in_degree(node)]
        graph.graph["entry"] = free[0] if len(free) == 1 else next(iter(graph))
    if "exit" not in named:
        last = [node for node in graph if not graph.out_degree(node)]
        if len(last) != 1:
            found = f"here are {len(last)} ({', '.join(last):.60})" if last else "here all are left"
            raise FormError(
                f"the exit is the one block that no edge leaves, and {found}; "
                "DOT (exit=NAME;) and JSON can name it"
            )
        graph.graph["exit"] = last[0]
    return graph


# A token of DOT: a comment, an edge's arrow, a bracket or sign, text in quotes or HTML, or a word.
TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*"
    r'|(?P<token>->|--|[{}\[\];,=:+]|"(?:[^"\\]|\\.)*"|[^\s{}\[\];,=:+"<>\-#]+|-?[\w.]+)'
    r"|(?P<html><)",
    re.S,
)


def read_dot(text: str) -> nx.MultiDiGraph:
    """Read a directed graph in DOT: its nodes, edges in the file's order, and their attributes."""
    return with_ends(_Dot(text).graph)


SIGNS = frozenset(("->", "--", *"{}[];,=:+"))


class _Dot:
    def __init__(self, text: str) -> None:
        import networkx as nx

        self.text = text
        self.graph = nx.MultiDiGraph()
        self.edges = 0
        self.tokens = [*self._tokens(), (len(text), "")]
        self.at = 0
        self._word("strict")
        if self._word("graph"):
            raise self._wrong("the graph is not directed: write digraph, and -> for edges")
        if not self._word("digraph"):
            raise self._wrong("a graph in DOT begins with digraph")
        if self._peek() != "{":
            self.graph.graph["name"] = self._name()
        self._group(self.graph.graph, {}, {})
        if self._peek():
            raise self._wrong("one graph ends here, and more follows: give each its own file")

    def _tokens(self) -> Iterator[tuple[int, str]]:
        at = 0
        while at < len(self.text):
            found = TOKEN.match(self.text, at)
            if found is None:
                raise FormError(f"line {self._line(at)}: not DOT: {self.text[at]!r}")
            begin, at = at, found.end()
            if found["html"]:
                depth = 1
                while depth and at < len(self.text):
                    depth += {"<": 1, ">": -1}.get(self.text[at], 0)
                    at += 1
            if found["token"] or found["html"]:
                yield begin, self.text[begin:at]

    def _line(self, at: int) -> int:
        return 1 + self.text.count("\n", 0, at)

    def _wrong(self, what: str) -> FormError:
        return FormError(f"line {self._line(self.tokens[self.at][0])}: {what}")

    def _peek(self) -> str:
        return self.tokens[self.at][1]

    def _word(self, *words: str) -> bool:
        """Read one of these words, if it is next."""
        if self._peek().lower() not in words:
            return False
        self.at += 1
        return True

    def _name(self) -> str:
        token = self._peek()
        if not token or token in SIGNS:
            raise self._wrong(f"not DOT: a name is missing before {token or 'the end'!r}")
        self.at += 1
        if not token.startswith('"'):
            return token
        name = re.sub(r"\\(?:\n|(\"))", r"\1", token[1:-1])
        return name + self._name() if self._word("+") else name

    def _group(
        self, own: dict[str, Any], nodes: Mapping[str, Any], edges: Mapping[str, Any]
    ) -> list[str]:
        """Read statements in braces and return the nodes in them. `own`: where attributes of the
        graph go; `nodes`, `edges`: attributes that hold for what follows.
        """
        if not self._word("{"):
            raise self._wrong(f"not DOT: a brace is missing before {self._peek() or 'the end'!r}")
        inside: dict[str, None] = {}
        while not self._word("}"):
            if self._word(";"):
                continue
            if self._word("node"):
                nodes = {**nodes, **self._attributes()}
            elif self._word("edge"):
                edges = {**edges, **self._attributes()}
            elif self._word("graph"):
                own.update(self._attributes())
            elif [token for _, token in self.tokens[self.at + 1 : self.at + 2]] == ["="]:
                key = self._name()
                self._word("=")
                own[key] = self._name()
            else:
                inside |= dict.fromkeys(self._chain(nodes, edges))
        return list(inside)

    def _chain(self, nodes: Mapping[str, Any], edges: Mapping[str, Any]) -> list[str]:
        """Read nodes or groups with arrows between them; return the nodes."""
        parts = [self._part(nodes, edges)]
        while self._word("->"):
            parts.append(self._part(nodes, edges))
        if self._peek() == "--":
            raise self._wrong("the graph is not directed: write -> for edges")
        attributes = self._attributes()
        if len(parts) == 1:
            for node in parts[0]:
                self.graph.nodes[node].update(attributes)
        weight = {**edges, **attributes}.get("weight")
        pairs = (product(sources, targets) for sources, targets in pairwise(parts))
        for source, target in chain.from_iterable(pairs):
            if self.edges == GREATEST_EDGES:
                raise self._wrong(f"more than {self.edges:,} edges")
            self.graph.add_edge(source, target, id=self.edges, weight=weight)
            self.edges += 1  # networkx counts them one by one
        return list(chain.from_iterable(parts))

    def _part(self, nodes: Mapping[str, Any], edges: Mapping[str, Any]) -> Iterable[str]:
        is_named = self._word("subgraph")
        if is_named and self._peek() != "{":
            self._name()
        if self._peek() == "{":
            return self._group({}, nodes, edges)
        name = self._name()
        while self._word(":"):  # a port
            self._name()
        if name not in self.graph:
            self.graph.add_node(name, **nodes)
        return [name]

    def _attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._word("["):
            while not self._word("]"):
                if self._word(",", ";"):
                    continue
                key = self._name()
                value = self._name() if self._word("=") else "true"
                found[key] = {"true": True, "false": False}.get(value, value)
        return found
