"""`pp`: efficient path profiling (EPP; Ball and Larus, MICRO-29, 1996).

Terms: see `Dag`, `PathNumbering`, `SpanningTree`, `Placement`.

Steps, as EPP numbers them: those of `plan_paths`
-------------------------------------------------
0. Remove back edges, add dummy edges (section 4); cut vertices with too many paths (5.3).
1. Value the edges so that path sums are the numbers 0 .. n-1 (3.2, 5.2): `number`.
2. Move the values onto the chords of a maximum spanning tree (3.3): `chord_increments`.
3. Place the instrumentation (3.4): `place`.
4. Regenerate paths from counters (3.5): `PathPlan.decode`; unfinished paths of activations that
   ended early (3.6): `PathPlan.decode_partial`; edge counts: `AcyclicPathPlan`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from simprof import schemes as s


class RootEdge(StrEnum):
    """Where EXIT -> ENTRY is, which makes the graph strongly connected (EPP 3.3)."""

    TREE = "tree"  # in the spanning tree
    CHORD = "chord"  # a chord, whose increment is part of every count
    CHEAPER = "cheaper"  # of both, the one whose code executes less by the weights


class PpOptions(s.VertexLimitOptions):
    """The options of `pp`."""

    exit_entry = s.choice(
        RootEdge.TREE,
        "where the edge EXIT -> ENTRY is: in the spanning tree, a chord counted in EXIT, or "
        "where the code executes less by the weights.",
    )


def plan_pp(
    cfg: s.ControlFlowGraph, *, root: RootEdge = RootEdge.TREE, **parameters: Any
) -> s.PathPlan:
    """Plan path profiling of any graph; `root`: Where EXIT -> ENTRY is; `parameters`: of
    `plan_paths`.
    """
    if root is RootEdge.CHEAPER:
        rivals = (plan_pp(cfg, root=each, **parameters) for each in (RootEdge.TREE, RootEdge.CHORD))
        return min(rivals, key=expected_cost)
    return s.plan_paths(cfg, root_in_tree=root is RootEdge.TREE, **parameters)


def expected_cost(plan: s.PathPlan, context: s.RoutineContext | None = None) -> tuple[bool, float]:
    """Return whether a plan hashes, and what its code executes by its weights.

    `context`: Registers of its routine; None: all are free. A plan rests on its graph alone, and
    which registers are free on the whole program's code: that decides nothing (DEVIATIONS, pp).
    """
    context = s.RoutineContext.free() if context is None else context
    code = s.Pricer(s.PATH_GENERATORS).code(plan.cfg, plan.plan, plan.weights, context)
    executed = (plan.weights[edge] * snippet.cost for edge, snippet in code.snippets.items())
    return plan.plan.table is s.CounterTable.HASH, sum(executed)


def _plan(order: s.PlanOrder) -> s.Plan:
    chosen = PpOptions(order.options)
    return plan_pp(
        order.cfg,
        weights=order.weights,
        path_limit=order.options.path_limit,
        per_vertex=chosen.per_vertex,
        table=order.table,
        root=chosen.exit_entry,
    )


PP = s.SchemeDefinition(
    mode="pp",
    description="acyclic paths (Ball and Larus 1996)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    options=PpOptions,
)
