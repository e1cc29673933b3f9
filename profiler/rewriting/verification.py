"""Findings and predictions of `simprof verify`: the instructions that rewriting executes in a run.

A run may show more than the graphs have that a program is instrumented on: where a jump leads that
no table explains, that control comes into the middle of a routine. Then the run has been counted on
other graphs. What it counted in routines whose graphs are the same holds for both, under other
numbers at most (`count_on`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.profiles.profile import Ending, ProgramInfo
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.request import Selection, Setting
from simprof.profiler.rewriting.draft import Cause, charged
from simprof.profiler.rewriting.elsewhere.counter_file import CounterFile
from simprof.profiler.rewriting.instrument import Instrumented
from simprof.profiler.session.counters import RoutineEvents
from simprof.profiler.session.observation import Observation

EMULATOR, QEMU = "emulator", "qemu"
WAYS = (EMULATOR, QEMU)


class ObservedRun(Struct, frozen=True):
    """What a run did to the outside, and how many instructions it executed."""

    status: int  # As a shell has it: the program's own, or 128 + signal.
    # output, errors: Digests of its standard output and standard error.
    output: str
    errors: str
    files: Mapping[str, str]  # Path below the root -> digest, of the files that it left
    instructions: int | None  # None where they were not counted
    # counters, trace: What the program's own files hold; None where there are none.
    counters: CounterFile | None = None
    trace: bytes | None = None
    # Of an instrumented program: what it executed in parts of the run-time, where that was counted.
    runtime: Mapping[Cause, int] = field(default_factory=dict)

    def difference(self, other: ObservedRun) -> str | None:
        """Say in one line how another run behaved differently; None if it did not."""
        if self.status != other.status:
            return f"the status is {other.status}, not {self.status}"
        if self.output != other.output:
            return "its standard output differs"
        if self.errors != other.errors:
            return "its standard error differs"
        changed = {name for name, _ in self.files.items() ^ other.files.items()}
        if changed:
            return f"the file {min(changed)} differs"
        return None

    def prints_otherwise(self, other: ObservedRun) -> bool:
        """Whether another run ended alike and left the same files, and printed something else."""
        printed = (self.output, self.errors) != (other.output, other.errors)
        return printed and (self.status, self.files) == (other.status, other.files)


class Left(Struct, frozen=True):
    """A routine that was left alone, why, and how many instructions it executed."""

    routine: str
    reason: str
    instructions: int


class ModeResult(Struct, frozen=True):
    """What was found of one mode."""

    setting: Setting
    # base, added: Instructions of the original; of the code of the scheme, as `run` prices it,
    # without that of routines that were left alone.
    base: int
    added: int
    rewriting: Mapping[Cause, int]  # What rewriting executes besides, by cause
    # "emulator" and "qemu" -> instructions of the instrumented program; None: not counted.
    executed: Mapping[str, int | None]
    # output_equal, counters_equal: Whether every run behaved as the original, and counted what was
    # predicted. None for counters that no run wrote.
    output_equal: bool
    counters_equal: bool | None
    left: tuple[Left, ...]  # Routines that were left alone
    differences: tuple[str, ...]  # What is not as predicted, a line each
    not_compared: tuple[str, ...] = ()  # What could not be compared, a line each, and why
    # Routines that were copied on graphs that lack what the run shows: what is executed and counted
    # in them is not predicted.
    unforeseen: tuple[str, ...] = ()

    @property
    def predicted(self) -> int | None:
        """All instructions that the instrumented program should execute; None: not predicted."""
        if self.unforeseen or Cause.START not in self.rewriting:  # nothing was counted
            return None
        return self.base + self.added + sum(self.rewriting.values())


class Verification(Struct, frozen=True):
    """The results of all modes.

    `skipped` is what cannot be run or counted here, and why; `ending` how the original ended.
    """

    program: ProgramInfo
    input_sha256: str | None
    selection: Selection
    modes: tuple[ModeResult, ...]
    skipped: Mapping[str, str]
    ending: Ending

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        return not any(mode.differences for mode in self.modes)

    @property
    def is_complete(self) -> bool:
        """Whether all was compared."""
        return not any(mode.not_compared for mode in self.modes)


class OtherRoutine(Struct, frozen=True):
    """A routine that the run has on another graph."""

    # Its number in the graphs that a program is instrumented on; None: they lack it.
    number: int | None
    name: str
    instructions: int  # How many of its own instructions were executed


class CountedRun(Struct, frozen=True):
    """A run of the original."""

    # The run, with the graphs and routine numbers of the instrumented program. `events` and
    # `counters` are of routines whose graphs are the same there.
    observation: Observation
    others: tuple[OtherRoutine, ...]  # The routines that it entered beside these

    def instructions(self, routine: int) -> int:
        """Return how many of its own instructions routine number `routine` has executed."""
        events = self.observation.events.get(routine)
        others = sum(other.instructions for other in self.others if other.number == routine)
        return others + (0 if events is None else events.instructions)


def count_on(recovered: ProgramGraphs, observation: Observation) -> CountedRun:
    """Return what a run has counted, on other graphs of its program."""
    if recovered.arrays == observation.recovered.arrays:
        return CountedRun(replace(observation, recovered=recovered), ())
    events: dict[int, RoutineEvents] = {}
    numbers: dict[int, int] = {}
    others = []
    for there, counted in observation.events.items():
        cfg = counted.cfg
        number = recovered.numbers.get((cfg.address, cfg.name))
        if number is not None and recovered.routines[number] == cfg:
            events[number], numbers[number] = counted, there
        else:
            others.append(OtherRoutine(number, cfg.name, counted.instructions))
    renumbered = replace(
        observation,
        recovered=recovered,
        events=events,
        counters=lambda scheme, routine: observation.counters(scheme, numbers[routine]),
    )
    return CountedRun(renumbered, tuple(others))


def predicted_rewriting(
    made: Instrumented,
    # What the run of the original counted
    events: Mapping[int, RoutineEvents],
    # Address of a trap -> how often its system call said what a signal does
    actions: Mapping[int, int],
    # Address at which the original begins; the start code goes to its copy directly
    entry: int,
) -> Counter[Cause]:
    """Return the instructions of a run besides the program's, the scheme's and the run-time's."""
    total: Counter[Cause] = Counter()
    arrived: Counter[int] = Counter({entry: 1})
    for number, copy in made.copies.routines.items():
        if number not in events:
            continue
        counts = events[number]
        total += charged(copy.charges, counts.edges, counts.block_counts, counts.cut)
        for address, charge in copy.arrivals:
            arrived[address] += charge.times(counts.edges, counts.block_counts, counts.cut)
    for number, copy in made.copies.routines.items():
        if number not in events:
            continue
        for address, (_, edge) in copy.entries.items():
            total[Cause.ENTRIES] += events[number].edges[edge] - arrived[address]
        for trap, more in copy.actions.items():
            total[Cause.SYSTEM_CALLS] += more * actions.get(trap, 0)
    return total
