"""Many schemes on one recorded run, planned and measured by several processes.

Each process has some of the routines: it replays what these did (`replay`), and measures all
schemes in them. A routine concerns the others in one way: where its counters lie depends on how
much space those before it take. So the work has two steps:

1. plan, replay; answer how much space the counters take       `_ProcessPart.plan`
2. measure, behind the counters of all routines before         `_ProcessPart.measure`

Plans are large, and live from the first step to the second: many routines are measured in several
waves, one after the other.

Some code needs words of memory beside its counters, which shows only when it is generated, and
moves what follows. That is rare: then one process measures everything.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, count, groupby, zip_longest
from typing import Any, TypeVar

from simprof.profiler.code.layout import NOTHING_USED, Room
from simprof.profiler.code.pricing import KnownCosts
from simprof.profiler.graphs.numbering import GraphFacts, KnownFacts
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.errors import CounterRoomError
from simprof.profiler.request.request import Setting
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.pool import Forked, Lost, Pool, answer_all
from simprof.profiler.session.replay import RecordedRun
from simprof.profiler.session.results import (
    BETWEEN_TELLINGS,
    Measuring,
    Refused,
    RoutineResult,
    check_flow,
    measure_all,
    refuse,
)

WAVE = 800  # Routines of a wave, about
CHUNKS = 8  # Pieces of a wave that a process has: more even out the work
Chunks = Sequence[Sequence[int]]
Told = Callable[[int, int], None]
Each = TypeVar("Each")


# What a part measured, by chunk and scheme: results of the routines, and the space for counters
# that is taken behind the chunk, or why the counters do not fit there.
_End = Room | CounterRoomError
_Measured = tuple[list[list[list[RoutineResult]]], list[list[_End]]]
# What later sessions may know: by scheme what was not known of code; about the graphs.
_Learnt = tuple[list[dict[int, bytes]], Mapping[int, GraphFacts]]


class _ProcessPart:
    """What one process does: some chunks of the routines of each wave."""

    def __init__(
        self,
        run: RecordedRun,
        settings: Sequence[Setting],
        costs: Sequence[KnownCosts],
        facts: KnownFacts,
        *,
        brief: bool,
    ) -> None:
        self._run, self._settings = run, settings
        self._costs, self._facts, self._brief = costs, facts, brief
        self.told: Callable[[], None] = lambda: None  # before each routine
        self.observation: Observation | None = None
        self._chunks: Chunks = ()
        self._measuring: list[Measuring] = []

    def plan(self, chunks: Chunks) -> list[list[Room]]:
        """Begin with chunks; return by chunk and scheme how much space counters take."""
        self._chunks, self._measuring, self.observation = chunks, [], None
        routines = frozenset(number for chunk in chunks for number in chunk)
        observation = self.observation = self._run.observe(self._settings, routines)
        check_flow(observation)
        self._measuring = [
            Measuring(observation, scheme, self._facts, brief=self._brief, costs=costs)
            for scheme, costs in zip(observation.schemes, self._costs, strict=True)
        ]
        return [[scheme.room(chunk) for scheme in self._measuring] for chunk in chunks]

    def measure(self, starts: list[list[Room]]) -> _Measured:
        """Measure; `starts` are by chunk and scheme the space that is taken before the chunk."""
        observation, measuring = self.observation, self._measuring
        assert observation is not None
        results, ends = [], []
        for chunk, begin in zip(self._chunks, starts, strict=True):
            for scheme, used in zip(measuring, begin, strict=True):
                scheme.pricer.go_on(used)
                scheme.results, scheme.refused = [], None
            for routine in chunk:
                self.told()
                for scheme in measuring:
                    scheme.measure(routine)
                observation.forget(routine)
            results.append([scheme.results for scheme in measuring])
            ends.append([scheme.refused or scheme.pricer.used for scheme in measuring])
        return results, ends

    def learnt(self) -> _Learnt:
        """Return what has been learnt on the way."""
        return [costs.added for costs in self._costs], self._facts.known


def measure_shared(
    # The run as it was made, under whatever schemes
    guide: Observation,
    run: RecordedRun,
    settings: Sequence[Setting],
    # How many processes share the work, this one among them. It must have no other threads.
    jobs: int,
    *,
    brief: bool = False,
    told: Told | None = None,
    refused: Refused,
) -> tuple[RunMeasurement, ...]:
    """Return what each scheme measures in a recorded run.

    `refused`: see `measure_all`. Raises SimulatorError: see `session.compare_program`.
    """
    waves = _waves(run, jobs)
    memory, known = guide.memory, guide.discoveries
    costs, facts = [memory.costs(known, setting) for setting in settings], memory.facts(known)
    run.prepare(registers=not all(each.known for each in costs))
    parts = [_ProcessPart(run, settings, costs, facts, brief=brief) for _ in range(jobs)]
    own = parts[0]
    own.told = _teller(told, jobs, len(run.entered))
    used = [NOTHING_USED] * len(settings)
    results: list[list[list[RoutineResult]]] = []
    without: dict[int, CounterRoomError] = {}
    with _Others(parts[1:]) as others:
        for chunks in waves:
            dealt = [chunks[number::jobs] for number in range(jobs)]
            others.ask("plan", dealt[1:])
            rooms = _in_order([own.plan(dealt[0]), *others.answers()])
            starts = [used]
            for taken in rooms:
                pairs = zip(starts[-1], taken, strict=True)
                starts.append([before.beside(more) for before, more in pairs])
            given = [starts[:-1][number::jobs] for number in range(jobs)]
            others.ask("measure", given[1:])
            measured: list[_Measured] = [own.measure(given[0]), *others.answers()]
            ends = _in_order([ends for _, ends in measured])
            for end in ends:
                without |= {n: e for n, e in enumerate(end) if isinstance(e, CounterRoomError)}
            if any(_moved(*each, without) for each in zip(ends, starts[1:], strict=True)):
                alone = run.observe(settings)
                alone = replace(alone, runs=guide.runs, whole_runs=guide.whole_runs)
                return measure_all(alone, brief=brief, keep_plans=False, told=told, refused=refused)
            results += _in_order([found for found, _ in measured])
            used = starts[-1]
        others.ask("learnt")
        learnt: list[_Learnt] = [own.learnt(), *others.answers()]
    observed = own.observation
    assert observed is not None
    whole = replace(guide, schemes=observed.schemes, judges=observed.judges)
    measurements = []
    for place, scheme in enumerate(whole.schemes):
        measuring = Measuring(whole, scheme, facts, brief=brief, costs=costs[place])
        measuring.results = [each for chunk in results for each in chunk[place]]
        measuring.refused = without.get(place)
        if place not in without:
            measurements.append(measuring.measurement())
        refuse([measuring], refused, raises=False)
        for added, _ in learnt:
            costs[place].added.update(added[place])
    for _, known_facts in learnt:
        facts.learn(known_facts)
    memory.keep_learnt()
    return tuple(measurements)


class _Others:
    """The parts that other processes do, each by its own: it keeps its plans between two questions.

    What one of them cannot do, for whatever reason, this process does: an error is then raised
    here, and a process that is killed for its memory costs time and nothing else.
    """

    def __init__(self, parts: Sequence[_ProcessPart]) -> None:
        self._parts = parts
        self._asked: list[list[tuple[str, tuple[Any, ...]]]] = [[] for _ in parts]
        self._here: set[int] = set()  # the parts that this process has taken over
        self._pool = Pool(self._start, len(parts))

    def _start(self, number: int) -> Forked:
        return Forked(lambda pipe: answer_all(pipe, partial(self._do, number)))

    def __enter__(self) -> _Others:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()

    def ask(self, method: str, *arguments: Sequence[Any]) -> None:
        """Have each part do something; `arguments`: for each parameter the values, one a part."""
        for number, asked in enumerate(self._asked):
            wish = method, tuple(values[number] for values in arguments)
            asked.append(wish)
            if number not in self._here:
                self._pool.ask(number, wish)

    def answers(self) -> list[Any]:
        """Wait for all parts; return what they answer to what they were asked last."""
        return [self._answer(number) for number in range(len(self._parts))]

    def _answer(self, number: int) -> Any:
        if number in self._here:
            return self._do(number, self._asked[number][-1])
        found = self._pool.answer(number)
        if not isinstance(found, Lost):
            return found
        self._here.add(number)
        return [self._do(number, wish) for wish in self._asked[number]][-1]

    def _do(self, number: int, wish: tuple[str, tuple[Any, ...]]) -> Any:
        method, arguments = wish
        return getattr(self._parts[number], method)(*arguments)


def _teller(told: Told | None, jobs: int, total: int) -> Callable[[], None]:
    """Return what tells the user how far all are when this process begins with a routine."""
    done = count()

    def tell() -> None:
        number = next(done)
        if told is not None and number % BETWEEN_TELLINGS == 0:
            told(min(number * jobs, total), total)

    return tell


def _waves(run: RecordedRun, jobs: int) -> list[Chunks]:
    """Return the waves; the chunks of each are in the order of the routines."""
    waves = -(-len(run.entered) // WAVE)
    chunks = _chunks(run, max(1, waves) * jobs * CHUNKS)
    each = -(-len(chunks) // max(1, waves))
    return [chunks[first : first + each] for first in range(0, len(chunks), each)]


def _chunks(run: RecordedRun, pieces: int) -> list[list[int]]:
    """Cut the routines that were entered, in order, into pieces of about the same work."""
    work = list(accumulate(_BESIDES + run.edges(routine) for routine in run.entered))
    if not work:
        return [[]]
    pairs = zip(run.entered, work, strict=True)
    by_piece = groupby(pairs, lambda pair: (pair[1] - 1) * pieces // work[-1])
    return [[routine for routine, _ in chunk] for _, chunk in by_piece]


_BESIDES = 20  # What each routine takes whatever its size, in edges


def _moved(found: Sequence[_End], expected: Sequence[Room], without: Container[int]) -> bool:
    """Whether the counters of a scheme, of those that fit, end elsewhere than expected."""
    pairs = enumerate(zip(found, expected, strict=True))
    return any(end != start for place, (end, start) in pairs if place not in without)


def _in_order(by_part: Sequence[Sequence[Each]]) -> list[Each]:
    """Return by chunk what is given by part and chunk: chunks were dealt out in turn."""
    rounds = zip_longest(*by_part)
    return [each for dealt in rounds for each in dealt if each is not None]
