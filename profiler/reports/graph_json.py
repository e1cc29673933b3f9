"""Control-flow graphs as JSON, schema `simprof/cfg/1`.

Blocks, and the ends of edges, are named as in `simprof/run/2`: by start address, `{"slot":
address}` for a slot block, "ENTRY" and "EXIT". All addresses are integers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.recovery.recovery import RecoveredProgram

SCHEMA = "simprof/cfg/1"


def render(recovered: RecoveredProgram, selected: Sequence[int]) -> str:
    """Return one JSON object with the graphs of the routines at positions `selected`."""
    program = recovered.program
    graphs = [recovered.routines[position] for position in selected]
    answer = {
        "schema": SCHEMA,
        "program": {
            "file": str(program.path),
            "sha256": program.sha256,
            "machine": program.machine.value,
        },
        "routines": [_routine(recovered, graph) for graph in graphs],
    }
    return json.dumps(answer, indent=1) + "\n"


def _routine(recovered: RecoveredProgram, graph: ControlFlowGraph) -> dict[str, object]:
    ends = {block.end - back for block in graph.blocks for back in (4, 8)}
    return {
        "name": graph.name,
        "address": graph.address,
        "size": graph.size,
        "blocks": [
            {"block": graph.name_of(block.id).as_json(), "instructions": block.instructions}
            for block in graph.blocks
        ],
        "edges": [
            {
                "source": graph.name_of(edge.source).as_json(),
                "target": graph.name_of(edge.target).as_json(),
                "kind": edge.kind.value,
            }
            for edge in graph.edges
        ],
        "unresolved_jumps": [jump for jump in recovered.unresolved_jumps if jump in ends],
        "no_return_calls": sorted(recovered.no_return_calls & ends),
        "irregular": [
            {"address": address, "reason": reason}
            for address, reason in recovered.irregular
            if address in ends
        ],
    }
