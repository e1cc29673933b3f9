"""Plans executed on the runs of a graph file (`interpret`), and what their code costs.

The code is generated as for a 64-bit routine with every register free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.hash_routine import HashCosts, HashTableModel
from simprof.profiler.code.pricing import Pricer
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan import interpret
from simprof.profiler.plan.actions import PathIncrement
from simprof.profiler.plan.decoders import Plan, RoutineCounters
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.request.errors import CountError
from simprof.profiler.schemes.definition import OwnTable
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError


def execute(
    # cfg, plan: A routine and any plan for it
    cfg: ControlFlowGraph,
    plan: InstrumentationPlan,
    walks: Iterable[ExecutedWalk],  # In the order in which they happen, each any number of times
    costs: HashCosts,  # What the hashing routine costs
    table: OwnTable | None = None,  # How the scheme keeps OWN tables
) -> RoutineCounters:
    """Execute the plan's actions along `walks`; CountError as `check_counters`."""
    happened = [walk for walk in walks if walk.count]
    counters = interpret.execute(cfg, plan, happened)
    check_counters(cfg, plan, counters.paths)
    if plan.table is CounterTable.OWN and table is not None:
        # Walks are counted in order, and a walk that is executed again counts nothing new.
        spent = table.cost(MACHINE, plan, counters.paths)
        return replace(counters, hash_instructions=spent)
    if plan.table is not CounterTable.HASH:
        return counters
    return replace(counters, hash_instructions=instructions_of_hashing(plan, happened, costs))


def instructions_of_hashing(
    plan: InstrumentationPlan, walks: Iterable[ExecutedWalk], costs: HashCosts
) -> int:
    """Return the instructions that the hashing routine executes along `walks`."""
    table = HashTableModel(costs)
    spent = 0
    words, walks = interpret.turns(plan, walks)
    for walk in walks:
        execution = interpret.begin(plan)
        interpret.follow(plan, walk.edges, execution, words)
        spent += _count(table, execution.counted)
        if walk.count > 1:  # keys are in the table from the second time on
            spent += (walk.count - 1) * _count(table, execution.counted)
    return spent


def _count(table: HashTableModel, counted: Sequence[PathIncrement]) -> int:
    return sum(
        table.count(counter, on_back_edge) for counter, on_back_edge in counted if counter >= 0
    )


def check_counters(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, counted: Iterable[int]
) -> None:
    """Check that the plan has every path counter; CountError naming the first that it lacks."""
    first = -len(plan.named_counters)
    for counter in counted:
        beyond = plan.table is CounterTable.ARRAY and counter >= plan.path_counters
        if counter < first or beyond:
            raise CountError(
                f"{cfg.name}: path counter {counter} does not exist: this is a defect of simprof, "
                "please report the graph"
            )


MACHINE = MachineKind.SPARCV9  # Whose code it is


def price(plan: Plan, pricer: Pricer) -> RoutineCode:
    """Generate the code of `plan`; UsageError if the counters do not fit their memory."""
    try:
        return pricer.code(plan.cfg, plan.plan, plan.weights, RoutineContext.free())
    except UsageError as error:
        raise UsageError(
            f"{plan.cfg.name}: its counters do not fit their memory: lower --path-limit, or leave "
            "--table at its default"
        ) from error
