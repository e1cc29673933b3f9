"""How good a profile is: every measure against its plain definition, and what must always hold."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathEnd, PathRecord, PathStart
from simprof.profiler.profiles.edge_flow import EdgeFlow
from simprof.profiler.profiles.measures import (
    HOT,
    MEASURES,
    CountedPath,
    FlowComparison,
    PathFlow,
    Quality,
    Row,
    compare_paths,
    quality,
)
from simprof.profiler.schemes.pp import plan_pp
from tests.oracles import quality as plain
from tests.oracles.brute import Path, back_edges, random_graph, random_walk, split
from tests.support.figures import edge, named, walk

PathCounts = Counter[Path]


def executed(rng: random.Random, cfg: ControlFlowGraph, walks: int = 8) -> PathCounts:
    """Whole paths of random activations."""
    found: PathCounts = Counter()
    for _ in range(walks):
        found.update(path for path in split(cfg, random_walk(rng, cfg)) if not path.partial)
    return found


def disturbed(rng: random.Random, counts: PathCounts, others: PathCounts) -> PathCounts:
    """A profile that is wrong in several ways."""
    how = rng.choice(("same", "thinned", "lost", "wild"))
    claimed: PathCounts = Counter()
    for path, count in counts.items():
        choices = {
            "same": count, "thinned": count // 2, "lost": rng.choice((0, count)),
            "wild": rng.choice((0, 1, count, rng.randrange(9))),
        }  # fmt: skip
        claimed[path] = choices[how]
    if how == "wild":
        claimed.update(others)
    return +claimed


def records(counts: PathCounts) -> list[CountedPath]:
    return [
        (PathRecord(path.blocks, path.edges, PathStart.ENTRY, PathEnd.EXIT), count)
        for path, count in counts.items()
    ]


def weights(cfg: ControlFlowGraph, paths: set[Path], flow: PathFlow) -> dict[object, int]:
    ways_out = Counter(each.source for each in cfg.edges)
    if flow is PathFlow.UNIT:
        return dict.fromkeys(paths, 1)
    if flow is PathFlow.BLOCK:
        return {path: len(path.blocks) for path in paths}
    return {path: sum(ways_out[block] > 1 for block in path.blocks) for path in paths}


def is_float(found: float | None, expected: Fraction | None) -> bool:
    return found == (None if expected is None else float(expected))


@pytest.mark.long
@pytest.mark.seeds(range(400))
def test_measures_are_those_of_their_definitions(seed: int) -> None:
    rng = random.Random(seed)
    percent = rng.choice((HOT, 1.0, 10.0, 30.0))
    flow = rng.choice(list(PathFlow))
    estimate = rng.random() < 0.3
    comparisons: list[FlowComparison] = []
    routines: list[tuple[PathCounts, PathCounts]] = []
    true_flow: dict[object, int] = {}
    claimed_flow: dict[object, int] = {}
    crossed: list[Counter[object]] = [Counter(), Counter()]
    for routine in range(rng.randint(1, 3)):
        cfg = random_graph(rng)
        true = executed(rng, cfg)
        claimed = disturbed(rng, true, executed(rng, cfg, 2))
        comparisons.append(compare_paths(cfg, records(true), records(claimed), (), None))
        routines.append((true, claimed))
        weight = weights(cfg, {*true, *claimed}, flow)
        for total, counts in ((true_flow, true), (claimed_flow, claimed)):
            named_flow = plain.flow(counts, weight)  # type: ignore[arg-type]
            total.update({(routine, path): n for path, n in named_flow.items()})
        for side, counts in zip(crossed, (true, claimed), strict=True):
            for path, count in counts.items():
                side.update({(routine, each): count for each in path.edges})
    found = quality(comparisons, "pp", estimate=estimate, hot=percent, flow=flow)
    flat = [
        {(r, path): n for r, pair in enumerate(routines) for path, n in pair[side].items()}
        for side in (0, 1)
    ]
    executions, samples = (sum(side.values()) for side in flat)
    scale = Fraction(executions, samples) if estimate and samples else Fraction(1)
    assert is_float(found.accuracy, plain.accuracy(true_flow, claimed_flow, percent))
    assert is_float(found.coverage, plain.coverage(true_flow, claimed_flow, scale))
    assert is_float(found.hot_coverage, plain.hot_coverage(true_flow, claimed_flow, percent))
    assert is_float(found.overlap, plain.overlap(*flat))  # type: ignore[arg-type]
    assert is_float(found.routine_overlap, plain.routine_overlap(routines))  # type: ignore[arg-type]
    assert is_float(found.edge_overlap, plain.overlap(*crossed))
    assert found.hot_paths == len(plain.hot_paths(true_flow, percent))


@pytest.mark.seeds(range(60))
def test_a_profile_agrees_with_itself_and_with_a_part_of_itself(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    true = executed(rng, cfg)
    part = Counter({path: 7 * count for path, count in true.items()})
    for judged, estimate in ((true, False), (true, True), (part, True)):
        # the part is the judged one: the truth has executed seven times as much
        whole = part if estimate else true
        compared = compare_paths(cfg, records(whole), records(judged), (), None)
        found = quality([compared], "pp", estimate=estimate)
        values = {getattr(found, name) for name in MEASURES}
        assert values <= {1.0, None}, seed
        assert (found.overlap is None) == (not true)


@pytest.mark.seeds(range(300))
def test_paths_with_turns_of_self_loops_agree_with_paths_without(seed: int) -> None:
    """One profile ends paths at self-loops (`wpp`), the other counts turns apart (`pp`)."""
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [steps for _ in range(8) if (steps := random_walk(rng, cfg, 60))]
    walks = [steps for steps in walks if cfg.edges[steps[-1]].target == cfg.exit]
    loops = [each.id for each in cfg.edges if each.source == each.target]
    turning = rng.sample(loops, rng.randint(0, len(loops)))
    whole, ended = (
        Counter(path for steps in walks for path in split(cfg, steps, cut)) for cut in ((), turning)
    )
    crossed = Counter(step for steps in walks for step in steps)
    counts = [crossed[each.id] for each in cfg.edges]
    found = compare_paths(cfg, records(whole), records(ended), turning, counts)
    assert all(row.true == row.claimed for row in found.pieces)
    assert all(true == claimed for true, claimed in found.edges)
    assert found.attribution.flow == sum(len(path.blocks) * n for path, n in ended.items())


def test_nothing_was_executed_and_nothing_was_counted() -> None:
    assert quality([], "pp") == Quality("pp")
    nothing = quality([FlowComparison({Row(5, 0, 3, 1): 1}, {(5, 0): 3})], "pp")
    assert [getattr(nothing, name) for name in MEASURES] == [0.0] * len(MEASURES)
    sampled = quality([FlowComparison({Row(5, 0, 3, 1): 1})], "pp", estimate=True)
    assert (sampled.accuracy, sampled.coverage, sampled.overlap) == (0.0, 0.0, 0.0)


def test_places_of_equal_paths_are_shared() -> None:
    """One path is hot; three claim as much as it, and one of the four gets the place."""
    rows = {Row(90, 5, 2, 1): 1, Row(1, 5, 2, 1): 3, Row(0, 2, 2, 1): 4}
    found = quality([FlowComparison(rows)], "pp", hot=50)
    assert (found.hot_paths, found.accuracy, found.hot_coverage) == (1, 0.25, 1.0)


def test_the_worked_example() -> None:
    """The example of docs/PROFILES.md, by hand."""
    cfg = named("A>B A>C B>D C>D D>E D>F E>X F>X", "A", "X")

    def profile(counts: dict[str, int]) -> list[CountedPath]:
        found = []
        for blocks, count in counts.items():
            edges = tuple(walk(cfg, blocks))
            inside = tuple(cfg.edges[step].target for step in edges[:-1])
            found.append((PathRecord(inside, edges, PathStart.ENTRY, PathEnd.EXIT), count))
        return found

    true = profile({"ABDEX": 60, "ABDFX": 25, "ACDEX": 10, "ACDFX": 5})
    claimed = profile({"ABDEX": 70, "ABDFX": 15, "ACDFX": 15})
    compared = compare_paths(cfg, true, claimed, (), None)
    found = quality([compared], "pp", hot=9)
    assert found.hot_paths == 3
    # hot: 60, 25, 10; chosen: 70 and the two with 15, of which one is not hot
    assert found.accuracy == 85 / 95
    assert found.hot_coverage == 85 / 95
    assert (found.coverage, found.overlap, found.routine_overlap) == (0.8, 0.8, 0.8)
    # edges: ENTRY>A, A>B, A>C, B>D, C>D and so on, 6 crossings a path
    assert found.edge_overlap == 1.0
    assert float(compared.attribution.attributed) == 0.6


# -- edge profiles --------------------------------------------------------------------------------


def edge_flow(cfg: ControlFlowGraph, walks: Sequence[Sequence[int]]) -> EdgeFlow:
    crossed = Counter(step for steps in walks for step in steps)
    loops = {each.id for each in cfg.edges if each.source == each.target}
    removed = frozenset(back_edges(cfg)) - loops
    return EdgeFlow(cfg, removed, [crossed[each.id] for each in cfg.edges])


@pytest.mark.seeds(range(300))
def test_definite_flow_is_below_and_potential_flow_above_the_truth(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [random_walk(rng, cfg) for _ in range(8)]
    flow = edge_flow(cfg, walks)
    found = Counter(path for steps in walks for path in split(cfg, steps) if not path.partial)
    for path, count in found.items():
        least = flow.definite_count(path.blocks[0], path.edges)
        assert least <= count <= flow.potential_count(path.blocks[0], path.edges)


@pytest.mark.seeds(range(300))
def test_definite_flows_with_and_without_listing_paths(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [random_walk(rng, cfg) for _ in range(8)]
    flow, plan = edge_flow(cfg, walks), plan_pp(cfg)
    if plan.num_paths > 2000:
        return
    every = [plan.decode(plan.numbering.encode(path)) for path in plan.numbering.paths()]
    listed = {
        (record.blocks, record.edges): count
        for record in every
        if (count := flow.definite_count(record.blocks[0], record.edges))
        and record.end is not PathEnd.DEAD_END
    }
    assert dict(flow.definite_paths()) == listed
    assert flow.definite_flows() == Counter(listed.values())


def test_what_two_branches_tell_of_four_paths() -> None:
    """EPP figure 1 in small: AB 70 of 100 and DE 60 of 100, so that 30 at least went both ways."""
    cfg = named("A>B A>C B>D C>D D>E D>F E>X F>X", "A", "X")
    counts = {"A>B": 70, "A>C": 30, "B>D": 70, "C>D": 30, "D>E": 60, "D>F": 40, "E>X": 60,
              "F>X": 40, "ENTRY>A": 100, "X>EXIT": 100}  # fmt: skip
    by_edge = [0] * len(cfg.edges)
    for ends, count in counts.items():
        by_edge[edge(cfg, ends)] = count
    flow = EdgeFlow(cfg, (), by_edge)
    both = tuple(walk(cfg, "ABDEX"))
    assert flow.definite_count(0, both) == 30
    assert flow.potential_count(0, both) == 60
    # 70 - 60 went by B and F; what went by C may all have gone on to E, or to F
    assert flow.definite_flows() == Counter({30: 1, 10: 1})
