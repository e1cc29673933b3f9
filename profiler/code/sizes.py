"""How much memory a plan's counters take."""

from __future__ import annotations

from profiler.code.layout import COUNTER_SIZE, PAIR_SIZE
from profiler.code.runtime.hash_routine import NODE_SIZE, POOL
from profiler.plan.plan import InstrumentationPlan, Table


def counter_bytes(plan: InstrumentationPlan, executed_paths: int) -> int:
    """Return the bytes of a plan's counters after a run that executed so many different paths.

    A hash table has its buckets and a node for each executed path, a log of pairs a slot for each
    number.
    """
    size = COUNTER_SIZE * (plan.edge_counters + plan.has_cold_counter)
    size += PAIR_SIZE * (plan.log_sources + plan.log_destinations)
    if plan.table is Table.HASH:
        return size + POOL + NODE_SIZE * (executed_paths - plan.has_cold_counter)
    return size + COUNTER_SIZE * plan.path_counters
