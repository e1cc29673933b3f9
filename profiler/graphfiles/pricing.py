"""What a plan's code costs on a graph without a program.

The code is generated as for a 64-bit routine with every register free.
"""

from __future__ import annotations

from dataclasses import dataclass

from simprof.profiler.code.codegen import RoutineCode
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.pricing import Pricer
from simprof.profiler.code.runtime.hash_routine import HashCosts, hash_costs
from simprof.profiler.code.runtime.word_hash_routine import word_hash_costs
from simprof.profiler.code.snippet_parts import Generators
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError

MACHINE = MachineKind.SPARCV9
"""Whose code it is."""


@dataclass(frozen=True)
class Prices:
    """Generated code of a plan.

    Attributes
    ----------
    code
        The code; what it adds to a run is `pricing.added`.
    hash_costs
        What a call of the hashing routine costs.
    """

    code: RoutineCode
    hash_costs: HashCosts

    @property
    def path_register(self) -> str | None:
        """Where path numbers live, None where there are none."""
        return self.code.path_register


def price(cfg: ControlFlowGraph, plan: InstrumentationPlan, generators: Generators) -> Prices:
    """Generate the code of `plan` and return what it costs.

    Raises
    ------
    UsageError
        If the counters do not fit the memory set aside for them.
    """
    try:
        code = Pricer(generators).code(cfg, plan, RoutineContext.free())
    except UsageError as error:
        raise UsageError(
            f"{cfg.name}: its counters do not fit their memory: lower --path-limit, or leave "
            "--table at its default"
        ) from error
    several = plan.key_words > 1
    return Prices(
        code, word_hash_costs(MACHINE, plan.key_words) if several else hash_costs(MACHINE)
    )
