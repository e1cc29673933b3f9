"""The routines that ran as GraphML, with how often blocks and edges were executed.

As `simprof cfg --format graphml` writes them (`reports.graphml`), so that `simprof graph` reads a
file of one routine, with the counts as its weights. Activations that ended early left by no edge.
"""

from __future__ import annotations

from simprof.profiler.exports.source import ExportSource
from simprof.profiler.graphs.cfg import ENTRY, EXIT, Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.profiles.profile import RoutineProfile
from simprof.profiler.reports.cfg_formats import CountedGraph, render_graphs


def write(source: ExportSource) -> bytes:
    """Return one document with all routines that ran, numbered as they are in the profile."""
    graphs = map(counted_graph, source.measurement.routines)
    return render_graphs(enumerate(graphs)).encode()


def counted_graph(routine: RoutineProfile) -> CountedGraph:
    """Return the graph of a routine, made again from its profile, with its counts."""
    blocks = tuple(
        Block(number, block.start, block.instructions, block.is_slot)
        for number, block in enumerate(routine.block_counts)
    )
    numbers = {block.name: number for number, block in enumerate(routine.block_counts)}
    numbers |= {ENTRY: len(blocks), EXIT: len(blocks) + 1}
    counted = [edge for edge in routine.edge_counts if edge.kind is not EdgeKind.EARLY]
    edges = tuple(
        Edge(number, numbers[edge.source], numbers[edge.target], edge.kind)
        for number, edge in enumerate(counted)
    )
    executions = [block.count for block in routine.block_counts]
    ends = [routine.activations, routine.activations]  # each activation begins, and ends, once
    cfg = ControlFlowGraph(routine.name, routine.address, 0, blocks, edges)
    return CountedGraph(cfg, [*executions, *ends], [edge.count for edge in counted])
