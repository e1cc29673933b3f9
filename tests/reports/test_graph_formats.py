"""`simprof cfg --format graphml|dot`: everything is there, as other programs read it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pydot
import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.interchange import from_networkx
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.profiler.reports import cfg_formats
from simprof.simulator.binary.elf import load
from tests.support.turns import first

BOLD = {EdgeKind.TAKEN, EdgeKind.SWITCH, EdgeKind.SLOT}
NAMES = [
    '"quoted"',
    "<br/>",
    "back\\",
    'a"b',
    "\\N",
    "graph",
    "é λ",
    'operator"" _s',
    "a&b",
    "a&lt;b",
    "-->",
]


@pytest.fixture(scope="module", params=["switches", "records"])
def recovered(request: pytest.FixtureRequest, fixture_elf: Callable[..., Path]) -> ProgramGraphs:
    return recover(load(fixture_elf(request.param)))


def routine_graph(document: nx.MultiDiGraph, position: int) -> nx.MultiDiGraph:
    nodes = [node for node in document if node.startswith(f"{position}:")]
    return document.subgraph(nodes)


def test_graphml_holds_every_graph(recovered: ProgramGraphs) -> None:
    selected = range(0, len(recovered.routines), 2)
    text = cfg_formats.render_graphml(recovered, selected)
    document = nx.parse_graphml(text, force_multigraph=True)
    expected = [recovered.routines[position] for position in selected]
    assert len(document) == sum(cfg.vertex_count for cfg in expected)
    for position, cfg in zip(selected, expected, strict=True):
        part = routine_graph(document, position)
        assert {name for _, name in part.nodes(data="routine")} == {cfg.name}
        assert from_networkx(part) == replace(cfg, name="", address=0, size=0)
        keys = {key for *_, key in part.edges(keys=True)}
        assert keys == {f"{position}:e{edge.id}" for edge in cfg.edges}


def unquoted(text: str) -> str:
    """Return what Graphviz shows of a quoted string that holds no line breaks."""
    return text.removeprefix('"').removesuffix('"').replace('\\"', '"').replace("\\\\", "\\")


def check_cluster(cluster: pydot.Subgraph, position: int, cfg: ControlFlowGraph) -> None:
    assert unquoted(cluster.get("label")).replace("&amp;", "&") == cfg.name
    nodes = {node.get_name(): node for node in cluster.get_nodes()}
    assert len(nodes) == cfg.vertex_count
    for block in cfg.blocks:
        slot = " slot" if block.is_slot else ""
        label = unquoted(nodes[f"r{position}_{block.id}"].get("label"))
        assert label == f"{block.start:#x}{slot} ({block.instructions})"
    for vertex, label in ((cfg.entry, "ENTRY"), (cfg.exit, "EXIT")):
        node = nodes[f"r{position}_{vertex}"]
        assert (node.get("label"), node.get("shape")) == (label, "ellipse")
    drawn = sorted(
        (edge.get_source(), edge.get_destination(), unquoted(edge.get("label")), edge.get("style"))
        for edge in cluster.get_edges()
    )
    assert drawn == sorted(
        (f"r{position}_{edge.source}", f"r{position}_{edge.target}", str(edge.kind),
         "bold" if edge.kind in BOLD
         else "dashed" if edge.kind is EdgeKind.CALL_RETURN else "solid")
        for edge in cfg.edges
    )  # fmt: skip


def parse_dot(text: str) -> dict[str, pydot.Subgraph]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pydot calls old names of its parser
        graphs = pydot.graph_from_dot_data(text)
    assert graphs is not None
    (drawing,) = graphs
    assert drawing.get_name() == "simprof"
    return {str(cluster.get_name()): cluster for cluster in drawing.get_subgraphs()}


@pytest.mark.long
def test_dot_holds_every_graph(recovered: ProgramGraphs) -> None:
    selected = range(0, len(recovered.routines), 2)
    clusters = parse_dot(cfg_formats.render_dot(recovered, selected))
    assert len(clusters) == len(selected)
    for position in selected:
        check_cluster(clusters[f"cluster_{position}"], position, recovered.routines[position])


@pytest.mark.parametrize("name", first(2, NAMES))
def test_any_name_can_be_written(recovered: ProgramGraphs, name: str) -> None:
    cfg = replace(recovered.routines[0], name=name)
    renamed = replace(recovered, routines=(cfg,))
    (cluster,) = parse_dot(cfg_formats.render_dot(renamed, [0])).values()
    check_cluster(cluster, 0, cfg)
    document = nx.parse_graphml(cfg_formats.render_graphml(renamed, [0]), force_multigraph=True)
    assert document.nodes["0:0"]["routine"] == name


def test_graphml_replaces_what_xml_cannot_hold(recovered: ProgramGraphs) -> None:
    renamed = replace(recovered, routines=(replace(recovered.routines[0], name="a\x01\ud800"),))
    document = nx.parse_graphml(cfg_formats.render_graphml(renamed, [0]), force_multigraph=True)
    assert document.nodes["0:0"]["routine"] == "a??"
