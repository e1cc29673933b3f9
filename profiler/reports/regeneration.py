"""Reports of `simprof regenerate`."""

from __future__ import annotations

import json

from profiler.trace.regenerate import Regenerated

SCHEMA = "simprof/regenerate/1"


def render_json(regenerated: Regenerated) -> str:
    """Return one JSON object with a newline."""
    result, header = regenerated.result, regenerated.trace.header
    answer = {
        "schema": SCHEMA,
        "program": {
            "file": str(regenerated.program),
            "sha256": header.sha256,
            "machine": header.machine,
            "arguments": list(header.arguments),
        },
        "mode": header.mode,
        "blocks": result.blocks,
        "transfers": result.crossings,
        "instructions": regenerated.instructions,
        "trace_bits": result.bits,
        "events": len(regenerated.trace.events),
        "complete": regenerated.complete,
        "checked": regenerated.checked,
        "problem": result.problem,
        "position": {"block": regenerated.block, "routine": regenerated.routine},
    }
    return json.dumps(answer, indent=1) + "\n"


def render_text(regenerated: Regenerated) -> str:
    """Return a summary of a few lines."""
    result, header = regenerated.result, regenerated.trace.header
    state = "whole" if regenerated.complete else "incomplete"
    if regenerated.complete and regenerated.checked:
        state = "whole, and as executed"
    lines = [
        f"{regenerated.program}: {header.mode} trace, {state}",
        f"  {result.blocks:,} blocks executed, {regenerated.instructions:,} instructions in them",
        f"  {result.crossings:,} edges crossed, from {(result.bits + 7) // 8:,} bytes of trace",
    ]
    return "\n".join(lines) + "\n"


def problem(regenerated: Regenerated, name: str) -> str:
    """Return one line that says how far the trace `name` led, and why no further."""
    result = regenerated.result
    where = "of the program"
    if regenerated.block is not None:
        where = f"to {regenerated.block:#x} in {regenerated.routine}"
    return (
        f"{name}: regenerated {result.blocks} blocks, up to edge {result.crossings} {where}: "
        f"{result.problem}"
    )
