"""`ppp`: practical path profiling (after Bond and McKinley, CGO 2005)."""

from __future__ import annotations

from simprof import schemes as s
from simprof.profiler.schemes.ppp.options import PppOptions


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.ppp.planner import Parts, plan_ppp

    if order.edge_counts is None or order.unit_flow is None:
        raise s.UsageError("ppp needs an edge profile: give one with --edge-profile")
    chosen = PppOptions(order.options)
    parts = Parts(
        order.unit_flow,
        chosen.global_cold,
        chosen.hot_limit,
        chosen.numbering,
        chosen.tested,
        chosen.no_pushing,
        chosen.skip,
    )
    return plan_ppp(
        order.cfg,
        order.edge_counts,
        parts,
        cold=chosen.cold,
        loop=chosen.loop,
        weights=order.weights,
        path_limit=order.options.path_limit,
        table=order.table,
    )


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.tpp.code import CODE

    return CODE


PPP = s.SchemeDefinition(
    mode="ppp",
    description="acyclic paths, practical path profiling (after Bond and McKinley 2005)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    options=PppOptions,
    guided=s.ProfileKind.EDGES,
    whole_program=True,
    judged_by="pp",
    code=_code,
    losses=(
        s.Loss("cold_paths", "cold paths", "counted together", of_paths=True),
        s.Loss("pushed_paths", "cold paths", "counted as hot ones, at most"),
        s.Loss("overcounted_paths", "obvious paths", "too many"),
        s.Loss("unpredicted_paths", "paths of routines left out", "not identified", of_paths=True),
        s.Loss("unknown_unfinished", "unfinished paths", "not identified"),
    ),
)
