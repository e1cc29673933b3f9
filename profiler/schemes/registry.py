"""Every mode's planner behind one call: the only list of schemes.

Schemes are imported when they are first asked for, so that a run with one mode loads one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from profiler.graphs.cfg import ControlFlowGraph
from profiler.plan.decoders import RoutinePlan
from profiler.plan.plan import Table
from profiler.request.request import Mode, SchemeOptions, TableChoice
from simulator.errors import UsageError

PLANNED_MODES = tuple(mode for mode in Mode if mode is not Mode.EDGES)
"""Modes that instrument; EDGES adds nothing and has no plan."""

PATH_MODES = (Mode.PP, Mode.BITTRACE, Mode.TPP, Mode.KITER)
"""Modes whose plans count paths: `make_plan` returns a `PathDecoder`."""

TRACE_MODES = (Mode.WITNESS, Mode.BITS)
"""Modes that write a trace."""

VERTEX_MODES = (Mode.QPT,)
"""Modes that may count blocks and leave edges open."""

_TABLES = {
    TableChoice.AUTO: None,
    TableChoice.ARRAY: Table.ARRAY,
    TableChoice.HASH: Table.HASH,
}


def needs_edge_profile(mode: Mode) -> bool:
    """Whether `make_plan` needs `edge_counts` for `mode`."""
    return mode is Mode.TPP


def make_plan(
    cfg: ControlFlowGraph,
    mode: Mode,
    options: SchemeOptions,
    weights: Sequence[float] | None = None,
    edge_counts: Sequence[int] | None = None,
) -> RoutinePlan:
    """Plan one routine under one mode.

    Parameters
    ----------
    cfg, mode, options
        The routine and what is wanted. Of `options`, `weights` and `edge_profile` are not read:
        they are the two parameters below.
    weights
        Edge weights by edge id; None for BL94's heuristic.
    edge_counts
        Edge profile by edge id, for `tpp`. Ignored by the other modes.

    Returns
    -------
    RoutinePlan
        For `PATH_MODES` a `PathDecoder`.

    Raises
    ------
    UsageError
        If the mode has no plan, or needs an edge profile and gets none.
    """
    if mode not in _MAKERS:
        raise UsageError(f"mode {mode} instruments nothing, so it has no plan")
    return _MAKERS[mode](_Order(cfg, options, weights, edge_counts))


@dataclass(frozen=True)
class _Order:
    """The arguments of `make_plan`."""

    cfg: ControlFlowGraph
    options: SchemeOptions
    weights: Sequence[float] | None
    edge_counts: Sequence[int] | None

    @property
    def table(self) -> Table | None:
        """The table that the user insists on."""
        return _TABLES[self.options.table]


def _pp(order: _Order) -> RoutinePlan:
    from profiler.schemes.pp.planner import plan_pp

    return plan_pp(
        order.cfg, weights=order.weights, path_limit=order.options.path_limit, table=order.table
    )


def _bittrace(order: _Order) -> RoutinePlan:
    from profiler.schemes.bittrace.planner import plan_bittrace

    return plan_bittrace(
        order.cfg, weights=order.weights, path_limit=order.options.path_limit, table=order.table
    )


def _tpp(order: _Order) -> RoutinePlan:
    from profiler.schemes.tpp.planner import plan_tpp

    if order.edge_counts is None:
        raise UsageError("tpp needs an edge profile: give one with --edge-profile")
    return plan_tpp(
        order.cfg,
        order.edge_counts,
        cold=order.options.cold,
        loop=order.options.loop,
        cold_always=order.options.cold_always,
        weights=order.weights,
        path_limit=order.options.path_limit,
        table=order.table,
    )


def _kiter(order: _Order) -> RoutinePlan:
    from profiler.schemes.kiter.planner import plan_kiter

    return plan_kiter(
        order.cfg,
        iterations=order.options.iterations,
        weights=order.weights,
        path_limit=order.options.path_limit,
        table=order.table,
    )


def _qpt2(order: _Order) -> RoutinePlan:
    from profiler.schemes.qpt.planner import plan_qpt2

    return plan_qpt2(order.cfg, weights=order.weights)


def _qpt(order: _Order) -> RoutinePlan:
    from profiler.schemes.qpt.planner import plan_qpt

    return plan_qpt(order.cfg, placement=order.options.placement, weights=order.weights)


def _witness(order: _Order) -> RoutinePlan:
    from profiler.schemes.tracing.planner import plan_witness

    return plan_witness(order.cfg, weights=order.weights)


def _bits(order: _Order) -> RoutinePlan:
    from profiler.schemes.tracing.planner import plan_bits

    return plan_bits(order.cfg, weights=order.weights)


def _naive(order: _Order) -> RoutinePlan:
    from profiler.schemes.cs6120.planner import plan_naive

    return plan_naive(order.cfg)


def _calls(order: _Order) -> RoutinePlan:
    from profiler.schemes.cs6120.planner import plan_calls

    return plan_calls(order.cfg)


def _calls_optimal(order: _Order) -> RoutinePlan:
    from profiler.schemes.cs6120.planner import plan_calls_optimal

    return plan_calls_optimal(order.cfg, weights=order.weights)


_MAKERS: Mapping[Mode, Callable[[_Order], RoutinePlan]] = MappingProxyType(
    {
        Mode.PP: _pp,
        Mode.QPT2: _qpt2,
        Mode.QPT: _qpt,
        Mode.WITNESS: _witness,
        Mode.BITS: _bits,
        Mode.BITTRACE: _bittrace,
        Mode.TPP: _tpp,
        Mode.KITER: _kiter,
        Mode.NAIVE: _naive,
        Mode.CALLS: _calls,
        Mode.CALLS_OPTIMAL: _calls_optimal,
    }
)
