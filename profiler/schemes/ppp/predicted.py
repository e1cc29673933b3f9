"""Routines whose paths the edge profile predicts, and which therefore get no code (after PPP).

Most of their path executions are definite flow (`profiles.edge_flow`). Their paths are taken from
the edge profile: those with definite flow, each as often as that. The others are lost.
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say

from __future__ import annotations

from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from simprof import schemes as s

# Paths with definite flow that are listed at most: a routine with more is not predicted.
_LISTED = 100_000


class PredictedPlan(s.PathCountingPlan, frozen=True, kw_only=True):
    """No code in a routine whose paths the edge profile predicts."""

    numbering: s.PathNumbering  # Of all its paths
    edge_profile: tuple[int, ...]  # By edge id
    unit_flow: int  # Of the program
    definite: tuple[tuple[int, int], ...]  # Paths with definite flow, by number, and that flow

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

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Return the definite flow, whatever the run did."""
        unpredicted = self.executions - sum(flow for _, flow in self.definite)
        lost = {
            "unpredicted_paths": unpredicted,
            "unknown_unfinished": sum(counters.early.values()),
        }
        return s.Reading(
            edges=None,
            paths=dict(self.definite),
            lost={name: count for name, count in lost.items() if count},
            inferred={"unpredicted_paths": unpredicted},
        )

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        return {
            "num_paths": s.by_block(self.cfg, self.numbering.num_paths),
            "edge_profile": list(self.edge_profile),
            "unit_flow": self.unit_flow,
            "predicted": {str(path): flow for path, flow in self.definite},
            "path_executions": self.executions,
        }

    def validate(self) -> None:
        self.dag.validate()
        self.numbering.validate()
        assert not self.plan.actions, "a routine that is left out has code"
        assert sum(flow for _, flow in self.definite) <= self.executions, "too much definite flow"


def predict(
    cfg: s.ControlFlowGraph,
    profile: tuple[int, ...],
    share: Fraction,
    unit_flow: int,
    weights: tuple[float, ...],
    limits: tuple[int | None, int | None],
) -> PredictedPlan | None:
    """Return the plan of a routine `share` percent of whose path executions are definite flow, or
    which executes no path at all; None if it is no such routine. `limits`: As of `truncated_dag`.
    """
    dag = s.truncated_dag(cfg, s.depth_first(cfg), *limits)
    flow, plan = s.EdgeFlow(cfg, dag.removed, profile), s.InstrumentationPlan({})
    made = PredictedPlan(
        cfg=cfg,
        plan=plan,
        weights=weights,
        dag=dag,
        numbering=s.number(dag),
        edge_profile=profile,
        unit_flow=unit_flow,
        definite=(),
    )
    flows = flow.definite_flows()
    definite = sum(each * paths for each, paths in flows.items())
    if 100 * definite < share * made.executions or flows.total() > _LISTED:
        return None
    found = ((made.dag_path(*piece), least) for piece, least in flow.definite_paths())
    numbered = sorted((made.numbering.encode(path), least) for path, least in found)
    return replace(made, definite=tuple(numbered))
