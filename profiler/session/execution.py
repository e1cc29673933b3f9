"""One execution of the program on one set of graphs, and what it shows that its file does not.

Steps -> functions
1. what the kernel does on each edge for the schemes       `make_lowering`
2. run; stop soon after something that the graphs lack     `execute`, `_GivingUp`
3. account for what was under way at the end               `_finish`
4. gather what the graphs lacked                           `discoveries_of`
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from simprof.profiler.engine import kernels
from simprof.profiler.engine.automaton import Automaton
from simprof.profiler.engine.lowering import Lowering, TraceSink, cost_words
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.states import RunCounts
from simprof.profiler.engine.walk import (
    GraphIndex,
    Missing,
    MissingEntry,
    MissingReturn,
    MissingTarget,
)
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs, read_words
from simprof.profiler.request.errors import CountError, SelfCheckError
from simprof.profiler.request.request import ContextChoice
from simprof.profiler.session.contexts import counting_of
from simprof.profiler.session.scheme_runs import EdgeCounts, SchemeRun
from simprof.simulator.machine.codewatch import LoadedCode
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import Observer, RunResult

if TYPE_CHECKING:
    from simprof.profiler.engine.contexts import ContextCounting
    from simprof.simulator.leon.machine import LeonMachine

Array = npt.NDArray[np.int64]
# Instructions for which a first run goes on after it has done something that the graphs lack. In
# this time it may show what else they lack, which saves further runs.
GRACE = 3_000_000


def all_loaded(loaded: LoadedCode) -> Discoveries:
    """Return what a dynamically linked program has loaded."""
    return Discoveries(late_words=loaded.late_words, modules=loaded.modules, earlier=loaded.earlier)


def discoveries_of(
    recovered: ProgramGraphs,
    # What they lacked in the run
    missing: Collection[Missing],
    # (address, size in bytes) -> the program's memory as the run left it
    read: Callable[[int, int], bytes],
) -> Discoveries:
    """Return what a run did that its graphs do not contain."""
    entered = [s for s in missing if isinstance(s, MissingEntry) and not s.behind]
    entries = {s.address for s in entered}
    reentries = entries - {s.address for s in entered if not s.again}
    targets = {(s.jump, s.target) for s in missing if isinstance(s, MissingTarget)}
    returning = {step.call for step in missing if isinstance(step, MissingReturn)}
    reached = entries | {target for _, target in targets}
    # If the run came into code that the program itself had written, only the words of that code are
    # returned. As long as they are unknown, control seems to enter routines in places where it does
    # not, so what else the graphs lack is left to the next run.
    late = [s for s in recovered.code.deferred if any(a in s for a in reached)]
    if late and not recovered.knows_late_words:
        return Discoveries(late_words=read_words(read, late))
    return Discoveries(
        frozenset(targets), frozenset(entries), frozenset(returning), reentries=frozenset(reentries)
    )


class Unattributed(Struct, frozen=True):
    """What was executed that is in no graph."""

    # transfers, instructions: Those that the graphs lack: where there are any, results warn.
    transfers: int
    instructions: int
    # generated, entries: Instructions of code that the program has made, and how often control came
    # there from the program's file. No graph is to have them.
    generated: int = 0
    entries: int = 0

    @classmethod
    def of(cls, counts: RunCounts, instructions: int) -> Unattributed:
        """Return what was executed so, of a run; `instructions`: how many are in no graph."""
        transfers = counts.unattributed_transfers()
        if transfers or not counts.index.generated:
            return cls(transfers, instructions)
        return cls(0, 0, instructions, counts.generated_entries())


class ProgramExecution(Struct, frozen=True):
    """A run, finished or given up."""

    # recovered, schemes, index: Its graphs and its schemes, and the numbers of the former.
    recovered: ProgramGraphs
    schemes: Sequence[SchemeRun]
    index: GraphIndex
    lowering: Lowering  # What has the counts of the schemes
    result: RunResult  # How the run ended
    automaton: Automaton
    counts: RunCounts  # What was counted, under the numbers of the graphs that the run was made on
    given_up: bool  # Whether it was stopped because the graphs lacked something
    discoveries: Discoveries  # What the graphs lacked

    def close(self) -> None:
        """Let go of what nobody asks for once the counts have been collected."""
        self.index.close()
        self.counts.close()

    @property
    def unattributed(self) -> Unattributed:
        """What was executed that is in no graph."""
        instructions = self.result.instructions - self.counts.attributed_instructions()
        return Unattributed.of(self.counts, instructions)

    @property
    def irregular(self) -> tuple[tuple[int, str], ...]:
        """(address, reason) of code that was executed though recovery refused to follow it."""
        irregular = self.recovered.irregular
        reached = self.automaton.reached(address for address, _ in irregular)
        return tuple(each for each in irregular if each[0] in reached)

    def check(self) -> None:
        """Raise CountError if counts were lost: a defect of simprof."""
        if self.automaton.lost:
            raise CountError(
                f"{self.automaton.lost} path counts fell outside their tables: this is a defect of "
                "simprof, please report the program"
            )


class _GivingUp(Struct):
    """Ends a run soon after it has done something that the graphs lack."""

    grace: int | None  # As of `execute`
    machine: Machine | LeonMachine | None = None
    given_up: bool = False

    def __call__(self, missing: Missing) -> None:
        if self.machine is not None and self.grace is not None and not self.given_up:
            self.given_up = True
            self.machine.stop_soon(self.grace)


def execute(
    # Makes a machine that stands at the start of the program
    start: Callable[[Observer], Machine | LeonMachine],
    recovered: ProgramGraphs,
    schemes: Sequence[SchemeRun],
    *,
    # Instructions for which to go on after something that the graphs lack; None: to the end
    grace: int | None = GRACE,
    replayable: bool = False,  # Whether other schemes are to be replayed on what this run counts
    # Graph -> its edge counts in an earlier run. The kernel is spared work on the edges that were
    # crossed most often.
    edge_counts: EdgeCounts | None = None,
    # What begins a trace of the run on its graphs, whose tokens the kernel puts into the memory;
    # None: none is written.
    start_trace: Callable[[GraphIndex, EngineMemory], TraceSink] | None = None,
    # Whether every block raises events throughout the run, as it does where a trace is written
    is_dense: bool = False,
    contexts: ContextChoice | None = None,  # What to tell apart by calling context; None: nothing.
    checks: bool = False,  # Whether what native code learns is compared with `engine.walk`
) -> ProgramExecution:
    """Run the program to its end, or until it is given up.

    Raises EventsLostError if blocks that raise no events have been executed in another way than was
    expected: the program has to be run again, with events of all blocks (`is_dense`). Raises
    SimulatorError if it cannot be run or profiled, and SelfCheckError if that is to be checked and
    native code has read the program's code differently.
    """
    index = GraphIndex(recovered)
    contexts_counted = counting_of(index, contexts)
    lowering = make_lowering(
        recovered, index, schemes, edge_counts, contexts_counted, keep_history=replayable
    )
    giving_up = _GivingUp(grace)
    is_dense = is_dense or start_trace is not None
    automaton = Automaton(index, lowering, giving_up, is_dense=is_dense)
    machine = giving_up.machine = start(automaton)
    if start_trace is not None:
        automaton.write_trace(start_trace(index, lowering.memory))
    result = machine.run()
    _finish(automaton, result)
    if checks and (difference := automaton.check_transitions()) is not None:
        raise SelfCheckError(f"self-check: {difference}: this is a defect of simprof")
    loaded, code = machine.loaded, recovered.code
    has_all = loaded.modules.issubset(recovered.program.modules) and all(
        code.find_version(address, words) is not None for address, words in loaded.blocks
    )
    discoveries = Discoveries() if has_all else all_loaded(loaded)
    if discoveries == Discoveries():
        discoveries = discoveries_of(recovered, automaton.tally.missing, machine.read)
    automaton.retire()
    machine.close()
    return ProgramExecution(
        recovered,
        schemes,
        index,
        lowering,
        result,
        automaton,
        automaton.counts,
        giving_up.given_up,
        discoveries,
    )


def make_lowering(
    recovered: ProgramGraphs,
    index: GraphIndex,
    schemes: Sequence[SchemeRun],
    edge_counts: EdgeCounts | None,
    contexts: ContextCounting | None,
    *,
    keep_history: bool,
) -> Lowering:
    """Return what lowers the plans of a run's schemes; parameters as of `execute`, `Lowering`."""
    program = recovered.program
    stack_mask = (1 << (64 if program.is64 else 32)) - 1
    counting = [scheme for scheme in schemes if scheme.slot is not None]
    # Without schemes, no routine has a hash table.
    costs = cost_words(program.machine) if counting else np.zeros(kernels.COST_WORDS, np.int64)
    graphs = recovered.routines, index.first_edge, costs, stack_mask

    def weights(number: int) -> Sequence[float] | None:
        cfg = recovered.routines[number]
        if edge_counts is not None:
            return edge_counts(cfg)
        if not counting:
            return None
        # Those of a plan: the heuristic takes a while.
        plan = counting[0].routine_plan(number)
        return plan.weights if plan is not None and len(plan.weights) == len(cfg.edges) else None

    return Lowering(
        [scheme.counted for scheme in counting],
        *graphs,
        weights,
        keep_history=keep_history,
        contexts=contexts,
    )


def _finish(automaton: Automaton, result: RunResult) -> None:
    """Account for what was under way when the run ended; raise what went wrong in it."""
    if automaton.error is not None:
        raise automaton.error
    fault = result.fault
    pc = None if fault is None or fault.origin is not None else fault.pc
    automaton.finish(exited=result.reason == "exit", fault_pc=pc)
    if automaton.error is not None:
        raise automaton.error
