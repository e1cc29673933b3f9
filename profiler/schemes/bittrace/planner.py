"""`bittrace`: path profiling by bit tracing (EPP section 2).

Every predicate appends its outcome to a register, whose contents name the counter where the path
ends. Paths are those of `pp`: the same graph without back edges, the same edges cut for the same
limit. Codes: see `codes`. Nothing is saved by a spanning tree: every outcome is written.
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.bittrace.code import (
    CountShifted,
    CountWords,
    ShiftBits,
    ShiftRecord,
    ShiftWord,
    StartWords,
)
from simprof.profiler.schemes.bittrace.codes import (
    WORD_BITS,
    BranchCodes,
    WindowCodes,
    branch_codes,
    window_codes,
)

# -- `bittrace`


# Labels begin at 0 at every predicate, so these are soon all there.
_shift_bits, _shift_word = cache(ShiftBits), cache(ShiftWord)


class BitTracePlan(s.AcyclicPathPlan, frozen=True, kw_only=True):
    """Bit tracing of one routine and the way back from counters to paths."""

    # A path's number is `code_key` of its code. Weights choose removed edges with
    # counters, and the increments that `choose_table` judges.

    codes: BranchCodes  # The codes of the paths
    # Vertex before any initialisation -> the start of the one way there, which is known without it
    static_region: Mapping[int, int]

    @property
    def names(self) -> s.PathNames:
        if self.codes.largest is None:
            return s.PathNames(WORD_BITS * self.codes.word_count, None)
        return s.PathNames(self.codes.largest.bit_length(), self.codes.largest + 1)

    def decode(self, path_id: int) -> s.PathRecord:
        words = s.key_code(path_id, self.codes.word_count)
        if path_id < 0 or s.code_key(words) != path_id:
            raise ValueError(f"{self.cfg.name} has no path {path_id}")
        return s.path_record(self.dag, self.codes.decode(words, self.cfg.exit))

    def decode_partial(self, end: s.UnfinishedPath) -> s.PathRecord:
        if end.block in self.plan.counted_region:
            words = s.key_code(end.counted_ahead(self.cfg), self.codes.word_count)
            whole = self.codes.decode(words, self.cfg.exit)
            targets = [self.dag.columns.target[edge] for edge in whole]
            path = whole[: targets.index(end.block) + 1]
            return s.path_record(self.dag, path, partial=True)
        registers = end.registers if self.plan.uses_register else (0,)
        if end.block in self.static_region:
            registers = self.codes.encode((self.static_region[end.block],))
        words = registers[: self.codes.words[end.block] + 1]
        path = self.codes.decode(words, end.block)
        return s.path_record(self.dag, path, partial=True)

    def encode(self, blocks: Sequence[int], edges: Sequence[int]) -> int:
        """Return the number of a path given as in `PathRecord`; inverse of `decode`."""
        return s.code_key(self.codes.encode(self.dag_path(blocks, edges)))

    def numbered_paths(self) -> Iterator[tuple[int, s.PathRecord]]:
        return ((self.encode(record.blocks, record.edges), record) for record in self.all_paths())

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`: labels by edge, initial values of path starts."""
        cfg, codes = self.cfg, self.codes
        real = [self.dag.real.get(edge.id) for edge in cfg.edges]
        source, *_ = self.dag.columns
        labels = [codes.labels[edge] for edge in range(len(source))]
        widths = [codes.widths[each] for each in source]
        return {
            "num_paths": s.by_block(cfg, self.numbering.num_paths),
            "labels": s.by_edge(real, labels),
            "bits": s.by_edge(real, widths),
            "words": codes.word_count,
            "largest_code": codes.largest,
            "dummy_edges": [
                s.describe_dummy(cfg, edge)
                | {
                    "label": labels[edge.id],
                    "bits": widths[edge.id],
                    "initial": codes.initial.get(edge.id),
                }
                for edge in self.dag.dummies
            ],
        }

    def validate(self) -> None:
        self.dag.validate()
        self.numbering.validate()
        self.codes.validate(self.numbering)
        self.validate_counters()
        words = self.codes.word_count
        assert self.plan.registers == words, f"{words} words are not kept in as many registers"
        assert self.plan.key_words == words, f"{words} words are not counted by as many"


def plan_bittrace(
    cfg: s.ControlFlowGraph,
    *,
    weights: Sequence[float] | None = None,
    path_limit: int | None = s.PATH_LIMIT,
    total_limit: int | None = s.TOTAL_LIMIT,
    per_vertex: bool = False,
    table: s.CounterTable | None = None,
    merged: bool = False,
) -> BitTracePlan:
    """Plan bit tracing of `cfg`; parameters as those of `plan_paths`.

    `merged`: Whether the register is set where the first outcome is known, not before, and paths
    are counted where the last is known, not after (EPP 3.4).

    UsageError if an array is asked for, and the codes have several words.
    """
    dfs = s.depth_first(cfg)
    edge_weights = s.given_weights(cfg, weights)
    paths = s.number_paths(
        cfg,
        dfs,
        edge_weights,
        path_limit=path_limit,
        total_limit=total_limit,
        per_vertex=per_vertex,
    )
    paths, codes = _coded(paths, edge_weights)
    initial, static_region = _initialisation(codes, merged)
    final, counted_region = _counts(codes, initial, merged and codes.word_count == 1)

    def place(open_edges: Sequence[int]) -> s.Placement:
        counted = tuple(sorted({*open_edges, *dfs.self_loops}))
        actions = _actions(codes, initial, final, merged, counted)
        return s.Placement(actions, frozenset(static_region), counted_region, counted)

    return s.exact_plan(
        BitTracePlan,
        paths.dag,
        paths.numbering,
        edge_weights,
        place,
        _choose_table(codes, paths, table),
        size=(codes.largest or 0) + 1,
        registers=codes.word_count,
        codes=codes,
        static_region=static_region,
    )


def _coded(paths: s.NumberedPaths, weights: Sequence[float]) -> tuple[s.NumberedPaths, BranchCodes]:
    """Find the codes; cut the ways out of the last word into another as long as there are any."""
    # Codes longer than a word are kept in as many path registers as they have words, and counted in
    # a hash table by a run-time routine for keys of several words (`hash_routine`). Where a path
    # would take more than `MAX_WORDS` words, more edges are cut than `pp` cuts.
    while True:
        dag, codes = paths.dag, branch_codes(paths.dag, paths.numbering)
        if codes.word_count <= s.MAX_WORDS:
            return paths, codes
        # No vertex is in a later word than all its sources by more than one, so there are cuts.
        cuts = {
            edge.cfg_edge
            for edge in dag.edges
            if edge.cfg_edge is not None
            and edge.target != dag.cfg.exit
            and (codes.words[edge.source], codes.words[edge.target])
            == (s.MAX_WORDS - 1, s.MAX_WORDS)
        }
        cuts.update(dag.cut_edges)
        paths = s.number_paths(
            dag.cfg, dag.dfs, weights, path_limit=None, total_limit=None, cuts=cuts
        )


def _choose_table(
    codes: BranchCodes, paths: s.NumberedPaths, forced: s.CounterTable | None
) -> tuple[s.CounterTable, s.Addressing | None]:
    if codes.largest is None and forced is s.CounterTable.ARRAY:
        raise s.UsageError(
            f"{codes.dag.cfg.name}: branch outcomes of {codes.word_count} words cannot index an "
            "array: leave --table at its default, or give a smaller --path-limit"
        )
    # Counters are an array where those of `pp` are (`choose_table`: EPP 5.3's rule,
    # applied to the increments that numbering these paths takes), unless the codes are too sparse
    # for one. Arrays are indexed: what is shifted cannot be an address (EPP 5.2).
    counters = None if codes.largest is None else codes.largest + 1
    wasteful = s.wastes_space(counters, paths.numbering.total)
    return s.choose_table(paths.increments.greatest, forced, wasteful)


def _is_constant(codes: BranchCodes) -> bool:
    """Whether there is one path only, which takes no register."""
    return len(codes.initial) == 1 and not any(codes.widths)


def _initialisation(codes: BranchCodes, merged: bool) -> tuple[dict[int, int], dict[int, int]]:
    """Return the dag edges that set the register, each with the start whose initial value it takes,
    and the vertices before these, each with the start of the one way that leads there.
    """
    dag = codes.dag
    initial: dict[int, int] = {}
    passed: dict[int, int] = {}
    work = [(start, start) for start in dag.out_edges[dag.cfg.entry]]
    sources, targets = dag.columns.source, dag.columns.target
    while work:
        edge, start = work.pop()
        source, vertex = sources[edge], targets[edge]
        # An initialisation moves on as EPP figure 8 has it, where an edge that appends is what a
        # chord is there: while nothing is appended, to vertices with one way there.
        appends = source != dag.cfg.entry and codes.widths[source]
        inside = vertex != dag.cfg.exit and codes.words[vertex] == codes.words[targets[start]]
        if merged and inside and not appends and len(dag.in_edges[vertex]) == 1:
            passed[vertex] = start
            work += [(onward, start) for onward in dag.out_edges[vertex]]
        else:
            initial[edge] = start
    return initial, passed


def _counts(
    codes: BranchCodes, initial: Collection[int], merged: bool
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the dag edges that count paths, and the vertices behind them.

    `initial`: The edges that set the register.
    """
    if not merged:
        leave = codes.dag.cfg.exit
        targets = enumerate(codes.dag.columns.target)
        return frozenset([edge for edge, target in targets if target == leave]), frozenset()
    # A vertex with one way out is no predicate: nothing is appended from there on.
    may = [edge not in initial for edge in range(len(codes.dag.columns.source))]
    return s.frontier(codes.dag, may, forwards=False)


def _actions(
    codes: BranchCodes,
    initial: Mapping[int, int],
    final: Collection[int],
    merged: bool,
    counted: Sequence[int],
) -> dict[int, tuple[s.Action, ...]]:
    dag, steps = codes.dag, partial(_steps, codes, initial, final, merged)
    if _is_constant(codes):
        steps = partial(_constant, final)
    source, target, cfg_edge, *_ = dag.columns
    widths, words, outer = codes.widths, codes.words, initial.keys() | final
    actions = {
        edge: steps(step, on_back_edge=False)
        for step, (begin, end, edge) in enumerate(zip(source, target, cfg_edge, strict=True))
        if edge >= 0 and (widths[begin] or step in outer or words[begin] != words[end])
    }
    for removed in dag.removed:
        ends, begins = dag.cfg.edges[removed].source, dag.cfg.edges[removed].target
        actions[removed] = [
            *steps(dag.exit_dummy[ends], on_back_edge=removed in dag.dfs.back_edges),
            *steps(dag.entry_dummy[begins], on_back_edge=False),
        ]
    return s.with_edge_counters(actions, counted)


def _constant(final: Collection[int], step: int, *, on_back_edge: bool) -> list[s.Action]:
    return [s.CountConstantPath(0, on_back_edge)] if step in final else []


def _steps(
    codes: BranchCodes,
    initial: Mapping[int, int],
    final: Collection[int],
    merged: bool,
    step: int,
    *,
    on_back_edge: bool,
) -> list[s.Action]:
    """Return what is done on a dag edge."""
    source, target = codes.dag.columns.source[step], codes.dag.columns.target[step]
    begins, ends = source == codes.dag.cfg.entry, step in final
    several = codes.word_count > 1
    at = codes.words[target if begins else source]
    label, width = (0, 0) if begins else (codes.labels[step], codes.widths[source])
    steps: list[s.Action] = []
    if step in initial:
        value = codes.initial[initial[step]] << width | label
        if ends and not several:
            return [s.CountConstantPath(value, on_back_edge)]
        steps.append(
            StartWords(0, at, value, codes.word_count) if several else s.SetRegister(value)
        )
    elif width and ends and merged and not several:
        return [CountShifted(label, width, on_back_edge)]
    elif width:
        steps.append(_shift_word(at, label, width) if several else _shift_bits(label, width))
    if ends:
        steps.append(CountWords(at + 1, on_back_edge) if several else s.CountPath(0, on_back_edge))
    elif codes.words[target] != at:
        steps.append(StartWords(at + 1, codes.words[target], 1, codes.word_count))
    return steps


# -- `fifo`
#
# `fifo`: windows of the last k branches (Young and Smith's technique, as EPP section 2 has it).
#
# Each activation has a FIFO of its last k branches, in registers. Every branch shifts a record of
# its block and outcome in, and increments the counter of the window that the FIFO then holds, which
# a hash table finds. Windows know no loops: they go on over back edges, and those of fewer than k
# branches begin at ENTRY. So every branch that is executed is the last of one window.


LIMITED = "limited_routines"  # Name of what is lost where k branches do not fit


class FifoPlan(s.Plan, frozen=True, kw_only=True, dict=True):
    """A FIFO of branches for the activations of one routine, and the way back to paths."""

    codes: WindowCodes
    asked: int  # The k that was asked for
    tree: s.SpanningTree  # The edges whose counts follow by the flow law
    cut_edges: tuple[int, ...] = ()
    blocks_of_all_paths = None  # Not known without listing the windows

    @cached_property
    def edge_counters(self) -> tuple[int, ...]:
        """Edges with counters of their own: chords that are no outcomes."""
        return tuple(edge for edge in self.tree.chords if edge not in self.codes.outcomes)

    @property
    def num_paths(self) -> int:
        return self.codes.total

    @cached_property
    def untruncated_paths(self) -> int:
        """Number of windows that there would be in a FIFO of any length."""
        return replace(self.codes, branches=self.asked).total

    def decode(self, path_id: int) -> s.PathRecord:
        return self.codes.record(self._window(path_id))

    def _window(self, path_id: int) -> tuple[int, ...]:
        words = s.key_code(path_id, self.codes.words)
        if path_id < 0 or s.code_key(words) != path_id:
            raise ValueError(f"{self.cfg.name} has no window of branches {path_id}")
        return self.codes.decode(words)

    def numbered_paths(self) -> Iterator[tuple[int, s.PathRecord]]:
        windows = self.codes.windows()
        return ((s.code_key(self.codes.encode(each)), self.codes.record(each)) for each in windows)

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        known = dict.fromkeys(self.codes.outcomes, 0)
        known |= dict(zip(self.edge_counters, counters.events, strict=True))
        # An outcome is the last branch of one window each time.
        for path_id, count in counters.paths.items():
            known[self._window(path_id)[-1]] += count
        return s.Reading(
            edges=s.propagate(self.cfg, self.tree, known, counters.early),
            paths=counters.finished_paths,
            lost={LIMITED: 1} if self.codes.branches < self.asked else {},
        )

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`: records by edge, and the room that they take."""
        records = [self.codes.records.get(edge.id) for edge in self.cfg.edges]
        return {
            "branches": self.codes.branches,
            "records": records,
            "record_bits": self.codes.width,
            "words": self.codes.words,
            **s.describe_tree(self.tree),
        }

    def validate(self) -> None:
        self.codes.validate()
        known = {*self.tree.excluded, *self.codes.outcomes}
        others = replace(self.tree, excluded=frozenset(known))
        others.validate_maximum(self.weights)
        assert self.plan.edge_counters == len(self.edge_counters), "wrong number of edge counters"
        words = self.codes.words
        assert self.plan.registers == words, f"{words} words are not kept in as many registers"
        assert self.plan.key_words == words, f"{words} words are not counted by as many"
        silent = [edge for edge in self.codes.records if not self.plan.actions.get(edge)]
        assert not silent, f"the branches on edges {silent} are not recorded"


def plan_fifo(
    cfg: s.ControlFlowGraph, *, branches: int, weights: Sequence[float] | None = None
) -> FifoPlan:
    """Plan a FIFO of the last `branches` branches; `weights` as for `plan_paths`."""
    edge_weights = s.given_weights(cfg, weights)
    codes = window_codes(cfg, branches)
    tree = _tree(cfg, codes, edge_weights)
    counted = [edge for edge in tree.chords if edge not in codes.outcomes]
    actions = s.with_edge_counters(
        {edge: _recorded(codes, edge) for edge in codes.records}, counted
    )
    table = s.CounterTable.HASH if codes.outcomes else s.CounterTable.NONE
    placement = s.Placement(actions, frozenset(), frozenset(), tuple(counted))
    return FifoPlan(
        cfg=cfg,
        plan=replace(
            s.instrumentation(placement, 0, (table, None), codes.words),
            table_bytes=s.TableLayout(codes.words).size(codes.total),
        ),
        weights=edge_weights,
        codes=codes,
        asked=branches,
        tree=tree,
    )


def _recorded(codes: WindowCodes, edge: int) -> list[s.Action]:
    record, words = codes.records[edge], codes.words
    if edge in codes.starts:
        return [StartWords(0, words - 1, record, words) if words > 1 else s.SetRegister(record)]
    if codes.branches == 1:
        return [s.CountConstantPath(record)]
    return [
        ShiftRecord(record, codes.width, codes.sizes),
        CountWords(words) if words > 1 else s.CountPath(0),
    ]


def _tree(cfg: s.ControlFlowGraph, codes: WindowCodes, weights: Sequence[float]) -> s.SpanningTree:
    """Return a heaviest tree of the edges that are no outcomes, of which windows tell the counts.

    Its other chords need counters: where no branch is executed, and where several starts meet.
    """
    live = s.live_edges(cfg, s.depth_first(cfg))
    dead = frozenset(edge.id for edge in cfg.edges if edge.id not in live)
    ends = [(edge.source, edge.target) for edge in cfg.edges]
    barred = dead.union(codes.outcomes)
    tree = s.maximum_spanning_tree(cfg.vertex_count, ends, weights, (cfg.exit, cfg.entry), barred)
    return replace(tree, excluded=dead)
