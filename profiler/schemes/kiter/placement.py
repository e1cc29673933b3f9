"""Placement of the instrumentation of k-iteration paths (KITER 4; EPP 3.3, 3.4, 4).

Values are moved onto the chords of a spanning tree of the unrolled graph: a cycle-free choice of
edges that need no increment, in their copy. Removing the dummy edges, as KITER 4.1 does it, is
the case of a tree of dummy edges (`dummy_tree`). Outside of iterated loops figure 8 of EPP says
what goes where. In an iterated loop every edge does the work of its copies at once, one
accumulator each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import sub

from simprof import schemes as s
from simprof.profiler.schemes.kiter.code import (
    AddAccumulators,
    CountIterations,
    EnterLoop,
    LeaveLoop,
    NextIteration,
)
from simprof.profiler.schemes.kiter.numbering import IterationNumbering, compensated_vertices
from simprof.profiler.schemes.kiter.unrolled import IteratedLoop, Unrolled


class IterationIncrements(s.ChordIncrements, frozen=True, kw_only=True):
    """Increments by edge of the unrolled graph."""

    compensation: tuple[int, ...]  # Taken off the increments of compensated paths

    @property
    def greatest(self) -> int:
        """The greatest absolute constant in the code."""
        less = map(sub, self.increments, self.compensation)
        return max(map(abs, chain(self.increments, self.compensation, less)), default=0)


def dummy_tree(unrolled: Unrolled) -> s.SpanningTree:
    """Return a tree of dummy edges alone, which removes them as KITER 4.1 does."""
    source, target, cfg_edge, *_ = unrolled.columns
    real = [edge for edge, stood_for in enumerate(cfg_edge) if stood_for >= 0]
    root = (unrolled.cfg.exit, unrolled.cfg.entry)
    weights = [0.0] * len(source)
    return s.find_tree(unrolled.vertex_count, source, target, weights, root, real)


def tree_weights(
    unrolled: Unrolled, tree: s.SpanningTree, weights: Sequence[float]
) -> tuple[float, ...]:
    """Return the weights, by edge of `unrolled`, by which `tree` is one of greatest weight."""
    # For a `dummy_tree` one dummy edge is as good as another.
    return (0.0,) * len(tree.source) if tree.excluded else unrolled.edge_weights(weights)


def entry_values(numbering: IterationNumbering) -> list[int]:
    """Return Val by edge of the unrolled graph, less what is compensated at ENTRY."""
    # Whatever begins with an edge at ENTRY is compensated on it, always.
    unrolled, values = numbering.unrolled, list(numbering.values)
    for edge in unrolled.begins:
        values[edge] -= numbering.compensation[edge]
    return values


def iteration_increments(
    numbering: IterationNumbering, tree: s.SpanningTree, weights: Sequence[float] | None
) -> IterationIncrements:
    """Move the values onto the edges outside of `tree`, and compensation too, within the loops,
    where `weights` by control-flow edge are given.
    """
    unrolled = numbering.unrolled
    values = entry_values(numbering)
    potential = s.chord_increments(tree, values).potential
    columns = zip(values, unrolled.columns.source, unrolled.columns.target, strict=True)
    increments = tuple(
        [value + potential[source] - potential[target] for value, source, target in columns]
    )
    # On exit edges the accumulators of compensated paths are about to be dropped.
    compensation = list(numbering.compensation)
    for edge in chain(unrolled.leaving, unrolled.begins):
        compensation[edge] = 0
    moved = tuple(compensation)
    if weights is not None and unrolled.full_loops:  # nothing else is ever compensated
        moved = _moved(unrolled, compensation, weights)
    return IterationIncrements(increments, potential, compensation=moved)


def _moved(
    unrolled: Unrolled, compensation: Sequence[int], weights: Sequence[float]
) -> tuple[int, ...]:
    """Move compensation off busy edges, by event counting on the compensated part of each loop."""
    # That part begins with the head's entry dummy and ends where copy k begins. Sums over its ways
    # stay as they are. The dummy has no weight: it stands for back edges of the loop.
    inside, entry = compensated_vertices(unrolled), unrolled.cfg.entry
    out_edges, (source, target, cfg_edge, *_) = unrolled.out_edges, unrolled.columns
    edges = chain.from_iterable(map(out_edges.__getitem__, inside))
    kept = sorted(unrolled.compensated_dummies.union(edges) - unrolled.leaving)
    tree = s.find_tree(
        unrolled.vertex_count,
        [source[edge] for edge in kept],
        [vertex if (vertex := target[edge]) in inside else entry for edge in kept],
        [weights[real] if (real := cfg_edge[edge]) >= 0 else 0 for edge in kept],
        (unrolled.cfg.exit, entry),
    )
    moved = [0] * len(source)
    found = s.chord_increments(tree, [compensation[edge] for edge in kept]).increments
    for edge, increment in zip(kept, found, strict=True):
        moved[edge] = increment
    return tuple(moved)


def place_iterations(
    unrolled: Unrolled,
    tree: s.SpanningTree,
    increments: IterationIncrements,
    counted_edges: Sequence[int] = (),
) -> s.Placement:
    """Place what `iteration_increments` made of a spanning tree; `counted_edges` get counters of
    their own, as self-loops always do (EPP 4.1).
    """
    placer = _Placer(unrolled, tree, increments)
    steps, loop_of, (source, target) = placer.steps, unrolled.loop_of, unrolled.cfg.ends
    actions = s.step_actions(unrolled, steps)
    for edge in chain(unrolled.by_cfg_edge, unrolled.removed):
        if source[edge] in loop_of or target[edge] in loop_of:
            actions[edge] = placer.actions(edge, actions.get(edge, ()))
    counters = tuple(sorted({*counted_edges, *unrolled.dfs.self_loops}))
    return s.Placement(
        s.with_edge_counters(actions, counters), steps.static_region, steps.counted_region, counters
    )


class _Placer:
    """Says what an edge of the control-flow graph does in or at an iterated loop."""

    def __init__(
        self, unrolled: Unrolled, tree: s.SpanningTree, increments: IterationIncrements
    ) -> None:
        self.unrolled = unrolled
        self.increments = list(increments.increments)
        for edge in unrolled.entry_dummy.values():
            self.increments[edge] -= increments.compensation[edge]
        self.compensation = increments.compensation
        self.back = {edge for loop in unrolled.loops for edge in loop.back_edges}
        iterated = frozenset(chain.from_iterable(unrolled.copies_of.values()))
        # EPP's figure 8 stops at the loops: `r=c` moved down into a loop, or a count moved up into
        # it, would be executed in every iteration.
        around = s.Detours(joins=iterated, leaves=iterated)
        self.steps = s.choose_steps(unrolled, tree, self.increments, around)

    def actions(self, cfg_edge: int, placed: Sequence[s.Action]) -> Sequence[s.Action]:
        """Return the actions of an edge in or at a loop, counters of its own aside; `placed`: what
        it does if it enters one.
        """
        _, source, target, _ = self.unrolled.cfg.edges[cfg_edge]
        loop = self.unrolled.loop_of.get(source)
        entered = self.unrolled.loop_of.get(target)
        if loop is not None and cfg_edge in self.back:
            return self._back_edge(cfg_edge, loop)
        if loop is not None and loop is entered and cfg_edge in self.unrolled.by_cfg_edge:
            return self._add(self.unrolled.by_cfg_edge[cfg_edge], loop)
        if loop is not None:
            placed = self._exit(cfg_edge, loop)
        return placed if entered is None else (*placed, EnterLoop(entered.iterations))

    def _begin(self, target: int, on_back_edge: bool) -> list[s.Action]:
        return self.steps.on(self.unrolled.entry_dummy[target], on_back_edge)

    def _add(self, copies: Sequence[int], loop: IteratedLoop) -> list[s.Action]:
        """Add the increments of an edge's copies to the accumulators of the loop's paths."""
        entered = [self.increments[number] for number in copies]
        compensated = [self.increments[number] - self.compensation[number] for number in copies]
        missing = [0] * (loop.iterations - len(copies))
        if not any(entered) and not any(compensated):
            return []
        return [AddAccumulators((*entered, *missing), (*compensated, *missing))]

    def _back_edge(self, cfg_edge: int, loop: IteratedLoop) -> list[s.Action]:
        edge = self.unrolled.cfg.edges[cfg_edge]
        tail = self.unrolled.copy(edge.source, loop.iterations)
        end = self.unrolled.exit_dummy[tail]
        start = self.unrolled.entry_dummy[loop.head]
        return [
            CountIterations(loop.iterations, self.increments[end]),
            *self._add(self.unrolled.by_cfg_edge[cfg_edge], loop),
            NextIteration(loop.iterations, self.increments[start]),
        ]

    def _exit(self, cfg_edge: int, loop: IteratedLoop) -> list[s.Action]:
        """Leave a loop; the path goes on, or ends there."""
        edge = self.unrolled.cfg.edges[cfg_edge]
        removed = cfg_edge not in self.unrolled.by_cfg_edge
        copies = self.unrolled.by_cfg_edge.get(cfg_edge)
        if copies is None:
            vertices = (self.unrolled.copy(edge.source, i + 1) for i in range(loop.iterations))
            copies = tuple(self.unrolled.exit_dummy[vertex] for vertex in vertices)
        increments = tuple(self.increments[number] for number in copies)
        placed: list[s.Action] = [LeaveLoop(loop.iterations)]
        rest = increments[0]
        if len(set(increments)) > 1:  # They depend on the iteration, and are added before.
            placed.insert(0, AddAccumulators(increments, increments))
            rest = 0
        if removed:
            on_back_edge = cfg_edge in self.unrolled.dfs.back_edges
            begun = self._begin(edge.target, on_back_edge)
            return [*placed, s.CountPath(rest, on_back_edge), *begun]
        if all(number in self.steps.final for number in copies):
            return [*placed, s.CountPath(rest)]
        return [*placed, s.AddRegister(rest)] if rest else placed
