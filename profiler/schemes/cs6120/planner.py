"""`naive`, `calls`, `calls-optimal`: edge profiling as in the CS6120 blog post by Voor and Liu.

- `naive`: a counter on every edge.
- `calls`: every edge logged by two calls of a run-time library (`code`).
- `calls-optimal`: only the chords of a spanning tree are logged, the other edges' counts follow
  (`propagate`, what the post does by hand); `logdisrupt` where another way leads from a logged
  source to its destination (`disruptions`).
"""

# ruff: noqa: D102 - overriding methods do what `Plan` says

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct, field

from simprof import schemes as s
from simprof.profiler.schemes.cs6120.code import (
    PAIRS,
    LogDestination,
    LogDisrupt,
    LoggedEdge,
    LoggedPlan,
    LogSource,
    log_actions,
    logged_edges,
)

# -- Disruptions
#
# Where logged edges need `logdisrupt`: ways from a source to its destination beside the edge.
#
# `logdest(m)` takes the source that was logged last for the block that control comes from. It is
# wrong where control has left the source along another edge and come to the destination without a
# logging call on the way. Such ways lead
#
# 1. through the routine: source -> C -> .. -> destination (the blog's case);
# 2. through its entry: C calls the routine again, is interrupted by a signal's handler that calls
#    it, or the routine is left and called later; ENTRY -> .. -> destination;
# 3. through its exit: an activation that another one of the routine waits for leaves the routine
#    with a source still logged, and the other one goes on to the destination.
#
# Other routines may log nothing, so nothing is expected of them.


# Masks say which sources may have been logged last. Two bits more say where control comes from,
# nothing else being known: from the edge ENTRY -> first block, or from a call or signal handler.
_ENTERED, _RETURNED = 1, 2
_FIRST_SOURCE_BIT = 2
_SOURCES = ~(_ENTERED | _RETURNED)


class Disruptions(Struct, frozen=True):
    """Blocks whose top, and edges, that need `logdisrupt`."""

    blocks: frozenset[int]
    edges: frozenset[int]


def disruptions(
    cfg: s.ControlFlowGraph,
    logged: Iterable[LoggedEdge],
    live: Iterable[int],
    weights: Sequence[float],
) -> Disruptions:
    """Return where `logdisrupt` is needed, of edges that can execute; by `weights`, calls are kept
    off frequent places.
    """
    search = _Search(cfg, logged, live)
    # Out of reach is a handler that logs while its activation is between the two calls: after a
    # fault there that the handler mends, so that control goes on. Such a crossing would escape the
    # library.
    blocks, edges = search.blocks, search.edges
    # The remedy is the blog's: a call in the first block behind the source; or on an edge from
    # ENTRY or to EXIT where the way leads through it. `disruptions` starts with calls in all these
    # places, and removes them one by one, the most frequent first, where no wrong way opens: of
    # what is left, each is necessary.
    by_block = s.block_weights(cfg, weights) if blocks else ()
    places = [(by_block[block], 1, block) for block in blocks]
    places += [(weights[edge], 0, edge) for edge in edges]
    for _, is_block, place in sorted(places, key=lambda entry: (-entry[0], entry[1:])):
        search.try_without(place, bool(is_block))
    return Disruptions(frozenset(blocks), frozenset(edges | search.guards))


def is_sound(
    cfg: s.ControlFlowGraph, logged: Iterable[LoggedEdge], live: Iterable[int], chosen: Disruptions
) -> bool:
    """Whether no wrong way is open with `logdisrupt` in the chosen places."""
    search = _Search(cfg, logged, live)
    if not search.guards <= chosen.edges:
        return False
    closed = [(block, True) for block in search.blocks - chosen.blocks]
    closed += [(edge, False) for edge in search.edges - chosen.edges]
    return all(search.try_without(place, is_block) for place, is_block in closed)


def interior_entries(cfg: s.ControlFlowGraph) -> frozenset[int]:
    """Return the ENTRY edges that do not lead to the routine's first block."""
    # A non-local exit (longjmp) continues in the middle of a routine, along an ENTRY edge of its
    # own, whatever was logged last; to waiting activations of every routine it must look like a
    # return. So ENTRY edges into the middle always forget the last source.
    entries = cfg.out_edges[cfg.entry]
    if len(entries) < 2:
        return frozenset()
    first = {block.id for block in cfg.blocks if block.start == cfg.address and not block.is_slot}
    inside = [edge for edge in entries if cfg.edges[edge].target not in first]
    return frozenset(inside if len(inside) < len(entries) else inside[1:])


class _Region(Struct):
    """What a place leads to without a logging call."""

    lasts: bool = False  # beyond its own edges
    destinations: list[int] = field(default_factory=list)
    held: list[tuple[int, bool]] = field(default_factory=list)  # places with `logdisrupt`
    leaves: bool = False


class _Search:
    """Which sources may be the last ones where, given the places that have `logdisrupt`."""

    def __init__(
        self, cfg: s.ControlFlowGraph, logged: Iterable[LoggedEdge], live: Iterable[int]
    ) -> None:
        self._cfg = cfg
        self._source_bit: dict[int, int] = {}
        self._pairs: dict[int, int] = {}  # destination block -> its sources
        self._bare = set(live)
        self._find_pairs(logged)
        self.guards = interior_entries(cfg) & self._bare  # have `logdisrupt` for good
        self._bare -= self.guards
        # Places that have `logdisrupt` and might do without.
        self.blocks: set[int] = set()
        self.edges: set[int] = set()
        self._arriving: dict[tuple[int, bool], int] = {}
        # Sources that may be the last one anywhere in the routine, and when it is left;
        # those of destinations that control may reach from ENTRY, and back from a call.
        self._lasting = self._leaving = self._from_entry = self._from_inside = 0
        self._fill()

    def _find_pairs(self, logged: Iterable[LoggedEdge]) -> None:
        source, target = self._cfg.ends
        for edge, _, _, source_on_edge, destination_on_edge in logged:
            self._bare.discard(edge)
            bit = 0
            if not source_on_edge:
                free = 1 << _FIRST_SOURCE_BIT + len(self._source_bit)
                bit = self._source_bit.setdefault(source[edge], free)
            if not destination_on_edge:
                self._pairs[target[edge]] = self._pairs.get(target[edge], 0) | bit

    def _fill(self) -> None:
        """Find the places, and let everything flow that flows with `logdisrupt` in all of them."""
        cfg, (sources, targets) = self._cfg, self._cfg.ends
        returned: set[int] = set()
        for edge in self._bare:
            source, target = sources[edge], targets[edge]
            mask = _ENTERED if source == cfg.entry else self._source_bit.get(source, _RETURNED)
            is_outer = source == cfg.entry or target == cfg.exit
            if is_outer or (mask != _RETURNED and cfg.blocks[target].is_slot):
                self.edges.add(edge)
                self._arrive((edge, False), mask)
            elif mask == _RETURNED:
                returned.add(target)
            elif target not in self._pairs:
                self.blocks.add(target)
                self._arrive((target, True), mask)
        # What leads on from there without a logging call is among these edges, too.
        for target in returned:
            if target in self.blocks:
                self._arrive((target, True), _RETURNED)
            else:
                self._from_inside |= self._pairs.get(target, 0)

    def _arrive(self, place: tuple[int, bool], mask: int) -> None:
        self._arriving[place] = self._arriving.get(place, 0) | mask

    def try_without(self, place: int, is_block: bool) -> bool:
        """Take the call of `logdisrupt` off a block's top, or an edge, if counts stay right without
        it; return whether they do.
        """
        # They would not if control could then get from a source to its destination along another
        # way than the logged edge, with no logging call in between.
        chosen = self.blocks if is_block else self.edges
        chosen.remove(place)
        region = self._region((), (place,)) if is_block else self._region((place,))
        mask = self._arriving.get((place, is_block), 0)
        lasting, leaving, entry, inside, direct = self._effect(region, mask)
        if direct or lasting & entry or leaving & inside:
            chosen.add(place)
            return False
        self._commit(region, mask)
        return True

    def _effect(self, region: _Region, mask: int) -> tuple[int, int, int, int, int]:
        sources = mask & _SOURCES
        pairs = 0
        for block in region.destinations:
            pairs |= self._pairs[block]
        return (
            self._lasting | (sources if region.lasts or region.leaves else 0),
            self._leaving | (sources if region.leaves else 0),
            self._from_entry | (pairs if mask & _ENTERED else 0),
            self._from_inside | (pairs if mask & _RETURNED else 0),
            sources & pairs,
        )

    def _commit(self, region: _Region, mask: int) -> None:
        effect = self._effect(region, mask)
        self._lasting, self._leaving, self._from_entry, self._from_inside, _ = effect
        for place in region.held:
            self._arrive(place, mask)

    def _region(self, edges: Iterable[int], tops: Iterable[int] = ()) -> _Region:
        """Follow edges, and everything from the tops of blocks on, up to logging calls."""
        region, target = _Region(), self._cfg.ends[1]
        seen: set[int] = set()
        work, onward = [*tops], edges
        while True:
            for edge in onward:
                if edge in self.edges:
                    region.held.append((edge, False))
                elif edge in self._bare:
                    work.append(target[edge])
            onward = ()
            if not work:
                return region
            block = work.pop()
            if block in seen:
                continue
            seen.add(block)
            if block == self._cfg.exit:
                region.leaves = True
            elif block in self._pairs:
                region.destinations.append(block)
            elif block in self.blocks:
                region.held.append((block, True))
            else:
                region.lasts = True
                if block not in self._source_bit:
                    onward = self._cfg.out_edges[block]


# -- Plans


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


class CallsPlan(LoggedPlan, frozen=True):
    """Logged edges of one routine."""

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
