"""`recovery.check.validate`: each rule fires on a graph that breaks it and no rule before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.recovery.check import RecoveryError, validate
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs, recover
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register, assign_labels
from tests.support.assembled import BASE, code, program_of

R = Register
E = EdgeKind

ROUTINES: dict[str, Sequence[Item]] = {
    "main": code(
        asm.cmp(R.O0, 0), asm.branch("e", "other"), asm.nop(),
        asm.nop(), "other", asm.branch("ne", "back", annul=True), "slot", asm.mov(1, R.O1),
        asm.call("leaf"), asm.nop(), "back", asm.jmpl(R.G1, 0, R.G0), asm.nop(),
        "one", asm.branch("a", "two"), asm.nop(), "two", asm.nop(), asm.retl(), asm.nop(),
    ),
    "falls": code(asm.nop(), asm.nop()),
    "leaf": code(asm.nop(), asm.retl(), asm.nop()),
}  # fmt: skip
LABELS = assign_labels(
    [item for name, body in ROUTINES.items() for item in (Label(name), *body)], BASE
)
SWITCH = frozenset((LABELS["back"], LABELS[target]) for target in ("one", "two"))
ENTERED = frozenset({LABELS["falls"], LABELS["back"]})  # the latter by longjmp, behind a call

Fault = Callable[[ControlFlowGraph], ControlFlowGraph]


def program() -> ProgramGraphs:
    """`main` with every kind of edge; `falls`, which runs on into `leaf`."""
    return recover(program_of(ROUTINES), Discoveries(indirect_targets=SWITCH, entries=ENTERED))


RECOVERED = program()
MAIN = RECOVERED.routines[0]


def block(name: str, *, is_slot: bool = False) -> int:
    """The block of `main` that starts at a label."""
    return next(b.id for b in MAIN.blocks if (b.start, b.is_slot) == (LABELS[name], is_slot))


def of_kind(kind: EdgeKind, number: int = 0) -> Edge:
    return [edge for edge in MAIN.edges if edge.kind is kind][number]


def with_edges(graph: ControlFlowGraph, edges: list[Edge]) -> ControlFlowGraph:
    """The graph with other edges, numbered anew."""
    return replace(graph, edges=tuple(e._replace(id=k) for k, e in enumerate(edges)))


def edge_with(which: EdgeKind, number: int = 0, **change: Any) -> Fault:
    """Change an edge of `main`."""
    place = of_kind(which, number).id

    def fault(graph: ControlFlowGraph) -> ControlFlowGraph:
        edges = list(graph.edges)
        edges[place] = edges[place]._replace(**change)
        return replace(graph, edges=tuple(edges))

    return fault


def edge_more(edge: Edge) -> Fault:
    return lambda graph: with_edges(graph, [*graph.edges, edge])


def edges_less(gone: Callable[[Edge], bool]) -> Fault:
    return lambda graph: with_edges(graph, [edge for edge in graph.edges if not gone(edge)])


def block_with(place: int, **change: Any) -> Fault:
    def fault(graph: ControlFlowGraph) -> ControlFlowGraph:
        blocks: list[Block] = list(graph.blocks)
        blocks[place] = blocks[place]._replace(**change)
        return replace(graph, blocks=tuple(blocks))

    return fault


def swapped_blocks(graph: ControlFlowGraph) -> ControlFlowGraph:
    first, second, *rest = graph.blocks
    return replace(graph, blocks=(second, first, *rest))


def swapped_switch(graph: ControlFlowGraph) -> ControlFlowGraph:
    one, two = of_kind(E.SWITCH), of_kind(E.SWITCH, 1)
    edges = list(graph.edges)
    edges[one.id] = one._replace(target=two.target)
    edges[two.id] = two._replace(target=one.target)
    return replace(graph, edges=tuple(edges))


def late_entry(graph: ControlFlowGraph) -> ControlFlowGraph:
    """The first edge enters another block; the routine's start is entered after that."""
    entry = of_kind(E.ENTRY)
    return with_edges(graph, [entry._replace(target=block("other")), *graph.edges])


SLOT = block("slot", is_slot=True)
ONE, BACK, CALL = block("one"), block("back"), of_kind(E.CALL_RETURN).source
EXIT, ENTRY = MAIN.exit, MAIN.entry

FAULTS: dict[str, tuple[Fault, str]] = {
    "order of blocks": (swapped_blocks, "blocks out of order"),
    "block's id": (block_with(1, id=7), "bad ids"),
    "edge's id": (edge_with(E.TAKEN, id=0), "edge out of range"),
    "edge's target": (edge_with(E.TAKEN, target=EXIT + 1), "edge out of range"),
    "edge's source": (edge_with(E.TAKEN, source=-1), "edge out of range"),
    "entry edge": (edge_with(E.TAKEN, kind=E.ENTRY), "entry edge of a block"),
    "edge of ENTRY": (edge_more(Edge(0, ENTRY, ONE, E.TAKEN)), "entry edge of a block"),
    "exit edge": (edge_with(E.TAKEN, kind=E.EXIT), "exit edge between blocks"),
    "edge to EXIT": (edge_more(Edge(0, BACK, EXIT, E.TAKEN)), "exit edge between blocks"),
    "edge to ENTRY": (edge_with(E.TAKEN, target=ENTRY), "graph: edge"),
    "edge out of EXIT": (edge_more(Edge(0, EXIT, ONE, E.TAKEN)), "graph: edge"),
    "entry": (late_entry, "routine without its own entry"),
    "reach": (edges_less(lambda e: e.target == ONE), "unreachable block"),
    "empty block": (block_with(ONE, instructions=0), "block outside the code"),
    "transfer": (block_with(0, instructions=4), "control transfer inside a block"),
    "slot block": (block_with(SLOT, instructions=2), "long slot block"),
    "successor": (edges_less(lambda e: e.source == ONE), "block without successor"),
    "kinds": (edge_more(of_kind(E.FALL_THROUGH)), "two edges of one kind"),
    "slot's edge": (
        edge_with(E.TAKEN, [e.source for e in MAIN.edges if e.kind is E.TAKEN].index(SLOT),
                  kind=E.FALL_THROUGH),
        "slot block with wrong edges",
    ),
    "end": (edge_with(E.CALL_RETURN, kind=E.FALL_THROUGH), "edges .* at a block's end"),
    "switch": (swapped_switch, "switch targets out of order"),
    "taken": (edge_with(E.TAKEN, target=ONE), "taken edge not to its target"),
    "fall-through": (edge_with(E.FALL_THROUGH, 1, target=CALL), "fall-through elsewhere"),
}  # fmt: skip


def test_what_is_recovered_is_valid() -> None:
    validate(RECOVERED)
    assert {edge.kind for edge in MAIN.edges} == set(E) - {E.EARLY}
    assert len([edge for edge in MAIN.edges if edge.kind is E.SWITCH]) == 2


@pytest.mark.parametrize("name", FAULTS)
def test_each_rule_about_a_routine(name: str) -> None:
    fault, message = FAULTS[name]
    routines = (fault(MAIN), *RECOVERED.routines[1:])
    with pytest.raises(RecoveryError, match=f"^main: .*{message}"):
        validate(replace(RECOVERED, routines=routines))


def test_an_annulled_branch_has_no_taken_edge() -> None:
    """Its taken side leaves from the slot block; an edge past that is refused."""
    slot_edge = of_kind(E.SLOT)
    past = edge_more(Edge(0, slot_edge.source, BACK, E.TAKEN))
    routines = (past(MAIN), *RECOVERED.routines[1:])
    with pytest.raises(RecoveryError, match=r"edges .* at a block's end"):
        validate(replace(RECOVERED, routines=routines))


def test_nothing_comes_back_from_a_call_that_does_not_return() -> None:
    call = MAIN.blocks[CALL].end - 8
    with pytest.raises(RecoveryError, match="edge after a call that does not return"):
        validate(replace(RECOVERED, no_return_calls=frozenset({call})))


def test_a_block_of_two_routines() -> None:
    """`falls` ends where `leaf` starts; here its block has the first word of `leaf` as well."""
    main, falls, leaf = RECOVERED.routines
    longer = falls.blocks[0]._replace(instructions=3)
    routines = (main, replace(falls, blocks=(longer,)), leaf)
    with pytest.raises(RecoveryError, match=f"blocks overlap at {LABELS['leaf']:#x}"):
        validate(replace(RECOVERED, routines=routines))


def test_a_delay_slot_may_be_in_two_blocks() -> None:
    """It is the word that overlaps in valid graphs: where the slot is a branch target as well."""
    shared = code(
        asm.cmp(R.O0, 0), asm.branch("e", "in"), asm.nop(), asm.branch("ne", "out"),
        "in", asm.mov(1, R.O0), "out", asm.retl(), asm.nop(),
    )  # fmt: skip
    validate(recover(program_of({"f": shared})))


def test_blocks_of_another_routine() -> None:
    """The first block of `falls` is taken for one of `main`."""
    first = RECOVERED.first_block.copy()
    first[1] += 1
    with pytest.raises(RecoveryError, match=r"^falls: .*wrong routine|^main: .*wrong routine"):
        validate(replace(RECOVERED, first_block=first))


def block_at(**blocks: int) -> ProgramGraphs:
    """The program with other entries of its index, by label."""
    index = RECOVERED.block_at.copy()
    for name, number in blocks.items():
        index[(LABELS[name] - BASE) // 4] = number
    return replace(RECOVERED, block_at=index)


def test_a_block_that_its_address_does_not_lead_to() -> None:
    with pytest.raises(RecoveryError, match=f"lost at {LABELS['one']:#x}"):
        validate(block_at(one=-1))


def test_an_index_that_knows_blocks_of_another_program() -> None:
    with pytest.raises(RecoveryError, match="block index of another program"):
        validate(block_at(slot=3))


def test_routines_stand_by_address() -> None:
    """`leaf` and `falls`, of one block each, have changed places, and the index says so too."""
    main, falls, leaf = RECOVERED.routines
    count = len(main.blocks)
    wrong = replace(block_at(leaf=count, falls=count + 1), routines=(main, leaf, falls))
    with pytest.raises(RecoveryError, match="routines out of order"):
        validate(wrong)


def test_the_index_has_one_entry_a_word() -> None:
    assert len(RECOVERED.block_at) == len(RECOVERED.code.words)
    assert np.count_nonzero(RECOVERED.block_at >= 0) == sum(
        not each.is_slot for graph in RECOVERED.routines for each in graph.blocks
    )
