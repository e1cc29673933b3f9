"""Practical path profiling by enumerating paths, without the code of `ppp` and `tpp`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction

from simprof.profiler.graphs.cfg import ControlFlowGraph
from tests.oracles.brute import back_edges, reachable
from tests.oracles.tpp import Key, locally_cold, pieces


def begun_paths(cfg: ControlFlowGraph, counts: Sequence[int]) -> int:
    """How many paths were begun: at each activation, and behind each back edge."""
    proper = {e for e in back_edges(cfg) if cfg.edges[e].source != cfg.edges[e].target}
    return sum(counts[e] for e in {*cfg.out_edges[cfg.entry], *proper})


def cold_edges(
    cfg: ControlFlowGraph,
    counts: Sequence[int],
    unit_flow: int,
    local: Fraction,
    share: Fraction,
    disconnected: Iterable[Collection[int]],
) -> set[int]:
    """Edges that are cold by themselves, by the local criterion or by the global one."""
    blocks = reachable(cfg)
    live = {e.id for e in cfg.edges if e.source in blocks and e.source != e.target}
    few = {e for e in live if Fraction(counts[e]) < share * unit_flow / 100}
    return few | locally_cold(cfg, counts, local, disconnected)


def definite_flow(
    cfg: ControlFlowGraph, counts: Sequence[int], cut: Collection[int], key: Key
) -> int:
    """The least executions of a path by an edge profile: what enters less what may leave it."""
    loops = {e.id for e in cfg.edges if e.source == e.target}
    ended = (back_edges(cfg) - loops) | set(cut)
    blocks, edges = key
    through = Counter(
        {
            b: sum(counts[e] for e in cfg.in_edges[b] if e not in loops)
            for b in range(len(cfg.blocks))
        }
    )
    inner = list(edges)
    if inner and cfg.edges[inner[0]].source == cfg.entry:
        first = counts[inner.pop(0)]
    else:
        first = sum(counts[e] for e in ended if cfg.edges[e].target == blocks[0])
    least = first
    for block, edge in zip(blocks, inner, strict=False):
        least -= through[block] - counts[edge]
    if not (edges and cfg.edges[edges[-1]].target == cfg.exit):
        ways = sum(counts[e] for e in ended if cfg.edges[e].source == blocks[-1])
        least -= through[blocks[-1]] - ways
    return max(least, 0)


def wrongly_hot(
    cfg: ControlFlowGraph,
    walks: Iterable[Sequence[int]],
    ended: Collection[int],
    found: Counter[Key],
) -> tuple[int, int]:
    """How many executions hot paths have too many by `found`, and how many they lack."""
    true: Counter[Key] = Counter()
    for walk in walks:
        true.update(piece.key for piece in pieces(cfg, walk, ended) if piece.finished)
    over = sum(max(count - true[key], 0) for key, count in found.items())
    under = sum(max(true[key] - count, 0) for key, count in found.items())
    return over, under
