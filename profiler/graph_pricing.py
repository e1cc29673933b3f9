"""What a plan's code costs on a graph without a program.

The code is generated as for a 64-bit routine with every register free (DESIGN section 7).
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    costs: dict[int, int]
    texts: dict[int, tuple[str, ...]]
    path_register: str | None
    hash_costs: HashCosts


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
