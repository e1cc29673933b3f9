"""Planners of `sampled` and `pep`, and what their counters tell.

Sources: M. Arnold and B. G. Ryder, "A Framework for Reducing the Cost of Instrumented Code", PLDI
2001; M. D. Bond and K. S. McKinley, "Continuous Path and Edge Profiling", MICRO-38, 2005. Neither
text was at hand: both schemes are made after summaries (docs/MODES.md says what was assumed).

Terms
-----
sample
    A path that is counted. `sampled` decides about a path where it begins, `pep` where it ends.
smart numbering
    The most frequent edge out of each vertex has value 0 (`number_by_weight`): the most
    frequent paths execute no additions.
header
    The target of a back edge. Paths of `pep` end wherever a header is entered, and at EXIT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from simprof import schemes as s
from simprof.profiler.schemes.sampling.code import (
    BURST,
    WORD,
    AddInCopy,
    AddToSample,
    ChoosePath,
    CountInCopy,
    CountSample,
    EnterPath,
    NextPath,
    SamplePath,
)


class SamplingPlan(s.PathCountingPlan, frozen=True, kw_only=True):
    """Sampled paths of one routine."""

    numbering: s.PathNumbering

    @property
    def blocks_of_all_paths(self) -> int | None:
        """How many blocks all paths have together."""
        return self.numbering.blocks_of_all_paths()

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        numbering, real = self.numbering, [self.dag.real.get(edge.id) for edge in self.cfg.edges]
        return {
            "num_paths": s.by_block(self.cfg, numbering.num_paths),
            "values": s.by_edge(real, numbering.values),
            "order": numbering.rule.value,
            "dummy_edges": [
                s.describe_dummy(self.cfg, edge) | {"value": numbering.values[edge.id]}
                for edge in self.dag.dummies
            ],
        }

    def validate(self) -> None:
        """Check the acyclic graph and the numbers; AssertionError if one is wrong."""
        self.dag.validate()
        self.numbering.validate()


class SampledPlan(SamplingPlan, frozen=True, kw_only=True):
    """Sampled paths of `sampled`."""

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Tell how often each path was sampled, and which samples never ended (EPP 3.6)."""
        # Loops of one block end no path, and nothing tells how often they were executed: so counts
        # of edges do not follow.
        partial: Counter[s.PathRecord] = Counter()
        for end in counters.unfinished:
            if end.registers[0] >= 0:
                begun = self.numbering.decode_prefix(end.registers[0], end.block)
                partial[s.path_record(self.dag, begun, partial=True)] += end.count
        return s.Reading(None, paths=counters.finished_paths, partial=partial)


class PepPlan(SamplingPlan, frozen=True, kw_only=True):
    """Sampled paths of `pep`."""

    @property
    def split_edges(self) -> tuple[int, ...]:
        """Edges at which paths end: those into loop headers, self-loops among them."""
        return self.dag.removed

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Tell how often each path was sampled, and estimate edges from that.

        A path that never ended is no sample.
        """
        paths = counters.finished_paths
        records = [(self.decode(number), count) for number, count in paths.items()]
        return s.Reading(sampled_edges(self.dag, records, self.weights), paths=paths)


def sampled_edges(
    dag: s.Dag, paths: Iterable[tuple[s.PathRecord, int]], weights: tuple[float, ...]
) -> tuple[int, ...]:
    """Return how often sampled paths executed each edge, those that ended them included.

    Paths do not tell which of several edges that end paths at one block it was: these share the
    count by their weights.
    """
    counts = [0] * len(dag.cfg.edges)
    ended: Counter[int] = Counter()
    for record, count in paths:
        for edge in record.edges:
            counts[edge] += count
        if record.end in (s.PathEnd.LOOP, s.PathEnd.CUT):
            ended[record.blocks[-1]] += count
    for block, count in ended.items():
        ways = dag.stood_for(dag.exit_dummy[block]) or ()
        whole = sum(weights[edge] for edge in ways)
        heaviest = max(ways, key=lambda edge: (weights[edge], -edge))
        for edge in ways:
            if edge != heaviest and whole:
                counts[edge] = int(count * weights[edge] / whole)
        counts[heaviest] = count - sum(counts[edge] for edge in ways if edge != heaviest)
    return tuple(counts)


def plan_sampled(order: s.PlanOrder, interval: int, duplicated: bool = False) -> SampledPlan:
    """Plan one routine under `sampled`: a path is counted if the guard where it begins says so.

    `duplicated`: In a second copy of the routine's blocks.
    """
    cfg, weights = order.cfg, s.given_weights(order.cfg, order.weights)
    dfs = s.depth_first(cfg)
    dag = s.truncated_dag(cfg, dfs, order.options.path_limit, s.TOTAL_LIMIT)
    numbering = s.number_by_weight(dag, weights)
    enter, begin, add, count = (
        (EnterPath, NextPath, AddInCopy, CountInCopy)
        if duplicated
        else (ChoosePath, ChoosePath, AddToSample, CountSample)
    )
    along = Along(lambda c: enter(c, interval), lambda c: begin(c, interval), add, count)
    actions = _actions(numbering, along)
    plan = _instrumentation(actions, numbering, order.table, (WORD,), duplicated)
    return SampledPlan(cfg=cfg, plan=plan, weights=weights, dag=dag, numbering=numbering)


def plan_pep(order: s.PlanOrder, tick: int, samples: int, stride: int) -> PepPlan:
    """Plan one routine under `pep`: the register is computed along all paths, and read at the ends
    of some.
    """
    cfg, weights = order.cfg, s.given_weights(order.cfg, order.weights)
    dag = header_dag(cfg, order.options.path_limit)
    numbering = s.number_by_weight(dag, weights)

    def end(value: int, on_back_edge: bool) -> SamplePath:
        return SamplePath(value, on_back_edge, tick, samples, stride)

    actions = _actions(numbering, Along(s.SetRegister, s.SetRegister, s.AddRegister, end))
    plan = _instrumentation(actions, numbering, order.table, (WORD, BURST))
    return PepPlan(cfg=cfg, plan=plan, weights=weights, dag=dag, numbering=numbering)


class Along(NamedTuple):
    """What makes the actions along a path, of their constants."""

    enter: Callable[[int], s.Action]  # Where an activation begins, and its first path
    begin: Callable[[int], s.Action]  # Where another path begins
    add: Callable[[int], s.Action]
    end: Callable[[int, bool], s.Action]  # The last: whether on a back edge


def _actions(numbering: s.PathNumbering, along: Along) -> dict[int, tuple[s.Action, ...]]:
    """Return what is done on each edge whose value stays there."""
    dag, values = numbering.dag, numbering.values
    cfg, actions = dag.cfg, dict[int, tuple[s.Action, ...]]()
    for edge, real in dag.real.items():
        value = values[real]
        if cfg.edges[edge].source == cfg.entry:
            actions[edge] = (along.enter(value),)
        elif cfg.edges[edge].target == cfg.exit:
            actions[edge] = (along.end(value, False),)
        elif value:
            actions[edge] = (along.add(value),)
    for removed in dag.removed:
        _, source, target, _ = cfg.edges[removed]
        ended = along.end(values[dag.exit_dummy[source]], removed in dag.dfs.back_edges)
        actions[removed] = (ended, along.begin(values[dag.entry_dummy[target]]))
    return actions


def header_dag(cfg: s.ControlFlowGraph, path_limit: int | None) -> s.Dag:
    """Return the acyclic graph of `cfg` whose paths end at loop headers, loops of one block
    included; cut where too many paths lead (EPP 5.3).
    """
    dfs = s.depth_first(cfg)
    headers = {cfg.edges[edge].target for edge in dfs.back_edges}
    # An activation that begins at a header has executed nothing yet: no path ends there.
    cuts = {
        edge
        for header in headers
        for edge in cfg.in_edges[header]
        if cfg.edges[edge].source in dfs.reached and cfg.edges[edge].source != cfg.entry
    } - dfs.back_edges
    dag = s.make_dag(cfg, dfs, cuts, dfs.self_loops)
    more = s.find_cut_edges(dag, path_limit, s.TOTAL_LIMIT)
    return s.make_dag(cfg, dfs, cuts.union(more), dfs.self_loops) if more else dag


def _instrumentation(
    actions: Mapping[int, tuple[s.Action, ...]],
    numbering: s.PathNumbering,
    forced: s.CounterTable | None,
    words: tuple[str, ...],
    duplicated: bool = False,
) -> s.InstrumentationPlan:
    # Where the register's sign says whether a path is a sample, it holds numbers, not addresses.
    wasteful = None if duplicated else False
    table, addressing = s.choose_table(max(numbering.values, default=0), forced, wasteful)
    size = numbering.total if table is s.CounterTable.ARRAY else 0
    return s.InstrumentationPlan(
        actions, True, table, size, addressing, words=words, is_duplicated=duplicated
    )
