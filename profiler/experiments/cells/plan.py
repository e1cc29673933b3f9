"""Cells that plan and generate a program's instrumentation without running it.

All routines that the file shows are planned, entered or not. Code that start-up writes, and
routines that only a run finds, are not known here.

Each routine is planned and priced under all settings before the next one is, so that what they need
of its graph is worked out once. Settings of which somebody reads how long that takes come first,
each of them at every other routine: so each has its share of what they have in common. Their code
is generated, and not only priced.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from simprof.profiler.code.codegen import RoutineCode
from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.pricing import Pricer, RoutineCost, plan_sizes
from simprof.profiler.experiments.cells.cells import CellResult, Job, RoutineRow, Timing, failure
from simprof.profiler.experiments.cells.measure import plan_row
from simprof.profiler.experiments.cells.settings import CellSetting, WeightChoice
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.profiler.recovery.selection import SelectedRoutines
from simprof.profiler.schemes.registry import definition, generators, make_plan, needs_edge_profile
from simprof.profiler.session.scheme_runs import WeightSource, saved_profiles
from simprof.simulator.binary import elf
from simprof.simulator.errors import SimulatorError, UsageError

REPETITIONS = 3
TIMED = frozenset({"qpt", "qpt2"})  # Modes whose times somebody reads (BL94 table 1)
PATIENCE = 1.0  # Seconds after which nothing is measured another time

T = TypeVar("T")


def plan_group(group: tuple[Job, ...]) -> tuple[CellResult, ...]:
    """Plan one program under the settings of `group`, whose jobs differ in nothing else.

    Raises SimulatorError if the program cannot be read. What one setting cannot do is an error of
    its result.
    """
    program = elf.load(group[0].program)
    recovered, recovery = timed(lambda: recover(program))
    plannings = [_Planning(job.cell.setting, recovered) for job in group]
    timed_first = [each for each in plannings if each.is_timed]
    others = [each for each in plannings if not each.is_timed]
    contexts = ProgramContexts(recovered)
    for number in range(len(recovered.routines)):
        first = number % max(len(timed_first), 1)
        for planning in (*timed_first[first:], *timed_first[:first], *others):
            planning.take(number, contexts)
        contexts.forget(number)
    return tuple(planning.result(recovery) for planning in plannings)


def timed(work: Callable[[], T], repetitions: int = REPETITIONS) -> tuple[T, float]:
    """Do `work` a few times; return its result and the seconds of the quickest."""
    best, spent = float("inf"), 0.0
    for _ in range(repetitions):
        started = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - started
        best, spent = min(best, seconds), spent + seconds
        if spent > PATIENCE:
            break
    return result, best


class _Planning:
    """One setting's part of the work: routines are taken in ascending order."""

    def __init__(self, setting: CellSetting, recovered: ProgramGraphs) -> None:
        self._setting, self._recovered = setting, recovered
        self._error: str | None = None
        self._sizes = Counter(counter_bytes=0, snippets=0, code_bytes=0)
        self._rows: list[RoutineRow] = []
        self._planning = self._generation = 0.0
        with self._noting_errors():
            self._make = _planner(setting, recovered)
            use = definition(setting.mode).registers(setting.scheme().options)
            self._pricer = Pricer(generators(setting.mode), use)
            self._selected = SelectedRoutines(recovered, setting.selection)

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except SimulatorError as error:
            self._error = str(error)

    def take(self, number: int, contexts: ProgramContexts) -> None:
        """Plan and price a routine, if it is selected."""
        if self._error is None:
            with self._noting_errors():
                cfg = self._recovered.routines[number]
                if self._selected.takes(cfg):
                    self._plan(cfg, contexts.of(number))

    @property
    def is_timed(self) -> bool:
        """Whether somebody reads how long it takes."""
        return self._setting.mode in TIMED

    def _plan(self, cfg: ControlFlowGraph, context: RoutineContext) -> None:
        started = time.perf_counter()
        plan = self._make(cfg)
        planned = time.perf_counter()
        price = self._pricer.code if self.is_timed else self._pricer.cost
        code: RoutineCode | RoutineCost = price(cfg, plan.plan, context)
        self._planning += planned - started
        if self.is_timed:
            self._generation += time.perf_counter() - planned
        own = self._selected.is_own(cfg)
        self._rows.append(plan_row(self._setting.mode, plan, context, own))
        self._sizes.update(plan_sizes(plan.plan, code, 0))

    def result(self, recovery: float) -> CellResult:
        """Return what was found; `recovery` are the seconds of that."""
        timing = Timing(recovery=recovery, planning=self._planning, generation=self._generation)
        if self._error is not None:
            return replace(failure(self._error), timing=timing)
        return CellResult(sizes=dict(self._sizes), routines=tuple(self._rows), timing=timing)


def _planner(
    setting: CellSetting, recovered: ProgramGraphs
) -> Callable[[ControlFlowGraph], RoutinePlan]:
    """Return what plans a routine.

    Raises UsageError if the setting cannot be planned from the file alone.
    """
    if needs_edge_profile(setting.mode) or setting.weights is WeightChoice.EXACT:
        raise UsageError(f"{setting.name} needs a run: it cannot be planned from the file alone")
    options = setting.scheme().options
    weights = WeightSource(options, saved_profiles(recovered.program.sha256))
    return lambda cfg: make_plan(cfg, setting.mode, options, weights(cfg))
