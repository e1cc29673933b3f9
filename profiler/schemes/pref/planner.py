"""`pref`: preferential path profiling (after Vaswani, Nori and Chilimbi, POPL 2007).

A path profile says which paths are interesting. They alone get numbers that are compact enough for
an array, where Ball and Larus' numbers of all paths would need a hash table. Steps:

1. Number all paths as `pp` does (EPP 3.2): two paths never have the same number.
2. Number the interesting ones compactly (`number_intervals`): other paths may share an index with
   them.
3. Choose how a path is known to be interesting (`KnownBy`): by its index where no other path has
   that, else by its number, which a table of tags has for each index.
4. Move the values of both onto the chords of one spanning tree (EPP 3.3) and place them (3.4).
5. Read the counters: an interesting path has one of its own. Others are counted together, or in a
   hash table under their numbers.

The abstract and slides of the paper were at hand, not its text. What one counter for all other
paths loses, as the paper has it, is reported; the hash table in its place is simprof's addition, as
are two path registers with a table of tags, and tests of indices where these do without.
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from simprof import schemes as s
from simprof.profiler.schemes.pref.code import (
    UNINTERESTING,
    AddBoth,
    CountKnown,
    CountPreferred,
    SetBoth,
)

# -- Interval numbering
#
# Interval numbering: compact numbers of some of the paths of an acyclic graph.
#
# After preferential path profiling (Vaswani, Nori and Chilimbi, POPL 2007), of which the abstract
# and slides were at hand; the proof and the choice among orders of edges are simprof's own.
#
# Terms
# -----
# interesting path
#     A path of the acyclic graph, from ENTRY to EXIT, that is to have a number of its own.
# prefix
#     The beginning of interesting paths, up to a vertex. What follows are the *rests* of that
#     prefix.
# index
#     The sum of a path's values. Those of interesting paths are distinct, and lie in 0 .. size - 1;
#     another path may have any index, also one of theirs.
# compactness
#     size by the number of interesting paths: 1 is perfect.
#
# An edge's value is so large that, for every prefix alike, the indices of the rests behind it begin
# where those behind the edges before it have *ended*. (As large as these are long together would
# not do: where another prefix needs more, they begin later.) So two interesting paths differ at the
# edges where they part, and the common prefix adds the same to both.


DagPath = tuple[int, ...]


class _Beginning(Struct):
    """A prefix, with what follows it by its next edge, and where the indices of its rests are."""

    onward: dict[int, _Beginning]
    executions: int = 0
    # least, end: The rests' indices are at least `least`, and below `end`.
    least: int = 0
    end: int = 1


class IntervalNumbering(Struct, frozen=True):
    """Values by edge of the acyclic graph that give interesting paths their indices."""

    values: tuple[int, ...]
    indices: Mapping[DagPath, int]  # Interesting path -> its index

    @property
    def size(self) -> int:
        """How long the range of the interesting paths' indices is."""
        return max(self.indices.values(), default=-1) + 1

    @property
    def compactness(self) -> float:
        """`size` for each interesting path; 1 where there is none."""
        return self.size / len(self.indices) if self.indices else 1.0

    def lowered(self, dag: s.Dag, by: int) -> IntervalNumbering:
        """Return it with all indices less by a number, which is taken off where paths begin."""
        first = frozenset(dag.out_edges[dag.cfg.entry])
        values = tuple(v - by if edge in first else v for edge, v in enumerate(self.values))
        return IntervalNumbering(values, {p: n - by for p, n in self.indices.items()})

    def apart(self, dag: s.Dag, size: int) -> IntervalNumbering:
        """Return it with values that give `size` or more to all paths over edges that no
        interesting path takes.
        """
        # As free poisoning in practical path profiling. The bounds hold whatever is added to such
        # edges, which makes no sum less.
        used = frozenset(edge for path in self.indices for edge in path)
        before, (behind, _) = s.least_before(dag, self.values), s.bounds(dag, self.values)
        values = tuple(
            value if edge in used else max(value, size - before[source] - behind[target])
            for edge, (value, source, target) in enumerate(
                zip(self.values, *dag.columns[:2], strict=True)
            )
        )
        return IntervalNumbering(values, self.indices)


def number_intervals(dag: s.Dag, paths: Mapping[DagPath, int]) -> IntervalNumbering:
    """Number interesting paths, given by edges from ENTRY to EXIT, with how often each executed."""
    root, values = _Beginning({}), [0] * len(dag.columns.source)
    at = defaultdict[int, list[_Beginning]](list)  # prefixes by the vertex that they lead to
    for path, executions in paths.items():
        prefix = root
        for edge in path:
            if edge not in prefix.onward:
                at[dag.columns.source[edge]] += [prefix] if not prefix.onward else []
                prefix.onward[edge] = _Beginning({})
            prefix = prefix.onward[edge]
            prefix.executions += executions
    for vertex in reversed(dag.topological):
        heat = Counter[int]()
        for prefix in at[vertex]:
            heat.update({edge: rest.executions for edge, rest in prefix.onward.items()})
        if not heat:
            continue
        hottest = sorted(heat, key=lambda edge: (-heat[edge], edge))
        # of equally compact ones the first is taken, whose hottest edge comes first
        orders = permutations(hottest) if len(hottest) == 2 else (hottest,)
        found, spans = min((_value(at[vertex], order) for order in orders), key=_spread)
        for prefix, span in zip(at[vertex], spans, strict=True):
            prefix.least, prefix.end = span
        for edge, value in found.items():
            values[edge] = value
    indices = {path: sum(values[edge] for edge in path) for path in paths}
    return IntervalNumbering(tuple(values), indices).lowered(dag, root.least)


_Valued = tuple[dict[int, int], list[tuple[int, int]]]


def _value(prefixes: Sequence[_Beginning], order: Sequence[int]) -> _Valued:
    """Value a vertex's edges in an order; return that, and `least` and `end` by prefix."""
    values: dict[int, int] = {}
    least: dict[int, int] = {}
    end = [0] * len(prefixes)
    for edge in order:
        behind = [(k, p.onward[edge]) for k, p in enumerate(prefixes) if edge in p.onward]
        value = values[edge] = max(end[k] - rest.least for k, rest in behind)
        for k, rest in behind:
            least.setdefault(k, value + rest.least)
            end[k] = value + rest.end
    return values, [(least[k], end[k]) for k in range(len(prefixes))]


def _spread(valued: _Valued) -> tuple[int, int]:
    """Return how long the longest range of a prefix's rests is, and all ranges together."""
    lengths = [end - least for least, end in valued[1]]
    return max(lengths), sum(lengths)


# -- Plans


OTHERS = "uninteresting paths"  # Name of the counter of all paths that are not interesting
NO_PATH = (1 << 32) - 1  # A tag that is no path's number


class KnownBy(StrEnum):
    """How it is known at the end of a path whether it is interesting."""

    NUMBERS = "numbers"  # not at all: every path has a counter, as under `pp`
    INDICES = "indices"  # not at all: every path has an index in the array, maybe with others
    RANGE = "range"  # by its index: those below the array's end are of no others
    TAGS = "tags"  # by its number
    NOTHING = "nothing"  # none is


class PrefPlan(s.PathPlan, frozen=True, kw_only=True, dict=True):
    """Preferential path instrumentation of one routine."""

    path_profile: Mapping[s.PathPiece, int]  # What it was made from
    profile: Mapping[DagPath, int]  # The paths of that which the acyclic graph has
    fall_back: bool  # Whether other paths have counters
    known_by: KnownBy
    indices: IntervalNumbering  # Of the interesting paths
    index_increments: s.ChordIncrements  # Its values on the chords

    @cached_property
    def by_index(self) -> dict[int, int]:
        """Index -> number of the interesting path."""
        return {n: self.numbering.encode(path) for path, n in self.indices.indices.items()}

    @property
    def tells_all(self) -> bool:
        """Whether every path has a counter of its own."""
        return self.fall_back or self.known_by is KnownBy.NUMBERS

    @property
    def num_paths(self) -> int:
        return self.numbering.total if self.tells_all else len(self.by_index)

    @property
    def split_edges(self) -> tuple[int, ...]:
        """See `Plan`."""
        return self.cut_edges

    @property
    def blocks_of_all_paths(self) -> int | None:
        return super().blocks_of_all_paths if self.tells_all else None

    def numbered_paths(self) -> Iterator[tuple[int, s.PathRecord]]:
        if self.tells_all:
            return super().numbered_paths()
        return ((number, self.decode(number)) for _, number in sorted(self.by_index.items()))

    def is_profile_of(self, reading: s.Reading) -> bool:
        """See `Plan`."""
        counts = {self.numbering.encode(p): n for p, n in self.profile.items()}
        other = reading.lost.get("uninteresting_paths", 0)
        if other:
            told = set(self.by_index.values())
            other -= sum(count for path, count in counts.items() if path not in told)
            counts = {path: count for path, count in counts.items() if path in told}
        return not other and dict(reading.paths) == counts

    def number_of(self, counter: int) -> int | None:
        """Return the number of the path that a counter counts; None: others are counted there."""
        hashes = self.plan.table is s.CounterTable.HASH
        if self.known_by is KnownBy.NUMBERS or (hashes and counter >= 0):
            return counter
        return self.by_index.get(counter + len(self.plan.named_counters) * hashes)

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Derive paths, unfinished ones, and edge counts where no path was lost (EPP 3.5, 3.6)."""
        paths: Counter[int] = Counter()
        partial: Counter[s.PathRecord] = Counter()
        lost: Counter[str] = Counter()
        for counter, count in counters.finished_paths.items():
            if (number := self.number_of(counter)) is None:
                lost["uninteresting_paths"] += count
            else:
                paths[number] += count
        for end in counters.unfinished:
            if (path := self._unfinished(end)) is None:
                lost["unknown_unfinished"] += end.count
            else:
                partial[s.path_record(self.dag, path, partial=True)] += end.count
        paths = Counter(dict(sorted(paths.items())))
        edges = None if lost else self.edge_counts(paths, counters.events, partial.items())
        return s.Reading(edges, paths=paths, partial=partial, lost=lost)

    def decode_partial(self, end: s.UnfinishedPath) -> s.PathRecord:
        path = self._unfinished(end)
        if path is None:
            raise ValueError(f"{self.cfg.name}: nothing identifies an unfinished path")
        return s.path_record(self.dag, path, partial=True)

    def _unfinished(self, end: s.UnfinishedPath) -> DagPath | None:
        """Return the beginning of a path in block `end.block`; None where nothing tells it."""
        block, number = end.block, self.increments.potential[end.block]
        if block in self.plan.counted_region:
            known = self.number_of(end.counted_ahead(self.cfg))
            return None if known is None else self.numbering.decode_prefix(known, block)
        if block not in self.static_region:
            if self.known_by is not KnownBy.NUMBERS and self.plan.registers == 1:
                return None  # the register is the beginning of many an index
            number += end.registers[-1]
        return self.numbering.decode_prefix(number, block)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        real = [self.dag.real.get(edge.id) for edge in self.cfg.edges]
        preferential = {
            "known_by": str(self.known_by),
            "interesting_paths": len(self.by_index),
            "size": self.indices.size,
            "compactness": self.indices.compactness,
            "indices": [
                {"index": index, "path": path} for index, path in sorted(self.by_index.items())
            ],
            "values": s.by_edge(real, self.indices.values),
            "increments": s.by_edge(real, self.index_increments.increments),
            "dummy_values": [self.indices.values[edge.id] for edge in self.dag.dummies],
        }
        return super().describe() | {"preferential": preferential}

    def validate(self) -> None:
        """Check every structure; AssertionError if one is wrong."""
        super().validate()
        root = self.cfg.exit, self.cfg.entry
        values = self.indices.values
        self.index_increments.validate(self.tree, values, root)
        indices = self.indices.indices
        assert len(self.by_index) == len(indices), "two interesting paths have one index"
        assert all(index >= 0 for index in indices.values()), "an index is below 0"
        if self.known_by is KnownBy.INDICES:
            lowest, highest = (each[self.cfg.entry] for each in s.bounds(self.dag, values))
            assert lowest == 0, "the array does not begin with the least index"
            assert highest < self.plan.path_counters, "an index is beyond the array"


class PreferredSteps(s.RegisterSteps, frozen=True):
    """What edges of the acyclic graph do; `increments` has one of the two of each that is not 0."""

    # indices, numbers: By edge, what is added to the registers.
    indices: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    counting: CountPreferred | None = None  # How a path is counted; None: none is interesting.

    def on(self, edge: int, on_back_edge: bool = False) -> list[s.Action]:
        index, number, counting = self.indices[edge], self.numbers[edge], self.counting
        starts, ends = edge in self.initial, edge in self.final
        if counting is None:
            return [CountKnown(UNINTERESTING)] if ends else []
        if starts and ends:
            counter = counting.interesting(index, number)
            if counter is None and counting.hashed:
                return [s.CountConstantPath(number, on_back_edge)]
            return [CountKnown(UNINTERESTING if counter is None else counter)]
        if ends:
            number = number if counting.reads_number else 0
            return [replace(counting, index=index, number=number, on_back_edge=on_back_edge)]
        if counting.reads_number:
            return [SetBoth(index, number)] if starts else [AddBoth(index, number)]
        return [s.SetRegister(index)] if starts else [s.AddRegister(index)] if index else []


def plan_pref(
    cfg: s.ControlFlowGraph,
    path_profile: Mapping[s.PathPiece, int],
    *,
    least: int = 1,
    share: float = 0.0,
    fall_back: bool = False,
    everywhere: bool = False,
    weights: Sequence[float] | None = None,
    path_limit: int | None = s.PATH_LIMIT,
    total_limit: int | None = s.TOTAL_LIMIT,
) -> PrefPlan:
    """Plan preferential path profiling of any graph.

    - `path_profile`: Executions by blocks and edges of paths. Those that the graph lacks, because
      it is cut elsewhere, are not interesting.
    - `least`, `share`: Executions, and percentage of the routine's, that make a path interesting.
    - `fall_back`: Whether other paths are counted in a hash table.
    - `everywhere`: Whether a routine is planned so even where `pp` takes an array.
    - The others: as of `plan_paths`.
    """
    base = s.plan_paths(cfg, weights=weights, path_limit=path_limit, total_limit=total_limit)
    dag = base.dag
    known = ((s.dag_path(dag, *path), count) for path, count in path_profile.items())
    profile = {path: count for path, count in known if path is not None}
    enough = max(Fraction(least), Fraction(str(share)) / 100 * sum(profile.values()))
    indices = number_intervals(dag, {path: n for path, n in profile.items() if n >= enough})
    known_by = KnownBy.NUMBERS
    if everywhere or base.plan.table is s.CounterTable.HASH:
        known_by, indices = _choose(dag, indices, base.numbering.total, fall_back)
    made = PrefPlan(
        **asdict(base),
        path_profile=path_profile,
        profile=profile,
        fall_back=fall_back,
        known_by=known_by,
        indices=indices,
        index_increments=s.chord_increments(base.tree, indices.values),
    )
    return made if known_by is KnownBy.NUMBERS else replace(made, plan=_instrument(made))


def _choose(
    dag: s.Dag, indices: IntervalNumbering, total: int, fall_back: bool
) -> tuple[KnownBy, IntervalNumbering]:
    """Choose how interesting paths are known, and their indices for that."""
    known, size = len(indices.indices), indices.size
    if not known:
        return (KnownBy.NUMBERS if fall_back else KnownBy.NOTHING), indices
    if known == total or s.wastes_space(size, known):
        return KnownBy.NUMBERS, indices
    window = 1 << (size - 1).bit_length()
    apart = indices.apart(dag, window)
    sums = s.sums_within(dag, apart.values, window)
    if sums is None or any(sums[index] > 1 for index in indices.indices.values()):
        return KnownBy.TAGS, indices
    if fall_back:
        has_others = sum(sums.values()) > known
        return (KnownBy.TAGS, indices) if has_others else (KnownBy.RANGE, apart)
    lowest, highest = (each[dag.cfg.entry] for each in s.bounds(dag, apart.values))
    if s.wastes_space(highest - lowest + 1, known):
        return KnownBy.RANGE, apart
    return KnownBy.INDICES, apart.lowered(dag, lowest)


def _instrument(made: PrefPlan) -> s.InstrumentationPlan:
    """Return what a plan does whose paths are not counted by their numbers."""
    dag, size, known_by = made.dag, made.indices.size, made.known_by
    indices, numbers = made.index_increments.increments, made.increments.increments
    steps = s.choose_steps(dag, made.tree, indices)
    named: tuple[str, ...] = (OTHERS,)
    kept: tuple[s.CounterTable, s.Addressing | None] = s.CounterTable.ARRAY, s.Addressing.INDEX
    counting, tags = None, tuple[int, ...]()
    if known_by is KnownBy.INDICES:
        named, size = (), s.bounds(dag, made.indices.values)[1][dag.cfg.entry] + 1
        kept = s.choose_table(made.index_increments.greatest, s.CounterTable.ARRAY)
    elif known_by is not KnownBy.NOTHING:
        bits = (size - 1).bit_length()
        paths = [made.by_index.get(index, NO_PATH) for index in range(1 << bits)]
        if known_by is KnownBy.TAGS:
            tags = tuple(paths)
        else:
            size = 1 << bits
        first = -size if made.fall_back else 0
        if made.fall_back:
            # counters with names are numbered downwards
            known = reversed(paths[:size])
            named = tuple("no path" if path == NO_PATH else f"path {path}" for path in known)
            kept, size = (s.CounterTable.HASH, None), 0
        counting = CountPreferred(0, 0, bits, first, tags, hashed=made.fall_back)
    if known_by is not KnownBy.INDICES:
        either = [index or number for index, number in zip(indices, numbers, strict=True)]
        rest = steps.initial, steps.final, steps.static_region, steps.counted_region
        steps = PreferredSteps(either, *rest, 0, indices, numbers, counting)
    actions = s.with_edge_counters(s.step_actions(dag, steps), made.edge_counters)
    places = s.Placement(actions, steps.static_region, steps.counted_region, made.edge_counters)
    registers = 2 if counting is not None and counting.reads_number else 1
    plan = s.instrumentation(places, size, kept, registers)
    return replace(plan, named_counters=named, constants=tags)
