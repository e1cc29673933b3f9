"""Graphs as arrays: what goes in comes out, and nothing is made before it is asked for."""

from __future__ import annotations

import pytest

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.graphs.packed import KINDS, PackedGraphs

E = EdgeKind
FIRST = ControlFlowGraph(
    "f", 0x1000, 24,
    (Block(0, 0x1000, 2), Block(1, 0x1008, 3), Block(2, 0x1008, 1, True)),
    (Edge(0, 3, 0, E.ENTRY), Edge(1, 0, 1, E.FALL_THROUGH), Edge(2, 0, 2, E.SLOT),
     Edge(3, 2, 4, E.EXIT), Edge(4, 1, 4, E.EXIT)),
    frozenset({1}),
)  # fmt: skip
SECOND = ControlFlowGraph(
    "g", 0x1020, 8, (Block(0, 0x1020, 2),), (Edge(0, 1, 0, E.ENTRY), Edge(1, 0, 2, E.EXIT))
)


def test_what_goes_in_comes_out() -> None:
    packed = PackedGraphs.of([FIRST, SECOND])
    assert tuple(packed) == (FIRST, SECOND)
    assert packed[-1] == SECOND and packed[1:] == (SECOND,)
    assert len(packed) == 2 and packed.block_count == 4
    assert packed.first_block.tolist() == [0, 3, 4]
    assert packed.first_edge.tolist() == [0, 5, 7]
    assert type(packed[0].blocks[1].start) is int and type(packed[0].edges[1].target) is int
    with pytest.raises(IndexError):
        packed[2]


def test_a_graph_is_made_once() -> None:
    packed = PackedGraphs.of([FIRST, SECOND])
    assert packed[1] is packed[1] is packed[-1]


def test_graphs_that_are_known_are_the_same_objects() -> None:
    known: dict[int, ControlFlowGraph] = {}
    before = PackedGraphs.of([FIRST, SECOND]).reusing(known)
    old = before[0], before[1]
    other = ControlFlowGraph("f", 0x1000, 24, SECOND.blocks, SECOND.edges)
    after = PackedGraphs.of([other, SECOND]).reusing(known)
    assert after[0] == other and after[1] is old[1]


def test_graphs_are_equal_by_what_they_hold() -> None:
    packed = PackedGraphs.of([FIRST, SECOND])
    assert packed == PackedGraphs.of([FIRST, SECOND])
    assert packed != PackedGraphs.of([FIRST])
    assert packed != PackedGraphs.of([SECOND, SECOND])
    assert packed != (FIRST, SECOND)


def test_words_lead_to_ordinary_blocks() -> None:
    index = PackedGraphs.of([FIRST, SECOND]).block_index(lambda each: (each - 0x1000) >> 2, 9)
    assert index.tolist() == [0, -1, 1, -1, -1, -1, -1, -1, 3]
    assert not index.flags.writeable


def test_every_kind_of_edge_has_a_number() -> None:
    assert set(KINDS) == set(EdgeKind)
