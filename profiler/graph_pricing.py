"""What a plan's code costs on a graph without a program: every register is free."""

from __future__ import annotations

from dataclasses import dataclass, field

from profiler.cfg import ControlFlowGraph
from profiler.execution import HashTable
from profiler.plan import InstrumentationPlan


@dataclass(frozen=True)
class Prices:
    """Generated code of a plan.

    Attributes
    ----------
    costs
        Edge -> instructions executed per crossing, those of the hashing routine excepted.
    texts
        Edge -> the instructions.
    path_register
        Where the path number lives, None where there is none.
    hash_table
        Cost model of the hashing routine, where the plan hashes.
    """

    costs: dict[int, int] = field(default_factory=dict)
    texts: dict[int, tuple[str, ...]] = field(default_factory=dict)
    path_register: str | None = None
    hash_table: HashTable | None = None


def price(cfg: ControlFlowGraph, plan: InstrumentationPlan) -> Prices:
    """Generate the code of `plan` and return what it costs."""
    return Prices()
