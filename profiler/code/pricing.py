"""What a scheme's code costs in one run: generated code times executions (docs/SEMANTICS.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.code.codegen import CounterSpace, ProgramContexts, RoutineCode, generate
from profiler.graphs.flow import block_counts
from profiler.plan.plan import InstrumentationPlan
from profiler.recovery.recovery import RecoveredProgram


@dataclass(frozen=True)
class RoutinePrice:
    """The code of one routine and what it executed.

    `added` counts instructions; those inside the hashing routine, which depend on the order of
    events, are counted by the kernel and not among them.
    """

    code: RoutineCode | None
    added: int

    @property
    def path_register(self) -> str | None:
        """Where the path number lives: a register, "stack", or None."""
        return None if self.code is None else self.code.path_register


class Pricer:
    """Prices the routines of one program under one scheme; ask in ascending order.

    Counters are laid out in the order of asking, and an address can decide whether it takes one
    instruction or two to make, so equal questions get equal prices.
    """

    def __init__(self, recovered: RecoveredProgram, contexts: ProgramContexts) -> None:
        self._recovered = recovered
        self._contexts = contexts
        self._space = CounterSpace()

    def price(
        self,
        routine: int,
        plan: InstrumentationPlan | None,
        edges: Sequence[int],
        executions: Sequence[int] | None = None,
        taken: Mapping[int, int] | None = None,
    ) -> RoutinePrice:
        """Price `plan` for one routine's execution.

        Parameters
        ----------
        edges
            How often each edge was crossed, by edge id.
        executions
            How often each block was executed, by block id; None: as often as it was entered.
        taken
            By edge id: how often the conditional part of its code was executed.
        """
        if plan is None:
            return RoutinePrice(None, 0)
        layout = self._space.place(plan)
        cfg = self._recovered.routines[routine]
        code = generate(cfg, plan, self._contexts.of(routine), layout)
        if executions is None:
            executions = block_counts(cfg, edges)
        return RoutinePrice(code, added(code, edges, executions, taken))


def added(
    code: RoutineCode,
    edges: Sequence[int],
    executions: Sequence[int],
    taken: Mapping[int, int] | None = None,
) -> int:
    """Return the instructions that `code` executes; parameters as for `Pricer.price`."""
    total = sum(edges[edge] * snippet.cost for edge, snippet in code.snippets.items())
    for snippets in (code.block_snippets, code.block_end_snippets):
        total += sum(executions[block] * snippet.cost for block, snippet in snippets.items())
    for edge, times in (taken or {}).items():
        total += times * code.snippets[edge].taken_cost
    return total
