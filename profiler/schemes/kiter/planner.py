"""`kiter`: k-iteration path profiling (KITER; Roy and Srikant, CGO 2009).

Terms: see `loops`, `graph`, `numbering`.

Steps, as KITER numbers them
----------------------------
1. Choose k by loop (mixed mode, section 5) within the path limit: `loops`, `fit_regions`.
2. Unroll the loops (3.1): `unroll`.
3. Number the valid paths (algorithm 1): `number_iterations`.
4. Remove dummy edges (4.1), here with all of EPP 3.3 and 3.4: `placement`.
5. Instrument (algorithm 3): `code`.
6. Identify paths (algorithm 2): `IterationPlan.decode`.
7. Derive edge counts from the paths: `iteration_edge_counts`.
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeVar

from simprof import schemes as s
from simprof.profiler.schemes.kiter.graph import IterationGraph, unroll
from simprof.profiler.schemes.kiter.loops import (
    GIVEN_UP,
    Asked,
    IteratedLoop,
    LimitedLoop,
    LimitReason,
    LoopChoice,
    NestedLoop,
    innermost_loops,
    limited_loops,
    nested_loops,
)
from simprof.profiler.schemes.kiter.numbering import (
    IterationNumbering,
    fit_regions,
    iterations_got,
    number_iterations,
    table_1,
)
from simprof.profiler.schemes.kiter.placement import (
    IterationIncrements,
    dummy_tree,
    iteration_increments,
    place_iterations,
    registers,
    saved_states,
    tree_weights,
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
    outer: bool  # Whether loops that hold others are iterated
    nests: tuple[NestedLoop, ...]  # The loops that can be iterated, and those around them
    asked: Mapping[tuple[int, ...], int]  # The k that was asked for, by back edges
    # The loops whose paths span fewer iterations than were asked for
    limited: tuple[LimitedLoop, ...]
    # dag, numbering, tree, increments: By vertex and edge of the unrolled graph: what the plan was
    # made from.
    dag: IterationGraph
    numbering: IterationNumbering
    tree: s.SpanningTree
    increments: IterationIncrements
    # Blocks at which the path register means nothing, because one path leads there
    static_region: frozenset[int]
    blocks_of_all_paths = None  # Not known without listing the paths

    @cached_property
    def untruncated_paths(self) -> int:
        """Number of paths that there would be without limits: each loop has the k asked for."""
        lowered = (LimitReason.PATH_LIMIT, LimitReason.AMBIGUOUS)
        if not self.cut_edges and not any(each.reason in lowered for each in self.limited):
            return self.num_paths
        regions = fit_regions(self.cfg, self.dag.dfs, self.nests, self.asked, None, None)
        return sum(region.paths for region in regions)

    @cached_property
    def loops(self) -> tuple[IteratedLoop, ...]:
        """The loops whose paths span several iterations, with their k, by block."""
        return tuple(
            IteratedLoop(
                region.blocks[loop.head],
                region.inside(loop.body),
                loop.back_edges,
                loop.iterations,
            )
            for region in self.dag.regions
            for loop in region.loops
        )

    @property
    def most_iterations(self) -> int:
        """How many iterations of a loop a path spans at most."""
        return max((loop.iterations for loop in self.dag.loops), default=1)

    @property
    def limits(self) -> tuple[s.LoopLimit, ...]:
        """The limited loops that reports name."""
        name = self.cfg.name_of
        return tuple(
            s.LoopLimit(name(loop.head), loop.asked, loop.iterations, str(loop.reason))
            for loop in self.limited
            if loop.reason.is_of_innermost or (self.outer and loop.reason is LimitReason.OUTER)
        )

    def _decode(self, path_id: int) -> s.PathRecord:
        return self.dag.record(self.numbering.decode(path_id))

    def all_paths(self) -> Iterator[s.PathRecord]:
        return map(self.dag.record, self.numbering.paths())

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        paths = counters.finished_paths
        finished = ((self.numbering.decode(number), count) for number, count in paths.items())
        unfinished: Counter[tuple[int, ...]] = Counter()
        for end in counters.unfinished:
            for path in self._unfinished(end):
                unfinished[path] += end.count
        partial: Counter[s.PathRecord] = Counter()
        for path, count in unfinished.items():
            partial[self.dag.record(path, partial=True)] += count
        edges = iteration_edge_counts(
            self.dag,
            self.removed_tree,
            chain(finished, unfinished.items()),
            dict(zip(self.edge_counters, counters.events, strict=True)),
            counters.early,
        )
        return s.Reading(edges=edges, paths=paths, partial=partial)

    def _unfinished(self, end: s.UnfinishedPath) -> Iterator[tuple[int, ...]]:
        """Yield the edges of the oldest unfinished path of an activation (EPP 3.6), by region that
        it ended in.
        """
        numbers, potential = self.numbering, self.increments.potential
        around = self.dag.regions_of(end.block)
        saved = saved_states(self.dag)
        for number, inner in zip(around, (*around[1:], None), strict=True):
            vertex, registers = self.dag.regions[number].at[end.block], end.registers
            kept = None if inner is None else saved[inner]
            if kept is not None:
                registers = registers[kept.first : kept.first + kept.iterations + 1]
            elif end.block in self.plan.counted_region:
                yield numbers.decode_prefix(end.counted_ahead(self.cfg), vertex)
                continue
            elif end.block in self.static_region:
                yield numbers.decode_prefix(numbers.first[number] + potential[vertex], vertex)
                continue
            itr = registers[-1] if vertex in self.dag.loop_of else 0
            vertex = self.dag.copy_of(vertex, itr + 1)
            yield numbers.decode_prefix(registers[itr] + potential[vertex], vertex)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`: by edge a list by iteration; of each region, if
        loops that hold others are iterated.
        """
        limited = [loop.describe(self.cfg) for loop in self.limited]
        if self.outer:
            regions = [describe_region(self, number) for number in range(len(self.dag.regions))]
            return {"regions": regions, "limited_loops": limited}
        return describe_paths(self, 0) | {"limited_loops": limited}

    def validate(self) -> None:
        self.dag.validate()
        self.numbering.numbers.validate()
        self.tree.validate()
        self.tree.validate_maximum(tree_weights(self.dag, self.tree, self.weights))
        self.increments.validate(self.tree, self.numbering.values)
        self.validate_counters()
        regions = self.plan.counted_region | self.static_region
        beyond = regions - set(range(self.cfg.vertex_count))
        assert not beyond, f"the vertices {sorted(beyond)} are none of the routine"
        at = {
            block: self.dag.regions[self.dag.regions_of(block)[-1]].at[block] for block in regions
        }
        inside = at.values() & self.dag.loop_of.keys()
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
    outer: bool = False,
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

    - `iterations`: k of the loops; 1 gives EPP's paths.
    - `outer`: Iterate loops that hold others, too, which are collapsed (KITER 5).
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
    dfs, edge_weights = s.depth_first(cfg), s.given_weights(cfg, weights)
    nests = (nested_loops if outer else innermost_loops)(cfg, dfs, iterations)
    every = [each for top in nests for each in top]
    iterable = [each.loop for each in every if each.is_iterable]
    cold = asked.cold_loops(cfg, iterable, edge_weights)
    wanted = {each.loop.back_edges: asked.wanted(cfg, each.loop, cold) for each in every}
    if outer and not any(
        x.inner and x.is_iterable and wanted[x.loop.back_edges] > 1 for x in every
    ):  # no loop is to collapse another
        outer, nests = False, innermost_loops(cfg, dfs, iterations)
        iterable = [each.loop for each in nests]
    regions = fit_regions(cfg, dfs, nests, wanted, path_limit, total_limit)
    got = unlimited = iterations_got(regions)
    if any(got.get(loop.back_edges, 1) < wanted[loop.back_edges] for loop in iterable):
        unlimited = iterations_got(fit_regions(cfg, dfs, nests, wanted, None, None))
    graph = unroll(cfg, dfs, regions)
    numbering = number_iterations(graph)
    tree = s.dag_tree(graph, edge_weights) if event_counting else dummy_tree(graph)
    increments = iteration_increments(
        graph, numbering, tree, edge_weights if event_counting else None
    )
    if table is None and hash_above is not None:
        is_large = numbering.total > hash_above
        table = s.CounterTable.HASH if is_large else s.CounterTable.ARRAY
    return s.exact_plan(
        IterationPlan,
        graph,
        numbering,
        edge_weights,
        partial(place_iterations, graph, numbering.first, tree, increments),
        s.choose_table(increments.greatest, table),
        registers=registers(graph, outer),
        outer=outer,
        nests=nests,
        asked=wanted,
        limited=tuple(limited_loops(cfg, dfs, asked, iterable, cold, got, unlimited)),
        tree=tree,
        increments=increments,
    )


PlanT = TypeVar("PlanT", bound=s.Plan)


def give_up(plan: PlanT, paths: int | None) -> PlanT | GivenUpPlan:
    """Return `plan`, or one that does nothing where there would be more than `paths` (KITER 6)."""
    # The paper stops profiling a routine with more than 60,000 paths; without this option k is
    # lowered, and edges are cut, until the path limit is kept.
    would_be = None if paths is None else plan.untruncated_paths
    if paths is None or would_be is None or would_be <= paths:
        return plan
    return GivenUpPlan(plan.cfg, s.InstrumentationPlan({}), plan.weights, would_be)


# -- Edge counts from the counts of k-iteration paths
#
# That gives the counts of all edges that do not end paths, and of all blocks. Counts of removed
# edges follow from the flow through their sources and targets, where an early end is an edge too.


def iteration_edge_counts(
    graph: IterationGraph,
    forest: s.SpanningTree,
    paths: Iterable[tuple[Sequence[int], int]],
    counted: Mapping[int, int],
    early: Mapping[int, int],
) -> tuple[int, ...]:
    """Derive the count of every edge from all paths, by edges of `graph`, with their counts.

    `forest`, `counted`: As `removed_tree` and `counted` of `paths.edge_counts`. `early`: Block ->
    activations that ended early in it.
    """
    counts, vertices = [0] * len(graph.cfg.edges), graph.vertex_count
    supply = [0] * (2 * vertices)  # Flow over the removed edges out of v, and at |V| + w into w
    source, target, cfg_edge, *_ = graph.columns
    for path, count in paths:
        for edge, arrives in _new_part(graph, path):
            begin, end = graph.base(source[edge]), graph.base(target[edge])
            if cfg_edge[edge] >= 0:
                counts[cfg_edge[edge]] += count
            if cfg_edge[edge] >= 0 or edge in graph.borders:
                supply[begin] -= count
                supply[vertices + end] += count
            if arrives:
                supply[end] += count
                supply[vertices + end] -= count
    for block, count in early.items():
        for number in graph.regions_of(block):
            supply[graph.regions[number].at[block]] -= count
    for edge, count in counted.items():
        counts[edge] = count
    solved = s.solve_tree(forest, [counts[edge] for edge in graph.removed], supply)
    for edge, count in zip(graph.removed, solved, strict=True):
        counts[edge] = count
    return tuple(counts)


def _new_part(graph: IterationGraph, path: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """Yield the edges that this path adds, and whether it adds the execution of their target."""
    # An iteration in the middle of a long visit to a loop is part of k paths. Each path adds only
    # what no other path adds:
    #
    # - Of a path that began at the head of a loop, all but its last iteration there is part of
    #   older paths; what counts begins at its last inner back edge. This needs heads at which only
    #   the loop's back edges begin paths (`full_loops`).
    # - In other loops, what counts of a path that a tail of the loop ended stops after the first of
    #   its last k iterations, the inner back edge included: the next path goes on from there.
    first, last = 0, len(path)
    head = graph.columns.target[path[0]]
    # The loop whose back edge began the path, where that is sure
    if head in graph.full_loops and path[0] == graph.entry_dummy[head]:
        begun = graph.loop_of[head]
        first = _inner_back_edge(graph, path, begun, begun.iterations - 1)
    ended = _ended_by(graph, path[-1])
    if ended is not None:
        last = _inner_back_edge(graph, path, ended, 1)
    for place in range(first, min(last + 1, len(path))):
        yield path[place], place != last


def _ended_by(graph: IterationGraph, edge: int) -> IteratedLoop | None:
    """Return the loop whose back edge ended the path, if that began the next path unsurely."""
    loop = graph.loop_of.get(graph.base(graph.columns.source[edge]))
    if loop is None or loop.head in graph.full_loops or edge in graph.borders:
        return None
    return loop if any(each in loop.back_edges for each in graph.stood_for(edge) or ()) else None


def _inner_back_edge(
    graph: IterationGraph, path: Sequence[int], loop: IteratedLoop, copy: int
) -> int:
    """Return the place of the back edge out of a copy of `loop`."""
    source, _, cfg_edge, *_ = graph.columns
    return next(
        place
        for place, edge in enumerate(path)
        if cfg_edge[edge] in loop.back_edges and graph.copy[source[edge]] == copy
    )


# -- What a plan tells of itself


def describe_paths(plan: IterationPlan, number: int) -> dict[str, Any]:
    """Return what paths of a region are counted by, edges by their place in the region."""
    graph, cfg = plan.dag, plan.cfg
    region, name = graph.regions[number], cfg.name_of
    edges = graph.edges_of(number)
    place = {edge: at for at, (edge, *_) in enumerate(edges)}
    table, increments, in_tree = table_1(graph, plan.numbering), plan.increments, plan.tree.in_tree
    weights = graph.edge_weights(plan.weights)
    is_in_order = region.loops or cfg.ordered  # as `number_iterations` has it

    def by_block(numbers: Sequence[int]) -> dict[str, int]:
        blocks = ((at, region.blocks[at]) for at in region.blocks)
        return {str(name(b)): numbers[at] for at, b in blocks if b < len(cfg.blocks)}

    def by_iteration(values: Sequence[int]) -> list[list[int] | None]:
        return [[values[copy] for copy in each.copies] or None for each in edges]

    return {
        "loops": [
            {
                "head": str(name(region.blocks[loop.head])),
                "blocks": [str(name(region.blocks[at])) for at in sorted(loop.body)],
                "back_edges": [place[edge] for edge in loop.back_edges],
                "iterations": loop.iterations,
            }
            for loop in region.loops
        ],
        "limited_loops": [],
        "num_paths": by_block(table.num_paths),
        "invalid_paths": by_block(table.invalid_paths),
        "values": by_iteration(table.values),
        "order": (s.SuccessorOrder.FILE if is_in_order else s.SuccessorOrder.FEWEST).value,
        "compensation": by_iteration(table.compensation),
        "tree": by_iteration(in_tree),
        "root_edge": s.ROOT_EDGE,
        "increments": by_iteration(increments.increments),
        "dummy_edges": [
            {
                "from": str(name(graph.vertex[edge.source])),
                "to": str(name(graph.vertex[edge.target])),
                "for": [place[each] for each in edge.stands_for],
                "iteration": graph.copy[edge.source],
                "value": table.values[edge.id],
                "compensation": table.compensation[edge.id],
                "increment": increments.increments[edge.id],
                "weight": weights[edge.id],
                "tree": in_tree[edge.id],
            }
            for edge in graph.dummies
            if graph.region_of(edge.id) == number and edge.id not in graph.borders
        ],
    }


def describe_region(plan: IterationPlan, number: int) -> dict[str, Any]:
    """Return what a region is, and its paths."""
    graph, name = plan.dag, plan.cfg.name_of
    region, edges = graph.regions[number], graph.edges_of(number)
    ends = [[str(name(each.source)), str(name(each.target))] for each in edges]
    weights = graph.edge_weights(plan.weights)
    following = [*plan.numbering.first[1:], plan.num_paths]
    return {
        "head": None if region.loop is None else str(name(region.loop.head)),
        "collapsed": {
            str(name(region.blocks[at])): [str(name(block)) for block in sorted(blocks)]
            for at, blocks in sorted(region.collapsed.items())
        },
        "edges": ends,
        "stands_for": [each.edge for each in edges],
        "back_edges": [
            pair
            for pair, each in zip(ends, edges, strict=True)
            if each.edge in plan.dag.dfs.back_edges
        ],
        "weights": [
            weights[each.copies[0]] if each.edge is None else plan.weights[each.edge]
            for each in edges
        ],
        "first_path": plan.numbering.first[number],
        "valid_paths": following[number] - plan.numbering.first[number],
        **describe_paths(plan, number),
    }
