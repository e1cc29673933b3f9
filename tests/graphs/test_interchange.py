"""Control-flow graphs through networkx, and through the formats that it writes and reads."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.graphs.interchange import (
    InterchangeError,
    edge_weights,
    from_networkx,
    to_networkx,
)
from simprof.profiler.recovery.recovery import recover
from simprof.simulator.binary.elf import load
from tests.oracles.brute import random_graph
from tests.support.figures import epp_1, epp_2, epp_10


def through_graphml(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    return nx.parse_graphml("\n".join(nx.generate_graphml(graph)), force_multigraph=True)


def through_gml(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    return nx.parse_gml("\n".join(nx.generate_gml(graph)))


def through_json(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    text = json.dumps(nx.node_link_data(graph, edges="edges"))
    return nx.node_link_graph(json.loads(text), edges="edges")


WAYS: list[Callable[[nx.MultiDiGraph], nx.MultiDiGraph]] = [
    lambda graph: graph,
    through_graphml,
    through_gml,
    through_json,
]
WAY_NAMES = ["networkx", "GraphML", "GML", "JSON"]
LABELS = st.text(st.characters(min_codepoint=33, max_codepoint=0xD7FF), min_size=1, max_size=8)


@st.composite
def graphs(draw: st.DrawFn) -> ControlFlowGraph:
    """Any graph: edges between all vertices, also unreachable ones, parallel ones and loops."""
    count = draw(st.integers(1, 6))
    labelled = draw(st.booleans())
    labels = draw(st.lists(LABELS, min_size=count, max_size=count, unique=True))
    blocks = tuple(
        Block(
            index,
            draw(st.integers(0, 1 << 44)),
            draw(st.integers(0, 99)),
            draw(st.booleans()),
            labels[index] if labelled else None,
        )
        for index in range(count)
    )
    vertices = st.integers(0, count + 1)
    ends = draw(st.lists(st.tuples(vertices, vertices, st.sampled_from(EdgeKind)), max_size=12))
    edges = tuple(Edge(index, *end) for index, end in enumerate(ends))
    indirect = frozenset(draw(st.sets(st.integers(0, count - 1))))
    return ControlFlowGraph(draw(LABELS), draw(st.integers(0, 99)), 8, blocks, edges, indirect)


@pytest.mark.long
@given(graphs())
def test_any_graph_comes_back_whole(cfg: ControlFlowGraph) -> None:
    assert from_networkx(to_networkx(cfg)) == cfg
    assert from_networkx(through_json(to_networkx(cfg))) == cfg
    assert from_networkx(through_graphml(to_networkx(cfg))) == cfg


@pytest.mark.parametrize("way", WAYS, ids=WAY_NAMES)
@pytest.mark.seeds(range(20))
def test_random_graphs_and_weights_come_back(
    way: Callable[[nx.MultiDiGraph], nx.MultiDiGraph], seed: int
) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    weights = [rng.choice([None, 0, rng.random(), 10**12, 1e300]) for _ in cfg.edges]
    graph = way(to_networkx(cfg, weights))
    assert from_networkx(graph) == cfg
    assert edge_weights(graph) == tuple(weights)


@pytest.mark.parametrize("way", WAYS, ids=WAY_NAMES)
@pytest.mark.parametrize("figure", [epp_1, epp_2, epp_10])
def test_figures_come_back(
    way: Callable[[nx.MultiDiGraph], nx.MultiDiGraph], figure: Callable[[], ControlFlowGraph]
) -> None:
    assert from_networkx(way(to_networkx(figure()))) == figure()


@pytest.mark.parametrize("way", WAYS, ids=WAY_NAMES)
@pytest.mark.parametrize("name", ["switches", "tailcalls", "calls"])
def test_recovered_graphs_come_back(
    fixture_elf: Callable[..., Path],
    way: Callable[[nx.MultiDiGraph], nx.MultiDiGraph],
    name: str,
) -> None:
    for cfg in recover(load(fixture_elf(name))).routines:
        assert from_networkx(way(to_networkx(cfg))) == cfg


def test_attributes() -> None:
    cfg = replace(epp_1(), indirect=frozenset({2}))
    graph = to_networkx(cfg, [None, 2.5, *[None] * 8])
    assert graph.graph == {"name": "EPP figure 1", "address": 0, "size": 0}
    assert graph.nodes[0] == {
        "vertex": 0, "role": "block", "start": 0, "instructions": 1, "name": "A",
    }  # fmt: skip
    assert graph.nodes[2]["indirect"] is True
    assert graph.nodes[cfg.entry] == {"vertex": 6, "role": "entry", "instructions": 0}
    assert graph.edges[0, 2, 1] == {"id": 1, "kind": "taken", "weight": 2.5}
    assert graph.edges[cfg.entry, 0, 8] == {"id": 8, "kind": "entry"}


def test_nodes_may_have_any_names_and_attributes_may_be_absent() -> None:
    graph = nx.DiGraph()
    graph.add_node("in", role="entry")
    graph.add_edges_from([("in", ("a", 1)), (("a", 1), "b"), ("b", "out")])
    graph.nodes["out"]["role"] = "exit"
    cfg = from_networkx(graph)
    assert [block.instructions for block in cfg.blocks] == [1, 1]
    assert [(edge.source, edge.target) for edge in cfg.edges] == [(2, 0), (0, 1), (1, 3)]


def test_views_of_graphs_are_graphs() -> None:
    both = nx.disjoint_union(to_networkx(epp_1()), to_networkx(epp_2()))
    view = both.subgraph(range(8))
    assert replace(from_networkx(view), name="EPP figure 1") == epp_1()


def test_edges_follow_their_ids() -> None:
    graph = to_networkx(epp_1())
    count = len(epp_1().edges)
    for *_, data in graph.edges(data=True):
        data["id"] = count - data["id"]
    reversed_edges = from_networkx(graph).edges
    expected = [(edge.source, edge.target) for edge in epp_1().edges][::-1]
    assert [(edge.source, edge.target) for edge in reversed_edges] == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.remove_node(g.number_of_nodes() - 1), "no node has the role 'exit'"),
        (lambda g: g.nodes[0].update(role="entry"), "2 nodes have the role 'entry'"),
        (lambda g: g.nodes[0].update(role="head"), "node 0: the role 'head' is none of block, "),
        (lambda g: g.nodes[1].update(start="x"), "node 1: start: must be a whole number, not 'x'"),
        (lambda g: g.nodes[1].update(instructions=-1), "node 1: instructions: must be a whole"),
        (lambda g: g.edges[0, 1, 0].update(kind="up"), "the edge kind 'up' is none of"),
        (lambda g: g.edges[0, 1, 0].update(id=3), "2 edges have the id 3"),
        (lambda g: g.edges[0, 1, 0].update(id=0.5), "edge: id: must be a whole number"),
        (lambda g: g.edges[0, 1, 0].pop("id"), "some edges have the attribute 'id' and some"),
        (lambda g: g.nodes[0].pop("vertex"), "some nodes have the attribute 'vertex' and some"),
        (lambda g: g.nodes[0].update(vertex=1), "2 nodes have the vertex 1"),
        (lambda g: g.graph.update(size=None), "size: must be a whole number"),
    ],
)
def test_what_is_no_control_flow_graph(change: Callable[[Any], None], message: str) -> None:
    graph = to_networkx(epp_1())
    change(graph)
    with pytest.raises(InterchangeError, match=message) as caught:
        from_networkx(graph)
    assert "\n" not in str(caught.value)


def test_undirected_graphs_are_refused() -> None:
    with pytest.raises(InterchangeError, match="not directed"):
        from_networkx(nx.MultiGraph(to_networkx(epp_1())))


def test_the_writers_of_networkx_take_every_value() -> None:
    for write in (nx.write_graphml, nx.write_gml):
        write(to_networkx(epp_1(), [1.0] * 10), io.BytesIO())
