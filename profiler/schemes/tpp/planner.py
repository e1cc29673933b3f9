"""`tpp`: targeted path profiling (TPP; Joshi, Bond and Zilles, CGO 2004).

EPP's path profiling, made cheaper by an edge profile. Steps, as the paper numbers them:

1. Disconnect loops that iterate much (4.2.1): `disconnection`.
2. Leave cold edges out, where that makes a hashed routine one with an array (4.1): `cold`.
   Truncation of what has too many paths still comes after that (EPP 5.3).
3. Leave out what only obvious paths need (4.2.2; after cold edges, or before, 4.3): `obvious`.
4. Number, place and count what is kept as EPP does; poison and count cold paths: `poisoning`.
   What belongs to dummy edges goes to the edges that they stand for (A.3), as in `placement`.
5. Rebuild the profile (4.2.2): counted paths from the counters; obvious paths from the edge
   profile: the least count of any of its edges, its defining edges among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.tpp.actions import (
    CountBranching,
    CountColdPath,
    CountHotPath,
)
from simprof.profiler.schemes.tpp.cold import cold_edges, remove_cold
from simprof.profiler.schemes.tpp.disconnection import Disconnection, disconnect
from simprof.profiler.schemes.tpp.obvious import ObviousPaths
from simprof.profiler.schemes.tpp.plan import POISON_REACH, Rules, reduce_graph, tree_weights
from simprof.profiler.schemes.tpp.plan import TppPlan as TppPlan
from simprof.profiler.schemes.tpp.poisoning import Actions, HotGraphs


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
    - The others: as those of `pp.plan_pp`. With cold edges the numbers must leave room for poison
      in any case.

    ValueError if `edge_counts` is no edge profile of `cfg`, or a percentage is none.
    """
    if not (0 <= cold <= 100 and 0 <= loop <= 100):
        raise ValueError(f"TPP({cold}, {loop}): percentages are 0 to 100")
    drafter, left_out = prepared(
        cfg,
        edge_counts,
        cold,
        loop,
        weights,
        table,
        Rules(literal_cold, obvious_first, count_obvious, cold_counter, branching),
    )
    return choose(drafter, left_out, cold_always, path_limit, total_limit)


def prepared(
    cfg: s.ControlFlowGraph,
    edge_counts: Sequence[int],
    cold: float,
    loop: float,
    weights: Sequence[float] | None,
    table: s.CounterTable | None,
    rules: Rules,
    make: Callable[..., Drafter] | None = None,
) -> tuple[Drafter, Callable[[], frozenset[int]]]:
    """Return what drafts the plans of a routine whose loops are disconnected, and what finds its
    edges that are cold by the local criterion; parameters as of `plan_tpp`. `make`: A kind of
    `Drafter`; None: `tpp`'s own.
    """
    dfs = s.depth_first(cfg)
    profile = s.measured(cfg, edge_counts)
    executions = s.block_counts(cfg, profile)
    cuts = disconnect(cfg, dfs, profile, executions, exactly(loop))
    left = [0] * cfg.vertex_count
    for source, times in zip(cfg.ends[0], profile, strict=True):
        left[source] += times
    drafter = (make or Drafter)(
        cfg,
        s.given_weights(cfg, weights),
        profile,
        cuts,
        # Activations end early in blocks that the profile enters more often than it leaves.
        frozenset([block for block, count in enumerate(executions) if count > left[block]]),
        table,
        rules,
    )
    return drafter, partial(
        cold_edges, cfg, dfs, profile, executions, exactly(cold), cuts.exit_flow
    )


def choose(
    draft: Drafter,
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


class Drafter(Struct, frozen=True):
    """Makes plans of one routine that differ in what is cold and in the path limit. What `ppp` does
    otherwise it overrides: `graphs`, `numbered`, `needs_code`, `counted` and `made`.
    """

    cfg: s.ControlFlowGraph
    weights: tuple[float, ...]
    profile: tuple[int, ...]  # Edge counts
    disconnection: Disconnection
    early: frozenset[int]  # Blocks where activations end early
    table: s.CounterTable | None
    rules: Rules

    def graphs(self, hot: s.Dag, kept: s.Dag, split: int | None) -> HotGraphs:
        """Return the two graphs that decide what happens on which edge."""
        return HotGraphs(hot, kept, self.rules.cold_counter, self.rules.branching, split)

    def numbered(
        self, kept: s.Dag, obvious: ObviousPaths
    ) -> tuple[s.PathNumbering, s.SpanningTree, s.ChordIncrements]:
        """Number the paths of the graph that is instrumented, and say what its edges add."""
        numbering = s.number(kept)
        tree = s.dag_tree(kept, tree_weights(obvious, self.weights))
        return numbering, tree, s.chord_increments(tree, numbering.values)

    def needs_code(self, obvious: ObviousPaths) -> bool:
        """Whether a routine gets any code besides the counters of self-loops."""
        # Where every path is obvious no path is instrumented, cold ones included (4.2.2).
        return bool(obvious.kept or not obvious.defining)

    def counted(
        self,
        graphs: HotGraphs,
        placement: s.Placement,
        hashed: bool,
        numbering: s.PathNumbering,
        increments: s.ChordIncrements,
    ) -> tuple[Actions, int]:
        """Return what is done on edges, and how many path counters an array has."""
        return graphs.actions(placement, hashed), numbering.total

    def made(self, **parts: Any) -> TppPlan:
        """Return the plan that has these parts."""
        return TppPlan(**parts)

    def __call__(
        self, cold: frozenset[int], path_limit: int | None, total_limit: int | None
    ) -> TppPlan:
        """Plan without the edges `cold` and what is cold because of them."""
        cuts, merged = self.disconnection.cuts, self.disconnection.merged
        cfg, dfs, rules = self.cfg, s.depth_first(self.cfg), self.rules
        whole = s.make_dag(cfg, dfs, cuts, merged)
        hot = remove_cold(whole, cold, rules.literal_cold)
        if more := s.find_cut_edges(hot, path_limit, total_limit):
            whole = s.make_dag(cfg, dfs, cuts | frozenset(more), merged)
            hot = remove_cold(whole, cold, rules.literal_cold)
        obvious, kept = reduce_graph(whole, hot, self.early, rules)
        graphs = self.graphs(*kept, obvious.split)
        numbering, tree, increments = self.numbered(graphs.kept, obvious)
        # A self-loop ends no path and has a counter of its own, as under `pp` (EPP 4.1): a loop of
        # one block is not obvious (figure 7b). Where its loop is disconnected, the self-loop ends
        # paths as any back edge, the block is an obvious path (figure 7f), and the counter is gone.
        # There are no other edge counters: the edge profile is TPP's input.
        placement = s.place(graphs.kept, tree, increments.increments, (), graphs.detours)
        if graphs.split is not None:
            counted = placement.counted_region | {graphs.split}
            placement = replace(placement, counted_region=counted)
        greatest = increments.greatest
        natural, _ = s.choose_table(greatest)
        kind, addressing = s.choose_table(greatest, self.table)
        actions, size = s.with_edge_counters({}, placement.edge_counters), numbering.total
        if self.needs_code(obvious):
            is_hashed = kind is s.CounterTable.HASH
            actions, size = self.counted(graphs, placement, is_hashed, numbering, increments)
        placed = list(chain.from_iterable(actions.values()))
        if all(isinstance(action, s.CountEdge) for action in placed):
            natural, kind, addressing = s.CounterTable.NONE, s.CounterTable.NONE, None
        counts_cold = CountHotPath | CountBranching | CountColdPath
        has_cold = any(isinstance(action, counts_cold) for action in placed)
        plan = replace(
            s.instrumentation(replace(placement, actions=actions), size, (kind, addressing)),
            uncounted_entries=graphs.uncounted_entries(placement),
            named_counters=("cold paths",) * has_cold,
        )
        return self.made(
            cfg=cfg,
            plan=plan,
            weights=self.weights,
            dag=graphs.kept,
            numbering=numbering,
            edge_profile=self.profile,
            disconnection=self.disconnection,
            cold=cold,
            rules=rules,
            graphs=graphs,
            obvious=obvious,
            tree=tree,
            increments=increments,
            static_region=placement.static_region,
            natural=natural,
        )


def exactly(percent: float) -> Fraction:
    """The number that the user wrote, not the float next to it."""
    return Fraction(str(percent))
