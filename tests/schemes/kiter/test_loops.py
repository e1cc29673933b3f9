import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes.kiter.loops import LoopChoice, read_choices, unmatched
from simprof.profiler.schemes.kiter.planner import GivenUpPlan, IterationPlan, give_up, plan_kiter
from simprof.profiler.schemes.mode_options import read
from simprof.profiler.schemes.registry import make_plan
from simprof.simulator.errors import UsageError
from tests.oracles.brute import back_edges, graph, random_graph, random_walk, reachable
from tests.oracles.iterations import (
    KLoop,
    all_iteration_paths,
    is_hot,
    iterated_loops,
    limit_of,
)
from tests.support.figures import KITER_1_EDGES, KITER_8_EDGES, letters, named
from tests.support.iterations import assert_profile_is_exact
from tests.support.loop_graphs import random_loops


def planned(cfg: ControlFlowGraph, **options: object) -> IterationPlan:
    plan = plan_kiter(cfg, **options)  # type: ignore[arg-type]
    plan.validate()
    return plan


def counts(cfg: ControlFlowGraph, walks: Sequence[Sequence[int]]) -> list[float]:
    crossed = Counter(step for steps in walks for step in steps)
    return [float(crossed[each.id]) for each in cfg.edges]


def check_random_choice(seed: int) -> None:
    """Every loop has the k that was asked for, and the profile is exact."""
    rng = random.Random(seed)
    cfg = random_graph(rng, 7) if rng.random() < 0.3 else random_loops(rng, 7)
    walks = [random_walk(rng, cfg, rng.choice((3, 15, 60))) for _ in range(15)]
    k, hot = rng.choice((1, 2, 3)), rng.choice((0.0, 0.0, 10.0, 30.0, 60.0, 100.0))
    loops = iterated_loops(cfg, k)
    named_ones = {x.head: rng.choice((1, 2, 3, 4)) for x in loops if rng.random() < 0.4}
    text = "+".join(
        f"{rng.choice(('', '*', cfg.name))}@{cfg.blocks[head].start:#x}={n}"
        for head, n in named_ones.items()
    )
    plan = planned(
        cfg,
        iterations=k,
        choices=read_choices(text),
        hot=hot,
        weights=counts(cfg, walks),
        path_limit=None,
        total_limit=None,
    )
    wanted = {x.head: named_ones.get(x.head, k if is_hot(cfg, x, walks, hot) else 1) for x in loops}
    ambiguous = {each.head for each in plan.limited if each.reason == "ambiguous"}
    found = {loop.head: loop.iterations for loop in plan.loops}
    assert found == {h: n for h, n in wanted.items() if n > 1 and h not in ambiguous}
    chosen = [KLoop(x.head, x.body, x.back, found[x.head]) for x in loops if x.head in found]
    assert_profile_is_exact(cfg, plan, walks, chosen)
    if plan.num_paths < 1000:
        every = {(record.blocks, record.edges) for record in plan.all_paths()}
        assert every == {(p.blocks, p.edges) for p in all_iteration_paths(cfg, chosen)}


@pytest.mark.seeds([*range(100), *range(1000, 1500)], few=100)
def test_random_choices(seed: int) -> None:
    check_random_choice(seed)


# What loops got


@pytest.mark.seeds(range(80))
def test_reasons_of_limits(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng, 8) if seed % 2 else random_loops(rng, 8)
    k, limit = 3, rng.choice((None, 4, 20, 60))
    plan = planned(cfg, iterations=k, path_limit=limit)
    innermost = iterated_loops(cfg, k)
    live = reachable(cfg)
    got = {edge: loop.iterations for loop in plan.loops for edge in loop.back_edges}
    told = {edge: loop for loop in plan.limited for edge in loop.back_edges}
    for edge in back_edges(cfg):
        if cfg.edges[edge].source not in live:
            continue
        reason = limit_of(cfg, edge, innermost)
        if reason is None and got.get(edge) == k:
            assert edge not in told
            continue
        limited = told[edge]
        assert limited.head == cfg.edges[edge].target
        assert {limited.head, cfg.edges[edge].source} <= limited.body(cfg)
        assert (limited.asked, limited.iterations) == (k, got.get(edge, 1))
        assert limited.reason in ([reason] if reason else ["path limit", "ambiguous"])
        assert limited.reason != "path limit" or limit is not None


IRREDUCIBLE = "A>B A>C B>C C>B B>D"


def test_irreducible_loop() -> None:
    cfg = named(IRREDUCIBLE, "A", "D")
    plan = planned(cfg, iterations=4)
    (limited,) = plan.limited
    assert letters(cfg, tuple(sorted(limited.body(cfg)))) == "BC"
    assert plan.describe()["limited_loops"] == [
        {
            "head": "B",
            "blocks": ["B", "C"],
            "back_edges": [3],
            "asked": 4,
            "iterations": 1,
            "reason": "irreducible",
        }
    ]
    assert [str(each) for each in plan.limits] == ["B: 1 of 4 (irreducible)"]
    assert not planned(cfg, iterations=1).limited
    assert not planned(cfg, iterations=4, choices=read_choices("*=1")).limited


# k by loop and by routine (KITER 5)


def test_figure_8_with_other_k() -> None:
    # "Let L1 use k=k1 while L2 use k=k2": paths of L2 are numbered as without L1.
    cfg = named(KITER_8_EDGES, "1", "7", "KITER figure 8")
    plan = planned(cfg, choices=read_choices("@2=3+@4=2"))
    assert [loop.iterations for loop in plan.loops] == [3, 2]
    only = planned(cfg, choices=read_choices("*=1+KITER*@4=2"))
    assert [(cfg.name_of(x.head).start, x.iterations) for x in only.loops] == [("4", 2)]
    behind = ["454567", "45456", "4545", "4567", "456"]
    found = sorted(letters(cfg, record.blocks) for record in only.all_paths())
    assert found == sorted([*behind, *(a + b for a in ("123", "23") for b in behind), "123", "23"])


@pytest.mark.parametrize(
    ("text", "name", "k"),
    [
        ("main=4", "main", 4),
        ("main=4", "domain", None),
        ("ma*=4", "main", 4),
        ("main@0x8=4", "main", 4),
        ("main@8=4", "main", 4),
        ("main@0xc=4", "main", None),
        ("main@loop=4", "main", None),
        ("@0x8=4", "whatever", 4),
        ("puts@plt=3", "puts@plt", 3),
        ("puts@plt@0x8=3", "puts@plt", 3),
    ],
)
def test_choices(text: str, name: str, k: int | None) -> None:
    made = graph(2, [(0, 1), (1, 1)], name=name)
    blocks = tuple(block._replace(start=8 * block.id) for block in made.blocks)
    cfg = ControlFlowGraph(name, 0, 0, blocks, made.edges)
    (choice,) = read_choices(text)
    assert (choice.iterations if choice.fits(cfg, 1) else None) == k


def test_last_choice_counts() -> None:
    cfg = named(KITER_1_EDGES, "1", "6")
    for text, k in (("*=3+@2=4", 4), ("@2=4+*=3", 3)):
        assert planned(cfg, choices=read_choices(text)).most_iterations == k


def test_choices_that_fit_no_loop() -> None:
    first = named(KITER_1_EDGES, "1", "6", "first")
    straight = named("1>2 2>3", "1", "3", "straight")
    text = "first=3+second=3+straight=3+@2=2+@3=2+fir*@2=1+*@9=4"
    assert unmatched(text, [first, straight]) == ["second=3", "straight=3", "@3=2", "*@9=4"]
    assert unmatched("straight=3+fi*=3", [straight, first]) == ["straight=3"]
    assert unmatched("", [first]) == []


def test_a_choice_that_fits_no_loop_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    edges = [["A", "B"], ["B", "C"], ["C", "B"], ["C", "D"]]
    file.write_text(json.dumps({"name": "one", "entry": "A", "exit": "D", "edges": edges}))
    for text, told in (("one=3", []), ("@B=3+tow=2+@C=2", ["k-of names no loop: tow=2, @C=2"])):
        scheme = SchemeOptions().having(iterations_of=text)
        answer = analyse_file(file, AnalysisOptions(mode="kiter", scheme=scheme))
        assert answer["warnings"] == [f"kiter: {each}" for each in told]


def test_spelling() -> None:
    chosen = read("kiter:k-of=main=4+sort@0x10400=1:hot=20:give-up=60000:k=3")
    assert dict(chosen.own) == {
        "iterations": 3, "iterations_of": "main=4+sort@0x10400=1", "hot": 20.0, "give_up": 60_000,
    }  # fmt: skip
    assert read(chosen.name) == chosen
    assert read_choices("main=4+sort@0x10400=01") == (
        LoopChoice("main", 4),
        LoopChoice("sort@0x10400", 1),
    )
    assert read_choices("") == ()
    with pytest.raises(ValueError, match="no choice of k"):
        read_choices("4")


@pytest.mark.parametrize("text", ["main", "main=", "main=0", "=3", "a=3+", "+a=3", "a=1001", "a=b"])
def test_misspelled_choices(text: str) -> None:
    with pytest.raises(UsageError, match="ROUTINE=K"):
        read(f"kiter:k-of={text}")


# Hot loops (KITER 8)


def test_hot_loop_of_two() -> None:
    cfg = named("1>2 2>3 3>2 3>4 4>5 5>4 5>6", "1", "6")
    weights = [float(n) for n in (1, 30, 29, 1, 70, 69, 1, 1, 1)]  # 60 and 140 of 202 instructions
    for hot, heads in ((0.0, "24"), (29.7, "24"), (29.8, "4"), (69.3, "4"), (69.4, "")):
        plan = planned(cfg, hot=hot, weights=weights)
        assert "".join(str(cfg.name_of(x.head)) for x in plan.loops) == heads, hot
    just = [float(n) for n in (1, 25, 24, 1, 74, 73, 1, 1, 1)]  # 50 of 200: no less than 25 %
    assert [x.head for x in planned(cfg, hot=25.0, weights=just).loops] == [1, 3]
    cold = planned(cfg, hot=50.0, weights=weights)
    assert [(each.head, each.asked, each.reason) for each in cold.limited] == [(1, 2, "not hot")]
    assert not cold.limits  # the user asked for that
    never = planned(cfg, hot=0.1, weights=[0.0] * len(cfg.edges))
    assert not never.loops
    still = planned(cfg, hot=100.0, weights=weights, choices=read_choices("@2=3"))
    assert [(x.head, x.iterations) for x in still.loops] == [(1, 3)]


# Giving up (KITER 6)


@pytest.mark.parametrize(("limit", "is_given_up"), [(22, True), (23, False), (None, False)])
def test_giving_up(limit: int | None, is_given_up: bool) -> None:
    cfg = named(KITER_1_EDGES, "1", "6")
    plan = give_up(plan_kiter(cfg), limit)
    plan.validate()
    assert plan.untruncated_paths == 23
    assert isinstance(plan, GivenUpPlan) is is_given_up
    if isinstance(plan, GivenUpPlan):
        assert plan.plan == InstrumentationPlan({})
        walks = [ExecutedWalk(tuple(random_walk(random.Random(1), cfg, 9)))]
        reading = plan.read(execute(cfg, plan.plan, walks))
        assert (reading.edges, reading.paths, reading.lost) == (None, {}, {"given_up_routines": 1})
        assert list(plan.numbered_paths()) == []
        with pytest.raises(ValueError, match="not profiled"):
            plan.decode(0)


@pytest.mark.seeds(range(40))
def test_giving_up_by_all_paths(seed: int) -> None:
    rng = random.Random(seed)
    cfg, k = random_loops(rng, 6), rng.choice((1, 2, 3))
    loops = planned(cfg, iterations=k, path_limit=None, total_limit=None).loops
    heads = {loop.head for loop in loops}
    every = len(all_iteration_paths(cfg, [x for x in iterated_loops(cfg, k) if x.head in heads]))
    # A path limit that would lower k saves no routine from being given up.
    for limit, is_given_up in ((every, False), (every - 1, True)):
        if limit:
            plan = give_up(plan_kiter(cfg, iterations=k, path_limit=2), limit)
            assert isinstance(plan, GivenUpPlan) is is_given_up


def test_table_4_gives_up() -> None:
    # The graph of the table's writebytes: 2,307 paths for k = 5, and three times as many for each
    # iteration more, so that k = 8 (62,328) has a cross.
    cfg = graph(4, [(0, 1)] * 3 + [(0, 3)] * 3 + [(1, 2)] * 3 + [(2, 1), (2, 3)])
    options = SchemeOptions.of(iterations=8, give_up=60_000)
    assert isinstance(make_plan(cfg, "kiter", options), GivenUpPlan)
    kept = make_plan(cfg, "kiter", SchemeOptions.of(iterations=7, give_up=60_000))
    assert isinstance(kept, IterationPlan) and kept.num_paths == 20_775
