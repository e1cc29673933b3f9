"""Contraction: straight-line splits of a control-flow graph merged into one block.

Terms
-----
straight-line split
    An edge from a block with one successor to a block with one predecessor. Our blocks end at
    calls and at the instruction in an annulled delay slot (docs/SEMANTICS.md); those of BL94 are
    straight-line sequences of instructions (section 2) and may contain calls (section 4.2).
chain
    The blocks that become one: each but the last is split from the next.
folded slot
    The slot block of an annulled branch taken for a part of its edge: the edges into it and out of
    it become one. A machine that annuls nothing, such as BL94's MIPS, has no such blocks.

Steps: `contract` folds slots where that is wanted, finds the chains and makes the graph of chains.
What is counted there tells what is counted in the routine itself: `edge_counts`, `block_counts`. An
activation that ended early in a block (BL94 3.2) has not gone on along its chain; one that ended in
a folded slot has not left the block before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from msgspec import Struct

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.flow import NO_EXITS
from simprof.profiler.graphs.loops import depth_first

T = TypeVar("T", int, float)  # Counts, or weights


class Contraction(Struct, frozen=True, dict=True):
    """A routine and its contracted graph."""

    cfg: ControlFlowGraph  # The routine
    # Its contracted graph: block k is `chains[k]` and has the name of the first of it.
    graph: ControlFlowGraph
    # Blocks of the routine by block of `graph`, in the order of execution
    chains: tuple[tuple[int, ...], ...]
    # Edge of the routine by edge of `graph`; of a folded slot that out of it.
    kept: tuple[int, ...]
    folded: Mapping[int, int]  # Slot block -> edge into it, of those that are folded

    @cached_property
    def inside(self) -> tuple[int, ...]:
        """Edges of the routine between two blocks of a chain, ascending."""
        links = (pair for chain in self.chains for pair in pairwise(chain))
        return tuple(sorted(self.cfg.out_edges[source][0] for source, _ in links))

    def weights(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Return weights by edge of `graph`, from weights by edge of the routine."""
        return tuple(weights[edge] for edge in self.kept)

    def early(self, early: Mapping[int, int]) -> dict[int, int]:
        """Return activations that ended early by block of `graph`, from those by block."""
        merged = {
            block: sum(early.get(member, 0) for member in chain)
            for block, chain in enumerate(self.chains)
        }
        for slot, count in early.items():
            if slot in self.folded:
                merged[self._number[self.cfg.edges[self.folded[slot]].source]] += count
        return {block: count for block, count in merged.items() if count}

    @cached_property
    def _number(self) -> Mapping[int, int]:
        return {block: at for at, chain in enumerate(self.chains) for block in chain}

    def block_counts(
        self, counts: Sequence[int], early: Mapping[int, int] = NO_EXITS
    ) -> tuple[int | None, ...]:
        """Return executions by block of the routine from those by block of `graph`; 0 for those
        that cannot execute. `early`: Block of the routine -> activations that ended early in it.
        """
        # Blocks' counts do not tell those of folded slots, which are None.
        result: list[int | None] = [0] * len(self.cfg.blocks)
        for slot in self.folded:
            result[slot] = None
        for count, chain in zip(counts, self.chains, strict=True):
            left = count
            for block in chain:
                result[block] = left
                left -= early.get(block, 0)
        return tuple(result)

    def edge_counts(
        self, counts: Sequence[T], early: Mapping[int, int] = NO_EXITS, *, dead: T = 0
    ) -> tuple[T, ...]:
        """Return counts, or weights, by edge of the routine from those by edge of `graph`; `dead`
        for those that cannot execute. `early`: As in `block_counts`.
        """
        result = [dead] * len(self.cfg.edges)
        for edge, count in zip(self.kept, counts, strict=True):
            result[edge] = count
        for slot, edge in self.folded.items():
            result[edge] = result[self.cfg.out_edges[slot][0]] + early.get(slot, 0)
        for block, chain in enumerate(self.chains):
            # An edge inside a chain has what enters the chain, less what ended before it.
            left = sum(counts[edge] for edge in self.graph.in_edges[block])
            for member in chain[:-1]:
                left -= early.get(member, 0)
                result[self.cfg.out_edges[member][0]] = left
        return tuple(result)

    def validate(self) -> None:
        """Check that the chains are straight-line, maximal, and all that can be reached."""
        reached = depth_first(self.cfg).reached
        members = [*(block for chain in self.chains for block in chain), *self.folded]
        assert sorted(members) == sorted(b.id for b in self.cfg.blocks if b.id in reached), (
            "the chains are not the blocks that can be reached, each once"
        )
        live = {edge.id for edge in self.cfg.edges if edge.source in reached}
        edges = (*self.kept, *self.inside, *self.folded.values())
        assert sorted(edges) == sorted(live), "edges are lost or made up"
        graph = self.graph
        splits = [
            edge.id
            for edge in graph.edges
            if _joins(graph, edge.source, edge.target, len(graph.in_edges[edge.target]))
        ]
        assert not splits, "straight-line splits are left"


def contract(cfg: ControlFlowGraph, fold_slots: bool = False) -> Contraction:
    """Merge the straight-line splits of `cfg`; any graph will do.

    `fold_slots`: Whether slots of annulled branches are parts of their edges.
    """
    reached = depth_first(cfg).reached
    # Only what can be reached from ENTRY is kept, as BL94's definition of a control-flow graph has
    # it: an edge that never executes makes nobody a second predecessor.
    live = [edge for edge in cfg.edges if edge.source in reached]
    entering = [0] * cfg.vertex_count
    for edge in live:
        entering[edge.target] += 1
    following = {
        edge.source: edge.target
        for edge in live
        if _joins(cfg, edge.source, edge.target, entering[edge.target])
    }
    folded = _slots(cfg, reached) if fold_slots else {}
    following = {source: target for source, target in following.items() if source not in folded}
    gone = {*following.values(), *folded}
    heads = (b.id for b in cfg.blocks if b.id in reached and b.id not in gone)
    chains = []
    for head in heads:
        # It ends: what can be reached, and is on a cycle, is entered over another edge somewhere.
        chain = [head]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        chains.append(tuple(chain))
    onward = {edge: cfg.out_edges[slot][0] for slot, edge in folded.items()}
    kept = tuple(
        onward.get(edge.id, edge.id)
        for edge in live
        if edge.source not in following and edge.source not in folded
    )
    sources = {onward[edge]: cfg.edges[edge].source for edge in folded.values()}
    return Contraction(cfg, _graph(cfg, chains, kept, sources), tuple(chains), kept, folded)


def _slots(cfg: ControlFlowGraph, reached: Collection[int]) -> dict[int, int]:
    """Return the slots that can be folded, each with the edge into it."""
    return {
        edge.target: edge.id
        for edge in cfg.edges
        if edge.kind is EdgeKind.SLOT
        and edge.source in reached
        and len(cfg.out_edges[edge.source]) > 1
        and len(cfg.in_edges[edge.target]) == len(cfg.out_edges[edge.target]) == 1
    }


def _joins(cfg: ControlFlowGraph, source: int, target: int, entering: int) -> bool:
    """Whether a live edge is a straight-line split; ENTRY and EXIT are no blocks."""
    blocks = source < cfg.entry and target < cfg.entry
    return blocks and entering == 1 and len(cfg.out_edges[source]) == 1


def _graph(
    cfg: ControlFlowGraph,
    chains: Sequence[tuple[int, ...]],
    kept: Iterable[int],
    sources: Mapping[int, int],  # edge out of a folded slot -> the block before the slot
) -> ControlFlowGraph:
    """Make the graph of chains; edges keep their order, and with it that of depth-first visits."""
    number = {block: at for at, chain in enumerate(chains) for block in chain}
    number |= {cfg.entry: len(chains), cfg.exit: len(chains) + 1}
    blocks = tuple(
        cfg.blocks[chain[0]]._replace(
            id=at, instructions=sum(cfg.blocks[block].instructions for block in chain)
        )
        for at, chain in enumerate(chains)
    )
    edges = tuple(
        cfg.edges[edge]._replace(
            id=at,
            source=number[sources.get(edge, cfg.edges[edge].source)],
            target=number[cfg.edges[edge].target],
        )
        for at, edge in enumerate(kept)
    )
    indirect = frozenset(number[block] for block in cfg.indirect if block in number)
    return ControlFlowGraph(cfg.name, cfg.address, cfg.size, blocks, edges, indirect)
