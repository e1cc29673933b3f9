"""What a plan's code costs on a graph without a program.

The code is generated as for a 64-bit routine with every register free (DESIGN section 7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from profiler.cfg import ControlFlowGraph
from profiler.codegen import CounterSpace, RoutineContext, generate
from profiler.hash_routine import HashCosts, hash_costs
from profiler.plan import InstrumentationPlan
from simulator.program import MachineKind


@dataclass(frozen=True)
class Prices:
    """Generated code of a plan.

    Attributes
    ----------
    costs
        Edge -> instructions executed per crossing, those of the hashing routine excepted.
    texts
        Edge -> the instructions, in assembler syntax.
    path_register
        Where the path number lives, None where there is none.
    hash_costs
        What a call of the hashing routine costs.
    taken_costs
        Edge -> further instructions each time that its conditional code is executed.
    block_costs, block_texts
        Block -> the same for code in the block.
    """

    costs: dict[int, int]
    texts: dict[int, tuple[str, ...]]
    path_register: str | None
    hash_costs: HashCosts
    taken_costs: Mapping[int, int] = field(default_factory=dict)
    block_costs: Mapping[int, int] = field(default_factory=dict)
    block_texts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def added(
        self, crossings: Sequence[int], executions: Sequence[int], taken: Mapping[int, int]
    ) -> int:
        """Return the instructions added, those of the hashing routine excepted.

        Parameters
        ----------
        crossings, executions
            By edge id, by block id.
        taken
            Edge id -> how often its conditional code was executed.
        """
        return (
            sum(crossings[edge] * cost for edge, cost in self.costs.items())
            + sum(executions[block] * cost for block, cost in self.block_costs.items())
            + sum(count * self.taken_costs.get(edge, 0) for edge, count in taken.items())
        )


def price(cfg: ControlFlowGraph, plan: InstrumentationPlan) -> Prices:
    """Generate the code of `plan` and return what it costs.

    Raises
    ------
    UsageError
        If the counters do not fit the memory set aside for them.
    """
    code = generate(cfg, plan, RoutineContext.free(), CounterSpace().place(plan))
    return Prices(
        {edge: snippet.cost for edge, snippet in code.snippets.items()},
        {edge: snippet.text for edge, snippet in code.snippets.items()},
        code.path_register,
        hash_costs(MachineKind.SPARCV9),
    )
