"""Placement of path instrumentation (EPP, section 3.4 and figure 8).

Steps
-----
`choose_steps` works on the acyclic graph: figure 8's first loop chooses the edges that set the
register, its second those that count; `RegisterSteps.on` then says what an edge does (the last
loop). `place` moves what dummy edges do to the removed edges that they stand for: a removed edge
counts the path that it ends (the dummy v -> EXIT) and sets the register for the path that it
starts (the dummy ENTRY -> w) (EPP, section 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import compress, count

from msgspec import Struct

from simprof.profiler.graphs import plan_kernel as k
from simprof.profiler.graphs.dag import Dag
from simprof.profiler.graphs.plan_calls import call
from simprof.profiler.graphs.spanning import SpanningTree
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    RegisterEffect,
    SetRegister,
)
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan

# Greatest increment that fits an immediate field, scaled by the counter size (EPP 5.2).
ADDRESSING_REACH = 1023

INDEXING_REACH = 4095  # Greatest increment that fits an immediate field unscaled (EPP 5.2)

# Counters of an array that is never too large: 16 KB, EPP's space of a routine (EPP 5.3).
SMALL_ARRAY = 4096

# How many counters a path an array may have at most: what EPP expects of bit tracing (EPP 2).
SPARSE_FACTOR = 2

_count_edge = cache(CountEdge)  # counters begin at 0 in every routine: soon all are there


def wastes_space(counters: int | None, paths: int) -> bool:
    """Whether an array of so many counters (None: too many to index) takes more than EPP's 16 KB
    and two counters a path.
    """
    return counters is None or counters > max(SMALL_ARRAY, SPARSE_FACTOR * paths)


class Placement(Struct, frozen=True):
    """Path instrumentation of a routine."""

    actions: dict[int, tuple[Action, ...]]  # Control-flow edge -> actions in execution order
    # Vertices before any initialisation: the register means nothing yet, and one way leads there
    # from ENTRY in the dag.
    static_region: frozenset[int]
    # Vertices where the current path has been counted already, because the count was moved up
    counted_region: frozenset[int]
    # Control-flow edges with a counter of their own: counter k is on edge `edge_counters[k]`.
    edge_counters: tuple[int, ...]


class Detours(Struct, frozen=True):
    """Ways of control that are not in the dag, because TPP took them out (TPP 4.1, 4.2)."""

    # Vertices where such a way leads back into the dag. An initialisation must not move past one:
    # it would make the register of a cold path look like that of a hot one.
    joins: frozenset[int] = frozenset()
    # Vertices where such a way leaves the dag. A count must not move up past one: the path may not
    # be what was counted.
    leaves: frozenset[int] = frozenset()


NO_DETOURS = Detours()


class RegisterSteps(Struct, frozen=True):
    """What the edges of an acyclic graph do to the path register and the path counters."""

    increments: Sequence[int]  # By edge; 0 on tree edges.
    initial: frozenset[int]  # The edges that set the register (EPP figure 8, first loop)
    final: frozenset[int]  # The edges that count the path (second loop)
    # static_region, counted_region: See `Placement`.
    static_region: frozenset[int]
    counted_region: frozenset[int]
    # The increment of EXIT -> ENTRY where that is a chord, for which each count stands (EPP 3.3)
    root: int = 0

    def on(self, edge: int, on_back_edge: bool = False) -> list[Action]:
        """Return what is done on an edge: at most one action (figure 8, last loop).

        `r+=0` is never placed; figure 8 would put it on a chord of increment 0.
        """
        # A tree edge gets both only where EXIT -> ENTRY is a chord (the tree would have a cycle
        # otherwise): then it is the only way from what it leaves to what it leads to, so that the
        # path is known here, too, and its number is what EXIT -> ENTRY adds.
        increment = self.increments[edge]
        if edge in self.initial and edge in self.final:
            return [CountConstantPath(increment + self.root, on_back_edge)]
        if edge in self.initial:
            return [SetRegister(increment)]
        if edge in self.final:
            return [CountPath(increment + self.root, on_back_edge)]
        return [AddRegister(increment)] if increment else []


def choose_steps(
    graph: Dag,
    tree: SpanningTree,
    increments: Sequence[int],
    detours: Detours = NO_DETOURS,
    root: int = 0,
) -> RegisterSteps:
    """Choose the edges of an acyclic graph that set the register and those that count; `root`: the
    increment of EXIT -> ENTRY where that is a chord.
    """
    # The register is set as far from ENTRY as no path is initialised twice, and paths are counted
    # as far from EXIT as possible, so that both may be done on one edge. A tree without EXIT ->
    # ENTRY may hold a whole way between them: there the register is set before EXIT, and no count
    # moves up past where it is set.
    n, (source, target, *_) = graph.vertex_count, graph.columns
    m, joins, leaves = len(source), tuple(detours.joins), tuple(detours.leaves)
    size = {k.VERTICES: n, k.EDGES: m, k.ENTRY: graph.cfg.entry, k.EXIT: graph.cfg.exit}
    found = call(
        k.register_steps,
        size | {k.COUNT: len(joins), k.OTHERS: len(leaves)},
        *(source, target, tree.in_tree, joins, leaves),
        *(n, m, n + 1, m, n, n, m, n, m, n),
    )
    initial, static, final, counted = map(_marked, map(found, range(12, 16)))
    return RegisterSteps(increments, initial, final, static, counted, root)


def _marked(flags: Iterable[int]) -> frozenset[int]:
    return frozenset(compress(count(), flags))


def frontier(
    graph: Dag, may: Sequence[bool], *, forwards: bool
) -> tuple[frozenset[int], frozenset[int]]:
    """Follow edges from ENTRY, or from EXIT, as long as they `may` be followed and are the only way
    to where they lead. Returns the edges at which that ends, and the vertices passed.
    """
    vertices, edges = graph.vertex_count, len(may)
    source, target, start = graph.columns.source, graph.columns.target, graph.cfg.entry
    if not forwards:
        source, target, start = target, source, graph.cfg.exit
    found = call(
        k.frontier,
        {k.VERTICES: vertices, k.EDGES: edges, k.ENTRY: start},
        *(source, target, may, vertices + 1, edges, vertices, vertices, edges, vertices),
    )
    return _marked(found(8)), _marked(found(9))


def place(
    dag: Dag,
    tree: SpanningTree,
    increments: Sequence[int],
    counted_edges: Sequence[int] = (),
    detours: Detours = NO_DETOURS,
    root: int = 0,
) -> Placement:
    """Place instrumentation as EPP figure 8 does, `increments` by dag edge; `root`: that of EXIT ->
    ENTRY where it is a chord.

    `counted_edges`: Control-flow edges that get a counter of their own. Self-loops get one in any
    case (EPP 4.1), unless they are removed edges of the dag.
    """
    steps = choose_steps(dag, tree, increments, detours, root)
    counters = tuple(sorted(dag.dfs.self_loops.difference(dag.removed).union(counted_edges)))
    actions = with_edge_counters(step_actions(dag, steps), counters)
    return Placement(actions, steps.static_region, steps.counted_region, counters)


def step_actions(dag: Dag, steps: RegisterSteps) -> dict[int, Sequence[Action]]:
    """Return what edges of the control-flow graph do where that is something."""
    actions = dict[int, Sequence[Action]]()
    busy = steps.initial | steps.final | set(compress(count(), steps.increments))
    for number in busy:
        if (edge := dag.columns.cfg_edge[number]) >= 0:
            actions[edge] = steps.on(number)
    for removed, source, target in zip(dag.removed, *dag.removed_ends, strict=True):
        dummies = dag.exit_dummy.get(source), dag.entry_dummy.get(target)
        on_back_edge = removed in dag.dfs.back_edges
        actions[removed] = [
            action
            for dummy in dummies
            if dummy is not None
            for action in steps.on(dummy, on_back_edge)
        ]
    return actions


def with_edge_counters(
    actions: Mapping[int, Sequence[Action]], counted: Iterable[int]
) -> dict[int, tuple[Action, ...]]:
    """Return the actions by edge with `CountEdge` counter k last on the k-th edge of `counted`.

    Edges are in ascending order; those without actions are left out.
    """
    placed = {edge: tuple(group) for edge, group in actions.items() if group}
    for counter, edge in enumerate(counted):
        placed[edge] = (*placed.get(edge, ()), _count_edge(counter))
    return dict(sorted(placed.items()))


def choose_table(
    greatest: int, forced: CounterTable | None = None, wasteful: bool | None = None
) -> tuple[CounterTable, Addressing | None]:
    """Choose how path counters are kept: the one rule of all path schemes (EPP 5.2, 5.3).

    - `greatest`: The greatest absolute increment that numbering the scheme's paths takes.
    - `forced`: Overrides the choice between array and hash table.
    - `wasteful`: For a scheme that names paths otherwise than by their numbers: whether its
      counters, which are indexed, never addressed, waste space. None: numbers name the counters.
    """
    # EPP's rule is about increments, not about the number of paths: a routine gets a hash table if
    # an increment of its path numbering does not fit an immediate field. For schemes that name the
    # same paths otherwise it is still that numbering which decides, so that a routine's table is
    # the same for all of them, unless their names waste space (`wastes_space`).
    fits = greatest <= INDEXING_REACH and not wasteful
    table = forced or (CounterTable.ARRAY if fits else CounterTable.HASH)
    if table is not CounterTable.ARRAY:
        return table, None
    addressed = greatest <= ADDRESSING_REACH and wasteful is None
    return table, Addressing.ADDRESS if addressed else Addressing.INDEX


def counter_plan(edges: Sequence[int] = (), blocks: Sequence[int] = ()) -> InstrumentationPlan:
    """Return a plan with a counter on each of `edges`, then one in each of `blocks`."""
    return InstrumentationPlan(
        actions={edge: (_count_edge(k),) for k, edge in enumerate(edges)},
        edge_counters=len(edges) + len(blocks),
        blocks={block: (_count_edge(k),) for k, block in enumerate(blocks, len(edges))},
    )


def instrumentation(
    placement: Placement,
    num_paths: int,
    kept: tuple[CounterTable, Addressing | None],
    registers: int = 1,
) -> InstrumentationPlan:
    """Return the plan of a placement with counters of `num_paths` paths, `kept` as `choose_table`
    says, and so many path registers.
    """
    table, addressing = kept
    effects = (a.effect for group in placement.actions.values() for a in group)
    return InstrumentationPlan(
        actions=placement.actions,
        uses_register=any(effect is not RegisterEffect.IGNORES for effect in effects),
        table=table,
        path_counters=num_paths if table is CounterTable.ARRAY else 0,
        addressing=addressing,
        edge_counters=len(placement.edge_counters),
        registers=registers,
        counted_region=placement.counted_region,
    )
