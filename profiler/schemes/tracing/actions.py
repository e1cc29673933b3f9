"""Actions of trace plans that are no WriteTrace."""

from __future__ import annotations

from dataclasses import dataclass

from simprof.profiler.plan.actions import Action, Execution, WriteTrace
from simprof.profiler.plan.tracing import TARGET_BITS


@dataclass(frozen=True)
class WriteTarget(Action):
    """`trace target`: the address that `block`'s transfer goes to is appended to the trace.

    A transfer to a routine that only the run tells (BL94 3.2, footnote 2). Its code reads the
    registers of the transfer, so it stands right before that.
    """

    block: int  # Block with the transfer
    packed: bool = False  # As for `WriteTrace`
    token: WriteTrace | None = None  # What its edge writes before

    def execute(self, execution: Execution) -> None:
        """See `Action`. The trace is no part of an activation."""

    def __str__(self) -> str:
        target = f"trace target:{TARGET_BITS}"
        return target if self.token is None else f"{self.token}; {target}"
