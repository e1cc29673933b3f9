"""Quality of the profiles of a run's schemes, by a true profile of the same run.

Schemes that have a judge (`SchemeDefinition.judge`) are compared with what it counted. So is the
run's edge profile, which is the same under all schemes: a path's definite flow is what it tells of
the path (`edge_flow`).

All schemes of a run are measured in one routine before the next: what was found of the last routine
is kept for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan.decoders import Plan, Reading
from simprof.profiler.profiles.edge_flow import EdgeFlow
from simprof.profiler.profiles.measures import (
    FlowComparison,
    Pieces,
    compare_edges,
    compare_pieces,
    decoded,
    pieces_of_paths,
    true_pieces,
)
from simprof.profiler.session.counters import ReadCounters, RoutineEvents
from simprof.profiler.session.scheme_runs import SchemeRun


class _Truth(NamedTuple):
    """What a judge counted in a routine."""

    plan: Plan
    reading: Reading
    pieces: dict[frozenset[int], Pieces]  # By the edges at which paths are split


class Judging:
    """Compares profiles of a run's routines with the true ones."""

    def __init__(
        self,
        judges: Mapping[str, SchemeRun],
        events: Mapping[int, RoutineEvents],
        counters: ReadCounters,
    ) -> None:
        self._judges, self._events, self._counters = judges, events, counters
        self._routine = -1
        self._truths: dict[str, _Truth | None] = {}

    def compare(self, number: int, scheme: SchemeRun, reading: Reading) -> FlowComparison | None:
        """Compare what a scheme read in routine `number` with the truth; None where there is none.

        Raises ValueError as `measures.attribute`.
        """
        plan = scheme.definition.path_decoder(scheme.routine_plan(number))
        self._turn_to(number)
        if plan is not None and self._judges.get(scheme.setting.mode) is scheme:
            self._truths[scheme.setting.mode] = _Truth(plan, reading, {})
        truth = self._truth(number, scheme.definition.judge or "")
        if truth is None or plan is None:
            return None
        split = frozenset((*truth.plan.cut_edges, *plan.split_edges))
        claimed = pieces_of_paths(plan.cfg, decoded(plan, reading), split)
        return compare_pieces(plan.cfg, _pieces(truth, split), claimed)

    def edge_profile(self, number: int, judge: str) -> FlowComparison | None:
        """Compare what the edge counts of routine `number` tell of its paths with the truth."""
        self._turn_to(number)
        truth = self._truth(number, judge)
        if truth is None:
            return None
        true = _pieces(truth, frozenset(truth.plan.cut_edges))
        cfg, edges = truth.plan.cfg, self._events[number].edges
        dfs = depth_first(cfg)
        removed = (dfs.back_edges - dfs.self_loops) | frozenset(truth.plan.cut_edges)
        flow = EdgeFlow(cfg, removed, edges)
        definite = ((piece, flow.definite_count(piece[0][0], piece[1])) for piece in true)
        claimed = Pieces({piece: count for piece, count in definite if count})
        counts = dict(enumerate(edges))
        pieces = compare_pieces(cfg, true, claimed).pieces
        return FlowComparison(pieces, compare_edges(counts, counts))

    def _turn_to(self, number: int) -> None:
        if number != self._routine:
            self._routine, self._truths = number, {}

    def _truth(self, number: int, judge: str) -> _Truth | None:
        scheme = self._judges.get(judge)
        if judge not in self._truths and scheme is not None:
            plan = scheme.definition.path_decoder(scheme.routine_plan(number))
            self._truths[judge] = None
            if plan is not None:
                reading = plan.read(self._counters(scheme, number))
                self._truths[judge] = _Truth(plan, reading, {})
        return self._truths.get(judge)


def _pieces(truth: _Truth, split: frozenset[int]) -> Pieces:
    found = truth.pieces.get(split)
    if found is None:
        plan, reading = truth.plan, truth.reading
        found = true_pieces(plan.cfg, decoded(plan, reading), split, reading.all_edges)
        truth.pieces[split] = found
    return found
