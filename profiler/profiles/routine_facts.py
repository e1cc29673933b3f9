"""Facts that every report has of a routine under a scheme, run, planned or drawn."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.numbering import GraphFacts
from simprof.profiler.plan.decoders import Plan
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan


def routine_facts(
    cfg: ControlFlowGraph,
    graph: GraphFacts,  # `graph_facts(cfg)`
    plan: InstrumentationPlan | None,  # What the scheme does; None: it instruments nothing.
    decoder: Plan | None,  # The plan that decodes its paths; None: it counts none.
    path_register: str | None,  # Where the code keeps the path number, None where it has none
) -> dict[str, Any]:
    """Return the first fields of `profile.RoutineProfile`, those on graph and plan."""
    return {
        "name": cfg.name,
        "address": cfg.address,
        **asdict(graph),
        "cut_edges": 0 if decoder is None else len(decoder.cut_edges),
        "table": CounterTable.NONE if plan is None else plan.table,
        "addressing": None if plan is None else plan.addressing,
        "path_register": path_register,
    }
