"""Cells that plan and generate a program's instrumentation without running it.

All routines that the file shows are planned, entered or not. Code that start-up writes, and
routines that only a run finds, are not known here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from profiler.code.codegen import RoutineCode
from profiler.code.context import ProgramContexts
from profiler.code.pricing import Pricer
from profiler.code.sizes import plan_sizes
from profiler.experiments.cells.cells import CellResult, Job, RoutineRow, Timing, failure
from profiler.experiments.cells.rows import plan_row
from profiler.experiments.cells.settings import CellSetting, WeightChoice
from profiler.graphs.cfg import ControlFlowGraph
from profiler.plan.decoders import RoutinePlan
from profiler.recovery.recovery import RecoveredProgram, recover
from profiler.recovery.selection import SelectedRoutines
from profiler.schemes.registry import definition, generators, make_plan, needs_edge_profile
from profiler.session.scheme_runs import SavedProfiles, WeightSource
from simulator.binary import elf
from simulator.errors import SimulatorError, UsageError

REPETITIONS = 3
TIMED = frozenset({"qpt", "qpt2"})
"""Modes whose times somebody reads (BL94 table 1)."""
PATIENCE = 5.0
"""Seconds after which nothing is measured another time."""

T = TypeVar("T")


def plan_group(group: tuple[Job, ...]) -> tuple[CellResult, ...]:
    """Plan one program under the settings of `group`, whose jobs differ in nothing else.

    Raises
    ------
    SimulatorError
        If the program cannot be read. What one setting cannot do is an error of its result.
    """
    program = elf.load(group[0].program)
    recovered, recovery = timed(lambda: recover(program))
    return tuple(_cell(job, recovered, recovery) for job in group)


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


def _cell(job: Job, recovered: RecoveredProgram, recovery: float) -> CellResult:
    try:
        result = _planned(job, recovered)
    except SimulatorError as error:
        return failure(str(error))
    return replace(result, timing=replace(result.timing, recovery=recovery))


def _planned(job: Job, recovered: RecoveredProgram) -> CellResult:
    setting = job.cell.setting
    repetitions = REPETITIONS if setting.mode in TIMED else 1
    selected = SelectedRoutines(recovered, setting.selection)
    numbers = [number for number, cfg in enumerate(recovered.routines) if selected.takes(cfg)]
    plans, planning = timed(lambda: _plans(job, recovered, numbers), repetitions)
    codes, generation = timed(lambda: _codes(recovered, numbers, plans, setting), repetitions)
    rows: list[RoutineRow] = []
    sizes = Counter(counter_bytes=0, snippets=0, code_bytes=0)
    contexts = ProgramContexts(recovered)
    for number, plan, code in zip(numbers, plans, codes, strict=True):
        own = selected.is_own(recovered.routines[number])
        rows.append(plan_row(setting.mode, plan, code, contexts.of(number), own))
        sizes.update(plan_sizes(plan.plan, code, 0))
    timing = Timing(planning=planning, generation=generation)
    return CellResult(sizes=dict(sizes), routines=tuple(rows), timing=timing)


def _plans(job: Job, recovered: RecoveredProgram, numbers: Sequence[int]) -> list[RoutinePlan]:
    setting = job.cell.setting
    if needs_edge_profile(setting.mode) or setting.weights is WeightChoice.EXACT:
        raise UsageError(f"{setting.name} needs a run: it cannot be planned from the file alone")
    options = setting.scheme().options
    weights = WeightSource(options, SavedProfiles(recovered.program.sha256))

    def plan(cfg: ControlFlowGraph) -> RoutinePlan:
        return make_plan(cfg, setting.mode, options, weights(cfg))

    return [plan(recovered.routines[number]) for number in numbers]


def _codes(
    recovered: RecoveredProgram,
    numbers: Sequence[int],
    plans: list[RoutinePlan],
    setting: CellSetting,
) -> list[RoutineCode]:
    use = definition(setting.mode).registers(setting.scheme().options)
    contexts, pricer = ProgramContexts(recovered), Pricer(generators(setting.mode), use)
    return [
        pricer.code(recovered.routines[number], plan.plan, contexts.of(number))
        for number, plan in zip(numbers, plans, strict=True)
    ]
