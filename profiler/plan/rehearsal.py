"""A plan tried out on short activations, without a program: what it counts must be read back.

A run shows only that a scheme counts rightly what the program executed. Here every edge is
crossed that can be, and what the counters then hold is read as after a run.

Steps: `activations` chooses ways through a routine; `rehearse` executes a plan on them, one action
after the other (`interpret`), reads the counters, and compares.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.graphs.loops import depth_first, live_edges
from simprof.profiler.plan import interpret
from simprof.profiler.plan.decoders import Plan
from simprof.profiler.plan.interpret import ExecutedWalk

MOST_WALKS = 32  # Activations of a routine that run to its end; as many halves of them end early


def activations(cfg: ControlFlowGraph) -> tuple[ExecutedWalk, ...]:
    """Choose activations of a routine that cross each of its edges, if `MOST_WALKS` can; each
    happens another number of times, and behind each stands its first half, which ends early.
    """
    open_edges = set(live_edges(cfg, depth_first(cfg)))
    home = _ways_to_exit(cfg)
    walks: list[ExecutedWalk] = []
    while open_edges and len(walks) < 2 * MOST_WALKS:
        before = len(open_edges)
        walk = _walk(cfg, open_edges, home)
        if len(open_edges) == before:
            break
        for edges in (walk, walk[: (len(walk) + 1) // 2]):
            walks.append(ExecutedWalk(edges, 1 + len(walks)))
    return tuple(walks)


def _ways_to_exit(cfg: ControlFlowGraph) -> dict[int, int]:
    """By vertex that EXIT can be reached from: the first edge of a shortest way there."""
    ways: dict[int, int] = {}
    seen = {cfg.exit}
    work = [cfg.exit]
    for vertex in work:  # grows meanwhile
        for edge in cfg.in_edges[vertex]:
            source = cfg.edges[edge].source
            if source not in seen:
                seen.add(source)
                ways[source] = edge
                work.append(source)
    return ways


def _walk(cfg: ControlFlowGraph, open_edges: set[int], home: dict[int, int]) -> tuple[int, ...]:
    """Walk from ENTRY over `open_edges` as long as some can be reached, taking those crossed out of
    them, then to EXIT, if it can be reached.
    """
    walk: list[int] = []
    vertex = cfg.entry
    while leg := _way_to_open_edge(cfg, vertex, open_edges):
        walk += leg
        open_edges.difference_update(leg)
        vertex = cfg.edges[leg[-1]].target
    while vertex in home:
        walk.append(home[vertex])
        vertex = cfg.edges[home[vertex]].target
    return tuple(walk)


def _way_to_open_edge(cfg: ControlFlowGraph, start: int, open_edges: set[int]) -> list[int]:
    """A shortest way from `start` that ends with one of `open_edges`; empty if there is none."""
    came: dict[int, int] = {}
    seen = {start}
    work = [start]
    for vertex in work:  # grows meanwhile
        for edge in cfg.out_edges[vertex]:
            if edge in open_edges:
                way = [edge]
                while vertex != start:
                    way.append(came[vertex])
                    vertex = cfg.edges[came[vertex]].source
                return way[::-1]
            target = cfg.edges[edge].target
            if target not in seen:
                seen.add(target)
                came[target] = edge
                work.append(target)
    return []


def rehearse(
    plan: Plan,
    decoder: Plan | None,
    walks: Sequence[ExecutedWalk],
    *,
    estimates: bool = False,
) -> None:
    """Execute a plan on activations of its routine and compare what its counters tell with what
    happened; AssertionError naming the first edge, block or path that they tell wrongly. `decoder`
    is the same plan, if it counts paths. `estimates`: Whether edges and blocks are estimates.
    """
    cfg = plan.cfg
    crossings = [0] * len(cfg.edges)
    for walk in walks:
        for edge in walk.edges:
            crossings[edge] += walk.count
        if decoder is not None and not plan.plan.overcounts:
            _check_paths(decoder, walk)
    reading = plan.read(interpret.execute(cfg, plan.plan, walks))
    if estimates:
        return
    for edge, count in enumerate(reading.edges or ()):
        ends = cfg.edges[edge]
        assert count in (None, crossings[edge]), (
            f"in a rehearsal edge {cfg.name_of(ends.source)} -> {cfg.name_of(ends.target)} counts "
            f"{count} for {crossings[edge]} crossings"
        )
    executed = block_counts(cfg, crossings)
    for block, told in enumerate(reading.blocks or ()):
        assert told in (None, executed[block]), (
            f"in a rehearsal block {cfg.name_of(block)} counts {told} for {executed[block]} "
            "executions"
        )


def _check_paths(decoder: Plan, walk: ExecutedWalk) -> None:
    """Check that each path is counted no more often than it is a part of the activation."""
    # Self-loops are no part of most schemes' paths: they are left out of the activation, but for
    # paths that cross one, and paths of one block, which may lie between two crossings.
    cfg = decoder.cfg
    ends = [cfg.edges[edge] for edge in walk.edges]
    every = [edge.target for edge in ends]
    visits = Counter(every)
    blocks = {True: every, False: [edge.target for edge in ends if edge.source != edge.target]}
    places = {crosses: _places(each) for crosses, each in blocks.items()}
    # A window of branches ends at each of them: that which ends at EXIT has the blocks of the one
    # before.
    counted: Counter[tuple[bool, bool, tuple[int, ...], tuple[int, ...]]] = Counter()
    for counter, count in interpret.execute(cfg, decoder.plan, [walk]).finished_paths.items():
        if (path_id := decoder.number_of(counter)) is not None:
            record = decoder.decode(path_id)
            turns = (cfg.edges[edge].source == cfg.edges[edge].target for edge in record.edges)
            leaves = any(cfg.edges[edge].target == cfg.exit for edge in record.edges)
            counted[any(turns), leaves, record.blocks, record.collapsed] += count
    for (crosses, _, path, collapsed), count in counted.items():
        passed, starts = blocks[crosses], places[crosses]
        # What is executed in a collapsed loop is between its head and the next block.
        cuts = (0, *(at + 1 for at in collapsed if at + 1 < len(path)), len(path))
        pieces = [path[first:end] for first, end in pairwise(cuts)]
        most = walk.count * min(
            visits[piece[0]]
            if len(piece) == 1
            else sum(tuple(passed[at : at + len(piece)]) == piece for at in starts[piece[0]])
            for piece in pieces
        )
        assert count <= most, (
            f"in a rehearsal the path {' '.join(str(cfg.name_of(block)) for block in path)} "
            f"counts {count} for {most} executions at most"
        )


def _places(blocks: Sequence[int]) -> defaultdict[int, list[int]]:
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, block in enumerate(blocks):
        places[block].append(place)
    return places
