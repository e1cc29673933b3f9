"""The part of an acyclic graph that TPP instruments: hot, without what only obvious paths need.

Steps: disconnect loops (4.2.1), and find cold edges (4.1): `prepare`; then, in `reduce_graph`,
leave out cold edges, truncate what still has too many paths (EPP 5.3), and leave out what only
obvious paths need (4.2.2), among hot paths or among all (4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from simprof import schemes as s

# -- Disconnected loops (TPP 4.2.1)
#
# Loops that TPP cuts out of a graph, so that what lies before, in and after them is separate.
#
# A loop is disconnected where the edges into it execute less than j % as often as its header (TPP
# 4.2.1, 5). Its entry and exit edges are truncated: each ends a path and begins the next. Where
# such an edge comes from ENTRY, no path ends with it, and where it leads to EXIT none begins: such
# edges and what the loop's back edges do there are one dummy edge then. A loop of one block is its
# self-loop; it becomes a back edge as any other, since all its paths are that block.


class LoopRegion(Struct, frozen=True):
    """A loop: its blocks, the edges into it (to its headers) and those out of it."""

    body: frozenset[int]
    entries: tuple[int, ...]
    exits: tuple[int, ...]


class Disconnection(Struct, frozen=True):
    """The truncated edges of disconnected loops."""

    loops: tuple[LoopRegion, ...]  # The loops
    # cuts, merged: Edge ids for `make_dag`. Entry and exit edges that are back edges of other
    # loops are in neither: they end paths anyway.
    cuts: frozenset[int]
    merged: frozenset[int]
    # Exit edge -> how often control leaves the loop, all exit edges together; for an edge out of
    # several loops the least of these.
    exit_flow: dict[int, int]


def disconnect(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    counts: Sequence[int],
    executions: Sequence[int],
    percent: Fraction,
) -> Disconnection:
    """Choose the loops to disconnect, by an edge profile and what it says of blocks; `percent` is j
    of TPP(i, j), 0..100.
    """
    share, part = percent.numerator, 100 * percent.denominator

    def iterates(entries: Sequence[int]) -> bool:
        heads = {cfg.edges[edge].target for edge in entries}
        turns = share * sum([executions[head] for head in heads])
        return part * sum([counts[edge] for edge in entries]) < turns

    loops = loop_regions(cfg, dfs, iterates) if share else ()
    if not loops:
        return Disconnection((), s.NO_EDGES, s.NO_EDGES, {})
    source, target = cfg.ends
    truncated = {edge for loop in loops for edge in (*loop.entries, *loop.exits)} - dfs.back_edges
    outer = {e for e in truncated if source[e] == cfg.entry or target[e] == cfg.exit}
    cuts = truncated - outer
    single = {next(iter(loop.body)) for loop in loops if len(loop.body) == 1}
    turns = {edge for edge in dfs.self_loops if source[edge] in single}
    removed = (dfs.back_edges - dfs.self_loops) | cuts | turns
    sources, targets = {source[edge] for edge in removed}, {target[edge] for edge in removed}
    joined = {
        e
        for e in outer
        if (source[e] == cfg.entry and target[e] in targets)
        or (target[e] == cfg.exit and source[e] in sources)
    }
    return Disconnection(loops, frozenset(cuts), frozenset(joined | turns), _flows(loops, counts))


def _flows(loops: Iterable[LoopRegion], counts: Sequence[int]) -> dict[int, int]:
    flows: dict[int, int] = {}
    for loop in loops:
        flow = sum(counts[edge] for edge in loop.exits)
        for edge in loop.exits:
            flows[edge] = min(flow, flows.get(edge, flow))
    return flows


def loop_regions(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, chosen: Callable[[Sequence[int]], bool]
) -> tuple[LoopRegion, ...]:
    """Return the loops that are `chosen` by their entry edges: natural ones, then irreducible
    regions.
    """
    (source, target), reached, proper = cfg.ends, dfs.reached, s.proper_back_edges(cfg, dfs)
    regions: dict[frozenset[int], LoopRegion] = {}
    heads = s.loop_entries(cfg, dfs)
    into: dict[int, list[int]] = {head: [] for head in heads}
    # Other edges to the head of a natural loop come from outside, and no others do.
    for edge, head in enumerate(target) if heads else ():
        if head in into and edge not in proper and source[edge] in reached:
            into[head].append(edge)
    for head, back_edges in heads.items():
        if chosen(into[head]):
            loop = s.natural_loop(cfg, dfs, head, back_edges)
            regions[loop.body] = LoopRegion(loop.body, tuple(into[head]), loop.exits)
    # Irreducible regions are loops with several headers: the strongly connected component around a
    # back edge whose target does not dominate its source.
    inside = set[int]()
    for edge in sorted(dfs.back_edges - proper):
        if (head := target[edge]) not in inside:
            body = _component(cfg, head)
            inside |= body
            outside = reached - body
            entries = [e for e, to in enumerate(target) if to in body and source[e] in outside]
            if body not in regions and chosen(entries):
                regions[body] = LoopRegion(body, tuple(entries), s.exits_of(cfg, body))
    return tuple(regions.values())


def _component(cfg: s.ControlFlowGraph, vertex: int) -> frozenset[int]:
    """Return the strongly connected component of a vertex that is reached."""
    (source, target), onward, back = cfg.ends, cfg.out_edges, cfg.in_edges
    ahead = s.closure([vertex], lambda v: [target[edge] for edge in onward[v]])
    inside = s.closure([vertex], lambda v: ahead.intersection([source[e] for e in back[v]]))
    return frozenset(inside)


# -- Cold edges (TPP 4.1)
#
# Cold edges and what is cold because of them (TPP 4.1).
#
# Terms
# -----
# cold edge
#     One that executes less than i % as often as its source (the *local* criterion, 4.1.1), or
#     one that control never takes: "unexecuted paths need not be allocated a counter" (4.1).
# hot
#     On a path of the acyclic graph from ENTRY to EXIT without cold edges. What is not hot is cold
#     *transitively*. To the letter of 4.1.1 the path is one of the control-flow graph: then a loop
#     that control enters over cold edges only is cold, and so is what leads to EXIT over such edges
#     only (`literally_cold`).
# cold back edge
#     A removed edge all of whose siblings at a vertex are cold gets no dummy edge there (4.1.2):
#     paths cannot end with it, or none starts behind it. A dummy edge with one hot removed edge
#     stands for the cold ones too (figure 6b, footnote 2).


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


# -- The routine, and what the profile says of it


class Rules(NamedTuple):
    """What the paper leaves open, and what is switched off: see `plan_tpp`."""

    literal_cold: bool = False
    obvious_first: bool = False
    count_obvious: bool = False
    cold_counter: bool = True
    branching: bool = False


class GuidedRoutine(NamedTuple):
    """What all drafts of a routine's plan are made from."""

    cfg: s.ControlFlowGraph
    weights: tuple[float, ...]
    profile: tuple[int, ...]  # Edge counts
    disconnection: Disconnection
    early: frozenset[int]  # Blocks where activations end early
    table: s.CounterTable | None
    rules: Rules


def prepare(
    cfg: s.ControlFlowGraph,
    edge_counts: Sequence[int],
    cold: float,
    loop: float,
    weights: Sequence[float] | None,
    table: s.CounterTable | None,
    rules: Rules,
) -> tuple[GuidedRoutine, Callable[[], frozenset[int]]]:
    """Disconnect a routine's loops (4.2.1); returns also what finds its edges that are cold by the
    local criterion (4.1.1). Parameters as of `plan_tpp`.
    """
    dfs = s.depth_first(cfg)
    profile = s.measured(cfg, edge_counts)
    executions = s.block_counts(cfg, profile)
    cuts = disconnect(cfg, dfs, profile, executions, exactly(loop))
    left = [0] * cfg.vertex_count
    for source, times in zip(cfg.ends[0], profile, strict=True):
        left[source] += times
    # Activations end early in blocks that the profile enters more often than it leaves.
    early = frozenset([block for block, count in enumerate(executions) if count > left[block]])
    given = s.given_weights(cfg, weights)
    return GuidedRoutine(cfg, given, profile, cuts, early, table, rules), partial(
        cold_edges, cfg, dfs, profile, executions, exactly(cold), cuts.exit_flow
    )


def exactly(percent: float) -> Fraction:
    """The number that the user wrote, not the float next to it."""
    return Fraction(Decimal(str(percent)))


# -- The reduced graph


class ReducedGraph(NamedTuple):
    """What is left of the acyclic graph."""

    cold: frozenset[int]  # Edges that are cold by themselves
    hot: s.Dag  # Without cold edges
    kept: s.Dag  # The part of that which is instrumented
    obvious: s.ObviousPaths  # Those of the former, or of the whole graph (4.3)


def reduce_graph(
    cfg: s.ControlFlowGraph,
    disconnection: Disconnection,
    early: frozenset[int],
    rules: Rules,
    cold: frozenset[int],
    path_limit: int | None = None,
    total_limit: int | None = None,
) -> ReducedGraph:
    """Leave out the edges `cold`, what is cold because of them, and what only obvious paths need,
    where activations end early in the blocks `early`; limits as of `find_cut_edges`.
    """
    dfs, cuts, merged = s.depth_first(cfg), disconnection.cuts, disconnection.merged
    whole = s.make_dag(cfg, dfs, cuts, merged)
    hot = remove_cold(whole, cold, rules.literal_cold)
    if more := s.find_cut_edges(hot, path_limit, total_limit):
        whole = s.make_dag(cfg, dfs, cuts.union(more), merged)
        hot = remove_cold(whole, cold, rules.literal_cold)
    obvious = s.find_obvious(whole if rules.obvious_first else hot, early)
    if rules.count_obvious:
        everything = frozenset(range(len(obvious.dag.columns.source)))
        ends = frozenset(obvious.dag.in_edges[cfg.exit])
        obvious = replace(obvious, kept=everything, points=ends)
    if not rules.obvious_first or hot is whole:
        return ReducedGraph(cold, hot, s.thin(hot, obvious.kept), obvious)
    # What only obvious paths take is not cold, whatever the profile says of its edges.
    warm = {edge[1:] for edge in hot.edges}
    cool = {
        edge.id for edge in whole.edges if edge[1:] not in warm and edge.source != obvious.split
    }
    kept = through(whole, obvious.kept - cool)
    hot = s.thin(whole, {edge.id for edge in whole.edges} - (cool & obvious.kept))
    return ReducedGraph(cold, hot, kept, obvious)
