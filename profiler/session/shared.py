"""Many schemes on one recorded run, planned and measured by several processes.

Each process has some of the routines: it replays what these did (`replay`), and measures all
schemes in them. A routine concerns the others in one way: where its counters lie depends on how
much space those before it take. So the work has two steps:

1. plan, replay; answer how much space the counters take       `_Part.plan`
2. measure, behind the counters of all routines before         `_Part.measure`

Some code needs words of memory beside its counters, which shows only when it is generated, and
moves what follows. That is rare: then one process measures everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple, TypeVar

from profiler.code.layout import NOTHING_USED, Room
from profiler.code.pricing import KnownCosts
from profiler.graphs.facts import GraphFacts, KnownFacts
from profiler.profiles.profile import Measurement
from profiler.request.request import Setting
from profiler.session.forked import Forked
from profiler.session.observation import Observation
from profiler.session.replay import RecordedRun
from profiler.session.results import (
    BETWEEN_TELLINGS,
    Measuring,
    RoutineResult,
    check_flow,
    measure_all,
)

CHUNKS = 16
"""Pieces of the program that a process has: more even out the work."""
Told = Callable[[int, int], None]
Each = TypeVar("Each")


class _Measured(NamedTuple):
    """What a part measured.

    Attributes
    ----------
    results
        By chunk and scheme: those of the routines.
    ends
        By chunk and scheme: the space for counters that is taken behind the chunk.
    costs
        By scheme: what was not known of the code of routines.
    facts
        What is known about the graphs of the routines.
    """

    results: list[list[list[RoutineResult]]]
    ends: list[list[Room]]
    costs: list[dict[int, bytes]]
    facts: Mapping[int, GraphFacts]


class _Part:
    """What one process does: some chunks of routines."""

    def __init__(
        self,
        run: RecordedRun,
        settings: Sequence[Setting],
        chunks: Sequence[Sequence[int]],
        costs: Sequence[KnownCosts],
        facts: KnownFacts,
        *,
        brief: bool,
    ) -> None:
        self._run, self._settings, self._chunks = run, settings, chunks
        self._known_costs, self._facts, self._brief = costs, facts, brief
        self.told: Told | None = None
        self.observation: Observation | None = None
        self._measuring: list[Measuring] = []

    def plan(self) -> list[list[Room]]:
        """Return by chunk and scheme how much space counters take."""
        routines = frozenset(number for chunk in self._chunks for number in chunk)
        observation = self.observation = self._run.observe(self._settings, routines)
        check_flow(observation)
        self._measuring = [
            Measuring(observation, scheme, self._facts, brief=self._brief, costs=costs)
            for scheme, costs in zip(observation.schemes, self._known_costs, strict=True)
        ]
        return [[scheme.room(chunk) for scheme in self._measuring] for chunk in self._chunks]

    def measure(self, starts: list[list[Room]]) -> _Measured:
        """Measure; `starts` are by chunk and scheme the space that is taken before the chunk."""
        observation, measuring = self.observation, self._measuring
        assert observation is not None
        results, ends = [], []
        total, done = sum(map(len, self._chunks)), 0
        for chunk, begin in zip(self._chunks, starts, strict=True):
            for scheme, used in zip(measuring, begin, strict=True):
                scheme.pricer.go_on(used)
                scheme.results = []
            for routine in chunk:
                if self.told is not None and done % BETWEEN_TELLINGS == 0:
                    self.told(done, total)
                done += 1
                for scheme in measuring:
                    scheme.measure(routine)
                observation.forget(routine)
            results.append([scheme.results for scheme in measuring])
            ends.append([scheme.pricer.used for scheme in measuring])
        costs = [scheme.costs.added for scheme in measuring]
        return _Measured(results, ends, costs, self._facts.known)


def measure_shared(
    guide: Observation,
    run: RecordedRun,
    settings: Sequence[Setting],
    jobs: int,
    *,
    brief: bool = False,
    told: Told | None = None,
) -> tuple[Measurement, ...]:
    """Return what each scheme measures in a recorded run.

    Parameters
    ----------
    guide
        The run as it was made, under whatever schemes.
    run
        Its recording.
    settings
        The schemes.
    jobs
        How many processes share the work, this one among them. It must have no other threads.
    brief, told
        See `results.measure_all`.

    Raises
    ------
    SimulatorError
        See `session.compare_program`.
    """
    chunks = _chunks(run, jobs * CHUNKS)
    jobs = min(jobs, len(chunks))
    costs = [guide.costs(setting) for setting in settings]
    facts = guide.facts()
    if not all(each.known for each in costs):
        run.prepare()
    parts = [
        _Part(run, settings, chunks[number::jobs], costs, facts, brief=brief)
        for number in range(jobs)
    ]
    own = parts[0]
    own.told = told
    with Forked(parts[1:]) as others:
        others.ask("plan")
        rooms = _in_order([own.plan(), *others.answers()])
        starts = [[NOTHING_USED] * len(settings)]
        for taken in rooms:
            starts.append([used.beside(more) for used, more in zip(starts[-1], taken, strict=True)])
        given = [starts[:-1][number::jobs] for number in range(jobs)]
        others.ask("measure", given[1:])
        shared: list[_Measured] = [own.measure(given[0]), *others.answers()]
    observed = own.observation
    assert observed is not None
    whole = replace(guide, schemes=observed.schemes, judges=observed.judges)
    if _in_order([each.ends for each in shared]) != starts[1:]:
        again = run.observe(settings)
        again = replace(again, runs=guide.runs, whole_runs=guide.whole_runs)
        return measure_all(again, brief=brief, keep_plans=False, told=told)
    results = _in_order([each.results for each in shared])
    measurements = []
    for place, scheme in enumerate(whole.schemes):
        measuring = Measuring(whole, scheme, facts, brief=brief, costs=costs[place])
        measuring.results = [each for chunk in results for each in chunk[place]]
        measurements.append(measuring.measurement())
        for part in shared:
            costs[place].added.update(part.costs[place])
        whole.keep_costs(scheme.setting, costs[place])
    for part in shared:
        facts.learn(part.facts)
    whole.keep_facts(facts)
    return tuple(measurements)


def _chunks(run: RecordedRun, count: int) -> list[list[int]]:
    """Cut the routines that were entered, in order, into pieces of about the same work."""
    work = list(accumulate(_BESIDES + run.edges(routine) for routine in run.entered))
    if not work:
        return [[]]
    chunks: list[list[int]] = [[] for _ in range(count)]
    for routine, behind in zip(run.entered, work, strict=True):
        chunks[(behind - 1) * count // work[-1]].append(routine)
    return [chunk for chunk in chunks if chunk]


_BESIDES = 20
"""What each routine takes whatever its size, in edges."""


def _in_order(by_part: Sequence[Sequence[Each]]) -> list[Each]:
    """Return by chunk what is given by part and chunk: chunks were dealt out in turn."""
    count = sum(map(len, by_part))
    jobs = len(by_part)
    return [by_part[number % jobs][number // jobs] for number in range(count)]
