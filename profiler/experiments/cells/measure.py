"""One observed run to the results of its cells: totals, rows of routines, facts of paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, cast

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import Where
from simprof.profiler.code.places import find_place, fold_slot_blocks, runs_into_code
from simprof.profiler.code.pricing import Pricer
from simprof.profiler.experiments.cells.cells import (
    TREES,
    CellResult,
    PathRow,
    RoutineRow,
    TreeCost,
)
from simprof.profiler.experiments.cells.path_facts import RoutinePaths, path_facts, path_rows
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import graph_facts
from simprof.profiler.graphs.spanning import measured, postorder
from simprof.profiler.plan.actions import CountEdge
from simprof.profiler.plan.decoders import (
    LimitedDecoder,
    NamingDecoder,
    PathNames,
    RoutinePlan,
)
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.profiler.request.library_sources import is_library_source
from simprof.profiler.request.request import DEFAULT_MODE, RunRequest, SchemeOptions, Setting
from simprof.profiler.schemes.registry import definition, generators, make_plan
from simprof.profiler.session.counters import RoutineEvents
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.session.session import observe


def measure(request: RunRequest, settings: Sequence[Setting]) -> tuple[CellResult, ...]:
    """Run a program and return a result for each setting.

    Raises SimulatorError as `session.run_program`. How the program ended is not judged here.
    """
    observation = observe(request, settings)
    check = request.self_check
    measurements = measure_all(observation, self_check=check, brief=not check)
    selects = observation.schemes[0].selects  # the same routines under all settings
    trees = cache(lambda options: tree_costs(observation, selects, options))
    pairs = zip(observation.schemes, measurements, strict=True)
    return tuple(_result(observation, scheme, measurement, trees) for scheme, measurement in pairs)


# Totals that are no property of a cell: how often the program had to be run again.
RUNS = frozenset({"runs", "whole_runs"})


def _result(
    observation: Observation,
    scheme: SchemeRun,
    measurement: RunMeasurement,
    trees: Callable[[SchemeOptions], Mapping[str, TreeCost]],
) -> CellResult:
    mode, options = scheme.setting.mode, scheme.setting.options
    entered = [routine for routine in observation.events if scheme.selects(routine)]
    measured = list(zip(entered, measurement.routines, strict=True))
    loops_added = _self_loops_added(observation, scheme, entered)
    rows = tuple(
        replace(_run_row(observation, scheme, *each), self_loop_added=loops_added.get(each[0], 0))
        for each in measured
    )
    counts = {name: count for name, count in measurement.counts.items() if name not in RUNS}
    facts, paths = None, tuple[PathRow, ...]()
    if definition(mode).counts_paths:
        routines = [_routine_paths(observation, scheme, *each) for each in measured]
        exact = mode == DEFAULT_MODE
        facts = path_facts(routines, predict=exact)
        paths = path_rows(routines) if exact else ()
    return CellResult(
        base=measurement.base,
        added=measurement.added,
        reason=measurement.ending.reason,
        status=measurement.ending.code,
        counts={
            **counts,
            "jumps": sum(row.jumps for row in rows),
            "hashing": sum(row.hashing for row in rows),
        },
        sizes=dict(measurement.sizes),
        lost=dict(measurement.lost),
        routines=rows,
        facts=facts,
        paths=paths,
        trees=trees(SchemeOptions(own=options.own)) if mode == "qpt2" else {},
        warnings=measurement.warnings,
    )


def _routine_paths(
    observation: Observation, scheme: SchemeRun, routine: int, profile: RoutineProfile
) -> RoutinePaths:
    events = observation.events[routine]
    decoder = definition(scheme.setting.mode).path_decoder(scheme.routine_plan(routine))
    dfs = depth_first(events.cfg)
    removed = (dfs.back_edges - dfs.self_loops) | set(() if decoder is None else decoder.cut_edges)
    return RoutinePaths(events.cfg, profile.path_counts, events.edges, removed)


def find_jumps(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, context: RoutineContext
) -> tuple[int, ...]:
    """Return the edges whose code ends with a jump, as `codegen.generate` places it."""
    actions, _, _ = fold_slot_blocks(cfg, plan, context.shared_slots)
    coded = (*actions, *runs_into_code(cfg, actions, context))
    places = {edge: find_place(cfg, edge, context) for edge in coded}
    return tuple(
        edge
        for edge, place in places.items()
        if place.where is Where.STUB and (place.edge == edge or place.edge not in places)
    )


class _Places(NamedTuple):
    """Where the code of a plan is: places, those that need no jump, jumps executed."""

    places: int = 0
    without_jump: int = 0
    jumps: int = 0


def _places(
    cfg: ControlFlowGraph,
    plan: InstrumentationPlan | None,
    context: RoutineContext,
    edges: Sequence[int],
) -> _Places:
    if plan is None:
        return _Places()
    jumping = find_jumps(cfg, plan, context)
    places = len(plan.instrumented_edges) + len(plan.blocks) + len(plan.block_ends)
    folded, _, _ = fold_slot_blocks(cfg, plan, context.shared_slots)
    bare = runs_into_code(cfg, folded, context)  # a jump, and no code besides
    own = places - len(jumping) + len(bare)
    return _Places(places, own, sum(edges[edge] for edge in jumping))


def _run_row(
    observation: Observation,
    scheme: SchemeRun,
    routine: int,
    profile: RoutineProfile,
) -> RoutineRow:
    routine_plan, plan = scheme.routine_plan(routine), scheme.plan(routine)
    decoder = definition(scheme.setting.mode).path_decoder(routine_plan)
    events = observation.events[routine]
    places = _places(events.cfg, plan, observation.contexts.of(routine), events.edges)
    counters = observation.counters(scheme, routine)
    # `isinstance` would ask for all other members of the protocol, some of them slow to make
    has_names = hasattr(decoder, "names")
    names = cast("NamingDecoder", decoder).names if has_names else PathNames(0, 0)
    line = observation.program.lines.find(events.cfg.address)
    return RoutineRow(
        **_planned(scheme.setting.mode, profile.potential_paths, routine_plan),
        name=profile.name,
        address=profile.address,
        table=profile.table,
        instrumented_edges=places.places,
        no_jump_edges=places.without_jump,
        instructions=profile.instructions,
        added=profile.added,
        path_increments=counters.path_increments,
        hashed_increments=counters.hashed_increments,
        hashing=counters.hash_instructions,
        edge_increments=0 if definition(scheme.setting.mode).writes_trace else sum(counters.events),
        jumps=places.jumps,
        name_bits=names.bits,
        name_counters=names.counters,
        self_loop_increments=sum(
            events.edges[edge] for edge in _counted_self_loops(events.cfg, plan)
        ),
        own=line is not None and not is_library_source(line.file),
    )


def _planned(mode: str, potential_paths: int, plan: RoutinePlan | None) -> dict[str, Any]:
    """Return the fields of a row that follow from graph and plan alone."""
    decoder = definition(mode).path_decoder(plan)
    untruncated = None if decoder is None else potential_paths
    if hasattr(decoder, "untruncated_paths"):
        untruncated = cast("LimitedDecoder", decoder).untruncated_paths
    graph = None if plan is None else definition(mode).placed_on(plan)
    return {
        "potential_paths": potential_paths,
        "num_paths": None if decoder is None else decoder.num_paths,
        "untruncated_paths": untruncated,
        "placed_blocks": 0 if graph is None else len(graph.blocks),
        "placed_edges": 0 if graph is None else len(graph.edges),
    }


def _counted_self_loops(cfg: ControlFlowGraph, plan: InstrumentationPlan | None) -> tuple[int, ...]:
    """Return the self-loops that have a counter of their own (EPP 4.1)."""
    if plan is None:
        return ()
    return tuple(
        edge
        for edge, actions in plan.actions.items()
        if cfg.edges[edge].source == cfg.edges[edge].target
        and any(isinstance(action, CountEdge) for action in actions)
    )


def _self_loops_added(
    observation: Observation, scheme: SchemeRun, routines: Sequence[int]
) -> dict[int, int]:
    """Return what the counters of self-loops execute by routine, for `pp`.

    All code is generated once more, in the order in which it was priced: what a counter costs
    depends on its address.
    """
    mode = scheme.setting.mode
    if mode != DEFAULT_MODE:
        return {}
    pricer = Pricer(generators(mode))
    found: dict[int, int] = {}
    for routine in routines:
        plan, events = scheme.plan(routine), observation.events[routine]
        if plan is not None:
            code = pricer.code(events.cfg, plan, observation.contexts.of(routine))
            found[routine] = sum(
                events.edges[edge] * code.snippets[edge].cost
                for edge in _counted_self_loops(events.cfg, plan)
            )
    return found


def plan_row(
    mode: str, routine_plan: RoutinePlan, context: RoutineContext, own: bool
) -> RoutineRow:
    """Return the row of a routine that was planned under `mode` and not run."""
    cfg = routine_plan.cfg
    places = _places(cfg, routine_plan.plan, context, (0,) * len(cfg.edges))
    return RoutineRow(
        **_planned(mode, graph_facts(cfg).potential_paths, routine_plan),
        name=cfg.name,
        address=cfg.address,
        table=routine_plan.plan.table,
        instrumented_edges=places.places,
        no_jump_edges=places.without_jump,
        own=own,
    )


def tree_costs(
    observation: Observation, selects: Callable[[int], bool], options: SchemeOptions
) -> Mapping[str, TreeCost]:
    """Return what each placement of `cells.TREES` would have counted in an observed run.

    An edge counter counts its edge, so exact counts tell that without a run (BL94 6.1 does the
    same).

    `selects`: Whether a routine is among those profiled. `options`: Those of the schemes' own are
    kept: what a block is.
    """
    plain = SchemeOptions(own=options.own)
    totals = dict.fromkeys(TREES, TreeCost(0, 0))
    selected = (events for routine, events in observation.events.items() if selects(routine))
    for events in selected:
        for name, placement in _placements(events, plain):
            counts = placement.plan.event_counts(events.edges, events.block_counts)
            old = totals[name]
            totals[name] = TreeCost(old.counters + len(counts), old.increments + sum(counts))
    return totals


def _placements(events: RoutineEvents, plain: SchemeOptions) -> Iterator[tuple[str, RoutinePlan]]:
    """Yield the placements by name; a least spanning tree is a greatest of negated weights."""
    cfg = events.cfg
    yield "redundant", make_plan(cfg, "qpt", plain)
    greatest = make_plan(cfg, "qpt2", plain)
    yield "heuristic-max", greatest
    least = [-weight for weight in greatest.weights]
    yield "heuristic-min", make_plan(cfg, "qpt2", plain, least)
    exact = measured(cfg, events.edges)
    yield "exact-max", make_plan(cfg, "qpt2", plain, exact)
    yield "exact-min", make_plan(cfg, "qpt2", plain, [-weight for weight in exact])
    yield "postorder-max", make_plan(cfg, "qpt2", plain, postorder(cfg, depth_first(cfg)))
