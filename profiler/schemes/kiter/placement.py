"""Placement of the instrumentation of k-iteration paths (KITER 4; EPP 3.3, 3.4, 4).

Values are moved onto the chords of a spanning tree of the unrolled graph: a cycle-free choice of
edges that need no increment, in their copy. Removing the dummy edges, as KITER 4.1 does it, is
the case of a tree of dummy edges (`dummy_tree`). Outside of iterated loops figure 8 of EPP says
what goes where. In an iterated loop every edge does the work of its copies at once, one
accumulator each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import sub
from typing import NamedTuple

from simprof import schemes as s
from simprof.profiler.schemes.kiter.code import (
    AddAccumulators,
    BeginPath,
    CountIterations,
    EnterLoop,
    LeaveLoop,
    NextIteration,
    RestoreRegion,
    SaveRegion,
)
from simprof.profiler.schemes.kiter.graph import IterationGraph
from simprof.profiler.schemes.kiter.loops import IteratedLoop
from simprof.profiler.schemes.kiter.numbering import IterationNumbering


class IterationIncrements(s.ChordIncrements, frozen=True, kw_only=True):
    """Increments by edge of the unrolled graph."""

    compensation: tuple[int, ...]  # Taken off the increments of compensated paths

    @property
    def greatest(self) -> int:
        """The greatest absolute constant in the code."""
        less = map(sub, self.increments, self.compensation)
        return max(map(abs, chain(self.increments, self.compensation, less)), default=0)


def dummy_tree(graph: IterationGraph) -> s.SpanningTree:
    """Return a tree of dummy edges alone, which removes them as KITER 4.1 does."""
    source, target, cfg_edge, *_ = graph.columns
    inner = graph.borders
    real = [edge for edge, of in enumerate(cfg_edge) if of >= 0 or edge in inner]
    root = (graph.cfg.exit, graph.cfg.entry)
    return s.find_tree(graph.vertex_count, source, target, [0.0] * len(source), root, real)


def tree_weights(
    graph: IterationGraph, tree: s.SpanningTree, weights: Sequence[float]
) -> tuple[float, ...]:
    """Return the weights, by edge of `graph`, by which `tree` is one of greatest weight."""
    # For a `dummy_tree` one dummy edge is as good as another.
    return (0.0,) * len(tree.source) if tree.excluded else graph.edge_weights(weights)


def iteration_increments(
    graph: IterationGraph,
    numbering: IterationNumbering,
    tree: s.SpanningTree,
    weights: Sequence[float] | None,
) -> IterationIncrements:
    """Move the values onto the edges outside of `tree`, and compensation too, within the loops,
    where `weights` by control-flow edge are given.
    """
    potential = s.chord_increments(tree, numbering.values).potential
    columns = zip(numbering.values, graph.columns.source, graph.columns.target, strict=True)
    increments = tuple(
        [value + potential[source] - potential[target] for value, source, target in columns]
    )
    compensation = numbering.compensation
    if weights is not None and numbering.valid.begun_edges:
        compensation = _moved(graph, numbering, weights)
    return IterationIncrements(increments, potential, compensation=tuple(compensation))


def _moved(
    graph: IterationGraph, numbering: IterationNumbering, weights: Sequence[float]
) -> list[int]:
    """Move compensation off busy edges, by event counting on what begun paths pass."""
    # That part begins with the head's entry dummy and ends where copy k begins. Sums over its ways
    # stay as they are. The dummy has no weight: it stands for back edges of the loop.
    valid, (source, target, cfg_edge, *_) = numbering.valid, numbering.valid.graph.columns
    inside = frozenset(valid.begun.values())
    dummies = [edge for edge in valid.graph.dummy_ids if target[edge] in inside]
    kept, entry = [*valid.begun_edges, *dummies], graph.cfg.entry
    tree = s.find_tree(
        valid.graph.vertex_count,
        [source[edge] for edge in kept],
        [vertex if (vertex := target[edge]) in inside else entry for edge in kept],
        [weights[real] if (real := cfg_edge[edge]) >= 0 else 0 for edge in kept],
        (graph.cfg.exit, entry),
    )
    unrolled = [valid.unrolled_edge[edge] for edge in kept]
    given = [numbering.compensation[edge] for edge in unrolled]
    moved = [0] * len(numbering.values)
    for edge, increment in zip(unrolled, s.chord_increments(tree, given).increments, strict=True):
        moved[edge] = increment
    return moved


# -- What is done where


class Saved(NamedTuple):
    """Where a collapsed loop keeps the state of the region around it."""

    first: int  # The first register
    iterations: int  # k of the loop there


def saved_states(graph: IterationGraph) -> tuple[Saved | None, ...]:
    """Return by region where it keeps the state around it; None for the routine."""
    most = max([1, *(loop.iterations for loop in graph.loops)])
    saved: list[Saved | None] = []
    for region in graph.regions:
        if region.parent is None or region.loop is None:
            saved.append(None)
            continue
        around, outer = saved[region.parent], graph.regions[region.parent]
        loop = graph.loop_of[outer.at[region.loop.head]]
        # What is saved around the region outside stays saved.
        first = around.first + around.iterations + 1 if around else most
        saved.append(Saved(first, loop.iterations))
    return tuple(saved)


def registers(graph: IterationGraph, outer: bool) -> int:
    """Return how many path registers there are: c, those that keep others, and itr."""
    most = max([int(outer), *(loop.iterations for loop in graph.loops)])
    ends = (each.first + each.iterations + 1 for each in saved_states(graph) if each)
    return max(ends, default=most) + 1


def place_iterations(
    graph: IterationGraph,
    first: Sequence[int],  # By region the number of its first path
    tree: s.SpanningTree,
    increments: IterationIncrements,
    counted_edges: Sequence[int] = (),
) -> s.Placement:
    """Place what `iteration_increments` made of a spanning tree; `counted_edges` get counters of
    their own, as self-loops always do (EPP 4.1).
    """
    placer, owner = _Placer(graph, first, tree, increments), graph.owner
    steps, loop_of, cfg = placer.steps, graph.loop_of, graph.cfg
    actions = s.step_actions(graph, steps)
    for edge in chain(graph.by_cfg_edge, graph.removed) if loop_of else ():
        at = graph.regions[owner.get(edge, 0)].at
        source, target = at[cfg.ends[0][edge]], at[cfg.ends[1][edge]]
        if source in loop_of or target in loop_of:
            actions[edge] = placer.actions(edge, source, target, actions.get(edge, ()))
    counters = tuple(
        sorted({*counted_edges, *graph.dfs.self_loops}, key=lambda e: (owner.get(e, 0), e))
    )
    placed = s.with_edge_counters(actions, counters)
    if len(graph.regions) > 1:
        placed = placer.across(placed)
    passed = steps.static_region, steps.counted_region
    static, counted = (frozenset(map(graph.vertex.__getitem__, each)) for each in passed)
    return s.Placement(placed, static, counted, counters)


class _Placer:
    """Says what an edge of the control-flow graph does in or at an iterated loop."""

    def __init__(
        self,
        graph: IterationGraph,
        first: Sequence[int],
        tree: s.SpanningTree,
        increments: IterationIncrements,
    ) -> None:
        self.graph = graph
        self.increments = list(increments.increments)
        for edge in graph.entry_dummy.values():
            self.increments[edge] -= increments.compensation[edge]
        self.compensation = increments.compensation
        self.back = {edge for loop in graph.loops for edge in loop.back_edges}
        iterated = frozenset(chain.from_iterable(graph.copies_of.values()))
        # EPP's figure 8 stops at the loops: `r=c` moved down into a loop, or a count moved up into
        # it, would be executed in every iteration.
        around = s.Detours(joins=iterated, leaves=iterated)
        self.steps = s.choose_steps(graph, tree, self.increments, around)
        source, target, *_ = graph.columns
        for edge in self.steps.initial if len(first) > 1 else ():
            at = target[edge] if target[edge] != graph.cfg.exit else source[edge]
            self.increments[edge] += first[graph.region[at]]

    def actions(
        self, cfg_edge: int, source: int, target: int, placed: Sequence[s.Action]
    ) -> Sequence[s.Action]:
        """Return the actions of an edge in or at a loop, between these vertices, counters of its
        own aside; `placed`: what it does if it enters one.
        """
        loop, entered = self.graph.loop_of.get(source), self.graph.loop_of.get(target)
        copies = self.graph.by_cfg_edge.get(cfg_edge)
        if loop is not None and cfg_edge in self.back:
            return self._back_edge(cfg_edge, loop, source)
        if loop is not None and loop is entered and copies is not None:
            return self._add(copies, loop)
        if loop is not None and copies is not None:
            placed = self._exit(copies, loop)
        elif loop is not None:
            vertices = (self.graph.copy_of(source, i + 1) for i in range(loop.iterations))
            dummies = tuple(self.graph.exit_dummy[vertex] for vertex in vertices)
            on_back_edge = cfg_edge in self.graph.dfs.back_edges
            begun = self.steps.on(self.graph.entry_dummy[target], on_back_edge)
            placed = [*self._exit(dummies, loop, on_back_edge), *begun]
        return placed if entered is None else (*placed, EnterLoop(entered.iterations))

    def _add(self, copies: Sequence[int], loop: IteratedLoop) -> list[s.Action]:
        """Add the increments of an edge's copies to the accumulators of the loop's paths."""
        entered = [self.increments[number] for number in copies]
        compensated = [self.increments[number] - self.compensation[number] for number in copies]
        missing = [0] * (loop.iterations - len(copies))
        if not any(entered) and not any(compensated):
            return []
        return [AddAccumulators((*entered, *missing), (*compensated, *missing))]

    def _back_edge(self, cfg_edge: int, loop: IteratedLoop, source: int) -> list[s.Action]:
        end = self.graph.exit_dummy[self.graph.copy_of(source, loop.iterations)]
        start = self.graph.entry_dummy[loop.head]
        return [
            CountIterations(loop.iterations, self.increments[end]),
            *self._add(self.graph.by_cfg_edge[cfg_edge], loop),
            NextIteration(loop.iterations, self.increments[start]),
        ]

    def _exit(
        self, copies: Sequence[int], loop: IteratedLoop, ends: bool | None = None
    ) -> list[s.Action]:
        """Leave a loop; the path goes on, or ends there (`ends`: whether on a back edge)."""
        increments = tuple(self.increments[number] for number in copies)
        placed: list[s.Action] = [LeaveLoop(loop.iterations)]
        rest = increments[0]
        if len(set(increments)) > 1:  # They depend on the iteration, and are added before.
            placed.insert(0, AddAccumulators(increments, increments))
            rest = 0
        if ends is not None or all(number in self.steps.final for number in copies):
            return [*placed, s.CountPath(rest, bool(ends))]
        return [*placed, s.AddRegister(rest)] if rest else placed

    # -- Collapsed loops

    def across(self, placed: Mapping[int, tuple[s.Action, ...]]) -> dict[int, tuple[s.Action, ...]]:
        """Add what edges do in the regions that they leave and enter to what they do in their own.

        The regions that an edge leaves count the paths that end there, inner ones first, and
        restore the state of the region around; then comes what the edge does in its own region;
        then the state of this one is saved, for each region that is entered.
        """
        graph, found = self.graph, dict(placed)
        for edge in graph.owner.keys() & found.keys():
            found[edge] = tuple(_inside(found[edge]))
        regions = zip(graph.regions, graph.entries, saved_states(graph), strict=True)
        for region, entry, saved in regions:  # outer ones first
            if entry is None or saved is None:
                continue
            enter = [SaveRegion(saved.iterations, saved.first), *self._enter(entry)]
            restore = RestoreRegion(saved.iterations, saved.first)
            for edge in region.entering:
                if graph.cfg.ends[0][edge] in graph.dfs.reached:
                    found[edge] = (*found.get(edge, ()), *enter)
            for vertex, edges in region.leaving.items():
                leave = [*self._leave(vertex), restore]
                found |= {edge: (*leave, *found.get(edge, ())) for edge in edges}
        return dict(sorted(found.items()))

    def _enter(self, entry: int) -> Iterator[s.Action]:
        """Yield the actions of a region's edge from ENTRY."""
        loop = self.graph.loop_of.get(self.graph.columns.target[entry])
        yield from _inside(self.steps.on(entry))
        if loop is not None:
            yield EnterLoop(loop.iterations)

    def _leave(self, vertex: int) -> Iterable[s.Action]:
        """Return the actions of a region's edges from a vertex to EXIT."""
        loop, exits = self.graph.loop_of.get(vertex), self.graph.exits[vertex]
        return _inside(self.steps.on(exits[0]) if loop is None else self._exit(exits, loop))


def _inside(actions: Iterable[s.Action]) -> Iterator[s.Action]:
    """Yield actions as a collapsed loop takes them: paths around it are under way."""
    for action in actions:
        match action:
            case s.SetRegister(constant):
                yield BeginPath(constant)
            case _:
                yield action
