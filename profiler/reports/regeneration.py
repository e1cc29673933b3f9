"""Reports of `simprof read` on an execution that was rebuilt from its trace."""

from __future__ import annotations

import json
from collections.abc import Iterator

from simprof.profiler.profiles.codec import encode
from simprof.profiler.profiles.documents import result_head
from simprof.profiler.profiles.tables import address_text
from simprof.profiler.reports.display import visible
from simprof.profiler.schemes.cost_model import this_simprof
from simprof.profiler.schemes.mode_options import setting_object
from simprof.profiler.trace.calls import CallProfile
from simprof.profiler.trace.regeneration import Regenerated


def render_json(regenerated: Regenerated, calls: CallProfile | None = None) -> str:
    """Return one JSON object (format `simprof/read`) with a newline; `calls`: those counted."""
    result, header = regenerated.result, regenerated.trace.header
    program = {
        "file": str(regenerated.program),
        "sha256": header.sha256,
        "machine": header.machine,
        "arguments": list(header.arguments),
    }
    setting = setting_object(header.mode, header.options or {}, None)
    about = "read", program, header.input_sha256, setting
    answer: dict[str, object] = {
        **result_head(*about, measured_by=this_simprof()),
        "blocks": result.blocks,
        "transfers": result.crossings,
        "instructions": regenerated.instructions,
        "trace_bits": result.bits,
        "events": len(regenerated.trace.events),
        "complete": regenerated.complete,
        "checked": regenerated.checked,
        "problem": result.problem,
        "position": {
            "block": None if regenerated.block is None else address_text(regenerated.block),
            "routine": regenerated.routine,
        },
    }
    if calls is not None:
        answer["call_paths"] = encode(calls)
    return json.dumps(answer, indent=1) + "\n"


def render_text(regenerated: Regenerated, calls: CallProfile | None = None) -> str:
    """Return a summary of a few lines, and the most frequent call paths where they were counted."""
    result, header = regenerated.result, regenerated.trace.header
    state = "whole" if regenerated.complete else "incomplete"
    if regenerated.complete and regenerated.checked:
        state = "whole, and as executed"
    lines = [
        f"{regenerated.program}: {header.mode} trace, {state}",
        f"  {result.blocks:,} blocks executed, {regenerated.instructions:,} instructions in them",
        f"  {result.crossings:,} edges crossed, from {(result.bits + 7) // 8:,} bytes of trace",
    ]
    return "\n".join([*lines, *([] if calls is None else _call_lines(calls))]) + "\n"


def _call_lines(calls: CallProfile) -> Iterator[str]:
    yield (
        f"  {calls.activations:,} activations along {calls.executed:,} call paths "
        f"({calls.potential:,} in the call graph)"
    )
    if calls.dynamic:
        yield (
            f"  {calls.dynamic_activations:,} of them along {calls.dynamic:,} with calls that the "
            "call graph lacks"
        )
    width = max((len(f"{path.entered:,}") for path in calls.paths), default=0)
    for path in calls.paths:
        number = "-" if path.number is None else f"{path.number:,}"
        yield f"  {path.entered:>{width},}  {number}  {' > '.join(map(visible, path.routines))}"


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
