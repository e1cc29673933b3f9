"""`ppp`: practical path profiling, after Bond and McKinley (PPP; CGO 2005).

The paper's text was not at hand: parts and thresholds are those that it is remembered for, and what
is derived here is said to be. Steps, each of which an option switches off:

1. Leave out routines that the edge profile predicts: definite flow (`predicted`).
2. Cold edges: by TPP's local criterion, and by a global one, a share of all paths that the program
   executes. They are left out everywhere (`plan_ppp`).
3. Disconnect loops, leave out obvious paths, as TPP (`tpp.disconnection`, `graphs.obvious`).
4. Number the hot paths so that the hottest way on adds 0, and move the values off a spanning tree
   (`number_practically`). Each stays on its edge off the tree of all edges of value 0.
5. Where there are too many paths for an array, double the global share and begin again at step 2:
   the self-adjusting limit (`plan_ppp`; that it doubles is an assumption).
6. Place the code, past cold edges too, and poison for free (`poisoning`; sizes derived).
"""

# ruff: noqa: D102 - overriding methods do what `TppPlan` says

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.ppp.options import PppOptions, ValuePlaces
from simprof.profiler.schemes.ppp.poisoning import PracticalGraphs
from simprof.profiler.schemes.ppp.predicted import PredictedPlan, predict
from simprof.profiler.schemes.tpp.plan import ObviousCounts, TppPlan, tree_weights
from simprof.profiler.schemes.tpp.planner import (
    GuidedRoutine,
    choose,
    exactly,
    is_hashed,
    place,
    prepare,
)
from simprof.profiler.schemes.tpp.planner import parts as plan_parts
from simprof.profiler.schemes.tpp.reduction import ReducedGraph, Rules, reduce_graph


class Parts(NamedTuple):
    """Which parts of PPP a plan has, with their thresholds; 0 switches one off."""

    unit_flow: int  # Paths that the program executes by the edge profile
    share: float = 0.1  # Percent of these below which an edge is cold
    limit: int = 4000  # Most hot paths of a routine
    numbering: ValuePlaces = ValuePlaces.TREE
    tested: bool = False  # Whether counts test for poison, which is free otherwise
    no_pushing: bool = False  # Whether code stays on its side of cold edges
    skip: float = 75.0  # Percent of definite flow from which on a routine is left out


class PppPlan(TppPlan, frozen=True, kw_only=True):
    """Practical path instrumentation of one routine."""

    graphs: PracticalGraphs
    unit_flow: int  # Of the program

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Derive the path profile as `tpp` does, and say how much of it may be too much."""
        # "pushed_paths" is a bound: no edge profile tells which of them turned cold before.
        told = super().read(counters)
        more = {"pushed_paths": self.pushed} if self.pushed else {}
        return replace(told, lost={**told.lost, **more}, inferred={**told.inferred, **more})

    @property
    def pushed_past(self) -> tuple[int, ...]:
        """The edges that code was moved past (`PracticalGraphs.pushed_past`)."""
        counts = self.plan.table is not s.CounterTable.NONE
        return (
            tuple(self.graphs.pushed_past(self.plan.counted_region, self.static_region))
            if counts
            else ()
        )

    @property
    def pushed(self) -> int:
        """The most executions of cold paths that are counted as hot, by the edge profile."""
        return sum(self.edge_profile[edge] for edge in self.pushed_past)

    def cold_paths(
        self, counters: s.RoutineCounters, paths: dict[int, int], inferred: ObviousCounts
    ) -> tuple[int, int]:
        if not self.graphs.free:
            return super().cold_paths(counters, paths, inferred)
        beyond = [counter for counter in paths if counter >= self.numbering.total]
        counted = sum(paths.pop(counter) for counter in beyond)
        if self.plan.table is s.CounterTable.NONE:  # `inferred` has all
            return counted, inferred.cold
        region = self.plan.counted_region
        unseen = sum(self.edge_profile[edge] for edge in self.graphs.unseen(region))
        ended = (e.count for e in counters.unfinished if e.last is None and e.block in region)
        return counted, inferred.cold + max(unseen - sum(ended), 0)

    def decode_partial(self, end: s.UnfinishedPath) -> s.PathRecord | None:
        block, graphs, counted = end.block, self.graphs, self.plan.counted_region
        if graphs.pushes and block in graphs.doubtful(counted, self.static_region):
            return None
        number = end.last or 0
        if block not in counted and block in graphs.kept_vertices & graphs.poisoned:
            number = end.registers[0] + self.increments.potential[block]
        if graphs.free and number >= self.numbering.total:
            return None
        return super().decode_partial(end)

    def describe(self) -> dict[str, Any]:
        more: dict[str, Any] = {"pushed_paths": self.pushed, "free_poison": self.graphs.free}
        more |= {"unit_flow": self.unit_flow, "counters": self.plan.path_counters}
        return super().describe() | more

    def validate_tree(self) -> None:
        if self.tree.root_edge is not None:
            super().validate_tree()
            return
        self.tree.validate()
        self.increments.validate(self.tree, self.numbering.values, (self.cfg.exit, self.cfg.entry))
        assert self.increments.increments == self.numbering.values, "values are not on edges"


def draft(
    parts: Parts,
    routine: GuidedRoutine,
    cold: frozenset[int],
    path_limit: int | None,
    total_limit: int | None,
) -> PppPlan:
    """Plan without the edges `cold` and what is cold because of them."""
    left = reduce_graph(
        routine.cfg,
        routine.disconnection,
        routine.early,
        routine.rules,
        cold,
        path_limit,
        total_limit,
    )
    graphs = PracticalGraphs(
        left.hot,
        left.kept,
        counts_cold=parts.tested,
        split=left.obvious.split,
        free=not parts.tested,
        pushes=not parts.no_pushing,
    )
    paths = number_practically(parts, routine, left)
    placement, size = place(graphs, paths), paths.numbering.total
    # Where nothing is hot there is no code either, unless all is as under `tpp`.
    is_plain = parts.tested and not parts.share and not parts.limit
    actions = s.with_edge_counters({}, placement.edge_counters)
    if left.obvious.kept or (is_plain and not left.obvious.defining):
        actions, size = graphs.practical_actions(
            placement, is_hashed(routine, paths), paths.numbering, paths.increments.potential
        )
    placement = replace(placement, actions=actions)
    fields = plan_parts(routine, left, graphs, paths, placement, size)
    made = PppPlan(**fields, unit_flow=parts.unit_flow)
    stray = None if parts.tested else made.numbering.total
    plan = replace(made.plan, first_stray=stray, overcounts=bool(made.pushed_past))
    return replace(made, plan=plan)


def number_practically(parts: Parts, routine: GuidedRoutine, left: ReducedGraph) -> s.NumberedPaths:
    """Number the paths of the kept graph, and say what its edges add."""
    cfg, kept, weights = routine.cfg, left.kept, tree_weights(left.obvious, routine.weights)
    if parts.numbering is ValuePlaces.EPP:
        return s.number_dag(kept, weights)
    numbering, root = s.number_by_weight(kept, routine.profile), (cfg.exit, cfg.entry)
    if parts.numbering is ValuePlaces.TREE:
        tree = s.dag_tree(kept, weights)
    else:
        inside = tuple(not value for value in numbering.values)
        ends = kept.columns[:2]
        tree = s.SpanningTree(kept.vertex_count, *ends, inside, frozenset(), None)
    return s.NumberedPaths(kept, numbering, tree, s.chord_increments(tree, numbering.values, root))


def plan_ppp(
    cfg: s.ControlFlowGraph,
    edge_counts: Sequence[int],
    parts: Parts,
    *,
    cold: float,
    loop: float,
    weights: Sequence[float] | None = None,
    path_limit: int | None = s.PATH_LIMIT,
    total_limit: int | None = s.TOTAL_LIMIT,
    table: s.CounterTable | None = None,
) -> TppPlan | PredictedPlan:
    """Plan practical path profiling of any graph; parameters as of `tpp.planner.plan_tpp`. No
    `weights` are those of the edge profile, but BL94's heuristic for EPP's numbering.
    """
    profile, limits = s.measured(cfg, edge_counts), (path_limit, total_limit)
    if weights is None and parts.numbering is not ValuePlaces.EPP:
        weights = profile
    if parts.skip:
        known, share = s.given_weights(cfg, weights), exactly(parts.skip)
        left_out = predict(cfg, profile, share, parts.unit_flow, known, limits)
        if left_out is not None:
            return left_out
    rules = Rules(cold_counter=parts.tested)
    routine, local = prepare(cfg, edge_counts, cold, loop, weights, table, rules)
    drafted = partial(draft, parts, routine)
    dfs = s.depth_first(cfg)
    live = s.live_edges(cfg, dfs) - dfs.self_loops  # which are on no path

    def without(share: Fraction) -> TppPlan:
        """Leave out what is cold by either criterion; `share` of the global one, in percent."""
        few = [edge for edge in live if 100 * profile[edge] < share * parts.unit_flow]
        return choose(drafted, lambda: local().union(few), True, *limits)

    share = exactly(parts.share)
    chosen = without(share) if share else choose(drafted, local, False, *limits)
    share = share or exactly(PppOptions.global_cold.default)
    while parts.limit and share <= 100:  # no edge has more
        if chosen.numbering.total <= parts.limit and chosen.natural is not s.CounterTable.HASH:
            break
        share *= 2
        chosen = without(share)
    return chosen
