"""One run of the program on one set of graphs.

Steps -> functions
1. say what the kernel does on each edge for the schemes  `_lowering`
2. run; stop soon after something that the graphs lack    `execute`, `_GivingUp`
3. account for what was under way at the end               `_finish`
4. gather what the graphs lacked                           `discover.discoveries_of`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine.automaton import Automaton
from simprof.profiler.engine.lowering import KnownProducts, Lowering, hash_model
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.observer import ProfilingObserver
from simprof.profiler.engine.operations import TraceSink
from simprof.profiler.engine.silence import EventsLostError
from simprof.profiler.engine.states import KnownWays, RunCounts
from simprof.profiler.engine.walk import GraphIndex, Missing
from simprof.profiler.recovery.recovery import Discoveries, RecoveredProgram
from simprof.profiler.request.request import Contexts
from simprof.profiler.session.contexts import counting_of
from simprof.profiler.session.discover import discoveries_of, loaded_code
from simprof.profiler.session.expected import ExpectedEntries, VariantPlans
from simprof.profiler.session.scheme_runs import EdgeCounts, SchemeRun
from simprof.profiler.session.world import World
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import RunResult

if TYPE_CHECKING:
    from simprof.profiler.engine.recording import RecordingLowering
    from simprof.simulator.leon.machine import LeonMachine

Array = npt.NDArray[np.int64]
GRACE = 3_000_000
"""Instructions for which a run goes on after it has done something that the graphs lack. In this
time it may show what else they lack, which saves further runs."""

TraceStart = Callable[[GraphIndex, EngineMemory], TraceSink]
"""Begins the trace of a run on these graphs, whose tokens the kernel puts into this memory."""

RecordingStart = Callable[[GraphIndex, int], "RecordingLowering"]
"""Begins to record a run on these graphs; the number is all ones of a register's width."""


@dataclass(frozen=True)
class ExecutionOptions:
    """What a run is to do besides executing the program.

    Attributes
    ----------
    persistent
        Whether to go on to the end whatever the graphs lack.
    replayable
        Whether other schemes are to be replayed on what this run counts.
    edge_counts
        Graph -> its edge counts in an earlier run. The kernel is spared work on the edges that
        were crossed most often.
    start_trace
        What begins a trace of the run; None: none is written.
    record
        What begins a recording of the run, which then has no schemes; None: none is made.
    known
        What earlier runs under the same schemes know of routines; this one adds to it.
    is_dense
        Whether every block raises events throughout the run, as it does where a trace is written
        or a recording made.
    contexts
        What to tell apart by calling context; None: nothing.
    expected
        Entries that the graphs may turn out to have; None: none. The run is made on graphs that
        have them all.
    ways
        Tells the ways through these graphs that another run has taken, None if none are known. It
        is asked where no edge has anything to do but to be counted.
    """

    persistent: bool = False
    replayable: bool = False
    edge_counts: EdgeCounts | None = None
    start_trace: TraceStart | None = None
    record: RecordingStart | None = None
    known: KnownProducts = field(default_factory=dict)
    is_dense: bool = False
    contexts: Contexts | None = None
    expected: ExpectedEntries | None = None
    ways: Callable[[], KnownWays | None] = field(default=lambda: None)


@dataclass(frozen=True)
class ProgramExecution:
    """One run, finished or given up.

    Attributes
    ----------
    recovered, schemes
        The graphs and the schemes that it was made with.
    index, lowering, automaton
        What counted.
    counts
        What was counted, under the numbers of the graphs that the run was made on.
    result
        How the run ended.
    given_up
        Whether it was stopped because the graphs lacked something.
    discoveries
        What the graphs lacked; of expected entries, those that control came by.
    expected
        Entries that the graphs may turn out to have; None: the graphs are as they are.
    """

    recovered: RecoveredProgram
    schemes: Sequence[SchemeRun]
    index: GraphIndex
    lowering: Lowering | RecordingLowering
    automaton: Automaton
    counts: RunCounts
    result: RunResult
    given_up: bool
    discoveries: Discoveries
    expected: ExpectedEntries | None = None

    def close(self) -> None:
        """Let go of what nobody asks for once the counts have been collected."""
        self.index.close()
        self.counts.close()

    @property
    def lacks_nothing(self) -> bool:
        """Whether the graphs explain all that the program did."""
        return not self.automaton.tally.missing

    @property
    def edge_counts(self) -> Array:
        """How often each edge of `recovered` was crossed, once it has turned out what these are.

        int64, by program-wide number.
        """
        counts = self.counts.edge_counts
        return counts if self.expected is None else self.expected.without_unused(counts)

    def turned_out(
        self, recovered: RecoveredProgram, schemes: Sequence[SchemeRun]
    ) -> ProgramExecution:
        """Return this run as one on the graphs that it has shown to be right.

        Parameters
        ----------
        recovered
            These graphs: `ExpectedEntries.graphs_with` those that control came by.
        schemes
            The same schemes on them.
        """
        assert self.expected is not None
        assert isinstance(self.lowering, Lowering)
        self.expected.choose(self.lowering, self.expected.used(self.counts.edge_counts))
        return replace(self, recovered=recovered, schemes=schemes, index=GraphIndex(recovered))


class _GivingUp:
    """Ends a run soon after it has done something that the graphs lack, unless `persistent`."""

    def __init__(self, persistent: bool) -> None:
        self.machine: Machine | LeonMachine | None = None
        self.given_up = False
        self._persistent = persistent

    def __call__(self, missing: Missing) -> None:
        """Note that the run has done something that the graphs lack."""
        if self.machine is not None and not self._persistent and not self.given_up:
            self.given_up = True
            self.machine.stop_soon(GRACE)


def execute(
    world: World,
    recovered: RecoveredProgram,
    schemes: Sequence[SchemeRun],
    options: ExecutionOptions,
) -> ProgramExecution:
    """Run the program to its end, or until it is given up.

    Raises
    ------
    SimulatorError
        If the program cannot be run or profiled.
    """
    expected = options.expected
    if expected is not None:
        recovered = expected.recovered
    index = GraphIndex(recovered, frozenset(expected.blocks if expected is not None else ()))
    lowering = _lowering(recovered, index, schemes, options)
    giving_up = _GivingUp(options.persistent)
    is_dense = options.is_dense or bool(options.start_trace or options.record)
    automaton = Automaton(index, lowering, giving_up, is_dense=is_dense)
    ways = options.ways() if lowering.is_idle and options.start_trace is None else None
    if ways is not None:
        automaton.learn(ways)
    machine = giving_up.machine = world.machine(ProfilingObserver(automaton))
    if not isinstance(lowering, Lowering):
        automaton.record(lowering)
    if options.start_trace is not None:
        automaton.trace = options.start_trace(index, lowering.memory)
    result = machine.run()
    if isinstance(automaton.error, EventsLostError):
        return execute(world, recovered, schemes, replace(options, is_dense=True))
    try:
        _finish(automaton, result)
    except EventsLostError:
        return execute(world, recovered, schemes, replace(options, is_dense=True))
    discoveries = loaded_code(recovered, machine.loaded)
    if discoveries == Discoveries():
        discoveries = discoveries_of(recovered, automaton.tally.missing, machine.read)
    automaton.retire()
    machine.close()
    execution = ProgramExecution(
        recovered,
        schemes,
        index,
        lowering,
        automaton,
        automaton.counts,
        result,
        giving_up.given_up,
        discoveries,
        expected,
    )
    if expected is None:
        return execution
    entries = expected.addresses(expected.used(execution.counts.edge_counts))
    return replace(execution, discoveries=discoveries.merged(Discoveries(entries=entries)))


def _lowering(
    recovered: RecoveredProgram,
    index: GraphIndex,
    schemes: Sequence[SchemeRun],
    options: ExecutionOptions,
) -> Lowering | RecordingLowering:
    program, edge_counts = recovered.program, options.edge_counts
    stack_mask = (1 << (64 if program.is64 else 32)) - 1
    if options.record is not None:
        return options.record(index, stack_mask)
    counting = [scheme for scheme in schemes if scheme.slot is not None]
    expected = options.expected
    return Lowering(
        [scheme.plan for scheme in counting],
        recovered.routines,
        index.first_edge,
        hash_model(program.machine),
        stack_mask,
        lambda number: None if edge_counts is None else edge_counts(recovered.routines[number]),
        keep_history=options.replayable,
        known=options.known,
        contexts=counting_of(index, options.contexts),
        variants=None if expected is None else VariantPlans(expected, counting),
    )


def _finish(automaton: Automaton, result: RunResult) -> None:
    """Account for what was under way when the run ended; raise what went wrong in it."""
    if automaton.error is not None:
        raise automaton.error
    fault = result.fault
    inside = fault is not None and fault.origin is None
    automaton.finish(
        exited=result.reason == "exit", fault_pc=fault.pc if fault and inside else None
    )
    if automaton.error is not None:
        raise automaton.error
