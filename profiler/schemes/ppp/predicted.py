"""Routines whose paths the edge profile predicts, and which therefore get no code (after PPP).

Terms
-----
definite flow of a path
    How often it executed at least, in every path profile with this edge profile: the flow of its
    first edge, less what may have left it at each vertex (Ball, Mataga and Sagiv, "Edge Profiling
    versus Path Profiling: The Showdown", POPL 1998).
predicted routine
    One most of whose path executions are definite flow. Its paths are taken from the edge profile:
    those with definite flow, each as often as that. The others are lost.
"""

# ruff: noqa: D102 - overriding methods do what `RoutinePlan` and `PathDecoder` say

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import PathNumbering, number
from simprof.profiler.graphs.paths import truncated_dag
from simprof.profiler.plan.decoders import Reading, RoutineCounters
from simprof.profiler.plan.path_plan import PathCountingPlan
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.schemes.static import num_paths
from simprof.simulator.values import dataclass

# Vertices that a search for definite flow visits at most. What has more is not predicted.
_VISITS = 100_000


def definite_paths(dag: Dag, counts: Sequence[int]) -> list[tuple[tuple[int, ...], int]] | None:
    """Return the paths with definite flow, as dag edges, and their flow, from counts by edge id of
    the control-flow graph; None if the search is too long.
    """
    flow, target, leave = dag.edge_weights(counts), dag.columns.target, dag.cfg.exit
    inflow = [sum(flow[edge] for edge in edges) for edges in dag.in_edges]
    found: list[tuple[tuple[int, ...], int]] = []
    work: list[tuple[tuple[int, ...], int]] = [
        ((edge,), int(flow[edge])) for edge in dag.out_edges[dag.cfg.entry] if flow[edge]
    ]
    visits = 0
    while work:
        path, known = work.pop()
        vertex = target[path[-1]]
        if vertex == leave:
            found.append((path, known))
            continue
        visits += 1
        if visits > _VISITS:
            return None
        for edge in dag.out_edges[vertex]:
            # All that goes on by other edges may have come along this path.
            rest = known - int(inflow[vertex] - flow[edge])
            if rest > 0:
                work.append(((*path, edge), rest))
    return found


@dataclass(frozen=True, kw_only=True)
class PredictedPlan(PathCountingPlan):
    """No code in a routine whose paths the edge profile predicts."""

    numbering: PathNumbering  # Of all its paths
    edge_profile: tuple[int, ...]  # By edge id
    unit_flow: int  # Of the program
    definite: tuple[tuple[int, int], ...]  # Paths with definite flow, by number, and that flow

    @property
    def split_edges(self) -> frozenset[int]:
        """Edges that end paths and are no back edges."""
        return frozenset(self.dag.cut_edges)

    @property
    def blocks_of_all_paths(self) -> int | None:
        return self.numbering.blocks_of_all_paths()

    def is_obvious(self, path_id: int) -> bool:
        """Whether path `path_id` has no counter: none has."""
        return True

    @property
    def executions(self) -> int:
        """How many paths were executed to their end, by the edge profile."""
        flow = self.dag.edge_weights(self.edge_profile)
        return int(sum(flow[edge] for edge in self.dag.in_edges[self.cfg.exit]))

    def read(self, counters: RoutineCounters) -> Reading:
        """Return the definite flow, whatever the run did."""
        unpredicted = self.executions - sum(flow for _, flow in self.definite)
        lost = {
            "unpredicted_paths": unpredicted,
            "unknown_unfinished": sum(counters.early.values()),
        }
        return Reading(
            edges=None,
            paths=dict(self.definite),
            lost={name: count for name, count in lost.items() if count},
            inferred={"unpredicted_paths": unpredicted},
        )

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        return {
            "num_paths": num_paths(self.cfg, self.numbering.num_paths),
            "edge_profile": list(self.edge_profile),
            "unit_flow": self.unit_flow,
            "predicted": {str(path): flow for path, flow in self.definite},
            "path_executions": self.executions,
        }

    def validate(self) -> None:
        self.dag.validate()
        self.numbering.validate()
        assert not self.plan.actions, "a routine that is left out has code"
        flow = self.dag.edge_weights(self.edge_profile)
        through = dict.fromkeys(range(len(flow)), 0)
        for path_id, least in self.definite:
            for edge in self.numbering.decode(path_id):
                through[edge] += least
        beyond = [edge for edge, least in through.items() if least > flow[edge]]
        assert not beyond, f"more definite flow than flow on the dag edges {beyond}"


def predict(
    cfg: ControlFlowGraph,
    profile: tuple[int, ...],
    share: Fraction,
    unit_flow: int,
    weights: tuple[float, ...],
    limits: tuple[int | None, int | None],
) -> PredictedPlan | None:
    """Return the plan of a routine `share` percent of whose path executions are definite flow, or
    which executes no path at all; None if it is no such routine. `limits`: As of `truncated_dag`.
    """
    dag = truncated_dag(cfg, depth_first(cfg), *limits)
    found = definite_paths(dag, profile)
    if found is None:
        return None
    numbering = number(dag)
    plan = PredictedPlan(
        cfg=cfg,
        plan=InstrumentationPlan({}),
        weights=weights,
        dag=dag,
        numbering=numbering,
        edge_profile=profile,
        unit_flow=unit_flow,
        definite=tuple(sorted((numbering.encode(path), flow) for path, flow in found)),
    )
    definite = sum(flow for _, flow in found)
    return plan if 100 * definite >= share * plan.executions else None
