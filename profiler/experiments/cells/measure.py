"""One observed run to the results of its cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from simprof.profiler.experiments.cells.cells import (
    CellResult,
    PathFacts,
    PathRow,
    RoutineRow,
    TreeCost,
)
from simprof.profiler.experiments.cells.path_facts import RoutinePaths, path_facts, path_rows
from simprof.profiler.experiments.cells.rows import has_trees, run_rows, tree_costs
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import DEFAULT_MODE, RunRequest, SchemeOptions, Setting
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.session.session import observe


def measure(request: RunRequest, settings: Sequence[Setting]) -> tuple[CellResult, ...]:
    """Run a program and return a result for each setting.

    Raises
    ------
    SimulatorError
        As `session.run_program`. How the program ended is not judged here.
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
