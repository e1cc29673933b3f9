"""What a scheme's code costs in one run: generated code times executions (DESIGN section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.codegen import CounterSpace, ProgramContexts, RoutineCode, generate
from profiler.plan import InstrumentationPlan
from profiler.recovery import RecoveredProgram


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
        self, routine: int, plan: InstrumentationPlan | None, edges: Sequence[int]
    ) -> RoutinePrice:
        """Price `plan` for a routine whose edges were crossed `edges` times, by edge id."""
        if plan is None:
            return RoutinePrice(None, 0)
        layout = self._space.place(plan)
        cfg = self._recovered.routines[routine]
        code = generate(cfg, plan, self._contexts.of(routine), layout)
        added = sum(edges[edge] * snippet.cost for edge, snippet in code.snippets.items())
        return RoutinePrice(code, added)
