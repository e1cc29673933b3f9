"""`sampled:duplicated`: two copies of a routine's blocks, planned, priced, written and executed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.code.pricing import Pricer, edge_costs, part_cost
from simprof.profiler.graphfiles.execution import price
from simprof.profiler.plan import interpret
from simprof.profiler.plan.actions import CROSSING, CountPath, Landing, TakenPart
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.request.request import RegisterUse, SchemeOptions, Setting
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.registry import make_plan
from simprof.profiler.schemes.sampling.code import CheckInFirst, CheckInSecond
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES
from tests.oracles.brute import random_graph, random_walk, structured_graph
from tests.oracles.exact import paths_of, simulate_settings
from tests.support.exact_random import BARE, LEVELS, WIDTHS
from tests.support.figures import named
from tests.support.random_programs import program
from tests.support.turns import in_step
from tests.support.verifying import check_verified, verified

LOOPS = FIXTURES / "bin" / "v9" / "loops.elf"
PROGRAMS = ("loops", "manypaths", "tailcalls", "switches", "nonlocal", "signals", "pointers")
Compile = Callable[..., Path]


def options(interval: int, **others: Any) -> SchemeOptions:
    return SchemeOptions.of(interval=interval, duplicated=True, **others)


def test_both_variants_sample_the_same_paths(tmp_path: Path) -> None:
    settings = [
        Setting(
            f"{interval} {twice}", "sampled", SchemeOptions.of(interval=interval, duplicated=twice)
        )
        for interval in (1, 5)
        for twice in (False, True)
    ]
    settings.insert(0, Setting("pp", "pp", SchemeOptions()))
    simulated = simulate_settings(LOOPS, directory=tmp_path, settings=settings)
    exact, once, one_copied, fifth, fifth_copied = (
        [{r.address: paths_of(r, partial) for r in each.routines} for partial in (False, True)]
        for each in simulated.measurements.values()
    )
    assert exact[0] == once[0] == one_copied[0]
    assert once == one_copied
    assert fifth == fifth_copied != once


def test_what_each_copy_does() -> None:
    """The first has checks where paths begin, the second counts without tests."""
    cfg = named("A>B B>A B>C", "A", "C")
    entry, back = cfg.out_edges[cfg.entry][0], 1
    plan = make_plan(cfg, "sampled", options(7)).plan
    first, second = plan.body(0).actions, plan.body(1).actions
    assert {edge: [type(each) for each in actions][-1] for edge, actions in first.items()} == {
        entry: CheckInFirst,
        back: CheckInFirst,
    }
    assert [type(each) for each in second[back]] == [CountPath, CheckInSecond]
    assert second[entry] == (Landing(),)
    assert first.keys() < second.keys()


@pytest.mark.seeds(range(200), few=60)
def test_an_edge_costs_what_its_code_in_each_copy_does(seed: int) -> None:
    """By a walk that keeps the copy itself: a word counts down where paths begin."""
    rng = random.Random(seed)
    cfg = structured_graph(rng) if rng.random() < 0.5 else random_graph(rng)
    interval = rng.choice((1, 2, 3, 9))
    plan: Any = make_plan(cfg, "sampled", options(interval))
    code = price(plan, Pricer(lambda: registry.generators("sampled")))
    assert code.copy is not None
    walks = [random_walk(rng, cfg, 60) for _ in range(12)]
    expected: Counter[int] = Counter()
    left = 0
    for walk in walks:
        twice = False
        for edge in walk:
            body = code.copy if twice else code
            snippet = body.snippets.get(edge)
            expected[edge] += 0 if snippet is None else snippet.cost
            if cfg.edges[edge].source == cfg.entry or edge in plan.dag.removed:
                left -= 1
                was, twice = twice, left <= 0
                if twice:
                    left = interval
                    assert snippet is not None
                    expected[edge] += snippet.taken_costs[int(edge in plan.dag.removed)]
                    assert snippet is (code.copy if was else code).snippets[edge]
    counters = interpret.execute(cfg, plan.plan, [ExecutedWalk(tuple(walk)) for walk in walks])
    crossed = [sum(walk.count(edge.id) for walk in walks) for edge in cfg.edges]
    costs = edge_costs(code, crossed, counters.taken)
    assert {e: c for e, c in costs.items() if c} == {e: c for e, c in expected.items() if c}


def test_code_of_one_copy_only_is_paid_there() -> None:
    cfg = named("A>B A>C B>D C>D", "A", "D")
    plan = make_plan(cfg, "sampled", options(3))
    code = price(plan, Pricer(lambda: registry.generators("sampled")))
    assert code.copy is not None
    (added,) = code.copy.snippets.keys() - code.snippets.keys() - set(cfg.in_edges[cfg.exit])
    part = TakenPart(added, CROSSING, in_copy=True)
    assert part_cost(code, part) == code.copy.snippets[added].cost == 1
    assert code.code_bytes >= 4 * sum(block.instructions for block in cfg.blocks)


def test_spilled_registers_are_refused() -> None:
    with pytest.raises(UsageError, match="two copies of a routine"):
        registry.pricer("sampled", options(3, registers=RegisterUse.SPILLED))


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), in_step(dict.fromkeys(PROGRAMS), WIDTHS))
def test_instrumented_programs_execute_what_is_predicted(
    name: str, width: str, fixture_elf: Compile, tmp_path: Path
) -> None:
    check_verified(
        verified(fixture_elf(name, width), tmp_path, modes=["sampled"], options=options(3))
    )


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.seeds(range(10), few=1)
def test_random_programs_execute_what_is_predicted(
    compile_c: Compile, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    extra = ["-fPIC"] if seed % 4 == 0 else []
    source = program(seed, functions=3 + seed % 5, size=6 + seed % 9, fuel=1000)
    built = compile_c(source, (rng.choice(LEVELS), *BARE, *extra), width=WIDTHS[seed % 3])
    chosen = options(rng.choice((1, 2, 5, 50)))
    check_verified(verified(built, tmp_path, modes=["sampled"], options=chosen))


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.seeds(range(100, 106), few=1)
def test_calls_from_old_places_return_to_the_copy_that_makes_them(
    compile_c: Compile, tmp_path: Path, seed: int
) -> None:
    """Without symbols any call may come to code that unwinds, and so is made from its old place."""
    source = program(seed, functions=4, size=8, fuel=600)
    built = compile_c(source, (LEVELS[seed % 5], *BARE, "-s"), width=WIDTHS[seed % 3])
    result = verified(built, tmp_path, modes=["sampled"], options=options(1 + seed % 4))
    (mode,) = result.modes
    assert mode.rewriting[Cause.CALLS] > 0
    assert set(mode.executed.values()) == {mode.predicted}
    assert mode.differences == ()
    assert mode.output_equal
    # The start-up code has no frame of its own.
    assert len([left for left in mode.left if "which of its copies" in left.reason]) <= 1
