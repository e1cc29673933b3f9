"""`ppp`: practical path profiling, after Bond and McKinley (PPP; CGO 2005).

The paper's text was not at hand: parts and thresholds are those that it is remembered for, and what
is derived here is said to be. Steps, each of which an option switches off:

1. Leave out routines that the edge profile predicts: definite flow (`predict`).
2. Cold edges: by TPP's local criterion, and by a global one, a share of all paths that the program
   executes. They are left out everywhere (`plan_ppp`).
3. Disconnect loops, leave out obvious paths, as TPP (`tpp.reduction`, `graphs.obvious`).
4. Number the hot paths so that the hottest edge out of a block adds 0, and move the values off a
   spanning tree (`number_practically`). Each stays on its edge off the tree of edges of value 0.
5. Where there are too many paths for an array, double the global share and begin again at step 2:
   the self-adjusting limit (`plan_ppp`; that it doubles is an assumption).
6. Place the code, past cold edges too, and poison for free (`PracticalGraphs`; sizes derived).
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say
# ruff: noqa: D102 - overriding methods do what `TppPlan` says

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.ppp.options import PppOptions, ValuePlaces
from simprof.profiler.schemes.tpp.code import CountColdPath, Poison
from simprof.profiler.schemes.tpp.planner import (
    ObviousCounts,
    TppPlan,
    choose,
    is_hashed,
    place,
    tree_weights,
)
from simprof.profiler.schemes.tpp.planner import parts as plan_parts
from simprof.profiler.schemes.tpp.poisoning import Actions, HotGraphs, LeftOut
from simprof.profiler.schemes.tpp.reduction import (
    GuidedRoutine,
    ReducedGraph,
    Rules,
    exactly,
    prepare,
    reduce_graph,
)

# -- Routines that the edge profile predicts
#
# Routines whose paths the edge profile predicts, and which therefore get no code (after PPP).
#
# Most of their path executions are definite flow (`profiles.edge_flow`). Their paths are taken from
# the edge profile: those with definite flow, each as often as that. The others are lost.


# Paths with definite flow that are listed at most: a routine with more is not predicted.
_LISTED = 100_000


class PredictedPlan(s.PathCountingPlan, frozen=True, kw_only=True):
    """No code in a routine whose paths the edge profile predicts."""

    numbering: s.PathNumbering  # Of all its paths
    edge_profile: tuple[int, ...]  # By edge id
    unit_flow: int  # Of the program
    definite: tuple[tuple[int, int], ...]  # Paths with definite flow, by number, and that flow

    @property
    def blocks_of_all_paths(self) -> int | None:
        return self.numbering.blocks_of_all_paths()

    def is_obvious(self, path_id: int) -> bool:
        """Whether path `path_id` has no counter: none has."""
        return True

    @property
    def executions(self) -> int:
        """How many paths were executed to their end, by the edge profile."""
        flow = self.dag.edge_weights(self.edge_profile)
        return int(sum(flow[edge] for edge in self.dag.in_edges[self.cfg.exit]))

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Return the definite flow, whatever the run did."""
        unpredicted = self.executions - sum(flow for _, flow in self.definite)
        lost = {
            "unpredicted_paths": unpredicted,
            "unknown_unfinished": sum(counters.early.values()),
        }
        return s.Reading(
            edges=None,
            paths=dict(self.definite),
            lost={name: count for name, count in lost.items() if count},
            inferred={"unpredicted_paths": unpredicted},
        )

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        return {
            "num_paths": s.by_block(self.cfg, self.numbering.num_paths),
            "edge_profile": list(self.edge_profile),
            "unit_flow": self.unit_flow,
            "predicted": {str(path): flow for path, flow in self.definite},
            "path_executions": self.executions,
        }

    def validate(self) -> None:
        self.dag.validate()
        self.numbering.validate()
        assert not self.plan.actions, "a routine that is left out has code"
        assert sum(flow for _, flow in self.definite) <= self.executions, "too much definite flow"


def predict(
    cfg: s.ControlFlowGraph,
    profile: tuple[int, ...],
    share: Fraction,
    unit_flow: int,
    weights: tuple[float, ...],
    limits: tuple[int | None, int | None],
) -> PredictedPlan | None:
    """Return the plan of a routine `share` percent of whose path executions are definite flow, or
    which executes no path at all; None if it is no such routine. `limits`: As of `truncated_dag`.
    """
    dag = s.truncated_dag(cfg, s.depth_first(cfg), *limits)
    flow, plan = s.EdgeFlow(cfg, dag.removed, profile), s.InstrumentationPlan({})
    made = PredictedPlan(
        cfg=cfg,
        plan=plan,
        weights=weights,
        dag=dag,
        numbering=s.number(dag),
        edge_profile=profile,
        unit_flow=unit_flow,
        definite=(),
    )
    flows = flow.definite_flows()
    definite = sum(each * paths for each, paths in flows.items())
    if 100 * definite < share * made.executions or flows.total() > _LISTED:
        return None
    found = ((made.dag_path(*piece), least) for piece, least in flow.definite_paths())
    numbered = sorted((made.numbering.encode(path), least) for path, least in found)
    return replace(made, definite=tuple(numbered))


# -- What is on cold edges
#
# What `ppp` puts on cold edges: free poison, and nothing that keeps code from moving past them.
#
# Terms
# -----
# free poison
#     Where a cold path comes to the kept graph, at vertex w, the path register is set so that all
#     sums of increments from there end beyond the last path's number: N - lo(w), with N paths and
#     lo(w) the least sum of increments from w to EXIT. The values of the edges from w add up to
#     0 .. NumPaths(w) - 1, and potentials make increments of them (`ChordIncrements`), so lo(w) is
#     the potential of w, and a poisoned register counts in N .. N + NumPaths(w) - 1. No count tests
#     it. An array has so many counters more; together they are the counter of cold paths.
# pushed past
#     Cold edges keep no initialisation and no count from moving (PPP). Where a count has moved up
#     past a cold edge, the cold path that takes the edge is counted as a hot one; so is a cold path
#     that comes to where the register is still to be set.


class PracticalGraphs(HotGraphs, frozen=True, dict=True):
    """The two graphs that decide what happens on which edge."""

    free: bool = True  # Whether poison is free
    pushes: bool = True  # Whether code moves past cold edges

    @cached_property
    def detours(self) -> s.Detours:
        """What no initialisation and no count is moved past."""
        if not self.pushes:
            return self.ways
        # What obvious paths take is not cold, and nothing moves past it.
        last, first = self.kept.exit_dummy, self.kept.entry_dummy
        left_out = self.left_out
        leaves = {left.source for left in left_out if left.comes_hot and left.source not in last}
        joins = {left.target for left in left_out if left.goes_hot and left.target not in first}
        return s.Detours(self.ways.joins & joins, self.ways.leaves & leaves)

    def start(self, left: LeftOut, counted: frozenset[int]) -> s.Action | None:
        """What keeps the path that leads on from an edge from being taken for a hot one."""
        if not self.free:
            return super().start(left, counted)
        if left.goes_hot or left.target == self.hot.cfg.exit:
            return None
        if left.target in counted:
            return CountColdPath()  # nothing counts it later
        return Poison() if left.target in self.kept_vertices else None

    def tested(self, action: s.Action, hashed: bool) -> s.Action:
        """What is done in place of an action where poison may be met."""
        return action if self.free else super().tested(action, hashed)

    def poisoning_edges(self, placement: s.Placement) -> dict[int, int]:
        """Return the edges that poison the register, and where they lead."""
        counted, static = placement.counted_region, placement.static_region
        return {
            left.edge: left.target
            for left in self.left_out
            # Where the register is still to be set, poison would be lost.
            if isinstance(self.start(left, counted), Poison) and left.target not in static
        }

    def practical_actions(
        self,
        placement: s.Placement,
        hashed: bool,
        numbering: s.PathNumbering,
        potential: Sequence[int],
    ) -> tuple[Actions, int]:
        """Return what is done on edges, and how many counters an array has."""
        poisoned, total = self.poisoning_edges(placement), numbering.total
        made: Actions = {}
        for edge, group in self.actions(placement, hashed).items():
            kept = [action for action in group if edge in poisoned or action != Poison()]
            if self.free and edge in poisoned:
                poison = s.SetRegister(total - potential[poisoned[edge]])
                kept = [poison if action == Poison() else action for action in kept]
            if kept:
                made[edge] = tuple(kept)
        more = [numbering.num_paths[vertex] for vertex in poisoned.values() if self.free]
        return made, total + max(more, default=0)

    def pushed_past(self, counted: frozenset[int], static: frozenset[int]) -> Iterator[int]:
        """Yield the edges, once for each reason, whose crossings bound how many executions of cold
        paths are counted as hot: each wrong count is of the last path that comes from such an edge
        to where the register is set, or of the first that leaves by one where all is counted.
        """
        for left in self.left_out:
            if not left.comes_hot and left.source in counted:
                yield left.edge
            if not left.goes_hot and left.target in static:
                yield left.edge

    def doubtful(self, counted: frozenset[int], static: frozenset[int]) -> frozenset[int]:
        """Return where a path may be another than it seems, as code moved past cold edges."""
        unpoisoned = static.intersection(left.target for left in self.left_out if not left.goes_hot)
        return self.reached(unpoisoned) | (self.poisoned & counted)

    def unseen(self, counted: frozenset[int]) -> Iterator[int]:
        """Yield the edges whose crossings are ends of cold paths that nothing counts, if poison is
        free: paths end at them, or lead from them to where others have been counted.
        """
        source = self.hot.cfg.ends[0]
        yield from (edge for edge in self.cold_ends if source[edge] not in counted)
        for left in self.left_out:
            entered = isinstance(self.start(left, counted), CountColdPath)
            if entered and (left.ends or left.source not in counted):
                yield left.edge


# -- Planning


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
