"""`kiter`: k-iteration path profiling (KITER; Roy and Srikant, CGO 2009).

Terms: see `unrolled`, `numbering`.

Steps, as KITER numbers them
----------------------------
1. Choose k by loop (mixed mode, section 5), `choice`, within the path limit: `numbering.fit`.
2. Number the valid paths (algorithm 1): `numbering.number_iterations`.
3. Remove dummy edges (4.1), here with all of EPP 3.3 and 3.4: `placement`.
4. Instrument (algorithm 3): `code`.
5. Identify paths (algorithm 2): `IterationNumbering.decode`.
6. Derive edge counts from the paths: `unrolled_edge_counts`.
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

from msgspec import Struct

from simprof import schemes as s
from simprof.profiler.schemes.kiter.choice import (
    GIVEN_UP,
    Asked,
    LimitedLoop,
    LoopChoice,
    limited_loops,
)
from simprof.profiler.schemes.kiter.numbering import (
    IterationNumbering,
    choose,
    fit,
    number_iterations,
)
from simprof.profiler.schemes.kiter.placement import (
    IterationIncrements,
    dummy_tree,
    entry_values,
    iteration_increments,
    place_iterations,
    tree_weights,
)
from simprof.profiler.schemes.kiter.unrolled import (
    IteratedLoop,
    Unrolled,
    by_back_edges,
    innermost_loops,
    with_iterations,
)


class IterationPlan(s.ExactPathPlan, frozen=True, kw_only=True, dict=True):
    """k-iteration path instrumentation of one routine, and the way back to paths."""

    # A visit to an iterated loop makes n iterations (n - 1 back edges and an exit). The path that
    # the activation is on when it enters goes through them all if n < k, or n = k and the k-th
    # iteration is the one that leaves the loop; then the visit ends no path. Otherwise that path
    # ends at the k-th back edge, after k iterations, and each back edge begins a path at the head,
    # which either ends k iterations later, at a back edge, or is the one that goes on when the loop
    # is left, in its k-th iteration. Paths that have made fewer iterations by then are dropped:
    # they begin at the head and are no valid paths. So a visit with n >= k iterations is part of n
    # - k + 1 paths, and iterations in its middle are part of k paths. Outside of iterated loops
    # paths are EPP's.
    asked: tuple[IteratedLoop, ...]  # The innermost loops with the k that was asked for
    # The loops whose paths span fewer iterations than were asked for
    limited: tuple[LimitedLoop, ...]
    # dag, numbering, tree, increments: By vertex and edge of the unrolled graph: what the plan was
    # made from.
    dag: Unrolled
    numbering: IterationNumbering
    tree: s.SpanningTree
    increments: IterationIncrements
    # Vertices at which the path register means nothing, because one path leads there
    static_region: frozenset[int]
    blocks_of_all_paths = None  # Not known without listing the paths

    @cached_property
    def untruncated_paths(self) -> int:
        """Number of paths that there would be without limits: each loop has the k asked for."""
        return choose(self.cfg, self.dag.dfs, self.asked, None, None).paths

    @property
    def loops(self) -> tuple[IteratedLoop, ...]:
        """The loops whose paths span several iterations, with their k."""
        return self.dag.loops

    @property
    def most_iterations(self) -> int:
        """How many iterations of a loop a path spans at most."""
        return max((loop.iterations for loop in self.loops), default=1)

    @property
    def limits(self) -> tuple[s.LoopLimit, ...]:
        """The limited loops that reports name: those that are innermost, or irreducible."""
        name = self.cfg.name_of
        return tuple(
            s.LoopLimit(name(loop.head), loop.asked, loop.iterations, str(loop.reason))
            for loop in self.limited
            if loop.reason.is_of_innermost
        )

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        paths = counters.finished_paths
        finished = ((self.numbering.decode(number), count) for number, count in paths.items())
        unfinished: Counter[tuple[int, ...]] = Counter()
        for end in counters.unfinished:
            unfinished[self._unfinished(end)] += end.count
        partial: Counter[s.PathRecord] = Counter()
        for path, count in unfinished.items():
            partial[s.path_record(self.dag, path, partial=True)] += count
        edges = unrolled_edge_counts(
            self.dag,
            self.removed_tree,
            [*finished, *unfinished.items()],
            dict(zip(self.edge_counters, counters.events, strict=True)),
            counters.early,
        )
        return s.Reading(edges=edges, paths=paths, partial=partial)

    def _unfinished(self, end: s.UnfinishedPath) -> tuple[int, ...]:
        """Return the edges of the oldest unfinished path of an activation (EPP 3.6)."""
        if end.block in self.plan.counted_region:
            return self.numbering.decode_prefix(end.counted_ahead(self.cfg), end.block)
        if end.block in self.static_region:
            return self.numbering.decode_prefix(self.increments.potential[end.block], end.block)
        itr = end.registers[-1] if end.block in self.dag.loop_of else 0
        vertex = self.dag.copy(end.block, itr + 1)
        path_sum = end.registers[itr] + self.increments.potential[vertex]
        return self.numbering.decode_prefix(path_sum, vertex)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`: by edge a list by iteration."""
        cfg, unrolled, numbering = self.cfg, self.dag, self.numbering
        increments, in_tree = self.increments.increments, self.tree.in_tree
        weights = unrolled.edge_weights(self.weights)
        return {
            "loops": [
                {
                    "head": str(cfg.name_of(loop.head)),
                    "blocks": [str(cfg.name_of(block)) for block in sorted(loop.body)],
                    "back_edges": list(loop.back_edges),
                    "iterations": loop.iterations,
                }
                for loop in self.loops
            ],
            "limited_loops": [loop.describe(cfg) for loop in self.limited],
            "num_paths": s.by_block(cfg, numbering.num_paths),
            "invalid_paths": s.by_block(cfg, numbering.invalid_paths),
            "values": self._by_iteration(numbering.values),
            "order": self._order.value,
            "compensation": self._by_iteration(numbering.compensation),
            "tree": self._by_iteration(in_tree),
            "root_edge": s.ROOT_EDGE,
            "increments": self._by_iteration(increments),
            "dummy_edges": [
                {
                    "from": str(cfg.name_of(unrolled.copies[edge.source].vertex)),
                    "to": str(cfg.name_of(unrolled.copies[edge.target].vertex)),
                    "for": list(edge.stands_for),
                    "iteration": unrolled.copies[edge.source].iteration,
                    "value": numbering.values[edge.id],
                    "compensation": numbering.compensation[edge.id],
                    "increment": increments[edge.id],
                    "weight": weights[edge.id],
                    "tree": in_tree[edge.id],
                }
                for edge in unrolled.dummies
            ],
        }

    @property
    def _order(self) -> s.SuccessorOrder:
        # as `number_iterations` has it
        in_order = self.dag.loops or self.cfg.ordered
        return s.SuccessorOrder.FILE if in_order else s.SuccessorOrder.FEWEST

    def _by_iteration(self, values: Sequence[int]) -> list[list[int] | None]:
        copies = (self.dag.by_cfg_edge.get(edge.id) for edge in self.cfg.edges)
        return [None if each is None else [values[copy] for copy in each] for each in copies]

    def validate(self) -> None:
        self.dag.validate()
        self.numbering.validate()
        self.tree.validate()
        self.tree.validate_maximum(tree_weights(self.dag, self.tree, self.weights))
        self.increments.validate(self.tree, entry_values(self.numbering))
        self.validate_counters()
        regions = self.plan.counted_region | self.static_region
        beyond = regions - set(range(self.cfg.vertex_count))
        assert not beyond, f"the vertices {sorted(beyond)} are none of the routine"
        inside = regions & set(self.dag.loop_of)
        assert not inside, f"vertices {sorted(inside)} of iterated loops have no path register"
        both = self.plan.counted_region & self.static_region
        assert not both, f"vertices {sorted(both)} are before the path register and behind it"


class GivenUpPlan(s.Plan, frozen=True):
    """No instrumentation: the routine has too many paths (KITER 6)."""

    untruncated_paths: int  # As many as it would have
    num_paths = 0
    cut_edges: tuple[int, ...] = ()
    blocks_of_all_paths = 0
    most_iterations = None  # There are no paths
    limits: tuple[s.LoopLimit, ...] = ()

    def decode(self, path_id: int) -> s.PathRecord:
        raise ValueError(f"{self.cfg.name} is not profiled, and has no path {path_id}")

    def numbered_paths(self) -> Iterator[tuple[int, s.PathRecord]]:
        return iter(())

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        return s.Reading(edges=None, lost={GIVEN_UP: 1})

    def describe(self) -> dict[str, Any]:
        return {"given_up": self.untruncated_paths}

    def validate(self) -> None:
        assert self.plan == s.InstrumentationPlan({}), "a routine that was given up has code"


def plan_kiter(
    cfg: s.ControlFlowGraph,
    *,
    iterations: int = 2,
    weights: Sequence[float] | None = None,
    path_limit: int | None = s.PATH_LIMIT,
    total_limit: int | None = s.TOTAL_LIMIT,
    table: s.CounterTable | None = None,
    choices: Sequence[LoopChoice] = (),
    hot: float = 0.0,
    event_counting: bool = True,
    hash_above: int | None = None,
) -> IterationPlan:
    """Plan k-iteration path profiling of any graph, irreducible ones and parallel edges included.

    - `iterations`: k of the innermost loops; 1 gives EPP's paths.
    - `weights`, `path_limit`, `total_limit`, `table`: As those of `plan_paths`.
    - `choices`: Loops that have another k (KITER 5).
    - `hot`: The other loops get k = 1 unless they execute this percentage of the routine's
      instructions by `weights` (KITER 8).
    - `event_counting`: Keep increments off the busy edges (EPP 3.3). Otherwise every edge gets its
      value, as KITER's algorithm 3 does it.
    - `hash_above`: Number of paths beyond which counters are in a hash table, and else in an array
      (KITER 6: 6,000); None to choose by the increments (EPP 5.2).

    UsageError if a k is less than 1.
    """
    asked = Asked(iterations, tuple(choices), hot)
    if min([iterations, *(each.iterations for each in choices)]) < 1:
        raise s.UsageError(f"{cfg.name}: paths need at least 1 iteration (-k 1)")
    dfs = s.depth_first(cfg)
    edge_weights = s.given_weights(cfg, weights)
    innermost = innermost_loops(cfg, dfs, iterations)
    cold = asked.cold_loops(cfg, innermost, edge_weights)
    wanted = {loop.head: asked.wanted(cfg, loop, cold) for loop in innermost}
    iterated = with_iterations(innermost, wanted)
    unrolled = fit(cfg, dfs, iterated, path_limit, total_limit)
    got = unlimited = by_back_edges(unrolled.loops)
    if got != by_back_edges(iterated):
        unlimited = by_back_edges(choose(cfg, dfs, iterated, None, None).loops)
    made = Making(edge_weights, table, event_counting, hash_above)
    limited = limited_loops(cfg, dfs, asked, innermost, cold, got, unlimited)
    return made.plan(unrolled, iterated, tuple(limited))


class Making(Struct, frozen=True):
    """How plans are made of unrolled graphs: parameters as those of `plan_kiter`."""

    weights: Sequence[float]
    table: s.CounterTable | None = None
    event_counting: bool = True
    hash_above: int | None = None

    def kept(self, greatest: int, paths: int) -> tuple[s.CounterTable, s.Addressing | None]:
        """Return how counters are kept, by the greatest increment and the number of paths."""
        table = self.table
        if table is None and self.hash_above is not None:
            table = s.CounterTable.HASH if paths > self.hash_above else s.CounterTable.ARRAY
        return s.choose_table(greatest, table)

    def plan(
        self,
        unrolled: Unrolled,
        asked: tuple[IteratedLoop, ...],
        limited: tuple[LimitedLoop, ...] = (),
    ) -> IterationPlan:
        """Return the plan of an unrolled graph; `asked`, `limited` as of the plan."""
        edge_weights = tuple(self.weights)
        event_counting = self.event_counting
        numbering = number_iterations(unrolled)
        tree = s.dag_tree(unrolled, edge_weights) if event_counting else dummy_tree(unrolled)
        increments = iteration_increments(numbering, tree, edge_weights if event_counting else None)
        most_iterations = max((loop.iterations for loop in unrolled.loops), default=0)
        return s.exact_plan(
            IterationPlan,
            unrolled,
            numbering,
            edge_weights,
            partial(place_iterations, unrolled, tree, increments),
            self.kept(increments.greatest, numbering.total),
            registers=1 + most_iterations,
            asked=asked,
            limited=limited,
            tree=tree,
            increments=increments,
        )


PlanT = TypeVar("PlanT", bound=s.Plan)


def give_up(plan: PlanT, paths: int | None) -> PlanT | GivenUpPlan:
    """Return `plan`, or one that does nothing where there would be more than `paths` (KITER 6)."""
    # The paper stops profiling a routine with more than 60,000 paths; without this option k is
    # lowered, and edges are cut, until the path limit is kept.
    would_be = plan.untruncated_paths
    if paths is None or would_be is None or would_be <= paths:
        return plan
    return GivenUpPlan(plan.cfg, s.InstrumentationPlan({}), plan.weights, would_be)


# -- Edge counts from the counts of k-iteration paths
#
# That gives the counts of all edges that do not end paths, and of all blocks. Counts of removed
# edges follow from the flow through their sources and targets, where an early end is an edge too.


def unrolled_edge_counts(
    unrolled: Unrolled,
    forest: s.SpanningTree,
    paths: Iterable[tuple[Sequence[int], int]],
    counted: Mapping[int, int],
    early: Mapping[int, int],
) -> tuple[int, ...]:
    """Derive the count of every edge from all paths, by edges of `unrolled`, with their counts.

    `forest`, `counted`: As `removed_tree` and `counted` of `paths.edge_counts`. `early`: Block ->
    activations that ended early in it.
    """
    cfg = unrolled.cfg
    counts, executions = [0] * len(cfg.edges), [0] * cfg.vertex_count
    for path, count in paths:
        for edge, arrives in _new_part(unrolled, path):
            if edge.cfg_edge is not None:
                counts[edge.cfg_edge] += count
            if arrives:
                executions[unrolled.copies[edge.target].vertex] += count
    supply = _supply(unrolled, counts, executions, early)
    for number, count in counted.items():
        counts[number] = count
    solved = s.solve_tree(forest, [counts[edge] for edge in unrolled.removed], supply)
    for number, count in zip(unrolled.removed, solved, strict=True):
        counts[number] = count
    return tuple(counts)


def _supply(
    unrolled: Unrolled, counts: Sequence[int], executions: Sequence[int], early: Mapping[int, int]
) -> list[int]:
    """Flow over the removed edges out of v, and, negative, into w at |V| + w."""
    cfg = unrolled.cfg
    supply = [0] * (2 * cfg.vertex_count)
    for vertex in {cfg.edges[edge].source for edge in unrolled.removed}:
        known = sum(counts[edge] for edge in cfg.out_edges[vertex])
        supply[vertex] = executions[vertex] - known - early.get(vertex, 0)
    for vertex in {cfg.edges[edge].target for edge in unrolled.removed}:
        known = sum(counts[edge] for edge in cfg.in_edges[vertex])
        supply[cfg.vertex_count + vertex] = known - executions[vertex]
    return supply


def _new_part(unrolled: Unrolled, path: Sequence[int]) -> Iterator[tuple[s.DagEdge, bool]]:
    """Yield the edges that this path adds, and whether it adds the execution of their target."""
    # An iteration in the middle of a long visit to a loop is part of k paths. Each path adds only
    # what no other path adds:
    #
    # - Of a path that began at the head of a loop, all but its last iteration there is part of
    #   older paths; what counts begins at its last inner back edge. This needs heads at which only
    #   the loop's back edges begin paths (`Unrolled.full_loops`).
    # - In other loops, what counts of a path that a tail of the loop ended stops after the first of
    #   its last k iterations, the inner back edge included: the next path goes on from there.
    edges = [unrolled.edges[edge] for edge in path]
    first, last = 0, len(edges)
    # The loop whose back edge began the path, where that is sure
    if edges[0].cfg_edge is None and edges[0].target in unrolled.full_loops:
        begun = unrolled.loop_of[unrolled.copies[edges[0].target].vertex]
        first = _inner_back_edge(unrolled, path, begun, begun.iterations - 1)
    ended = _ended_by(unrolled, edges[-1])
    if ended is not None:
        last = _inner_back_edge(unrolled, path, ended, 1)
    for place in range(first, min(last + 1, len(edges))):
        yield edges[place], place != last


def _ended_by(unrolled: Unrolled, edge: s.DagEdge) -> IteratedLoop | None:
    """Return the loop whose back edge ended the path, if that began the next path unsurely."""
    loop = unrolled.loop_of.get(unrolled.copies[edge.source].vertex)
    if loop is None or loop.head in unrolled.full_loops or edge.cfg_edge is not None:
        return None
    return loop if any(ended in loop.back_edges for ended in edge.stands_for) else None


def _inner_back_edge(unrolled: Unrolled, path: Sequence[int], loop: IteratedLoop, copy: int) -> int:
    """Return the place of the back edge out of a copy of `loop`."""
    edges = (unrolled.edges[edge] for edge in path)
    return next(
        place
        for place, edge in enumerate(edges)
        if edge.cfg_edge in loop.back_edges and unrolled.copies[edge.source].iteration == copy
    )
