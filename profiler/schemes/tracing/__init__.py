"""`witness`, `bits`, `bytes`, `block-trace`: traces (Ball and Larus 1994, 4, 6.2)."""

from __future__ import annotations

from simprof import schemes as s


class TraceOptions(s.EdgeOptions):
    """The options of traces."""

    reads = ("weights",)
    addresses = s.flag(
        "the addresses of data, too, in a file of their own, less those that follow from others of "
        "the same block (programs only, and not in `instrument`)."
    )


def _plan(order: s.PlanOrder, mode: str) -> s.Plan:
    from simprof.profiler.schemes.tracing import planner

    cfg, weights = order.cfg, order.weights
    if mode == "witness":
        plan = planner.plan_witness(cfg, weights=weights)
    elif mode == "block-trace":
        plan = planner.plan_blocks(cfg, weights=weights)
    else:
        plan = planner.plan_outcomes(cfg, packed=mode == "bits", weights=weights)
    return planner.with_addresses(plan) if TraceOptions(order.options).addresses else plan


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.tracing.code import CODE

    return CODE


def _trace(mode: str, what: str) -> s.SchemeDefinition:
    return s.SchemeDefinition(
        mode=mode,
        description=f"a trace of {what}",
        collects=s.ProfileKind.TRACE,
        plan=lambda order: _plan(order, mode),
        options=TraceOptions,
        code=_code,
        scope=s.StateScope.PROGRAM,
    )


WITNESS = _trace(
    "witness", "witnesses from which the whole execution follows (Ball and Larus 1994)"
)
BITS = _trace(
    "bits", "branch outcomes from which the whole execution follows (Ball and Larus 1994, 6.2)"
)
BYTES = _trace("bytes", "branch outcomes, a byte for each (Ball and Larus 1994, 4 and 6.2)")
BLOCK_TRACE = _trace("block-trace", "every executed block (Ball and Larus 1994, 4)")
