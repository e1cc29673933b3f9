"""What a scheme takes besides the instructions that it executes: counters, code, traces."""

from __future__ import annotations

from collections.abc import Sequence

from simprof.profiler.code.codegen import RoutineCode
from simprof.profiler.code.layout import COUNTER_SIZE, SLOT_SIZE
from simprof.profiler.code.pricing import RoutineCost
from simprof.profiler.code.runtime.hash_routine import NODE_SIZE, POOL
from simprof.profiler.plan.decoders import TraceWriter
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan


def counter_bytes(plan: InstrumentationPlan, executed_paths: int) -> int:
    """Return the bytes of a plan's counters after a run that executed so many different paths.

    A hash table has its buckets and a node for each executed path, a buffer with slots one for each
    number.
    """
    named = len(plan.named_counters)
    size = COUNTER_SIZE * (plan.edge_counters + named)
    size += SLOT_SIZE * sum(plan.numbers)
    if plan.table is CounterTable.HASH:
        return size + POOL + NODE_SIZE * (executed_paths - named)
    return size + COUNTER_SIZE * plan.path_counters


def plan_sizes(
    plan: InstrumentationPlan, code: RoutineCode | RoutineCost | None, executed_paths: int
) -> dict[str, int]:
    """Return by name how much one routine's counters and code take.

    - `plan`: What is done in the routine.
    - `code`: The code of that, without run-time routines; None where there is none.
    - `executed_paths`: How many different paths the run executed.

    Returns
    -------
    dict
        `counter_bytes`, `snippets` (how many pieces of code) and `code_bytes` (theirs).
    """
    return {
        "counter_bytes": counter_bytes(plan, executed_paths),
        "snippets": 0 if code is None else code.count,
        "code_bytes": 0 if code is None else code.code_bytes,
    }


def trace_sizes(writer: TraceWriter | None, crossings: Sequence[int]) -> dict[str, int]:
    """Return by name how many bits of trace a plan writes when edges are crossed so often.

    `writer`: The plan; None if it writes no trace, for which nothing is returned. `crossings`: Edge
    id -> count.

    Returns
    -------
    dict
        `trace_bits`: of tokens of standard widths; `minimal_trace_bits`: of tokens of as few bits
        as possible.
    """
    if writer is None:
        return {}
    return {
        "trace_bits": writer.standard_bits(crossings),
        "minimal_trace_bits": writer.minimal_bits(crossings),
    }
