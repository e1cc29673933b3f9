"""Graphs as DOT and as lines: networkx with pydot, and JSON, are the oracles."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from simprof.profiler.graphfiles.formats import load
from simprof.profiler.graphfiles.reader import GraphDocument, GraphFileError, parse
from simprof.profiler.graphfiles.texts import read_lines
from tests.support.graphs_modes import FIGURES

DOT = """/* EPP */ digraph "EPP figure 1" { // with all that DOT has
  node [instructions=2 shape=box]; graph [rankdir=LR]
  A -> {B C} [label="x\\"y -> z", weight=3];
  subgraph cluster_0 { label=foo; B -> C -> D:s:n }
  # a line of the preprocessor
  B -> D [weight=1.5]; D -> "E" -> "F" + ""
  D -> F;  A [instructions=5, call=false, label=<b<i>x</i>>]
}
"""
JSON = {
    "name": "EPP figure 1",
    "entry": "A",
    "exit": "F",
    "blocks": {"A": 5, "B": 2, "C": 2, "D": 2, "E": 2, "F": 2},
    "edges": [["A", "B", 3], ["A", "C", 3], ["B", "C"], ["C", "D"], ["B", "D", 1.5],
              ["D", "E"], ["E", "F"], ["D", "F"]],
}  # fmt: skip


def read(tmp_path: Path, text: str, name: str = "graph.txt") -> GraphDocument:
    path = tmp_path / name
    path.write_text(text)
    return load(path)


def test_nodes_entry_and_exit_say_where_a_graph_begins_and_ends() -> None:
    drawn = read_lines("ENTRY A 10\nA B 7\nA C 3\nB D\nC D\nD A 9\nD EXIT 1")
    assert (drawn.graph["entry"], drawn.graph["exit"]) == ("A", "D")
    assert sorted(drawn.edges()) == [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("D", "A")]
    # two exits: EXIT stays a node, which is then refused by name
    assert "EXIT" in read_lines("A B\nA EXIT\nB EXIT")


@pytest.mark.parametrize("name", ["graph.dot", "graph.gv", "graph.txt"])
def test_dot_is_the_graph_that_json_says(tmp_path: Path, name: str) -> None:
    found, own = read(tmp_path, DOT, name), parse(JSON, "graph")
    assert (found.cfg, found.weights) == (own.cfg, own.weights)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure["name"])
def test_dot_that_pydot_writes(tmp_path: Path, figure: dict[str, object]) -> None:
    own = parse(figure, "figure")
    graph = nx.MultiDiGraph(name=own.cfg.name, entry=figure["entry"], exit=figure["exit"])
    for block in own.cfg.blocks:
        graph.add_node(block.label, instructions=block.instructions)
    for edge, weight in zip(own.cfg.edges, own.weights, strict=False):
        ends = (str(own.cfg.name_of(vertex)) for vertex in edge[1:3])
        graph.add_edge(*ends, **({} if weight is None else {"weight": weight}))
    dot = nx.nx_pydot.to_pydot(graph)
    dot.set_name(f'"{own.cfg.name}"')
    for role in ("entry", "exit"):
        dot.set(role, figure[role])
    found = read(tmp_path, dot.to_string(), "graph.dot")
    names = {block.id: block.label for block in found.cfg.blocks}
    edges = [(names.get(e.source), names.get(e.target)) for e in found.cfg.edges]
    wanted = {block.id: block.label for block in own.cfg.blocks}
    # pydot writes edges by source and target
    assert sorted(map(str, edges)) == sorted(
        str((wanted.get(e.source), wanted.get(e.target))) for e in own.cfg.edges
    )
    assert sorted(map(str, found.weights)) == sorted(map(str, own.weights))
    assert found.cfg.name == own.cfg.name


def test_lines_are_source_target_and_weight(tmp_path: Path) -> None:
    text = "# EPP\nA B 3\nA C 3\n\nB C  # as drawn\nC D\nB D 1.5\nD E\nE F\nD F\n"
    own = parse(JSON | {"name": "graph", "blocks": {}}, "graph")
    found = read(tmp_path, text)
    assert (found.cfg, found.weights) == (own.cfg, own.weights)


def test_the_entry_is_where_nothing_leads_or_the_first_named(tmp_path: Path) -> None:
    cfg = read(tmp_path, "B C\nA B\nB B\n").cfg
    assert str(cfg.name_of(cfg.edges[-2].target)) == "A"
    cfg = read(tmp_path, "B C\nC B\nC D\n").cfg
    assert str(cfg.name_of(cfg.edges[-2].target)) == "B"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digraph { a -> }", "line 1: not DOT: a name is missing before '}'"),
        ("digraph {\n a -> b", "line 2: not DOT: a name is missing before 'the end'"),
        ('digraph {\n"a->b}', "line 2: not DOT: '\"'"),
        ("digraph {a->b}\ndigraph {}", "line 2: one graph ends here, and more follows"),
        ("graph {a -- b}", "line 1: the graph is not directed"),
        ("digraph {a -- b}", "line 1: the graph is not directed"),
        ("digraph {}", "holds no edge"),
        ("", "holds no edge"),
        ("digraph {a -> b [weight=x]}", "edge 0: a weight is a number"),
        ("a b 3 4", "line 1: must be `SOURCE TARGET [WEIGHT]`, not 'a b 3 4'"),
        ("a b\na c", "the exit is the one block that no edge leaves, and here are 2 (b, c)"),
        ("a b\nb a", "the exit is the one block that no edge leaves, and here all are left"),
        ("a b\nb c -1", "line 2: a weight is a number from 0 to 1e+300, not '-1'"),
        ("a b nan", "line 1: a weight is a number from 0 to 1e+300, not 'nan'"),
        ("a b heavy", "line 1: a weight is a number from 0 to 1e+300, not 'heavy'"),
        ("digraph {" * 9999, "not DOT: "),
        ("digraph {" + "{" * 9999, "not DOT: maximum recursion depth exceeded"),
    ],
)  # fmt: skip
def test_errors_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(GraphFileError) as error:
        read(tmp_path, text)
    assert f"graph.txt: {message}" in str(error.value)


@pytest.mark.long
def test_groups_do_not_make_more_edges_than_a_graph_may_have(tmp_path: Path) -> None:
    many = " ".join(f"n{number}" for number in range(400))
    with pytest.raises(GraphFileError, match="more than 100,000 edges"):
        read(tmp_path, f"digraph {{ {{{many}}} -> {{{many}}} }}")


def test_json_names_may_be_numbers_and_keys_are_known(tmp_path: Path) -> None:
    graph = {"entry": 1, "exit": 3, "edges": [[1, 2], [2, 3, 5]], "calls": [2]}
    document = read(tmp_path, json.dumps(graph | {"runs": [["1 2 3", 4]]}), "graph.json")
    assert [block.label for block in document.cfg.blocks] == ["1", "2", "3"]
    assert document.walks[0].count == 4
    with pytest.raises(GraphFileError, match="unknown key 'run': did you mean 'runs'"):
        read(tmp_path, json.dumps(graph | {"run": []}), "graph.json")
    with pytest.raises(GraphFileError, match="unknown key 'comment': the keys are name, entry"):
        read(tmp_path, json.dumps(graph | {"comment": ""}), "graph.json")
