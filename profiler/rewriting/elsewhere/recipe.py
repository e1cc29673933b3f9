"""What the header of a counter file says besides: how to make the same plans again.

Graphs follow from the program's file and what was discovered beside it, plans from graphs and
options, and addresses of counters from the plans in their order (`layout.CounterSpace`). So a
reader needs no plan, only what decided them. What cannot be found again is in the header itself:
edge counts and paths that guided plans, and where calls were copied to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathPiece
from simprof.profiler.profiles.codec import decode
from simprof.profiler.profiles.profile import EdgeCount, EdgeProfile
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs
from simprof.profiler.request.request import SchemeOptions, Setting
from simprof.profiler.rewriting.elsewhere.counter_file import CounterFile
from simprof.profiler.schemes import registry
from simprof.profiler.session.observation import chosen_options, scheme_options
from simprof.profiler.session.scheme_runs import EdgeCounts, PathCounts, Planner
from simprof.profiler.trace.format import discovery_fields, read_discoveries
from simprof.simulator.errors import UsageError

# Routine number -> counts by edge id; routines that were not entered may be absent.
Counts = Mapping[int, tuple[int, ...]]


def counts_of(recovered: ProgramGraphs, source: EdgeCounts | None) -> Counts:
    """Return the counts by which `source` guides plans, by routine; none where it is None."""
    if source is None:
        return {}
    found = ((number, source(cfg)) for number, cfg in enumerate(recovered.routines))
    return {number: tuple(counts) for number, counts in found if counts is not None}


# Routine number -> executions by blocks and edges of the paths that guided its plan
PathsByRoutine = Mapping[int, Mapping[PathPiece, int]]


def paths_of(recovered: ProgramGraphs, source: PathCounts | None) -> PathsByRoutine:
    """Return the paths by which `source` guides plans, by routine; none where it is None."""
    if source is None:
        return {}
    found = ((number, source(cfg)) for number, cfg in enumerate(recovered.routines))
    return {number: dict(paths) for number, paths in found if paths}


# Where the calls of copied routines were before: address of the copy -> that of the call.
CopiedCalls = Mapping[int, int]


class PlanRecipe(Struct, frozen=True):
    """What decides the plans of an instrumented program."""

    # mode, options: The scheme.
    mode: str
    options: SchemeOptions
    discoveries: Discoveries  # What the graphs rest on beside the program's file
    # Numbers of the routines that were instrumented, in the order of their counters
    routines: tuple[int, ...]
    # The edge profile that guided the plans, if one did
    edge_counts: Counts = field(default_factory=dict)
    # The path profile, if one did
    path_counts: PathsByRoutine = field(default_factory=dict)
    # The counts that edge weights were taken from, if they were
    weights: Counts = field(default_factory=dict)
    # How many acyclic paths the program began by that profile, where that guided the plans, too
    unit_flow: int | None = None
    copies: CopiedCalls = field(default_factory=dict)
    # Routine number -> words for path registers beside the stack, where only its code told how many
    # it needs (`CounterSpace.with_words`)
    words: Mapping[int, int] = field(default_factory=dict)
    left: tuple[int, ...] = ()  # Those of `routines` that were left alone: they count nothing.

    def fields(self) -> dict[str, Any]:
        """Return what `counter_file.header` takes as `more`."""
        return {
            "discoveries": discovery_fields(self.discoveries),
            "routines": list(self.routines),
            "edge_counts": {str(n): list(counts) for n, counts in self.edge_counts.items()},
            "path_counts": {
                str(n): [[list(blocks), list(edges), count] for (blocks, edges), count in each]
                for n, each in ((n, paths.items()) for n, paths in self.path_counts.items())
            },
            "weights": {str(n): list(counts) for n, counts in self.weights.items()},
            **({} if self.unit_flow is None else {"unit_flow": self.unit_flow}),
            "trace": registry.definition(self.mode).code().stream is not None,
            "words": {str(n): words for n, words in self.words.items()},
            "copies": sorted(map(list, self.copies.items())),
            "left": list(self.left),
        }

    def planner(self, recovered: ProgramGraphs) -> Planner:
        """Return what plans the routines of `recovered` as they were planned."""
        numbers = {(cfg.address, cfg.name): n for n, cfg in enumerate(recovered.routines)}

        def guiding(cfg: ControlFlowGraph) -> Sequence[int] | None:
            return self.edge_counts.get(numbers[cfg.address, cfg.name])

        def path_counts(cfg: ControlFlowGraph) -> Mapping[PathPiece, int] | None:
            return self.path_counts.get(numbers[cfg.address, cfg.name])

        def profiles(path: Path) -> EdgeProfile:
            # the saved profile that gave weights, as far as the header has it
            counts = self.weights
            graphs = recovered.routines
            return EdgeProfile(
                {
                    (graphs[n].address, graphs[n].name): _named(graphs[n], counted)
                    for n, counted in counts.items()
                }
            )

        # what a saved profile guided by is in the header, as what a run did is
        setting = Setting(self.mode, self.mode, replace(self.options, edge_profile=None))
        guide = EdgeCounts(guiding, lambda: self.unit_flow or 0)
        return Planner(setting, profiles, guide, path_counts)


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


class _Header(Struct):
    """The fields of a header that say what decides the plans."""

    mode: str
    options: Mapping[str, Any]
    discoveries: Mapping[str, Any]
    routines: tuple[int, ...]
    edge_counts: Counts
    path_counts: Mapping[int, tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...]]
    weights: Counts
    copies: tuple[tuple[int, int], ...]
    words: Mapping[int, int]
    left: tuple[int, ...]
    unit_flow: int | None = None


def of_header(file: CounterFile) -> PlanRecipe:
    """Return what the header of a counter file says; UsageError if it says nothing that this
    simprof understands.
    """
    try:
        known = decode(_Header, file.header)
        paths = {
            number: {(blocks, edges): count for blocks, edges, count in each}
            for number, each in known.path_counts.items()
        }
        return PlanRecipe(
            **asdict(known)
            | {
                "options": chosen_options(known.options),
                "discoveries": read_discoveries(known.discoveries),
                "path_counts": paths,
                "copies": dict(known.copies),
            }
        )
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{file.name} has no header that this simprof understands: instrument the program again"
        ) from None
