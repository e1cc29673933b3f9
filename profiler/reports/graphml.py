"""Control-flow graphs as GraphML: one directed graph, written by networkx.

Nodes are named `position:vertex`, edges `position:eID`. The attributes are those of
`graphs.interchange`, and `routine`, a node's routine. `simprof graph` reads a file of one routine.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from profiler.graphs.cfg import ControlFlowGraph
from profiler.graphs.interchange import vertex_attributes
from profiler.recovery.recovery import RecoveredProgram

if TYPE_CHECKING:
    import networkx as nx


def render(recovered: RecoveredProgram, selected: Sequence[int]) -> str:
    """Return one GraphML document with the routines at positions `selected`.

    Characters of routine names that XML cannot hold are replaced by `?`.
    """
    import networkx as nx

    graph = nx.MultiDiGraph(id="simprof")
    for position in selected:
        _add(graph, position, recovered.routines[position])
    document = io.BytesIO()
    nx.write_graphml_xml(graph, document, named_key_ids=True)
    return document.getvalue().decode() + "\n"


def _add(graph: nx.MultiDiGraph, position: int, cfg: ControlFlowGraph) -> None:
    name = "".join(c if c.isprintable() else "?" for c in cfg.name)
    for vertex in range(cfg.vertex_count):
        graph.add_node(f"{position}:{vertex}", routine=name, **vertex_attributes(cfg, vertex))
    for edge in cfg.edges:
        ends = f"{position}:{edge.source}", f"{position}:{edge.target}"
        graph.add_edge(*ends, key=f"{position}:e{edge.id}", id=edge.id, kind=str(edge.kind))
