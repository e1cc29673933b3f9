"""Plans executed on the runs of a graph file: the kernel, without a program to drive it.

Steps: `Lowering` gives each edge its operations, as for a program. Those of a walk's edges, one
after the other, are one list, which `kernels.execute` executes. A walk is executed at most twice,
however often it happens: it adds the same to every counter each time, and after the first time
the hash table holds its paths and remembers what the walk leaves, so every later time costs what
the second did. The second time, each count is as great as all later ones together
(`kernels.WEIGHT`). `CountEdge` counters follow from how often each edge was crossed, as they do
for a program (see `lowering`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from profiler import kernels
from profiler.engine_memory import EngineMemory
from profiler.errors import CountError
from profiler.graph_files import Walk
from profiler.hash_routine import HashCosts
from profiler.lowering import CounterArea, HashModel, Lowering
from profiler.plan import CountEdge, InstrumentationPlan, Table
from simulator.errors import UsageError

GREATEST_NUMBER = 1 << 62
"""Bound of the sums of path number increments that the kernel's 64-bit words hold."""
_STACK_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Counters:
    """What the counters hold after execution.

    Attributes
    ----------
    paths
        Path number -> count.
    edges
        The plan's edge counters.
    path_increments, hashed_increments, edge_increments
        Increments executed: of path counters, those of them by hashing, of edge counters.
    hash_instructions
        Instructions that the hashing routine executed.
    """

    paths: dict[int, int]
    edges: tuple[int, ...]
    path_increments: int
    hashed_increments: int
    edge_increments: int
    hash_instructions: int


def execute(plan: InstrumentationPlan, walks: Iterable[Walk], costs: HashCosts) -> Counters:
    """Execute the plan's actions along `walks`.

    Parameters
    ----------
    plan
        Any plan.
    walks
        In the order in which they happen; all together cross edges at most
        `graph_files.GREATEST_CROSSINGS` times.
    costs
        What the hashing routine costs.

    Raises
    ------
    UsageError
        If path numbers do not fit 64 bits.
    """
    _check_numbers(plan)
    crossings = [0] * (max(plan.actions, default=0) + 1)
    bench = _Bench(plan, costs, len(crossings))
    spent = 0
    for walk in walks:
        if walk.count:
            spent += bench.run(walk)
        for edge in walk.edges:
            if edge < len(crossings):
                crossings[edge] += walk.count
    paths = bench.paths()
    edges = plan.edge_counter_values(crossings)
    increments = sum(paths.values())
    hashed = increments if plan.table is Table.HASH else 0
    return Counters(paths, tuple(edges), increments, hashed, sum(edges), spent)


def _check_numbers(plan: InstrumentationPlan) -> None:
    """Refuse plans whose path register could leave an int64: a path has each edge at most once."""
    reach = sum(
        abs(action.constant)
        for actions in plan.actions.values()
        for action in actions
        if not isinstance(action, CountEdge)
    )
    if reach >= GREATEST_NUMBER:
        raise UsageError("path numbers do not fit 64 bits: give a path limit (--path-limit)")


class _Bench:
    """The kernel with one activation and one plan."""

    def __init__(self, plan: InstrumentationPlan, costs: HashCosts, edges: int) -> None:
        first_edge = np.array([0, edges], np.int64)
        self.lowering = Lowering([lambda _: plan], first_edge, HashModel(costs), _STACK_MASK)
        self.memory = EngineMemory(self.lowering.registers, self.lowering.costs(), depth=1)
        self.lowering.operations(0)  # plans the routine
        self.memory.fit(self.lowering)
        self.operations = {edge: self.lowering.operations(edge) for edge in plan.actions}

    @property
    def area(self) -> CounterArea:
        return self.lowering.areas[0][0]

    def paths(self) -> dict[int, int]:
        """Path number -> count."""
        if self.memory.clock[kernels.LOST]:
            raise CountError(
                "path counts fell outside their table: this is a defect of simprof, please "
                "report the graph"
            )
        return self.memory.path_counts(self.area)

    def run(self, walk: Walk) -> int:
        """Execute `walk` as often as it happens; return what hashing costs, in instructions."""
        steps = [step for edge in walk.edges for step in self.operations.get(edge, ())]
        operations = self.lowering.fuse(steps)
        if not operations:
            return 0
        self.memory.reserve_nodes(len(operations))
        number = self.memory.add_operations(operations)
        spent = self._once(number, 1)
        if walk.count > 1:
            spent += self._once(number, walk.count - 1) * (walk.count - 1)
        return spent

    def _once(self, number: int, weight: int) -> int:
        """Execute a list of operations, each count of it `weight` times; return its hash cost."""
        _, before = self.memory.hashing(self.area)
        self.memory.clock[kernels.WEIGHT] = weight
        status = self.memory.execute(number, 0)
        assert status == kernels.OK
        return self.memory.hashing(self.area)[1] - before
