"""Formats of graphs: the routines that ran, with how often blocks and edges were executed.

DOT
    As `simprof cfg --format dot` draws them: one cluster a routine, a style for each kind of edge.
    Edges are the thicker and blocks the redder the more of the routine's executions they have. What
    was never executed is grey; an edge with a counter of the scheme on it is blue.
GraphML
    As `simprof cfg --format graphml` writes them (`reports.cfg_formats`): `simprof explain` reads a
    file of one routine, with the counts as its weights. Activations that ended early left by no
    edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simprof.profiler.exports.formats import ExportSource
from simprof.profiler.graphs.cfg import (
    ENTRY,
    EXIT,
    EdgeKind,
    VertexName,
)
from simprof.profiler.profiles.profile import EdgeCount, RoutineProfile, RunMeasurement
from simprof.profiler.profiles.tables import block_counts
from simprof.profiler.reports.cfg_formats import STYLES, CountedGraph, escaped, render_graphs
from simprof.profiler.reports.display import readable

if TYPE_CHECKING:
    import graphviz

WIDEST = 5.0  # Points, of the most frequent edge; those that were never followed have one.
UNUSED = "gray60"
COUNTED = "blue"


def write_dot(source: ExportSource) -> bytes:
    """Return one digraph of all routines that ran."""
    import graphviz

    drawing = graphviz.Digraph(
        "simprof",
        node_attr={"shape": "box", "fontname": "monospace", "style": "filled"},
        edge_attr={"fontname": "monospace"},
    )
    measurement = source.measurement
    for position, routine in enumerate(measurement.routines):
        with drawing.subgraph(name=f"cluster_{position}") as cluster:
            cluster.attr(label=escaped(heading(routine)))
            _draw(cluster, position, routine, measurement)
    return str(drawing.source).encode(errors="backslashreplace")


def heading(routine: RoutineProfile) -> str:
    """Return what stands above a routine."""
    return (
        f"{readable(routine.name)}: entered {routine.activations:,} times, "
        f"{routine.instructions:,} instructions, {routine.added:,} added"
    )


def _draw(
    cluster: graphviz.Digraph, position: int, routine: RoutineProfile, measurement: RunMeasurement
) -> None:
    counts = block_counts(routine)
    most = max(counts.values(), default=0)
    names = {block: f"r{position}_{number}" for number, block in enumerate(counts)}
    for block, name in names.items():
        heat = counts[block] / most if most else 0.0
        cluster.node(name, _label(block, counts[block], measurement), fillcolor=_color(heat))
    for end in (ENTRY, EXIT):
        names[end] = f"r{position}_{end}"
        cluster.node(names[end], str(end), shape="ellipse", fillcolor="white")
    for edge in routine.edge_counts:
        if edge.source not in names:  # a block that nothing leads to: it was never executed
            names[edge.source] = f"r{position}_{len(names)}"
            label = _label(edge.source, 0, measurement)
            cluster.node(names[edge.source], label, fillcolor=_color(0.0))
        share = edge.count / most if most else 0.0
        cluster.edge(names[edge.source], names[edge.target], **_edge_attributes(edge, share))


def _edge_attributes(edge: EdgeCount, share: float) -> dict[str, str]:
    attributes = {
        "label": f"{edge.count:,}",
        "style": STYLES.get(edge.kind, "dotted"),
        "penwidth": f"{1 + (WIDEST - 1) * min(share, 1.0):.2f}",
        "tooltip": str(edge.kind),
    }
    if edge.instrumented:
        attributes["color"] = COUNTED
    elif not edge.count:
        attributes["color"] = UNUSED
    if edge.kind is EdgeKind.EARLY:
        attributes["constraint"] = "false"
    return attributes


def _label(block: VertexName, count: int, measurement: RunMeasurement) -> str:
    line = measurement.lines.get(block.start) if isinstance(block.start, int) else None
    place = "" if line is None else f"\n{readable(line.file.rpartition('/')[2])}:{line.line}"
    return "\\n".join(escaped(part) for part in f"{block}{place}\n{count:,}".split("\n"))


def _color(heat: float) -> str:
    """Return a colour by how hot a block is, from 0 (white) to 1 (red)."""
    return f"0.000 {0.6 * heat:.3f} 1.000"


def write_graphml(source: ExportSource) -> bytes:
    """Return one document with all routines that ran, numbered as they are in the profile."""
    graphs = map(counted_graph, source.measurement.routines)
    return render_graphs(enumerate(graphs)).encode()


def counted_graph(routine: RoutineProfile) -> CountedGraph:
    """Return the graph of a routine, made again from its profile, with its counts."""
    cfg, counted = routine.graph()
    executions = [block.count for block in routine.block_counts]
    begun = sum(edge.count for edge in counted if edge.source == ENTRY)
    ends = [begun, begun]  # each activation begins, and ends, once
    return CountedGraph(cfg, [*executions, *ends], [edge.count for edge in counted])
