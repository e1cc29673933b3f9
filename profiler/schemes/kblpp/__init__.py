"""`kblpp`: acyclic paths across loop iterations (D'Elia and Demetrescu 2013)."""

from __future__ import annotations

from simprof import schemes as s


class KblppOptions(s.VertexLimitOptions):
    """The options of `kblpp`."""

    length = s.whole_number(
        2, "acyclic paths in a row that are counted together.", 2, 100, metavar="K", word="k"
    )


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.kblpp.planner import plan_kblpp

    chosen = KblppOptions(order.options)
    paths = s.plan_paths(
        order.cfg,
        weights=order.weights,
        path_limit=order.options.path_limit,
        per_vertex=chosen.per_vertex,
        table=order.table,
    )
    return plan_kblpp(paths, chosen.length)


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.kblpp.code import CODE

    return CODE


KBLPP = s.SchemeDefinition(
    mode="kblpp",
    description="sequences of up to k acyclic paths (D'Elia and Demetrescu 2013)",
    collects=s.ProfileKind.ITERATION_PATHS,
    plan=_plan,
    options=KblppOptions,
    code=_code,
    # The pool of nodes is the program's. What a routine's forest costs does not depend on others.
    scope=s.StateScope.PROGRAM,
)
