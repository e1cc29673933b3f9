"""One observed run to the results of its cells: totals, rows of routines, facts of paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from simprof.profiler.code.codegen import RoutineCode
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import Where
from simprof.profiler.code.places import find_place, fold_slot_blocks, runs_into_code
from simprof.profiler.code.pricing import Pricer, RoutineCost
from simprof.profiler.experiments.cells.cells import (
    TREES,
    CellResult,
    PathFacts,
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
    GuidedDecoder,
    LimitedDecoder,
    NamingDecoder,
    PathDecoder,
    PathNames,
    RoutinePlan,
)
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.profiles.profile import PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.profiles.routine_facts import routine_facts
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


def _result(
    observation: Observation,
    scheme: SchemeRun,
    measurement: RunMeasurement,
    trees: Callable[[SchemeOptions], Mapping[str, TreeCost]],
) -> CellResult:
    rows = tuple(run_rows(observation, scheme, measurement))
    facts, paths = _paths(observation, scheme, measurement)
    options = scheme.setting.options
    return CellResult(
        base=measurement.base,
        added=measurement.added,
        reason=measurement.ending.reason,
        status=measurement.ending.status
        if measurement.ending.reason == "exit"
        else measurement.ending.code,
        counts=_counts(measurement, rows),
        sizes=dict(measurement.sizes),
        lost=dict(measurement.lost),
        routines=rows,
        facts=facts,
        paths=paths,
        trees=trees(SchemeOptions(own=options.own)) if has_trees(scheme.setting.mode) else {},
        warnings=measurement.warnings,
    )


RUNS = frozenset({"runs", "whole_runs"})


def _counts(measurement: RunMeasurement, rows: Sequence[RoutineRow]) -> dict[str, int]:
    """Totals by name; how often the program had to be run again is no property of the cell."""
    counts = {name: count for name, count in measurement.counts.items() if name not in RUNS}
    counts["jumps"] = sum(row.jumps for row in rows)
    counts["hashing"] = sum(row.hashing for row in rows)
    return counts


def _paths(
    observation: Observation, scheme: SchemeRun, measurement: RunMeasurement
) -> tuple[PathFacts | None, tuple[PathRow, ...]]:
    mode = scheme.setting.mode
    if not definition(mode).counts_paths:
        return None, ()
    routines = tuple(_routine_paths(observation, scheme, measurement))
    exact = mode == DEFAULT_MODE
    return path_facts(routines, predict=exact), path_rows(routines) if exact else ()


def _routine_paths(
    observation: Observation, scheme: SchemeRun, measurement: RunMeasurement
) -> Iterator[RoutinePaths]:
    selected = [routine for routine in observation.events if scheme.selects(routine)]
    for routine, profile in zip(selected, measurement.routines, strict=True):
        events = observation.events[routine]
        routine_plan = scheme.routine_plan(routine)
        decoder = definition(scheme.setting.mode).path_decoder(routine_plan)
        cuts = () if decoder is None else decoder.cut_edges
        dfs = depth_first(events.cfg)
        removed = (dfs.back_edges - dfs.self_loops) | set(cuts)
        yield RoutinePaths(events.cfg, profile.path_counts, events.edges, removed)


@dataclass(frozen=True)
class _Places:
    """Where the code of a plan is: places, those that need no jump, jumps executed."""

    places: int = 0
    without_jump: int = 0
    jumps: int = 0


def run_rows(
    observation: Observation, scheme: SchemeRun, measurement: RunMeasurement
) -> Iterator[RoutineRow]:
    """Yield a row for each routine that a run entered, by address."""
    selected = [routine for routine in observation.events if scheme.selects(routine)]
    loops_added = _self_loops_added(observation, scheme, selected)
    for routine, profile in zip(selected, measurement.routines, strict=True):
        row = _run_row(observation, scheme, routine, profile)
        yield replace(row, self_loop_added=loops_added.get(routine, 0))


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
    routine_plan = scheme.routine_plan(routine)
    own = definition(scheme.setting.mode)
    decoder = own.path_decoder(routine_plan)
    events = observation.events[routine]
    context = observation.contexts.of(routine)
    places = _places(events.cfg, scheme.plan(routine), context, events.edges)
    counters = observation.counters(scheme, routine)
    paths = [path for path in profile.path_counts if path.count and not path.partial]
    # `isinstance` would ask for all other members of the protocol, some of them slow to make
    has_names = hasattr(decoder, "names")
    names = cast("NamingDecoder", decoder).names if has_names else PathNames(0, 0)
    return RoutineRow(
        name=profile.name,
        address=profile.address,
        blocks=profile.blocks,
        edges=profile.edges,
        back_edges=profile.back_edges,
        irreducible=profile.irreducible,
        potential_paths=profile.potential_paths,
        num_paths=None if decoder is None else decoder.num_paths,
        cut_edges=profile.cut_edges,
        table=profile.table,
        addressing=profile.addressing,
        path_register=profile.path_register,
        instrumented_edges=places.places,
        no_jump_edges=places.without_jump,
        **_placed_on(scheme.setting.mode, routine_plan),
        activations=profile.activations,
        instructions=profile.instructions,
        added=profile.added,
        path_increments=counters.path_increments,
        hashed_increments=counters.hashed_increments,
        hashing=counters.hash_instructions,
        edge_increments=0 if own.writes_trace else sum(counters.events),
        jumps=places.jumps,
        inferred_paths=_inferred(own.guided_decoder(routine_plan), paths),
        executed_paths=len(paths),
        name_bits=names.bits,
        name_counters=names.counters,
        untruncated_paths=_untruncated(decoder, profile.potential_paths),
        self_loop_increments=sum(
            events.edges[edge] for edge in _counted_self_loops(events.cfg, scheme.plan(routine))
        ),
        own=_is_own(observation, events.cfg),
    )


def _is_own(observation: Observation, cfg: ControlFlowGraph) -> bool:
    line = observation.program.lines.find(cfg.address)
    return line is not None and not is_library_source(line.file)


def _placed_on(mode: str, routine_plan: RoutinePlan | None) -> dict[str, int]:
    if routine_plan is None:
        return {}
    graph = definition(mode).placed_on(routine_plan)
    return {"placed_blocks": len(graph.blocks), "placed_edges": len(graph.edges)}


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


def _untruncated(decoder: PathDecoder | None, potential_paths: int) -> int | None:
    """Return how many paths a plan would tell apart without a path limit."""
    if decoder is None:
        return None
    if not hasattr(decoder, "untruncated_paths"):
        return potential_paths
    return cast("LimitedDecoder", decoder).untruncated_paths


def _inferred(guided: GuidedDecoder | None, paths: Sequence[PathCount]) -> int:
    if guided is None:
        return 0
    return sum(path.count for path in paths if path.id is not None and guided.is_obvious(path.id))


def plan_row(
    mode: str,
    routine_plan: RoutinePlan,
    code: RoutineCode | RoutineCost,
    context: RoutineContext,
    own: bool,
) -> RoutineRow:
    """Return the row of a routine that was planned under `mode` and not run."""
    cfg, plan, facts = routine_plan.cfg, routine_plan.plan, graph_facts(routine_plan.cfg)
    places = _places(cfg, plan, context, (0,) * len(cfg.edges))
    decoder = definition(mode).path_decoder(routine_plan)
    return RoutineRow(
        **routine_facts(cfg, facts, plan, decoder, code.path_register),
        num_paths=None if decoder is None else decoder.num_paths,
        untruncated_paths=_untruncated(decoder, facts.potential_paths),
        instrumented_edges=places.places,
        no_jump_edges=places.without_jump,
        **_placed_on(mode, routine_plan),
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


def has_trees(mode: str) -> bool:
    """Whether cells of this mode carry `tree_costs`."""
    return mode == "qpt2"
