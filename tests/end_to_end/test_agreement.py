"""All modes on the committed programs, from one run each: what must be equal is, in all builds.

Every mode's profile is derived from its own counters (`Plan.read`), never from the edges
that the run itself saw; these are compared too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from simprof.profiler.plan.decoders import Plan, Reading, RoutineCounters
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.qpt.options import VertexPlacement
from simprof.profiler.schemes.tpp.planner import TppPlan
from simprof.profiler.session.counters import RoutineEvents
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.session.session import observe
from tests.conftest import FIXTURES

WIDTHS = ("v9", "v8plus", "v8")
PROGRAMS = {
    "calls": ["7"],
    "control": [],
    "deep": ["200"],
    "faults": [],
    "floats": [],
    "loops": [],
    "loops_plain": [],
    "manypaths": [],
    "nonlocal": [],
    "pointers": [],
    "records": [],
    "sieve": ["1"],
    "signals": [],
    "switches": [],
    "switches_pic": [],
    "tailcalls": [],
    "wide": [],
    "words": [],
}
EDGE_MODES = (
    "pp",
    "qpt2",
    "witness",
    "bits",
    "bytes",
    "block-trace",
    "bittrace",
    "fifo",
    "naive",
    "calls",
    "calls-optimal",
    "kiter",
    "kiter-1",
    "uniform",
    "qpt-edge",
    "qpt-mixed",
)
"""Settings that tell every edge's count."""
SETTINGS = {
    **{
        str(mode): Setting(str(mode), mode, SchemeOptions())
        for mode in registry.modes()
        if mode not in ("edges", "qpt")
    },
    "kiter-1": Setting("kiter-1", "kiter", SchemeOptions.of(iterations=1)),
    "tpp-all": Setting("tpp-all", "tpp", SchemeOptions.of(cold=0, loop=0)),
    "tpp-cold": Setting("tpp-cold", "tpp", SchemeOptions.of(cold=25, loop=0, cold_always=True)),
    "uniform": Setting("uniform", "qpt2", SchemeOptions(weights=Weights.UNIFORM)),
    **{
        f"qpt-{placement}": Setting(
            f"qpt-{placement}", "qpt", SchemeOptions.of(placement=placement)
        )
        for placement in VertexPlacement
    },
}


@dataclass(frozen=True)
class RoutineRun:
    """One routine under one setting."""

    events: RoutineEvents
    plan: Plan
    counters: RoutineCounters
    reading: Reading


@dataclass(frozen=True)
class Run:
    """One program under all settings, by the setting's name and the routine's number."""

    observation: Observation
    measurements: Mapping[str, RunMeasurement]

    def routines(self, *names: str) -> Iterator[tuple[RoutineRun, ...]]:
        """Yield each routine that was entered under the settings of these names."""
        for routine in self.observation.events:
            yield tuple(self._routine(self._scheme(name), routine) for name in names)

    def _scheme(self, name: str) -> SchemeRun:
        return next(s for s in self.observation.schemes if s.setting.name == name)

    def _routine(self, scheme: SchemeRun, routine: int) -> RoutineRun:
        plan = scheme.routine_plan(routine)
        assert plan is not None
        counters = self.observation.counters(scheme, routine)
        events = self.observation.events[routine]
        return RoutineRun(events, plan, counters, plan.read(counters))

    def increments(self, name: str) -> int:
        """Counter increments in the whole run."""
        counts = self.measurements[name].counts
        return counts["edge_increments"] + counts["path_increments"]


@lru_cache(maxsize=2)
def run_of(name: str, width: str) -> Run:
    """Run a program once under all settings."""
    given = FIXTURES / "input" / f"{name}.txt"
    with Path("/dev/null").open("wb") as sink:
        guest = GuestOptions(
            root=FIXTURES,
            stdin=given if given.exists() else Path("/dev/null"),
            stdout=sink.fileno(),
            stderr=sink.fileno(),
        )
        request = RunRequest(
            program=FIXTURES / "bin" / width / f"{name}.elf",
            guest=guest,
            arguments=tuple(argument.encode() for argument in PROGRAMS[name]),
            self_check=True,
        )
        observation = observe(request, tuple(SETTINGS.values()))
        measured = measure_all(observation, self_check=request.self_check)
    return Run(observation, dict(zip(SETTINGS, measured, strict=True)))


BUILDS = [
    pytest.param((name, WIDTHS[k % 3]), marks=() if k == 0 else pytest.mark.long)
    for k, name in enumerate(PROGRAMS)
    if k % 2 == 0 or name in ("faults", "nonlocal", "tailcalls")
]
"""Every second program, and those that jump, each in one build."""


@pytest.fixture(params=BUILDS, ids="-".join, scope="module")
def run(request: pytest.FixtureRequest) -> Run:
    """Return the run of every program."""
    return run_of(*request.param)


Paths = Counter[tuple[tuple[int, ...], tuple[int, ...], bool]]


def paths_of(routine: RoutineRun) -> Paths:
    """Executions by blocks, edges, and whether the path is unfinished."""
    plan = routine.plan
    found: Paths = Counter()
    for number, count in routine.reading.paths.items():
        assert isinstance(plan, Plan)
        record = plan.decode(number)
        found[record.blocks, record.edges, False] += count
    for record, count in routine.reading.partial.items():
        found[record.blocks, record.edges, True] += count
    return found


@pytest.mark.long
def test_edge_counts_are_equal(run: Run) -> None:
    for routines in run.routines(*EDGE_MODES):
        for name, routine in zip(EDGE_MODES, routines, strict=True):
            assert routine.reading.edges == routine.events.edges, (name, routine.events.cfg.name)


def test_block_counts_are_equal(run: Run) -> None:
    edges = ("qpt-edge", "qpt-mixed")
    names = [name for name in SETTINGS if name.startswith("qpt-") and name not in edges]
    for routines in run.routines(*names):
        for routine in routines:
            assert routine.reading.blocks == routine.events.block_counts


def test_path_profiles_are_equal(run: Run) -> None:
    for pp, *others in run.routines("pp", "bittrace", "kiter-1"):
        for other in others:
            assert paths_of(other) == paths_of(pp), pp.events.cfg.name


def same_cuts(pp: RoutineRun, tpp: RoutineRun) -> bool:
    """Whether paths end at the same edges, so that the two tell the same paths apart."""
    assert isinstance(pp.plan, Plan) and isinstance(tpp.plan, TppPlan)
    return set(pp.plan.cut_edges) == set(tpp.plan.cut_edges)


def test_tpp_without_cold_edges_is_pp(run: Run) -> None:
    for pp, tpp in run.routines("pp", "tpp-all"):
        assert tpp.counters.events == pp.counters.events, "counters of self-loops"
        if same_cuts(pp, tpp) and not tpp.reading.lost:
            assert paths_of(tpp) == paths_of(pp), pp.events.cfg.name


def test_tpp_agrees_on_every_path_that_it_counts(run: Run) -> None:
    """Counters are exact; obvious paths may count what left them along a cold edge (TPP 4.2)."""
    for pp, tpp in run.routines("pp", "tpp-cold"):
        assert isinstance(tpp.plan, TppPlan)
        if not same_cuts(pp, tpp):
            continue
        expected = paths_of(pp)
        for number, count in tpp.reading.paths.items():
            record = tpp.plan.decode(number)
            true = expected[record.blocks, record.edges, False]
            exact = not tpp.plan.is_obvious(number)
            assert count == true if exact else count >= true, (pp.events.cfg.name, number)


def test_tpps_cold_counter_and_hot_counts_make_the_total(run: Run) -> None:
    for pp, tpp in run.routines("pp", "tpp-cold"):
        assert isinstance(tpp.plan, TppPlan)
        if not same_cuts(pp, tpp) or tpp.plan.obvious.first_edges:
            continue
        lost = sum(tpp.reading.lost.values())
        assert sum(paths_of(tpp).values()) + lost == sum(paths_of(pp).values())


def test_increments_are_ordered(run: Run) -> None:
    assert run.increments("qpt-edge-heuristic") <= run.increments("qpt2")
    assert run.increments("qpt2") <= run.increments("naive")
    assert run.increments("qpt-vertex-optimal") <= run.increments("qpt-redundant")
    assert run.increments("calls-optimal") <= run.increments("calls")
    assert run.increments("qpt2") == run.increments("qpt-edge") == run.increments("calls-optimal")
    assert run.increments("naive") == run.increments("calls")
    assert run.increments("naive") == run.measurements["naive"].counts["transfers"]
    assert run.increments("qpt-redundant") == run.measurements["qpt-redundant"].counts["blocks"]
    # Nothing is counted ahead of a path's end, as `pp` does where an activation then ends early.
    paths = [run.measurements[name].counts["path_increments"] for name in ("bittrace", "pp")]
    assert 0 < paths[0] <= paths[1]


def test_prices_are_ordered(run: Run) -> None:
    """What does less costs less, instruction by instruction."""
    added = {name: measurement.added for name, measurement in run.measurements.items()}
    assert added["qpt2"] == added["qpt-edge"] <= added["naive"] <= added["calls"]
    assert added["qpt-edge-heuristic"] <= added["qpt-edge"]
    assert added["qpt2"] <= added["calls-optimal"]
    assert added["kiter-1"] == added["pp"]


def test_one_profile_more_costs_nothing(fixture_elf: Callable[..., Path]) -> None:
    """Two emulations suffice for all settings: TPP's edge profile, and everything else."""
    assert fixture_elf("calls").exists()
    assert run_of("calls", "v9").observation.whole_runs == 2
