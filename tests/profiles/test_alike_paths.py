"""Paths of `kiter:outer` that differ in how they start or end, or in what is collapsed, alone."""

from __future__ import annotations

import csv
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.exports.tables import render_csv
from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.profiles import storage
from simprof.profiler.profiles.combine import edge_keys, merge, path_key, split
from simprof.profiler.profiles.differences import difference
from simprof.profiler.profiles.profile import (
    BlockCount,
    EdgeCount,
    PathCount,
    RunMeasurement,
)
from simprof.profiler.profiles.tables import listed_paths, path_blocks, table
from simprof.profiler.reports import mode_facts, run_json
from simprof.profiler.reports.hot_tables import blocks_text, path_marks
from simprof.profiler.reports.html.routines import path_name
from simprof.profiler.reports.listings import RowChoice, listing, render_text
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.schemes.kiter.planner import plan_kiter
from simprof.profiler.session.session import compare_program
from tests.oracles.brute import random_graph, random_walk, structured_graph
from tests.oracles.collapsed import every_loop, levels, split_outer
from tests.support import samples
from tests.support.loop_graphs import random_loops
from tests.support.turns import first

NUMBERS = ("path", "executions", "instructions", "share")  # Columns that do not say which path


def executed(
    cfg: ControlFlowGraph, walks: Sequence[Sequence[int]], **options: int
) -> RunMeasurement:
    """A profile of walks under `kiter:outer`; its paths' counts are those of the oracle."""
    plan = plan_kiter(cfg, outer=True, **options)  # type: ignore[arg-type]
    reading = plan.read(execute(cfg, plan.plan, [ExecutedWalk(tuple(each)) for each in walks]))
    names = cfg.names()
    counted = [(plan.decode(path), path, count) for path, count in reading.paths.items()]
    paths = [*counted, *((record, None, count) for record, count in reading.partial.items())]
    got = {frozenset(loop.back_edges): loop.iterations for loop in plan.loops}
    every = list(levels(cfg, every_loop(cfg), got, set(plan.cut_edges)))
    oracle = Counter(path for each in walks for path in split_outer(cfg, each, every))
    assert sorted(oracle.values()) == sorted(count for *_, count in paths)
    routine = replace(
        samples.routine(),
        edge_counts=tuple(
            EdgeCount(names[edge.source], names[edge.target], edge.kind, 0, False)
            for edge in cfg.edges
        ),
        path_counts=tuple(
            PathCount.of(cfg, record, number, count, record.edges, inferred=False)
            for record, number, count in paths
        ),
        block_counts=tuple(
            BlockCount(b.start, b.instructions, is_slot=False, delayed=False, count=0, added=0)
            for b in cfg.blocks
        ),
    )
    return samples.measurement(mode="kiter", routines=(routine,), lines={})


def graphs() -> Iterator[tuple[random.Random, ControlFlowGraph, list[list[int]]]]:
    """Random graphs, of blocks of two instructions, with walks."""
    for seed in range(60):
        rng = random.Random(seed)
        kind = rng.random()
        cfg = random_graph(rng, 9) if kind < 0.2 else random_loops(rng, 8)
        cfg = structured_graph(rng, 3) if kind > 0.6 else cfg
        blocks = tuple(Block(b.id, 0x1000 + 8 * b.id, 2, is_slot=False) for b in cfg.blocks)
        cfg = replace(cfg, blocks=blocks)
        yield rng, cfg, [random_walk(rng, cfg, rng.choice((3, 15, 60))) for _ in range(25)]


def shown(run: RunMeasurement) -> dict[str, list[object]]:
    """What each format shows of each path, without what does not say which one it is."""
    rows = table(run, "paths")
    wanted = [at for at, column in enumerate(rows.columns) if column.name not in NUMBERS]
    objects = json.loads(run_json.render(run))["paths"]
    lines = csv.DictReader(render_csv(rows).decode().splitlines())
    every = [(each.key, path) for each in run.routines for path in each.path_counts]
    return {
        "rows": [tuple(row[at] for at in wanted) for row in rows.cells()],
        "json": [json.dumps({k: v for k, v in x.items() if k not in NUMBERS}) for x in objects],
        "csv": [tuple(v for k, v in line.items() if k not in NUMBERS) for line in lines],
        # Texts do not say which edges a path takes; numbers tell such paths apart.
        "text": [
            (key, path.edges, path.partial, blocks_text(path), *path_marks(path))
            for key, path in every
        ],
        "page": [(key, path.edges, path_name(replace(path, id=0))) for key, path in every],
    }


def assert_apart(run: RunMeasurement) -> int:
    """Check that all paths of a profile can be told apart; return how many have blocks alike."""
    paths = sum(len(each.path_counts) for each in run.routines)
    # Lists have the iterations of loops of one block, too.
    listed = sum(len(listed_paths(run, each)) for each in run.routines)
    for kind, each in shown(run).items():
        if kind != "page":  # which shows blocks in a drawing
            assert len(each) == len(set(each)) == (paths if kind == "text" else listed), kind
    assert storage.from_bytes(storage.to_bytes(run), "it") == run
    twice = merge([run, run])
    for routine, one in zip(twice.routines, run.routines, strict=True):
        doubled = [replace(path, count=2 * path.count) for path in one.path_counts]
        assert list(routine.path_counts) == doubled
    differing = difference(twice, run).paths
    assert len(differing) == paths
    # Of parallel edges no text tells which one a path took.
    ways = {
        (each.name, path_blocks(path), path.start, path.end)
        for each in run.routines
        for path in each.path_counts
    }
    assert len({(each.symbol, each.steps, each.kind) for each in differing}) == len(ways)
    assert difference(run, run).is_empty
    alike = Counter(
        (each.key, path.blocks, path.slots, path.edges, path.partial)
        for each in run.routines
        for path in each.path_counts
    )
    return paths - len(alike)


@pytest.mark.long
def test_paths_of_random_graphs_are_shown_apart() -> None:
    alike = 0
    for rng, cfg, walks in graphs():
        limit = rng.choice((10**8, 10**8, 5, 60))
        alike += assert_apart(executed(cfg, walks, iterations=rng.choice((2, 3)), path_limit=limit))
    assert alike > 20


def finer(
    rng: random.Random, cfg: ControlFlowGraph, walks: list[list[int]]
) -> tuple[ControlFlowGraph, list[list[int]]]:
    """The graph with some blocks as two, and the walks there; self-loops stay such."""
    count = len(cfg.blocks)
    looping = {edge.source for edge in cfg.edges if edge.source == edge.target}
    halved = [b for b in range(count) if b not in looping and rng.random() < 0.5]
    second = {block: count + at for at, block in enumerate(halved)}
    more = {cfg.entry: count + len(halved), cfg.exit: count + len(halved) + 1}
    blocks = [b._replace(instructions=1 if b.id in second else 2) for b in cfg.blocks]
    blocks += [Block(at, cfg.blocks[b].start + 4, 1, is_slot=False) for b, at in second.items()]
    edges = [
        Edge(e.id, (second | more).get(e.source, e.source), more.get(e.target, e.target), e.kind)
        for e in cfg.edges
    ]
    inner = {block: len(edges) + at for at, block in enumerate(halved)}
    edges += [Edge(inner[b], b, at, EdgeKind.FALL_THROUGH) for b, at in second.items()]
    steps = [
        [x for step in each for x in (step, inner.get(cfg.edges[step].target)) if x is not None]
        for each in walks
    ]
    return replace(cfg, blocks=tuple(blocks), edges=tuple(edges)), steps


def test_paths_on_split_blocks_are_those_of_the_finer_graph() -> None:
    """Collapsed loops, too: what is inside of them is on no path around them."""
    around = 0
    for rng, cfg, walks in graphs():
        coarse = executed(cfg, walks, iterations=2).routines[0]
        wanted = executed(*finer(rng, cfg, walks), iterations=2).routines[0]
        starts = sorted(block.start for block in wanted.block_counts)
        found, *others = (
            {path_key(p, edge_keys(each)): (p.count, p.instructions) for p in each.path_counts}
            for each in (split(coarse, starts), wanted)
        )
        assert [found] == others
        around += sum(bool(path.collapsed) for path in coarse.path_counts)
    assert around > 100


@pytest.mark.parametrize("name", first(1, ["loops", "bench"]))
def test_paths_of_a_program_are_shown_apart(name: str, fixture_elf: Callable[..., Path]) -> None:
    with Path(os.devnull).open("wb") as sink:
        guest = GuestOptions(
            Path(), stdin=Path(os.devnull), stdout=sink.fileno(), stderr=sink.fileno()
        )
        outer = Setting("kiter:outer", "kiter", SchemeOptions().having(outer=True))
        (run,) = compare_program(RunRequest(fixture_elf(name), guest), [outer]).measurements
    assert assert_apart(run) > 5
    # Paths of the same source lines are one where builds are compared, but not those that differ
    # in their loops.
    twice = merge([run, run])
    other = replace(twice, program=replace(run.program, sha256="00" * 32))
    kinds = Counter(each.kind for each in difference(other, run).paths)
    assert kinds["path (loop entry) (loop exit)"]
    assert kinds["path (after back edge) (loop exit)"]
    assert kinds["path (before back edge) (loop entry)"]
    names = {step for x in difference(twice, run).paths for step in x.steps}
    assert any(each.startswith("loop 0x") for each in names)
    text = render_text(listing("paths", run, RowChoice(routines=("nest", "insertion_sort"))), 200)
    assert "> loop 0x" in text
    assert "(loop entry)" in text
    assert "(loop exit)" in text
    assert "innermost" not in mode_facts.description(run)


def test_a_path_from_the_entry_is_not_one_behind_a_back_edge() -> None:
    """A loop that the routine begins with: all its paths have the same blocks."""
    blocks = tuple(Block(at, 0x1000 + 8 * at, 2, is_slot=False) for at in range(2))
    ends = ((2, 0, EdgeKind.ENTRY), (0, 1, EdgeKind.FALL_THROUGH), (1, 0, EdgeKind.TAKEN),
            (1, 3, EdgeKind.EXIT))  # fmt: skip
    edges = tuple(Edge(at, *each) for at, each in enumerate(ends))
    cfg = ControlFlowGraph("p", 0x1000, 16, blocks, edges)
    once = executed(cfg, [[0, 1, 3]] * 2, iterations=1)
    thrice = executed(cfg, [[0, 1, 2, 1, 2, 1, 3]], iterations=1)
    found = {each.kind: (each.steps, each.executions) for each in difference(once, thrice).paths}
    steps = ("0x1000", "0x1008")
    assert found == {
        "path": (steps, (2, 0)),
        "path (before back edge)": (steps, (0, 1)),
        "path (after back edge) (before back edge)": (steps, (0, 1)),
        "path (after back edge)": (steps, (0, 1)),
    }
