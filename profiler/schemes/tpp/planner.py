"""`tpp`: targeted path profiling (TPP; Joshi, Bond and Zilles, CGO 2004).

EPP's path profiling, made cheaper by an edge profile. Steps, as the paper numbers them:

1. Disconnect loops that iterate much (4.2.1): `prepare`, `disconnection`.
2. Leave cold edges out (`cold`), where that makes a hashed routine one with an array (4.1):
   `choose`. Truncation of what has too many paths still comes after that (EPP 5.3).
3. Leave out what only obvious paths need (4.2.2; after cold edges, or before, 4.3): `reduction`.
4. Number, place and count what is kept as EPP does (`draft`); poison and count cold paths
   (`poisoning`). What belongs to dummy edges goes to the edges that they stand for (A.3).
5. Rebuild the profile (4.2.2): counted paths from the counters; obvious paths from the edge
   profile: the least count of any of its edges, its defining edges among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.tpp.actions import (
    CountBranching,
    CountColdPath,
    CountHotPath,
)
from simprof.profiler.schemes.tpp.cold import cold_edges
from simprof.profiler.schemes.tpp.disconnection import Disconnection, disconnect
from simprof.profiler.schemes.tpp.plan import POISON_REACH, tree_weights
from simprof.profiler.schemes.tpp.plan import TppPlan as TppPlan
from simprof.profiler.schemes.tpp.poisoning import HotGraphs
from simprof.profiler.schemes.tpp.reduction import ReducedGraph, Rules, reduce_graph


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
    rules = Rules(literal_cold, obvious_first, count_obvious, cold_counter, branching)
    routine, left_out = prepare(cfg, edge_counts, cold, loop, weights, table, rules)
    return choose(partial(draft, routine), left_out, cold_always, path_limit, total_limit)


class GuidedRoutine(NamedTuple):
    """What all drafts of a routine's plan are made from."""

    cfg: s.ControlFlowGraph
    weights: tuple[float, ...]
    profile: tuple[int, ...]  # Edge counts
    disconnection: Disconnection
    early: frozenset[int]  # Blocks where activations end early
    table: s.CounterTable | None
    rules: Rules


def prepare(
    cfg: s.ControlFlowGraph,
    edge_counts: Sequence[int],
    cold: float,
    loop: float,
    weights: Sequence[float] | None,
    table: s.CounterTable | None,
    rules: Rules,
) -> tuple[GuidedRoutine, Callable[[], frozenset[int]]]:
    """Disconnect a routine's loops (4.2.1); returns also what finds its edges that are cold by the
    local criterion (4.1.1). Parameters as of `plan_tpp`.
    """
    dfs = s.depth_first(cfg)
    profile = s.measured(cfg, edge_counts)
    executions = s.block_counts(cfg, profile)
    cuts = disconnect(cfg, dfs, profile, executions, exactly(loop))
    left = [0] * cfg.vertex_count
    for source, times in zip(cfg.ends[0], profile, strict=True):
        left[source] += times
    # Activations end early in blocks that the profile enters more often than it leaves.
    early = frozenset([block for block, count in enumerate(executions) if count > left[block]])
    given = s.given_weights(cfg, weights)
    return GuidedRoutine(cfg, given, profile, cuts, early, table, rules), partial(
        cold_edges, cfg, dfs, profile, executions, exactly(cold), cuts.exit_flow
    )


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


def exactly(percent: float) -> Fraction:
    """The number that the user wrote, not the float next to it."""
    return Fraction(Decimal(str(percent)))
