"""Plans executed on edge sequences in plain Python: the slow twin of `profiler.execution`.

Actions mean what `plan` says. A walk is the edge sequence of one activation; its count says how
often it happens, one after the other. Each walk is executed at most twice, however great its
count: it adds the same to every counter each time, and after the first time the hash table holds
its paths and remembers what the walk leaves, so every later time costs what the second did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from profiler.execution import Counters
from profiler.graph_files import Walk
from profiler.plan import (
    Action,
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    InstrumentationPlan,
    SetRegister,
    Table,
)


class HashTable(Protocol):
    """The hashing run-time routine of one counter table."""

    def count(self, key: int, on_back_edge: bool) -> int:
        """Count path `key` and return how many instructions that executed."""
        ...


@dataclass(frozen=True)
class _Trace:
    """One execution of a walk: paths counted in order, and edge counters incremented."""

    paths: tuple[tuple[int, bool], ...]
    edges: tuple[int, ...]


def execute(
    plan: InstrumentationPlan, walks: Iterable[Walk], hash_table: HashTable | None = None
) -> Counters:
    """Execute the plan's actions along `walks`.

    Parameters
    ----------
    plan
        Any plan.
    walks
        In the order in which they happen.
    hash_table
        The table's cost model, for plans that hash; without it hashing costs nothing.
    """
    paths: Counter[int] = Counter()
    edges = [0] * plan.edge_counters
    path_increments = edge_increments = hash_instructions = 0
    for walk in walks:
        if walk.count == 0:
            continue
        trace = _trace(plan, walk.edges)
        for key, _ in trace.paths:
            paths[key] += walk.count
        for counter in trace.edges:
            edges[counter] += walk.count
        path_increments += len(trace.paths) * walk.count
        edge_increments += len(trace.edges) * walk.count
        if plan.table is Table.HASH and hash_table is not None:
            hash_instructions += _hash_cost(hash_table, trace, walk.count)
    hashed = path_increments if plan.table is Table.HASH else 0
    return Counters(
        dict(paths), tuple(edges), path_increments, hashed, edge_increments, hash_instructions
    )


def _hash_cost(table: HashTable, trace: _Trace, count: int) -> int:
    first = sum(table.count(key, on_back_edge) for key, on_back_edge in trace.paths)
    if count == 1:
        return first
    later = sum(table.count(key, on_back_edge) for key, on_back_edge in trace.paths)
    return first + (count - 1) * later


def _trace(plan: InstrumentationPlan, walk: Sequence[int]) -> _Trace:
    paths: list[tuple[int, bool]] = []
    edges: list[int] = []
    register = 0
    for edge in walk:
        for action in plan.actions.get(edge, ()):
            register = _apply(action, register, paths, edges)
    return _Trace(tuple(paths), tuple(edges))


def _apply(action: Action, register: int, paths: list[tuple[int, bool]], edges: list[int]) -> int:
    match action:
        case SetRegister(constant):
            return constant
        case AddRegister(constant):
            return register + constant
        case CountPath(constant, on_back_edge):
            paths.append((register + constant, on_back_edge))
        case CountConstantPath(constant, on_back_edge):
            paths.append((constant, on_back_edge))
        case CountEdge(counter):
            edges.append(counter)
        case _:
            assert_never(action)
    return register
