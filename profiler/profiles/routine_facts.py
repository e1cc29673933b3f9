"""What every report says of a routine under a scheme, whether it was run, planned or drawn."""

from __future__ import annotations

from typing import TypedDict

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.numbering import GraphFacts
from simprof.profiler.plan.decoders import PathDecoder
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan


class RoutineFacts(TypedDict):
    """Facts about a routine and a plan for it; meanings as in `profile.RoutineProfile`."""

    name: str
    address: int
    blocks: int
    edges: int
    back_edges: int
    irreducible: bool
    potential_paths: int
    cut_edges: int
    table: CounterTable
    addressing: Addressing | None
    path_register: str | None


def routine_facts(
    cfg: ControlFlowGraph,
    graph: GraphFacts,
    plan: InstrumentationPlan | None,
    decoder: PathDecoder | None,
    path_register: str | None,
) -> RoutineFacts:
    """Put together the facts about one routine.

    - `cfg`, `graph`: The routine, and `graph_facts(cfg)`.
    - `plan`, `decoder`: What the scheme does, and the plan that decodes its paths; None where it
      instruments nothing, or counts no paths.
    - `path_register`: Where the code keeps the path number, None where it has none.
    """
    return RoutineFacts(
        name=cfg.name,
        address=cfg.address,
        blocks=graph.blocks,
        edges=graph.edges,
        back_edges=graph.back_edges,
        irreducible=graph.irreducible,
        potential_paths=graph.potential_paths,
        cut_edges=0 if decoder is None else len(decoder.cut_edges),
        table=CounterTable.NONE if plan is None else plan.table,
        addressing=None if plan is None else plan.addressing,
        path_register=path_register,
    )
