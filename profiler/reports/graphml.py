"""Control-flow graphs as GraphML: one directed graph, written by networkx.

Nodes are named `position:vertex`, edges `position:eID`. The attributes are those of
`graphs.interchange`, and `routine`, a node's routine. `simprof graph` reads a file of one routine.
Graphs of a profile also have `executions` (nodes) and `weight` (edges): how often each was executed
and crossed.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.interchange import vertex_attributes
from simprof.profiler.recovery.recovery import RecoveredProgram

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class CountedGraph:
    """A routine's graph; `executions` by vertex id and `crossings` by edge id, where known."""

    cfg: ControlFlowGraph
    executions: Sequence[int] | None = None
    crossings: Sequence[int] | None = None


def render(recovered: RecoveredProgram, selected: Sequence[int]) -> str:
    """Return one GraphML document with the routines at positions `selected`.

    Characters of routine names that XML cannot hold are replaced by `?`.
    """
    return render_graphs(
        (position, CountedGraph(recovered.routines[position])) for position in selected
    )


def render_graphs(graphs: Iterable[tuple[int, CountedGraph]]) -> str:
    """Return one GraphML document with some graphs, each with its position; see `render`."""
    import networkx as nx

    graph = nx.MultiDiGraph(id="simprof")
    for position, counted in graphs:
        _add(graph, position, counted)
    document = io.BytesIO()
    nx.write_graphml_xml(graph, document, named_key_ids=True)
    return document.getvalue().decode() + "\n"


def _add(graph: nx.MultiDiGraph, position: int, counted: CountedGraph) -> None:
    cfg = counted.cfg
    name = "".join(c if c.isprintable() else "?" for c in cfg.name)
    for vertex in range(cfg.vertex_count):
        counts = {} if counted.executions is None else {"executions": counted.executions[vertex]}
        attributes = vertex_attributes(cfg, vertex)
        graph.add_node(f"{position}:{vertex}", routine=name, **attributes, **counts)
    for edge in cfg.edges:
        ends = f"{position}:{edge.source}", f"{position}:{edge.target}"
        counts = {} if counted.crossings is None else {"weight": counted.crossings[edge.id]}
        key = f"{position}:e{edge.id}"
        graph.add_edge(*ends, key=key, id=edge.id, kind=str(edge.kind), **counts)
