"""How a vertex is named in text and in JSON."""

import pytest

from simprof.profiler.graphs.cfg import (
    ENTRY,
    EXIT,
    Block,
    ControlFlowGraph,
    Edge,
    EdgeKind,
    VertexName,
)
from simprof.profiler.graphs.flow import FlowError, check
from tests.support.figures import named


def with_slot_block() -> ControlFlowGraph:
    """Return a block at 0x1000 and the slot block of its branch, at 0x1004."""
    blocks = (Block(0, 0x1000, 2), Block(1, 0x1004, 1, is_slot=True))
    ends = [(2, 0, EdgeKind.ENTRY), (0, 1, EdgeKind.SLOT), (1, 3, EdgeKind.EXIT)]
    edges = tuple(Edge(number, *rest) for number, rest in enumerate(ends))
    return ControlFlowGraph("f", 0x1000, 12, blocks, edges)


def test_names_in_text() -> None:
    cfg = with_slot_block()
    assert [str(cfg.name_of(vertex)) for vertex in range(4)] == [
        "0x1000",
        "slot 0x1004",
        "ENTRY",
        "EXIT",
    ]


def test_names_are_values() -> None:
    cfg = with_slot_block()
    assert cfg.name_of(cfg.entry) == ENTRY and cfg.name_of(cfg.exit) == EXIT
    assert cfg.name_of(1) == VertexName(0x1004, is_slot=True) != VertexName(0x1004)


def test_blocks_of_graph_files_go_by_their_labels() -> None:
    cfg = named("A>B", "A", "B")
    assert [str(cfg.name_of(block.id)) for block in cfg.blocks] == ["A", "B"]


def test_messages_tell_a_slot_block_from_the_block_at_its_address() -> None:
    with pytest.raises(FlowError, match=r"^f: edge 0x1000 -> slot 0x1004 has the impossible"):
        check(with_slot_block(), [1, -1, 1])
