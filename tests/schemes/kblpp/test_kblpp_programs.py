"""`kblpp` on programs and random graphs: as predicted, as `pp` has it, and as `kiter` has it."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.experiments.cells.path_facts import RoutinePaths, iteration_rows
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan import interpret
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.profiles.profile import PathCount
from simprof.profiler.request.request import (
    ContextChoice,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.rewriting.verification import EMULATOR
from simprof.profiler.schemes.kblpp.code import NODES
from simprof.profiler.schemes.registry import make_plan
from simprof.profiler.session.session import compare_program
from simprof.simulator.errors import UsageError
from tests.oracles.brute import edge_counts, random_graph, random_walk, structured_graph
from tests.support.turns import first, turns
from tests.support.verifying import check_verified, verified

BINARIES = Path(__file__).parents[3] / "fixtures" / "bin"
PROGRAMS = ("loops", "switches", "signals", "nonlocal", "control", "manypaths")


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "program", "k"),
    turns(("v9", "v8plus", "v8"), PROGRAMS, (2, 3, 5, 10), few=6),
)
def test_programs_execute_and_count_as_predicted(
    tmp_path: Path, width: str, program: str, k: int
) -> None:
    options = SchemeOptions.of(length=k)
    file = BINARIES / width / f"{program}.elf"
    check_verified(
        verified(file, tmp_path, modes=("kblpp",), ways=[EMULATOR], options=options), [EMULATOR]
    )


@pytest.mark.parametrize(("width", "k"), first(2, [("v9", 2), ("v8", 4), ("v8plus", 3)]))
def test_roots_in_buckets(tmp_path: Path, width: str, k: int) -> None:
    options = SchemeOptions.of(table=TableChoice.HASH, length=k)
    file = BINARIES / width / "loops.elf"
    check_verified(
        verified(file, tmp_path, modes=("kblpp",), ways=[EMULATOR], options=options), [EMULATOR]
    )


def test_a_pool_that_is_too_small_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(NODES, size=1 << 8)
    monkeypatch.setattr("simprof.profiler.schemes.kblpp.planner.NODES", small)
    with pytest.raises(UsageError, match=r"kblpp: its counters take [0-9,]+ bytes .* room for 240"):
        verified(BINARIES / "v9" / "loops.elf", tmp_path, modes=("kblpp",), ways=[])


def request(**given: object) -> RunRequest:
    nothing = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(Path(), stdin=Path(os.devnull), stdout=nothing, stderr=nothing)
    return replace(RunRequest(BINARIES / "v9" / "loops.elf", guest), **given)


@pytest.mark.parametrize("k", [2, 3])
def test_call_trees_are_refused(k: int) -> None:
    kblpp = Setting("kblpp", "kblpp", SchemeOptions.of(length=k))
    compare_program(request(), [kblpp])  # after which the program is known
    with pytest.raises(UsageError, match="kblpp: what its run-time routine executes is not known"):
        compare_program(request(contexts=ContextChoice(tree=True)), [kblpp])


def test_single_paths_are_those_of_pp() -> None:
    settings = [Setting(mode, mode, SchemeOptions()) for mode in ("pp", "kblpp")]
    exact, found = compare_program(request(), settings).measurements
    for one, other in zip(exact.routines, found.routines, strict=True):
        theirs = {path.id: path.count for path in one.path_counts if not path.partial}
        ours = {path.id: path.count for path in other.path_counts if not path.partial}
        assert {number: ours[number] for number in theirs} == theirs


def spanning(
    cfg: ControlFlowGraph, mode: str, options: SchemeOptions, k: int, walks: list[list[int]]
) -> dict[str, int]:
    """Return the counts of the paths of k iterations that a mode counts, by key."""
    plan: Any = make_plan(cfg, mode, options)
    counters = interpret.execute(cfg, plan.plan, [ExecutedWalk(tuple(each)) for each in walks])
    records = ((n, plan.decode(n), count) for n, count in plan.read(counters).paths.items())
    paths = [
        PathCount.of(cfg, record, n, count, record.edges, inferred=False)
        for n, record, count in records
    ]
    dfs = depth_first(cfg)
    removed = (dfs.back_edges - dfs.self_loops) | set(plan.cut_edges)
    rows = iteration_rows([(RoutinePaths(cfg, paths, edge_counts(cfg, walks), removed), k)])
    return {key: count for key, (count, _) in rows.items()}


@pytest.mark.long
@pytest.mark.seeds(range(600), few=200)
def test_kiter_counts_the_same_paths_of_k_iterations(seed: int) -> None:
    rng = random.Random(seed)
    cfg = structured_graph(rng) if rng.random() < 0.4 else random_graph(rng, rng.choice((3, 6, 9)))
    walks = [random_walk(rng, cfg, rng.choice((3, 40, 80))) for _ in range(20)]
    k = rng.choice((2, 2, 3, 5))
    theirs = spanning(cfg, "kiter", SchemeOptions.of(iterations=k), k, walks)
    ours = spanning(cfg, "kblpp", SchemeOptions.of(length=k), k, walks)
    assert theirs.items() <= ours.items()
