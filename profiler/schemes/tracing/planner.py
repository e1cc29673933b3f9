"""Traces from which the whole execution is regenerated (BL94 4, 6.2).

`witness` writes a witness on few edges (`place_witnesses`): a value unique in the routine, as one
byte, two or four. `block-trace` writes one in every block. `bits` writes the outcome of every
predicate, in as few bits as tell its edges apart; `bytes` writes it as a byte. All write the target
of a transfer to a routine that only the run tells.

None has counters. Whoever reads the trace counts each edge's tokens, and sees all calls; the
other edges follow by the flow law.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.tracing.code import TRACE, WriteTarget

# -- Where witnesses go: blockers first, then a spanning tree (BL94 section 4)
#
# predicate
#     A block that control leaves through two edges or more. BL94 has two successors; of parallel
#     edges the counts could not be distinguished, so they make a predicate here.
# call
#     A block that control leaves through a call-return edge.
# witness-free
#     Without an edge that writes a witness.
# blocking property
#     No witness-free way leads from a predicate to a call or to EXIT: what follows a predicate in
#     the trace was then written by its own routine.
#
# ENTRY is no predicate: which entry an activation has is known from what called it. What a reader
# may conclude from witnesses is what `decisions` returns.


def predicates(cfg: s.ControlFlowGraph, live: Collection[int]) -> frozenset[int]:
    """Blocks with two live outgoing edges or more."""
    return frozenset(
        block.id
        for block in cfg.blocks
        if sum(edge in live for edge in cfg.out_edges[block.id]) > 1
    )


def call_blocks(cfg: s.ControlFlowGraph) -> frozenset[int]:
    """Blocks that end with a call that returns."""
    return frozenset(edge.source for edge in cfg.edges if edge.kind is s.EdgeKind.CALL_RETURN)


def blockers(
    cfg: s.ControlFlowGraph, vertices: Collection[int], live: Collection[int]
) -> frozenset[int]:
    """Edges out of predicates from which no predicate precedes one of `vertices`."""
    # The union of BL94's `blockers(G, v)`; backwards from the vertices, up to the predicates.
    forks = predicates(cfg, live)
    into = [[edge for edge in edges if edge in live] for edges in cfg.in_edges]
    seen = s.closure(
        vertices, lambda v: {cfg.edges[edge].source for edge in into[v]}.difference(forks)
    )
    return frozenset(edge for v in seen for edge in into[v] if cfg.edges[edge].source in forks)


def place_witnesses(cfg: s.ControlFlowGraph, weights: Sequence[float]) -> frozenset[int]:
    """Return the edges that write witnesses: all blockers, then chords (BL94 4.2)."""
    live = s.live_edges(cfg, s.depth_first(cfg))
    blocking = blockers(cfg, {cfg.exit, *call_blocks(cfg)}, live)
    return with_chords(cfg, blocking, weights, live)


def with_chords(
    cfg: s.ControlFlowGraph,
    witnessed: Collection[int],
    weights: Sequence[float],
    live: Collection[int],
) -> frozenset[int]:
    """Add the chords of a heaviest forest of the other edges (BL94's modified algorithm)."""
    # The edge EXIT -> ENTRY takes no part (BL94 4.1), nor do ENTRY edges, which the caller tells
    # apart.
    barred = {edge.id for edge in cfg.edges if edge.id not in live}
    barred |= {edge.id for edge in cfg.edges if edge.id in witnessed or not _usable(cfg, edge.id)}
    forest = s.find_tree(cfg.vertex_count, *cfg.ends, weights, None, barred)
    return frozenset(witnessed) | frozenset(forest.chords)


def _usable(cfg: s.ControlFlowGraph, edge: int) -> bool:
    return cfg.edges[edge].source != cfg.entry


def counting_tree(cfg: s.ControlFlowGraph, witnessed: Collection[int]) -> s.SpanningTree:
    """The edges that a reader of the trace cannot count directly, as a tree to solve for."""
    # It can count witnessed edges by their witnesses and ENTRY edges by the calls.
    live = s.live_edges(cfg, s.depth_first(cfg))
    inside = tuple(
        edge.id in live and edge.id not in witnessed and _usable(cfg, edge.id) for edge in cfg.edges
    )
    dead = frozenset(edge.id for edge in cfg.edges if edge.id not in live)
    root = (cfg.exit, cfg.entry)
    return s.SpanningTree(cfg.vertex_count, *cfg.ends, inside, dead, root)


class Tokens(Enum):
    """What the tokens of a plan stand for."""

    WITNESSES = 1  # each for one edge of the routine
    OUTCOMES = 2  # each for one edge of its source
    BLOCKS = 3  # each for the block that an edge leads to


class TracePlan(s.Plan, frozen=True, dict=True):
    """Trace instrumentation of one routine."""

    tokens: dict[int, s.WriteTrace]  # Edge id -> what crossing it writes
    kind: Tokens

    @cached_property
    def tree(self) -> s.SpanningTree:
        """The edges whose counts follow by the flow law, with EXIT -> ENTRY."""
        return counting_tree(self.cfg, self.tokens)

    @property
    def minimal_width(self) -> int | None:
        """Bits that tell the routine's witnesses apart; None where these stand for outcomes."""
        if self.kind is Tokens.OUTCOMES:
            return None
        return bits_for(len({token.value for token in self.tokens.values()}))

    def trace_sizes(self, crossings: Sequence[int]) -> dict[str, int]:
        """See `Plan`."""
        return {
            "trace_bits": self.standard_bits(crossings),
            "minimal_trace_bits": self.minimal_bits(crossings),
        }

    def standard_bits(self, crossings: Sequence[int]) -> int:
        """Bits written when each edge is crossed so often, by edge id."""
        # All but those of `bits` have standard sizes: 8, 16 or 32 bits.
        return self._written(crossings, [token.width for token in self.tokens.values()])

    def minimal_bits(self, crossings: Sequence[int]) -> int:
        """Bits written with witnesses of as few bits as tell the routine's apart (BL94 6.2)."""
        width, out = self.minimal_width, self.cfg.out_edges
        sources = (self.cfg.edges[edge].source for edge in self.tokens)
        widths = (bits_for(len(out[source])) if width is None else width for source in sources)
        return self._written(crossings, widths)

    def _written(self, crossings: Sequence[int], widths: Iterable[int]) -> int:
        pairs = zip(self.tokens, widths, strict=True)
        bits = sum(crossings[edge] * width for edge, width in pairs)
        return bits + s.TARGET_BITS * self.targets(crossings)

    def targets(self, crossings: Sequence[int]) -> int:
        """How many targets are written."""
        calls = (crossings[e] for block in self.plan.block_ends for e in self.cfg.in_edges[block])
        return sum(calls) + sum(crossings[edge] for edge in indirect_exits(self.cfg))

    def written(self, crossings: Sequence[int]) -> int:
        """How many tokens are written, targets included."""
        return sum(crossings[edge] for edge in self.tokens) + self.targets(crossings)

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Derive the edge counts from those of tokens and entries (`plan.buffers`)."""
        (trace,) = self.plan.buffers
        known = dict(zip(trace.edges, counters.events, strict=True))
        return s.Reading(edges=s.propagate(self.cfg, self.tree, known, counters.early))

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`: value and bits that each edge writes."""
        tokens = [self.tokens.get(edge.id) for edge in self.cfg.edges]
        return {
            "witnesses": [None if token is None else token.value for token in tokens],
            "bits": [None if token is None else token.width for token in tokens],
            "minimal_width": self.minimal_width,
            "tree": list(self.tree.in_tree),
        }

    def validate(self) -> None:
        """Check that the tokens solve the tracing problem (BL94 4.2); AssertionError if not."""
        live = s.live_edges(self.cfg, s.depth_first(self.cfg))
        blocking = blockers(self.cfg, {self.cfg.exit, *call_blocks(self.cfg)}, live)
        assert blocking <= self.tokens.keys(), "the blocking property does not hold"
        outcomes: set[int] = set()
        for predicate in predicates(self.cfg, live):
            outcomes.update(self.cfg.out_edges[predicate])
            if self.kind is Tokens.WITNESSES:
                s.decisions(self.cfg, self.tokens, predicate)
                continue
            edges = self.cfg.out_edges[predicate]
            values = [self.tokens[edge].value for edge in edges]
            numbered = self.kind is Tokens.BLOCKS or values == list(range(len(edges)))
            assert numbered and len(set(values)) == len(edges), (
                f"the outcomes of block {predicate} are not distinct"
            )
        if self.kind is Tokens.WITNESSES:
            values = [token.value for token in self.tokens.values()]
            assert values == list(range(len(values))), "witnesses are not unique"
        for edge, token in self.tokens.items():
            assert 0 <= token.value < 1 << token.width, (
                f"the token of edge {edge} has more than {token.width} bits"
            )
        if self.kind is Tokens.BLOCKS:
            into = (edge for block in self.cfg.blocks for edge in self.cfg.in_edges[block.id])
            silent = {edge for edge in into if edge in live} - self.tokens.keys()
            assert not silent, f"edges {sorted(silent)} lead to blocks that write nothing"
            return
        # What writes for the sake of counts alone must be the cheapest; these write in any case.
        needed = blocking if self.kind is Tokens.WITNESSES else outcomes
        barred = {*needed, *self.tree.excluded, *self.cfg.out_edges[self.cfg.entry]}
        forest = replace(self.tree, excluded=frozenset(barred), root_edge=None)
        forest.validate_maximum(self.weights)


def with_addresses(plan: TracePlan) -> TracePlan:
    """Return a plan that also records addresses of data, in a file of their own (BL94 4.2)."""
    return replace(plan, plan=replace(plan.plan, addresses=True))


def plan_witness(cfg: s.ControlFlowGraph, *, weights: Sequence[float] | None = None) -> TracePlan:
    """Plan a trace of witnesses; `weights` by edge id, None for BL94's heuristic."""
    by_edge = s.given_weights(cfg, weights)
    edges = sorted(place_witnesses(cfg, by_edge))
    width = standard_width(len(edges))
    tokens = {edge: s.WriteTrace(value, width) for value, edge in enumerate(edges)}
    return _plan(cfg, by_edge, tokens, Tokens.WITNESSES)


def plan_outcomes(
    cfg: s.ControlFlowGraph, *, packed: bool, weights: Sequence[float] | None = None
) -> TracePlan:
    """Plan a trace of the outcomes of all predicates, as few bits each (`packed`) or as a byte;
    `weights` as for `plan_witness`.
    """
    by_edge = s.given_weights(cfg, weights)
    live = s.live_edges(cfg, s.depth_first(cfg))
    width_for = bits_for if packed else standard_width
    tokens: dict[int, s.WriteTrace] = {}
    for predicate in sorted(predicates(cfg, live)):
        edges = cfg.out_edges[predicate]
        width = width_for(len(edges))
        tokens |= {edge: s.WriteTrace(value, width, packed) for value, edge in enumerate(edges)}
    # A directed cycle without a predicate, which no graph of BL94 has since none could leave it,
    # writes one bit, or byte, a turn: else nothing would tell how often it went round.
    for edge in sorted(with_chords(cfg, tokens, by_edge, live) - tokens.keys()):
        tokens[edge] = s.WriteTrace(0, width_for(1), packed)
    return _plan(cfg, by_edge, dict(sorted(tokens.items())), Tokens.OUTCOMES, packed=packed)


def plan_blocks(cfg: s.ControlFlowGraph, *, weights: Sequence[float] | None = None) -> TracePlan:
    """Plan a trace of every executed block; `weights` only lay out the code."""
    live = sorted(s.live_edges(cfg, s.depth_first(cfg)))
    forks = predicates(cfg, live)
    ends = {edge: (cfg.edges[edge].source, cfg.edges[edge].target) for edge in live}
    parallel = {pair for pair, edges in Counter(ends.values()).items() if edges > 1}
    values: dict[int, int] = {}
    own: list[int] = []
    for edge, (source, target) in ends.items():
        # What a predicate leads to must show in the trace before anything else does: one of its
        # parallel edges, and EXIT, which is no block, have witnesses of their own.
        if (source, target) in parallel or (target == cfg.exit and source in forks):
            own.append(edge)
        elif target != cfg.exit:
            values[edge] = target
    values |= {edge: number for number, edge in enumerate(own, len(cfg.blocks))}
    width = standard_width(len(cfg.blocks) + len(own))
    tokens = {edge: s.WriteTrace(value, width) for edge, value in sorted(values.items())}
    tops = {target for edge, (_, target) in ends.items() if edge in tokens and edge not in own}
    tops -= {target for _, target in parallel}
    return _plan(cfg, s.given_weights(cfg, weights), tokens, Tokens.BLOCKS, tops=tops)


def standard_width(witnesses: int) -> int:
    """Bits of a byte, half-word or word, the smallest that tells so many witnesses apart."""
    return next(width for width in (8, 16, 32) if witnesses <= 1 << width)


def bits_for(values: int) -> int:
    """Bits that tell so many values apart; one at least."""
    return max(1, (values - 1).bit_length())


def indirect_exits(cfg: s.ControlFlowGraph) -> list[int]:
    """EXIT edges behind which only the run tells what comes."""
    kinds = ((edge, cfg.edges[edge].kind) for edge in cfg.in_edges[cfg.exit])
    return [
        e for e, kind in kinds if kind is s.EdgeKind.EXIT and cfg.edges[e].source in cfg.indirect
    ]


def _plan(
    cfg: s.ControlFlowGraph,
    weights: tuple[float, ...],
    tokens: dict[int, s.WriteTrace],
    kind: Tokens,
    *,
    packed: bool = False,
    tops: Collection[int] = (),
) -> TracePlan:
    """Make a plan whose tokens stand on the edges, or at the tops of the blocks `tops`."""
    actions: dict[int, tuple[s.Action, ...]] = {}
    blocks: dict[int, tuple[s.Action, ...]] = {}
    for edge, token in tokens.items():
        target = cfg.edges[edge].target
        (blocks if target in tops else actions)[target if target in tops else edge] = (token,)
    for edge in indirect_exits(cfg):
        actions[edge] = (WriteTarget(cfg.edges[edge].source, packed, tokens.get(edge)),)
    calls = sorted(cfg.indirect & call_blocks(cfg))
    plan = s.InstrumentationPlan(
        actions=dict(sorted(actions.items())),
        blocks=dict(sorted(blocks.items())),
        block_ends={block: (WriteTarget(block, packed),) for block in calls},
        buffers=(s.BufferUse(TRACE, tuple(dict.fromkeys((*tokens, *cfg.out_edges[cfg.entry])))),),
    )
    return TracePlan(cfg, plan, weights, tokens, kind)
