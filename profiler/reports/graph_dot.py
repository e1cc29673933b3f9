"""Control-flow graphs in Graphviz's language, one cluster a routine, written by `graphviz`.

That library and not `pydot`, because it quotes every name: pydot writes a name that ends in a
backslash, or that begins and ends with quotes or angle brackets, as something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.recovery import RecoveredProgram

if TYPE_CHECKING:
    import graphviz

STYLES = {
    EdgeKind.FALL_THROUGH: "solid",
    EdgeKind.TAKEN: "bold",
    EdgeKind.SWITCH: "bold",
    EdgeKind.SLOT: "bold",
    EdgeKind.CALL_RETURN: "dashed",
    EdgeKind.ENTRY: "solid",
    EdgeKind.EXIT: "solid",
}


def render(recovered: RecoveredProgram, selected: Sequence[int]) -> str:
    """Return one digraph of the routines at positions `selected`."""
    import graphviz

    drawing = graphviz.Digraph("simprof", node_attr={"shape": "box", "fontname": "monospace"})
    for position in selected:
        cfg = recovered.routines[position]
        with drawing.subgraph(name=f"cluster_{position}") as cluster:
            cluster.attr(label=escaped(cfg.name))
            _draw(cluster, position, cfg)
    return str(drawing.source)


def escaped(text: str) -> str:
    """Return a label that shows `text`: Graphviz reads entities of HTML in all labels."""
    import graphviz

    shown: str = graphviz.escape(text.replace("&", "&amp;"))  # of a kind that is never markup
    return shown


def _draw(cluster: graphviz.Digraph, position: int, cfg: ControlFlowGraph) -> None:
    for block in cfg.blocks:
        slot = " slot" if block.is_slot else ""
        cluster.node(f"r{position}_{block.id}", f"{block.start:#x}{slot} ({block.instructions})")
    cluster.node(f"r{position}_{cfg.entry}", "ENTRY", shape="ellipse")
    cluster.node(f"r{position}_{cfg.exit}", "EXIT", shape="ellipse")
    for edge in cfg.edges:
        ends = f"r{position}_{edge.source}", f"r{position}_{edge.target}"
        cluster.edge(*ends, label=edge.kind.value, style=STYLES[edge.kind])
