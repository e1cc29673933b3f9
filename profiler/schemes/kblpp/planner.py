"""`kblpp`: Ball-Larus path profiling across loop iterations (k-BLPP; D'Elia, Demetrescu 2013).

Terms: see `code`.

Steps
-----
1. Paths are numbered, and code is placed, as `pp` does it: `plan_paths`.
2. Each activation begins a stream, and where `pp` counts a path its number is emitted: `_emitting`.
3. A run-time routine keeps the k-slab forest of what was emitted: `code`.
4. The counts of all sequences of up to k paths follow after the run: `SequencePlan.read`.

So k changes neither the paths nor what is done between their ends.
"""

# ruff: noqa: D102 - overriding methods do what `Plan` say

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import asdict, replace

from simprof import schemes as s
from simprof.profiler.schemes.kblpp.code import (
    BUCKETS,
    NODES,
    BeginStream,
    Emit,
    Sequences,
    StartPath,
)


class SequencePlan(s.PathPlan, frozen=True, kw_only=True, dict=True):
    """Acyclic paths that are emitted, and the way back from the forest to sequences of them."""

    length: int  # k

    @property
    def most_iterations(self) -> int:
        return self.length

    @cached_property
    def sequences(self) -> Sequences:
        """What the number of a path counter, or of a sequence, says."""
        return Sequences(self.numbering.total, self.length)

    @cached_property
    def _joins(self) -> Mapping[tuple[int, int], int]:
        """Ends of the edges between two paths of a sequence -> the first of those edges."""
        ends = {edge: self.cfg.edges[edge] for edge in sorted(self.dag.removed, reverse=True)}
        return {(edge.source, edge.target): number for number, edge in ends.items()}

    @cached_property
    def num_paths(self) -> int:
        """Number of sequences of up to k paths."""
        total, target = 0, self.dag.columns.target
        # Sequences behind an edge to EXIT, of as many paths as are left: one of none at first
        behind, otherwise = dict[int, int](), 1
        for _ in range(self.length):
            found = [0] * self.cfg.vertex_count
            for vertex in reversed(self.dag.topological[:-1]):
                for edge in self.dag.out_edges[vertex]:
                    leaves = target[edge] == self.cfg.exit
                    found[vertex] += behind.get(edge, otherwise) if leaves else found[target[edge]]
            total += found[self.cfg.entry]
            behind, otherwise = dict.fromkeys(self.dag.exit_dummy.values(), 0), 0
            for before, after in self._joins:
                behind[self.dag.exit_dummy[before]] += found[after]
        return total

    blocks_of_all_paths = None  # Not known without listing the sequences

    def numbered_paths(self) -> Iterator[tuple[int, s.PathRecord]]:
        """See `Plan`: by ascending length."""
        found = single = list(super().numbered_paths())
        yield from found
        # By the last block of a path: those that may come behind it
        onward = {
            last: [each for each in single if (last, each[1].blocks[0]) in self._joins]
            for last in {last for last, _ in self._joins}
        }
        for _ in range(self.length - 1):
            found = [
                (self.sequences.extended(before + 1, number) - 1, joined)
                for before, record in found
                for number, path in onward.get(record.blocks[-1], ())
                if (joined := self._join(record, path)) is not None
            ]
            yield from found

    def _decode(self, path_id: int) -> s.PathRecord:
        before, number = divmod(path_id, self.numbering.total)
        if before <= 0:
            return super()._decode(path_id)
        # Longer sequences begin with shorter ones, which have been decoded.
        record = self._join(self.decode(before - 1), self.decode(number))
        if record is None:
            raise ValueError(f"{self.cfg.name} has no sequence of paths {path_id}")
        return record

    def _join(self, first: s.PathRecord, then: s.PathRecord) -> s.PathRecord | None:
        """Return two paths as one; None if the second cannot come directly behind the first."""
        edge = self._joins.get((first.blocks[-1], then.blocks[0]))
        leaves = first.end in (s.PathEnd.EXIT, s.PathEnd.DEAD_END)
        if edge is None or leaves or then.start is s.PathStart.ENTRY:
            return None
        edges = (*first.edges, edge, *then.edges)
        return s.PathRecord(first.blocks + then.blocks, edges, first.start, then.end)

    def decode_partial(self, end: s.UnfinishedPath) -> s.PathRecord:
        if end.block in self.plan.counted_region:
            node = self.sequences.numbers(end.counted_ahead(self.cfg) + 1)
            end = replace(end, last=node[-1])
        return super().decode_partial(end)

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        paths = self.sequences.iteration_paths(counters.finished_paths)
        partial: Counter[s.PathRecord] = Counter()
        for end in counters.unfinished:
            partial[self.decode_partial(end)] += end.count
        single = {number: count for number, count in paths.items() if number < self.numbering.total}
        edges = self.edge_counts(single, counters.events, partial.items())
        return s.Reading(edges=edges, paths=paths, partial=partial)

    def validate(self) -> None:
        super().validate()
        for edge in self.cfg.out_edges[self.cfg.entry]:
            first = self.plan.actions.get(edge, (None,))[0]
            assert isinstance(first, BeginStream), f"no stream begins on edge {edge}"


def plan_kblpp(base: s.PathPlan, length: int) -> SequencePlan:
    """Plan counts of all sequences of up to `length` paths of a plan of `pp`.

    Where that has a hash table, the first path of a chunk is found in buckets, else in an array.
    """
    cfg, plan, total = base.cfg, base.plan, base.numbering.total
    hashed = plan.table is s.CounterTable.HASH
    sequences = Sequences(total, length)
    actions = {
        edge: tuple(_emitting(plan.actions[edge], sequences, hashed)) for edge in plan.actions
    }
    for edge in cfg.out_edges[cfg.entry]:
        actions[edge] = (BeginStream(), *actions.get(edge, ()))
    emitting = replace(
        plan,
        actions=dict(sorted(actions.items())),
        uses_register=True,
        table=s.CounterTable.OWN,
        path_counters=BUCKETS if hashed else total,
        addressing=None,
        registers=2 if length == 2 else 4,
        buffers=(s.BufferUse(NODES),),
    )
    return SequencePlan(**{**asdict(base), "plan": emitting, "length": length})


def _emitting(
    actions: Sequence[s.Action], sequences: Sequences, hashed: bool
) -> Iterator[s.Action]:
    """Yield what is done in place of the actions of `pp` on an edge."""
    for action in actions:
        if isinstance(action, s.SetRegister):
            yield StartPath(action.constant)
        elif isinstance(action, s.CountPath):
            yield Emit(action.constant, sequences, hashed)
        elif isinstance(action, s.CountConstantPath):
            yield Emit(action.constant, sequences, hashed, from_register=False)
        else:
            yield action
