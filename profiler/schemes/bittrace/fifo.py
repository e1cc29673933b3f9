"""`fifo`: windows of the last k branches (Young and Smith's technique, as EPP section 2 has it).

Each activation has a FIFO of its last k branches, in registers. Every branch shifts a record of its
block and outcome in, and increments the counter of the window that the FIFO then holds, which a
hash table finds. Windows know no loops: they go on over back edges, and those of fewer than k
branches begin at ENTRY. So every branch that is executed is the last of one window.
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.bittrace.actions import CountWords, ShiftRecord, StartWords
from simprof.profiler.schemes.bittrace.window_codes import WindowCodes, window_codes

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
    """Plan a FIFO of the last `branches` branches; `weights` as for `pp.plan_pp`."""
    edge_weights = s.given_weights(cfg, weights)
    codes = window_codes(cfg, branches)
    tree = _tree(cfg, codes, edge_weights)
    counted = [edge for edge in tree.chords if edge not in codes.outcomes]
    actions = s.with_edge_counters({edge: _actions(codes, edge) for edge in codes.records}, counted)
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


def _actions(codes: WindowCodes, edge: int) -> list[s.Action]:
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
