"""Cold edges and what is cold because of them (TPP 4.1).

Terms
-----
cold edge
    One that executes less than i % as often as its source (the *local* criterion, 4.1.1), or
    one that control never takes: "unexecuted paths need not be allocated a counter" (4.1).
hot
    On a path of the acyclic graph from ENTRY to EXIT without cold edges. What is not hot is cold
    *transitively*. To the letter of 4.1.1 the path is one of the control-flow graph: then a loop
    that control enters over cold edges only is cold, and so is what leads to EXIT over such edges
    only (`literally_cold`).
cold back edge
    A removed edge all of whose siblings at a vertex are cold gets no dummy edge there (4.1.2):
    paths cannot end with it, or none starts behind it. A dummy edge with one hot removed edge
    stands for the cold ones too (figure 6b, footnote 2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction

from simprof import schemes as s


def cold_edges(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    counts: Sequence[int],
    executions: Sequence[int],
    percent: Fraction,
    exit_flow: Mapping[int, int],
) -> frozenset[int]:
    """Return the edges that are cold by the local criterion (TPP 4.1.1) and an edge profile.

    `executions`: What the profile says of blocks. `percent`: i of TPP(i, j), 0..100. `exit_flow`:
    Exit edges of disconnected loops -> what they are measured against.
    """
    if not percent:  # Nothing is cold, not even what control never takes.
        return frozenset()
    # Vertices that control reaches over edges that the profile says it took.
    entered = s.closure(
        [cfg.entry], lambda v: (cfg.edges[e].target for e in cfg.out_edges[v] if counts[e])
    )
    flow = dict(enumerate(executions))
    # The exit edges of a disconnected loop are measured against all its exits, not against the
    # block that they leave: that block's executions are those of the loop, which the cut separates
    # from what comes after it; the paper does not treat that case, and its own example (figure 7)
    # would lose all code behind a loop of 100,000 iterations.
    share, part = percent.numerator, 100 * percent.denominator
    flow[cfg.entry] = sum(counts[edge] for edge in cfg.out_edges[cfg.entry])
    return frozenset(
        edge.id
        for edge in cfg.edges
        if edge.source in dfs.reached
        and edge.id not in dfs.self_loops  # which are on no path
        and (
            counts[edge.id] == 0
            or edge.source not in entered
            or part * counts[edge.id] < share * exit_flow.get(edge.id, flow[edge.source])
        )
    )


def literally_cold(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, cold: Collection[int]
) -> frozenset[int]:
    """Return the edges that no path of `cfg` from ENTRY to EXIT without an edge of `cold` has (TPP
    4.1.1), self-loops excepted.
    """
    hot = [edge for edge in cfg.edges if edge.id not in cold]
    onward: dict[int, list[int]] = {}
    back: dict[int, list[int]] = {}
    for edge in hot:
        onward.setdefault(edge.source, []).append(edge.target)
        back.setdefault(edge.target, []).append(edge.source)
    ahead = s.closure([cfg.entry], lambda v: onward.get(v, ()))
    behind = s.closure([cfg.exit], lambda v: back.get(v, ()))
    through = {edge.id for edge in hot if edge.source in ahead and edge.target in behind}
    return frozenset(s.live_edges(cfg, dfs) - dfs.self_loops - through)


def remove_cold(dag: s.Dag, cold: Collection[int], literal: bool = False) -> s.Dag:
    """Return the hot part of a whole acyclic graph, by its edges that are cold by themselves (TPP
    4.1.1, 4.1.2); `literal`: 4.1.1 to the letter.
    """
    if not cold:
        return dag
    if literal:
        cold = literally_cold(dag.cfg, dag.dfs, cold)
    # A back edge that is hot by the local criterion keeps its dummy edges, and so a loop that
    # iterates is hot even where control enters it over a cold edge alone: the first path through it
    # is cold, the others start at the entry dummy (figure 6b). Only a loop that control never
    # enters, or none of whose back edges is hot, is cold as a whole (figure 6c).
    columns, source = dag.columns, dag.cfg.ends[0]
    edges = {e for e, real in enumerate(columns.cfg_edge) if real >= 0 and real not in cold}
    starts: dict[int, set[int]] = {}  # entry dummies and where what they stand for comes from
    for dummy, removed in zip(dag.dummy_ids, columns.standing(), strict=True):
        warm = {source[edge] for edge in removed if edge not in cold}
        if warm and columns.target[dummy] != dag.cfg.exit and dag.cfg.entry not in warm:
            starts[dummy] = warm
        elif warm or not removed:  # or a dead end
            edges.add(dummy)
    while True:  # what turns cold can make entry dummies cold, and so more
        open_edges = edges | starts.keys()
        hot = _between(dag, open_edges)
        cool = [dummy for dummy, warm in starts.items() if warm.isdisjoint(hot)]
        if not cool:
            return _inside(dag, open_edges, hot)
        for dummy in cool:
            del starts[dummy]


def through(dag: s.Dag, edges: AbstractSet[int]) -> s.Dag:
    """Return the part of `dag` that paths from ENTRY to EXIT over `edges` have."""
    return _inside(dag, edges, _between(dag, edges))


def _inside(dag: s.Dag, edges: AbstractSet[int], vertices: AbstractSet[int]) -> s.Dag:
    source, target = dag.columns.source, dag.columns.target
    return s.thin(dag, {e for e in edges if source[e] in vertices and target[e] in vertices})


def _between(dag: s.Dag, open_edges: AbstractSet[int]) -> set[int]:
    """Vertices on a way from ENTRY to EXIT over these edges."""
    onward, back = dag.out_edges, dag.in_edges
    source, target = dag.columns.source, dag.columns.target
    ahead = s.closure([dag.cfg.entry], lambda v: [target[e] for e in onward[v] if e in open_edges])
    behind = s.closure([dag.cfg.exit], lambda v: [source[e] for e in back[v] if e in open_edges])
    return ahead & behind
