import random
from collections import Counter

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import check
from simprof.profiler.graphs.numbering import graph_facts
from simprof.profiler.graphs.paths import PathEnd, PathRecord, PathStart
from simprof.profiler.graphs.spanning import maximum_spanning_tree
from simprof.profiler.plan.decoders import UnfinishedPath
from simprof.profiler.plan.path_plan import PathPlan
from simprof.profiler.schemes.pp import RootEdge, plan_pp
from tests.oracles.brute import (
    Outcome,
    Path,
    all_paths,
    graph,
    random_graph,
    random_walk,
    run_plan,
    split,
    structured_graph,
)
from tests.oracles.brute import edge_counts as brute_edge_counts
from tests.support.figures import EPP_1_PROFILES, edge, epp_1, epp_2, letters, named, walk


def unfinished(plan: PathPlan, outcome: Outcome) -> list[tuple[PathRecord, int]]:
    """Take back counts made ahead, as the contract of `decode_partial` says."""
    found = []
    for block, register, last in outcome.early:
        found.append((plan.decode_partial(UnfinishedPath(block, (register,), last, 1)), 1))
        if block in plan.plan.counted_region:
            assert last is not None
            outcome.paths[last] -= 1
    return found


def assert_profile_is_exact(cfg: ControlFlowGraph, plan: PathPlan, walks: list[list[int]]) -> None:
    outcome = run_plan(cfg, plan.plan, walks)
    partial = unfinished(plan, outcome)
    found: Counter[Path] = Counter()
    for path_id, count in outcome.paths.items():
        if count:
            record = plan.decode(path_id)
            found[Path(record.blocks, record.edges, False)] += count
    for record, count in partial:
        assert record.partial
        found[Path(record.blocks, record.edges, True)] += count
    assert found == Counter(path for steps in walks for path in split(cfg, steps, plan.cut_edges))
    true = Counter(step for steps in walks for step in steps)
    counts = plan.edge_counts(outcome.paths, outcome.counters, partial)
    assert counts == tuple(true[each.id] for each in cfg.edges)
    early = Counter(block for block, _, _ in outcome.early)
    check(cfg, counts, early, activations=len(walks))


@pytest.mark.parametrize("profile", [0, 1])
def test_figure_1_profiles_are_told_apart(profile: int) -> None:
    cfg = epp_1()
    plan = plan_pp(cfg)
    expected = {path: counts[profile] for path, counts in EPP_1_PROFILES.items()}
    walks = [walk(cfg, path) for path, count in expected.items() for _ in range(count)]
    outcome = run_plan(cfg, plan.plan, walks)
    found = {letters(cfg, plan.decode(p).blocks): outcome.paths[p] for p in range(plan.num_paths)}
    assert found == expected
    # Both profiles induce the same edge frequencies.
    counts = plan.edge_counts(outcome.paths, outcome.counters)
    assert counts == (120, 150, 100, 20, 250, 110, 160, 160, 270, 270)


def test_figure_2_loop_body_has_the_six_paths_from_both_starts() -> None:
    cfg = epp_2()
    plan = plan_pp(cfg)
    plan.validate()
    records = [plan.decode(path_id) for path_id in range(plan.num_paths)]
    bodies = {letters(cfg, record.blocks) for record in records}
    assert bodies == set(EPP_1_PROFILES)
    ends = {(record.start, record.end) for record in records}
    assert ends == {
        (start, end)
        for start in (PathStart.ENTRY, PathStart.LOOP)
        for end in (PathEnd.EXIT, PathEnd.LOOP)
    }
    assert plan.num_paths == 24


def test_early_end_before_initialisation_and_after_the_count() -> None:
    cfg = named("A>B B>C B>D C>E D>E E>F", "A", "F")
    plan = plan_pp(cfg)
    block = {each.label: each.id for each in cfg.blocks}
    assert block["A"] in plan.static_region
    assert block["F"] in plan.plan.counted_region
    assert_profile_is_exact(
        cfg, plan, [walk(cfg, "ABCEF"), walk(cfg, "ABDEF")[:1], walk(cfg, "ABDEF")[:-1]]
    )


def test_count_ahead_needs_a_count() -> None:
    cfg = named("A>B B>C B>D C>E D>E E>F", "A", "F")
    plan = plan_pp(cfg)
    (vertex,) = [each.id for each in cfg.blocks if each.label == "F"]
    with pytest.raises(ValueError, match="without a count"):
        plan.decode_partial(UnfinishedPath(vertex, (0,), None, 1))


def test_cut_edges_start_and_end_paths() -> None:
    cfg = named("A>B A>C B>D C>D D>E D>F E>G F>G", "A", "G")
    plan = plan_pp(cfg, path_limit=1)
    assert graph_facts(cfg).potential_paths == 4
    records = [plan.decode(path_id) for path_id in range(plan.num_paths)]
    assert {record.start for record in records} == {PathStart.ENTRY, PathStart.CUT}
    assert {record.end for record in records} == {PathEnd.EXIT, PathEnd.CUT}
    assert_profile_is_exact(cfg, plan, [walk(cfg, "ABDEG"), walk(cfg, "ACDEG")[:-2]])


def test_dead_end_is_named() -> None:
    plan = plan_pp(graph(2, [(0, 1), (1, 1)], exits=(0,)))
    assert {plan.decode(path_id).end for path_id in range(2)} == {PathEnd.EXIT, PathEnd.DEAD_END}


def test_one_block() -> None:
    cfg = graph(1, [])
    plan = plan_pp(cfg)
    plan.validate()
    assert plan.decode(0) == PathRecord((0,), (0, 1), PathStart.ENTRY, PathEnd.EXIT)
    assert plan.decode(0).inner_edges(cfg) == ()
    assert_profile_is_exact(cfg, plan, [[0, 1], [0]])


def test_shared_sources_and_heads_of_back_edges() -> None:
    # Both C and D jump back to both A and B: path counts alone leave the four edges open.
    cfg = named("A>B B>C C>D C>A C>B D>A D>B D>E", "A", "E")
    plan = plan_pp(cfg)
    assert len(plan.edge_counters) == 1
    rng = random.Random(3)
    assert_profile_is_exact(cfg, plan, [random_walk(rng, cfg) for _ in range(50)])


@pytest.mark.long
def test_large_routine() -> None:
    rng = random.Random(1)
    count = 3000
    edges = [(block, block + 1) for block in range(count - 1)]
    edges += [(b, min(count - 1, b + rng.randint(2, 30))) for b in range(0, count - 1, 2)]
    edges += [(b, max(0, b - rng.randint(0, 60))) for b in range(0, count, 9)]
    cfg = graph(count, edges)
    plan = plan_pp(cfg)
    plan.validate()
    assert plan.cut_edges
    assert plan.num_paths < 2**31 < graph_facts(cfg).potential_paths
    outcome = run_plan(cfg, plan.plan, [steps := random_walk(rng, cfg, 20_000)])
    partial = unfinished(plan, outcome)
    true = Counter(steps)
    counts = plan.edge_counts(outcome.paths, outcome.counters, partial)
    assert counts == tuple(true[each.id] for each in cfg.edges)


@pytest.mark.seeds(range(150))
def test_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    plan = plan_pp(cfg, path_limit=rng.choice((None, 1, 2, 5, 10**8)))
    plan.validate()
    if plan.num_paths < 2000:
        records = [plan.decode(path_id) for path_id in range(plan.num_paths)]
        found = {Path(record.blocks, record.edges, False) for record in records}
        assert found == all_paths(cfg, plan.cut_edges)
        assert [plan.encode(r.blocks, r.edges) for r in records] == list(range(plan.num_paths))
    assert_profile_is_exact(cfg, plan, [random_walk(rng, cfg, rng.choice((3, 40)))
                                        for _ in range(25)])  # fmt: skip


# -- EXIT -> ENTRY as a chord (EPP 3.3)


def code_of(plan: PathPlan) -> dict[str, str]:
    """By edge "A>B", what its code does."""
    cfg = plan.cfg
    ends = {each.id: f"{cfg.name_of(each.source)}>{cfg.name_of(each.target)}" for each in cfg.edges}
    return {ends[e]: "; ".join(map(str, actions)) for e, actions in plan.plan.actions.items()}


def test_figure_9_has_the_same_code_where_exit_to_entry_is_a_chord() -> None:
    # The tree gets A>B, which joins ENTRY and EXIT through D>F, as A>C>D>F does already: a tree
    # with EXIT -> ENTRY lacks no other edge, so there is one chord of increment 0 less.
    plan = plan_pp(epp_1(), root=RootEdge.CHORD)
    plan.validate()
    figure = {"A>C": "r=0", "B>C": "r=2", "B>D": "r=4", "D>F": "count[r]++", "E>F": "count[r+1]++"}
    assert code_of(plan) == code_of(plan_pp(epp_1())) == figure


def test_a_chord_spares_the_busier_branch_of_a_loop() -> None:
    cfg = named("A>B B>D B>C C>D D>A D>E", "A", "E")
    walks = [walk(cfg, "ABCDE")] * 11 + [walk(cfg, "ABCDABDE")] * 19 + [walk(cfg, "ABDE")] * 2
    weights = brute_edge_counts(cfg, walks)
    busy, idle = weights[edge(cfg, "B>C")], weights[edge(cfg, "B>D")]
    assert (busy, idle) == (30, 21)
    tree, chord, cheaper = (plan_pp(cfg, weights=weights, root=root) for root in RootEdge)
    # A>B>C>D>E is heaviest, and a tree with EXIT -> ENTRY cannot hold all of it: of its lightest
    # edges one becomes a chord beside B>D, whose value is 0. Without EXIT -> ENTRY B>D is the only.
    assert code_of(tree) == {
        "ENTRY>A": "r=0",
        "C>D": "r+=2",
        "D>A": "count[r+1]++; r=4",
        "D>E": "count[r]++",
    }
    assert code_of(chord) == {
        "ENTRY>A": "r=0",
        "B>D": "r-=2",
        "D>A": "count[r+3]++; r=4",
        "D>E": "count[r+2]++",
    }
    assert (tree.increments.root, chord.increments.root) == (0, 2)
    steps = [run_plan(cfg, plan.plan, walks).steps for plan in (tree, chord, cheaper)]
    assert steps[0] - steps[1] == busy - idle
    assert steps[2] == steps[1]
    assert_profile_is_exact(cfg, chord, walks)


def test_straight_code_is_counted_by_what_exit_to_entry_adds() -> None:
    plan = plan_pp(named("A>B", "A", "B"), root=RootEdge.CHORD)
    assert code_of(plan) == {"B>EXIT": "count[0]++"}


@pytest.mark.seeds(range(150))
def test_random_graphs_where_exit_to_entry_is_a_chord(seed: int) -> None:
    rng = random.Random(seed)
    cfg = rng.choice((random_graph, structured_graph))(rng)
    weights = [rng.randint(0, 9) for _ in cfg.edges]
    limit = rng.choice((None, 1, 2, 5, 10**8))
    plan = plan_pp(cfg, path_limit=limit, weights=weights, root=RootEdge.CHORD)
    plan.validate()
    walks = [random_walk(rng, cfg, rng.choice((3, 40))) for _ in range(25)]
    assert_profile_is_exact(cfg, plan, walks)


@pytest.mark.seeds(range(60))
def test_the_weights_of_real_executions_never_make_exit_to_entry_a_chord(seed: int) -> None:
    # In the acyclic graph every path crosses EXIT -> ENTRY, so no edge is as frequent: some tree
    # of greatest weight holds it. Only what counts are merged with makes the chord worth while.
    rng = random.Random(seed)
    cfg = structured_graph(rng)
    walks = [random_walk(rng, cfg, 10**6) for _ in range(10)]
    counts = brute_edge_counts(cfg, walks)
    paths = sum(len(split(cfg, steps)) for steps in walks)
    tree = plan_pp(cfg, weights=counts, path_limit=None)
    weights = tree.dag.edge_weights(counts)
    assert max(weights, default=0) <= paths
    ends = [(each.source, each.target) for each in tree.dag.edges] + [(cfg.exit, cfg.entry)]
    free = maximum_spanning_tree(cfg.vertex_count, ends, (*weights, paths), None)
    assert free.weight((*weights, paths)) == tree.tree.weight(weights) + paths
