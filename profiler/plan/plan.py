"""Instrumentation plans: what a scheme wants done on which edge.

What is done at one place is an action (`actions`); the plan says where, and which counters there
are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from simprof.profiler.plan.actions import Action, CountEdge


class CounterTable(StrEnum):
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
    blocks, block_ends
        Block id -> actions executed whenever the block is, at its top or before its control
        transfer. They do not touch path registers or path counters.
    registers
        Number of path registers.
    key_words
        32-bit words of a path counter's number (of HASH tables; one word elsewhere).
    counted_region
        Vertices at which an activation has counted its current path already.
    uncounted_entries
        Edges into the counted region on which a path begins that nothing counts.
    has_cold_counter
        Whether there is a counter `COLD_COUNTER`.
    pair_edges
        Edges counted by pairs of logging calls (`edge_log`): events after the `CountEdge` ones.
    log_sources, log_destinations
        How many numbers the logging calls take for sources and for destinations.
    trace_edges
        Edges whose crossings whoever reads the trace can count: events after all others.
    """

    actions: Mapping[int, tuple[Action, ...]]
    uses_register: bool
    table: CounterTable
    path_counters: int
    addressing: Addressing | None
    edge_counters: int
    blocks: Mapping[int, tuple[Action, ...]] = field(default_factory=dict)
    block_ends: Mapping[int, tuple[Action, ...]] = field(default_factory=dict)
    registers: int = 1
    key_words: int = 1
    counted_region: frozenset[int] = frozenset()
    uncounted_entries: frozenset[int] = frozenset()
    has_cold_counter: bool = False
    pair_edges: tuple[int, ...] = ()
    trace_edges: tuple[int, ...] = ()
    log_sources: int = 0
    log_destinations: int = 0

    @property
    def counts_paths(self) -> bool:
        """Whether the plan has path registers or path counters at all."""
        return self.uses_register or self.table is not CounterTable.NONE

    def event_counts(self, crossings: Sequence[int], executions: Sequence[int]) -> tuple[int, ...]:
        """Return the values of the `CountEdge` counters, of logged pairs, of traced edges.

        Such a counter is one addition at one place, so exact counts execute it; a pair of calls
        counts one edge.

        Parameters
        ----------
        crossings, executions
            By edge id, by block id.
        """
        values = [0] * self.edge_counters
        places = (
            (self.actions, crossings),
            (self.blocks, executions),
            (self.block_ends, executions),
        )
        for actions_at, times in places:
            for place, actions in actions_at.items():
                for action in actions:
                    if isinstance(action, CountEdge):
                        values[action.counter] += times[place]
        return (*values, *(crossings[edge] for edge in (*self.pair_edges, *self.trace_edges)))
