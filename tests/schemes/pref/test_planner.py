"""pref plans on random graphs and executions: what their counters hold, against brute force."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathPiece
from simprof.profiler.plan.actions import (
    AddRegister,
    CountConstantPath,
    CountPath,
    Execution,
    SetRegister,
)
from simprof.profiler.plan.decoders import Reading
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.schemes.pp import plan_pp
from simprof.profiler.schemes.pref import code as actions
from simprof.profiler.schemes.pref.code import (
    UNINTERESTING,
    AddBoth,
    CountKnown,
    CountPreferred,
    SetBoth,
)
from simprof.profiler.schemes.pref.planner import KnownBy, PrefPlan, plan_pref
from tests.oracles.brute import (
    Path,
    edge_counts,
    graph,
    random_graph,
    random_walk,
    split,
    structured_graph,
)

GRAPHS = 400
LONG_GRAPHS = 400
Walks = list[list[int]]


@dataclass(frozen=True)
class Case:
    """A plan, what it was made from, and what was executed."""

    plan: PrefPlan
    training: Walks
    walks: Walks
    least: int
    share: float

    @property
    def reading(self) -> Reading:
        walks = [ExecutedWalk(tuple(steps)) for steps in self.walks]
        return self.plan.read(execute(self.plan.cfg, self.plan.plan, walks))

    def counts(self, walks: Walks) -> Counter[Path]:
        cfg, cut = self.plan.cfg, self.plan.cut_edges
        return Counter(path for steps in walks for path in split(cfg, steps, cut))

    @property
    def interesting(self) -> set[Path]:
        """By their executions in training: whole paths alone."""
        trained = Counter({p: n for p, n in self.counts(self.training).items() if not p.partial})
        enough = max(self.least, self.share / 100 * trained.total())
        return {path for path, count in trained.items() if count >= enough}


def profile_of(cfg: ControlFlowGraph, walks: Walks, cut: Sequence[int]) -> dict[PathPiece, int]:
    paths = Counter(path for steps in walks for path in split(cfg, steps, cut))
    return {(p.blocks, p.edges): count for p, count in paths.items() if not p.partial}


def dense(rng: random.Random) -> ControlFlowGraph:
    """Branches one after the other, with some loops: many paths."""
    size = rng.randint(4, 12)
    edges = [(v, v + 1) for v in range(size - 1)]
    edges += [(v, min(v + rng.randint(1, 3), size - 1)) for v in range(size - 1)]
    edges += [(rng.randrange(1, size), rng.randrange(size)) for _ in range(rng.choice((0, 1, 2)))]
    return graph(size, edges, [0], [size - 1])


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    cfg = rng.choice((dense, dense, random_graph, structured_graph))(rng)
    groups = []
    for _ in range(2):
        walks = [random_walk(rng, cfg, rng.choice((1, 3, 40, 80))) for _ in range(20)]
        whole = [steps for steps in walks if cfg.edges[steps[-1]].target == cfg.exit]
        groups.append(whole if whole and rng.random() < 0.5 else walks)
    training, walks = groups
    if rng.random() < 0.4:
        walks = training
    limit = rng.choice((1, 3, 10**8, 10**8, 10**8))
    base = plan_pp(cfg, path_limit=limit)
    cut = () if rng.random() < 0.1 else base.cut_edges  # a profile of other cuts
    least, share = rng.choice((1, 1, 2, 5)), rng.choice((0.0, 0.0, 10.0))
    plan = plan_pref(
        cfg,
        profile_of(cfg, training, cut),
        least=least,
        share=share,
        fall_back=rng.random() < 0.5,
        everywhere=rng.random() < 0.95,
        weights=rng.choice((None, [float(rng.randint(0, 5)) for _ in cfg.edges])),
        path_limit=limit,
    )
    plan.validate()
    return Case(plan, training if cut == base.cut_edges else [], walks, least, share)


def told(plan: PrefPlan, reading: Reading) -> Counter[Path]:
    found: Counter[Path] = Counter()
    for number, count in reading.paths.items():
        record = plan.decode(number)
        found[Path(record.blocks, record.edges, False)] += count
    return found


def check(seed: int) -> KnownBy:
    case = random_case(seed)
    plan, reading = case.plan, case.reading
    counts = case.counts(case.walks)
    true = Counter({path: n for path, n in counts.items() if not path.partial})
    unfinished = Counter({path: n for path, n in counts.items() if path.partial})
    found, lost = told(plan, reading), reading.lost
    if plan.tells_all:
        assert found == true
        assert not lost
    elif case.training:
        # with loops' ends cut otherwise than in the profile its paths may be others'
        interesting = case.interesting
        assert {decoded(plan, number) for number in plan.by_index.values()} == interesting
        assert found == Counter({path: n for path, n in true.items() if path in interesting})
    if not plan.tells_all:
        told_paths = {decoded(plan, number) for number in plan.by_index.values()}
        assert found == Counter({path: n for path, n in true.items() if path in told_paths})
        assert lost.get("uninteresting_paths", 0) == true.total() - found.total()
    partial = Counter({Path(r.blocks, r.edges, True): n for r, n in reading.partial.items()})
    assert partial <= unfinished
    assert partial.total() + lost.get("unknown_unfinished", 0) == unfinished.total()
    edges = edge_counts(plan.cfg, case.walks)
    assert reading.edges == (None if lost else edges)
    if case.training:
        same = case.counts(case.training)
        assert plan.is_profile_of(reading) or told_differs(case, true, same)
    return plan.known_by


def told_differs(case: Case, true: Counter[Path], training: Counter[Path]) -> bool:
    return true != Counter({path: n for path, n in training.items() if not path.partial})


def decoded(plan: PrefPlan, number: int) -> Path:
    record = plan.decode(number)
    return Path(record.blocks, record.edges, False)


@pytest.mark.long
@pytest.mark.seeds(range(GRAPHS + LONG_GRAPHS))
def test_counters_are_the_true_counts(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("number", [1517, 1668, 2365])
def test_other_paths_may_have_indices_below_those_of_interesting_ones(number: int) -> None:
    """They are rare: the array then begins with the least of all."""
    assert check(number) is KnownBy.INDICES


@pytest.mark.long
def test_every_test_of_paths_is_met() -> None:
    found = Counter(check(seed) for seed in range(GRAPHS))
    assert set(found) == set(KnownBy)
    assert min(found.values()) > 5, found


def mutants() -> list[tuple[type, str, object]]:
    right = CountPreferred.interesting

    def without_tags(self: CountPreferred, index: int, number: int) -> int | None:
        place = index & (1 << self.bits) - 1
        return self.first + place if index == place else None

    def shifted(self: CountPreferred, index: int, number: int) -> int | None:
        found = right(self, index, number)
        return None if found is None else found ^ 1

    return [
        (CountPreferred, "interesting", without_tags),
        (CountPreferred, "interesting", shifted),
    ]


@pytest.mark.long
@pytest.mark.parametrize("mutant", mutants())
def test_wrong_counts_would_be_noticed(
    mutant: tuple[type, str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*mutant)
    failed = 0
    for seed in range(200):
        try:
            check(seed)
        except (AssertionError, ValueError, KeyError):
            failed += 1
    assert failed > 3


def ladder(rungs: int) -> ControlFlowGraph:
    """Two-way choices one after the other: 2^rungs paths."""
    edges = []
    for rung in range(0, 2 * rungs, 2):
        edges += [(rung, rung + 1), (rung, rung + 2), (rung + 1, rung + 2)]
    return graph(2 * rungs + 1, edges, [0], [2 * rungs])


def test_a_routine_that_pp_hashes_gets_an_array() -> None:
    cfg, rng = ladder(20), random.Random(5)
    walks = [random_walk(rng, cfg, 80) for _ in range(50)]
    base = plan_pp(cfg)
    assert base.plan.table is CounterTable.HASH
    profile = profile_of(cfg, walks, base.cut_edges)
    plan = plan_pref(cfg, profile)
    assert plan.known_by is KnownBy.TAGS
    assert plan.plan.table is CounterTable.ARRAY
    assert plan.plan.path_counters == plan.indices.size < 400
    assert len(plan.plan.constants) == 1 << (plan.indices.size - 1).bit_length()
    assert plan.plan.registers == 2
    both = plan_pref(cfg, profile, fall_back=True)
    assert both.plan.table is CounterTable.HASH
    assert len(both.plan.named_counters) == both.indices.size
    assert both.num_paths == 1 << 20
    # other walks: those of the first kind are in the array, others in the hash table
    more = [ExecutedWalk(tuple(random_walk(rng, cfg, 80))) for _ in range(50)]
    again = [ExecutedWalk(tuple(steps)) for steps in walks]
    counters = execute(cfg, both.plan, again)
    assert not counters.hashed_increments
    assert all(counter < 0 for counter in counters.paths)
    counters = execute(cfg, both.plan, more)
    assert counters.hashed_increments == sum(n for c, n in counters.paths.items() if c >= 0) > 40


@pytest.mark.long
@pytest.mark.parametrize("fall_back", [False, True])
def test_a_routine_whose_interesting_indices_nobody_else_has(fall_back: bool) -> None:
    """Any way through eight choices, one through the others, which an array has no room for."""
    cfg, rng = ladder(26), random.Random(5)
    base = plan_pp(cfg)

    def walk(free: int) -> list[int]:
        steps, vertex = [cfg.out_edges[cfg.entry][0]], 0
        while vertex != 52:
            steps.append(cfg.out_edges[vertex][vertex < 2 * free and rng.randrange(2)])
            vertex = cfg.edges[steps[-1]].target
            steps += [] if vertex % 2 == 0 else [cfg.out_edges[vertex][0]]
            vertex = cfg.edges[steps[-1]].target
        return [*steps, cfg.out_edges[52][0]]

    training = [walk(8) for _ in range(2500)]
    plan = plan_pref(cfg, profile_of(cfg, training, base.cut_edges), fall_back=fall_back)
    plan.validate()
    assert plan.known_by is KnownBy.RANGE
    assert plan.plan.registers == 1 + fall_back
    assert len(plan.by_index) == plan.indices.size == 256
    case = Case(plan, training, [walk(rng.choice((8, 8, 26))) for _ in range(500)], 1, 0.0)
    true, reading = case.counts(case.walks), case.reading
    interesting = case.interesting
    others = sum(count for path, count in true.items() if path not in interesting)
    assert others > 100
    assert reading.lost == ({} if fall_back else {"uninteresting_paths": others})
    if fall_back:
        assert told(plan, reading) == true
    else:
        assert told(plan, reading).total() == true.total() - others


def test_what_pp_keeps_in_an_array_stays_as_it_is() -> None:
    cfg = ladder(4)
    base = plan_pp(cfg)
    assert plan_pref(cfg, {}).plan == base.plan
    assert plan_pref(cfg, {}, fall_back=True, everywhere=True).plan == base.plan


def test_without_a_profile_everything_is_uninteresting() -> None:
    cfg, rng = ladder(4), random.Random(1)
    plan = plan_pref(cfg, {}, everywhere=True)
    assert plan.known_by is KnownBy.NOTHING
    assert not plan.plan.uses_register
    placed = [action for group in plan.plan.actions.values() for action in group]
    assert set(placed) == {CountKnown(UNINTERESTING)}
    walks = [ExecutedWalk(tuple(random_walk(rng, cfg, 80))) for _ in range(9)]
    reading = plan.read(execute(cfg, plan.plan, walks))
    assert reading.lost == {"uninteresting_paths": 9}
    assert reading.edges is None


def test_one_path_takes_no_indices() -> None:
    """Its index is 0, and so are the values of its edges."""
    cfg, rng = ladder(20), random.Random(1)
    walks = [random_walk(rng, cfg, 80)]
    plan = plan_pref(cfg, profile_of(cfg, walks, ()))
    (path,) = plan.indices.indices
    assert not any(plan.indices.values[edge] for edge in path)
    assert plan.indices.compactness == 1
    # other ways are made to lead out of the array: no tags are needed
    assert plan.known_by is KnownBy.INDICES
    assert plan.plan.path_counters < 50


def test_all_paths_are_counted_by_their_numbers() -> None:
    base = plan_pp(ladder(5))
    records = base.all_paths()
    profile = {(record.blocks, record.edges): n for n, record in enumerate(records, 1)}
    plan = plan_pref(base.cfg, profile, everywhere=True)
    assert (plan.known_by, plan.indices.size) == (KnownBy.NUMBERS, 32)
    assert plan.plan == base.plan


def test_indices_that_others_do_not_have_need_no_test() -> None:
    """The third way of a switch leads to an index behind those of the first two."""
    cfg = graph(6, [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4), (4, 5)], [0], [5])
    records = list(plan_pp(cfg).all_paths())
    profile = {(record.blocks, record.edges): 1 for record in records[:2]}
    plan = plan_pref(cfg, profile, everywhere=True)
    assert plan.known_by is KnownBy.INDICES
    assert plan.indices.size == 2 < plan.plan.path_counters < 8
    assert {type(a) for group in plan.plan.actions.values() for a in group} <= {
        *(SetRegister, AddRegister, CountPath, CountConstantPath)
    }


def test_actions_as_text() -> None:
    tagged = CountPreferred(2, -3, 4, tags=(0,) * 16)
    assert str(tagged) == "if tag[r+2]==n-3 count[r+2]++ else other++"
    assert str(CountPreferred(0, 0, 4)) == "if 0<=r<16 count[r]++ else other++"
    hashed = CountPreferred(0, 5, 4, hashed=True)
    assert str(hashed) == "if 0<=r<16 count[r]++ else hash[n+5]++"
    assert str(SetBoth(1, 2)) == "r=1, n=2"
    assert str(AddBoth(0, 2)) == "n+=2"
    assert [str(CountKnown(number)) for number in (3, UNINTERESTING)] == ["count[3]++", "other++"]


@pytest.mark.parametrize(("index", "number", "counter"), [(1, 7, 1), (5, 7, 1), (1, 8, -1)])
def test_tags_decide_and_not_the_index(index: int, number: int, counter: int) -> None:
    """An index beyond the table is taken modulo its size: only the right path's number is there."""
    action = CountPreferred(0, 0, 2, tags=(3, 7, 9, actions.UNINTERESTING))
    execution = Execution([index, number])
    action.execute(execution)
    assert [count.counter for count in execution.counted] == [counter]
    assert len(execution.taken) == (counter < 0)
