"""Path segments and the automaton of all schemes' registers, against plain execution of plans.

A small driver plays the machine: it follows walks edge by edge and lets the kernel do what the
operations say.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from simprof.profiler.code.hash_routine import hash_costs
from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import Lowering, cost_words
from simprof.profiler.engine.segments import segment
from simprof.profiler.graphfiles.execution import execute
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.decoders import Plan
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.request.request import SchemeOptions, Setting, TableChoice
from simprof.profiler.schemes.registry import make_plan
from simprof.profiler.session.counters import Counters, RoutineEvents, UnfinishedSegment
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.simulator.binary.program import MachineKind
from tests.oracles import brute
from tests.support.hash_tables import counts_of
from tests.support.operation_lists import joined

MACHINE = MachineKind.SPARCV9
SETTINGS = tuple(
    Setting(f"{mode}-{number}", mode, options)
    for mode in ("pp", "bittrace", "fifo", "tpp", "ppp", "kiter")
    for number, options in enumerate(
        (
            SchemeOptions(),
            SchemeOptions(table=TableChoice.HASH, path_limit=20),
            SchemeOptions.of(
                path_limit=5, cold=30, loop=40, cold_always=True, iterations=3, branches=2, skip=0.0
            ),
            SchemeOptions.of(count_obvious=True, loop=100, skip=0.0),
        )
    )
)


class Driver:
    """The kernel on one routine under several settings."""

    def __init__(
        self, cfg: ControlFlowGraph, counts: Sequence[int], settings: Sequence[Setting]
    ) -> None:
        self.cfg = cfg
        self.schemes = [
            SchemeRun(each, lambda _: cfg, self._maker(each, counts), slot)
            for slot, each in enumerate(settings)
        ]
        self.lowering = Lowering(
            [scheme.plan for scheme in self.schemes],
            [cfg],
            np.array([0, len(cfg.edges)], np.int64),
            cost_words(MACHINE),
            (1 << 64) - 1,
        )
        self.memory = self.lowering.memory
        self.ends: Counter[tuple[int, int, int]] = Counter()
        self.crossings = [0] * len(cfg.edges)

    @staticmethod
    def _maker(setting: Setting, counts: Sequence[int]) -> Callable[[ControlFlowGraph], Plan]:
        return lambda cfg: make_plan(cfg, setting.mode, setting.options, None, counts)

    def walk(self, edges: Sequence[int], size: int) -> None:
        """Cross `edges`, the operations of `size` edges at a time in one list."""
        for edge in edges:
            self.crossings[edge] += 1
        for start in range(0, len(edges), size):
            group = edges[start : start + size]
            operations = [op for edge in group for op in self.lowering.operations(edge)]
            if operations:
                self._execute(self.memory.add_operations(joined(operations)))
        block = self.cfg.edges[edges[-1]].target
        if block != self.cfg.exit:
            state, register = self.memory.segment(0)
            self.ends[block, register, state] += 1

    def _execute(self, number: int) -> None:
        status = self.memory.execute(number, 0)
        while status != kernels.OK:
            number = int(self.memory.clock[kernels.FAILED_OPERATION])
            if status == kernels.NO_NODES:
                self.memory.grow_nodes()
            else:
                assert status == kernels.NEW_SEGMENT
                state, register = self.memory.segment(0)
                increment = int(self.memory.state.operations[number * kernels.OPERATION + 1])
                assert self.lowering.products.resolve(state, register + increment)
            status = self.memory.execute(number, 0)

    def counters(self) -> Counters:
        ends = tuple(UnfinishedSegment(*end, count) for end, count in self.ends.items())
        events = RoutineEvents(self.cfg, tuple(self.crossings), ends)
        return Counters(self.lowering, {0: events})


def check(seed: int) -> None:
    rng = random.Random(seed)
    cfg = brute.structured_graph(rng) if seed % 2 else brute.random_graph(rng)
    walks = [brute.random_walk(rng, cfg, rng.choice((1, 5, 60))) for _ in range(12)]
    settings = rng.sample(SETTINGS, 5)
    driver = Driver(cfg, brute.edge_counts(cfg, walks), settings)
    for walk in walks:
        driver.walk(walk, rng.choice((1, 2, 5)))
    found = driver.counters()
    for scheme in driver.schemes:
        plan, routine_plan = scheme.plan(0), scheme.routine_plan(0)
        assert plan is not None and routine_plan is not None and scheme.slot is not None
        plain = execute(cfg, plan, [ExecutedWalk(tuple(w)) for w in walks], hash_costs(MACHINE))
        mine = found(scheme, 0)
        where = (seed, scheme.name)
        assert {k: v for k, v in mine.paths.items() if v} == dict(plain.paths), where
        assert mine.events == plain.events and dict(mine.early) == dict(plain.early), where
        assert dict(mine.taken) == dict(plain.taken), where
        assert mine.hashed_increments == plain.hashed_increments, where
        assert routine_plan.read(mine) == routine_plan.read(plain), where
        if plan.table is CounterTable.HASH:
            if plan.key_words == 1:
                assert mine.hash_instructions == plain.hash_instructions, where
            calls, _ = driver.lowering.hash_works()[0, scheme.slot]
            assert calls == mine.hashed_increments, where
            table = counts_of(driver.lowering, 0, scheme.slot)
            assert table == {k: v for k, v in mine.paths.items() if v and k >= 0}, where
    assert driver.lowering.products.lost == 0


@pytest.mark.long
@pytest.mark.seeds([*range(120), *range(1000, 1300)])
def test_every_scheme_counts_what_plain_execution_counts(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.fresh_seeds(100)
def test_every_scheme_counts_what_plain_execution_counts_on_fresh_graphs(seed: int) -> None:
    check(seed)


def test_segments_tell_walks_apart_and_join_to_them() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        cfg = brute.structured_graph(rng) if seed % 2 else brute.random_graph(rng)
        cuts = [edge.id for edge in cfg.edges if rng.random() < 0.2]
        pieces = segment(cfg, cuts)
        for _ in range(5):
            walk = brute.random_walk(rng, cfg, 50)
            joined: list[int] = []
            register = 0
            for edge in walk:
                for code, a, b in pieces.steps.get(edge, ()):
                    match code:
                        case kernels.BEGIN:
                            register = a
                        case kernels.ADD:
                            register += a
                        case kernels.SEGMENT:
                            joined += pieces.decode(register + a)
                            register = b
            block = cfg.edges[walk[-1]].target
            if block != cfg.exit:
                joined += pieces.decode_prefix(register, block)
            loops = {e.id for e in cfg.edges if e.source == e.target} - set(cuts)
            assert joined == [edge for edge in walk if edge not in loops], seed


def test_cuts_end_segments_and_weights_save_steps() -> None:
    cfg = brute.structured_graph(random.Random(3), depth=4)
    inner = [e.id for e in cfg.edges if e.source != cfg.entry and e.target != cfg.exit]
    everywhere = segment(cfg, inner)
    assert set(everywhere.dag.removed) == set(inner)
    walk = brute.random_walk(random.Random(4), cfg, 500)
    counts = brute.edge_counts(cfg, [walk])

    def work(weights: Sequence[float]) -> int:
        return sum(counts[edge] for edge in segment(cfg, (), weights).steps)

    assert work(counts) <= work([1.0] * len(counts))


def test_astronomic_routines_stay_within_the_kernels_words() -> None:
    edges = []
    for rung in range(200):
        first = 3 * rung
        edges += [(first, first + 1), (first, first + 2), (first + 1, first + 3)]
        edges.append((first + 2, first + 3))
    pieces = segment(brute.graph(601, edges))
    assert len(pieces.dag.removed) >= 5
    words = [abs(word) for steps in pieces.steps.values() for step in steps for word in step]
    assert sum(words) < 1 << 62


def test_keys_of_no_segment_are_refused() -> None:
    """Control may come into a routine by a way that its graph lacks; its register is garbage."""
    pieces = segment(brute.graph(3, [(0, 1), (1, 0), (1, 2)]))
    places = range(len(pieces.dag.removed) + 1, 1 << (pieces.shift - 1))
    keys = [place << 1 | 1 for place in places] + [-1, pieces.numbering.total << pieces.shift | 1]
    assert keys
    for key in keys:
        with pytest.raises(ValueError, match="has no"):
            pieces.decode(key)
