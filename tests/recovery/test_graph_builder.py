"""From what exploration found to graphs: blocks, the order of edges, what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.recovery.exploration import Exploration
from simprof.profiler.recovery.graph_builder import build_graphs
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register
from tests.support.assembled import BASE, code
from tests.support.explored import Explored, Resolver

R = Register
RETURN = (asm.retl(), asm.nop())


def first_graph(exploration: Exploration) -> ControlFlowGraph:
    return build_graphs(exploration)[0][0]


def built(
    routines: Mapping[str, Sequence[Item]],
    resolve: Resolver = lambda _: {},
    *,
    entries: Sequence[str] = (),
) -> tuple[list[str], list[str]]:
    """The first routine's blocks as "place+length", and its edges as "from>to kind"."""
    explored = Explored(routines, entries=entries)
    graph = first_graph(explored.run(resolve))
    names = [explored.name(block.start) + ("s" if block.is_slot else "") for block in graph.blocks]
    names += ["ENTRY", "EXIT"]
    blocks = [f"{names[block.id]}:{block.instructions}" for block in graph.blocks]
    return blocks, [f"{names[e.source]}>{names[e.target]} {e.kind.value}" for e in graph.edges]


def test_edges_come_in_the_order_in_which_a_search_visits_them() -> None:
    """By block: fall-through, taken, call-return, switch targets by address, exit."""
    body = code(asm.branch("e", "far"), asm.nop(), "near", asm.call("f"), asm.nop(), "far", *RETURN)
    blocks, edges = built({"f": body})
    assert blocks == ["f:2", "near:2", "far:2"]
    assert edges == [
        "ENTRY>f entry", "f>near fall-through", "f>far taken", "near>far call-return",
        "far>EXIT exit",
    ]  # fmt: skip


def test_a_slot_block_stands_behind_the_ordinary_block_of_its_address() -> None:
    """The loop comes back to the annulled slot: one address, two blocks."""
    body = code(
        asm.nop(), asm.branch("e", "out", True), "slot", asm.mov(1, R.O0),
        "next", asm.branch("a", "slot"), asm.nop(), "out", *RETURN,
    )  # fmt: skip
    blocks, edges = built({"f": body})
    assert blocks == ["f:2", "slot:1", "slots:1", "next:2", "out:2"]
    assert edges == [
        "ENTRY>f entry", "f>next fall-through", "f>slots slot", "slots>out taken",
        "slot>next fall-through", "next>slot taken", "out>EXIT exit",
    ]  # fmt: skip


def test_the_start_comes_first_among_the_entries() -> None:
    body = code(asm.nop(), "first", asm.nop(), "later", asm.nop(), *RETURN)
    _, edges = built({"f": body}, entries=["later", "first"])
    assert edges[:3] == ["ENTRY>f entry", "ENTRY>first entry", "ENTRY>later entry"]


def test_blocks_from_which_the_code_names_no_routine_are_marked() -> None:
    body = code(
        asm.branch("e", "out"), asm.nop(), "call", asm.call("f"), asm.nop(),
        "indirect", asm.jmpl(R.G1, 0, R.O7), asm.nop(), "out", *RETURN,
    )  # fmt: skip
    explored = Explored({"f": body})
    graph = first_graph(explored.run())
    starts = {explored.name(graph.blocks[block].start) for block in graph.indirect}
    assert starts == {"indirect"}


def test_sizes_are_the_symbols_or_what_was_reached() -> None:
    body = code(asm.nop(), *RETURN, asm.nop(), asm.nop())
    with_symbol, stripped = Explored({"f": body}), Explored({"f": body}, stripped=True)
    assert first_graph(with_symbol.run()).size == 20
    assert first_graph(stripped.run()).size == 12


def test_words_lead_to_the_blocks_that_start_there() -> None:
    """The slot block has no word of its own: the ordinary block of its address has it."""
    body = code(
        asm.nop(), asm.branch("e", "out", True), "slot", asm.mov(1, R.O0),
        "next", asm.branch("a", "slot"), asm.nop(), "out", *RETURN,
    )  # fmt: skip
    graphs, block_at = build_graphs(Explored({"f": body, "g": code(*RETURN)}).run())
    assert block_at.tolist() == [0, -1, 1, 3, -1, 4, -1, 5, -1]
    assert graphs.first_block.tolist() == [0, 5, 6]
    assert graphs.first_edge.tolist() == [0, 7, 9]


@pytest.mark.parametrize(
    "last",
    [asm.retl(), asm.branch("e", "f"), asm.branch("e", "f", annul=True), asm.call("f"),
     asm.branch("a", "f", annul=True)],
    ids=lambda last: last.text,
)  # fmt: skip
def test_a_block_ends_with_the_code_where_its_delay_slot_lies_outside(last: Instruction) -> None:
    """The transfer is the last word there is: nothing behind it belongs to a block."""
    explored = Explored({"f": code(asm.nop(), last)})
    exploration = explored.run()
    graph = first_graph(exploration)
    assert [(block.start, block.instructions) for block in graph.blocks] == [(BASE, 2)]
    assert all(block.end <= BASE + 8 for block in graph.blocks)
