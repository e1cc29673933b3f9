"""Where to put path instrumentation, and what (EPP, section 3.4 and figure 8).

Steps: `_initialise` is figure 8's first loop, `_count` its second, `_increment` its last; they
work on the dag. `place` then moves what they put on dummy edges to the removed edges that the
dummies stand for: a removed edge counts the path that it ends (the dummy v -> EXIT) and
initialises the register for the path that it starts (the dummy ENTRY -> w) (EPP, section 4).

Why no edge gets two clashing actions: were a tree edge both given `r=0` and `count[r]++`, the
tree would hold a whole way from ENTRY to EXIT, and with EXIT -> ENTRY a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.graphs.dag import Dag
from profiler.graphs.spanning import SpanningTree
from profiler.plan.plan import (
    Action,
    AddRegister,
    Addressing,
    CountConstantPath,
    CountEdge,
    CountPath,
    SetRegister,
    Table,
)

ADDRESSING_REACH = 1023
"""Greatest increment that fits an immediate field, scaled by the counter size (EPP 5.2)."""

INDEXING_REACH = 4095
"""Greatest increment that fits an immediate field unscaled (EPP 5.2)."""


@dataclass(frozen=True)
class Placement:
    """Path instrumentation of a routine.

    Attributes
    ----------
    actions
        Control-flow edge -> actions in execution order.
    static_region
        Vertices before any initialisation: the register means nothing yet, and one way leads
        there from ENTRY in the dag.
    counted_region
        Vertices where the current path has been counted already, because the count was moved up.
    edge_counters
        Control-flow edges with a counter of their own: counter k is on edge `edge_counters[k]`.
    """

    actions: dict[int, tuple[Action, ...]]
    static_region: frozenset[int]
    counted_region: frozenset[int]
    edge_counters: tuple[int, ...]


@dataclass(frozen=True)
class Detours:
    """Ways of control that are not in the dag, because TPP took them out (TPP 4.1, 4.2).

    Attributes
    ----------
    joins
        Vertices where such a way leads back into the dag. An initialisation must not move past
        one: it would make the register of a cold path look like that of a hot one.
    leaves
        Vertices where such a way leaves the dag. A count must not move up past one: the path
        may not be what was counted.
    """

    joins: frozenset[int] = frozenset()
    leaves: frozenset[int] = frozenset()


NO_DETOURS = Detours()


def place(
    dag: Dag,
    tree: SpanningTree,
    increments: Sequence[int],
    counted_edges: Sequence[int] = (),
    detours: Detours = NO_DETOURS,
    self_loops: bool = True,
) -> Placement:
    """Place instrumentation as EPP figure 8 does.

    Parameters
    ----------
    dag, tree, increments
        The acyclic graph, a spanning tree of it, and the chords' increments, by dag edge.
    counted_edges
        Control-flow edges that get a counter of their own.
    detours
        Ways around the dag, where it lacks edges that control can take.
    self_loops
        Whether self-loops get counters of their own (EPP 4.1).

    Notes
    -----
    `r+=0` and `r=0` immediately overwritten are never placed; figure 8 would put the former on
    a chord of increment 0.
    """
    initial, static_region = _initialise(dag, tree, increments, detours.joins)
    final, counted_region = _count(dag, tree, increments, initial, detours.leaves)
    steps = _increment(dag, tree, increments, initial, final)
    actions: dict[int, list[Action]] = {}
    for edge in dag.edges:
        if edge.cfg_edge is not None and edge.id in steps:
            actions[edge.cfg_edge] = [steps[edge.id]]
    for removed in dag.removed:
        _fill_removed(dag, removed, steps, actions)
    counters = tuple(sorted({*counted_edges, *(dag.dfs.self_loops if self_loops else ())}))
    for counter, counted in enumerate(counters):
        actions.setdefault(counted, []).append(CountEdge(counter))
    frozen = {edge: tuple(actions[edge]) for edge in sorted(actions) if actions[edge]}
    return Placement(frozen, static_region, counted_region, counters)


def _initialise(
    dag: Dag, tree: SpanningTree, increments: Sequence[int], barriers: frozenset[int]
) -> tuple[dict[int, SetRegister], frozenset[int]]:
    """Put `r=c` as far from ENTRY as no path is initialised twice (figure 8, first loop)."""
    initial: dict[int, SetRegister] = {}
    region: set[int] = set()
    work = [dag.cfg.entry]
    while work:
        for edge in dag.out_edges[work.pop()]:
            target = dag.edges[edge].target
            if not tree.in_tree[edge]:
                initial[edge] = SetRegister(increments[edge])
            elif len(dag.in_edges[target]) == 1 and target not in barriers:
                region.add(target)
                work.append(target)
            else:
                initial[edge] = SetRegister(0)
    return initial, frozenset(region)


def _count(
    dag: Dag,
    tree: SpanningTree,
    increments: Sequence[int],
    initial: dict[int, SetRegister],
    barriers: frozenset[int],
) -> tuple[dict[int, Action], frozenset[int]]:
    """Put counts as far from EXIT as possible (figure 8, second loop)."""
    final: dict[int, Action] = {}
    region: set[int] = set()
    work = [dag.cfg.exit]
    while work:
        for edge in dag.in_edges[work.pop()]:
            source = dag.edges[edge].source
            if not tree.in_tree[edge]:
                known = initial.get(edge)
                final[edge] = (
                    CountPath(increments[edge])
                    if known is None
                    else CountConstantPath(known.constant)
                )
            elif len(dag.out_edges[source]) == 1 and source not in barriers:
                region.add(source)
                work.append(source)
            else:
                final[edge] = CountPath(0)
    return final, frozenset(region)


def _increment(
    dag: Dag,
    tree: SpanningTree,
    increments: Sequence[int],
    initial: dict[int, SetRegister],
    final: dict[int, Action],
) -> dict[int, Action]:
    """Join the two loops' actions and add `r+=c` on the other chords (figure 8, last loop)."""
    steps: dict[int, Action] = {**initial, **final}
    for chord in tree.chords:
        if chord not in steps and increments[chord] != 0:
            steps[chord] = AddRegister(increments[chord])
    return steps


def _fill_removed(
    dag: Dag, removed: int, steps: dict[int, Action], actions: dict[int, list[Action]]
) -> None:
    edge = dag.cfg.edges[removed]
    ends = steps.get(dag.exit_dummy.get(edge.source, -1))
    starts = steps.get(dag.entry_dummy.get(edge.target, -1))
    on_back_edge = removed in dag.dfs.back_edges
    placed = [_as_back_edge(step, on_back_edge) for step in (ends, starts) if step is not None]
    actions[removed] = placed


def _as_back_edge(action: Action, on_back_edge: bool) -> Action:
    if isinstance(action, CountPath):
        return CountPath(action.constant, on_back_edge)
    if isinstance(action, CountConstantPath):
        return CountConstantPath(action.constant, on_back_edge)
    return action


def choose_table(
    tree: SpanningTree, increments: Sequence[int], wanted: Table | None = None
) -> tuple[Table, Addressing | None]:
    """Choose how path counters are kept, from the greatest chord increment (EPP 5.2, 5.3).

    `wanted` overrides the choice between array and hash table.
    """
    greatest = max((abs(increments[chord]) for chord in tree.chords), default=0)
    table = wanted or (Table.ARRAY if greatest <= INDEXING_REACH else Table.HASH)
    if table is not Table.ARRAY:
        return table, None
    return table, Addressing.ADDRESS if greatest <= ADDRESSING_REACH else Addressing.INDEX
