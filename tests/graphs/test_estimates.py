"""Weights with options, Wall's and Forman's: BL94's figures, and exact sums over small graphs."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first, is_reducible
from simprof.profiler.graphs.spanning import (
    estimate,
    heuristic,
    maximum_spanning_tree,
    uniform,
    wall,
)
from simprof.profiler.request.weights import Guess, Weights
from tests.oracles.brute import back_edges, graph, random_graph, reachable, structural_weights
from tests.support.figures import bl94_5, by_edge, named

# -- Oracles: what a loop is, by walks; shares and executions as fractions


def walk_to(cfg: ControlFlowGraph, first: int, avoiding: int | None = None) -> set[int]:
    """What walks from a vertex reach that do not come through another."""
    seen, work = {first}, [first]
    while work:
        vertex = work.pop()
        for each in cfg.edges:
            if each.source == vertex and each.target not in {*seen, avoiding}:
                seen.add(each.target)
                work.append(each.target)
    return seen


def loops(cfg: ControlFlowGraph) -> dict[int, set[int]]:
    """Natural loops by head, of back edges whose target every walk to their source meets."""
    found: dict[int, set[int]] = {}
    for edge in back_edges(cfg):
        _, tail, head, _ = cfg.edges[edge]
        if tail != head and (head == cfg.entry or tail in walk_to(cfg, cfg.entry, head)):
            continue
        body = {v for v in reachable(cfg) if v != head and tail in walk_to(cfg, v, head)}
        found.setdefault(head, {head}).update(body)
    return found


def shares_of(cfg: ControlFlowGraph, guess: Guess, vertex: int, edges: list[int]) -> list[Fraction]:
    """The shares of some edges of a vertex, as the options' help says."""
    bodies = loops(cfg)

    def favoured(edge: int) -> bool:
        at, been = cfg.edges[edge].target, set[int]()
        while at not in bodies and at not in been and len(cfg.out_edges[at]) == 1:
            been.add(at)
            at = next(iter(cfg.targets(at)))
        return at in bodies and vertex not in bodies[at]

    liked = [favoured(edge) for edge in edges]
    part = guess.loops
    if part is None or all(liked) or not any(liked):
        liked, part = [edge == edges[0] for edge in edges], guess.fall_through
    if part is None or all(liked):
        return [Fraction(1, len(edges))] * len(edges)
    number, exact = sum(liked), Fraction(part)
    return [exact / number if f else (1 - exact) / (len(edges) - number) for f in liked]


GUESSES = (
    "multiplier=20", "fall-through=0.75", "loops=0.875", "multiplier=3+fall-through=0.25+loops=0.5",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.seeds(range(60))
@pytest.mark.parametrize("options", GUESSES)
def test_the_heuristic_with_options(options: str, seed: int) -> None:
    """BL94 5 and 6.4: the rules of section 5 with another multiplier and uneven branches."""
    cfg = random_graph(random.Random(seed))
    if not is_reducible(cfg, depth_first(cfg)):
        return
    wanted = Weights(f"heuristic+{options}")
    guess = wanted.guess
    exact = structural_weights(
        cfg, Fraction(guess.multiplier), lambda v, edges: shares_of(cfg, guess, v, edges)
    )
    assert estimate(cfg, wanted) == pytest.approx([float(weight) for weight in exact])


@pytest.mark.long
def test_options_on_the_papers_example() -> None:
    """The loop of BL94 figure 1 iterates as often as the multiplier says."""
    cfg = bl94_5()
    plain = heuristic(cfg, depth_first(cfg))
    assert estimate(cfg, Weights.HEURISTIC) == plain
    assert estimate(cfg, Weights("heuristic+multiplier=10")) == plain
    (back,) = depth_first(cfg).back_edges
    head = cfg.edges[back].target
    for multiplier in (10, 40):
        weights = estimate(cfg, Weights(f"heuristic+multiplier={multiplier}"))
        assert sum(weights[edge] for edge in cfg.out_edges[head]) == pytest.approx(multiplier)


def test_edges_to_loops_are_favoured() -> None:
    """BL94 6.4: B, which leads to the loop of L, is likelier than C."""
    cfg = named("A>C A>B B>L L>M M>L L>D C>D", "A", "D")
    weights = dict(zip(cfg.edges, estimate(cfg, Weights("heuristic+loops=0.9")), strict=True))
    names = cfg.names()
    by_ends = {(names[e.source].start, names[e.target].start): w for e, w in weights.items()}
    assert by_ends["A", "B"] == pytest.approx(0.9)
    assert by_ends["A", "C"] == pytest.approx(0.1)


# -- Wall's


def test_walls_weights_of_figure_17_are_all_equal() -> None:
    """BL94 7.1.4: blocks in equally many loops weigh the same, so its placement is arbitrary."""
    cfg = named("A>B A>C B>D B>E D>F E>F F>G C>G G>H G>I H>J I>J", "A", "J")
    dfs = depth_first(cfg)
    assert estimate(cfg, Weights.WALL) == uniform(cfg, dfs)
    flow = heuristic(cfg, dfs)
    ends = [(each.source, each.target) for each in cfg.edges]
    root = (cfg.exit, cfg.entry)
    cost = {}
    for name in (Weights.HEURISTIC, Weights.FORMAN, Weights.WALL):
        tree = maximum_spanning_tree(cfg.vertex_count, ends, estimate(cfg, name), root)
        cost[str(name)] = sum(flow[chord] for chord in tree.chords)
    assert cost["heuristic"] == cost["forman"] == 1.5
    assert cost["wall"] > 1.5


@pytest.mark.seeds(range(80))
def test_walls_weights_by_walks(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    bodies, live = loops(cfg).values(), reachable(cfg)
    depth = [sum(vertex in body for body in bodies) for vertex in range(cfg.vertex_count)]
    expected = [
        min(4.0 ** depth[edge.source], 4.0 ** depth[edge.target]) if edge.source in live else 0.0
        for edge in cfg.edges
    ]
    assert list(wall(cfg, depth_first(cfg), Guess(multiplier=4))) == expected


# -- Forman's


def expected_executions(cfg: ControlFlowGraph, share: dict[int, Fraction]) -> list[Fraction]:
    """Solve the flow equations of the live vertices by Gauss's elimination, in fractions."""
    live = sorted(reachable(cfg))
    place = {vertex: row for row, vertex in enumerate(live)}
    rows = [
        [Fraction(row == column) for column in range(len(live) + 1)] for row in range(len(live))
    ]
    for row in rows:
        row[-1] = Fraction(0)
    rows[place[cfg.entry]][-1] = Fraction(1)
    for edge, part in share.items():
        rows[place[cfg.edges[edge].target]][place[cfg.edges[edge].source]] -= part
    for column in range(len(live)):
        pivot = next(n for n in range(column, len(live)) if rows[n][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        top = rows[column] = [value / rows[column][column] for value in rows[column]]
        for n, row in enumerate(rows):
            if n != column and row[column]:
                rows[n] = [a - row[column] * b for a, b in zip(row, top, strict=True)]
    return [rows[place[v]][-1] if v in place else Fraction(0) for v in range(cfg.vertex_count)]


@pytest.mark.seeds(range(80))
@pytest.mark.parametrize("options", ["", "+fall-through=0.75", "+loops=0.875+fall-through=0.25"])
def test_formans_weights_solve_the_flow_equations(options: str, seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    live = reachable(cfg)
    wanted = Weights(f"forman{options}")
    share: dict[int, Fraction] = {}
    passed: dict[int, Fraction] = {}
    for vertex in sorted(live):
        edges = list(cfg.out_edges[vertex])
        parts = shares_of(cfg, wanted.guess, vertex, edges) if edges else []
        ends = cfg.exit in walk_to(cfg, vertex)
        share |= dict(zip(edges, parts, strict=True))
        passed |= {e: share[e] * (Fraction(1) if ends else Fraction(9, 10)) for e in edges}
    executions = expected_executions(cfg, passed)
    exact = [executions[edge.source] * share.get(edge.id, 0) for edge in cfg.edges]
    assert estimate(cfg, wanted) == pytest.approx([float(weight) for weight in exact])


@pytest.mark.seeds(range(40))
def test_formans_weights_satisfy_the_flow_law(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    if any(cfg.exit not in walk_to(cfg, vertex) for vertex in reachable(cfg)):
        return
    weights = estimate(cfg, Weights.FORMAN)
    for vertex in range(len(cfg.blocks)):
        inside = sum(weights[edge] for edge in cfg.in_edges[vertex])
        assert inside == pytest.approx(sum(weights[edge] for edge in cfg.out_edges[vertex]))


def test_a_loop_by_its_probability() -> None:
    """A block that is left with probability 1/4 is executed four times."""
    cfg = named("A>A A>B", "A", "B")
    weights = estimate(cfg, Weights("forman+fall-through=0.75"))
    assert weights == pytest.approx(by_edge(cfg, {"ENTRY>A": 1, "A>A": 3, "A>B": 1, "B>EXIT": 1}))


def test_loops_without_end_and_dead_code() -> None:
    cfg = graph(3, [(0, 0), (2, 1)], exits=(1,))
    # Each step is the last one with a probability of a tenth, the one from ENTRY, too.
    assert estimate(cfg, Weights.FORMAN) == pytest.approx((9.0, 0.0, 1.0, 0.0))
    assert estimate(cfg, Weights.WALL) == (10.0, 0.0, 1.0, 0.0)
