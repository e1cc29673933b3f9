"""Attribution of definite flow (TPP 5), on profiles small enough to count by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathEnd, PathRecord, PathStart
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.profiles.measures import (
    Attribution,
    CountedPath,
    attribute,
    compare_paths,
    pieces_of,
)
from simprof.profiler.schemes.pp import plan_pp
from simprof.profiler.schemes.tpp.planner import plan_tpp
from tests.oracles.brute import random_graph, random_walk
from tests.oracles.tpp import ending, tally
from tests.support.figures import by_edge, edge, named, walk

CHAIN = named("A>B A>C B>D C>D D>E", "A", "E")


def attribution(
    cfg: ControlFlowGraph,
    exact: Iterable[CountedPath],
    claimed: Iterable[CountedPath],
    split: Collection[int],
    counts: Sequence[int] | None,
) -> Attribution:
    return compare_paths(cfg, exact, claimed, split, counts).attribution


def record(cfg: ControlFlowGraph, blocks: str) -> PathRecord:
    edges = tuple(walk(cfg, blocks))
    inside = tuple(cfg.edges[step].target for step in edges[:-1])
    return PathRecord(inside, edges, PathStart.ENTRY, PathEnd.EXIT)


def test_equal_profiles_attribute_everything() -> None:
    profile = [(record(CHAIN, "ABDE"), 7), (record(CHAIN, "ACDE"), 3)]
    found = attribution(CHAIN, profile, profile, (), None)
    assert found == Attribution(40, 0, 0)
    assert found.attributed == 1


def test_paths_are_weighted_by_their_blocks() -> None:
    exact = [(record(CHAIN, "ABDE"), 7), (record(CHAIN, "ACDE"), 3)]
    found = attribution(CHAIN, exact, [(record(CHAIN, "ABDE"), 9)], (), None)
    assert found == Attribution(flow=40, overcounted=8, undercounted=12)
    assert (found.overcount, found.undercount) == (Fraction(1, 5), Fraction(3, 10))
    assert found.attributed == Fraction(1, 2)
    assert found.overlap == Fraction(28, 40)  # of 40 blocks 12 are elsewhere


def test_paths_are_split_where_either_profile_ends_them() -> None:
    """Footnote 5: what counts ABD and E apart agrees with what counts ABDE."""
    cut = edge(CHAIN, "D>E")
    whole = record(CHAIN, "ABDE")
    assert list(pieces_of(CHAIN, whole, {cut})) == [
        (whole.blocks[:3], whole.edges[:3]),
        (whole.blocks[3:], whole.edges[4:]),
    ]
    tail = PathRecord(whole.blocks[3:], whole.edges[4:], PathStart.CUT, PathEnd.EXIT)
    head = PathRecord(whole.blocks[:3], whole.edges[:3], PathStart.ENTRY, PathEnd.CUT)
    parts = [(head, 7), (tail, 7)]
    assert attribution(CHAIN, [(whole, 7)], parts, {cut}, None).attributed == 1
    assert attribution(CHAIN, parts, [(whole, 7)], {cut}, None).attributed == 1
    # The split loses no executions: one E too many is one block of 28.
    parts = [(head, 7), (tail, 8)]
    assert attribution(CHAIN, [(whole, 7)], parts, {cut}, None) == Attribution(28, 1, 0)


def test_truncated_entry_and_exit_edges_are_in_no_piece() -> None:
    path = record(CHAIN, "ACDE")
    outer = {edge(CHAIN, "ENTRY>A"), edge(CHAIN, "E>EXIT")}
    assert list(pieces_of(CHAIN, path, outer)) == [(path.blocks, path.edges[1:-1])]


def test_self_loops_that_end_paths_take_their_counts_from_the_edges() -> None:
    """TPP figure 7 with a loop of one block: pp counts 100 times ABC, and the self-loop apart."""
    cfg = named("A>B B>B B>C", "A", "C")
    entries = ("ENTRY>A", "A>B", "B>C", "C>EXIT")
    profile = by_edge(cfg, {"B>B": 100_000} | dict.fromkeys(entries, 100))
    counts = list(map(int, profile))
    turn = edge(cfg, "B>B")
    steps = walk(cfg, "ABC")
    walks = [ExecutedWalk((*steps[:2], *([turn] * 1000), *steps[2:]), 100)]
    pp, tpp = plan_pp(cfg), plan_tpp(cfg, counts, cold=5, loop=15)
    exact = pp.read(execute(cfg, pp.plan, walks))
    found = attribute(pp, exact, tpp, tpp.read(execute(cfg, tpp.plan, walks))).attribution
    assert found == Attribution(100_300, 0, 0)
    with pytest.raises(ValueError, match="self-loops"):
        attribution(cfg, [], [], {turn}, None)


def test_programs_are_the_sum_of_their_routines() -> None:
    total = sum([Attribution(10, 1, 2), Attribution(30, 0, 3)], Attribution())
    assert total == Attribution(40, 1, 5)
    assert total.attributed == 1 - Fraction(6, 40)


def test_nothing_executed_is_attributed_wholly() -> None:
    assert Attribution().attributed == 1


def test_cold_paths_are_undercounted_and_obvious_ones_overcounted() -> None:
    cfg = named("A>B A>C B>D C>D D>E D>F E>X F>X", "A", "X")
    walks = [
        ExecutedWalk(tuple(walk(cfg, blocks)), count)
        for blocks, count in {"ABDEX": 57, "ABDFX": 40, "ACDEX": 3}.items()
    ]
    counts = Counter[int]()
    for each in walks:
        counts.update(dict.fromkeys(each.edges, each.count))
    profile = [counts[e.id] for e in cfg.edges]
    pp = plan_pp(cfg)
    tpp = plan_tpp(cfg, profile, cold=5, loop=0, cold_always=True)
    exact = pp.read(execute(cfg, pp.plan, walks))
    found = attribute(pp, exact, tpp, tpp.read(execute(cfg, tpp.plan, walks))).attribution
    assert found == Attribution(flow=500, overcounted=15, undercounted=15)
    assert found.attributed == Fraction(94, 100)


@pytest.mark.seeds(range(60))
def test_against_walks_that_are_split(seed: int) -> None:
    """The flow is that of the walks, split; without cold edges nothing is misattributed."""
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [walk for _ in range(25) if (walk := random_walk(rng, cfg, 300))]
    walks = [walk for walk in walks if cfg.edges[walk[-1]].target == cfg.exit]
    executed = [ExecutedWalk(tuple(walk)) for walk in walks]
    crossings = Counter(step for walk in walks for step in walk)
    profile = [crossings[each.id] for each in cfg.edges]
    cold = rng.choice([0, 0, 10, 40])
    pp = plan_pp(cfg, path_limit=rng.choice([3, None]))
    loop = rng.choice([0, 30, 100])
    limit = rng.choice([3, None])
    tpp = plan_tpp(cfg, profile, cold=cold, path_limit=limit, loop=loop, cold_always=True)
    exact = pp.read(execute(cfg, pp.plan, executed))
    reading = tpp.read(execute(cfg, tpp.plan, executed))
    found = attribute(pp, exact, tpp, reading).attribution
    split = {*pp.cut_edges, *tpp.split_edges}
    turns = {e for e in split if cfg.edges[e].source == cfg.edges[e].target}
    true, _ = tally(cfg, walks, ending(cfg, split, turns))
    assert found.flow == sum(len(blocks) * count for (blocks, _), count in true.items())
    if not tpp.cold:
        assert found.attributed == 1
    counted = sum(len(tpp.decode(p).blocks) * n for p, n in reading.paths.items())
    assert found.flow + found.overcounted - found.undercounted == counted


@pytest.mark.parametrize(
    ("flow", "over", "under", "attributed", "overlap"),
    [
        (100, 0, 0, Fraction(1), Fraction(1)),
        (100, 10, 10, Fraction(80, 100), Fraction(90, 100)),  # misplaced: once, and not twice
        (100, 60, 60, Fraction(-20, 100), Fraction(40, 100)),
        (100, 100, 100, Fraction(-1), Fraction(0)),  # nothing is right
        (100, 100, 0, Fraction(0), Fraction(1, 2)),  # twice too much everywhere
        (100, 900, 0, Fraction(-8), Fraction(1, 10)),
        (100, 0, 90, Fraction(1, 10), Fraction(1, 10)),  # a tenth of everything
        (100, 0, 100, Fraction(0), Fraction(0)),
        (0, 0, 0, Fraction(1), Fraction(1)),
        (0, 7, 0, Fraction(1), Fraction(0)),
    ],
)
def test_attribution_can_be_negative_and_overlap_cannot(
    flow: int, over: int, under: int, attributed: Fraction, overlap: Fraction
) -> None:
    found = Attribution(flow, over, under)
    assert (found.attributed, found.overlap) == (attributed, overlap)
    assert found.as_json() == {
        "definite": float(attributed), "attributed": float(attributed), "overlap": float(overlap),
        "overcount": float(found.overcount), "undercount": float(found.undercount),
    }  # fmt: skip
