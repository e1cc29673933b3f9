import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import make_dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import graph_facts
from simprof.profiler.graphs.paths import PathEnd, PathStart
from simprof.profiler.plan.actions import Execution
from simprof.profiler.plan.interpret import ExecutedWalk, execute, follow
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.request.request import SchemeOptions, TableChoice
from simprof.profiler.schemes.kiter.graph import unroll
from simprof.profiler.schemes.kiter.loops import divide, innermost_loops, read_choices
from simprof.profiler.schemes.kiter.numbering import (
    AcyclicRegion,
    fit,
    fit_within,
    number_iterations,
    table_1,
)
from simprof.profiler.schemes.kiter.planner import IterationPlan, plan_kiter
from simprof.profiler.schemes.pp import plan_pp
from simprof.profiler.schemes.registry import make_plan
from simprof.simulator.errors import UsageError
from tests.oracles.brute import Path, graph, random_graph, random_walk
from tests.oracles.iterations import KLoop, all_iteration_paths, iterated_loops
from tests.support.figures import (
    KITER_1_EDGES,
    KITER_1_TRACE,
    KITER_8_EDGES,
    KITER_8_LISTED,
    KITER_TABLE_1,
    KITER_TABLE_2,
    edge,
    letters,
    named,
    walk,
)
from tests.support.iterations import assert_profile_is_exact
from tests.support.loop_graphs import random_loops


def oracle_loops(cfg: ControlFlowGraph, plan: IterationPlan, k: int) -> list[KLoop]:
    """The loops that should be iterated, with the k that the plan chose for each."""
    chosen = {loop.head: loop.iterations for loop in plan.loops}
    loops = [loop for loop in iterated_loops(cfg, k) if loop.head in chosen]
    assert {loop.head for loop in loops} == set(chosen)
    return [KLoop(x.head, x.body, x.back, chosen[x.head]) for x in loops]


def check_untruncated(cfg: ControlFlowGraph, plan: IterationPlan, k: int) -> None:
    """Without limits every loop has the k asked for, and nothing is cut."""
    if plan.untruncated_paths < 1500:
        loops = oracle_loops(cfg, plan_kiter(cfg, iterations=k, path_limit=None), k)
        assert all(loop.k == k for loop in loops)
        assert plan.untruncated_paths == len(list(all_iteration_paths(cfg, loops, ())))
    assert k > 1 or plan.untruncated_paths == graph_facts(cfg).potential_paths


def check_random_graph(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice((4, 6, 9))
    cfg = random_graph(rng, size) if rng.random() < 0.3 else random_loops(rng, size)
    k = rng.choice((1, 2, 2, 2, 3, 3, 4))
    limit = rng.choice((None, None, None, 10**8, 10**8, 1, 5, 20, 60))
    total = rng.choice((None, 20, 2**31 - 1, 2**31 - 1))
    above = rng.choice((None, 1, 10, 100))
    plan = plan_kiter(
        cfg,
        iterations=k,
        path_limit=limit,
        total_limit=total,
        event_counting=rng.random() < 0.8,
        hash_above=above,
    )
    plan.validate()
    if above is not None:
        assert (plan.plan.table is CounterTable.HASH) == (plan.num_paths > above)
    check_untruncated(cfg, plan, k)
    loops = oracle_loops(cfg, plan, k)
    if limit is None and k > 1:
        clear = {x.head for x in iterated_loops(cfg, k)} - {x.head for x in loops}
        assert not clear or len(iterated_loops(cfg, k)) > len(loops)
    if plan.num_paths < 1500:
        records = list(plan.all_paths())
        assert records == [plan.decode(path_id) for path_id in range(plan.num_paths)]
        found = Counter(Path(record.blocks, record.edges, False) for record in records)
        assert found == Counter(all_iteration_paths(cfg, loops, plan.cut_edges))
    walks = [random_walk(rng, cfg, rng.choice((3, 15, 60))) for _ in range(20)]
    assert_profile_is_exact(cfg, plan, walks, loops)


@pytest.mark.long
@pytest.mark.seeds([*range(150), *range(1000, 1300)])
def test_random_graphs(seed: int) -> None:
    check_random_graph(seed)


# The paper's example


def figure_1(**options: object) -> tuple[ControlFlowGraph, IterationPlan]:
    cfg = named(KITER_1_EDGES, "1", "6", "KITER figure 1")
    plan = plan_kiter(cfg, **options)  # type: ignore[arg-type]
    plan.validate()
    return cfg, plan


def names(cfg: ControlFlowGraph, plan: IterationPlan) -> list[str]:
    return [letters(cfg, record.blocks) for record in plan.all_paths()]


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (1, {"1235": 1, "235": 99, "245": 99, "2456": 1}),
        (2, {"1235245": 1, "235245": 98, "245235": 99, "2352456": 1}),
    ],
)
def test_figure_1_profiles(k: int, expected: dict[str, int]) -> None:
    cfg, plan = figure_1(iterations=k)
    counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(walk(cfg, KITER_1_TRACE)))])
    reading = plan.read(counters)
    found = {letters(cfg, plan.decode(p).blocks): count for p, count in reading.paths.items()}
    assert found == expected
    assert reading.edges == (1, 100, 100, 100, 100, 0, 199, 1, 1, 1)


def test_figure_2_static_paths() -> None:
    # "all the acyclic and k-iteration paths for the graph in figure 1", by the definition.
    cfg, acyclic = figure_1(iterations=1)
    assert set(names(cfg, acyclic)) == {
        "1235", "12356", "1245", "12456", "1246", "235", "2356", "245", "2456", "246",
    }  # fmt: skip
    cfg, plan = figure_1()
    assert len(names(cfg, plan)) == len(set(names(cfg, plan))) == plan.num_paths == 23
    assert not {"2356", "1235"} & set(names(cfg, plan))  # example 1
    assert "12356" in names(cfg, plan)


def test_example_2_loop() -> None:
    cfg, plan = figure_1()
    (loop,) = plan.loops
    assert cfg.name_of(loop.head).start == "2"
    assert sorted(str(cfg.name_of(v)) for v in loop.body) == ["2", "3", "4", "5"]
    assert loop.back_edges == (edge(cfg, "5>2"),)


def test_figure_4_unrolled_graph() -> None:
    cfg, plan = figure_1()
    unrolled = plan.dag

    def name(vertex: int) -> str:
        return str(cfg.name_of(unrolled.vertex[vertex])) + "'" * unrolled.copy[vertex]

    found = {(name(e.source), name(e.target)) for e in unrolled.edges}
    loop = {("2", "3"), ("2", "4"), ("3", "5"), ("4", "5")}
    expected = {(a + t, b + t) for a, b in loop for t in ("'", "''")}
    expected |= {("4'", "6'"), ("4''", "6'"), ("5'", "6'"), ("5''", "6'"), ("5'", "2''")}
    expected |= {("1'", "2'"), ("ENTRY'", "1'"), ("6'", "EXIT'")}
    expected |= {("ENTRY'", "2'"), ("5''", "EXIT'")}  # the dummy edges
    assert found == expected


def test_figure_5_values_and_compensation() -> None:
    cfg, plan = figure_1()
    static = plan.describe()
    values = {"2>4": [6, 2], "4>6": [6, 2], "5>6": [5, 0], "5>2": [0]}
    for each in cfg.edges:
        ends = f"{cfg.name_of(each.source).start}>{cfg.name_of(each.target).start}"
        inside = ends in ("2>3", "3>5", "4>5")
        assert static["values"][each.id] == values.get(ends, [0, 0] if inside else [0]), ends
        given = static["compensation"][each.id]
        assert given == ([1, 0] if ends in ("2>4", "4>6") else [0] * len(given)), ends
    unrolled = plan.dag
    start, end = unrolled.entry_dummy[1], unrolled.exit_dummy[unrolled.copy_of(4, 2)]
    valued = table_1(unrolled, plan.numbering).values
    assert (valued[start], valued[end]) == (13, 1)


def trace_of_algorithm_1(cfg: ControlFlowGraph, plan: IterationPlan) -> list[list[str]]:
    """The rows of table 1 that the plan's numbering implies."""
    unrolled = plan.dag
    table = table_1(unrolled, plan.numbering)
    short = {"ENTRY": "S", "EXIT": "E"}

    def name(vertex: int) -> str:
        found = str(cfg.name_of(unrolled.vertex[vertex]))
        return short.get(found, found)

    rows = []
    for vertex in unrolled.order:
        for number in unrolled.out_edges[vertex]:
            each = unrolled.edges[number]
            target, value = each.target, table.values[number]
            paths = value + table.num_paths[target]
            row = [
                name(vertex),
                f"{name(vertex)}>{name(target)}",
                str(unrolled.copy[each.source]),
            ]
            row += [str(value), str(paths), str(table.compensation[number])]
            rows.append(row)
    return rows


def test_table_1_line_by_line() -> None:
    cfg, plan = figure_1()
    expected = [line.split() for line in KITER_TABLE_1.strip().splitlines()]
    assert trace_of_algorithm_1(cfg, plan) == [row[:6] for row in expected]
    # in(u) after the last edge of each vertex that it is computed for
    invalid = {(row[0], int(row[2])): int(row[6]) for row in expected if len(row) > 6}
    block = {str(cfg.name_of(v)): v for v in range(cfg.vertex_count)} | {"S": cfg.entry}
    for (name, iteration), count in invalid.items():
        vertex = plan.dag.copy_of(block[name], iteration)
        assert table_1(plan.dag, plan.numbering).invalid_paths[vertex] == count, name


def test_figures_6_and_7_without_event_counting() -> None:
    cfg, plan = figure_1(event_counting=False)
    inside = {"2>3": [13, 0], "2>4": [19, 2], "3>5": [0, 1], "4>5": [0, 1], "4>6": [6, 2]}
    inside |= {"5>6": [5, -1], "1>2": [-13], "5>2": [0]}  # figure 6
    for ends, increments in inside.items():
        copies = plan.dag.by_cfg_edge[edge(cfg, ends)]
        assert [plan.increments.increments[copy] for copy in copies] == increments, ends
    code = {
        "1>2": "r-=13 itr:=0",
        "2>3": "c[0]+=13",
        "2>4": "c+=[(18:19), 2]",
        "3>5": "c[1]+=1",
        "4>5": "c[1]+=1",
        "4>6": "c+=[6, 2] c[0]:=c[itr]",  # the paper's (5:6) is of no effect: c[0] is dropped
        "5>6": "c+=[5, -1] c[0]:=c[itr]",
        "5>2": "if f: count[c[1]]++ c[1]:=c[0]; c[0]:=0; (f,itr):=setf(itr)",
        "6>EXIT": "count[r]++",
    }
    for ends, text in code.items():
        actions = plan.plan.actions[edge(cfg, ends)]
        assert " ".join(map(str, actions)) == text, ends


def test_table_2_line_by_line() -> None:
    cfg, plan = figure_1(event_counting=False)
    state = Execution([0] * plan.plan.registers)
    steps = walk(cfg, KITER_1_TRACE)
    rows = iter(KITER_TABLE_2)
    follow(plan.plan, steps[:1], state)
    for step in steps[1 : 1 + len(KITER_TABLE_2)]:
        ends, accumulators, flag, itr, counted = next(rows)
        assert step == edge(cfg, ends)
        before = len(state.counted)
        follow(plan.plan, [step], state)
        assert accumulators in (None, state.registers[:2]), ends
        assert (state.registers[2] == 1, state.registers[2]) == (flag, itr), ends
        assert [each.counter for each in state.counted[before:]] == (
            [] if counted is None else [counted]
        )
    follow(plan.plan, steps[1 + len(KITER_TABLE_2) : -1], state)
    assert state.registers == [15, 0, 0]  # row 5>6
    follow(plan.plan, steps[-1:], state)
    assert state.counted[-1].counter == 15
    paths = {3: "1235245", 19: "245235", 16: "235245", 15: "2352456"}
    assert {each.counter for each in state.counted} == set(paths)
    for path_id, blocks in paths.items():
        assert letters(cfg, plan.decode(path_id).blocks) == blocks


def test_figure_8_mixed_mode() -> None:
    cfg = named(KITER_8_EDGES, "1", "7", "KITER figure 8")
    plan = plan_kiter(cfg)
    plan.validate()
    assert [cfg.name_of(loop.head).start for loop in plan.loops] == ["2", "4"]
    assert plan.dag.removed == (edge(cfg, "6>4"),)  # L3 is acyclic
    found = names(cfg, plan)
    assert set(KITER_8_LISTED.split()) <= set(found)
    behind = ["454567", "45456", "4545", "4567", "456"]  # from block 4
    through = [start + rest for start in ("12323", "123", "2323") for rest in behind]
    assert sorted(found) == sorted([*through, "12323", "2323", *behind])
    twice = plan_kiter(cfg, choices=read_choices("@2=3+@4=2"))  # L1 three times, L2 twice
    assert [loop.iterations for loop in twice.loops] == [3, 2]
    assert "1232323454567" in names(cfg, twice)


def test_three_iterations_begun_before_the_flag_is_set() -> None:
    # With algorithm 3's one flag the path begun in iteration 2 is counted under a wrong number.
    cfg, plan = figure_1(iterations=3)
    steps = walk(cfg, "1" + "245" * 5 + "6")
    assert_profile_is_exact(cfg, plan, [steps], oracle_loops(cfg, plan, 3))
    reading = plan.read(execute(cfg, plan.plan, [ExecutedWalk(tuple(steps))]))
    found = {letters(cfg, plan.decode(p).blocks): count for p, count in reading.paths.items()}
    assert found == {"1" + "245" * 3: 1, "245" * 3: 1, "245" * 3 + "6": 1}


# Table 4: how static paths grow with k


def test_table_4_writebytes() -> None:
    # Three ways into a loop of three ways, and three past it.
    cfg = graph(4, [(0, 1)] * 3 + [(0, 3)] * 3 + [(1, 2)] * 3 + [(2, 1), (2, 3)])
    assert [plan_kiter(cfg, iterations=k).num_paths for k in range(1, 6)] == [
        27,
        84,
        255,
        768,
        2307,
    ]


def test_table_4_cl_hash() -> None:
    # Two loops of one way, the first of which can be passed by.
    cfg = graph(6, [(0, 1), (0, 3), (1, 2), (2, 1), (2, 3), (3, 4), (4, 3), (4, 5)])
    paths = [plan_kiter(cfg, iterations=k).num_paths for k in range(1, 6)]
    assert paths == [10, 16, 24, 34, 46]


# One iteration: EPP


@pytest.mark.seeds(range(60))
def test_one_iteration_is_pp(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng) if seed % 2 else random_loops(rng)
    limit = rng.choice((None, 1, 5, 10**8))
    once, acyclic = plan_kiter(cfg, iterations=1, path_limit=limit), plan_pp(cfg, path_limit=limit)
    assert once.plan == acyclic.plan
    assert once.edge_counters == acyclic.edge_counters
    assert once.static_region == acyclic.static_region
    assert once.num_paths == acyclic.num_paths
    if once.num_paths < 1000:
        assert list(once.all_paths()) == list(acyclic.all_paths())


@pytest.mark.parametrize("k", [2, 3])
def test_no_loop_is_pp(k: int) -> None:
    cfg = graph(4, [(0, 1), (0, 2), (1, 3), (2, 3), (1, 1)])
    assert plan_kiter(cfg, iterations=k).plan == plan_pp(cfg).plan


# Loops of every shape


def exact(cfg: ControlFlowGraph, k: int = 2, seed: int = 1) -> IterationPlan:
    """Plan, and compare many random walks with the definition."""
    plan = plan_kiter(cfg, iterations=k)
    plan.validate()
    loops = oracle_loops(cfg, plan, k)
    rng = random.Random(seed)
    walks = [random_walk(rng, cfg, rng.choice((5, 30, 80))) for _ in range(60)]
    assert_profile_is_exact(cfg, plan, walks, loops)
    return plan


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize(
    ("edges", "heads"),
    [
        ("1>2 2>3 3>2 3>4 2>4", "2"),
        ("1>2 2>3 2>4 3>2 4>2 4>5", "2"),  # two tails, one loop
        ("1>2 2>3 3>2 3>4 4>2 4>5", "2"),  # nested, one head: 3>2 is the inner loop
        ("1>2 2>3 3>4 4>3 4>2 4>5 3>5", "3"),  # 4>2 ends paths, 4>5 leaves two loops
        ("1>2 2>3 3>2 3>4 4>5 5>4 5>6", "24"),  # an exit that enters another loop
        ("1>2 2>3 3>2 3>2 2>2 3>4", "2"),  # parallel back edges, a self-loop inside
        ("1>2 1>3 2>3 3>2 3>4 4>5 5>4 5>6", "4"),  # the first loop has two entries
    ],
)
def test_loop_shapes(edges: str, heads: str, k: int) -> None:
    last = str(max(int(label) for label in edges.replace(">", " ").split()))
    cfg = named(edges, "1", last)
    plan = exact(cfg, k)
    assert "".join(str(cfg.name_of(loop.head)) for loop in plan.loops) == heads


def test_loop_entered_in_the_middle_is_acyclic() -> None:
    cfg = graph(4, [(0, 1), (1, 2), (2, 1), (2, 3)], entries=(0, 2))
    assert not exact(cfg).loops
    at_head = graph(4, [(0, 1), (1, 2), (2, 1), (2, 3)], entries=(0, 1))
    assert len(exact(at_head).loops) == 1


def test_routine_that_is_never_left() -> None:
    cfg = graph(3, [(0, 1), (1, 2), (2, 1)], exits=())
    plan = exact(cfg, 3)
    reading = plan.read(execute(cfg, plan.plan, [ExecutedWalk((3, 0, 1, 2, 1, 2, 1), 4)]))
    (record,) = reading.partial
    assert record.blocks == (0, 1, 2, 1, 2, 1, 2)
    assert (record.start, record.end) == (PathStart.ENTRY, PathEnd.PARTIAL)
    assert reading.paths == {}


def test_ambiguous_loop_is_left_acyclic() -> None:
    # 2 is the head of the inner loop 2>3, 3>2 and of an outer one; 3 also jumps back to 1.
    cfg = named("0>1 1>2 2>3 3>2 3>4 4>2 3>1 4>5", "0", "5")
    assert not exact(cfg).loops


def test_one_block() -> None:
    cfg = graph(1, [])
    plan = exact(cfg)
    assert plan.num_paths == 1
    exact(graph(1, [(0, 0)]))


def test_start_and_end_of_iterated_paths() -> None:
    cfg, plan = figure_1()
    ends = {(letters(cfg, r.blocks), r.start, r.end) for r in plan.all_paths()}
    assert ("235235", PathStart.LOOP, PathEnd.LOOP) in ends
    assert ("2352356", PathStart.LOOP, PathEnd.EXIT) in ends
    record = plan.decode(16)
    assert edge(cfg, "5>2") in record.edges  # inner back edges are listed


# Limits and arguments


def test_path_limit_lowers_k_by_loop() -> None:
    # A loop of four ways before one of one way.
    cfg = graph(7, [(0, 1)] + [(1, 2)] * 4 + [(2, 1), (2, 3), (3, 4), (4, 3), (4, 5), (5, 6)])
    full = plan_kiter(cfg, iterations=4, path_limit=None)
    assert [loop.iterations for loop in full.loops] == [4, 4]
    less = plan_kiter(cfg, iterations=4, path_limit=300)
    less.validate()
    assert [loop.iterations for loop in less.loops] == [2, 4]
    assert 200 < less.num_paths <= 300  # no vertex has more than 200
    only = plan_kiter(cfg, iterations=4, path_limit=1)
    assert not only.loops
    assert only.plan == plan_pp(cfg, path_limit=1).plan


def test_enormous_routines() -> None:
    rng = random.Random(1)
    count = 400
    edges = [(b, b + 1) for b in range(count - 1)]
    edges += [(b, min(b + 2, count - 1)) for b in range(count - 1) if (b + 1) % 20 != 10]
    edges += [(b + 3, b) for b in range(10, count - 10, 20)]
    cfg = graph(count, edges)
    assert plan_kiter(cfg, path_limit=None).num_paths > 10**30
    plan = plan_kiter(cfg, iterations=3)
    plan.validate()
    assert plan.num_paths < 2**31
    assert plan.cut_edges and len(plan.loops) > 5
    walks = [random_walk(rng, cfg, 2000) for _ in range(10)]
    for each in (plan, plan_kiter(cfg, iterations=3, path_limit=None)):
        loops = [KLoop(x.head, x.body, frozenset(x.back_edges), 3) for x in each.loops]
        assert_profile_is_exact(cfg, each, walks, loops)


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_an_error(k: int) -> None:
    with pytest.raises(UsageError, match="at least 1 iteration"):
        plan_kiter(graph(1, []), iterations=k)


def test_no_such_path() -> None:
    _, plan = figure_1()
    for number in (-1, 23):
        with pytest.raises(ValueError, match="no path"):
            plan.decode(number)


@pytest.mark.seeds(range(200))
def test_choices_within_limits(seed: int) -> None:
    """Paths are counted without numbering them; thresholds are left out that change nothing."""
    rng = random.Random(seed)
    cfg = random_loops(rng, 9) if seed % 2 else random_graph(rng)
    dfs = depth_first(cfg)
    k = rng.randint(2, 4)
    nests = innermost_loops(cfg, dfs, k)
    (region,) = divide(cfg, nests, {each.loop.back_edges: k for each in nests})
    for limit in (0, 1, 2, 5, 10, 20, 50):
        found = fit(cfg, dfs, region, limit)
        assert found.paths == number_iterations(unroll(cfg, dfs, (found,))).total
        ways = AcyclicRegion(cfg, dfs, region, make_dag(cfg, dfs))
        thresholds = [max(limit >> bits, 1) for bits in range(7)] if limit else [math.inf]
        each = [fit_within(ways, threshold) for threshold in thresholds]
        fitting = (x for x in each if x is None or not limit or x.region.paths <= limit)
        first = next(fitting, None)
        assert found == (replace(found, loops=()) if first is None else first.region)


# What event counting saves


def increments(plan: IterationPlan, counts: Sequence[int]) -> int:
    """How often something is added to an accumulator, by the copies of the edges."""
    return sum(
        counts[each.cfg_edge]
        for each in plan.dag.edges
        if each.cfg_edge is not None and plan.increments.increments[each.id]
    )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_event_counting_keeps_increments_off_busy_edges(k: int) -> None:
    total = [0, 0]
    for seed in range(40):
        rng = random.Random(seed)
        cfg = random_loops(rng)
        crossed = Counter(step for _ in range(10) for step in random_walk(rng, cfg, 60))
        counts = [crossed[each.id] for each in cfg.edges]
        best, plain = (
            increments(plan_kiter(cfg, iterations=k, weights=counts, event_counting=on), counts)
            for on in (True, False)
        )
        assert best <= plain
        total = [total[0] + best, total[1] + plain]
    assert 0 < total[0] < 0.7 * total[1]


def test_options_of_the_papers_measurements() -> None:
    """KITER 6: without optimised placement, and hash tables beyond 6,000 paths."""
    cfg = graph(6, [(0, 1)] + [(1, 2)] * 90 + [(2, 3), (3, 1), (3, 4), (4, 5)])
    counts = {k: plan_kiter(cfg, iterations=k).num_paths for k in (1, 2)}
    assert counts[1] < 6_000 < counts[2]
    for k, expected in ((1, CounterTable.ARRAY), (2, CounterTable.HASH)):
        made = make_plan(cfg, "kiter", SchemeOptions.of(iterations=k, hash_above=6_000))
        assert made.plan.table is expected
        forced = SchemeOptions.of(iterations=k, hash_above=6_000, table=TableChoice.ARRAY)
        assert make_plan(cfg, "kiter", forced).plan.table is CounterTable.ARRAY
    wide = graph(3, [(0, 1)] * 70 + [(1, 2)] * 70)  # 4,900 paths: increments for EPP's hash table
    assert make_plan(wide, "kiter", SchemeOptions()).plan.table is CounterTable.HASH
    array = make_plan(wide, "kiter", SchemeOptions.of(hash_above=6_000)).plan
    assert (array.table, array.path_counters) == (CounterTable.ARRAY, 4_900)
    plain = make_plan(cfg, "kiter", SchemeOptions.of(unoptimised=True))
    assert plain.plan == plan_kiter(cfg, event_counting=False).plan != plan_kiter(cfg).plan
