"""From plans, code and counters of one program to the rows of a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from profiler.cfg import ControlFlowGraph
from profiler.codegen import RoutineCode
from profiler.dag import make_dag
from profiler.experiments.cells import RoutineRow, TreeCost
from profiler.loops import depth_first, is_reducible
from profiler.measure import RoutineEvents, Scheme
from profiler.numbering import number
from profiler.plan import InstrumentationPlan, Table
from profiler.pricing import Pricer
from profiler.profile import Measurement, PathCount, RoutineProfile
from profiler.request import Mode, VertexPlacement
from profiler.scheme_registry import PATH_MODES, PLANNED_MODES, TRACE_MODES
from profiler.schemes.base import GuidedDecoder, PathDecoder, RoutinePlan
from profiler.schemes.qpt import plan_qpt, plan_qpt2
from profiler.session import Observation
from profiler.weights import measured

COUNTING_MODES = frozenset(PLANNED_MODES) - frozenset(PATH_MODES) - frozenset(TRACE_MODES)
"""Modes whose code is edge and block counters only."""


@dataclass(frozen=True)
class _Places:
    """Where the code of a plan is: places, those that need no jump, jumps executed."""

    places: int
    without_jump: int
    jumps: int


def run_rows(
    observation: Observation, scheme: Scheme, measurement: Measurement
) -> Iterator[RoutineRow]:
    """Yield a row for each routine that a run entered, by address."""
    pricer = Pricer(observation.recovered, observation.contexts)
    selected = [routine for routine in observation.events if scheme.selects(routine)]
    for routine, profile in zip(selected, measurement.routines, strict=True):
        events = observation.events[routine]
        places = None
        if scheme.setting.mode in COUNTING_MODES:
            places = _places(pricer, routine, scheme.plan(routine), events)
        yield _run_row(observation, scheme, routine, profile, places)


def _places(
    pricer: Pricer, routine: int, plan: InstrumentationPlan | None, events: RoutineEvents
) -> _Places:
    price = pricer.price(routine, plan, events.edges, events.block_counts)
    return _code_places(price.code, plan, events.edges)


def _code_places(
    code: RoutineCode | None, plan: InstrumentationPlan | None, edges: Sequence[int]
) -> _Places:
    if code is None or plan is None:
        return _Places(0, 0, 0)
    jumping = [edge for edge, snippet in code.snippets.items() if snippet.jump_cost]
    places = len(plan.pair_edges or plan.actions) + len(plan.blocks) + len(plan.block_ends)
    return _Places(places, places - len(jumping), sum(edges[edge] for edge in jumping))


def _run_row(
    observation: Observation,
    scheme: Scheme,
    routine: int,
    profile: RoutineProfile,
    places: _Places | None,
) -> RoutineRow:
    whole = scheme.routine_plan(routine)
    counters = observation.counters.of(scheme, routine)
    counts = scheme.setting.mode in COUNTING_MODES or scheme.setting.mode in PATH_MODES
    paths = [path for path in profile.path_counts if path.count and not path.partial]
    return RoutineRow(
        name=profile.name,
        address=profile.address,
        blocks=profile.blocks,
        edges=profile.edges,
        back_edges=profile.back_edges,
        irreducible=profile.irreducible,
        potential_paths=profile.potential_paths,
        num_paths=whole.num_paths if isinstance(whole, PathDecoder) else None,
        cut_edges=profile.cut_edges,
        table=profile.table,
        addressing=profile.addressing,
        path_register=profile.path_register,
        instrumented_edges=None if places is None else places.places,
        no_jump_edges=None if places is None else places.without_jump,
        activations=profile.activations,
        instructions=profile.instructions,
        added=profile.added,
        path_increments=counters.path_increments,
        hashed_increments=counters.hashed,
        hashing=counters.hashing,
        edge_increments=sum(counters.events) if counts else 0,
        jumps=0 if places is None else places.jumps,
        inferred_paths=_inferred(whole, paths),
        executed_paths=len(paths),
    )


def _inferred(whole: RoutinePlan | None, paths: Sequence[PathCount]) -> int:
    if not isinstance(whole, GuidedDecoder):
        return 0
    return sum(path.count for path in paths if path.id is not None and whole.is_obvious(path.id))


def plan_row(cfg: ControlFlowGraph, whole: RoutinePlan | None, code: RoutineCode) -> RoutineRow:
    """Return the row of a routine that was planned and not run."""
    dfs = depth_first(cfg)
    plan = None if whole is None else whole.plan
    places = _code_places(code, plan, (0,) * len(cfg.edges))
    decoder = whole if isinstance(whole, PathDecoder) else None
    potential = getattr(whole, "potential_paths", None)
    return RoutineRow(
        name=cfg.name,
        address=cfg.address,
        blocks=len(cfg.blocks),
        edges=len(cfg.edges),
        back_edges=len(dfs.back_edges),
        irreducible=not is_reducible(cfg, dfs),
        potential_paths=number(make_dag(cfg, dfs)).total if potential is None else potential,
        num_paths=None if decoder is None else decoder.num_paths,
        cut_edges=0 if decoder is None else len(decoder.cut_edges),
        table=Table.NONE if plan is None else plan.table,
        addressing=None if plan is None else plan.addressing,
        path_register=code.path_register,
        instrumented_edges=places.places,
        no_jump_edges=places.without_jump,
    )


def tree_costs(observation: Observation) -> Mapping[str, TreeCost]:
    """Return what each placement of `cells.TREES` would have cost in an observed run (BL94 6.4).

    Counters cost the same wherever and whenever they are executed, so a placement needs no run
    of its own.
    """
    pricers: dict[str, Pricer] = {}
    totals: dict[str, TreeCost] = {}
    for routine, events in observation.events.items():
        for name, whole in _placements(events):
            if name not in pricers:
                pricers[name] = Pricer(observation.recovered, observation.contexts)
                totals[name] = TreeCost(0, 0, 0, 0)
            plan = whole.plan
            price = pricers[name].price(routine, plan, events.edges, events.block_counts)
            places = _code_places(price.code, plan, events.edges)
            old = totals[name]
            totals[name] = TreeCost(
                old.counters + places.places,
                old.increments + sum(plan.event_counts(events.edges, events.block_counts)),
                old.jumps + places.jumps,
                old.added + price.added,
            )
    return totals


def _placements(events: RoutineEvents) -> Iterator[tuple[str, RoutinePlan]]:
    """Yield the placements by name; a least spanning tree is a greatest of negated weights."""
    cfg = events.cfg
    yield "redundant", plan_qpt(cfg, placement=VertexPlacement.REDUNDANT)
    greatest = plan_qpt2(cfg)
    yield "heuristic-max", greatest
    yield "heuristic-min", plan_qpt2(cfg, weights=[-weight for weight in greatest.weights])
    exact = measured(cfg, events.edges)
    yield "exact-max", plan_qpt2(cfg, weights=exact)
    yield "exact-min", plan_qpt2(cfg, weights=[-weight for weight in exact])


def has_trees(mode: Mode) -> bool:
    """Whether cells of this mode carry `tree_costs`."""
    return mode is Mode.QPT2
