"""An observed run as a value, and what every measurement says of it whatever the scheme.

`collect` makes an `Observation` of a finished execution. The functions behind it give a run's
options, ending, threads, warnings and source lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import unit_flow
from simprof.profiler.graphs.paths import PathPiece
from simprof.profiler.plan.decoders import path_counts
from simprof.profiler.profiles.profile import (
    Ending,
    FaultInfo,
    Option,
    ProgramInfo,
    RefusalInfo,
    RunMeasurement,
    WaitInfo,
)
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs
from simprof.profiler.recovery.selection import RoutineNames
from simprof.profiler.request.request import (
    ALL_ROUTINES,
    ContextChoice,
    SchemeOptions,
    Selection,
    Setting,
    TableChoice,
)
from simprof.profiler.request.weights import source_of
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import SchemeDefinition, SchemeOption, plain
from simprof.profiler.session.counters import Counters, ReadCounters, RoutineEvents, collect_events
from simprof.profiler.session.execution import ProgramExecution, Unattributed
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.scheme_runs import EdgeCounts, PathCounts, SchemeRun
from simprof.simulator.binary.program import LineTable, Program, SourceLine
from simprof.simulator.machine.running import RunResult

if TYPE_CHECKING:
    from simprof.profiler.code.context import ProgramContexts
    from simprof.profiler.session.contexts import CountedWindow, Ledger
    from simprof.profiler.session.judging import Judging


class Invocation(Struct, frozen=True):
    """What the user asked for, as far as the results of the run repeat it."""

    file: Path  # The program, as the user wrote it
    arguments: tuple[bytes, ...] = ()  # Its arguments, without its own name
    selection: Selection = ALL_ROUTINES  # Which routines are profiled
    # max_instructions, timeout: The budgets, in instructions and seconds; None: none.
    max_instructions: int | None = None
    timeout: float | None = None
    # What is distinguished by calling context; None: nothing.
    contexts: ContextChoice | None = None
    input_sha256: str | None = None  # Of the file that is its input; None: input is simprof's own.

    @property
    def argument_texts(self) -> tuple[str, ...]:
        """The arguments for people to read: bytes that are no text are escaped."""
        return tuple(argument.decode(errors="backslashreplace") for argument in self.arguments)


class Observation(Struct, frozen=True, dict=True):
    """A finished run, with everything that its schemes are measured by."""

    invocation: Invocation  # What was asked for
    program: Program
    # The graphs contain every transfer that the program executed, apart from `unattributed`.
    recovered: ProgramGraphs
    schemes: Sequence[SchemeRun]  # Those that were asked for, in order
    # Mode -> scheme of the run. Those by which others are judged (TPP 5) are among them, even if
    # nobody asked for them.
    judges: Mapping[str, SchemeRun]
    # What the run itself counted, by number of each routine that was entered
    events: Mapping[int, RoutineEvents]
    counters: ReadCounters  # What the schemes' counters hold
    result: RunResult  # How the run ended
    unattributed: Unattributed  # What the graphs still lack after the last run
    # (address, reason) of code that was executed though recovery refused to follow it
    irregular: tuple[tuple[int, str], ...]
    memory: BinaryMemory  # What earlier sessions knew of the program
    # runs, whole_runs: How often the program was emulated, and how many of these runs were whole
    # ones: the others were given up because the graphs lacked something.
    runs: int = 0
    whole_runs: int = 0
    reasons: tuple[str, ...] = ()  # Why the program was run more than once: `passes.Reason`
    # What the graphs rest on beside the program's file
    discoveries: Discoveries = field(default_factory=Discoveries)
    ledger: Ledger | None = None  # What was counted by calling context; None: nothing was.
    # The calls to which `events` and `counters` are confined; None: they are of the whole run.
    window: CountedWindow | None = None
    # Whether edge counts are those that guided its scheme, of another run: no counter has them
    has_edges_of_guide: bool = False
    # Files that the program has opened, where they are on the host
    opened: frozenset[Path] = frozenset()

    @property
    def contexts(self) -> ProgramContexts:
        """What code generation knows of the routines."""
        return self.memory.contexts(self.recovered, self.events)

    @cached_property
    def names(self) -> RoutineNames:
        """The names of all routines."""
        return RoutineNames(self.program)

    @property
    def base(self) -> int:
        """Instructions of the program that were counted."""
        return self.result.instructions if self.window is None else self.window.base

    @cached_property
    def judging(self) -> Judging:
        """What says how good the schemes' profiles are."""
        from simprof.profiler.session.judging import Judging  # where nothing is judged it is unused

        return Judging(self.judges, self.events, self.counters)

    def forget(self, routine: int) -> None:
        """Let go of what measuring a routine took: its plans, and what is known of its code."""
        for scheme in self._all_schemes:
            scheme.forget(routine)
        self.memory.forget(routine)

    @property
    def _all_schemes(self) -> Iterable[SchemeRun]:
        every = (*self.schemes, *self.judges.values())
        return {scheme.setting: scheme for scheme in every}.values()

    @property
    def edge_counts(self) -> EdgeCounts:
        """Graph -> the counts of its edges; None: not entered, or not among those of the run."""
        # whoever keeps the counts need not keep the whole observation
        numbers, entered = self.recovered.numbers, self.events

        def counts(cfg: ControlFlowGraph) -> Sequence[int] | None:
            events = entered.get(numbers.get((cfg.address, cfg.name), -1))
            return None if events is None else events.edges

        return EdgeCounts(
            counts, lambda: sum(unit_flow(each.cfg, each.edges) for each in entered.values())
        )

    @property
    def path_counts(self) -> PathCounts:
        """Graph -> how often each path was executed, by what the mode `PATH_PROFILER` counted."""
        scheme, numbers = self.judges[registry.PATH_PROFILER], self.recovered.numbers
        entered, counters = self.events, self.counters

        def counts(cfg: ControlFlowGraph) -> dict[PathPiece, int] | None:
            number = numbers.get((cfg.address, cfg.name), -1)
            if number not in entered:
                return None
            decoder = scheme.definition.path_decoder(scheme.routine_plan(number))
            return None if decoder is None else path_counts(decoder, counters(scheme, number))

        return counts


class SchemeComparison(Struct, frozen=True):
    """Several schemes on one program."""

    measurements: tuple[RunMeasurement, ...]  # Of those not `refused`, in the order of the settings
    emulations: int  # How often the program was emulated for that
    # How many of these runs were whole: 1, or 2 where a scheme needs an edge profile first and
    # cannot be replayed (`counters.Counters.replay`). The others were given up because the graphs
    # lacked something.
    whole_emulations: int
    # Why there was more than one run, in order (`passes.Reason`).
    reasons: tuple[str, ...] = ()
    # Source lines of the program: brief measurements have none of their own.
    lines: LineTable | None = None
    # Setting -> why it has no measurement: its counters do not fit their memory.
    refused: Mapping[Setting, str] = field(default_factory=dict)

    def rows(
        self, settings: Sequence[Setting]
    ) -> tuple[tuple[tuple[str, RunMeasurement], ...], Mapping[str, str]]:
        """Return the measurements by what reports call them, and why the others have none."""
        names = (setting.name for setting in settings if setting not in self.refused)
        others = {setting.name: why for setting, why in self.refused.items()}
        return tuple(zip(names, self.measurements, strict=True)), others


def collect(
    execution: ProgramExecution,  # Of a finished run whose graphs are those that they had to be
    invocation: Invocation,  # How it was asked for
    wanted: int,  # How many of its first schemes the user asked for
) -> Observation:
    """Gather what a finished run has counted; CountError if counts were lost."""
    execution.check()
    recovered, schemes, counts = execution.recovered, execution.schemes, execution.counts
    lowering, index, early = execution.lowering, execution.index, execution.automaton.tally.early
    events = collect_events(index, counts.edge_counts, early, counts.cut)
    times, window, ledger = None, None, None
    if lowering.contexts is not None:
        from simprof.profiler.session.contexts import Ledger, window_of  # which few runs need

        by_context, options = lowering.contexts.counts(), lowering.contexts.options
        window = None if options.entry is None else window_of(by_context, lowering, index)
        ledger = Ledger(by_context, lowering, index, options.limit) if options.tree else None
    if window is not None:
        events, times = dict(window.events), window.times
    return Observation(
        invocation=invocation,
        program=recovered.program,
        recovered=recovered,
        schemes=schemes[:wanted],
        judges={scheme.setting.mode: scheme for scheme in reversed(schemes)},
        events=events,
        counters=Counters(lowering, events, times, recovered.program.machine),
        result=execution.result,
        unattributed=execution.unattributed,
        irregular=execution.irregular,
        memory=BinaryMemory(recovered.program, None),
        ledger=ledger,
        window=window,
    )


def program_info(observation: Observation) -> ProgramInfo:
    """Return which program ran."""
    program, invocation = observation.program, observation.invocation
    return ProgramInfo(
        str(invocation.file),
        program.sha256,
        program.machine,
        invocation.argument_texts,
        len(observation.recovered.routines),
        program.modules,
    )


def scheme_options(scheme: SchemeOptions) -> dict[str, Option]:
    """Return what shapes a scheme's plans, by name."""
    profile = scheme.edge_profile
    own = {option.name: plain(option.of(scheme)) for option in registry.options()}
    return {
        "path_limit": scheme.path_limit,
        "weights": str(scheme.weights),
        "table": str(scheme.table),
        **own,
        "edge_profile": None if profile is None else str(profile),
    }


def chosen_options(fields: Mapping[str, Any]) -> SchemeOptions:
    """Return the options whose values `scheme_options` wrote; others among `fields` are passed by.

    Raises KeyError, TypeError or ValueError if one is missing, or has a value that it cannot have.
    """
    weights, profile = fields["weights"], fields["edge_profile"]
    given = [option for option in registry.options() if option.name in fields]
    own = {option.name: _own_value(option, fields[option.name]) for option in given}
    path_limit = fields["path_limit"]
    if type(path_limit) is not int or path_limit < 1:
        raise ValueError(f"path limit {path_limit!r}")
    if type(weights) is not str:
        raise ValueError(f"weights {weights!r}")
    return SchemeOptions.of(
        path_limit=path_limit,
        weights=source_of(weights),
        table=TableChoice(fields["table"]),
        edge_profile=None if profile is None else Path(profile),
        **own,
    )


def _own_value(option: SchemeOption[Any], value: Any) -> Any:
    """Return the value of a scheme's own option; raises ValueError if it cannot be one."""
    fits = True
    if issubclass(option.kind, StrEnum):
        value = option.kind(value)
    elif option.kind is float and type(value) is int:
        value = float(value)
    else:
        fits = value is None or type(value) is option.kind
    if not fits or (value is not None and not option.fits(value)):
        raise ValueError(f"{option.name}={value!r}")
    return value


def planning_options(scheme: SchemeOptions, selection: Selection) -> dict[str, Option]:
    """Return what shapes the instrumentation of a program, by name."""
    return {
        **scheme_options(scheme),
        "routines": selection.routines,
        "exclude": selection.exclude,
        "user_only": selection.user_only,
    }


def options(invocation: Invocation, scheme: SchemeOptions) -> dict[str, Option]:
    """Return the options that shape a scheme's result, by name."""
    return {
        **planning_options(scheme, invocation.selection),
        "max_instructions": invocation.max_instructions,
        "timeout": invocation.timeout,
    }


def ending(observation: Observation, result: RunResult) -> Ending:
    """Return how the run ended, with the places in the program that say why."""
    place, fault, refusal = partial(_place, observation), result.fault, result.refusal
    fault_info, refusal_info = None, None
    if fault is not None:
        pc = fault.pc if fault.origin is None else fault.origin
        fault_info = FaultInfo(fault.name, pc, fault.address, fault.description, *place(pc))
    if refusal is not None:
        refusal_info = RefusalInfo(refusal.call.name, refusal.pc, *place(refusal.pc))
    waits = tuple(WaitInfo(w.number, w.call, w.pc, *place(w.pc)) for w in result.waits)
    return Ending(result.status, result.reason, result.signal, fault_info, refusal_info, waits)


def _place(observation: Observation, pc: int) -> tuple[str | None, int, SourceLine | None]:
    """Return the routine that `pc` is in, how many bytes behind its start, and the source line."""
    number, line = observation.recovered.routine_at(pc), observation.program.lines.find(pc)
    if number < 0:
        return None, 0, line
    routine = observation.recovered.routines[number]
    return routine.name, pc - routine.address, line


def warnings(
    observation: Observation,
    definition: SchemeDefinition,
    notes: Iterable[str],  # What the scheme itself has to say
    unattributed: Mapping[str, int],
    wrapped: Sequence[str],
) -> Iterator[str]:
    """Yield what the reader of the numbers must know, one line each."""
    if wrapped:
        yield f"32-bit counters would have wrapped in {', '.join(wrapped)}"
    transfers = unattributed["unattributed_transfers"]
    instructions = unattributed["unattributed_instructions"]
    if transfers or instructions:
        yield f"{transfers} transfers and {instructions} instructions could not be attributed"
    if definition.instruments and observation.result.threads:
        yield (
            "counters are not locked: where threads run at the same time, increments can be lost "
            "when two threads update one counter or one hash table at once. The counts here are "
            "exact, as threads take turns; atomic updates would add more than is priced here"
        )
    if definition.estimates:
        yield f"{definition.mode}: counts are samples, not totals"
    judge = definition.judge
    if judge is not None and judge not in observation.judges:
        yield f"the profiles do not determine the definite flow: mode {judge} cannot be used"
    yield from notes
    yield from _denied(observation)
    for address, reason in observation.irregular:
        yield f"irregular code at {address:#x} was executed: {reason}"


def _denied(observation: Observation) -> Iterator[str]:
    """Yield what the program wanted of the host in vain, with the option that gives it."""
    result, invocation = observation.result, observation.invocation
    if times := result.read_only:
        changes = "a change of a file was" if times == 1 else f"{times} changes of files were"
        which = f" ({_names(result.not_writable)})" if result.not_writable else ""
        yield f"{changes} refused{which}: --writable DIR lets the program write below DIR"
    # What else is not found may be meant to be: configuration, translations.
    missed = result.not_found & set(invocation.arguments)
    for path in result.not_found:
        if path.startswith(b"/") and not _OF_LIBC.match(path):
            # `Path.exists` raises an error where it may not look.
            missed |= {path} if os.path.exists(path) else set()  # noqa: PTH110
    if missed:
        yield f"not found by the program: {_names(missed)}: it sees the files below --root alone"


# What libc looks for itself, and does without
_OF_LIBC = re.compile(
    rb"/etc/(ld\.so|localtime|nsswitch)|/usr/(share|lib)/(locale|zoneinfo|.*gconv)"
)
_NAMED = 3  # how many files a note names


def _names(paths: Collection[bytes]) -> str:
    """Name some of several files; bytes that are no text are escaped."""
    names = sorted(path.decode(errors="backslashreplace") for path in paths)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
