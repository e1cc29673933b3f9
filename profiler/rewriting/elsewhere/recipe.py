"""Plans made again from the recipe in a counter file.

What cannot be found again is in the recipe itself: edge counts and paths that guided plans, and
where calls were copied to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathPiece
from simprof.profiler.profiles.profile import EdgeCount, EdgeProfile
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.request import SchemeOptions, Setting
from simprof.profiler.rewriting.elsewhere import counter_file
from simprof.profiler.schemes import registry
from simprof.profiler.session.observation import chosen_options, scheme_options
from simprof.profiler.session.scheme_runs import EdgeCounts, PathCounts, Planner
from simprof.simulator.errors import UsageError


def counts_of(recovered: ProgramGraphs, source: EdgeCounts | None) -> counter_file.Counts:
    """Return the counts by which `source` guides plans, by routine; none where it is None."""
    if source is None:
        return {}
    found = ((number, source(cfg)) for number, cfg in enumerate(recovered.routines))
    return {number: tuple(counts) for number, counts in found if counts is not None}


def paths_of(recovered: ProgramGraphs, source: PathCounts | None) -> counter_file.CountedPaths:
    """Return the paths by which `source` guides plans, by routine; none where it is None."""
    if source is None:
        return {}
    found = ((number, source(cfg)) for number, cfg in enumerate(recovered.routines))
    return {
        number: tuple((*piece, count) for piece, count in paths.items())
        for number, paths in found
        if paths
    }


# Where the calls of copied routines were before: address of the copy -> that of the call.
CopiedCalls = Mapping[int, int]


def planner(
    recipe: counter_file.CounterRecipe, options: SchemeOptions, recovered: ProgramGraphs
) -> Planner:
    """Return what plans the routines of `recovered` as they were planned."""
    # options: Those of the recipe.
    numbers = recovered.numbers

    def guiding(cfg: ControlFlowGraph) -> Sequence[int] | None:
        return recipe.edge_counts.get(numbers[cfg.address, cfg.name])

    def path_counts(cfg: ControlFlowGraph) -> Mapping[PathPiece, int] | None:
        paths = recipe.path_counts.get(numbers[cfg.address, cfg.name])
        if paths is None:
            return None
        return {(blocks, edges): count for blocks, edges, count in paths}

    def profiles(path: Path) -> EdgeProfile:
        # the saved profile that gave weights, as far as the header has it
        graphs = recovered.routines
        return EdgeProfile(
            {
                (graphs[n].address, graphs[n].name): _named(graphs[n], counted)
                for n, counted in recipe.weights.items()
            }
        )

    # what a saved profile guided by is in the header, as what a run did is
    setting = Setting(recipe.mode, recipe.mode, replace(options, edge_profile=None))
    return Planner(
        setting, profiles, EdgeCounts(guiding, lambda: recipe.unit_flow or 0), path_counts
    )


def _named(cfg: ControlFlowGraph, counts: Sequence[int]) -> tuple[EdgeCount, ...]:
    ends = zip(cfg.edges, counts, strict=True)
    return tuple(
        EdgeCount(cfg.name_of(edge.source), cfg.name_of(edge.target), edge.kind, count, False)
        for edge, count in ends
    )


def option_fields(options: SchemeOptions) -> dict[str, Any]:
    """Return options as a header has them: the schemes' own where they were given."""
    left = {option.name for option in registry.options()}.difference(dict(options.own))
    return {name: value for name, value in scheme_options(options).items() if name not in left}


def chosen(file: counter_file.CounterFile) -> SchemeOptions:
    """Return the options that a counter file says; UsageError if this simprof has none such."""
    try:
        return chosen_options(file.recipe.options)
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{file.name} has options that this simprof does not understand: instrument the "
            "program again"
        ) from None
