"""`tpp`: targeted path profiling (TPP; Joshi, Bond and Zilles, CGO 2004).

EPP's path profiling, made cheaper by an edge profile. Steps, as the paper numbers them:

1. Disconnect loops that iterate much (4.2.1): `prepare`, `disconnect`.
2. Leave cold edges out (`remove_cold`), where that makes a hashed routine one with an array (4.1):
   `choose`. Truncation of what has too many paths still comes after that (EPP 5.3).
3. Leave out what only obvious paths need (4.2.2; after cold edges, or before, 4.3): `reduce_graph`.
4. Number, place and count what is kept as EPP does (`draft`); poison and count cold paths
   (`poisoning`). What belongs to dummy edges goes to the edges that they stand for (A.3).
5. Rebuild the profile (4.2.2): counted paths from the counters; obvious paths from the edge
   profile: the least count of any of its edges, its defining edges among them.
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.tpp.code import (
    COLD_COUNTER,
    POISON,
    CountBranching,
    CountColdPath,
    CountHotPath,
)
from simprof.profiler.schemes.tpp.poisoning import HotGraphs, register_range
from simprof.profiler.schemes.tpp.reduction import (
    Disconnection,
    GuidedRoutine,
    ReducedGraph,
    Rules,
    prepare,
    reduce_graph,
)

# -- Plans, and how the profile is read (TPP 4.2.2)

# Path registers stay this close to where they start, so that poison is told from any of them.
POISON_REACH = -POISON // 2


class ObviousCounts(NamedTuple):
    """What an edge profile tells of the paths that have no counters."""

    paths: dict[int, int]  # By path number
    cold: int  # Paths that end where nothing counts
    overcounted: int  # Path executions


class TppPlan(s.PathCountingPlan, frozen=True, kw_only=True, dict=True):
    """Targeted path instrumentation of one routine."""

    edge_profile: tuple[int, ...]  # The edge counts that the plan was made from, by edge id
    disconnection: Disconnection  # The loops that are cut out
    # Edges left out because they are cold by themselves; none where that is not worth it
    cold: frozenset[int]
    rules: Rules
    # The acyclic graph without cold edges, and the part of it that is instrumented, `dag`
    graphs: HotGraphs
    obvious: s.ObviousPaths  # The obvious paths of the former, or of that with cold edges (4.3)
    # numbering, tree, increments: Of the latter.
    numbering: s.PathNumbering
    tree: s.SpanningTree
    increments: s.ChordIncrements
    # Vertices at which the path register means nothing, because one path leads there
    static_region: frozenset[int]
    natural: s.CounterTable  # The table that EPP would choose; NONE where nothing is instrumented.

    @property
    def split_edges(self) -> frozenset[int]:
        """`cut_edges`, and self-loops that end paths (see `measures`)."""
        return frozenset(self.dag.removed) - (self.dag.dfs.back_edges - self.dag.dfs.self_loops)

    @property
    def num_paths(self) -> int:
        return self.numbering.total + len(self.obvious.first_edges)

    @cached_property
    def reach(self) -> int:
        """How far the path register gets from its first values."""
        return register_range(self.dag, self.plan.actions, self.increments.increments)

    @cached_property
    def untruncated_paths(self) -> int:
        """Number of paths that there would be without a path limit: hot ones, obvious or not."""
        left = reduce_graph(self.cfg, self.disconnection, self.obvious.early, self.rules, self.cold)
        return s.number(left.kept).total + len(left.obvious.first_edges)

    def is_obvious(self, path_id: int) -> bool:
        """Whether path `path_id` has no counter: its count comes from the edge profile."""
        return path_id >= self.numbering.total

    def _decode(self, path_id: int) -> s.PathRecord:
        if not 0 <= path_id < self.num_paths:
            raise ValueError(f"{self.cfg.name} has no path {path_id} (paths: {self.num_paths})")
        if not self.is_obvious(path_id):
            return super()._decode(path_id)
        first = self.obvious.first_edges[path_id - self.numbering.total]
        return s.path_record(self.obvious.dag, self.obvious.path(first))

    @property
    def blocks_of_all_paths(self) -> int | None:
        return self.numbering.blocks_of_all_paths()

    def all_paths(self) -> Iterator[s.PathRecord]:
        obvious = (self.obvious.path(first) for first in self.obvious.first_edges)
        return chain(super().all_paths(), (s.path_record(self.obvious.dag, p) for p in obvious))

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Derive the path profile from counters and edge profile (TPP 4.2.2)."""
        # Edge counts are input. `lost` names path executions. "cold_paths" are in no path's count:
        # the cold counter, and where there is no code for it what the edge profile tells of.
        # "overcounted_paths" are in several: obvious paths share edges with cold or unfinished
        # ones. With the edge profile of the same run, all counts and the cold paths less the
        # overcounted ones are as many paths as executed. Where cold paths have no counter, they are
        # the paths that ended, by the edge profile, less all others. "unknown_unfinished" are
        # unfinished paths that nothing identifies. `inferred` are those that the edge profile tells
        # of: where it is of another run, so are they.
        # Counted paths are exact: no cold path is ever counted as a hot one. Obvious paths are
        # exact unless cold paths share their defining edges (4.3); their counts come from the edge
        # profile that the plan was made from. Where that has blocks in which activations end early,
        # the edges before them define no path.
        paths = counters.finished_paths
        partial: Counter[s.PathRecord] = Counter()
        unknown = 0
        unfinished: Iterable[s.UnfinishedPath] = counters.unfinished
        if not self.plan.counts_paths:
            early = counters.early.items()
            unfinished = (s.UnfinishedPath(block, (0,), None, count) for block, count in early)
        for end in unfinished:
            record = self.decode_partial(end)
            if record is None:
                unknown += end.count
            else:
                partial[record] += end.count
        inferred = self.obvious_counts(self.edge_profile)
        counted, uncounted = self.cold_paths(counters, paths, inferred)
        cold = counted + uncounted
        lost = {"unknown_unfinished": unknown, "overcounted_paths": inferred.overcounted}
        kept = {name: count for name, count in lost.items() if count}
        return s.Reading(
            edges=None,
            paths={path: n for path, n in sorted((paths | inferred.paths).items()) if n},
            partial=partial,
            lost={"cold_paths": cold} | kept if self.cold else kept,
            inferred={
                "cold_paths": uncounted if self.cold else 0,
                "overcounted_paths": inferred.overcounted,
            },
        )

    def cold_paths(
        self, counters: s.RoutineCounters, paths: dict[int, int], inferred: ObviousCounts
    ) -> tuple[int, int]:
        """Take the executions of cold paths out of `paths`, counts by path counter. Return how many
        were counted, and how many more there were by the edge profile.
        """
        counted = paths.pop(COLD_COUNTER, 0)
        if self.graphs.counts_cold:
            return counted, inferred.cold
        told = sum(paths.values()) + sum(inferred.paths.values()) - inferred.overcounted
        return 0, max(self._ended_paths() - told, 0)

    def _ended_paths(self) -> int:
        """How many paths ended, cold ones too, by the edge profile."""
        blocks = self.dag.dfs.reached - {self.cfg.entry}
        ends = {*self.graphs.hot.removed, *self.cfg.in_edges[self.cfg.exit]}
        return sum(
            self.edge_profile[edge] for edge in ends if self.cfg.edges[edge].source in blocks
        )

    def decode_partial(self, end: s.UnfinishedPath) -> s.PathRecord | None:
        """Return an unfinished path; None if it is cold or where obvious paths only lead on;
        ValueError if it was to be counted ahead and was not.
        """
        block, graphs = end.block, self.graphs
        if block in self.plan.counted_region:
            is_cold = not graphs.counts_cold and block in graphs.poisoned
            if end.last is None and (is_cold or block in self._uncounted):
                return None
            last = end.counted_ahead(self.cfg)
            return None if last == COLD_COUNTER else self._prefix(last, block)
        if block in graphs.kept_vertices:
            register = 0 if block in self.static_region else end.registers[0]
            if block in graphs.poisoned and register < -POISON_REACH:
                return None
            return self._prefix(register + self.increments.potential[block], block)
        return self._only_way_to(block)

    @cached_property
    def _uncounted(self) -> set[int]:
        """Blocks that paths reach which nothing counted before or counts later."""
        entries = [self.cfg.edges[edge].target for edge in self.plan.uncounted_entries]
        target, onward = self.dag.columns.target, self.dag.out_edges
        return s.closure(entries, lambda vertex: [target[edge] for edge in onward[vertex]])

    def _prefix(self, path_sum: int, block: int) -> s.PathRecord:
        return s.path_record(self.dag, self.numbering.decode_prefix(path_sum, block), partial=True)

    def _only_way_to(self, block: int) -> s.PathRecord | None:
        """The only path to a block where nothing is counted, if no cold path leads there too."""
        hot = self.obvious.dag
        cold_joins = HotGraphs(hot, hot).detours.joins  # where cold paths lead into the hot graph
        path: list[int] = []
        vertex = block
        while vertex != self.cfg.entry:
            before = hot.in_edges[vertex]
            if len(before) != 1 or vertex in cold_joins:
                return None
            path.append(before[0])
            vertex = hot.edges[before[0]].source
        return s.path_record(hot, reversed(path), partial=True)

    def obvious_counts(self, edge_counts: Sequence[int]) -> ObviousCounts:
        """Derive what needs no counters from an edge profile, by edge id."""
        counts = self.obvious.dag.edge_weights(edge_counts)
        inferred: dict[int, int] = {}
        points = self.obvious.points
        rest = {point: int(counts[point]) for point in points}
        for path_id, first in enumerate(self.obvious.first_edges, self.numbering.total):
            path = self.obvious.path(first)
            inferred[path_id] = int(min(counts[edge] for edge in path))
            rest[next(edge for edge in path if edge in points)] -= inferred[path_id]
        left = [count for point, count in rest.items() if point not in self.obvious.kept]
        cold = sum(count for count in left if count > 0)
        if self.plan.table is s.CounterTable.NONE:
            cold += sum(int(edge_counts[edge]) for edge in self.graphs.cold_ends)
        return ObviousCounts(inferred, cold, -sum(count for count in left if count < 0))

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`: edges that hot paths neither have nor end with are
        `cold`.
        """
        cfg, hot = self.cfg, self.graphs.hot
        kept = set(hot.real) | {removed for edge in hot.edges for removed in edge.stands_for}
        live = s.live_edges(cfg, hot.dfs) - hot.dfs.self_loops
        # a back edge may begin hot paths, and yet end only cold ones: its crossings are cold
        cold = (live - kept) | (live & self.graphs.cold_ends)
        acyclic = s.describe_acyclic(
            self.dag, self.weights, self.numbering, self.tree, self.increments
        )
        return acyclic | {
            "edge_profile": list(self.edge_profile),
            "cold": [edge.id in cold for edge in cfg.edges],
            "locally_cold": [s.end_names(cfg, edge) for edge in sorted(self.cold)],
            "disconnected_loops": [
                {
                    "blocks": [str(cfg.name_of(block)) for block in sorted(loop.body)],
                    "entries": [s.end_names(cfg, edge) for edge in loop.entries],
                    "exits": [s.end_names(cfg, edge) for edge in loop.exits],
                }
                for loop in self.disconnection.loops
            ],
            "counted_paths": self.numbering.total,
            "obvious": list(range(self.numbering.total, self.num_paths)),
        }

    def validate_tree(self) -> None:
        """Check the spanning tree, and what was moved off it."""
        self.tree.validate()
        self.tree.validate_maximum(self.dag.edge_weights(tree_weights(self.obvious, self.weights)))
        self.increments.validate(self.tree, self.numbering.values)

    def validate(self) -> None:
        self.obvious.validate()
        if self.numbering.total:
            self.numbering.validate()
        self.validate_tree()
        hot = {edge.cfg_edge for edge in self.graphs.hot.edges}
        assert {edge.cfg_edge for edge in self.dag.edges} <= hot, "cold edges are instrumented"
        groups = self.plan.actions.values()
        for action in chain.from_iterable(groups):
            cold = isinstance(action, CountHotPath | CountBranching)
            assert not cold or self.plan.named_counters, "cold paths have no counter"
        counted = {
            edge
            for edge, group in self.plan.actions.items()
            if any(isinstance(action, s.CountEdge) for action in group)
        }
        assert counted == self.dag.dfs.self_loops - set(self.dag.removed), "self-loop counters"
        assert len(counted) == self.plan.edge_counters
        if self.obvious.dag.edges and not self.obvious.kept:
            assert set(self.plan.actions) <= self.dag.dfs.self_loops, "code for obvious paths only"


def tree_weights(obvious: s.ObviousPaths, weights: Sequence[float]) -> Sequence[float]:
    """What chooses the tree: the way out of a split EXIT block is in it, so that paths are counted
    before that block.
    """
    if obvious.split is None:
        return weights
    leaving = obvious.dag.cfg.out_edges[obvious.split]
    return [math.inf if edge in leaving else weight for edge, weight in enumerate(weights)]


# -- Planning


def plan_tpp(
    cfg: s.ControlFlowGraph,
    edge_counts: Sequence[int],
    *,
    cold: float,
    loop: float,
    cold_always: bool = False,
    literal_cold: bool = False,
    obvious_first: bool = False,
    count_obvious: bool = False,
    cold_counter: bool = True,
    branching: bool = False,
    weights: Sequence[float] | None = None,
    path_limit: int | None = s.PATH_LIMIT,
    total_limit: int | None = s.TOTAL_LIMIT,
    table: s.CounterTable | None = None,
) -> TppPlan:
    """Plan targeted path profiling of any graph, irreducible ones and parallel edges included.

    - `edge_counts`: Edge profile by edge id, of the same run or of another one.
    - `cold`, `loop`: i and j of TPP(i, j): percentages, 0..100; 0 removes, or disconnects, nothing.
    - `cold_always`: Whether to leave cold edges out even where that does not make a hash table an
      array.
    - `literal_cold`: Whether only a path of `cfg` from ENTRY to EXIT without cold edges makes what
      it has hot (TPP 4.1.1 to the letter); else a hot back edge does, too.
    - `obvious_first`: Whether paths are obvious that are so among all paths, cold ones included,
      and no others (TPP 4.3).
    - `count_obvious`: Whether obvious paths have counters, too: what cold paths gain alone (TPP
      5.1).
    - `cold_counter`: Whether cold paths are counted; else they are only kept out of other counts
      (TPP 4.1, the second alternative).
    - `branching`: Whether a branch tells cold paths from hot ones (TPP 4.1), not a conditional move
      (A.1).
    - The others: as those of `plan_paths`. With cold edges the numbers must leave room for poison
      in any case.

    ValueError if `edge_counts` is no edge profile of `cfg`, or a percentage is none.
    """
    if not (0 <= cold <= 100 and 0 <= loop <= 100):
        raise ValueError(f"TPP({cold}, {loop}): percentages are 0 to 100")
    rules = Rules(literal_cold, obvious_first, count_obvious, cold_counter, branching)
    routine, left_out = prepare(cfg, edge_counts, cold, loop, weights, table, rules)
    return choose(partial(draft, routine), left_out, cold_always, path_limit, total_limit)


def choose(
    draft: Callable[[frozenset[int], int | None, int | None], TppPlan],
    cold: Callable[[], frozenset[int]],
    always: bool,
    path_limit: int | None,
    total_limit: int | None,
) -> TppPlan:
    """Return the plan without the edges that are `cold`, or that with them: where leaving them out
    makes no array of a hash table, unless it is `always` done.
    """
    left_out = cold() if always else s.NO_EDGES
    chosen = draft(left_out, path_limit, total_limit)
    if not always and chosen.natural is not s.CounterTable.HASH:
        return chosen
    reduced = chosen
    if not always and (left_out := cold()):
        reduced = draft(left_out, path_limit, total_limit)
    limit = POISON_REACH
    # Poison must be told from all path numbers (TPP 5.1 reports the same of its own tool).
    while left_out and reduced.reach >= POISON_REACH and limit > 1:
        limit //= 2
        paths = limit if path_limit is None else min(limit, path_limit)
        reduced = draft(left_out, paths, limit)
    is_array = reduced.natural is not s.CounterTable.HASH and reduced.graphs.hot_vertices
    return reduced if always or is_array else chosen


def draft(
    routine: GuidedRoutine, cold: frozenset[int], path_limit: int | None, total_limit: int | None
) -> TppPlan:
    """Plan without the edges `cold` and what is cold because of them."""
    rules = routine.rules
    left = reduce_graph(
        routine.cfg, routine.disconnection, routine.early, rules, cold, path_limit, total_limit
    )
    hot, obvious = left.hot, left.obvious
    graphs = HotGraphs(hot, left.kept, rules.cold_counter, rules.branching, obvious.split)
    paths = s.number_dag(left.kept, tree_weights(obvious, routine.weights))
    placement, hashed = place(graphs, paths), is_hashed(routine, paths)
    # Where every path is obvious no path is instrumented, cold ones included (4.2.2).
    actions = s.with_edge_counters({}, placement.edge_counters)
    if obvious.kept or not obvious.defining:
        actions = graphs.actions(placement, hashed)
    placement = replace(placement, actions=actions)
    return TppPlan(**parts(routine, left, graphs, paths, placement, paths.numbering.total))


def place(graphs: HotGraphs, paths: s.NumberedPaths) -> s.Placement:
    """Place the instrumentation of the kept graph as EPP does (EPP 3.4)."""
    # A self-loop ends no path and has a counter of its own, as under `pp` (EPP 4.1): a loop of
    # one block is not obvious (figure 7b). Where its loop is disconnected, the self-loop ends
    # paths as any back edge, the block is an obvious path (figure 7f), and the counter is gone.
    # There are no other edge counters: the edge profile is TPP's input.
    increments = paths.increments.increments
    placement = s.place(graphs.kept, paths.tree, increments, (), graphs.detours)
    if graphs.split is None:
        return placement
    return replace(placement, counted_region=placement.counted_region | {graphs.split})


def is_hashed(routine: GuidedRoutine, paths: s.NumberedPaths) -> bool:
    """Whether path counters are in a hash table (EPP 5.3)."""
    table, _ = s.choose_table(paths.increments.greatest, routine.table)
    return table is s.CounterTable.HASH


def parts(
    routine: GuidedRoutine,
    left: ReducedGraph,
    graphs: HotGraphs,
    paths: s.NumberedPaths,
    placement: s.Placement,
    size: int,
) -> dict[str, Any]:
    """Return the parts of a plan; `size`: How many path counters an array has."""
    natural, _ = s.choose_table(paths.increments.greatest)
    kept = s.choose_table(paths.increments.greatest, routine.table)
    placed = list(chain.from_iterable(placement.actions.values()))
    if all(isinstance(action, s.CountEdge) for action in placed):
        natural, kept = s.CounterTable.NONE, (s.CounterTable.NONE, None)
    counts_cold = CountHotPath | CountBranching | CountColdPath
    has_cold = any(isinstance(action, counts_cold) for action in placed)
    plan = replace(
        s.instrumentation(placement, size, kept),
        uncounted_entries=graphs.uncounted_entries(placement),
        named_counters=("cold paths",) * has_cold,
    )
    return {
        "cfg": routine.cfg,
        "plan": plan,
        "weights": routine.weights,
        "dag": left.kept,
        "numbering": paths.numbering,
        "edge_profile": routine.profile,
        "disconnection": routine.disconnection,
        "cold": left.cold,
        "rules": routine.rules,
        "graphs": graphs,
        "obvious": left.obvious,
        "tree": paths.tree,
        "increments": paths.increments,
        "static_region": placement.static_region,
        "natural": natural,
    }
