"""Control-flow graphs as text, with the instructions of every block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.profiler.reports.display import UNFOLDED, fold_lines
from simprof.profiler.reports.names import HEADING, brief
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.disassembly import Disassembler


def render(
    recovered: RecoveredProgram,
    selected: Sequence[int],
    width: int = UNFOLDED,
    aliases: Mapping[int, str | None] = MappingProxyType({}),
) -> str:
    """Return the graphs of the routines at positions `selected`, one paragraph each.

    `width`: cells of a line. `aliases`: by which other name a routine was selected.
    """
    notes = _notes(recovered)
    graphs = {number: recovered.routines[number] for number in selected}
    paragraphs = (
        _routine(recovered, graph, notes, brief(graph.name, width - HEADING, aliases.get(number)))
        for number, graph in graphs.items()
    )
    return "\n".join("\n".join(fold_lines(lines, width)) + "\n" for lines in paragraphs)


def _notes(recovered: RecoveredProgram) -> dict[int, str]:
    """Return the remarks that stand beside a block's instructions."""
    notes = dict.fromkeys(recovered.no_return_calls, "does not return")
    notes |= dict.fromkeys(recovered.unresolved_jumps, "targets unknown")
    notes |= dict.fromkeys(recovered.call_aliases, "reads the program counter")
    return notes | dict(recovered.irregular)


def _routine(
    recovered: RecoveredProgram, graph: ControlFlowGraph, notes: dict[int, str], name: str
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
    recovered: RecoveredProgram, graph: ControlFlowGraph, block: Block, notes: dict[int, str]
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
