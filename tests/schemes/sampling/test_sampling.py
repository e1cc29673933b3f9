"""`sampled` and `pep`: routines that call each other, real programs, numbers of paths."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import number, number_by_weight
from simprof.profiler.plan import interpret
from simprof.profiler.plan.actions import Execution
from simprof.profiler.request.request import SchemeOptions, Setting
from simprof.profiler.schemes.registry import make_plan
from simprof.profiler.schemes.sampling.planner import header_dag
from tests.conftest import FIXTURES
from tests.oracles.brute import back_edges, random_graph, structured_graph
from tests.oracles.exact import Simulated, cut_edges, paths_of, simulate_settings
from tests.oracles.naive import BlockName, RoutineProfile, Walker
from tests.oracles.qemu import trace
from tests.support.turns import in_step
from tests.support.verifying import LEFT_ALONE, check_verified, verified

LOOPS = FIXTURES / "bin" / "v9" / "loops.elf"
INTERVALS = (1, 2, 7, 50, 1000)
BURSTS = ((1, 1, 1), (5, 1, 1), (7, 3, 2), (100, 8, 5), (1000, 64, 17))  # tick, samples, stride
WIDTHS = ("v9", "v8plus", "v8")
PROGRAMS = {
    "loops": [],
    "manypaths": [],
    "deep": ["300"],
    "tailcalls": [],
    "switches": [],
    "nonlocal": [],
    "signals": [],
}


# Several routines that call each other, against a plain counter


class Decider:
    """What decides about paths, one after the other, whatever routine they are in."""

    def __init__(self, interval: int, samples: int = 1, stride: int = 1) -> None:
        self.waits = [interval, *[stride] * (samples - 1)]
        self.next, self.taken = 0, 0

    def __call__(self) -> bool:
        if self.next > 1:
            self.next -= 1
            return False
        self.taken += 1
        self.next = self.waits[self.taken % len(self.waits)]
        return True


@dataclass
class Active:
    """An activation: under a plan, and as a list of edges."""

    routine: int
    execution: Execution
    vertex: int
    path: list[int] = field(default_factory=list)
    chosen: bool = False


class Playing:
    """Routines that call each other at random; each path is kept as the list of its edges."""

    def __init__(self, seed: int, mode: str) -> None:
        self.rng = rng = random.Random(seed)
        self.graphs = [
            structured_graph(rng) if rng.random() < 0.5 else random_graph(rng) for _ in range(3)
        ]
        if mode == "sampled":
            interval = rng.choice((1, 2, 3, 7))
            options, self.decide = SchemeOptions.of(interval=interval), Decider(interval)
        else:
            tick, samples, stride = rng.choice(((1, 1, 1), (3, 1, 1), (5, 3, 2), (2, 2, 4)))
            options = SchemeOptions.of(tick=tick, samples=samples, stride=stride)
            self.decide = Decider(tick, samples, stride)
        self.mode, self.words = mode, interpret.ProgramWords()
        self.plans: list[Any] = [make_plan(cfg, mode, options) for cfg in self.graphs]
        self.expected: list[Counter[tuple[int, ...]]] = [Counter() for _ in self.graphs]
        self.counted: list[Counter[int]] = [Counter() for _ in self.graphs]
        self.enders = [self.ending(cfg) for cfg in self.graphs]

    def ending(self, cfg: ControlFlowGraph) -> set[int]:
        back = back_edges(cfg)
        if self.mode == "sampled":
            return {e for e in back if cfg.edges[e].source != cfg.edges[e].target}
        headers = {cfg.edges[edge].target for edge in back}
        return {e.id for e in cfg.edges if e.target in headers and e.source != cfg.entry}

    def play(self, most: int) -> None:
        stack: list[Active] = []
        for _ in range(most):
            if not stack or (len(stack) < 6 and self.rng.random() < 0.2):
                routine = self.rng.randrange(len(self.graphs))
                begun = interpret.begin(self.plans[routine].plan)
                stack.append(Active(routine, begun, self.graphs[routine].entry))
            top = stack[-1]
            ways = [e for e in self.graphs[top.routine].edges if e.source == top.vertex]
            if ways:
                self.cross(top, self.rng.choice(ways).id)
            if not ways or top.vertex == self.graphs[top.routine].exit:  # a dead end: it ends early
                stack.pop()
                self.counted[top.routine].update(c for c, _ in top.execution.counted)
        for left in stack:
            self.counted[left.routine].update(c for c, _ in left.execution.counted)

    def cross(self, top: Active, edge: int) -> None:
        cfg, plan = self.graphs[top.routine], self.plans[top.routine].plan
        ends = cfg.edges[edge]
        interpret.follow(plan, [edge], top.execution, self.words)
        top.vertex = ends.target
        is_ender = edge in self.enders[top.routine]
        if ends.source == ends.target and not is_ender:
            return
        if not is_ender:
            top.path.append(edge)
        if is_ender or ends.target == cfg.exit:
            # `pep` decides about a path where it ends.
            if top.chosen if self.mode == "sampled" else self.decide():
                self.expected[top.routine][(-1 - ends.source, *top.path)] += 1
            top.path = [-1 - ends.target]
        if ends.source == cfg.entry or is_ender:
            top.chosen = self.mode == "sampled" and self.decide()

    def found(self, routine: int) -> Counter[tuple[int, ...]]:
        """What was counted, by the edges of the paths, where they begin, and where they end."""
        paths: Counter[tuple[int, ...]] = Counter()
        for path_id, count in self.counted[routine].items():
            record = self.plans[routine].decode(path_id)
            begins = () if str(record.start) == "entry" else (-1 - record.blocks[0],)
            paths[(-1 - record.blocks[-1], *begins, *record.edges)] += count
        return paths


@pytest.mark.long
@pytest.mark.seeds(range(400), few=100)
@pytest.mark.parametrize("mode", ["sampled", "pep"])
def test_routines_that_call_each_other(mode: str, seed: int) -> None:
    playing = Playing(seed, mode)
    playing.play(400)
    for routine, expected in enumerate(playing.expected):
        assert playing.found(routine) == expected, (seed, routine)


# Numbers


@pytest.mark.seeds(range(300), few=100)
def test_the_most_frequent_way_out_has_value_0(seed: int) -> None:
    rng = random.Random(seed)
    cfg = structured_graph(rng)
    dag = header_dag(cfg, None)
    weights = [float(rng.randint(0, 9)) for _ in cfg.edges]
    numbering = number_by_weight(dag, weights)
    numbering.validate()
    assert numbering.num_paths == number(dag).num_paths
    by_edge = dag.edge_weights(weights)
    for edges in filter(None, dag.out_edges):
        least = min(edges, key=lambda edge: numbering.values[edge])
        assert numbering.values[least] == 0
        assert by_edge[least] == max(by_edge[edge] for edge in edges)
    if numbering.total < 500:
        numbers = [numbering.encode(path) for path in numbering.paths()]
        assert numbers == list(range(numbering.total))


def test_paths_of_pep_pass_no_header() -> None:
    """But for those that begin there."""
    cfg = structured_graph(random.Random(3))
    headers = {cfg.edges[edge].target for edge in depth_first(cfg).back_edges}
    plan: Any = make_plan(cfg, "pep", SchemeOptions())
    assert headers
    for _, record in plan.numbered_paths():
        assert not headers & set(record.blocks[1:])


# Programs


def setting(mode: str, numbers: Any) -> Setting:
    if mode == "sampled":
        return Setting(f"sampled {numbers}", mode, SchemeOptions.of(interval=numbers))
    tick, samples, stride = numbers
    options = SchemeOptions.of(tick=tick, samples=samples, stride=stride)
    return Setting(f"pep {numbers}", mode, options)


class SamplingWalker(Walker):
    """Walks a trace; paths that a counter of all routines together has chosen begin "sampled"."""

    decide = Decider(1)
    is_pep = False

    def begin(self) -> None:
        """Decide about the path that begins, under `sampled`."""
        if not self.is_pep:
            self.stack[-1].begins = "sampled" if self.decide() else "passed by"

    def path(self, activation: Any, ends: str) -> Any:  # type: ignore[override]
        """Decide about the path that ends, under `pep`."""
        if self.is_pep:
            chosen = ends != "early" and self.decide()
            activation.begins = "sampled" if chosen else "passed by"
        return super().path(activation, ends)

    def enter(self, step: int, expected: frozenset[int], below: bool) -> None:
        super().enter(step, expected, below)
        self.begin()

    def cross(self, edge: int) -> None:
        top = self.stack[-1]
        graph, profile = top.graph, self.profile.routines[top.graph.address]
        ends = graph.edges[edge]
        if self.is_pep and ends.source == ends.target:
            profile.paths[self.path(top, "loop")] += 1
            top.path, top.edges = [(graph.blocks[ends.target].start, False)], []
        super().cross(edge)
        if ends.source != ends.target and edge in self.enders[graph.address]:
            self.begin()


def sampled_paths(profile: RoutineProfile, *, partial: bool) -> Counter[tuple[BlockName, ...]]:
    """Sampled paths by their blocks."""
    sums: Counter[tuple[BlockName, ...]] = Counter()
    for path, count in (profile.partial if partial else profile.paths).items():
        if path.begins == "sampled":
            sums[path.blocks] += count
    return sums


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width", "mode"), in_step(PROGRAMS, WIDTHS, ["sampled", "pep"]))
def test_a_walk_over_the_executed_blocks_samples_the_same_paths(
    name: str, width: str, mode: str, fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    """For several intervals at once, each with words of its own, beside `pp`."""
    path, arguments = fixture_elf(name, width), PROGRAMS[name]
    numbers: Any = INTERVALS if mode == "sampled" else BURSTS
    settings = [setting(mode, each) for each in numbers]
    settings.insert(0, Setting("pp", "pp", SchemeOptions()))
    simulated = simulate_settings(path, arguments, directory=tmp_path, settings=settings)
    jumps = name in ("nonlocal", "signals")
    reference = trace(path, arguments, directory=tmp_path, stack_pointers=jumps)
    graphs = simulated.observation.recovered.routines
    cuts = dict(cut_edges(simulated))
    if mode == "pep":
        cuts = {cfg.address: header_dag(cfg, 10**8).cut_edges for cfg in graphs}
    for each in numbers:
        walker = SamplingWalker(
            graphs,
            reference.pc,
            reference.breaks,
            reference.sp,
            cuts,
            faulted=not reference.executed[-1],
        )
        walker.decide = Decider(each) if mode == "sampled" else Decider(*each)
        walker.is_pep = mode == "pep"
        check(simulated, f"{mode} {each}", walker.walk().routines)


def check(simulated: Simulated, name: str, expected: Mapping[int, RoutineProfile]) -> None:
    """Compare the paths of every routine."""
    found = {routine.address: routine for routine in simulated.measurements[name].routines}
    some = 0
    for address, reference in expected.items():
        for partial in (False, True):
            paths = sampled_paths(reference, partial=partial)
            some += paths.total()
            counted = paths_of(found[address], partial) if address in found else Counter()
            assert counted == paths, (name, hex(address), partial)
    assert some > 0


def test_every_path_is_a_sample_where_the_interval_is_one(tmp_path: Path) -> None:
    settings = [Setting("pp", "pp", SchemeOptions()), setting("sampled", 1)]
    simulated = simulate_settings(LOOPS, directory=tmp_path, settings=settings)
    both = [
        {routine.address: paths_of(routine, False) for routine in measurement.routines}
        for measurement in simulated.measurements.values()
    ]
    assert both[0] == both[1]


MODES = ("sampled", "pep")


@pytest.mark.qemu
@pytest.mark.long
@pytest.mark.parametrize(("name", "width"), in_step(PROGRAMS, WIDTHS))
def test_instrumented_programs_execute_what_is_predicted(
    name: str, width: str, fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    options = SchemeOptions.of(interval=3, tick=20, samples=5, stride=3)
    path, arguments = fixture_elf(name, width), PROGRAMS[name]
    check_verified(verified(path, tmp_path, arguments, modes=MODES, options=options))


@pytest.mark.qemu
@pytest.mark.toolchain
def test_routines_that_are_left_alone_take_no_part(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """With them every second path would be one of `_start`, or none: control alternates."""
    built = compile_c(LEFT_ALONE, ("-nostdlib",), language="asm")
    options = SchemeOptions.of(interval=2)
    result = verified(built, tmp_path, modes=["sampled"], options=options)
    assert [[left.routine for left in mode.left] for mode in result.modes] == [["strange"]]
    check_verified(result)
