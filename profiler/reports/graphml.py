"""Control-flow graphs as GraphML: one directed graph, its vertices named `routine:vertex`."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence

from profiler.graphs.cfg import ControlFlowGraph
from profiler.recovery.recovery import RecoveredProgram

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_KEYS = (
    ("routine", "node", "string"),
    ("role", "node", "string"),  # block, slot, entry, exit
    ("start", "node", "long"),
    ("instructions", "node", "long"),
    ("kind", "edge", "string"),
)


def render(recovered: RecoveredProgram, selected: Sequence[int]) -> str:
    """Return one GraphML document with the routines at positions `selected`.

    Characters of routine names that XML cannot hold are replaced by `?`.
    """
    root = ElementTree.Element("graphml", {"xmlns": _NAMESPACE})
    for name, owner, kind in _KEYS:
        described = {"id": name, "for": owner, "attr.name": name, "attr.type": kind}
        ElementTree.SubElement(root, "key", described)
    graph = ElementTree.SubElement(root, "graph", {"id": "simprof", "edgedefault": "directed"})
    for position in selected:
        _routine(graph, position, recovered.routines[position])
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _routine(parent: ElementTree.Element, position: int, graph: ControlFlowGraph) -> None:
    name = "".join(c if c.isprintable() else "?" for c in graph.name)
    for block in graph.blocks:
        values = {
            "routine": name,
            "role": "slot" if block.is_slot else "block",
            "start": str(block.start),
            "instructions": str(block.instructions),
        }
        _element(parent, "node", {"id": f"{position}:{block.id}"}, values)
    for vertex, role in ((graph.entry, "entry"), (graph.exit, "exit")):
        values = {"routine": name, "role": role}
        _element(parent, "node", {"id": f"{position}:{vertex}"}, values)
    for edge in graph.edges:
        names = {
            "id": f"{position}:e{edge.id}",
            "source": f"{position}:{edge.source}",
            "target": f"{position}:{edge.target}",
        }
        _element(parent, "edge", names, {"kind": edge.kind.value})


def _element(
    parent: ElementTree.Element, tag: str, names: dict[str, str], values: Mapping[str, str]
) -> None:
    element = ElementTree.SubElement(parent, tag, names)
    for key, value in values.items():
        ElementTree.SubElement(element, "data", {"key": key}).text = value
