"""Outer loops iterated with collapsed inner loops, against their definition."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import check
from simprof.profiler.graphs.paths import PathRecord
from simprof.profiler.plan.actions import RegisterEffect
from simprof.profiler.plan.interpret import ExecutedWalk, execute, rehearse
from simprof.profiler.schemes.kiter.code import BeginPath, NextIteration
from simprof.profiler.schemes.kiter.loops import read_choices
from simprof.profiler.schemes.kiter.placement import Saved, saved_states
from simprof.profiler.schemes.kiter.planner import IterationPlan, plan_kiter
from tests.oracles.brute import random_graph, random_walk, structured_graph
from tests.oracles.collapsed import (
    Level,
    Nested,
    OuterPath,
    can_be_iterated,
    every_loop,
    levels,
    split_outer,
)
from tests.oracles.iterations import KLoop, is_hot
from tests.support.figures import KITER_8_EDGES, edge, letters, named, walk
from tests.support.loop_graphs import random_loops


def planned(cfg: ControlFlowGraph, **options: object) -> IterationPlan:
    plan = plan_kiter(cfg, outer=True, **options)  # type: ignore[arg-type]
    plan.validate()
    return plan


def oracle_levels(cfg: ControlFlowGraph, plan: IterationPlan) -> list[Level]:
    """The levels that should be profiled, with the k that the plan chose for each loop."""
    got = {frozenset(loop.back_edges): loop.iterations for loop in plan.loops}
    return list(levels(cfg, every_loop(cfg), got, set(plan.cut_edges)))


def as_path(record: PathRecord) -> OuterPath:
    return OuterPath(
        str(record.start), record.blocks, record.edges, record.collapsed, str(record.end)
    )


def assert_exact(
    cfg: ControlFlowGraph, plan: IterationPlan, walks: Sequence[Sequence[int]]
) -> None:
    """Check what the plan reads of its counters against the paths of the walks."""
    counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(steps)) for steps in walks])
    reading = plan.read(counters)
    found: Counter[OuterPath] = Counter()
    for path_id, count in reading.paths.items():
        assert count > 0
        found[as_path(plan.decode(path_id))] += count
    for record, count in reading.partial.items():
        assert record.partial
        found[as_path(record)] += count
    every = oracle_levels(cfg, plan)
    assert found == Counter(path for steps in walks for path in split_outer(cfg, steps, every))
    true = Counter(step for steps in walks for step in steps)
    assert reading.edges == tuple(true[each.id] for each in cfg.edges)
    check(cfg, reading.all_edges or (), counters.early, activations=len(walks))


def any_graph(rng: random.Random) -> ControlFlowGraph:
    kind = rng.random()
    if kind < 0.1:
        return random_graph(rng, 9)
    return structured_graph(rng, 3) if kind < 0.5 else random_loops(rng, rng.choice((7, 10)))


def check_random_graph(seed: int) -> bool:
    """Check one graph; return whether a loop was collapsed."""
    rng = random.Random(seed)
    cfg = any_graph(rng)
    plan = planned(
        cfg,
        iterations=rng.choice((2, 2, 2, 3, 4)),
        path_limit=rng.choice((None, 10**8, 10**8, 1, 5, 20, 60, 200)),
        event_counting=rng.random() < 0.8,
        hash_above=rng.choice((None, None, 10)),
    )
    if plan.num_paths < 1500:
        records = list(plan.all_paths())
        assert records == [plan.decode(path_id) for path_id in range(plan.num_paths)]
        assert len(set(map(as_path, records))) == len(records)
    walks = [random_walk(rng, cfg, rng.choice((3, 15, 60))) for _ in range(20)]
    assert_exact(cfg, plan, walks)
    return len(plan.dag.regions) > 1


@pytest.mark.long
def test_random_graphs() -> None:
    assert sum(map(check_random_graph, range(150))) > 30


@pytest.mark.long
def test_many_random_graphs() -> None:
    assert sum(map(check_random_graph, range(1000, 1250))) > 50


def counts(cfg: ControlFlowGraph, walks: Sequence[Sequence[int]]) -> list[float]:
    crossed = Counter(step for steps in walks for step in steps)
    return [float(crossed[each.id]) for each in cfg.edges]


def check_random_choice(seed: int) -> None:
    """Every loop has the k that was asked for, inner and outer ones their own."""
    rng = random.Random(seed)
    cfg = any_graph(rng)
    walks = [random_walk(rng, cfg, rng.choice((3, 15, 60))) for _ in range(15)]
    k, hot = rng.choice((1, 2, 3)), rng.choice((0.0, 0.0, 10.0, 30.0, 60.0))
    loops = every_loop(cfg)
    heads = sorted({loop.head for loop in loops})
    given = {head: rng.choice((1, 2, 3, 4)) for head in heads if rng.random() < 0.4}
    plan = planned(
        cfg,
        iterations=k,
        choices=read_choices("+".join(f"@{cfg.blocks[h].start}={n}" for h, n in given.items())),
        hot=hot,
        weights=counts(cfg, walks),
        path_limit=None,
        total_limit=None,
    )

    def wanted(loop: Nested) -> int:
        hot_loop = is_hot(cfg, KLoop(loop.head, loop.body, loop.back, k), walks, hot)
        return given.get(loop.head, k if hot_loop else 1)

    left = {frozenset(x.back_edges) for x in plan.limited if x.reason == "ambiguous"}
    found = {frozenset(loop.back_edges): loop.iterations for loop in plan.loops}
    assert found == {
        loop.back: wanted(loop)
        for loop in loops
        if can_be_iterated(cfg, loop, loops) and wanted(loop) > 1 and loop.back not in left
    }
    assert plan.untruncated_paths == plan.num_paths
    assert_exact(cfg, plan, walks)


@pytest.mark.seeds([*range(80), *range(1000, 1170)], few=80)
def test_random_choices(seed: int) -> None:
    check_random_choice(seed)


# The paper's graph


def figure_8(**options: object) -> tuple[ControlFlowGraph, IterationPlan]:
    """L1 is 2 3; L3 is 4 5 6, with L2, which is 4 5, inside: both have the head 4."""
    cfg = named(KITER_8_EDGES, "1", "7", "KITER figure 8")
    plan = planned(cfg, **options)
    assert plan.outer
    return cfg, plan


def listed(cfg: ControlFlowGraph, records: Sequence[PathRecord]) -> set[str]:
    """The paths, collapsed loops in brackets, with how they start and end."""
    found = set()
    for record in records:
        names = [letters(cfg, (block,)) for block in record.blocks]
        text = [f"({n})" if at in record.collapsed else n for at, n in enumerate(names)]
        found.add(f"{record.start} {''.join(text)} {record.end}")
    return found


def test_figure_8_with_a_collapsed_loop() -> None:
    cfg, plan = figure_8()
    assert [(letters(cfg, (x.head,)), len(x.body), x.iterations) for x in plan.loops] == [
        ("2", 2, 2),
        ("4", 3, 2),
        ("4", 2, 2),
    ]
    # L3's two iterations, with L2 as one block; L1 before them as in mixed mode.
    behind = ["(4)67", "(4)6(4)67", "(4)6(4)6"]
    ends = ["exit", "exit", "back-edge"]
    expected = {
        f"{start} {blocks}{rest} {end}"
        for start, blocks in (("entry", "123"), ("entry", "12323"), ("back-edge", "2323"))
        for rest, end in zip(behind, ends, strict=True)
    }
    expected |= {"entry 12323 back-edge", "back-edge 2323 back-edge"}
    # A path that begins at L3's head iterates it twice.
    expected |= {"back-edge (4)6(4)67 exit", "back-edge (4)6(4)6 back-edge"}
    # L2's own paths: once, twice, and on from its back edge
    expected |= {"loop-entry 45 loop-exit", "loop-entry 4545 loop-exit"}
    expected |= {"loop-entry 4545 back-edge"}
    expected |= {"back-edge 4545 loop-exit", "back-edge 4545 back-edge"}
    records = list(plan.all_paths())
    assert listed(cfg, records) == expected
    assert len(records) == plan.num_paths == len(expected)


def test_figure_8_profile() -> None:
    cfg, plan = figure_8()
    steps = walk(cfg, "1" + "23" + "45456" + "456" + "4545456" + "7")
    reading = plan.read(execute(cfg, plan.plan, [ExecutedWalk(tuple(steps), 3)]))
    found = {
        next(iter(listed(cfg, [plan.decode(path)]))): count for path, count in reading.paths.items()
    }
    assert found == {
        "entry 123(4)6(4)6 back-edge": 3,
        "back-edge (4)6(4)67 exit": 3,
        "loop-entry 4545 loop-exit": 3,
        "loop-entry 45 loop-exit": 3,
        "loop-entry 4545 back-edge": 3,
        "back-edge 4545 loop-exit": 3,
    }
    collapsed = plan.decode(min(p for p, _ in plan.numbered_paths() if plan.decode(p).collapsed))
    inside = [at for at in range(len(collapsed.blocks)) if at not in collapsed.collapsed]
    assert collapsed.instructions(cfg) == sum(
        cfg.blocks[collapsed.blocks[at]].instructions for at in inside
    )


def test_nested_k() -> None:
    """The inner loop has its k, the outer one its own."""
    cfg = named("1>2 2>3 3>4 4>3 4>2 4>5", "1", "5")
    plan = planned(cfg, choices=read_choices("@2=3+@3=4"))
    assert {letters(cfg, (x.head,)): x.iterations for x in plan.loops} == {"2": 3, "3": 4}
    assert plan.most_iterations == 4
    assert_exact(cfg, plan, [walk(cfg, "1" + "2343434343434" * 5 + "5"), walk(cfg, "12345")])
    # With k = 1 the outer loop is acyclic, and nothing is collapsed.
    mixed = planned(cfg, choices=read_choices("@2=1"))
    assert mixed.plan == plan_kiter(cfg, choices=read_choices("@2=1")).plan
    # With k = 1 the inner loop is collapsed, with acyclic paths of its own.
    inner = planned(cfg, choices=read_choices("@3=1"))
    assert listed(cfg, list(inner.all_paths())) >= {
        "loop-entry 34 back-edge",
        "loop-entry 34 loop-exit",
        "back-edge 34 loop-exit",
    }
    assert_exact(cfg, inner, [walk(cfg, "1" + "2343434343434" * 5 + "5"), walk(cfg, "12345")])


def test_registers_of_the_loops_around_are_in_use() -> None:
    """Inside of a collapsed loop no action says that what registers hold is of no use any more."""
    cfg = named("1>2 2>3 3>4 4>3 4>2 4>5", "1", "5")
    plan = planned(cfg, choices=read_choices("@3=1"))
    assert plan.outer
    inside = {edge(cfg, ends) for ends in ("2>3", "3>4", "4>3")}
    begun = [action for at in inside for action in plan.plan.actions.get(at, ())]
    assert any(isinstance(action, BeginPath) for action in begun)
    assert not any(action.effect is RegisterEffect.DEFINES for action in begun)


def test_three_levels() -> None:
    cfg = named("1>2 2>3 3>4 4>5 5>4 5>6 6>3 6>7 7>2 7>8", "1", "8")
    plan = planned(cfg)
    assert len(plan.dag.regions) == 3
    # c[0], c[1] and itr, and what is saved of the two loops around the innermost
    assert plan.plan.registers == 3 + 3 + 3
    assert saved_states(plan.dag) == (None, Saved(2, 2), Saved(5, 2))
    rng = random.Random(1)
    assert_exact(cfg, plan, [random_walk(rng, cfg, 200) for _ in range(20)])


def test_what_edges_do() -> None:
    cfg = named("1>2 2>3 3>4 4>3 4>2 4>5", "1", "5")
    plan = planned(cfg)
    code = {
        ends: [str(action) for action in plan.plan.actions.get(edge(cfg, ends), ())]
        for ends in ("2>3", "4>2", "4>5")
    }
    # The outer path's part, then the inner loop's; out of it the other way round
    assert code["2>3"].index("save c[0..1], itr") < code["2>3"].index("itr:=0")
    for ends in ("4>2", "4>5"):
        counted = code[ends].index("count[r]++")
        assert code[ends].index("c[0]:=c[itr]") < counted
        assert code[ends].index("restore c[0..1], itr") == counted + 1
    assert code["4>2"][-1].endswith("(f,itr):=setf(itr)")
    assert (
        code["4>5"][-1] in ("c[0]:=c[itr]", "count[r]++") and code["4>5"].count("count[r]++") == 1
    )


def test_irreducible_part_inside() -> None:
    # 3 and 4 are a loop with two entries, in the loop 2 .. 5.
    cfg = named("1>2 2>3 2>4 3>4 4>3 4>5 5>2 5>6", "1", "6")
    plan = planned(cfg)
    assert not plan.outer and not plan.loops
    # With a loop around it, that one can be iterated: the inner one is a block, whatever it holds.
    around = named("0>1 1>2 2>3 2>4 3>4 4>3 4>5 5>2 5>6 6>1 6>7", "0", "7")
    outer = planned(around)
    assert [letters(around, (x.head,)) for x in outer.loops] == ["1"]
    assert {each.reason for each in outer.limited} == {"outer", "irreducible"}
    assert {each.reason for each in outer.limits} == {"outer", "irreducible"}
    rng = random.Random(2)
    assert_exact(around, outer, [random_walk(rng, around, 100) for _ in range(20)])


def test_path_limit() -> None:
    cfg = named("1>2 2>3 3>4 4>3 4>2 4>5", "1", "5")
    full = planned(cfg, iterations=6, path_limit=None)
    for limit in range(1, full.num_paths + 1):
        plan = planned(cfg, iterations=6, path_limit=limit)
        assert plan.num_paths <= max(limit, planned(cfg, iterations=1, path_limit=limit).num_paths)
        assert plan.untruncated_paths == full.num_paths
        assert_exact(cfg, plan, [walk(cfg, "1" + "2343434343434" * 7 + "5")])
        got = {loop.back_edges: loop.iterations for loop in plan.loops}
        lowered = {loop.back_edges: loop.iterations for loop in plan.limited}
        assert got | lowered == {
            loop.back_edges: got.get(loop.back_edges, 1) for loop in full.loops
        }
        assert all(each.reason == "path limit" for each in plan.limited)


def test_no_such_path() -> None:
    _, plan = figure_8()
    for number in (-1, plan.num_paths):
        with pytest.raises(ValueError, match="no path"):
            plan.decode(number)


@pytest.mark.seeds(range(40))
def test_same_as_kiter_without_nests(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_loops(rng, 8)
    loops = every_loop(cfg)
    nested = [x for x in loops if any(y.body < x.body for y in loops)]
    if not any(can_be_iterated(cfg, x, loops) for x in nested):
        assert planned(cfg, iterations=3).plan == plan_kiter(cfg, iterations=3).plan


@pytest.mark.seeds(range(40))
def test_rehearsals_agree(seed: int) -> None:
    """`--self-check` follows a path around collapsed loops in the pieces between them."""
    rng = random.Random(seed)
    cfg = any_graph(rng)
    plan = planned(cfg, iterations=rng.choice((2, 3)))
    walks = [ExecutedWalk(tuple(random_walk(rng, cfg, 60)), 2) for _ in range(10)]
    rehearse(plan, plan, walks)


def test_rehearsal_of_a_wrong_path() -> None:
    cfg, plan = figure_8()
    steps = walk(cfg, "1" + "23" + "45456" * 2 + "456" * 2 + "7")
    wrong = dict(plan.plan.actions)
    at = edge(cfg, "6>4")
    wrong[at] = tuple(
        replace(action, start=action.start + 1) if isinstance(action, NextIteration) else action
        for action in wrong[at]
    )
    assert wrong != plan.plan.actions
    broken = replace(plan, plan=replace(plan.plan, actions=wrong))
    with pytest.raises((AssertionError, ValueError)):
        rehearse(broken, broken, [ExecutedWalk(tuple(steps))])
