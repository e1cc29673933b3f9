"""The counts of the original's run, on the graphs that a program is instrumented on.

A run may show more than these graphs have: where a jump leads that no table explains, that control
comes into the middle of a routine. Then the run has been counted on other graphs. What it counted
in routines whose graphs are the same holds for both, under other numbers at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from simprof.profiler.plan.decoders import RoutineCounters
from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.profiler.session.counters import CounterSource
from simprof.profiler.session.events import RoutineEvents
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.scheme_runs import SchemeRun


@dataclass(frozen=True)
class OtherRoutine:
    """A routine that the run has on another graph.

    Attributes
    ----------
    number
        Its number in the graphs that a program is instrumented on; None: they lack it.
    instructions
        How many of its own instructions were executed.
    """

    number: int | None
    name: str
    instructions: int


@dataclass(frozen=True)
class CountedRun:
    """A run of the original.

    Attributes
    ----------
    observation
        The run, with the graphs and routine numbers of the instrumented program. `events` and
        `counters` are of routines whose graphs are the same there.
    others
        The routines that it entered beside these.
    """

    observation: Observation
    others: tuple[OtherRoutine, ...]

    def instructions(self, routine: int) -> int:
        """Return how many of its own instructions routine number `routine` has executed."""
        events = self.observation.events.get(routine)
        others = sum(other.instructions for other in self.others if other.number == routine)
        return others + (0 if events is None else _instructions(events))


def count_on(recovered: RecoveredProgram, observation: Observation) -> CountedRun:
    """Return what a run has counted, on other graphs of its program."""
    if recovered.arrays == observation.recovered.arrays:
        return CountedRun(replace(observation, recovered=recovered), ())
    graphs = recovered.arrays
    names = zip(graphs.addresses.tolist(), graphs.names, strict=True)
    number_of = {name: number for number, name in enumerate(names)}
    events: dict[int, RoutineEvents] = {}
    numbers: dict[int, int] = {}
    others = []
    for there, counted in observation.events.items():
        cfg = counted.cfg
        number = number_of.get((cfg.address, cfg.name))
        if number is not None and recovered.routines[number] == cfg:
            events[number], numbers[number] = counted, there
        else:
            others.append(OtherRoutine(number, cfg.name, _instructions(counted)))
    counters = _Renumbered(observation.counters, numbers)
    renumbered = replace(observation, recovered=recovered, events=events, counters=counters)
    return CountedRun(renumbered, tuple(others))


def _instructions(events: RoutineEvents) -> int:
    blocks = zip(events.block_counts, events.cfg.blocks, strict=True)
    return sum(count * block.instructions for count, block in blocks)


@dataclass(frozen=True)
class _Renumbered:
    """Counters, asked for by other numbers of the routines: a `CounterSource`."""

    source: CounterSource
    numbers: Mapping[int, int]

    def of(self, scheme: SchemeRun, routine: int) -> RoutineCounters:
        """Return what the counters of a routine hold."""
        return self.source.of(scheme, self.numbers[routine])

    def replay(self, schemes: Sequence[SchemeRun]) -> list[frozenset[int]]:
        """Say that no other scheme can be derived."""
        return [frozenset(self.numbers) for _ in schemes]
