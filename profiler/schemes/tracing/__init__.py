"""`witness`, `bits`, `bytes`, `block-trace`: traces (Ball and Larus 1994, 4, 6.2)."""

from __future__ import annotations

from collections.abc import Callable

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    StateScope,
    flag,
)


def _outcomes(order: PlanOrder, packed: bool) -> RoutinePlan:
    from simprof.profiler.schemes.tracing.planner import plan_outcomes

    return plan_outcomes(order.cfg, packed=packed, weights=order.weights)


def _blocks(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.tracing.planner import plan_blocks

    return plan_blocks(order.cfg, weights=order.weights)


def _witnesses(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.tracing.planner import plan_witness

    return plan_witness(order.cfg, weights=order.weights)


ADDRESSES = flag(
    "addresses",
    "the addresses of data, too, in a file of their own, less those that follow from others of "
    "the same block (programs only, and not in `instrument`).",
)


def _planner(plan: Callable[[PlanOrder], RoutinePlan]) -> Callable[[PlanOrder], RoutinePlan]:
    def planned(order: PlanOrder) -> RoutinePlan:
        from simprof.profiler.schemes.tracing.planner import TracePlan, with_addresses

        found = plan(order)
        assert isinstance(found, TracePlan)
        return with_addresses(found) if ADDRESSES.of(order.options) else found

    return planned


def _code() -> SchemeCode:
    from simprof.profiler.schemes.tracing.code import CODE

    return CODE


def _trace(mode: str, what: str, plan: Callable[[PlanOrder], RoutinePlan]) -> SchemeDefinition:
    return SchemeDefinition(
        mode=mode,
        description=f"a trace of {what}",
        collects=ProfileKind.TRACE,
        plan=_planner(plan),
        reads=("weights",),
        options=(ADDRESSES, LAYOUT),
        code=_code,
        scope=StateScope.PROGRAM,
    )


WITNESS = _trace(
    "witness", "witnesses that tells the whole execution (Ball and Larus 1994)", _witnesses
)
BITS = _trace(
    "bits",
    "branch outcomes that tells the whole execution (Ball and Larus 1994, 6.2)",
    lambda order: _outcomes(order, packed=True),
)
BYTES = _trace(
    "bytes",
    "branch outcomes, a byte for each (Ball and Larus 1994, 4 and 6.2)",
    lambda order: _outcomes(order, packed=False),
)
BLOCK_TRACE = _trace("block-trace", "every executed block (Ball and Larus 1994, 4)", _blocks)
