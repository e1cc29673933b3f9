"""From a finished run to an observation: its counts by routine, and those of every scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.states import RunCounts
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.request.errors import CountError
from simprof.profiler.session.counters import Counters
from simprof.profiler.session.events import collect_events
from simprof.profiler.session.execute import ProgramExecution
from simprof.profiler.session.observation import Invocation, Observation, Unattributed

if TYPE_CHECKING:
    from simprof.profiler.session.ledger import Ledger
    from simprof.profiler.session.windows import Window


def collect(
    execution: ProgramExecution, invocation: Invocation, wanted: int, *, runs: int, whole_runs: int
) -> Observation:
    """Gather what a finished run has counted.

    Parameters
    ----------
    execution
        The run.
    invocation
        How it was asked for.
    wanted
        How many of its first schemes the user asked for.
    runs, whole_runs
        See `Observation`.

    Raises
    ------
    CountError
        If counts were lost: a defect of simprof.
    """
    recovered, automaton = execution.recovered, execution.automaton
    counts = execution.counts
    early = automaton.tally.early
    events = collect_events(execution.index, execution.edge_counts, early, counts.cut)
    times, window, ledger = None, None, None
    if isinstance(execution.lowering, Lowering) and execution.lowering.contexts is not None:
        window, ledger = _by_context(execution.index, execution.lowering)
    if window is not None:
        events, times = dict(window.events), window.times
    counters = Counters(execution.lowering, events, times)
    if automaton.lost:
        raise CountError(
            f"{automaton.lost} path counts fell outside their tables: this is a defect "
            "of simprof, please report the program"
        )
    schemes = execution.schemes
    reached = automaton.reached(address for address, _ in recovered.irregular)
    return Observation(
        invocation=invocation,
        program=recovered.program,
        recovered=recovered,
        schemes=schemes[:wanted],
        judges={scheme.setting.mode: scheme for scheme in reversed(schemes)},
        events=events,
        counters=counters,
        contexts=ProgramContexts(recovered),
        result=execution.result,
        unattributed=_unattributed(counts, execution.result.instructions),
        irregular=tuple(each for each in recovered.irregular if each[0] in reached),
        runs=runs,
        whole_runs=whole_runs,
        ledger=ledger,
        window=window,
    )


def _by_context(index: GraphIndex, lowering: Lowering) -> tuple[Window | None, Ledger | None]:
    """Return what a run has counted by calling context: in its window, and for its call tree."""
    from simprof.profiler.session.ledger import Ledger  # which few runs need
    from simprof.profiler.session.windows import window_of

    contexts = lowering.contexts
    assert contexts is not None
    counts, options = contexts.counts(), contexts.options
    window = None if options.entry is None else window_of(counts, lowering, index)
    ledger = Ledger(counts, lowering, index, options.limit) if options.tree else None
    return window, ledger


def _unattributed(counts: RunCounts, instructions: int) -> Unattributed:
    """Return how much of a run of so many instructions is in no graph."""
    attributed = counts.attributed_instructions()
    return Unattributed(counts.unattributed_transfers(), instructions - attributed)
