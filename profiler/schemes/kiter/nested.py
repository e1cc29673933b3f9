"""k-iteration paths of outer loops, their inner loops collapsed (KITER 5): `kiter:outer`.

Terms: see `regions`. Each region is planned as a routine is (`planner.Making`), and its paths
have numbers of their own: those of one region follow those of the region before.

On an edge of the routine the regions that it leaves count the paths that end there, inner ones
first, and restore the state of the region around; then comes what the edge does in the region that
it is part of; then the state of this one is saved, for each region that is entered.
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.kiter.choice import (
    Asked,
    LimitedLoop,
    LimitReason,
    LoopChoice,
    limited_loops,
)
from simprof.profiler.schemes.kiter.code import (
    BeginPath,
    NextIteration,
    RestoreRegion,
    SaveRegion,
)
from simprof.profiler.schemes.kiter.numbering import number_iterations
from simprof.profiler.schemes.kiter.planner import IterationPlan, Making
from simprof.profiler.schemes.kiter.regions import (
    GraphRegion,
    NestedLoop,
    UnrolledRegion,
    divide,
    iterations_got,
    nested_loops,
)
from simprof.profiler.schemes.kiter.unrolled import IteratedLoop


class PlannedRegion(Struct, frozen=True):
    """A region with its plan, and where its counters and the state around it are."""

    region: GraphRegion
    plan: IterationPlan  # By the region's vertices and edges
    paths: int  # Number of its first path
    counters: int  # Number of its first edge counter
    # The first register that keeps the state of the region around it, and k of the loop there
    saved: int = 0
    around: int = 0

    def decode(self, path_id: int) -> s.PathRecord:
        """Return a path of the region by the routine's blocks and edges."""
        return self.record(self.plan.decode(path_id - self.paths))

    def record(self, found: s.PathRecord) -> s.PathRecord:
        """Return a path given by the region's blocks and edges by the routine's."""
        region = self.region
        start, end = found.start, found.end
        if region.loop is not None:
            start = s.PathStart.LOOP_ENTRY if start is s.PathStart.ENTRY else start
            end = s.PathEnd.LOOP_EXIT if end is s.PathEnd.EXIT else end
        return s.PathRecord(
            tuple(region.blocks[block] for block in found.blocks),
            tuple(edge for at in found.edges if (edge := region.edges[at]) is not None),
            start,
            end,
            tuple(at for at, block in enumerate(found.blocks) if block in region.collapsed),
        )

    def actions(self, edge: int) -> Iterator[s.Action]:
        """Yield what the region does on one of its edges."""
        for action in self.plan.plan.actions.get(edge, ()):
            match action:
                case s.SetRegister(constant) if self.around:
                    yield BeginPath(constant + self.paths)
                case s.SetRegister(constant):
                    yield s.SetRegister(constant + self.paths)
                case NextIteration(iterations, start):
                    yield NextIteration(iterations, start + self.paths)
                case s.CountConstantPath(constant, on_back_edge):
                    yield s.CountConstantPath(constant + self.paths, on_back_edge)
                case s.CountEdge(counter):
                    yield s.CountEdge(counter + self.counters)
                case _:
                    yield action

    def state(self, end: s.UnfinishedPath, inner: PlannedRegion | None) -> s.UnfinishedPath:
        """Return the region's part of the state in which activations ended early; `inner`: the
        region inside of it that they were in.
        """
        # Numbers of paths begin where the region's do from `BeginPath` on.
        registers, last = end.registers, end.last
        if inner is not None:
            registers, last = registers[inner.saved : inner.saved + inner.around + 1], None
        own = (*(number - self.paths for number in registers[:-1]), registers[-1])
        last = None if last is None else last - self.paths
        return s.UnfinishedPath(self.region.vertex_of[end.block], own, last, end.count)


class NestedPlan(s.Plan, frozen=True, kw_only=True, dict=True):
    """k-iteration path instrumentation of one routine by regions, and the way back to paths."""

    regions: tuple[PlannedRegion, ...]  # Outer ones first
    nest: tuple[NestedLoop, ...]  # The routine's loops
    # k that was asked for by the loops' back edges
    asked: Mapping[tuple[int, ...], int]
    dfs: s.DepthFirst
    # The loops whose paths span fewer iterations than were asked for
    limited: tuple[LimitedLoop, ...]
    blocks_of_all_paths = None  # Not known without listing the paths

    @property
    def num_paths(self) -> int:
        return sum(each.plan.num_paths for each in self.regions)

    @cached_property
    def untruncated_paths(self) -> int:
        """Number of paths that there would be without limits."""
        parts = divide(self.cfg, self.dfs, self.nest, self.asked, None, None)
        return sum(number_iterations(part.unrolled).total for part in parts)

    @property
    def edge_counters(self) -> tuple[int, ...]:
        """Edges of the plan's `CountEdge` counters."""
        return tuple(
            edge
            for each in self.regions
            for at in each.plan.edge_counters
            if (edge := each.region.edges[at]) is not None
        )

    @property
    def cut_edges(self) -> tuple[int, ...]:
        edges = (each.region.edges[at] for each in self.regions for at in each.plan.cut_edges)
        return tuple(sorted(edge for edge in edges if edge is not None))

    @property
    def loops(self) -> tuple[IteratedLoop, ...]:
        """The loops whose paths span several iterations, with their k, by the routine's blocks."""
        return tuple(
            IteratedLoop(
                each.region.blocks[loop.head],
                frozenset().union(*(each.region.members[block] for block in loop.body)),
                tuple(e for at in loop.back_edges if (e := each.region.edges[at]) is not None),
                loop.iterations,
            )
            for each in self.regions
            for loop in each.plan.loops
        )

    @property
    def most_iterations(self) -> int:
        """How many iterations of a loop a path spans at most."""
        return max(each.plan.most_iterations for each in self.regions)

    @property
    def limits(self) -> tuple[s.LoopLimit, ...]:
        """The limited loops that reports name."""
        name = self.cfg.name_of
        return tuple(
            s.LoopLimit(name(loop.head), loop.asked, loop.iterations, str(loop.reason))
            for loop in self.limited
            if loop.reason.is_of_innermost or loop.reason is LimitReason.OUTER
        )

    def decode(self, path_id: int) -> s.PathRecord:
        if not 0 <= path_id < self.num_paths:
            raise ValueError(f"{self.cfg.name} has no path {path_id} (paths: {self.num_paths})")
        region = next(each for each in reversed(self.regions) if each.paths <= path_id)
        return region.decode(path_id)

    def all_paths(self) -> Iterator[s.PathRecord]:
        return (each.record(path) for each in self.regions for path in each.plan.all_paths())

    def numbered_paths(self) -> Iterator[tuple[int, s.PathRecord]]:
        return enumerate(self.all_paths())

    @cached_property
    def _chains(self) -> tuple[tuple[int, ...], ...]:
        """By block the regions that it is in, by number, outer ones first."""
        return chains(self.cfg, [each.region for each in self.regions])

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        edges = [0] * len(self.cfg.edges)
        paths: dict[int, int] = {}
        partial: Counter[s.PathRecord] = Counter()
        for number, each in enumerate(self.regions):
            reading = each.plan.read(self._counters(number, counters))
            for at, count in enumerate(reading.all_edges or ()):
                if (edge := each.region.edges[at]) is not None:
                    edges[edge] = count
            paths |= {each.paths + path: count for path, count in reading.paths.items()}
            for record, count in reading.partial.items():
                partial[each.record(record)] += count
        return s.Reading(edges=tuple(edges), paths=paths, partial=partial)

    def _counters(self, number: int, counters: s.RoutineCounters) -> s.RoutineCounters:
        """Return what the counters hold of one region."""
        own = self.regions[number]
        first, beyond = own.paths, own.paths + own.plan.num_paths
        early: Counter[int] = Counter()
        for block, count in counters.early.items():
            if number in self._chains[block]:
                early[own.region.vertex_of[block]] += count
        unfinished = []
        for end in counters.unfinished:
            chain_of_block = self._chains[end.block]
            if number in chain_of_block:
                inner = chain_of_block[chain_of_block.index(number) + 1 :]
                unfinished.append(own.state(end, self.regions[inner[0]] if inner else None))
        return s.RoutineCounters(
            paths={path - first: n for path, n in counters.paths.items() if first <= path < beyond},
            events=counters.events[own.counters : own.counters + len(own.plan.edge_counters)],
            early=early,
            unfinished=tuple(unfinished),
        )

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`: what `kiter` says, of each region."""
        return {
            "regions": [self._describe(each) for each in self.regions],
            "limited_loops": [loop.describe(self.cfg) for loop in self.limited],
        }

    def _describe(self, each: PlannedRegion) -> dict[str, Any]:
        region, name = each.region, each.region.cfg.name_of
        ends = [(str(name(edge.source)), str(name(edge.target))) for edge in region.cfg.edges]
        return {
            "head": None if region.loop is None else str(self.cfg.name_of(region.loop.head)),
            "collapsed": {
                str(name(block)): [str(self.cfg.name_of(b)) for b in sorted(region.members[block])]
                for block in sorted(region.collapsed)
            },
            "edges": [list(pair) for pair in ends],
            "stands_for": list(region.edges),
            "back_edges": [list(ends[edge]) for edge in sorted(region.dfs.back_edges)],
            "weights": list(each.plan.weights),
            "first_path": each.paths,
            "valid_paths": each.plan.num_paths,
            **each.plan.describe(),
        }

    def validate(self) -> None:
        owned: Counter[int] = Counter()
        for each in self.regions:
            each.plan.validate()
            owned.update(edge for edge in each.region.edges if edge is not None)
            inside = each.region.collapsed - {v for x in each.plan.loops for v in x.body}
            assert not inside, f"collapsed loops {sorted(inside)} are in no iterated one"
        assert owned == Counter(edge.id for edge in self.cfg.edges), "edges of several regions"
        first = [0, *accumulate(each.plan.num_paths for each in self.regions)]
        assert [each.paths for each in self.regions] == first[:-1], "paths of regions overlap"
        counters = [
            action.counter
            for action in chain.from_iterable(self.plan.actions.values())
            if isinstance(action, s.CountEdge)
        ]
        assert sorted(counters) == list(range(len(self.edge_counters))), "wrong edge counters"


def plan_outer(
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
) -> NestedPlan | None:
    """Plan profiling of all loops over k iterations, those with loops inside too; None where no
    loop is to collapse another. Parameters as those of `planner.plan_kiter`.
    """
    dfs = s.depth_first(cfg)
    nest = nested_loops(cfg, dfs, iterations)
    edge_weights = s.given_weights(cfg, weights)
    asked = Asked(iterations, tuple(choices), hot)
    every = [each for top in nest for each in top]
    iterable = [each.loop for each in every if each.is_iterable]
    cold = asked.cold_loops(cfg, iterable, edge_weights)
    wanted = {each.loop.back_edges: asked.wanted(cfg, each.loop, cold) for each in every}
    if not any(x.inner and x.is_iterable and wanted[x.loop.back_edges] > 1 for x in every):
        return None
    parts = divide(cfg, dfs, nest, wanted, path_limit, total_limit)
    got = unlimited = iterations_got(parts)
    if any(got.get(loop.back_edges, 1) < wanted[loop.back_edges] for loop in iterable):
        unlimited = iterations_got(divide(cfg, dfs, nest, wanted, None, None))
    making = Making(edge_weights, table, event_counting, hash_above)
    plans = [
        replace(making, weights=part.region.weights(edge_weights, cfg)).plan(
            part.unrolled, part.region.loops
        )
        for part in parts
    ]
    most = max([1, *(plan.most_iterations for plan in plans)])
    regions = planned_regions(parts, plans, most)
    placement = place_regions(cfg, dfs, regions)
    total = sum(plan.num_paths for plan in plans)
    kept = making.kept(max(plan.increments.greatest for plan in plans), total)
    return NestedPlan(
        cfg=cfg,
        plan=s.instrumentation(placement, total, kept, registers(regions, most)),
        weights=edge_weights,
        regions=regions,
        nest=nest,
        asked=wanted,
        dfs=dfs,
        limited=tuple(limited_loops(cfg, dfs, asked, iterable, cold, got, unlimited)),
    )


# -- What is done where


def chains(cfg: s.ControlFlowGraph, regions: Sequence[GraphRegion]) -> tuple[tuple[int, ...], ...]:
    """Return by block the regions that it is in, by number, outer ones first."""
    return tuple(
        tuple(number for number, region in enumerate(regions) if block in region.vertex_of)
        for block in range(len(cfg.blocks))
    )


def planned_regions(
    parts: Sequence[UnrolledRegion], plans: Sequence[IterationPlan], most_iterations: int
) -> tuple[PlannedRegion, ...]:
    """Return the regions with the numbers of their counters and registers, outer ones first."""
    planned: list[PlannedRegion] = []
    paths = counters = 0
    for part, plan in zip(parts, plans, strict=True):
        each = PlannedRegion(part.region, plan, paths, counters)
        paths, counters = paths + plan.num_paths, counters + len(plan.edge_counters)
        if part.region.parent is not None and part.region.loop is not None:
            outer = planned[part.region.parent]
            loop = outer.plan.dag.loop_of[outer.region.vertex_of[part.region.loop.head]]
            # What is saved around the region outside stays saved.
            first = outer.saved + outer.around + 1 if outer.around else most_iterations
            each = replace(each, saved=first, around=loop.iterations)
        planned.append(each)
    return tuple(planned)


def registers(regions: Iterable[PlannedRegion], most_iterations: int) -> int:
    """Return how many path registers the regions take: c, those that keep others, and itr."""
    ends = (each.saved + each.around + 1 for each in regions if each.around)
    return max(ends, default=most_iterations) + 1


def place_regions(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, regions: Sequence[PlannedRegion]
) -> s.Placement:
    """Return what the regions do together."""
    placer = _RegionPlacer(cfg, regions)
    actions = {e.id: tuple(placer.actions(e.id)) for e in cfg.edges if e.source in dfs.reached}
    static: set[int] = set()
    counted: set[int] = set()
    for each in regions:
        vertices = each.region.vertices(cfg)
        static |= {vertices[v] for v in each.plan.static_region if v in vertices}
        counted |= {vertices[v] for v in each.plan.plan.counted_region if v in vertices}
    edges = (each.region.edges[at] for each in regions for at in each.plan.edge_counters)
    return s.Placement(
        {edge: group for edge, group in actions.items() if group},
        frozenset(static),
        frozenset(counted),
        tuple(edge for edge in edges if edge is not None),
    )


class _RegionPlacer:
    """Says what an edge of the routine does."""

    def __init__(self, cfg: s.ControlFlowGraph, regions: Sequence[PlannedRegion]) -> None:
        self.cfg, self.regions = cfg, regions
        outermost = (0,)  # ENTRY and EXIT are the routine's
        self.chains = (*chains(cfg, [each.region for each in regions]), outermost, outermost)
        self.owner = {edge: at for at, each in enumerate(regions) for edge in each.region.real}

    def actions(self, edge: int) -> Iterator[s.Action]:
        """Yield the actions of an edge."""
        _, source, target, _ = self.cfg.edges[edge]
        owner = self.owner[edge]
        for number in reversed(self._inside(source, owner)):
            left = self.regions[number]
            yield from left.actions(left.region.exits[left.region.vertex_of[source]])
            yield RestoreRegion(left.around, left.saved)
        own = self.regions[owner]
        yield from own.actions(own.region.real[edge])
        for number in self._inside(target, owner):
            entered = self.regions[number]
            yield SaveRegion(entered.around, entered.saved)
            yield from entered.actions(entered.region.entry)

    def _inside(self, vertex: int, owner: int) -> tuple[int, ...]:
        """Return the regions that a vertex is in, inside of one, outer ones first."""
        chain_of_vertex = self.chains[vertex]
        return chain_of_vertex[chain_of_vertex.index(owner) + 1 :]
