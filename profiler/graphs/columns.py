"""Searches and plans of all graphs of a program, found in one call, and read by routine.

Steps -> functions: the call `ProgramColumns.found`; what one routine has `RoutineColumns`, of which
`loops`, `dag`, `numbering` and `paths` make their values.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from simprof.profiler.graphs import plan_kernel
from simprof.profiler.graphs import program_kernel as k
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.plan_calls import LIMIT
from simprof.profiler.request.weights import LOOP_MULTIPLIER
from simprof.simulator.cpu import compiled

_KINDS = {"Longs": np.int64, "Ints": np.int32, "Bytes": np.uint8, "Reals": np.float64}


class ProgramColumns(Struct, frozen=True, dict=True):
    """The searches and plans of some graphs: `program_kernel.Columns`."""

    graphs: k.GraphArrays

    @cached_property
    def found(self) -> k.Columns:
        """What is found, in memoryviews, once somebody asks for it."""
        first_block, first_edge, _, _ = self.graphs
        routines, edges = len(first_block) - 1, int(first_edge[-1])
        vertices = int(first_block[-1]) + 2 * routines
        most = edges + 2 * vertices  # dummies begin or end at a vertex each
        lengths = [routines] * 3 + [routines + 1] * 3
        lengths += [vertices, vertices, vertices + routines, vertices, vertices]
        lengths += [edges] * 3 + [most] * 7 + [2 * vertices + routines, 2 * edges]
        hints = k.Columns.__annotations__.values()
        kinds = [_KINDS[hint.__forward_arg__] for hint in hints]
        made = k.Columns(*map(np.zeros, lengths, kinds))
        function = k.plan_all
        if compiled.native(function) is not None:
            function = partial(compiled.call, function)
        function(self.graphs, made, self._space())
        views: Any = (each.data for each in made)
        return k.Columns(*views)

    def _space(self) -> k.Space:
        vertices = int(np.diff(self.graphs.first_block).max(initial=0)) + 3
        edges = int(np.diff(self.graphs.first_edge).max(initial=0))
        most = 3 * edges + vertices
        size = np.zeros(plan_kernel.SIZES, np.int64)
        size[plan_kernel.LIMIT] = LIMIT
        return k.Space(
            size,
            np.array((LOOP_MULTIPLIER, -1.0, -1.0)),
            np.zeros((k.BY_VERTEX, vertices), np.int64),
            np.zeros((k.BY_EDGE, edges), np.int64),
            np.zeros((k.BY_DAG_EDGE, most), np.int64),
            np.zeros(2 * most, np.int64),
            np.zeros((k.WEIGHTS, most)),
        )


class RoutineColumns(NamedTuple):
    """What is found of one routine."""

    found: k.Columns
    routine: int
    vertices: slice
    edges: slice
    dag_edges: slice

    @property
    def most(self) -> int:
        """The most paths from any vertex; the limit of numbers where they are not all known."""
        return int(self.found.most[self.routine])

    def search(self) -> tuple[Any, Any, Any, Any]:
        """Return preorder, postorder, back edges, and whether their targets dominate sources."""
        reached, backs = self.found.reached[self.routine], self.found.backs[self.routine]
        at, edge = self.vertices.start, self.edges.start
        return (
            self.found.preorder[at : at + reached].tolist(),
            self.found.postorder[at : at + reached].tolist(),
            self.found.back[edge : edge + backs].tolist(),
            self.found.proper[edge : edge + backs].tolist(),
        )

    def dag(self) -> tuple[array[int], ...]:
        """Return the columns of `dag.DagColumns`."""
        dummies = slice(*self.found.dummies_at[self.routine : self.routine + 2])
        stands = slice(*self.found.stands_at[self.routine : self.routine + 2])
        ends = (self.found.dag_source, self.found.dag_target, self.found.dag_edge)
        return (
            *(_array(each[self.dag_edges]) for each in ends),
            _array(self.found.first[dummies]),
            _array(self.found.stands[stands]),
        )

    def numbers(self) -> tuple[Sequence[int], ...]:
        """Return `numbering.PathNumbering.sorted`, the numbers of paths and the values."""
        at, end = self.vertices.start + self.routine, self.vertices.stop + self.routine + 1
        return (
            _array(self.found.dag_first[at:end]),
            _array(self.found.dag_ordered[self.dag_edges]),
            self.found.paths[self.vertices].tolist(),
            self.found.value[self.dag_edges].tolist(),
        )


def _array(view: Any) -> array[int]:
    return array("i", view.tobytes())


def columns_of(cfg: ControlFlowGraph) -> RoutineColumns:
    """Return what is found of a graph, with those of its program or by itself."""
    place = cfg.__dict__.get("place")
    if place is None:
        blocks, edges = (np.array([0, len(each)], np.int64) for each in (cfg.blocks, cfg.edges))
        source, target = (np.array(each, np.int32) for each in cfg.ends)
        place = cfg.__dict__["place"] = (
            ProgramColumns(k.GraphArrays(blocks, edges, source, target)),
            0,
        )
    program, routine = place
    graphs, found = program.graphs, program.found
    first, last = graphs.first_block[routine : routine + 2].tolist()
    return RoutineColumns(
        found,
        routine,
        slice(first + 2 * routine, last + 2 * routine + 2),
        slice(*graphs.first_edge[routine : routine + 2].tolist()),
        slice(*found.edges_at[routine : routine + 2]),
    )


# -- Short arrays
#
# Numbers as arrays of the shortest kind: a tuple of them takes four to sixteen times as much.


def compact(values: Sequence[int]) -> array[int] | tuple[int, ...]:
    """Return numbers as an array of the shortest kind that holds them, or else as a tuple."""
    for kind in "hiq":
        try:
            return array(kind, values)
        except OverflowError:
            continue
    return tuple(values)
