"""An observed run as a value: everything that is needed to measure its schemes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.pricing import KnownCosts
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.numbering import KnownFacts
from simprof.profiler.profiles.profile import Measurement
from simprof.profiler.recovery.recovery import Discoveries, RecoveredProgram
from simprof.profiler.recovery.selection import RoutineNames
from simprof.profiler.request.request import ALL_ROUTINES, Contexts, Selection, Setting
from simprof.profiler.session.counters import CounterSource
from simprof.profiler.session.events import RoutineEvents
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.scheme_runs import EdgeCounts, SchemeRun
from simprof.simulator.binary.program import LineTable, Program
from simprof.simulator.machine.running import RunResult

if TYPE_CHECKING:
    from simprof.profiler.session.ledger import Ledger
    from simprof.profiler.session.windows import Window


@dataclass(frozen=True)
class Invocation:
    """What the user asked for, as far as the results of the run repeat it.

    Attributes
    ----------
    file
        The program, as the user wrote it.
    arguments
        Its arguments, without its own name.
    selection
        Which routines are profiled.
    max_instructions, timeout
        The budgets, in instructions and seconds; None: none.
    contexts
        What is told apart by calling context; None: nothing.
    """

    file: Path
    arguments: tuple[bytes, ...] = ()
    selection: Selection = ALL_ROUTINES
    max_instructions: int | None = None
    timeout: float | None = None
    contexts: Contexts | None = None

    @property
    def argument_texts(self) -> tuple[str, ...]:
        """The arguments for people to read: bytes that are no text are escaped."""
        return tuple(argument.decode(errors="backslashreplace") for argument in self.arguments)


@dataclass(frozen=True)
class Unattributed:
    """How many executed transfers of control and instructions are in no graph."""

    transfers: int
    instructions: int


@dataclass(frozen=True)
class Observation:
    """A finished run, with everything that its schemes are measured by.

    The graphs contain every transfer that the program executed, apart from `unattributed`.

    Attributes
    ----------
    invocation, program, recovered
        What was asked for, the program, and its graphs.
    schemes
        Those that were asked for, in order.
    judges
        Mode -> scheme of the run. Those by which others are judged (TPP 5) are among them, even if
        nobody asked for them.
    events
        What the run itself counted, by number of each routine that was entered.
    counters
        What the schemes' counters hold.
    contexts
        What code generation knows of the routines.
    result
        How the run ended.
    unattributed
        What the graphs still lack after the last round.
    irregular
        (address, reason) of code that was executed though recovery refused to follow it.
    discoveries
        What the graphs rest on beside the program's file.
    memory
        What earlier sessions knew of the program.
    ledger
        What was counted by calling context; None: nothing was.
    opened
        Files that the program has opened, where they are on the host.
    window
        The calls to which `events` and `counters` are confined; None: they are of the whole run.
    runs, whole_runs
        How often the program was emulated, and how many of these runs were whole ones: the others
        were given up because the graphs lacked something.
    """

    invocation: Invocation
    program: Program
    recovered: RecoveredProgram
    schemes: Sequence[SchemeRun]
    judges: Mapping[str, SchemeRun]
    events: Mapping[int, RoutineEvents]
    counters: CounterSource
    contexts: ProgramContexts
    result: RunResult
    unattributed: Unattributed
    irregular: tuple[tuple[int, str], ...]
    runs: int
    whole_runs: int
    discoveries: Discoveries = field(default_factory=Discoveries)
    memory: BinaryMemory | None = None
    ledger: Ledger | None = None
    window: Window | None = None
    opened: frozenset[Path] = frozenset()

    @cached_property
    def names(self) -> RoutineNames:
        """The names of all routines."""
        return RoutineNames(self.program)

    @property
    def base(self) -> int:
        """Instructions of the program that were counted."""
        return self.result.instructions if self.window is None else self.window.base

    def costs(self, setting: Setting) -> KnownCosts:
        """Return what is known of the code of routines under a setting."""
        if self.memory is None:
            return KnownCosts()
        return self.memory.costs(self.discoveries, setting)

    def keep_costs(self, setting: Setting, costs: KnownCosts) -> None:
        """Keep what is known of the code of routines under a setting."""
        if self.memory is not None:
            self.memory.keep_costs(self.discoveries, setting, costs)

    def facts(self) -> KnownFacts:
        """Return what is known about the graphs."""
        return KnownFacts() if self.memory is None else self.memory.facts(self.discoveries)

    def keep_facts(self, facts: KnownFacts) -> None:
        """Keep what is known about the graphs."""
        if self.memory is not None:
            self.memory.keep_facts(self.discoveries, facts)

    def forget(self, routine: int) -> None:
        """Let go of what measuring a routine took: its plans, and what is known of its code."""
        for scheme in (*self.schemes, *self.judges.values()):
            scheme.forget(routine)
        self.contexts.forget(routine)

    @property
    def edge_counts(self) -> EdgeCounts:
        """Graph -> the counts of its edges in this run.

        None for a graph whose routine was not entered, or is not among those of the run.
        """
        graphs = self.recovered.arrays
        names = zip(graphs.addresses.tolist(), graphs.names, strict=True)
        numbers = {name: number for number, name in enumerate(names)}
        entered = self.events  # whoever keeps the counts need not keep the whole observation

        def counts(cfg: ControlFlowGraph) -> Sequence[int] | None:
            events = entered.get(numbers.get((cfg.address, cfg.name), -1))
            return None if events is None else events.edges

        return counts


@dataclass(frozen=True)
class Comparison:
    """Several schemes on one program.

    Attributes
    ----------
    measurements
        In the order of the settings.
    emulations
        How often the program was emulated for that.
    whole_emulations
        How many of these runs were whole: 1, or 2 where a scheme needs an edge profile first and
        cannot be replayed (`counters.Counters.replay`). The others were given up because the
        graphs lacked something.
    lines
        Source lines of the program: brief measurements have none of their own.
    """

    measurements: tuple[Measurement, ...]
    emulations: int
    whole_emulations: int
    lines: LineTable | None = field(default=None, compare=False)
