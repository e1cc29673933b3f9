"""Control-flow graphs in Graphviz's language, one cluster a routine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from profiler.recovery.recovery import RecoveredProgram

_STYLES = {
    EdgeKind.FALL_THROUGH: "style=solid",
    EdgeKind.TAKEN: "style=bold",
    EdgeKind.SWITCH: "style=bold",
    EdgeKind.SLOT: "style=bold",
    EdgeKind.CALL_RETURN: "style=dashed",
    EdgeKind.ENTRY: "style=solid",
    EdgeKind.EXIT: "style=solid",
}


def render(recovered: RecoveredProgram, selected: Sequence[int]) -> str:
    """Return one digraph of the routines at positions `selected`."""
    lines = ["digraph simprof {", "  node [shape=box, fontname=monospace];"]
    for position in selected:
        lines += _routine(position, recovered.routines[position])
    return "\n".join([*lines, "}"]) + "\n"


def _routine(position: int, graph: ControlFlowGraph) -> Iterator[str]:
    yield f"  subgraph cluster_{position} {{"
    yield f"    label={_quoted(graph.name)};"
    for block in graph.blocks:
        slot = " slot" if block.is_slot else ""
        label = f"{block.start:#x}{slot} ({block.instructions})"
        yield f"    r{position}_{block.id} [label={_quoted(label)}];"
    yield f'    r{position}_{graph.entry} [label="ENTRY", shape=ellipse];'
    yield f'    r{position}_{graph.exit} [label="EXIT", shape=ellipse];'
    for edge in graph.edges:
        ends = f"r{position}_{edge.source} -> r{position}_{edge.target}"
        yield f"    {ends} [label={_quoted(edge.kind.value)}, {_STYLES[edge.kind]}];"
    yield "  }"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
