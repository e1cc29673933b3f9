"""Instrumentation plans: what a scheme wants done on which edge.

An action has three readings (DESIGN section 1): the kernel executes it, `codegen` prices it as
SPARC instructions, the reports show it. `str(action)` is the third, in the papers' notation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class SetRegister:
    """`r = constant`: start a path (EPP 3.4)."""

    constant: int

    def __str__(self) -> str:
        return f"r={self.constant}"


@dataclass(frozen=True)
class AddRegister:
    """`r += constant` (EPP 3.4)."""

    constant: int

    def __str__(self) -> str:
        return f"r+={self.constant}" if self.constant >= 0 else f"r-={-self.constant}"


@dataclass(frozen=True)
class CountPath:
    """`count[r + constant]++`: a path ends (EPP 3.4).

    `on_back_edge` selects the hashing routine that remembers the last path (EPP 5.3).
    """

    constant: int
    on_back_edge: bool = False

    def __str__(self) -> str:
        if self.constant == 0:
            return "count[r]++"
        return f"count[r{self.constant:+d}]++"


@dataclass(frozen=True)
class CountConstantPath:
    """`count[constant]++`: a path known without the register ends (EPP figure 8)."""

    constant: int
    on_back_edge: bool = False

    def __str__(self) -> str:
        return f"count[{self.constant}]++"


@dataclass(frozen=True)
class CountEdge:
    """`edge[counter]++`: an event counter of its own (QPT2's chords; EPP 4.1's self-loops)."""

    counter: int

    def __str__(self) -> str:
        return f"edge[{self.counter}]++"


Action = SetRegister | AddRegister | CountPath | CountConstantPath | CountEdge


class Table(StrEnum):
    """How a routine's path counters are kept (EPP 5.2, 5.3)."""

    ARRAY = "array"
    HASH = "hash"
    NONE = "none"


class Addressing(StrEnum):
    """What the path register of an array-counted routine holds (EPP 5.2)."""

    ADDRESS = "addressing"  # the address of a counter
    INDEX = "indexing"  # the index of a counter


@dataclass(frozen=True)
class InstrumentationPlan:
    """The actions of one scheme on one routine.

    Attributes
    ----------
    actions
        Edge id -> actions in execution order. Edges without actions are absent.
    uses_register
        Whether any action touches the path register.
    table, path_counters
        Kind of path counter table, and for ARRAY the number of its counters.
    addressing
        For ARRAY tables; None otherwise.
    edge_counters
        How many `CountEdge` counters the plan has (numbered from 0).
    """

    actions: Mapping[int, tuple[Action, ...]]
    uses_register: bool
    table: Table
    path_counters: int
    addressing: Addressing | None
    edge_counters: int

    def edge_counter_values(self, crossings: Sequence[int]) -> list[int]:
        """Return the values of the `CountEdge` counters after each edge was crossed so often.

        Such a counter is one addition on one edge, so exact edge counts execute it.
        """
        values = [0] * self.edge_counters
        for edge, actions in self.actions.items():
            for action in actions:
                if isinstance(action, CountEdge):
                    values[action.counter] += crossings[edge]
        return values
