"""The searches and plans of all graphs of a program, in one call.

The steps are those of `plan_kernel`, with BL94's weights, nothing cut, and EXIT -> ENTRY in the
tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.profiler.graphs.plan_kernel import (
    COUNT,
    DONE,
    EDGES,
    ENTRY,
    EXIT,
    LIMIT,
    OTHERS,
    PATHS,
    REACHED,
    ROOT,
    SIZES,
    VERTICES,
    make_dag,
    number_chords,
    survey,
)
from simprof.simulator.cpu import compiled

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Reals = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]  # of two dimensions
RealRows = npt.NDArray[np.float64]  # of two dimensions


class GraphArrays(NamedTuple):
    """The graphs, as `packed.PackedGraphs` has them."""

    first_block: Longs
    first_edge: Longs
    source: Ints
    target: Ints


class Columns(NamedTuple):
    """What is found, zero before. Vertices of routine r begin at `first_block[r]` + 2 r."""

    # By routine: how many vertices are reached, how many back edges there are, and the most paths
    # from any vertex, the limit where numbers would exceed it: there are none then.
    reached: Longs
    backs: Longs
    most: Longs
    # By routine, and behind the last: where its edges of the acyclic graph begin, its dummies (one
    # more than there are), and what these stand for.
    edges_at: Longs
    dummies_at: Longs
    stands_at: Longs
    # By vertex; `dag_first`, one more for each routine, begins at `first_block[r]` + 3 r.
    preorder: Ints
    postorder: Ints
    dag_first: Ints
    paths: Longs
    potential: Longs
    # By edge
    back: Ints
    proper: Bytes
    weight: Reals
    # By edge of the acyclic graph
    dag_source: Ints
    dag_target: Ints
    dag_edge: Ints
    dag_ordered: Ints
    in_tree: Bytes
    value: Longs
    increment: Longs
    # By dummy, and by removed edge that one stands for
    first: Ints
    stands: Ints


class Space(NamedTuple):
    """Working arrays that suffice for the largest graph."""

    size: Longs  # see `plan_kernel`; LIMIT is given
    guess: Reals  # what weights take for granted: see `plan_kernel`
    by_vertex: Rows  # and one more
    by_edge: Rows
    by_dag_edge: Rows
    tree_edges: Longs  # twice as many as by edge of the acyclic graph
    weights: RealRows  # by edge of the acyclic graph


# How many arrays there are in `Space`.
BY_VERTEX, BY_EDGE, BY_DAG_EDGE, WEIGHTS = 22, 9, 4, 2


@compiled.kernel
def plan_all(graphs: GraphArrays, found: Columns, space: Space) -> int:
    """Search and plan each graph."""
    size, by_vertex, by_edge, by_dag_edge, weights = (
        space.size, space.by_vertex, space.by_edge, space.by_dag_edge, space.weights
    )  # fmt: skip
    edges_at = dummies_at = stands_at = 0
    for routine in range(len(graphs.first_block) - 1):
        n = graphs.first_block[routine + 1] - graphs.first_block[routine] + 2
        begin, end = graphs.first_edge[routine], graphs.first_edge[routine + 1]
        m = end - begin
        most = 3 * m + n
        at = graphs.first_block[routine] + 2 * routine
        for number in range(BY_VERTEX):
            for place in range(n + 1):
                by_vertex[number, place] = 0
        for number in range(BY_EDGE):
            for place in range(m):
                by_edge[number, place] = 0
        for place in range(most):
            by_dag_edge[0, place], weights[0, place] = 0, 0.0
        for number in range(1, SIZES):
            size[number] = 0
        source, target = graphs.source[begin:end], graphs.target[begin:end]
        preorder, order = found.preorder[at : at + n], by_vertex[0]
        kind, weight = by_edge[0], found.weight[begin:end]
        size[VERTICES], size[EDGES], size[ENTRY], size[EXIT] = n, m, n - 2, n - 1
        survey(
            size, space.guess, source, target, by_vertex[1], by_edge[1], by_vertex[2], by_edge[2],
            by_vertex[3], by_vertex[4], by_vertex[5], preorder, found.postorder[at : at + n], order,
            found.back[begin:end], by_vertex[6], by_vertex[7], by_vertex[8], by_vertex[9],
            by_vertex[10], found.proper[begin:end], by_edge[3], by_vertex[11], kind, by_vertex[12],
            by_vertex[13], by_edge[4], by_edge[5], weight,
        )  # fmt: skip
        found.reached[routine], found.backs[routine] = size[REACHED], size[COUNT]
        removed, turns = by_edge[6], by_edge[7]
        gone = others = 0
        for edge in range(m):
            if kind[edge] != 0:
                if source[edge] == target[edge]:
                    turns[others] = edge
                    others += 1
                else:
                    removed[gone] = edge
                    gone += 1
        size[COUNT], size[OTHERS], size[ROOT] = gone, others, 1
        make_dag(
            size, source, target, preorder, removed, turns, by_edge[8], by_vertex[14],
            by_vertex[15], by_vertex[16], by_vertex[17], found.dag_source[edges_at:],
            found.dag_target[edges_at:], found.dag_edge[edges_at:], found.first[dummies_at:],
            found.stands[stands_at:],
        )  # fmt: skip
        size[EDGES] = size[COUNT]
        done = number_chords(
            size, weight, found.dag_source[edges_at:], found.dag_target[edges_at:],
            found.dag_edge[edges_at:], found.first[dummies_at:], found.stands[stands_at:], order,
            found.dag_first[at + routine :], found.dag_ordered[edges_at:], by_dag_edge[1],
            by_dag_edge[2], found.paths[at : at + n], found.value[edges_at:], weights[0],
            by_dag_edge[0], by_dag_edge[3], weights[1], by_vertex[18], found.in_tree[edges_at:],
            by_vertex[19], by_vertex[20], by_vertex[21], space.tree_edges,
            found.potential[at : at + n], found.increment[edges_at:],
        )  # fmt: skip
        found.most[routine] = size[PATHS] if done == DONE else size[LIMIT]
        edges_at += size[EDGES]
        stands_at += found.first[dummies_at + size[OTHERS]]
        dummies_at += size[OTHERS] + 1
        found.edges_at[routine + 1] = edges_at
        found.dummies_at[routine + 1] = dummies_at
        found.stands_at[routine + 1] = stands_at
    return DONE
