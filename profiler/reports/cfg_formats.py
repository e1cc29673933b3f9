"""Control-flow graphs as text, JSON, DOT and GraphML.

text
    The instructions of every block.
JSON
    Format `simprof/cfg`. Blocks and the ends of edges are named as in all JSON: "0x101918",
    "slot 0x101918", "ENTRY", "EXIT".
DOT
    One cluster a routine, written by `graphviz`. That library and not `pydot`, because it quotes
    every name: pydot writes a name that ends in a backslash, or that begins and ends with quotes
    or angle brackets, as something else.
GraphML
    One directed graph, written by networkx. Nodes are named `position:vertex`, edges
    `position:eID`. The attributes are those of `graphs.interchange`, and `routine`, a node's
    routine. `simprof explain` reads a file of one routine. Graphs of a profile also have
    `executions` (nodes) and `weight` (edges): how often each was executed and crossed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from simprof.profiler.graphs.cfg import ENTRIES, Block, ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.interchange import vertex_attributes
from simprof.profiler.profiles.documents import head
from simprof.profiler.profiles.tables import address_text
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.reports.display import HEADING, UNFOLDED, brief, fold_lines
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.disassembly import Disassembler

if TYPE_CHECKING:
    import graphviz
    import networkx as nx


def render_text(
    recovered: ProgramGraphs,
    selected: Sequence[int],
    width: int = UNFOLDED,
    aliases: Mapping[int, str | None] = MappingProxyType({}),
) -> str:
    """Return the graphs of the routines at positions `selected`, one paragraph each.

    `width`: cells of a line. `aliases`: by which other name a routine was selected.
    """
    notes = dict.fromkeys(recovered.no_return_calls, "does not return")
    notes |= dict.fromkeys(recovered.unresolved_jumps, "targets unknown")
    notes |= dict.fromkeys(recovered.call_aliases, "reads the program counter")
    notes |= dict(recovered.irregular)
    paragraphs = []
    for number in selected:
        graph = recovered.routines[number]
        name = brief(graph.name, width - HEADING, aliases.get(number))
        paragraphs.append(_routine_text(recovered, graph, notes, name))
    return "\n".join("\n".join(fold_lines(lines, width)) + "\n" for lines in paragraphs)


def _routine_text(
    recovered: ProgramGraphs, graph: ControlFlowGraph, notes: dict[int, str], name: str
) -> Iterator[str]:
    yield (
        f"{name} at {graph.address:#x}: {graph.size} bytes, "
        f"{len(graph.blocks)} blocks, {len(graph.edges)} edges"
    )
    entries = [graph.edges[edge].target for edge in graph.out_edges[graph.entry]]
    yield "  ENTRY -> " + ", ".join(str(graph.name_of(target)) for target in entries)
    for block in graph.blocks:
        yield from _block(recovered, graph, block, notes)


def _block(
    recovered: ProgramGraphs, graph: ControlFlowGraph, block: Block, notes: dict[int, str]
) -> Iterator[str]:
    unit = "instruction" if block.instructions == 1 else "instructions"
    yield f"  {graph.name_of(block.id)}: {block.instructions} {unit}"
    disassembler = Disassembler(recovered.program.machine is not MachineKind.SPARCV8)
    for address in range(block.start, block.end, 4):
        word = int(recovered.code.words[recovered.code.index(address)])
        text = f"    {address:#x}  {disassembler.text(word, address)}"
        yield f"{text}  ! {notes[address]}" if address in notes else text
    for number in graph.out_edges[block.id]:
        edge = graph.edges[number]
        kind = "" if edge.kind is EdgeKind.EXIT else f" ({edge.kind.value})"
        yield f"    -> {graph.name_of(edge.target)}{kind}"


def render_json(recovered: ProgramGraphs, selected: Sequence[int]) -> str:
    """Return one JSON object with the graphs of the routines at positions `selected`."""
    program, machine = recovered.program, recovered.program.machine.value
    graphs = [recovered.routines[position] for position in selected]
    answer = {
        **head("cfg"),
        "program": {"file": str(program.path), "sha256": program.sha256, "machine": machine},
        "routines": [_routine_object(recovered, graph) for graph in graphs],
    }
    return json.dumps(answer, indent=1) + "\n"


def _routine_object(recovered: ProgramGraphs, graph: ControlFlowGraph) -> dict[str, object]:
    ends = {block.end - back for block in graph.blocks for back in (4, 8)}
    names = [str(graph.name_of(vertex)) for vertex in range(graph.vertex_count)]
    return {
        "symbol": graph.name,
        "routine_address": address_text(graph.address),
        "size": graph.size,
        "blocks": [
            {"block": names[block.id], "instructions": block.instructions} for block in graph.blocks
        ],
        "edges": [
            {"source": names[edge.source], "target": names[edge.target], "kind": edge.kind.value}
            for edge in graph.edges
        ],
        "unresolved_jumps": [
            address_text(jump) for jump in recovered.unresolved_jumps if jump in ends
        ],
        "no_return_calls": list(map(address_text, sorted(recovered.no_return_calls & ends))),
        "irregular": [
            {"address": address_text(address), "reason": reason}
            for address, reason in recovered.irregular
            if address in ends
        ],
    }


STYLES = {
    **dict.fromkeys((EdgeKind.FALL_THROUGH, *ENTRIES, EdgeKind.EXIT), "solid"),
    **dict.fromkeys((EdgeKind.TAKEN, EdgeKind.SWITCH, EdgeKind.SLOT), "bold"),
    EdgeKind.CALL_RETURN: "dashed",
}


def render_dot(recovered: ProgramGraphs, selected: Sequence[int]) -> str:
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


class CountedGraph(Struct, frozen=True):
    """A routine's graph; `executions` by vertex id and `crossings` by edge id, where known."""

    cfg: ControlFlowGraph
    executions: Sequence[int] | None = None
    crossings: Sequence[int] | None = None


def render_graphml(recovered: ProgramGraphs, selected: Sequence[int]) -> str:
    """Return one GraphML document with the routines at positions `selected`.

    Characters of routine names that XML cannot hold are replaced by `?`.
    """
    return render_graphs(
        (position, CountedGraph(recovered.routines[position])) for position in selected
    )


def render_graphs(graphs: Iterable[tuple[int, CountedGraph]]) -> str:
    """Return one GraphML document with some graphs, each with its position."""
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
