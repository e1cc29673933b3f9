"""Optima of BL94 3: the paper's figures, and all subsets of the edges of small graphs."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.loops import depth_first, live_edges
from simprof.profiler.graphs.optima import LARGEST, Optima, optima
from simprof.profiler.graphs.spanning import heuristic, maximum_spanning_tree
from simprof.profiler.schemes.qpt.options import VertexPlacement
from simprof.profiler.schemes.qpt.planner import VertexPlan, plan_qpt
from tests.oracles.brute import edge_counts, graph, random_graph, random_walk, reachable
from tests.support.figures import bl94_5, by_edge, named

# -- Oracles


def simple_cycles(ends: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Undirected simple cycles of a multigraph: (edge, +1 along or -1 against) in order."""
    found: dict[frozenset[int], list[tuple[int, int]]] = {}

    def onward(first: int, vertex: int, way: list[tuple[int, int]], seen: set[int]) -> None:
        for edge, (source, target) in enumerate(ends):
            for here, there, sign in ((source, target, 1), (target, source, -1)):
                if here != vertex or any(edge == used for used, _ in way):
                    continue
                if there == first:
                    found.setdefault(frozenset([*(e for e, _ in way), edge]), [*way, (edge, sign)])
                elif there not in seen:
                    onward(first, there, [*way, (edge, sign)], {*seen, there})

    for first in {vertex for pair in ends for vertex in pair}:
        onward(first, first, [], {first})
    return list(found.values())


def has_pipe(cycle: Sequence[tuple[int, int]]) -> bool:
    """Whether two edges that follow each other have the same direction (BL94 section 2)."""
    signs = [sign for _, sign in cycle]
    return any(one == two for one, two in zip(signs, [*signs[1:], signs[0]], strict=True))


def least(
    candidates: Sequence[int], weights: Sequence[float], solves: Callable[[set[int]], bool]
) -> float:
    """The least cost of all subsets that solve a problem."""
    subsets = (set(s) for n in range(len(candidates) + 1) for s in combinations(candidates, n))
    costs = sorted(((sum(weights[e] for e in s), s) for s in subsets), key=lambda pair: pair[0])
    return next(cost for cost, chosen in costs if solves(chosen))


def by_definition(cfg: ControlFlowGraph, weights: Sequence[float]) -> Optima:
    """All optima by the paper's characterisations, over all subsets of edges."""
    live = sorted(live_edges(cfg, depth_first(cfg)))
    pairs = [(cfg.edges[e].source, cfg.edges[e].target) for e in live]
    root = len(live)  # EXIT -> ENTRY, which no counter is on
    cycles = simple_cycles([*pairs, (cfg.exit, cfg.entry)])
    places = [{live[e] for e, _ in cycle if e != root} for cycle in cycles]
    piped = [edges for edges, cycle in zip(places, cycles, strict=True) if has_pipe(cycle)]
    inner = [e for e in live if cfg.edges[e].source != cfg.entry]
    plan = plan_qpt(cfg, placement=VertexPlacement.VERTEX_OPTIMAL, weights=weights)
    assert isinstance(plan, VertexPlan)
    entering = [sum(weights[e] for e in cfg.in_edges[block]) for block in plan.counted]
    return Optima(
        eprof_ecnt=least(live, weights, lambda cnt: all(cnt & cycle for cycle in places)),
        vprof_vcnt=sum(entering),
        vprof_ecnt=least(live, weights, lambda cnt: all(cnt & cycle for cycle in piped)),
        trace_ewit=least(inner, weights, lambda wit: regenerates(cfg, inner, wit)),
        trace_blocking=least(inner, weights, lambda wit: regenerates(cfg, inner, wit, calls=True)),
        in_g_star=all(map(has_pipe, cycles)),
    )


EOF = -1


def regenerates(
    cfg: ControlFlowGraph, live: Collection[int], wit: Collection[int], *, calls: bool = False
) -> bool:
    """Whether no two edges of a predicate have a witness in common (BL94 4.1); with `calls`, and
    calls and EXIT come to no predicate's witnesses either (BL94 4.2).
    """
    stops = {cfg.exit}
    if calls:
        stops |= {edge.source for edge in cfg.edges if edge.kind is EdgeKind.CALL_RETURN}
    for vertex in {cfg.edges[edge].source for edge in live}:
        out = [edge for edge in cfg.out_edges[vertex] if edge in live]
        if len(out) < 2:
            continue
        seen: set[int] = set()
        for first in out:
            own, work, been = set[int](), [first], set[int]()
            while work:
                edge = work.pop()
                been.add(edge)
                target = cfg.edges[edge].target
                if edge in wit:
                    own.add(edge)
                    continue
                if calls and target in stops:
                    return False
                if target == cfg.exit:
                    own.add(EOF)
                work += [e for e in cfg.out_edges[target] if e not in been]
            if own & seen:
                return False
            seen |= own
    return True


def flow_of(rng: random.Random, cfg: ControlFlowGraph) -> list[float]:
    """A weighting: how often some walks to EXIT cross each edge."""
    walks = [random_walk(rng, cfg) for _ in range(6)]
    whole = [steps for steps in walks if cfg.edges[steps[-1]].target == cfg.exit]
    return [float(count) for count in edge_counts(cfg, whole)]


def small_graph(rng: random.Random) -> ControlFlowGraph:
    while True:
        cfg = random_graph(rng, most=5)
        if len(cfg.edges) <= 10 and all(cfg.exit in ahead(cfg, v) for v in reachable(cfg)):
            return cfg


def ahead(cfg: ControlFlowGraph, first: int) -> set[int]:
    found, work = {first}, [first]
    while work:
        more = set(cfg.targets(work.pop())) - found
        found |= more
        work.extend(more)
    return found


def with_calls(rng: random.Random, cfg: ControlFlowGraph) -> ControlFlowGraph:
    calls = {
        b.id for b in cfg.blocks if len(cfg.out_edges[b.id]) == 1 and rng.random() < 0.4
        and cfg.exit not in cfg.targets(b.id)
    }  # fmt: skip
    edges = tuple(
        e._replace(kind=EdgeKind.CALL_RETURN) if e.source in calls else e for e in cfg.edges
    )
    return ControlFlowGraph(cfg.name, 0, 0, cfg.blocks, edges)


# -- The figures


def test_figure_4_and_the_order_of_figure_3a() -> None:
    """124, 62 and 59: strictly less; and the graph, with a break, is not in G* (3.3.2)."""
    cfg = named("a>b a>f b>c b>e c>d c>e d>e e>b e>f f>g f>h g>X h>X", "a", "X", "BL94 figure 4")
    weights = by_edge(
        cfg,
        {
            "ENTRY>a": 10, "X>EXIT": 10, "a>b": 3, "a>f": 7, "b>c": 45, "b>e": 4, "c>d": 20,
            "c>e": 25, "d>e": 20, "e>b": 46, "e>f": 3, "f>g": 4, "f>h": 6, "g>X": 4, "h>X": 6,
        },
    )  # fmt: skip
    found = optima(cfg, weights)
    assert found is not None
    assert (found.vprof_vcnt, found.eprof_ecnt, found.vprof_ecnt) == (124, 62, 59)
    assert found.in_g_star is False


def test_figure_1_is_in_g_star() -> None:
    """BL94 3.3.2 names it: a loop with several exits, whose optima agree."""
    cfg = bl94_5()
    found = optima(cfg, heuristic(cfg, depth_first(cfg)))
    assert found is not None
    assert found.in_g_star is True
    assert found.eprof_ecnt == found.vprof_ecnt


# -- Small graphs


def check(cfg: ControlFlowGraph, weights: Sequence[float]) -> None:
    found = optima(cfg, weights)
    assert found == by_definition(cfg, weights)
    assert found is not None
    # Figure 3 (a); 4.1: what solves a profiling problem solves the tracing problem. Of two edges
    # with the same ends blocks' counts need not tell which was taken, and a trace must.
    assert found.vprof_ecnt is not None
    assert found.trace_ewit is not None
    assert found.trace_blocking is not None
    assert found.vprof_ecnt <= min(found.eprof_ecnt, found.vprof_vcnt)
    assert found.trace_ewit <= min(found.eprof_ecnt, found.trace_blocking)
    if len({(edge.source, edge.target) for edge in cfg.edges}) == len(cfg.edges):
        assert found.trace_ewit <= found.vprof_ecnt
    if found.in_g_star:  # 3.3.2, and 4.1, of the graph without EXIT -> ENTRY
        assert found.vprof_ecnt == found.eprof_ecnt
        ends = [(edge.source, edge.target) for edge in cfg.edges]
        outside = [e.id for e in cfg.edges if e.source in {cfg.entry} | dead(cfg)]
        forest = maximum_spanning_tree(cfg.vertex_count, ends, weights, None, outside)
        assert found.trace_ewit == sum(weights[chord] for chord in forest.chords)


def dead(cfg: ControlFlowGraph) -> set[int]:
    return set(range(cfg.vertex_count)) - reachable(cfg)


@pytest.mark.seeds([*range(40), *range(1000, 1400)], few=40)
def test_small_graphs(seed: int) -> None:
    rng = random.Random(seed)
    cfg = with_calls(rng, small_graph(rng))
    check(cfg, flow_of(rng, cfg))


def while_and_if(rng: random.Random, depth: int) -> tuple[list[tuple[int, int]], int]:
    """Edges and number of blocks of a nest of `while`, `if` and sequences; block 0 to the last."""
    edges: list[tuple[int, int]] = []
    blocks = 0

    def block() -> int:
        nonlocal blocks
        blocks += 1
        return blocks - 1

    def part(depth: int, first: int) -> int:
        kind = rng.choice(("block", "while", "if", "sequence")) if depth else "block"
        if kind == "sequence":
            return part(depth - 1, part(depth - 1, first))
        if kind == "block":
            return first
        inner = block()
        end = part(depth - 1, inner)
        if kind == "while":
            edges.extend([(first, inner), (end, first)])
            last = block()
            edges.append((first, last))
            return last
        other = block()
        other_end = part(depth - 1, other)
        last = block()
        edges.extend([(first, inner), (first, other), (end, last), (other_end, last)])
        return last

    part(depth, block())
    return edges, blocks


@pytest.mark.seeds(range(40))
def test_structured_graphs_are_in_g_star(seed: int) -> None:
    """BL94 3.3.2: of while loops, conditionals and sequences (figure 3 (b))."""
    rng = random.Random(seed)
    edges, blocks = while_and_if(rng, 3)
    last = max(set(range(blocks)) - {source for source, _ in edges}, default=0)
    cfg = graph(blocks, edges, exits=(last,))
    found = optima(cfg, flow_of(rng, cfg))
    if len(cfg.edges) > LARGEST:
        assert found is None
    elif found is not None:
        assert found.in_g_star is True
        assert found.vprof_ecnt == found.eprof_ecnt <= found.vprof_vcnt


def test_no_weighting_no_optima() -> None:
    cfg = bl94_5()
    assert optima(cfg, [-1.0, *[1.0] * (len(cfg.edges) - 1)]) is None
    chain: Iterable[tuple[int, int]] = ((n, n + 1) for n in range(LARGEST))
    long = graph(LARGEST + 1, list(chain), exits=(LARGEST,))
    assert optima(long, [1.0] * len(long.edges)) is None
