"""Control-flow recovery on hand-encoded code: one idiom of SPARC code a test."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.check import validate
from simprof.profiler.recovery.recovery import (
    Discoveries,
    Known,
    ProgramGraphs,
    read_words,
    recover,
)
from simprof.profiler.reports import cfg_formats
from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import (
    Binding,
    LineTable,
    MachineKind,
    Program,
    Range,
    Segment,
    Symbol,
)
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register
from tests.support.assembled import code
from tests.support.explored import Explored

BASE = 0x10000
NOP, RETL, RESTORE = 0x01000000, 0x81C3E008, 0x81E80000
RETURN, SAVE, UNIMP = 0x81CFE008, 0x9DE3BFA0, 0x00000008
MOV_G1_O7 = 0x9E100001
JMP_G1, CALL_G1 = 0x81C04000, 0x9FC04000


def at(index: int) -> int:
    return BASE + 4 * index


def branch(here: int, there: int, condition: int = 9, annul: bool = False) -> int:
    return annul << 29 | condition << 25 | 2 << 22 | (there - here) & 0x3FFFFF


def ba(here: int, there: int, annul: bool = False) -> int:
    return branch(here, there, 8, annul)


def call(here: int, there: int) -> int:
    return 1 << 30 | (there - here) & 0x3FFFFFFF


def mov(value: int, rd: int) -> int:
    return 2 << 30 | rd << 25 | 2 << 19 | 1 << 13 | value & 0x1FFF


def op3(function: int, rs1: int, immediate: int, rd: int, op: int = 2) -> int:
    return op << 30 | rd << 25 | function << 19 | rs1 << 14 | 1 << 13 | immediate & 0x1FFF


def op3r(function: int, rs1: int, rs2: int, rd: int, op: int = 2) -> int:
    return op << 30 | rd << 25 | function << 19 | rs1 << 14 | rs2


def sethi(address: int, rd: int) -> int:
    return rd << 25 | 4 << 22 | address >> 10


def trap(number: int) -> int:
    return 0x91D02000 | number


def program(
    words: Sequence[int],
    routines: Sequence[tuple[str, int, int]] = (("f", 0, -1),),
    machine: MachineKind = MachineKind.SPARCV9,
    entry: int = 0,
    late: Range | None = None,
    extra: Sequence[Symbol] = (),
) -> Program:
    """A program of one segment; routines are (name, first word, words)."""
    data = b"".join(word.to_bytes(4, "big") for word in words)
    symbols = [
        Symbol(name, at(start), 4 * (len(words) if size < 0 else size), Binding.GLOBAL, True)
        for name, start, size in routines
    ]
    segments = [Segment(BASE, data, len(data), True, False, True)]
    if late is not None:
        segments.append(Segment(late.start, b"\0" * (late.end - late.start), 64, True, True, True))
    return Program(
        path=Path("hand.elf"),
        sha256="0" * 64,
        machine=machine,
        entry=at(entry),
        segments=tuple(segments),
        code=(Range(BASE, BASE + len(data)),),
        late_code=() if late is None else (late,),
        symbols=(*symbols, *extra),
        load_bias=0,
        program_headers_address=0,
        program_header_size=56,
        program_header_count=1,
        stack_executable=False,
        lines=LineTable(),
    )


def recovered(source: Program, discoveries: Discoveries = Discoveries()) -> ProgramGraphs:  # noqa: B008
    result = recover(source, discoveries)
    validate(result)
    return result


def shape(graph: ControlFlowGraph) -> tuple[list[str], list[str]]:
    """Blocks as `first+length` (word indices, `s` for slots) and edges as `from>to kind`."""

    def name(vertex: int) -> str:
        if vertex >= graph.entry:
            return "ENTRY" if vertex == graph.entry else "EXIT"
        block = graph.blocks[vertex]
        return f"{(block.start - BASE) // 4}{'s' if block.is_slot else ''}"

    blocks = [f"{name(block.id)}+{block.instructions}" for block in graph.blocks]
    edges = [f"{name(e.source)}>{name(e.target)} {e.kind.value}" for e in graph.edges]
    return blocks, edges


def only(source: Program) -> tuple[list[str], list[str]]:
    (graph,) = recovered(source).routines
    return shape(graph)


def test_conditional_branch_keeps_its_slot() -> None:
    blocks, edges = only(program([branch(0, 4), NOP, RETL, NOP, RETL, NOP]))
    assert blocks == ["0+2", "2+2", "4+2"]
    assert edges == [
        "ENTRY>0 entry",
        "0>2 fall-through",
        "0>4 taken",
        "2>EXIT exit",
        "4>EXIT exit",
    ]


def test_annulled_branch_has_a_slot_block() -> None:
    blocks, edges = only(program([branch(0, 3, annul=True), NOP, NOP, RETL, NOP]))
    assert blocks == ["0+1", "1s+1", "2+1", "3+2"]
    assert edges[1:4] == ["0>2 fall-through", "0>1s slot", "1s>3 taken"]


def test_annulled_branch_over_its_own_slot() -> None:
    blocks, edges = only(program([branch(0, 2, annul=True), NOP, RETL, NOP]))
    assert blocks == ["0+1", "1s+1", "2+2"]
    assert edges[1:4] == ["0>2 fall-through", "0>1s slot", "1s>2 taken"]


def test_branch_to_its_fall_through_is_one_edge() -> None:
    _, edges = only(program([branch(0, 2), NOP, RETL, NOP]))
    assert edges[1:] == ["0>2 taken", "2>EXIT exit"]


@pytest.mark.parametrize(
    ("word", "blocks", "first"),
    [
        (ba(0, 3), ["0+2", "3+2"], "0>3 taken"),
        (ba(0, 3, annul=True), ["0+1", "3+2"], "0>3 taken"),
        (ba(0, 2), ["0+2", "2+3"], "0>2 taken"),
        (branch(0, 3, condition=0), ["0+2", "2+3"], "0>2 fall-through"),
        (branch(0, 3, condition=0, annul=True), ["0+1", "2+3"], "0>2 fall-through"),
        (call(0, 2), ["0+2", "2+3"], "0>2 taken"),
    ],
    ids=["ba", "ba,a", "ba .+8", "bn", "bn,a", "call .+8"],
)
def test_unconditional_transfers(word: int, blocks: list[str], first: str) -> None:
    found, edges = only(program([word, NOP, NOP, RETL, NOP]))
    assert found == blocks
    assert edges[1] == first


def test_call_alias_is_reported() -> None:
    result = recovered(program([call(0, 2), NOP, RETL, NOP]))
    assert result.call_aliases == {at(0)}
    assert result.no_return_calls == frozenset()


def test_slot_that_is_a_leader_is_in_two_blocks() -> None:
    words = [branch(0, 3), NOP, branch(2, 5), NOP, NOP, RETL, NOP]
    blocks, edges = only(program(words))
    assert "2+2" in blocks and "3+1" in blocks
    assert "0>3 taken" in edges and "3>4 fall-through" in edges


def test_call_and_return_point() -> None:
    routines = [("f", 0, 6), ("g", 6, 2)]
    words = [MOV_G1_O7, call(1, 6), NOP, NOP, RETL, NOP, RETL, NOP]
    f, g = recovered(program(words, routines)).routines
    assert shape(f)[1] == ["ENTRY>0 entry", "0>3 call-return", "3>EXIT exit"]
    assert shape(g)[1] == ["ENTRY>6 entry", "6>EXIT exit"]


@pytest.mark.parametrize("machine", [MachineKind.SPARCV8, MachineKind.SPARCV8PLUS])
def test_struct_return_skips_unimp(machine: MachineKind) -> None:
    words = [call(0, 5), NOP, UNIMP, RETL, NOP, 0x81C3E00C, NOP]
    f, _ = recovered(program(words, [("f", 0, 5), ("g", 5, 2)], machine)).routines
    assert "0>3 call-return" in shape(f)[1]


def test_call_that_adjusts_its_return_address() -> None:
    words = [call(0, 6), op3(0, 15, 8, 15), NOP, NOP, RETL, NOP, RETL, NOP]
    f, _ = recovered(program(words, [("f", 0, 6), ("g", 6, 2)])).routines
    assert "0>4 call-return" in shape(f)[1]


@pytest.mark.parametrize(
    ("transfer", "slot"),
    [(ba(1, 4), RESTORE), (ba(1, 4), NOP), (call(1, 4), RESTORE), (call(1, 4), MOV_G1_O7)],
    ids=["ba restore", "ba nop", "call restore", "call mov"],
)
def test_tail_calls_leave(transfer: int, slot: int) -> None:
    words = [NOP, transfer, slot, NOP, RETL, NOP]
    result = recovered(program(words, [("f", 0, 4), ("g", 4, 2)]))
    f, _ = result.routines
    assert shape(f) == (["0+3"], ["ENTRY>0 entry", "0>EXIT exit"])
    assert result.no_return_calls == frozenset()


def test_self_tail_call_is_a_new_activation_but_a_loop_is_a_loop() -> None:
    _, edges = only(program([SAVE, ba(1, 0), RESTORE, NOP]))
    assert edges == ["ENTRY>0 entry", "0>EXIT exit"]
    _, edges = only(program([NOP, ba(1, 0), NOP, NOP]))
    assert edges == ["ENTRY>0 entry", "0>0 taken"]


def test_branch_into_another_routine_is_an_entry_there() -> None:
    words = [branch(0, 4), NOP, RETL, NOP, RETL, NOP]
    f, g = recovered(program(words, [("f", 0, 3), ("g", 3, 3)])).routines
    assert shape(f)[1] == ["ENTRY>0 entry", "0>2 fall-through", "0>EXIT exit", "2>EXIT exit"]
    assert shape(g) == (
        ["3+1", "4+2"],
        ["ENTRY>3 entry", "ENTRY>4 entry", "3>4 fall-through", "4>EXIT exit"],
    )


def test_annulled_branch_out_leaves_from_its_slot() -> None:
    words = [branch(0, 4, annul=True), NOP, RETL, NOP, RETL, NOP]
    f, _ = recovered(program(words, [("f", 0, 4), ("g", 4, 2)])).routines
    assert shape(f)[1][1:4] == ["0>2 fall-through", "0>1s slot", "1s>EXIT exit"]


def test_fall_through_into_the_next_routine() -> None:
    f, g = recovered(program([NOP, NOP, RETL, NOP], [("f", 0, 2), ("g", 2, 2)])).routines
    assert shape(f) == (["0+2"], ["ENTRY>0 entry", "0>EXIT exit"])
    assert shape(g)[0] == ["2+2"]


def test_code_behind_system_calls_is_a_leader() -> None:
    _, edges = only(program([mov(4, 1), trap(0x6D), RETL, NOP]))
    assert edges == ["ENTRY>0 entry", "0>2 fall-through", "2>EXIT exit"]


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (MachineKind.SPARCV9, [mov(188, 1), NOP, trap(0x6D)]),
        (MachineKind.SPARCV8PLUS, [mov(1, 1), NOP, trap(0x10)]),
        (MachineKind.SPARCV9, [NOP, NOP, trap(0x6F)]),
        (MachineKind.SPARCV9, [NOP, NOP, trap(5)]),
    ],
    ids=["exit_group", "exit", "setcontext", "trap"],
)
def test_no_return_is_derived_through_callers(machine: MachineKind, words: list[int]) -> None:
    code = [call(0, 4), NOP, UNIMP, UNIMP, call(4, 8), NOP, RETL, NOP, *words, UNIMP]
    routines = [("f", 0, 4), ("g", 4, 4), ("end", 8, 4)]
    result = recovered(program(code, routines, machine))
    f, g, end = result.routines
    assert result.no_return_calls == {at(0), at(4), at(10)}
    assert shape(f) == (["0+2"], ["ENTRY>0 entry", "0>EXIT exit"])
    assert shape(g) == (["4+2"], ["ENTRY>4 entry", "4>EXIT exit"])
    assert shape(end) == (["8+3"], ["ENTRY>8 entry", "8>EXIT exit"])


def test_system_call_number_that_paths_disagree_on_may_return() -> None:
    words = [branch(0, 3), NOP, mov(1, 1), trap(0x6D), RETL, NOP]
    result = recovered(program(words))
    assert result.no_return_calls == frozenset()
    assert "3>4 fall-through" in shape(result.routines[0])[1]


def test_endless_recursion_and_loops_never_return() -> None:
    words = [call(0, 4), NOP, RETL, NOP, ba(4, 4), NOP]
    result = recovered(program(words, [("f", 0, 4), ("loop", 4, 2)]))
    assert result.no_return_calls == {at(0)}
    words = [call(0, 0), NOP, RETL, NOP]
    assert recovered(program(words)).no_return_calls == {at(0)}


def test_discovered_return_restores_the_code_behind_the_call() -> None:
    words = [call(0, 4), NOP, RETL, NOP, ba(4, 4), NOP]
    source = program(words, [("f", 0, 4), ("loop", 4, 2)])
    result = recovered(source, Discoveries(returning_calls=frozenset({at(0)})))
    assert "0>2 call-return" in shape(result.routines[0])[1]
    assert result.no_return_calls == frozenset()


def test_indirect_calls_return() -> None:
    _, edges = only(program([CALL_G1, NOP, RETL, NOP]))
    assert edges[1] == "0>2 call-return"


def test_unknown_jump_leaves_until_a_run_shows_its_targets() -> None:
    source = program([JMP_G1, NOP, NOP, NOP, RETL, NOP])
    result = recovered(source)
    assert result.unresolved_jumps == (at(0),)
    assert shape(result.routines[0])[1] == ["ENTRY>0 entry", "0>EXIT exit"]
    seen = Discoveries(indirect_targets=frozenset({(at(0), at(4)), (at(0), at(3))}))
    edges = shape(recovered(source, seen).routines[0])[1]
    assert edges[1:3] == ["0>3 switch", "0>4 switch"]
    assert "0>EXIT exit" not in edges


def test_discovered_entry_splits_a_block() -> None:
    source = program([NOP, NOP, NOP, RETL, NOP])
    blocks, edges = shape(recovered(source, Discoveries(entries=frozenset({at(2)}))).routines[0])
    assert blocks == ["0+2", "2+3"]
    assert edges == ["ENTRY>0 entry", "ENTRY>2 entry", "0>2 fall-through", "2>EXIT exit"]


def test_transfer_in_a_delay_slot_is_refused_not_guessed() -> None:
    result = recovered(program([ba(0, 4), ba(1, 5), NOP, NOP, NOP, RETL, NOP]))
    assert [address for address, _ in result.irregular] == [at(0)]
    assert shape(result.routines[0])[1] == ["ENTRY>0 entry", "0>EXIT exit"]


@pytest.mark.parametrize("word", [UNIMP, 0x81F00000, 0x12C04042], ids=["unimp", "done", "cbcond"])
def test_faulting_words_end_blocks(word: int) -> None:
    blocks, edges = only(program([NOP, word, NOP]))
    assert (blocks, edges) == (["0+2"], ["ENTRY>0 entry", "0>EXIT exit"])


def test_branch_to_nowhere_is_named() -> None:
    result = recovered(program([ba(0, 0x1000), NOP]))
    assert result.irregular == ((at(0), "goes where there is no code"),)


def test_thunk_without_size_is_a_routine() -> None:
    words = [call(0, 4), NOP, RETL, NOP, RETL, op3r(0, 15, 23, 23), NOP]
    result = recovered(program(words, [("f", 0, 4), ("thunk", 4, 0)]))
    assert [graph.name for graph in result.routines] == ["f", "thunk"]
    assert result.routines[1].size == 8


def test_stripped_program_is_named_by_address() -> None:
    words = [call(0, 6), NOP, call(2, 8), NOP, ba(4, 4), NOP, RETL, NOP, RETL, NOP]
    result = recovered(program(words, []))
    assert [g.name for g in result.routines] == ["sub_10000", "sub_10018", "sub_10020"]
    assert result.routine_at(at(7)) == 1


def test_stripped_program_s_function_pointers_are_found_by_their_prologue() -> None:
    words = [
        sethi(at(6), 8),
        op3(2, 8, at(6) & 0x3FF, 8),
        CALL_G1,
        NOP,
        RETL,
        NOP,
        SAVE,
        RETURN,
        NOP,
        RETL,
        NOP,
    ]
    result = recovered(program(words, []))
    assert [g.name for g in result.routines] == ["sub_10000", "sub_10018"]


def test_stripped_program_s_branches_do_not_cut_what_their_target_s_routine_reaches() -> None:
    """0 jumps to the prologue at 6, and to 10, which the routine at 6 reaches by itself."""
    words = [branch(0, 10), NOP, call(2, 13), NOP, ba(4, 6), NOP]
    words += [SAVE, branch(7, 10), NOP, NOP, NOP, RETURN, NOP, RETL, NOP]
    result = recovered(program(words, []))
    assert [g.name for g in result.routines] == ["sub_10000", "sub_10018", "sub_10034"]
    blocks, edges = shape(result.routines[1])
    assert blocks == ["6+3", "9+1", "10+3"]
    entries = [edge for edge in edges if edge.startswith("ENTRY")]
    assert entries == ["ENTRY>6 entry", "ENTRY>10 entry"]


def test_stripped_program_s_entries_belong_to_the_routine_that_is_found_around_them() -> None:
    """3 is entered before the call at 7 has shown that a routine begins at 2."""
    words = [RETL, NOP, NOP, NOP, RETL, NOP, SAVE, call(7, 2), NOP, RETURN, NOP]
    seen = Discoveries(entries=frozenset({at(3), at(6)}))
    result = recovered(program(words, []), seen)
    assert [g.name for g in result.routines] == ["sub_10000", "sub_10008", "sub_10018"]
    assert shape(result.routines[1])[0] == ["2+1", "3+3"]


def test_late_stubs_wait_for_their_words() -> None:
    late = Range(BASE + 0x100, BASE + 0x108)
    stub = (late.start - BASE) // 4
    source = program(
        [call(0, stub), NOP, RETL, NOP, RETL, NOP], [("f", 0, 4), ("g", 4, 2)], late=late
    )
    before = recovered(source)
    assert [graph.name for graph in before.routines] == ["f", "g"]
    assert before.irregular == ()
    words = frozenset({(late.start, ba(stub, 4, annul=True)), (late.start + 4, NOP)})
    after = recovered(source, Discoveries(late_words=words))
    assert [graph.name for graph in after.routines] == ["f", "g", f"sub_{late.start:x}"]
    assert shape(after.routines[2])[0] == [f"{stub}+1"]


LD, LDSW, LDX, LDUB = 0, 8, 0xB, 1


def switch_header(form: str, is64: bool, first: int, default: int, place: int) -> list[int]:
    """Compare %o0, load from the table at word `place`, jump; the cases start at word `first`."""
    base = [sethi(at(place), 2), op3(2, 2, at(place) & 0x3FF, 2)]
    scaled, load = op3(0x25, 8, 2, 1), [op3r(LD, 2, 1, 1, op=3)]
    bound = [op3(0x14, 8, 3, 0), branch(1, default, 12), NOP]
    match form:
        case "signed":
            bound = [op3(0x14, 8, 3, 0), branch(1, default, 10), op3(0x14, 8, 0, 0)]
            bound += [branch(3, default, 3), NOP]
        case "annulled":
            bound[1] = branch(1, default, 12, annul=True)
        case "below":
            bound = [op3(0x14, 8, 4, 0), branch(1, default, 13), NOP]
        case "masked":
            bound = [op3(1, 8, 3, 8)]
        case "offset":
            bound = [op3(0, 8, -65, 8), op3(0x14, 8, 3, 0), branch(2, default, 12), NOP]
        case "narrow":  # extended from 16 bits in two ways: to compare, and to scale
            bound = [op3(0, 8, -65, 8), op3(0x25, 8, 16, 1), op3(0x26, 1, 16, 1)]
            bound += [op3(0x14, 1, 3, 0), branch(4, default, 12), NOP]
            scaled = op3(0x25, 8, 0x1000 | 48, 1)
            load.insert(0, op3(0x26, 1, 0x1000 | 46, 1))
        case "element":  # a table of bytes, behind the other one, gives the index
            bound = [sethi(at(place + 8), 3), op3(2, 3, at(place + 8) & 0x3FF, 3)]
            bound += [op3(1, 8, 0x7F, 8), op3r(LDUB, 3, 8, 8, op=3), op3(1, 8, 0xFF, 4)]
            bound += [op3(0x14, 4, 3, 0), branch(6, default, 12), op3(1, 8, 0xFF, 8)]
        case "character":  # the same, compared as it is loaded, less a constant
            bound = [sethi(at(place + 8), 3), op3(2, 3, at(place + 8) & 0x3FF, 3)]
            bound += [op3(1, 8, 0x7F, 8), op3r(LDUB, 3, 8, 8, op=3), op3(0, 8, -97, 8)]
            bound += [op3(0x14, 8, 3, 0), branch(6, default, 12), NOP]
        case "frame":  # -O0: the index lives in a frame slot
            bound = [op3(4, 30, -4, 8, op=3), op3(LD, 30, -4, 8, op=3), op3(0x14, 8, 3, 0)]
            bound += [branch(3, default, 12), NOP, op3(LD, 30, -4, 8, op=3)]
        case "wide":
            scaled, load = op3(0x25, 8, 3, 1), [op3r(LDX, 2, 1, 1, op=3)]
        case "bytes":  # offsets in words from the first case
            load = [op3r(LDUB, 2, 8, 1, op=3), op3(0x25, 1, 2, 1)]
            load += [sethi(at(first), 3), op3(2, 3, at(first) & 0x3FF, 3), op3r(0, 3, 1, 1)]
        case "relative":
            load = [op3r(LDSW if is64 else LD, 2, 1, 1, op=3), op3r(0, 2, 1, 1)]
        case "computed":  # four pieces of two words
            base, load = [sethi(at(first), 2), op3(2, 2, at(first) & 0x3FF, 2)], []
            scaled = op3(0x25, 8, 3, 1)
            load = [op3r(0, 2, 1, 1)]
    return [*bound, *base, scaled, *load, JMP_G1, NOP]


def switch_table(form: str, cases: Sequence[int], place: int) -> list[int]:
    match form:
        case "wide":
            return [word for case in cases for word in (case >> 32, case & 0xFFFFFFFF)]
        case "relative":
            return [(case - at(place)) & 0xFFFFFFFF for case in cases]
        case "bytes":
            offsets = bytes((case - cases[0]) // 4 for case in cases)
            return [int.from_bytes(offsets, "big")]
    return list(cases)


@pytest.mark.parametrize("machine", [MachineKind.SPARCV9, MachineKind.SPARCV8PLUS])
@pytest.mark.parametrize(
    "form",
    ["plain", "signed", "annulled", "below", "masked", "offset", "narrow", "element", "character",
     "frame", "wide", "bytes", "relative", "computed"],
)  # fmt: skip
def test_jump_tables(machine: MachineKind, form: str) -> None:
    is64 = machine is MachineKind.SPARCV9
    first = len(switch_header(form, is64, 0, 0, 0))
    place = first + 10
    cases = [at(first + 2 * number) for number in range(4)]
    # What follows the table looks like more of it: the bound alone ends it.
    more = [at(first + 8)] * 4
    words = [
        *switch_header(form, is64, first, first + 8, place),
        *[RETL, NOP] * 5,
        *switch_table(form, cases, place),
        *more,
        0x60616263,
    ]
    result = recovered(program(words, machine=machine))
    graph = result.routines[0]
    targets = [graph.blocks[e.target].start for e in graph.edges if e.kind is EdgeKind.SWITCH]
    assert targets == cases
    assert result.unresolved_jumps == ()


def test_table_without_a_bound_is_not_guessed() -> None:
    words = switch_header("plain", True, 9, 17, 19)
    words[1] = NOP
    words += [*[RETL, NOP] * 5, *(at(9 + 2 * number) for number in range(4))]
    result = recovered(program(words))
    assert len(result.unresolved_jumps) == 1


def test_reports() -> None:
    words = [branch(0, 3, annul=True), NOP, NOP, RETL, NOP]
    result = recovered(program(words))
    text = cfg_formats.render_text(result, [0])
    assert "f at 0x10000: 20 bytes, 4 blocks, 6 edges" in text
    assert "-> slot 0x10004 (slot)" in text
    document = json.loads(cfg_formats.render_json(result, [0]))
    assert document["format"] == "simprof/cfg"
    (routine,) = document["routines"]
    assert {"source": "slot 0x10004", "target": "0x1000c", "kind": "taken"} in routine["edges"]
    assert routine["edges"][0] == {"source": "ENTRY", "target": "0x10000", "kind": "entry"}
    dot = cfg_formats.render_dot(result, [0])
    assert dot.count(" -> ") == 6 and dot.startswith("digraph")
    root = ElementTree.fromstring(cfg_formats.render_graphml(result, [0]).encode())
    tags = [element.tag.split("}")[1] for element in root.iter()]
    assert tags.count("node") == 6 and tags.count("edge") == 6


def test_code_spread_too_wide_is_refused() -> None:
    source = program([RETL, NOP], late=Range(BASE + (1 << 30), BASE + (1 << 30) + 8))
    with pytest.raises(UnsupportedError, match="closer together"):
        recover(source)


def test_what_is_known_saves_work_and_changes_nothing(fixture_elf: Callable[..., Path]) -> None:
    program = load(fixture_elf("switches", "v9"))
    known = Known()
    first = recover(program, Discoveries(), known)
    main = next(cfg for cfg in first.routines if cfg.name == "main")
    found = Discoveries(entries=frozenset({main.blocks[0].start + 4}))
    again, fresh = recover(program, found, known), recover(program, found)
    assert again.routines == fresh.routines != first.routines
    assert np.array_equal(again.block_at, fresh.block_at)
    assert again.no_return_calls == fresh.no_return_calls
    kept = [one is other for one, other in zip(first.routines, again.routines, strict=True)]
    assert kept.count(False) == 1 and not kept[first.routines.index(main)]


def test_words_are_read_where_they_are_and_as_the_program_reads_them() -> None:
    memory = {0x1000: bytes(range(16)), 0x2000: b"\x01\x00\x00\x00\xff"}
    spans = [Range(0x1000, 0x1010), Range(0x2000, 0x2005)]
    assert read_words(lambda start, size: memory[start][:size], spans) == {
        (0x1000, 0x00010203),
        (0x1004, 0x04050607),
        (0x1008, 0x08090A0B),
        (0x100C, 0x0C0D0E0F),
        (0x2000, 0x01000000),  # and the byte behind it is no word
    }
    assert read_words(lambda start, size: b"", []) == frozenset()


R = Register
LANDING_RETURN = (asm.retl(), asm.mov(0, R.O0))


def test_a_landing_is_an_entry_where_it_is_clear_whose() -> None:
    """Without symbols, what a routine has not reached may be another's."""
    caller = [asm.call("leaf"), asm.nop(), *LANDING_RETURN]
    leaf: list[Instruction | str] = [
        asm.branch("e", "in"),
        asm.nop(),
        *LANDING_RETURN,
        "in",
        *LANDING_RETURN,
    ]
    body = code(*caller, "leaf", *leaf, "far", *LANDING_RETURN)
    explored = Explored({"f": body}, stripped=True, landings=["in", "far"])
    found = explored.run()
    assert explored.places(found.entries(1)) == {"leaf", "in"}
    assert not found.stale
    named = Explored({"f": body}, landings=["in", "far"])
    assert {"in", "far"} <= named.places(named.run().entries(0))
