"""`naive`, `calls`, `calls-optimal`: edge profiling as in the CS6120 blog post by Voor and Liu.

- `naive`: a counter on every edge.
- `calls`: every edge logged by two calls of a run-time library (`edge_log`).
- `calls-optimal`: only the chords of a spanning tree are logged, the other edges' counts follow
  (`propagate`, what the post does by hand); `logdisrupt` where another way leads from a logged
  source to its destination (`disruption`).
"""

# ruff: noqa: D102 - overriding methods do what `Plan` says

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from simprof import schemes as s
from simprof.profiler.schemes.cs6120.disruption import Disruptions, disruptions, is_sound
from simprof.profiler.schemes.cs6120.edge_log import (
    PAIRS,
    LogDestination,
    LogDisrupt,
    LoggedEdge,
    LogSource,
    log_actions,
    logged_edges,
)

_Actions = dict[int, tuple[s.Action, ...]]

# Numbers begin at 0 in every routine, so these are soon all there.
_log_source, _log_destination = cache(LogSource), cache(LogDestination)


class NaivePlan(s.Plan, frozen=True):
    """A counter on every edge: counter k of the plan is on edge `counted[k]`."""

    counted: tuple[int, ...]

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        counts = s.counts_at(len(self.cfg.edges), self.counted, counters.events)
        return s.Reading(edges=tuple(counts))

    def validate(self) -> None:
        live = s.live_edges(self.cfg, s.depth_first(self.cfg))
        assert set(self.counted) == live, "not all edges are counted, or dead ones are"
        assert self.plan == s.counter_plan(self.counted), "the plan counts other edges"


class CallsPlan(s.Plan, frozen=True):
    """Logged edges of one routine."""

    logged: tuple[LoggedEdge, ...]  # Event k of the plan is the count of the pair of the k-th.
    disrupted: Disruptions  # Where `logdisrupt` is called
    tree: s.SpanningTree | None  # Spanning tree whose chords are logged; None where all edges are.

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        pairs = {pair.edge: count for pair, count in zip(self.logged, counters.events, strict=True)}
        if self.tree is None:
            return s.Reading(edges=tuple(pairs.get(edge.id, 0) for edge in self.cfg.edges))
        return s.Reading(edges=s.propagate(self.cfg, self.tree, pairs, counters.early))

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`: pairs of numbers, and places of `logdisrupt`."""
        pairs: list[list[int] | None] = [None] * len(self.cfg.edges)
        for pair in self.logged:
            pairs[pair.edge] = [pair.source, pair.destination]
        blocks = sorted(self.disrupted.blocks)
        static: dict[str, Any] = {
            "pairs": pairs,
            "disrupted_blocks": [str(self.cfg.name_of(block)) for block in blocks],
            "disrupted_edges": sorted(self.disrupted.edges),
        }
        return static if self.tree is None else static | s.describe_tree(self.tree)

    def validate(self) -> None:
        live = s.live_edges(self.cfg, s.depth_first(self.cfg))
        edges = tuple(pair.edge for pair in self.logged)
        if self.tree is None:
            assert set(edges) == live, "not all edges are logged, or dead ones are"
            assert not self.disrupted.blocks, "logdisrupt is called though all edges are logged"
        else:
            self.tree.validate()
            self.tree.validate_maximum(self.weights)
            assert edges == self.tree.chords, "other edges than the chords are logged"
        assert self.plan.slot_edges == edges, "pairs are counted for other edges"
        slots = [pair.source + pair.destination for pair in self.logged]
        assert len(set(slots)) == len(slots), "two pairs share a counter"
        owners = {pair.destination: self.cfg.edges[pair.edge].target for pair in self.logged}
        assert all(owners[p.destination] == self.cfg.edges[p.edge].target for p in self.logged), (
            "two destinations share a number"
        )
        assert is_sound(self.cfg, self.logged, live, self.disrupted), (
            "another way leads from a logged source to its destination"
        )
        self._validate_calls()

    def _validate_calls(self) -> None:
        sources = {pair.source for pair in self.logged}
        calls = log_actions(self.plan)
        own = [c.number for c in calls if not isinstance(c, LogDestination)]
        others = [c.number for c in calls if isinstance(c, LogDestination)]
        assert self.plan.numbers == (max(own, default=-1) + 1, max(others, default=-1) + 1), (
            "the log's table has another size than its numbers"
        )
        called = {c.number for c in calls if isinstance(c, LogSource)}
        assert called == sources, "calls log other sources than the pairs have"
        assert set(others) == {pair.destination for pair in self.logged}, (
            "calls log other destinations than the pairs have"
        )
        breaks = [c.number for c in calls if isinstance(c, LogDisrupt)]
        places = len(self.disrupted.blocks) + len(self.disrupted.edges)
        assert len(breaks) == places, "logdisrupt is not called where it must be"
        assert len(set(breaks)) == len(breaks) and not sources & set(breaks), (
            "calls of logdisrupt share a number"
        )


def plan_naive(cfg: s.ControlFlowGraph) -> NaivePlan:
    """Plan a counter on every edge of `cfg` that can execute."""
    dfs = s.depth_first(cfg)
    counted = tuple(sorted(s.live_edges(cfg, dfs)))
    return NaivePlan(cfg, s.counter_plan(counted), s.heuristic(cfg, dfs), counted)


def plan_calls(cfg: s.ControlFlowGraph) -> CallsPlan:
    """Plan two logging calls for every edge of `cfg` that can execute."""
    dfs = s.depth_first(cfg)
    logged = logged_edges(cfg, sorted(s.live_edges(cfg, dfs)))
    # Every edge is logged: no other way leads from a source to its destination.
    disrupted = Disruptions(frozenset(), frozenset())
    plan = _calls(cfg, logged, disrupted)
    return CallsPlan(cfg, plan, s.heuristic(cfg, dfs), logged, disrupted, None)


def plan_calls_optimal(
    cfg: s.ControlFlowGraph, *, weights: Sequence[float] | None = None
) -> CallsPlan:
    """Plan two logging calls for every chord of a spanning tree of greatest weight; `weights` by
    edge id, None for BL94's heuristic.
    """
    # The post takes an arbitrary spanning tree, rooted at the first block, and names one of
    # greatest weight as the next step: here the tree is that of `qpt2`. The post's graph has blocks
    # only, and the number of activations is open there. Here EXIT -> ENTRY is in the tree, as in
    # BL94, and what is logged tells that number, too: one edge more in a routine with one entry and
    # one exit. "Edge" includes those from ENTRY and to EXIT. Edges that cannot execute are never
    # instrumented.
    # With equal weights the tree is an arbitrary one, as in the blog post.
    edge_weights = s.given_weights(cfg, weights)
    tree = s.edge_tree(cfg, edge_weights)
    logged = logged_edges(cfg, tree.chords)
    disrupted = disruptions(cfg, logged, s.live_edges(cfg, s.depth_first(cfg)), edge_weights)
    return CallsPlan(cfg, _calls(cfg, logged, disrupted), edge_weights, logged, disrupted, tree)


def _calls(
    cfg: s.ControlFlowGraph, logged: Sequence[LoggedEdge], disrupted: Disruptions
) -> s.InstrumentationPlan:
    """Put the calls in their places; at most one of each kind in a block."""
    edges: _Actions = {}
    tops: _Actions = {}
    ends: _Actions = {}
    source, target = cfg.ends
    for edge, first, second, source_on_edge, destination_on_edge in logged:
        if source_on_edge:
            edges[edge] = (_log_source(first),)
        elif source[edge] not in ends:
            ends[source[edge]] = (_log_source(first),)
        if destination_on_edge:
            edges[edge] = (*edges.get(edge, ()), _log_destination(second))
        elif target[edge] not in tops:
            tops[target[edge]] = (_log_destination(second),)
    number = max([pair.source for pair in logged], default=-1) + 1
    for places, into in ((disrupted.blocks, tops), (disrupted.edges, edges)):
        for place in sorted(places):
            into[place] = (LogDisrupt(number),)
            number += 1
    destinations = max([pair.destination for pair in logged], default=-1) + 1
    return s.InstrumentationPlan(
        actions=dict(sorted(edges.items())),
        blocks=dict(sorted(tops.items())),
        block_ends=dict(sorted(ends.items())),
        buffers=(
            s.BufferUse(PAIRS, tuple([pair.edge for pair in logged]), (number, destinations)),
        ),
    )
