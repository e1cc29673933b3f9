"""Every mode on random multigraphs and random executions, against brute force.

Graphs are irreducible, have parallel edges, self-loops, unreachable blocks, blocks that are never
left, several entries; activations end early anywhere. `--long` runs more of
them, fresh ones too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from simprof.profiler.code.pricing import Pricer, added, part_cost
from simprof.profiler.graphfiles.execution import check_counters, price
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan import interpret
from simprof.profiler.plan.actions import Burst, Guard
from simprof.profiler.plan.decoders import Plan, Reading, RoutineCounters
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.request.request import SchemeOptions, TableChoice
from simprof.profiler.schemes.cs6120.code import LogDestination, LogDisrupt, LogSource
from simprof.profiler.schemes.pp import RootEdge
from simprof.profiler.schemes.ppp.options import ValuePlaces
from simprof.profiler.schemes.ppp.planner import PredictedPlan
from simprof.profiler.schemes.qpt.options import VertexPlacement
from simprof.profiler.schemes.registry import make_plan, planned_modes
from tests.oracles.brute import (
    Loop,
    Path,
    all_paths,
    back_edges,
    block_counts,
    branch_windows,
    early_ends,
    edge_counts,
    graph,
    random_graph,
    random_walk,
    reachable,
    regenerate,
    split,
    split_iterations,
    split_sequences,
    structured_graph,
)
from tests.support.figures import edge, letters, named, walk
from tests.support.scheme_code import GENERATORS
from tests.support.turns import turns

GRAPHS = 100
LONG_GRAPHS = 40
Walks = list[list[int]]


@dataclass(frozen=True)
class Case:
    """A plan that was executed, and what it read."""

    seed: int
    cfg: ControlFlowGraph
    walks: Walks
    plan: Plan
    counters: RoutineCounters
    reading: Reading

    @property
    def edges(self) -> tuple[int, ...]:
        return edge_counts(self.cfg, self.walks)

    @property
    def blocks(self) -> tuple[int, ...]:
        return block_counts(self.cfg, self.walks)


def random_options(rng: random.Random) -> SchemeOptions:
    return SchemeOptions.of(
        path_limit=rng.choice((1, 2, 5, 10**8, 10**8, 10**8)),
        table=rng.choice((TableChoice.AUTO, TableChoice.AUTO, TableChoice.HASH)),
        cold=rng.choice((0.0, 1.0, 5.0, 30.0, 60.0)),
        loop=rng.choice((0.0, 15.0, 50.0, 100.0)),
        cold_always=rng.random() < 0.6,
        everywhere=rng.random() < 0.8,
        fall_back=rng.random() < 0.5,
        interesting=rng.choice((1, 2, 4)),
        iterations=rng.choice((1, 2, 2, 3, 4)),
        placement=rng.choice(list(VertexPlacement)),
        exit_entry=rng.choice(list(RootEdge)),
        per_vertex=rng.random() < 0.5,
        merged=rng.random() < 0.5,
        branches=rng.choice((1, 2, 2, 3, 5, 8, 13, 60)),
        duplicated=rng.random() < 0.5,
        interval=rng.choice((1, 1, 2, 3, 10, 100)),
        tick=rng.choice((1, 1, 2, 7, 30)),
        samples=rng.choice((1, 1, 2, 5)),
        stride=rng.choice((1, 1, 2, 4)),
        length=rng.choice((2, 2, 3, 4, 5, 10)),
        global_cold=rng.choice((0.0, 0.1, 5.0, 30.0)),
        hot_limit=rng.choice((0, 2, 4000)),
        numbering=rng.choice(list(ValuePlaces)),
        tested=rng.random() < 0.3,
        no_pushing=rng.random() < 0.5,
        skip=rng.choice((0.0, 0.0, 75.0)),
    )


def any_graph(rng: random.Random) -> ControlFlowGraph:
    if rng.random() < 0.4:
        return structured_graph(rng)
    return random_graph(rng, rng.choice((3, 6, 9, 14)))


def random_walks(rng: random.Random, cfg: ControlFlowGraph) -> Walks:
    """Activations that end anywhere; sometimes only those that reach EXIT, if any do."""
    walks = [random_walk(rng, cfg, rng.choice((1, 3, 40, 80))) for _ in range(20)]
    whole = [steps for steps in walks if cfg.edges[steps[-1]].target == cfg.exit]
    return whole if whole and rng.random() < 0.4 else walks


def random_weights(rng: random.Random, cfg: ControlFlowGraph) -> list[float] | None:
    return rng.choice((None, [float(rng.randint(0, 5)) for _ in cfg.edges]))


def execute(seed: int, plan: Plan, walks: Walks) -> Case:
    cfg = plan.cfg
    counters = interpret.execute(cfg, plan.plan, [ExecutedWalk(tuple(steps)) for steps in walks])
    return Case(seed, cfg, walks, plan, counters, plan.read(counters))


def random_case(mode: str, seed: int) -> Case:
    rng = random.Random(seed)
    cfg = any_graph(rng)
    walks, options, weights = random_walks(rng, cfg), random_options(rng), random_weights(rng, cfg)
    counts = edge_counts(cfg, walks)
    if rng.random() < 0.3:  # a profile of another input
        counts = edge_counts(cfg, random_walks(rng, cfg))
    paths = path_profile(cfg, options, rng.choice((walks, random_walks(rng, cfg))))
    plan = make_plan(cfg, mode, options, weights, counts, paths)
    plan.validate()
    return execute(seed, plan, walks)


def path_profile(
    cfg: ControlFlowGraph, options: SchemeOptions, walks: Walks
) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
    """The whole paths of walks, as `pp` cuts them."""
    pp: Any = make_plan(cfg, "pp", options)
    paths = Counter(path for steps in walks for path in split(cfg, steps, pp.cut_edges))
    return {(path.blocks, path.edges): n for path, n in paths.items() if not path.partial}


# What holds in every mode


def check_plan(case: Case, turns: bool = False) -> None:
    """Actions are where actions may be, and self-loops touch no path state (EPP 4.1); `turns`: they
    may, as paths go on over them.
    """
    cfg, plan = case.cfg, case.plan.plan
    assert set(plan.actions) <= set(range(len(cfg.edges))), case.seed
    assert set(plan.blocks) | set(plan.block_ends) <= set(range(len(cfg.blocks))), case.seed
    loops = [each for each in back_edges(cfg) if cfg.edges[each].source == cfg.edges[each].target]
    quiet = [plan.actions.get(loop, ()) for loop in loops if not turns]
    quiet += [*plan.blocks.values(), *plan.block_ends.values()]
    for actions in quiet:
        execution = interpret.begin(plan)
        execution.registers = before = [7 + k for k in range(plan.registers)]
        for action in actions:
            action.execute(execution)
        assert execution.registers == before, case.seed
        assert not execution.counted, case.seed


def words_of(plan: InstrumentationPlan) -> interpret.ProgramWords | None:
    return interpret.ProgramWords() if plan.guards else None


def check_words(case: Case) -> None:
    """Path registers hold 32-bit words at every step."""
    plan = case.plan.plan
    words = words_of(plan)
    for steps in case.walks:
        execution = interpret.begin(plan)
        for step in steps:
            interpret.follow(plan, [step], execution, words)
            assert all(abs(word) < 1 << 31 for word in execution.registers), case.seed


def check_counts(case: Case, edges: bool) -> None:
    """Edge and block counts are those of the execution; `edges`: the mode must tell them."""
    check_counters(case.cfg, case.plan.plan, case.counters.paths)
    assert dict(case.counters.early) == dict(early_ends(case.cfg, case.walks)), case.seed
    if edges or case.reading.edges is not None:
        assert case.reading.edges == case.edges, case.seed
    if case.reading.blocks is not None:
        assert case.reading.blocks == case.blocks, case.seed


def check_price(case: Case) -> None:
    """Code times counts is what executing snippet by snippet costs (hashing excepted)."""
    plan = case.plan.plan
    words = words_of(plan)
    code = price(case.plan, Pricer(GENERATORS))
    spent = 0
    for steps in case.walks:
        execution = interpret.begin(plan)
        interpret.follow(plan, steps, execution, words)
        for step in steps:
            block = case.cfg.edges[step].target
            for snippets, place in (
                (code.snippets, step),
                (code.block_snippets, block),
                (code.block_end_snippets, block),
            ):
                spent += snippets[place].cost if place in snippets else 0
        spent += sum(part_cost(code, part) for part in execution.taken)
    counters = case.counters
    assert added(code, case.edges, case.blocks, counters.taken) == spent, case.seed


# Paths


def profile(case: Case) -> Counter[Path]:
    """What a scheme that counts paths has read, decoded."""
    plan = case.plan
    assert isinstance(plan, Plan)
    found: Counter[Path] = Counter()
    for path_id, count in case.reading.paths.items():
        record = plan.decode(path_id)
        assert not record.partial
        found[Path(record.blocks, record.edges, False)] += count
    for record, count in case.reading.partial.items():
        assert record.partial
        found[Path(record.blocks, record.edges, True)] += count
    assert all(count > 0 for count in found.values()), case.seed
    return found


def check_acyclic(case: Case) -> None:
    """`pp`, `bittrace`, `wpp`: the acyclic paths, each one counted, no two alike."""
    plan: Any = case.plan
    check_counts(case, edges=True)
    expected = Counter(
        path for steps in case.walks for path in split(case.cfg, steps, plan.dag.removed)
    )
    assert profile(case) == expected, case.seed
    if plan.num_paths < 300:
        records = list(plan.all_paths())
        paths = [Path(record.blocks, record.edges, False) for record in records]
        assert set(paths) == all_paths(case.cfg, plan.dag.removed), case.seed
        assert len(paths) == plan.num_paths, case.seed


def check_sampled(case: Case) -> None:
    """`sampled`: of the paths in the order in which they begin, one of so many."""
    plan: Any = case.plan
    interval = next(iter(plan.plan.guards.values())).interval
    paths = [path for steps in case.walks for path in split(case.cfg, steps, plan.cut_edges)]
    assert profile(case) == Counter(paths[::interval]), case.seed
    check_all_paths(case, plan.cut_edges)


def check_pep(case: Case) -> None:
    """`pep`: of the paths that end at loop headers or EXIT, bursts of samples."""
    plan: Any = case.plan
    cfg, guard = case.cfg, next(iter(plan.plan.guards.values()), Guard("", 1, Burst("", 1, 1)))
    assert guard.burst is not None
    back, live = back_edges(cfg), reachable(cfg)
    headers = {cfg.edges[edge].target for edge in back}
    cuts = {e.id for e in cfg.edges if e.target in headers and e.source in live - {cfg.entry}}
    cuts |= set(plan.cut_edges)
    expected: Counter[Path] = Counter()
    left = taken = 0
    for steps in case.walks:
        for path in split(cfg, steps, cuts):
            if path.partial:
                continue
            left -= 1
            if left <= 0:
                expected[path] += 1
                taken += 1
                left = guard.burst.stride
                if taken == guard.burst.samples:
                    taken, left = 0, guard.interval
    assert profile(case) == expected, case.seed
    check_all_paths(case, cuts)
    every = {guard.interval, guard.burst.stride} == {1}
    sure = {e for e in range(len(cfg.edges)) if e not in cuts or is_single(cfg, e, cuts)}
    whole = all(not p.partial for steps in case.walks for p in split(cfg, steps, cuts))
    if every and whole:
        told = case.reading.all_edges or ()
        assert all(told[edge] == case.edges[edge] for edge in sure), case.seed
        assert sum(told) == sum(case.edges), case.seed


def is_single(cfg: ControlFlowGraph, edge: int, cuts: set[int]) -> bool:
    """Whether an edge is the only one out of its block that ends paths."""
    source = cfg.edges[edge].source
    return not any(cfg.edges[other].source == source for other in cuts - {edge})


def check_all_paths(case: Case, cuts: Iterable[int]) -> None:
    """Numbers are 0 .. N - 1, one for each path."""
    plan: Any = case.plan
    if plan.num_paths < 300:
        records = [plan.decode(number) for number in range(plan.num_paths)]
        paths = [Path(record.blocks, record.edges, False) for record in records]
        assert set(paths) == all_paths(case.cfg, cuts), case.seed
        assert len(paths) == len(set(paths)), case.seed


def check_iterations(case: Case) -> None:
    """`kiter`: k-iteration paths of the loops that the plan iterates."""
    plan: Any = case.plan
    check_counts(case, edges=True)
    loops = [Loop(each.body, frozenset(each.back_edges), each.iterations) for each in plan.loops]
    ending = plan.dag.removed
    expected = Counter(
        path for steps in case.walks for path in split_iterations(case.cfg, steps, loops, ending)
    )
    assert profile(case) == expected, case.seed


def check_sequences(case: Case) -> None:
    """`kblpp`: all sequences of up to k acyclic paths that come directly one behind the other."""
    plan: Any = case.plan
    check_counts(case, edges=True)
    expected = Counter(
        path
        for steps in case.walks
        for path in split_sequences(case.cfg, steps, plan.cut_edges, plan.length)
    )
    assert profile(case) == expected, case.seed
    if plan.num_paths < 300:
        numbered = dict(plan.numbered_paths())
        assert len(numbered) == plan.num_paths, case.seed
        assert all(plan.decode(number) == record for number, record in numbered.items()), case.seed
        assert case.reading.paths.keys() <= numbered.keys(), case.seed


def check_windows(case: Case) -> None:
    """`fifo`: the last k branches at every branch, each window counted, no two alike."""
    plan: Any = case.plan
    check_counts(case, edges=True)
    k = plan.codes.branches
    expected = Counter(path for steps in case.walks for path in branch_windows(case.cfg, steps, k))
    assert profile(case) == expected, case.seed
    # Four words of 31 bits have room for as many as that; fewer are a loss that is named.
    record = len(plan.codes.records).bit_length() or 1
    assert plan.codes.branches == min(plan.asked, 4 * (31 // record)), case.seed
    limited = {"limited_routines": 1} if plan.codes.branches < plan.asked else {}
    assert case.reading.lost == limited, case.seed
    if plan.num_paths < 300:
        numbers, records = zip(*plan.numbered_paths(), strict=True) if plan.num_paths else ((), ())
        assert [plan.decode(number) for number in numbers] == list(records), case.seed
        assert len({(each.blocks, each.edges) for each in records}) == plan.num_paths, case.seed
        assert {path.edges for path in expected} <= {each.edges for each in records}, case.seed


def check_targeted(case: Case, counts_cold: bool = True) -> None:
    """`tpp`: what it counts is exact; what it takes from the edge profile is never too little."""
    plan: Any = case.plan
    check_counts(case, edges=False)
    nowhere = ((), (case.cfg.exit,))  # before a truncated ENTRY edge, behind such an EXIT edge
    pieces = (path for steps in case.walks for path in split(case.cfg, steps, plan.split_edges))
    paths = [path for path in pieces if path.blocks not in nowhere]
    expected = Counter(path for path in paths if not path.partial)
    unfinished = Counter(path for path in paths if path.partial)
    hot, rebuilt = Counter[Path](), Counter[Path]()
    for path_id, count in case.reading.paths.items():
        record = plan.decode(path_id)
        into = rebuilt if plan.is_obvious(path_id) else hot
        into[Path(record.blocks, record.edges, False)] += count
    known = {plan.decode(k) for k in range(plan.numbering.total)} if plan.num_paths < 300 else None
    if known is not None:
        counted = {Path(record.blocks, record.edges, False) for record in known}
        assert hot == Counter({path: n for path, n in expected.items() if path in counted})
    assert all(expected[path] == count for path, count in hot.items()), case.seed
    assert not set(hot) & set(rebuilt), case.seed
    told = Counter({Path(r.blocks, r.edges, True): n for r, n in case.reading.partial.items()})
    assert told <= unfinished, case.seed
    unknown = case.reading.lost.get("unknown_unfinished", 0)
    assert told.total() + unknown == unfinished.total(), case.seed
    turns = [e.id for e in case.cfg.edges if e.source == e.target and e.id not in plan.split_edges]
    live = reachable(case.cfg)
    turns = [turn for turn in turns if case.cfg.edges[turn].source in live]
    assert case.counters.events == tuple(case.edges[turn] for turn in turns), case.seed
    cold = case.reading.lost.get("cold_paths", 0)
    if counts_cold and not plan.obvious.first_edges:
        assert hot.total() + cold == expected.total(), case.seed
    if plan.edge_profile == tuple(map(float, case.edges)):
        assert all(rebuilt[path] >= n for path, n in expected.items() if path in rebuilt)
        if not plan.cold and not unfinished:
            assert hot + rebuilt == expected, case.seed
            assert not cold and not case.reading.lost.get("overcounted_paths", 0)


def check_practical(case: Case) -> None:
    """`ppp`: as `tpp`, where nothing is moved past cold edges; left-out routines have no code."""
    plan: Any = case.plan
    own = plan.edge_profile == tuple(case.edges)
    if isinstance(plan, PredictedPlan):
        assert not plan.plan.actions
        split_up = [path for steps in case.walks for path in split(case.cfg, steps, plan.cut_edges)]
        whole = Counter(path for path in split_up if not path.partial)
        for path_id, count in case.reading.paths.items():
            record = plan.decode(path_id)
            assert not own or count <= whole[Path(record.blocks, record.edges, False)], case.seed
    elif not plan.pushed_past:
        # Cold paths without a counter are those of the edge profile.
        check_targeted(case, own or (not plan.graphs.free and plan.plan.counts_paths))
    elif own:
        pieces = [path for steps in case.walks for path in split(case.cfg, steps, plan.split_edges)]
        whole = Counter(path for path in pieces if not path.partial)
        over = 0
        for path_id, count in case.reading.paths.items():
            if not plan.is_obvious(path_id):
                record = plan.decode(path_id)
                over += count - whole[Path(record.blocks, record.edges, False)]
        assert 0 <= over <= plan.pushed, case.seed


def check_preferential(case: Case) -> None:
    """`pref`: the paths that are told are exact, and the others are as many as were executed."""
    plan: Any = case.plan
    check_counts(case, edges=plan.tells_all)
    expected = Counter(
        path for steps in case.walks for path in split(case.cfg, steps, plan.cut_edges)
    )
    found, lost = profile(case), case.reading.lost
    assert all(expected[path] == n for path, n in found.items() if not path.partial), case.seed
    assert all(expected[path] >= n for path, n in found.items()), case.seed
    assert found.total() + sum(lost.values()) == expected.total(), case.seed
    assert not (plan.tells_all and lost), case.seed


def check_edges_only(case: Case) -> None:
    check_counts(case, edges=True)
    assert not case.reading.paths


def check_logged(case: Case) -> None:
    """The calls count each logged edge whenever it is crossed, and never otherwise (CS6120)."""
    check_edges_only(case)
    plan = case.plan.plan
    owners: dict[int, int] = {}
    pairs = {pair.source + pair.destination: pair for pair in getattr(case.plan, "logged", ())}
    for pair in pairs.values():
        owners[pair.source + pair.destination] = pair.destination
    counted: Counter[int] = Counter()
    last: int | None = None
    for steps in case.walks:
        for step in steps:
            source, target = case.cfg.edges[step].source, case.cfg.edges[step].target
            for action in (
                *plan.block_ends.get(source, ()),
                *plan.actions.get(step, ()),
                *plan.blocks.get(target, ()),
            ):
                if isinstance(action, LogDestination):
                    slot = -1 if last is None else last + action.number
                    if owners.get(slot) == action.number:
                        counted[pairs[slot].edge] += 1
                    last = None
                elif isinstance(action, LogSource | LogDisrupt):
                    last = action.number
    logged = {pair.edge for pair in pairs.values()}
    expected = {each: count for each, count in enumerate(case.edges) if each in logged and count}
    assert dict(counted) == expected, case.seed


def check_witnesses(case: Case) -> None:
    """`witness`: which edges were witnessed, in order, tells the whole execution (BL94 4)."""
    check_edges_only(case)
    plan: Any = case.plan
    whole = [steps for steps in case.walks if case.cfg.edges[steps[-1]].target == case.cfg.exit]
    if len(case.cfg.out_edges[case.cfg.entry]) == 1:
        trace = [step for steps in whole for step in steps if step in plan.tokens]
        assert regenerate(case.cfg, set(plan.tokens), trace, len(whole)) == whole, case.seed
    check_trace_size(case)


def check_bits(case: Case) -> None:
    """`bits`, `bytes`: the outcomes of predicates tell each activation from its first block on."""
    check_edges_only(case)
    plan: Any = case.plan
    for steps in case.walks:
        trace = [plan.tokens[step].value for step in steps if step in plan.tokens]
        assert outcomes_followed(case.cfg, plan.tokens, steps[0], trace, len(steps)) == steps
    check_trace_size(case)


def check_block_trace(case: Case) -> None:
    """`block-trace`: what the blocks write, in order, are the blocks that are executed."""
    check_edges_only(case)
    plan: Any = case.plan
    edges = case.cfg.edges
    pairs = Counter((edge.source, edge.target) for edge in edges)
    for steps in case.walks:
        # A graph of single edges whose predicates stay inside writes the blocks and nothing else.
        written = [plan.tokens[step].value for step in steps if step in plan.tokens]
        plain = [
            edges[step].target
            for step in steps
            if edges[step].target != case.cfg.exit and pairs[edges[step][1:3]] == 1
        ]
        assert [value for value in written if value < len(case.cfg.blocks)] == plain, case.seed
        assert steps_told(case.cfg, plan.tokens, steps[0], written, len(steps)) == steps
    check_trace_size(case)


def steps_told(
    cfg: ControlFlowGraph, tokens: dict[int, Any], first: int, trace: list[int], length: int
) -> list[int]:
    """The edges crossed, by what was written: the one out of the last block that writes it."""
    steps, rest = [first], list(trace)
    if first in tokens:
        assert rest.pop(0) == tokens[first].value
    while len(steps) < length:
        out = cfg.out_edges[cfg.edges[steps[-1]].target]
        fitting = [e for e in out if e not in tokens or tokens[e].value == rest[0]]
        assert len(fitting) == 1
        steps.append(fitting[0])
        if fitting[0] in tokens:
            rest.pop(0)
    assert not rest
    return steps


def outcomes_followed(
    cfg: ControlFlowGraph, tokens: dict[int, Any], first: int, trace: list[int], length: int
) -> list[int]:
    steps, rest = [first], list(trace)
    if first in tokens:
        rest.pop(0)
    while len(steps) < length:
        out = cfg.out_edges[cfg.edges[steps[-1]].target]
        value = rest.pop(0) if out[0] in tokens else 0
        steps.append(out[value])
    assert not rest
    return steps


def check_trace_size(case: Case) -> None:
    plan: Any = case.plan
    written = [plan.tokens[step] for steps in case.walks for step in steps if step in plan.tokens]
    assert plan.standard_bits(case.edges) == sum(token.width for token in written), case.seed
    assert plan.minimal_bits(case.edges) <= plan.standard_bits(case.edges), case.seed


def check_vertices(case: Case) -> None:
    check_counts(case, edges=False)
    assert case.reading.edges is not None or case.reading.blocks is not None, case.seed


CHECKS = {
    "pp": check_acyclic,
    "bittrace": check_acyclic,
    "fifo": check_windows,
    "kiter": check_iterations,
    "kblpp": check_sequences,
    "tpp": check_targeted,
    "ppp": check_practical,
    "pref": check_preferential,
    "qpt2": check_edges_only,
    "qpt": check_vertices,
    "sampled": check_sampled,
    "pep": check_pep,
    "naive": check_edges_only,
    "calls": check_logged,
    "calls-optimal": check_logged,
    "witness": check_witnesses,
    "bits": check_bits,
    "bytes": check_bits,
    "block-trace": check_block_trace,
    "wpp": check_acyclic,
    "pap": check_edges_only,
}


def check(mode: str, seed: int) -> None:
    case = random_case(mode, seed)
    check_plan(case, turns=mode in ("fifo", "wpp", "pap", "pep"))
    if mode != "kblpp":  # codes of nodes, of any size, stand for their addresses
        check_words(case)
    CHECKS[mode](case)
    if seed % 4 == 0:
        check_price(case)


@pytest.mark.long
@pytest.mark.seeds(range(GRAPHS + LONG_GRAPHS))
@pytest.mark.parametrize("mode", CHECKS)
def test_random_graphs(mode: str, seed: int) -> None:
    check(mode, seed)


@pytest.mark.long
@pytest.mark.fresh_seeds(100)
@pytest.mark.parametrize("mode", CHECKS)
def test_graphs_that_nobody_has_seen(mode: str, seed: int) -> None:
    check(mode, seed)


def test_every_mode_is_compared() -> None:
    assert set(CHECKS) == set(planned_modes())


# Shapes that break profilers


def ladder(rungs: int) -> list[tuple[int, int]]:
    """Two-way choices one after the other: 2^rungs ways through 2 * rungs + 1 blocks."""
    edges = []
    for rung in range(0, 2 * rungs, 2):
        edges += [(rung, rung + 1), (rung, rung + 2), (rung + 1, rung + 2)]
    return edges


def chain_of_loops(loops: int) -> list[tuple[int, int]]:
    edges = [(block, block + 1) for block in range(3 * loops)]
    return edges + [(3 * loop + 2, 3 * loop + 1) for loop in range(loops)]


SHAPES = {
    "one block": graph(1, []),
    "one block and itself": graph(1, [(0, 0), (0, 0)]),
    "never left": graph(3, [(0, 1), (1, 2), (2, 1), (2, 2)], exits=()),
    "left by one way only": graph(4, [(0, 1), (1, 2), (2, 1), (0, 3)]),
    "entered twice, irreducible": graph(3, [(0, 1), (1, 0), (1, 2), (0, 2)], entries=(0, 1)),
    "entered in an inner loop": graph(4, [(0, 1), (1, 2), (2, 1), (2, 0), (0, 3)], entries=(0, 2)),
    "no way in": graph(3, [(1, 2), (2, 1)], exits=(0,)),
    "parallel edges": graph(3, [(0, 1)] * 9 + [(1, 2)] * 5 + [(2, 0)] * 3),
    "a switch": graph(42, [(0, k) for k in range(1, 41)] + [(k, 41) for k in range(1, 41)]),
    "2^100 paths": graph(201, ladder(100)),
    "2^100 paths in a loop": graph(202, [*ladder(100), (200, 0), (200, 201)]),
    "60 loops": graph(181, chain_of_loops(60)),
}


@pytest.mark.parametrize(("shape", "mode"), turns(SHAPES, CHECKS))
def test_every_mode_survives(mode: str, shape: str) -> None:
    cfg = SHAPES[shape]
    rng = random.Random(shape)
    walks = [random_walk(rng, cfg, most) for most in (1, 2, 3, 10, 400, 400, 400, 400)]
    for weights in (None, [float(count) for count in edge_counts(cfg, walks)]):
        options = SchemeOptions.of(everywhere=True)
        guides = edge_counts(cfg, walks), path_profile(cfg, options, walks)
        plan = make_plan(cfg, mode, options, weights, *guides)
        plan.validate()
        case = execute(0, plan, walks)
        check_plan(case, turns=mode in ("fifo", "wpp", "pap", "pep"))
        check_words(case)
        CHECKS[mode](case)
        check_price(case)


# Rules across modes


def run(
    cfg: ControlFlowGraph, mode: str, walks: Walks, weights: Sequence[float] | None, **options: Any
) -> Case:
    counts = edge_counts(cfg, walks)
    return execute(0, make_plan(cfg, mode, SchemeOptions.of(**options), weights, counts), walks)


def increments(case: Case) -> int:
    return sum(case.counters.events)


@pytest.mark.seeds(range(GRAPHS))
def test_better_placements_count_less(seed: int) -> None:
    rng = random.Random(seed)
    cfg = any_graph(rng)
    walks, weights = random_walks(rng, cfg), random_weights(rng, cfg)

    def vertex(placement: VertexPlacement) -> int:
        return increments(run(cfg, "qpt", walks, weights, placement=placement))

    edges = increments(run(cfg, "qpt2", walks, weights))
    assert vertex(VertexPlacement.EDGE) == edges
    assert vertex(VertexPlacement.EDGE_HEURISTIC) <= edges
    assert edges <= increments(run(cfg, "naive", walks, None))
    redundant = vertex(VertexPlacement.REDUNDANT)
    assert vertex(VertexPlacement.VERTEX_OPTIMAL) <= redundant
    assert redundant == sum(block_counts(cfg, walks))
    measured = [float(count) for count in edge_counts(cfg, walks)]
    if not early_ends(cfg, walks):
        assert increments(run(cfg, "qpt2", walks, measured)) <= edges


@pytest.mark.seeds(range(GRAPHS))
def test_path_profiles_agree(seed: int) -> None:
    rng = random.Random(seed)
    cfg = any_graph(rng)
    walks, weights = random_walks(rng, cfg), random_weights(rng, cfg)
    limit = rng.choice((1, 3, 10**8))
    wanted = profile(run(cfg, "pp", walks, weights, path_limit=limit))
    assert profile(run(cfg, "bittrace", walks, weights, path_limit=limit)) == wanted
    once = run(cfg, "kiter", walks, weights, path_limit=limit, iterations=1)
    assert profile(once) == wanted
    none = run(cfg, "tpp", walks, weights, path_limit=limit, cold=0.0, loop=0.0)
    assert profile(none) == wanted


# The oracle itself


def kiter_figure_1() -> tuple[ControlFlowGraph, Loop]:
    cfg = named("1>2 2>3 2>4 3>5 4>5 4>6 5>2 5>6", "1", "6", "KITER figure 1")
    body = frozenset(block.id for block in cfg.blocks if block.label in ("2", "3", "4", "5"))
    return cfg, Loop(body, frozenset({edge(cfg, "5>2")}), 2)


def test_kiter_figure_1_by_brute_force() -> None:
    cfg, loop = kiter_figure_1()
    steps = walk(cfg, "1" + "235245" * 100 + "6")
    found = Counter(letters(cfg, p.blocks) for p in split_iterations(cfg, steps, [loop], ()))
    assert found == {"1235245": 1, "235245": 98, "245235": 99, "2352456": 1}


def test_one_iteration_paths_are_acyclic_ones() -> None:
    cfg, loop = kiter_figure_1()
    steps = walk(cfg, "1" + "235245" * 3 + "6")
    once = Loop(loop.blocks, loop.back_edges, 1)
    assert split_iterations(cfg, steps, [once], ()) == split(cfg, steps)
    assert split_iterations(cfg, steps, [], loop.back_edges) == split(cfg, steps)
