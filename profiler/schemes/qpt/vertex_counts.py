"""How often blocks execute, from few counters (BL94 section 3).

Vprof(Vcnt): counters in blocks (`VertexFlow`). All successors of a vertex belong to one *class*:
vertices are in one class if they have a predecessor in common, directly or through others. What
leaves the predecessors of a class enters its members. So each block is an edge of the *reduced
graph*, from its own class to that of its successors, block counts obey the flow law there, and
the blocks outside a maximum spanning tree need counters, no others [Knuth and Stevenson, "Optimal
Measurement Points for Program Frequency Counts", BIT 13, 1973].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from simprof import schemes as s


class VertexFlow(Struct, frozen=True):
    """The reduced graph of a routine, and a spanning tree of it."""

    cfg: s.ControlFlowGraph  # The routine
    # Spanning tree of the reduced graph: edge b is block b, vertices are the classes. ENTRY and
    # EXIT execute equally often and are one edge, the root edge, unless it is a loop. Blocks that
    # cannot execute are excluded.
    tree: s.SpanningTree
    exit_class: int  # The class of EXIT

    @property
    def counted(self) -> tuple[int, ...]:
        """Blocks that need counters, ascending."""
        return self.tree.chords

    def block_counts(self, counters: Sequence[int], early: Mapping[int, int]) -> tuple[int, ...]:
        """Derive the count of every block from those of `counted`; `early`: Block -> activations
        that ended early in it, and so did not go on to its successors.
        """
        ended = ((self.tree.target[block], count) for block, count in early.items())
        counts = s.counts_at(len(self.cfg.blocks), self.counted, counters)
        supply = s.early_supply(self.tree.vertex_count, ended, self.exit_class)
        return tuple(s.solve_tree(self.tree, counts, supply))


def vertex_flow(cfg: s.ControlFlowGraph, dfs: s.DepthFirst, weights: Sequence[float]) -> VertexFlow:
    """Find the cheapest blocks to count; `weights` by edge id."""
    classes = _Classes(cfg, dfs)
    ends = [classes.ends(block.id) for block in cfg.blocks]
    root = (classes.of(cfg.exit), classes.ends(cfg.entry)[1])
    dead = [block.id for block in cfg.blocks if block.id not in dfs.reached]
    tree = s.maximum_spanning_tree(
        2 * cfg.vertex_count,
        ends,
        s.block_weights(cfg, weights),
        root if root[0] != root[1] else None,
        dead,
    )
    return VertexFlow(cfg, tree, root[0])


class _Classes:
    """The classes of the reached vertices, each named by one of its members."""

    def __init__(self, cfg: s.ControlFlowGraph, dfs: s.DepthFirst) -> None:
        self._cfg = cfg
        self._parent = list(range(cfg.vertex_count))
        for vertex in dfs.preorder:
            targets = [cfg.edges[edge].target for edge in cfg.out_edges[vertex]]
            for target in targets[1:]:
                self._parent[self.of(target)] = self.of(targets[0])

    def of(self, vertex: int) -> int:
        """The class of a vertex."""
        return s.find_root(self._parent, vertex)

    def ends(self, vertex: int) -> tuple[int, int]:
        """The class of a vertex, and that of its successors."""
        # A block that is never left has a class of its own behind it, which nothing leaves: as
        # often as it executes, activations end in it.
        out = self._cfg.out_edges[vertex]
        behind = self._cfg.vertex_count + vertex
        return self.of(vertex), self.of(self._cfg.edges[out[0]].target) if out else behind


def removable(tree: s.SpanningTree, weights: Sequence[float]) -> tuple[int, ...]:
    """Return chords of a maximum spanning tree of the control-flow graph, with EXIT -> ENTRY, that
    need no counter if only blocks are to be counted.
    """
    # The heuristic of BL94 figure 11: chords by decreasing weight, each if the cycle that it closes
    # has no pipe and no vertex in common with those of the chords removed before.
    # Vprof(Ecnt): counters on edges (`removable`). Less than all chords of a spanning tree may do:
    # a cycle whose edges alternate in direction may go without, because what its edges count can
    # change without a block's count changing (BL94 3.3).
    up = _Upward(tree)
    marked: set[int] = set()
    removed = []
    for chord in sorted(tree.chords, key=lambda edge: -weights[edge]):
        cycle = up.cycle(chord)
        vertices = {vertex for vertex, _ in cycle}
        # no pipe: directions alternate around the cycle
        is_pipeless = all(cycle[at - 1][1] != way for at, (_, way) in enumerate(cycle))
        if is_pipeless and not vertices & marked:
            marked |= vertices
            removed.append(chord)
    return tuple(sorted(removed))


class _Upward:
    """A spanning tree's edges from each vertex towards its root."""

    def __init__(self, tree: s.SpanningTree) -> None:
        self._tree = tree
        self._parent: dict[int, tuple[int, bool]] = {}  # vertex -> parent, edge leads up
        self._depth = dict.fromkeys(range(tree.vertex_count), 0)
        for vertex, _, parent, direction in s.rooted_edges(tree):
            self._depth[vertex] = self._depth[parent] + 1
            self._parent[vertex] = parent, direction > 0

    def cycle(self, chord: int) -> list[tuple[int, bool]]:
        """Return the vertices of the cycle that `chord`, the first edge, closes, each with whether
        the edge to the next is crossed in its own direction.
        """
        source, target = self._tree.source[chord], self._tree.target[chord]
        onward, back = [(source, True)], []
        while source != target:
            if self._depth[target] >= self._depth[source]:
                parent, leads_up = self._parent[target]
                onward.append((target, leads_up))
                target = parent
            else:
                parent, leads_up = self._parent[source]
                back.append((parent, not leads_up))
                source = parent
        return [*onward, *reversed(back)]


def edges_from_blocks(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, blocks: Sequence[int], early: Mapping[int, int]
) -> tuple[int, ...] | None:
    """Derive the count of every edge from the executions, and the activations that ended early, of
    all blocks; None where they do not tell.
    """
    # Each block is a vertex for what leaves it and another for what enters it. They tell all edge
    # counts if the edges form no cycle between these vertices.
    apart = cfg.vertex_count
    live = [edge for edge in cfg.edges if edge.source in dfs.reached]
    ends = [(edge.source, edge.target + (apart if edge.target < cfg.entry else 0)) for edge in live]
    tree = s.maximum_spanning_tree(2 * apart, ends, [0.0] * len(live), (cfg.exit, cfg.entry))
    if tree.chords:
        return None
    supply = s.early_supply(tree.vertex_count, early.items(), cfg.exit)
    for block, count in enumerate(blocks):
        supply[block] += count
        supply[apart + block] -= count
    solved = s.solve_tree(tree, [0] * len(live), supply)
    return tuple(s.counts_at(len(cfg.edges), (edge.id for edge in live), solved))
