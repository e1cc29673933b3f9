import random
from collections import Counter

import pytest

from simprof.profiler.code.hash_routine import MAX_WORDS, code_key, key_code
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import check
from simprof.profiler.graphs.numbering import graph_facts
from simprof.profiler.graphs.paths import PathEnd, PathRecord, PathStart
from simprof.profiler.plan.actions import CountPath
from simprof.profiler.plan.decoders import Reading
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.path_plan import PathPlan
from simprof.profiler.plan.placement import choose_table, wastes_space
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.profiler.schemes.bittrace import codes as branch_codes
from simprof.profiler.schemes.bittrace.code import ShiftBits
from simprof.profiler.schemes.bittrace.codes import WORD_BITS
from simprof.profiler.schemes.bittrace.planner import BitTracePlan, plan_bittrace
from simprof.profiler.schemes.pp import plan_pp
from simprof.simulator.errors import UsageError
from tests.oracles.brute import Path as BrutePath
from tests.oracles.brute import all_paths, graph, random_graph, random_walk, split
from tests.support.figures import (
    EPP_1_PROFILES,
    EPP_2_ENCODING,
    edge,
    epp_1,
    epp_2,
    epp_10,
    letters,
    named,
    walk,
)


def read(plan: BitTracePlan | PathPlan, walks: list[list[int]]) -> Reading:
    counted = Counter(map(tuple, walks))
    executed = (ExecutedWalk(steps, count) for steps, count in counted.items())
    return plan.read(execute(plan.cfg, plan.plan, executed))


def profile(plan: BitTracePlan | PathPlan, reading: Reading) -> Counter[PathRecord]:
    """Whole and unfinished paths with their counts."""
    whole = {plan.decode(path_id): count for path_id, count in reading.paths.items()}
    assert len(whole) == len(reading.paths)
    return Counter(whole) + Counter(reading.partial)


def assert_exact(cfg: ControlFlowGraph, plan: BitTracePlan, walks: list[list[int]]) -> None:
    reading = read(plan, walks)
    true = Counter(path for steps in walks for path in split(cfg, steps, plan.cut_edges))
    found = Counter(
        {BrutePath(p.blocks, p.edges, p.partial): n for p, n in profile(plan, reading).items()}
    )
    assert found == true
    crossed = Counter(step for steps in walks for step in steps)
    assert reading.edges == tuple(crossed[each.id] for each in cfg.edges)
    ends = Counter(cfg.edges[steps[-1]].target for steps in walks)
    del ends[cfg.exit]
    check(cfg, reading.all_edges or (), ends, activations=len(walks))


def assert_same_paths(plan: BitTracePlan, reference: PathPlan) -> None:
    assert set(plan.dag.dfs.back_edges) == set(reference.dag.dfs.back_edges)
    assert plan.cut_edges == reference.cut_edges
    assert plan.num_paths == reference.num_paths
    records = list(reference.all_paths())
    assert list(plan.all_paths()) == records
    ids = [plan.encode(record.blocks, record.edges) for record in records]
    assert len(set(ids)) == len(ids)
    assert [plan.decode(path_id) for path_id in ids] == records


def forks(count: int, switch: int = 2) -> ControlFlowGraph:
    """Return a chain of `count` conditionals (of `switch` ways each)."""
    edges = []
    for fork in range(count):
        top, bottom = fork * (switch + 1), (fork + 1) * (switch + 1)
        for way in range(1, switch + 1):
            edges += [(top, top + way), (top + way, bottom)]
    return graph(count * (switch + 1) + 1, edges)


def forks_and_switch(count: int, ways: int) -> ControlFlowGraph:
    """Return a chain of `count` conditionals, then a switch of so many ways."""
    edges = [edge for fork in range(count) for edge in _fork(3 * fork, 2)]
    return graph(3 * count + ways + 2, [*edges, *_fork(3 * count, ways)])


def _fork(top: int, ways: int) -> list[tuple[int, int]]:
    bottom = top + ways + 1
    arms = range(top + 1, bottom)
    return [(top, arm) for arm in arms] + [(arm, bottom) for arm in arms]


def ways_out(count: int) -> ControlFlowGraph:
    """Return a chain of `count` conditionals, each of which may leave for the common end."""
    edges = [(block, block + 1) for block in range(count)]
    edges += [(block, count) for block in range(count - 1)]
    return graph(count + 1, edges)


# -- EPP section 2


def test_chain_of_conditionals_is_compact() -> None:
    """EPP section 2: the codes of if-then-else chains are as compact as path numbers."""
    for count in range(1, 9):
        plan, reference = plan_bittrace(forks(count)), plan_pp(forks(count))
        assert plan.num_paths == reference.num_paths == 1 << count
        codes = sorted(plan.encode(p.blocks, p.edges) for p in plan.all_paths())
        assert codes == list(range(1 << count))
        assert plan.plan.path_counters == 1 << count


def test_figure_1_takes_an_array_of_more_entries_than_paths() -> None:
    """EPP section 2: in general the codes are not the most compact, however bits are chosen.

    A, B and D are predicates: paths take two bits or three, six codes of eight.
    """
    plan = plan_bittrace(epp_1())
    codes = {letters(plan.cfg, p.blocks): plan.encode(p.blocks, p.edges) for p in plan.all_paths()}
    assert set(codes) == set(EPP_2_ENCODING)
    assert plan.num_paths == 6
    assert 6 < plan.plan.path_counters <= 2 * 6
    assert sorted(codes.values())[-1] == plan.plan.path_counters - 1


def test_multi_way_branches_take_several_bits() -> None:
    plan = plan_bittrace(forks(1, switch=5))
    shifts = [
        action
        for actions in plan.plan.actions.values()
        for action in actions
        if isinstance(action, ShiftBits)
    ]
    assert sorted(shifts, key=str) == [ShiftBits(label, 3) for label in range(5)]
    assert plan.plan.path_counters == 5


@pytest.mark.parametrize("cfg", [epp_1(), epp_2(), epp_10()], ids=lambda cfg: str(cfg.name))
def test_every_predicate_is_instrumented(cfg: ControlFlowGraph) -> None:
    """EPP section 2: path profiling may leave some out, bit tracing may not."""
    plan = plan_bittrace(cfg)
    for block in cfg.blocks:
        out = cfg.out_edges[block.id]
        shifted = [
            any(isinstance(action, ShiftBits) for action in plan.plan.actions.get(each, ()))
            for each in out
        ]
        assert shifted == [len(out) > 1] * len(out)
    chords = plan_pp(cfg).tree.chords
    assert sum(len(cfg.out_edges[b.id]) for b in cfg.blocks if len(cfg.out_edges[b.id]) > 1) > len(
        chords
    )


@pytest.mark.parametrize("which", [0, 1])
def test_figure_1_profiles_are_told_apart(which: int) -> None:
    cfg = epp_1()
    plan = plan_bittrace(cfg)
    walks = [walk(cfg, path) for path, n in EPP_1_PROFILES.items() for _ in range(n[which])]
    reading = read(plan, walks)
    found = {letters(cfg, record.blocks): n for record, n in profile(plan, reading).items()}
    assert found == {path: n[which] for path, n in EPP_1_PROFILES.items() if n[which]}
    assert reading.edges == (120, 150, 100, 20, 250, 110, 160, 160, 270, 270)


def test_loop_paths_from_both_starts_have_their_own_codes() -> None:
    plan = plan_bittrace(epp_2())
    plan.validate()
    assert_same_paths(plan, plan_pp(epp_2()))
    ends = {(p.start, p.end) for p in plan.all_paths()}
    assert ends == {(s, e) for s in (PathStart.ENTRY, PathStart.LOOP)
                    for e in (PathEnd.EXIT, PathEnd.LOOP)}  # fmt: skip
    actions = plan.plan.actions[edge(plan.cfg, "F>A")]
    assert CountPath(0, on_back_edge=True) in actions
    assert [str(action) for action in actions][1:] == [
        "count[r]++",
        f"r={plan.codes.initial[plan.dag.entry_dummy[0]]}",
    ]


# -- tables


def test_chains_of_conditionals_have_the_table_of_pp() -> None:
    small, large = plan_bittrace(forks(12)).plan, plan_bittrace(forks(13)).plan
    assert (small.table, small.path_counters) == (CounterTable.ARRAY, 4096)
    assert small.addressing is Addressing.INDEX
    assert (large.table, large.path_counters, large.addressing) == (CounterTable.HASH, 0, None)
    assert plan_pp(forks(12)).plan.table is CounterTable.ARRAY
    assert plan_pp(forks(13)).plan.table is CounterTable.HASH


def test_five_thousand_paths_are_an_array_as_for_pp() -> None:
    """EPP 5.3 is about increments: more than 4096 paths may have an array."""
    cfg = forks_and_switch(10, ways=5)
    reference, plan = plan_pp(cfg), plan_bittrace(cfg)
    assert reference.num_paths == plan.num_paths == 5120
    assert reference.increments.greatest <= 4095
    assert reference.plan.table is plan.plan.table is CounterTable.ARRAY
    assert (reference.plan.path_counters, plan.plan.path_counters) == (5120, 8189)


@pytest.mark.parametrize(
    ("counters", "paths", "wasted"),
    [(4096, 1, False), (4097, 1, True), (8190, 4095, False), (8191, 4095, True), (None, 1, True)],
)
def test_sparse_codes_waste_an_array(counters: int | None, paths: int, wasted: bool) -> None:
    assert wastes_space(counters, paths) is wasted
    natural = (CounterTable.HASH, None) if wasted else (CounterTable.ARRAY, Addressing.INDEX)
    assert choose_table(7, None, wasted) == natural
    assert choose_table(7, CounterTable.ARRAY, wasted) == (CounterTable.ARRAY, Addressing.INDEX)
    assert choose_table(4096, None, wasted) == (CounterTable.HASH, None)


def test_table_can_be_forced() -> None:
    hashed = plan_bittrace(epp_1(), table=CounterTable.HASH).plan
    assert (hashed.table, hashed.path_counters) == (CounterTable.HASH, 0)
    array = plan_bittrace(forks(13), table=CounterTable.ARRAY).plan
    assert (array.table, array.path_counters) == (CounterTable.ARRAY, 8192)
    with pytest.raises(UsageError, match="words cannot index an array"):
        plan_bittrace(ways_out(40), table=CounterTable.ARRAY)


def test_early_ways_out_span_more_than_an_array() -> None:
    """One path a conditional, but a bit each: 14 paths need a hash table, with `pp` an array."""
    plan, reference = plan_bittrace(ways_out(14)), plan_pp(ways_out(14))
    assert plan.num_paths == reference.num_paths == 14
    assert plan.plan.table is CounterTable.HASH
    assert reference.plan.table is CounterTable.ARRAY


# -- codes of several words


@pytest.mark.parametrize("count", [30, 31, 32, 33, 61, 62, 63, 100, 118])
def test_long_paths_are_those_of_pp(count: int) -> None:
    cfg = ways_out(count)
    plan = plan_bittrace(cfg)
    plan.validate()
    assert_same_paths(plan, plan_pp(cfg))
    assert 1 <= plan.codes.word_count <= MAX_WORDS
    assert (plan.codes.word_count > 1) == (count - 1 > WORD_BITS)
    rng = random.Random(count)
    walks = [random_walk(rng, cfg, rng.choice((3, 20, 200))) for _ in range(40)]
    longest = [cfg.in_edges[0][0], *range(count)]
    assert_exact(cfg, plan, [*walks, [*longest, len(cfg.edges) - 1], longest])


@pytest.mark.long
def test_paths_beyond_the_last_word_are_cut() -> None:
    cfg = ways_out(600)
    plan = plan_bittrace(cfg)
    plan.validate()
    assert plan.codes.word_count == MAX_WORDS
    assert plan.cut_edges
    assert graph_facts(cfg).potential_paths == 600
    rng = random.Random(1)
    inner = [e.id for e in cfg.edges[:600]]
    walks = [[cfg.in_edges[0][0], *inner[: rng.randrange(599)]] for _ in range(50)]
    assert_exact(cfg, plan, [*walks, [cfg.in_edges[0][0], *inner, len(cfg.edges) - 1]])


def test_astronomically_many_paths() -> None:
    cfg = forks(100)
    plan, reference = plan_bittrace(cfg), plan_pp(cfg)
    plan.validate()
    assert graph_facts(cfg).potential_paths == 1 << 100
    assert plan.cut_edges == reference.cut_edges
    rng = random.Random(5)
    assert_exact(cfg, plan, [random_walk(rng, cfg, 1000) for _ in range(20)])


def test_starts_in_later_words() -> None:
    """A loop head far down a chain of early ways out: its paths leave the first words empty."""
    count = 70
    edges = [(b, b + 1) for b in range(count)] + [(b, count) for b in range(count - 1)]
    cfg = graph(count + 1, [*edges, (50, 50), (60, 50), (65, 20), (65, 65)])
    plan = plan_bittrace(cfg)
    plan.validate()
    assert_same_paths(plan, plan_pp(cfg))
    assert len({plan.codes.words[plan.dag.edges[start].target] for start in plan.codes.initial}) > 1
    rng = random.Random(7)
    walks = []
    for _ in range(60):
        steps, block = [cfg.in_edges[0][0]], 0
        while block < count and rng.random() < 0.995:
            back = [e for e in cfg.out_edges[block] if cfg.edges[e].target <= block]
            step = rng.choice(back) if back and rng.random() < 0.5 else cfg.out_edges[block][0]
            steps.append(step)
            block = cfg.edges[step].target
        walks.append(steps)
    assert_exact(cfg, plan, walks)


def check_short_words(seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Split codes into words of a few bits, on any graph; return how many words there are."""
    rng = random.Random(seed)
    cfg = random_graph(rng, rng.choice((9, 14)))
    limit = rng.choice((None, 5))
    monkeypatch.setattr(branch_codes, "WORD_BITS", WORD_BITS)
    codes = plan_bittrace(cfg, path_limit=limit).codes
    # A word must hold an initial value and a label, with cut edges among what they tell apart.
    least = len(codes.initial).bit_length() + max(codes.widths) + 2
    monkeypatch.setattr(branch_codes, "WORD_BITS", least + rng.randrange(2))
    plan = plan_bittrace(cfg, path_limit=limit, merged=rng.random() < 0.5)
    plan.validate()
    if plan.num_paths < 2000:
        ids = [plan.encode(record.blocks, record.edges) for record in plan.all_paths()]
        assert len(set(ids)) == len(ids) == plan.num_paths
        assert [plan.decode(path_id) for path_id in ids] == list(plan.all_paths())
    assert_exact(cfg, plan, [random_walk(rng, cfg, rng.choice((3, 40))) for _ in range(25)])
    return plan.codes.word_count


@pytest.mark.parametrize("graphs", [100, pytest.param(400, marks=pytest.mark.long)])
def test_random_graphs_with_short_words(monkeypatch: pytest.MonkeyPatch, graphs: int) -> None:
    counts = Counter(check_short_words(seed, monkeypatch) for seed in range(graphs))
    assert set(counts) >= {1, 2, 3}, counts


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_keys_hold_all_words(count: int) -> None:
    rng = random.Random(count)
    for _ in range(50):
        words = tuple(rng.getrandbits(WORD_BITS) for _ in range(count))
        key = code_key(words)
        assert key_code(key, count) == words
        folded = 0
        for word in words:
            folded ^= word
        assert key & 0xFFFFFFFF == folded
        assert count > 2 or key < 1 << 63


def test_unknown_codes_are_refused() -> None:
    plan = plan_bittrace(epp_1())
    known = {plan.encode(p.blocks, p.edges) for p in plan.all_paths()}
    for number in set(range(-2, plan.plan.path_counters + 9)) - known:
        with pytest.raises(ValueError, match="has no path"):
            plan.decode(number)


# -- shapes


def test_one_block_needs_no_register() -> None:
    cfg = graph(1, [])
    plan = plan_bittrace(cfg)
    plan.validate()
    assert not plan.plan.uses_register
    assert [str(a) for actions in plan.plan.actions.values() for a in actions] == ["count[0]++"]
    assert_exact(cfg, plan, [[0, 1], [0], [0, 1]])


def test_self_loop_has_a_counter_and_no_bit() -> None:
    cfg = named("A>A A>B", "A", "B")
    plan = plan_bittrace(cfg)
    assert [str(a) for a in plan.plan.actions[edge(cfg, "A>A")]] == ["edge[0]++"]
    assert plan.num_paths == 1
    assert_exact(cfg, plan, [[2, 0, 0, 1, 3], [2, 0]])


def test_routine_that_is_never_left() -> None:
    cfg = graph(3, [(0, 1), (0, 2), (1, 0), (2, 2)], exits=())
    plan = plan_bittrace(cfg)
    plan.validate()
    assert_same_paths(plan, plan_pp(cfg))
    assert_exact(cfg, plan, [[4, 0, 2, 0, 2, 1, 3, 3]])


def check_random_graph(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng, rng.choice((5, 9, 14)))
    limit = rng.choice((None, 1, 2, 5, 10**8))
    table = rng.choice((None, CounterTable.HASH))
    plan = plan_bittrace(cfg, path_limit=limit, table=table, merged=rng.random() < 0.5)
    plan.validate()
    reference = plan_pp(cfg, path_limit=limit)
    assert plan.cut_edges == reference.cut_edges
    if plan.num_paths < 2000:
        assert_same_paths(plan, reference)
        found = {BrutePath(p.blocks, p.edges, False) for p in plan.all_paths()}
        assert found == all_paths(cfg, plan.cut_edges)
    walks = [random_walk(rng, cfg, rng.choice((3, 40))) for _ in range(25)]
    assert_exact(cfg, plan, walks)
    if table is None and plan.codes.largest is not None and plan.codes.largest < 4096:
        assert plan.plan.table is reference.plan.table
    mine, theirs = read(plan, walks), read(reference, walks)
    assert profile(plan, mine) == profile(reference, theirs)
    assert mine.edges == theirs.edges
    apart, merged = (
        plan_bittrace(cfg, path_limit=limit, table=table, merged=each) for each in (False, True)
    )
    done = [[executed(each, steps) for steps in walks] for each in (apart, merged)]
    assert all(less <= more for more, less in zip(*done, strict=True))


def executed(plan: BitTracePlan, steps: list[int]) -> int:
    """Count the actions that an activation executes."""
    return sum(len(plan.plan.actions.get(step, ())) for step in steps)


def test_figure_1_sets_the_register_at_the_first_outcome_and_counts_at_the_last() -> None:
    cfg = epp_1()
    apart, merged = (plan_bittrace(cfg, merged=each) for each in (False, True))
    parts = ("ENTRY>A", "A>B", "A>C", "D>E", "D>F", "F>EXIT")
    first = {edge(cfg, ends): ends for ends in parts}
    done = [
        {
            ends: "; ".join(map(str, plan.plan.actions.get(number, ())))
            for number, ends in first.items()
        }
        for plan in (apart, merged)
    ]
    assert done == [
        {
            "ENTRY>A": "r=0",
            "A>B": "r=r<<1|1",
            "A>C": "r=r<<1|0",
            "D>E": "r=r<<1|1",
            "D>F": "r=r<<1|0",
            "F>EXIT": "count[r]++",
        },
        {
            "ENTRY>A": "",
            "A>B": "r=1",
            "A>C": "r=0",
            "D>E": "count[r<<1|1]++",
            "D>F": "count[r<<1|0]++",
            "F>EXIT": "",
        },
    ]
    others = apart.plan.actions.keys() - first.keys()
    assert {number: merged.plan.actions[number] for number in others} == {
        number: apart.plan.actions[number] for number in others
    }
    # An activation that ends in A has set nothing yet, one that ends in E or F is counted already.
    ends = [walk(cfg, "ABDEF")[:length] for length in (1, 2, 4, 5)]
    assert_exact(cfg, merged, [*ends, walk(cfg, "ACDF"), walk(cfg, "ACDF")[:-1]])


def test_a_way_without_predicates_needs_no_register() -> None:
    cfg = named("A>B A>C B>D C>D", "A", "D")
    plan = plan_bittrace(named("A>B B>C", "A", "C"), merged=True)
    assert set(plan.static_region) == {block.id for block in plan.cfg.blocks}
    assert_exact(plan.cfg, plan, [walk(plan.cfg, "ABC"), walk(plan.cfg, "ABC")[:2]])
    assert_exact(cfg, plan_bittrace(cfg, merged=True), [walk(cfg, "ABD"), walk(cfg, "ACD")[:1]])


@pytest.mark.seeds(range(400), few=100)
def test_random_graphs(seed: int) -> None:
    check_random_graph(seed)
