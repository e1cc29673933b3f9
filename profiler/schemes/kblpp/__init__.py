"""`kblpp`: acyclic paths across loop iterations (D'Elia and Demetrescu 2013)."""

from __future__ import annotations

from simprof import schemes as s

LENGTH = s.SchemeOption(
    name="length",
    kind=int,
    default=2,
    help="acyclic paths in a row that are counted together.",
    hint="give a whole number from 2 to 100",
    metavar="K",
    word="k",
    least=2,
    greatest=100,
)


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.kblpp.planner import plan_kblpp
    from simprof.profiler.schemes.pp.planner import plan_pp

    paths = plan_pp(
        order.cfg,
        weights=order.weights,
        path_limit=order.options.path_limit,
        per_vertex=s.PER_VERTEX.of(order.options),
        table=order.table,
    )
    return plan_kblpp(paths, LENGTH.of(order.options))


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.kblpp.code import CODE

    return CODE


KBLPP = s.SchemeDefinition(
    mode="kblpp",
    description="sequences of up to k acyclic paths (D'Elia and Demetrescu 2013)",
    collects=s.ProfileKind.ITERATION_PATHS,
    plan=_plan,
    reads=s.PLANNING,
    options=(LENGTH, s.PER_VERTEX, s.REGISTERS, s.LAYOUT),
    registers=s.registers_of_paths,
    code=_code,
    # The pool of nodes is the program's. What a routine's forest costs does not depend on others.
    scope=s.StateScope.PROGRAM,
)
