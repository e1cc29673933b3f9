"""`pref`: preferential path profiling (after Vaswani, Nori and Chilimbi, POPL 2007).

A path profile says which paths are interesting. They alone get numbers that are compact enough for
an array, where Ball and Larus' numbers of all paths would need a hash table. Steps:

1. Number all paths as `pp` does (EPP 3.2): two paths never have the same number.
2. Number the interesting ones compactly (`numbering`): other paths may share an index with them.
3. Choose how a path is known to be interesting (`Count`): by its index alone where no other path
   has that, else by its number, which a table of tags has for each index.
4. Move the values of both onto the chords of one spanning tree (EPP 3.3) and place them (3.4).
5. Read the counters: an interesting path has one of its own. Others are counted together, or in a
   hash table under their numbers.

The abstract and slides of the paper were at hand, not its text. What one counter for all other
paths loses, as the paper has it, is reported; the hash table in its place is simprof's addition, as
are two path registers with a table of tags, and tests of indices where these do without.
"""

# ruff: noqa: D102 - overriding methods do what `RoutinePlan` and `PathDecoder` say

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import PATH_LIMIT, TOTAL_LIMIT, PathNumbering
from simprof.profiler.graphs.paths import (
    PathPiece,
    PathRecord,
    number_paths,
    path_record,
    removed_forest,
)
from simprof.profiler.graphs.spanning import (
    ChordIncrements,
    SpanningTree,
    chord_increments,
    given_weights,
)
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    SetRegister,
)
from simprof.profiler.plan.decoders import PathNames, Reading, RoutineCounters, UnfinishedPath
from simprof.profiler.plan.path_plan import AcyclicPathPlan
from simprof.profiler.plan.placement import (
    Placement,
    RegisterSteps,
    choose_steps,
    choose_table,
    instrumentation,
    step_actions,
    wastes_space,
    with_edge_counters,
)
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.profiler.schemes.pref.actions import (
    UNINTERESTING,
    AddBoth,
    CountKnown,
    CountPreferred,
    SetBoth,
)
from simprof.profiler.schemes.pref.numbering import (
    DagPath,
    IntervalNumbering,
    bounds,
    number_intervals,
    sums_within,
)
from simprof.profiler.schemes.static import by_edge, describe_acyclic
from simprof.simulator.values import dataclass

OTHERS = "uninteresting"  # Name of the counter of all paths that are not interesting
NO_PATH = (1 << 32) - 1  # A tag that is no path's number


class Count(StrEnum):
    """How it is known which paths are interesting."""

    NUMBERS = "numbers"  # not at all: every path has its own counter, as under `pp`
    INDICES = "indices"  # every path has an index in the array, and no other has an interesting one
    RANGE = "range"  # interesting ones have an index below the array's end that no other has
    TAGS = "tags"  # by the number in the table of tags
    NOTHING = "nothing"  # none is


@dataclass(frozen=True, kw_only=True)
class PrefPlan(AcyclicPathPlan):
    """Preferential path instrumentation of one routine."""

    # tree, increments: As of `pp`.
    tree: SpanningTree
    increments: ChordIncrements
    static_region: frozenset[int]
    path_profile: Mapping[PathPiece, int]  # What the plan was made from
    fall_back: bool  # Whether other paths have counters
    count: Count
    indices: IntervalNumbering  # Of the interesting paths
    index_increments: ChordIncrements  # The values of these on the chords

    @cached_property
    def by_index(self) -> dict[int, int]:
        """Index -> number of the interesting path."""
        pairs = self.indices.indices.items()
        return {index: self.numbering.encode(path) for path, index in pairs}

    @property
    def tells_all(self) -> bool:
        """Whether every path has a counter of its own."""
        return self.fall_back or self.count is Count.NUMBERS

    @property
    def num_paths(self) -> int:
        return self.numbering.total if self.tells_all else len(self.by_index)

    @property
    def names(self) -> PathNames:
        if self.count is Count.NUMBERS:
            return super().names
        size = max(self.indices.size, 1)
        return PathNames((size - 1).bit_length(), size)

    @property
    def split_edges(self) -> tuple[int, ...]:
        """See `accuracy.SplittingDecoder`."""
        return self.cut_edges

    @property
    def blocks_of_all_paths(self) -> int | None:
        return super().blocks_of_all_paths if self.tells_all else None

    def numbered_paths(self) -> Iterator[tuple[int, PathRecord]]:
        if self.tells_all:
            return super().numbered_paths()
        return ((number, self.decode(number)) for _, number in sorted(self.by_index.items()))

    def is_profile_of(self, reading: Reading) -> bool:
        """See `decoders.PathGuidedDecoder`."""
        known = profile_paths(self.dag, self.path_profile)
        counts = {self.numbering.encode(path): count for path, count in known.items()}
        other = reading.lost.get("uninteresting_paths", 0)
        if not other:
            return dict(reading.paths) == counts
        mine = {path: count for path, count in counts.items() if path in self.by_index.values()}
        return dict(reading.paths) == mine and other == sum(counts.values()) - sum(mine.values())

    def number_of(self, counter: int) -> int | None:
        """Return the number of the path that a counter counts; None: it is that of all others."""
        if self.count is Count.NUMBERS or (self._hashes and counter >= 0):
            return counter
        return self.by_index.get(counter - self._first)

    @property
    def _hashes(self) -> bool:
        return self.plan.table is CounterTable.HASH

    @property
    def _first(self) -> int:
        return -len(self.plan.named_counters) if self._hashes else 0

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive paths, unfinished ones, and edge counts where no path was lost (EPP 3.5, 3.6)."""
        paths: Counter[int] = Counter()
        other = unknown = 0
        for counter, count in counters.finished_paths.items():
            number = self.number_of(counter)
            if number is None:
                other += count
            else:
                paths[number] += count
        partial: Counter[PathRecord] = Counter()
        for end in counters.unfinished:
            if (path := self._unfinished(end)) is None:
                unknown += end.count
            else:
                partial[path_record(self.dag, path, partial=True)] += end.count
        lost = {"uninteresting_paths": other, "unknown_unfinished": unknown}
        lost = {name: count for name, count in lost.items() if count}
        finished = dict(sorted(paths.items()))
        edges = self.edge_counts(finished, counters.events, partial.items())
        return Reading(None if lost else edges, paths=finished, partial=partial, lost=lost)

    def decode_partial(self, end: UnfinishedPath) -> PathRecord:
        path = self._unfinished(end)
        if path is None:
            raise ValueError(f"{self.cfg.name}: an unfinished path is not interesting")
        return path_record(self.dag, path, partial=True)

    def _unfinished(self, end: UnfinishedPath) -> DagPath | None:
        """Return the beginning of a path in block `end.block`; None where nothing tells it."""
        block, potential = end.block, self.increments.potential
        number: int | None
        if block in self.plan.counted_region:
            number = self.number_of(end.counted_ahead(self.cfg))
        elif block in self.static_region:
            number = potential[block]
        elif self.count is Count.NOTHING:
            number = None
        elif self.count is Count.NUMBERS or self.plan.registers == 2:
            number = end.registers[-1] + potential[block]
        else:
            return self._only_way(block, end.registers[0] + self.index_increments.potential[block])
        return None if number is None else self.numbering.decode_prefix(number, block)

    def _only_way(self, block: int, total: int) -> DagPath | None:
        """Return the way from ENTRY to a block whose values have this sum, if there is only one."""
        dag, values = self.dag, self.indices.values
        ways: list[tuple[int, int, DagPath]] = [(block, total, ())]
        found: list[DagPath] = []
        for _ in range(1 << 12):
            if not ways:
                return found[0] if len(found) == 1 else None
            vertex, rest, path = ways.pop()
            if vertex == dag.cfg.entry:
                found += [path] * (rest == 0)
            for edge in dag.in_edges[vertex]:
                ways.append((dag.columns.source[edge], rest - values[edge], (edge, *path)))
        return None

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        cfg = self.cfg
        real = [self.dag.real.get(edge.id) for edge in cfg.edges]
        increments = self.index_increments.increments
        return {
            **describe_acyclic(self.dag, self.weights, self.numbering, self.tree, self.increments),
            "preferential": {
                "count": str(self.count),
                "interesting_paths": len(self.by_index),
                "size": self.indices.size,
                "compactness": self.indices.compactness,
                "indices": {str(number): index for index, number in sorted(self.by_index.items())},
                "values": by_edge(real, self.indices.values),
                "increments": by_edge(real, increments),
                "dummy_values": [self.indices.values[edge.id] for edge in self.dag.dummies],
                "dummy_increments": [increments[edge.id] for edge in self.dag.dummies],
            },
        }

    def validate(self) -> None:
        """Check every structure; AssertionError if one is wrong."""
        self.dag.validate()
        self.numbering.validate()
        self.tree.validate()
        self.tree.validate_maximum(self.dag.edge_weights(self.weights))
        root = self.cfg.exit, self.cfg.entry
        self.increments.validate(self.tree, self.numbering.values, root)
        self.index_increments.validate(self.tree, self.indices.values, root)
        self.validate_counters()
        known = self.indices.indices
        assert len(set(known.values())) == len(known), "two interesting paths have one index"
        assert all(index >= 0 for index in known.values()), "an index is below 0"


def profile_paths(dag: Dag, profile: Mapping[PathPiece, int]) -> dict[DagPath, int]:
    """Return the paths of a profile by dag edges, without those that the graph lacks."""
    found: dict[DagPath, int] = {}
    for (blocks, edges), count in profile.items():
        path = [dag.real.get(edge) for edge in edges]
        if not edges or dag.cfg.edges[edges[0]].source != dag.cfg.entry:
            path.insert(0, dag.entry_dummy.get(blocks[0]))
        if not edges or dag.cfg.edges[edges[-1]].target != dag.cfg.exit:
            path.append(dag.exit_dummy.get(blocks[-1]))
        known = tuple(edge for edge in path if edge is not None)
        if len(known) == len(path):
            found[known] = found.get(known, 0) + count
    return found


@dataclass(frozen=True)
class PreferredSteps(RegisterSteps):
    """What edges of the acyclic graph do; `increments` has both increments of each, in one."""

    # indices, numbers: By edge, what is added to the registers.
    indices: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    # How a path is counted; None: none is interesting.
    counting: CountPreferred | None = None

    @property
    def both(self) -> bool:
        """Whether there are two registers."""
        return self.counting is not None and bool(self.counting.tags or self.counting.hashed)

    def on(self, edge: int, on_back_edge: bool = False) -> list[Action]:
        index, number, counting = self.indices[edge], self.numbers[edge], self.counting
        starts, ends = edge in self.initial, edge in self.final
        if counting is None:
            return [CountKnown(UNINTERESTING, False)] if ends else []
        if starts and ends:
            counter = counting.interesting(index, number)
            if counter is None and counting.hashed:
                return [CountConstantPath(number, on_back_edge)]
            known = counter is not None
            return [CountKnown(UNINTERESTING if counter is None else counter, known)]
        if ends:
            number = number if self.both else 0
            return [replace(counting, index=index, number=number, on_back_edge=on_back_edge)]
        if self.both:
            return [SetBoth(index, number)] if starts else [AddBoth(index, number)]
        return [SetRegister(index)] if starts else [AddRegister(index)] if index else []


def plan_pref(
    cfg: ControlFlowGraph,
    path_profile: Mapping[PathPiece, int],
    *,
    least: int = 1,
    share: float = 0.0,
    fall_back: bool = False,
    everywhere: bool = False,
    weights: Sequence[float] | None = None,
    path_limit: int | None = PATH_LIMIT,
    total_limit: int | None = TOTAL_LIMIT,
) -> PrefPlan:
    """Plan preferential path profiling of any graph.

    - `path_profile`: Executions by blocks and edges of paths. Those that the graph lacks, because
      it is cut elsewhere, are not interesting.
    - `least`, `share`: Executions, and percentage of the routine's, that make a path interesting.
    - `fall_back`: Whether other paths are counted in a hash table.
    - `everywhere`: Whether a routine is planned so even where `pp` takes an array.
    """
    dfs = depth_first(cfg)
    edge_weights = given_weights(cfg, weights)
    dag, numbering, tree, increments = number_paths(
        cfg, dfs, edge_weights, path_limit=path_limit, total_limit=total_limit
    )
    removed_tree = removed_forest(cfg, dag.removed, edge_weights)
    open_edges = {dag.removed[chord] for chord in removed_tree.chords}
    profile = profile_paths(dag, path_profile)
    enough = max(Fraction(least), Fraction(str(share)) / 100 * sum(profile.values()))
    indices = number_intervals(dag, {path: n for path, n in profile.items() if n >= enough})
    count = Count.NUMBERS
    if everywhere or choose_table(increments.greatest)[0] is CounterTable.HASH:
        count, lowest = _choose_count(dag, indices, numbering.total, fall_back)
        indices = indices.lowered(dag, lowest)
    index_increments = chord_increments(tree, indices.values)
    steps = choose_steps(dag, tree, increments.increments)
    counters = tuple(sorted(dfs.self_loops.difference(dag.removed).union(open_edges)))
    layout = _lay_out(count, indices, numbering, increments, index_increments, fall_back)
    if count is Count.INDICES:
        steps = replace(steps, increments=index_increments.increments)
    elif count is not Count.NUMBERS:
        pairs = index_increments.increments, increments.increments
        steps = PreferredSteps(
            *(tuple(map(_either, *pairs)), steps.initial, steps.final),
            *(steps.static_region, steps.counted_region),
            indices=pairs[0],
            numbers=pairs[1],
            counting=layout.counting,
        )
    actions = with_edge_counters(step_actions(dag, steps), counters)
    placement = Placement(actions, steps.static_region, steps.counted_region, counters)
    plan = instrumentation(placement, layout.counters, layout.table, layout.registers)
    tags = () if layout.counting is None else layout.counting.tags
    return PrefPlan(
        cfg=cfg,
        plan=replace(plan, named_counters=layout.named, constants=tags),
        weights=edge_weights,
        edge_counters=counters,
        removed_tree=removed_tree,
        dag=dag,
        numbering=numbering,
        tree=tree,
        increments=increments,
        static_region=steps.static_region,
        path_profile=path_profile,
        fall_back=fall_back,
        count=count,
        indices=indices,
        index_increments=index_increments,
    )


def _either(index: int, number: int) -> int:
    # where one of them is something, something is done
    return index or number


def _choose_count(
    dag: Dag, indices: IntervalNumbering, total: int, fall_back: bool
) -> tuple[Count, int]:
    """Choose how interesting paths are known; also return the index that the array begins with."""
    known, size = len(indices.indices), indices.size
    if not known:
        return (Count.NUMBERS if fall_back else Count.NOTHING), 0
    if wastes_space(size, known):
        return Count.NUMBERS, 0
    sums = sums_within(dag, indices.values, 1 << (size - 1).bit_length())
    if sums is None or any(sums[index] > 1 for index in indices.indices.values()):
        return Count.TAGS, 0
    lowest, highest = (each[dag.cfg.entry] for each in bounds(dag, indices.values))
    if known == total or not (fall_back or wastes_space(highest - lowest + 1, known)):
        return Count.INDICES, lowest
    has_others = fall_back and sum(sums.values()) > known
    return (Count.TAGS if has_others else Count.RANGE), 0


class _Layout(NamedTuple):
    """Which counters there are, and how the paths that these count are told apart."""

    table: tuple[CounterTable, Addressing | None]
    counters: int
    counting: CountPreferred | None = None
    registers: int = 1
    named: tuple[str, ...] = ()


def _lay_out(
    count: Count,
    indices: IntervalNumbering,
    numbering: PathNumbering,
    increments: ChordIncrements,
    index_increments: ChordIncrements,
    fall_back: bool,
) -> _Layout:
    if count is Count.NUMBERS:
        return _Layout(choose_table(increments.greatest), numbering.total)
    if count is Count.INDICES:
        highest = bounds(numbering.dag, indices.values)[1][numbering.dag.cfg.entry]
        table = choose_table(index_increments.greatest, CounterTable.ARRAY)
        return _Layout(table, highest + 1)
    array = CounterTable.ARRAY, Addressing.INDEX
    if count is Count.NOTHING:
        return _Layout(array, 0, named=(OTHERS,))
    bits = (indices.size - 1).bit_length()
    size = indices.size if count is Count.TAGS else 1 << bits
    paths = {index: numbering.encode(path) for path, index in indices.indices.items()}
    tags = tuple(paths.get(index, NO_PATH) for index in range(1 << bits))
    counting = CountPreferred(
        *(0, 0, bits),
        first=-size if fall_back else 0,
        tags=tags if count is Count.TAGS else (),
        hashed=fall_back,
    )
    both = 2 if fall_back or counting.tags else 1
    if not fall_back:
        return _Layout(array, size, counting, both, (OTHERS,))
    # counters with names are numbered downwards
    names = tuple(f"path {paths.get(index, '-')}" for index in reversed(range(size)))
    return _Layout((CounterTable.HASH, None), 0, counting, both, names)
