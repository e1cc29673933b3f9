"""Flow through control-flow graphs: counts of uninstrumented edges, and conservation.

Kirchhoff's law: as often as control enters a block it leaves it, where an activation that ends
early in block v counts as leaving over a virtual edge v -> EXIT (BL94 3.2, figure 7).

Steps: `propagate` derives all edge counts from those of the chords (BL94 figure 6);
`check` tests conservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.spanning import SpanningTree
from simprof.simulator.errors import SimulatorError

NO_EXITS: Mapping[int, int] = {}


class FlowError(SimulatorError):
    """Edge counts that no execution can have."""


def solve_tree(tree: SpanningTree, counts: Sequence[int], supply: Sequence[int]) -> list[int]:
    """Return all counts by edge: those of the tree, or forest, by peeling leaves off it.

    `counts`: By edge; those of tree edges are not read. `supply`: By vertex, what flows out of it
    minus what flows in, over all edges.
    """
    # Signed: inconsistent input gives negative counts, which `check` reports.
    result = [0 if inside else count for inside, count in zip(tree.in_tree, counts, strict=True)]
    rest = list(supply)
    for chord in tree.chords:
        rest[tree.source[chord]] -= result[chord]
        rest[tree.target[chord]] += result[chord]
    result.append(0)  # of the root edge
    for vertex, edge, other, sign in reversed(rooted_edges(tree)):
        # All tree edges of `vertex` but this one are solved and taken out of `rest`.
        result[edge] = sign * rest[vertex]
        rest[other] += rest[vertex]
        rest[vertex] = 0
    return result[:-1]


def early_supply(vertices: int, early: Iterable[tuple[int, int]], sink: int) -> list[int]:
    """Return the supply of activations that ended early: (vertex that they left for `sink`, count).

    It is that of `solve_tree`, of a graph with so many vertices (BL94 3.2).
    """
    supply = [0] * vertices
    for vertex, count in early:
        supply[vertex] -= count
        supply[sink] += count
    return supply


def counts_at(size: int, numbers: Iterable[int], counts: Iterable[int]) -> list[int]:
    """Return `size` counts: one of `counts` for each of `numbers`, and 0 for the others."""
    table = [0] * size
    for number, count in zip(numbers, counts, strict=True):
        table[number] = count
    return table


def rooted_edges(tree: SpanningTree) -> list[tuple[int, int, int, int]]:
    """List (vertex, edge to parent, parent, direction), parents before children."""
    links: list[tuple[int, int, int, int]] = []
    if tree.root_edge is None and True not in tree.in_tree:
        return links  # as of most forests of removed edges
    neighbours = tree.neighbours()
    seen = [not at_vertex for at_vertex in neighbours]
    for root in range(tree.vertex_count):
        if seen[root]:
            continue
        seen[root] = True
        work = [root]
        while work:
            vertex = work.pop()
            for edge, other, sign in neighbours[vertex]:
                if not seen[other]:
                    seen[other] = True
                    links.append((other, edge, vertex, -sign))
                    work.append(other)
    return links


def propagate(
    cfg: ControlFlowGraph,
    tree: SpanningTree,
    chord_counts: Mapping[int, int],
    early_exits: Mapping[int, int] = NO_EXITS,
) -> tuple[int, ...]:
    """Derive the count of every edge by id; 0 for those that cannot execute (BL94 figure 6).

    - `cfg`, `tree`: The graph and a spanning tree of its live edges that holds EXIT -> ENTRY.
    - `chord_counts`: Chord edge id -> count.
    - `early_exits`: Block -> activations that ended early in it.
    """
    counts = counts_at(len(cfg.edges), tree.chords, (chord_counts[edge] for edge in tree.chords))
    supply = early_supply(cfg.vertex_count, early_exits.items(), cfg.exit)
    return tuple(solve_tree(tree, counts, supply))


def check(
    cfg: ControlFlowGraph,
    counts: Sequence[int],
    early_exits: Mapping[int, int] = NO_EXITS,
    activations: int | None = None,
) -> None:
    """Check that `counts` by edge obey the flow law in every block; FlowError naming the first
    block or edge that does not, also if `activations` is given and ENTRY was not left that often.
    """
    if len(counts) != len(cfg.edges):
        raise FlowError(f"{cfg.name}: {len(counts)} counts for {len(cfg.edges)} edges")
    balance = [0] * cfg.vertex_count
    for edge, count in zip(cfg.edges, counts, strict=True):
        if count < 0:
            ends = f"{cfg.name_of(edge.source)} -> {cfg.name_of(edge.target)}"
            raise FlowError(f"{cfg.name}: edge {ends} has the impossible count {count}")
        balance[edge.source] -= count
        balance[edge.target] += count
    for block, count in early_exits.items():
        balance[block] -= count
    for block in range(len(cfg.blocks)):
        if balance[block] != 0:
            raise FlowError(
                f"{cfg.name}: block {cfg.name_of(block)} was entered {balance[block]:+d} times "
                "more than left; the profile is damaged, run the program again"
            )
    if activations is not None and -balance[cfg.entry] != activations:
        raise FlowError(f"{cfg.name}: {-balance[cfg.entry]} entries for {activations} activations")


def block_counts(cfg: ControlFlowGraph, counts: Sequence[int]) -> tuple[int, ...]:
    """Return how often each block was executed, by block id, from counts by edge id."""
    # That is the sum of its incoming edges' counts: an early end is a way out of a block, not in.
    entered = [0] * cfg.vertex_count
    for (_, _, target, _), count in zip(cfg.edges, counts, strict=True):
        entered[target] += count
    return tuple(entered[: len(cfg.blocks)])


def unit_flow(cfg: ControlFlowGraph, counts: Sequence[int]) -> int:
    """Return how many acyclic paths a routine began, from counts by edge id: one at each
    activation, and one at each crossing of a back edge. Edges from a block to itself begin none.
    """
    dfs = depth_first(cfg)
    begins = dfs.back_edges.difference(dfs.self_loops).union(cfg.out_edges[cfg.entry])
    return sum(counts[edge] for edge in begins)
