"""The walker, instruction by instruction: which steps lie between two instructions.

Each test lists the addresses that execute, by label, and the steps that the walk takes, edges by
name. Nothing runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from simprof.profiler.engine.walk import (
    BEGINNING,
    UNKNOWN,
    Cross,
    GraphIndex,
    Land,
    MissingEntry,
    MissingTarget,
    Pop,
    Push,
    Step,
    WalkContext,
    Walker,
)
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.assembled import code
from tests.support.event_player import IndexedGraphs

R = Register
RETURN = (asm.retl(), asm.nop())


class Walk:
    """Walks addresses one by one and puts the steps into words."""

    def __init__(self, graphs: IndexedGraphs) -> None:
        self.graphs = graphs
        self.walker = Walker(graphs.index)
        self.context = BEGINNING

    def begin(self, place: str) -> list[str]:
        """Execute the first instruction of the program."""
        steps, self.context = self.walker.begin(self.graphs.address(place))
        return self.words(steps)

    def over(self, *places: str) -> list[str]:
        """Execute instructions; return all steps."""
        words: list[str] = []
        for place in places:
            steps, self.context = self.walker.step(self.context, self.graphs.address(place))
            words += self.words(steps)
        return words

    def words(self, steps: Sequence[Step]) -> list[str]:
        """Steps as text."""
        return [self._word(step) for step in steps]

    def _word(self, step: Step) -> str:
        graphs = self.graphs
        match step:
            case Cross(edge):
                return graphs.edge_names()[edge]
            case Push(address):
                ended = " for good" if address & 1 else ""
                return f"push {graphs.name(address & ~1)}{ended}"
            case Pop():
                return "pop"
            case Land(address, _, returned):
                return f"land {graphs.name(address)}{' by return' if returned else ''}"
            case MissingEntry(address, behind):
                return f"no entry {graphs.name(address)}{' behind' if behind else ''}"
            case MissingTarget(jump, target):
                return f"no target {graphs.name(jump)} to {graphs.name(target)}"
            case _:
                return str(step)


def walk(
    routines: Mapping[str, Sequence[Item]],
    *,
    entries: Sequence[str] = (),
    targets: Sequence[tuple[str, str]] = (),
) -> Walk:
    return Walk(IndexedGraphs(routines, entries=entries, targets=targets))


BRANCH = code(asm.branch("e", "there"), asm.nop(), "here", asm.nop(), *RETURN, "there", *RETURN)


def test_a_branch_is_decided_by_what_follows_its_slot() -> None:
    taken, fallen = walk({"main": BRANCH}), walk({"main": BRANCH})
    assert taken.begin("main") == fallen.begin("main") == ["ENTRY>main"]
    assert taken.over("main+1") == fallen.over("main+1") == []
    assert taken.over("there") == ["main>there"]
    assert fallen.over("here") == ["main>here"]


def test_the_context_says_which_transfer_is_open_and_which_block_it_ends() -> None:
    steps = walk({"main": BRANCH})
    steps.begin("main")
    main, here = steps.graphs.block("main"), steps.graphs.block("here")
    address = steps.graphs.address
    assert steps.context == WalkContext(address("main"), False, main, address("main"))
    steps.over("main+1")
    assert steps.context == WalkContext(address("main"), True, main, address("main+1"))
    steps.over("here")
    assert steps.context == WalkContext(-1, False, here, address("here"))


def annulled(condition: str) -> Sequence[Item]:
    return code(
        asm.branch(condition, "there", True), asm.mov(1, R.O0), "here", *RETURN, "there", *RETURN
    )


def test_an_annulled_slot_is_a_block_of_the_taken_side() -> None:
    steps = walk({"main": annulled("e")})
    steps.begin("main")
    assert steps.over("main+1", "there") == ["main>main+1s", "main+1s>there"]
    steps = walk({"main": annulled("e")})
    steps.begin("main")
    assert steps.over("here") == ["main>here"]


def test_branch_always_that_annuls_goes_without_its_slot() -> None:
    steps = walk({"main": annulled("a")})
    steps.begin("main")
    assert steps.over("there") == ["main>there"]


def test_branch_never_that_annuls_skips_its_slot() -> None:
    steps = walk({"main": annulled("n")})
    steps.begin("main")
    assert steps.over("here") == ["main>here"]


CALLER: dict[str, Sequence[Item]] = {
    "main": code(asm.call("f"), asm.nop(), "back", *RETURN),
    "f": code(asm.nop(), *RETURN),
}


def test_a_call_pushes_where_it_returns_to_and_a_return_pops() -> None:
    steps = walk(CALLER)
    steps.begin("main")
    assert steps.over("main+1", "f") == ["push back", "ENTRY>f"]
    assert steps.over("f+1", "f+2", "back") == ["f>EXIT", "pop", "main>back"]


def test_a_return_to_where_no_call_returns_is_a_landing() -> None:
    steps = walk(CALLER)
    steps.begin("main")
    steps.over("main+1", "f", "f+1", "f+2")
    assert steps.over("f") == ["f>EXIT", "land f by return"]


def test_a_call_that_never_returns_ends_its_callers_path() -> None:
    """`f` only loops: behind the call nothing is reachable, and the frame is marked so."""
    routines = {
        "main": code(asm.call("f"), asm.nop(), "never", *RETURN),
        "f": code(asm.branch("a", "f"), asm.nop()),
    }
    steps = walk(routines)
    steps.begin("main")
    assert steps.over("main+1", "f") == ["main>EXIT", "push never for good", "ENTRY>f"]


def test_reading_the_program_counter_is_no_call() -> None:
    steps = walk({"main": code(asm.call("next"), asm.nop(), "next", *RETURN)})
    steps.begin("main")
    assert steps.over("main+1", "next") == ["main>next"]


def test_a_tail_call_leaves_one_routine_and_enters_another() -> None:
    routines = {"main": code(asm.branch("a", "f"), asm.nop()), "f": code(*RETURN)}
    steps = walk(routines)
    steps.begin("main")
    assert steps.over("main+1", "f") == ["main>EXIT", "ENTRY>f"]


def test_a_leader_in_straight_code_is_crossed_without_a_transfer() -> None:
    loop = code(asm.nop(), "loop", asm.branch("e", "loop"), asm.nop(), *RETURN)
    steps = walk({"main": loop})
    steps.begin("main")
    assert steps.over("loop") == ["main>loop"]
    assert steps.over("loop+1", "loop") == ["loop>loop"]


def test_control_that_jumps_without_a_transfer_lands() -> None:
    steps = walk({"main": BRANCH})
    steps.begin("there")
    assert steps.over("here") == ["land here"]


JUMP: dict[str, Sequence[Item]] = {
    "main": code(asm.jmpl(R.G1, 0, R.G0), asm.nop(), "one", *RETURN, "two", *RETURN),
    "f": code(*RETURN),
}


def test_an_indirect_jump_crosses_what_is_known_and_reports_the_rest() -> None:
    steps = walk(JUMP, targets=[("main", "one")], entries=["two"])
    steps.begin("main")
    assert steps.over("main+1", "one") == ["main>one"]
    steps = walk(JUMP, targets=[("main", "one")])
    steps.begin("main")
    assert steps.over("main+1", "two") == ["no target main to two"]
    assert steps.context.block == UNKNOWN


def test_an_indirect_jump_to_another_routine_is_a_tail_call() -> None:
    steps = walk(JUMP)
    steps.begin("main")
    assert steps.over("main+1", "f") == ["main>EXIT", "ENTRY>f"]


def test_code_that_the_graphs_lack_is_walked_until_it_is_left() -> None:
    """Behind the unknown "two", the call of `f` is pushed all the same."""
    routines = {
        "main": code(asm.jmpl(R.G1, 0, R.G0), asm.nop(), "one", *RETURN,
                     "two", asm.call("f"), asm.nop(), *RETURN),
        "f": code(*RETURN),
    }  # fmt: skip
    steps = walk(routines, targets=[("main", "one")])
    steps.begin("main")
    steps.over("main+1", "two")
    assert steps.over("two+1", "f") == ["push two+2", "ENTRY>f"]


def test_a_program_may_begin_where_no_entry_is() -> None:
    steps = walk({"main": BRANCH})
    assert steps.begin("here") == ["no entry here"]


def test_a_transfer_in_a_delay_slot_is_refused() -> None:
    couple = code(asm.branch("e", "there"), asm.branch("a", "there"), asm.nop(), "there", *RETURN)
    steps = walk({"main": couple})
    steps.begin("main")
    with pytest.raises(UnsupportedError, match="control transfer in the delay slot"):
        steps.over("main+1")


def test_landing_says_nothing_of_how_control_came() -> None:
    graphs = IndexedGraphs({"main": BRANCH})
    address = graphs.address
    found = Walker(graphs.index).land(address("there"))
    assert found == WalkContext(address("there"), False, graphs.block("there"), address("there"))


# -- the index


def test_numbers_run_through_all_routines() -> None:
    """`main` has 2 blocks and 3 edges, `f` one block and 2 edges."""
    graphs = IndexedGraphs(CALLER)
    index = graphs.index
    assert index.first_edge.tolist() == [0, 3, 5]
    assert (index.block_count, index.edge_count) == (3, 5)
    assert [index.routine(block) for block in range(3)] == [0, 0, 1]
    assert [index.starts_routine(block) for block in range(3)] == [True, False, True]
    assert index.block_end(graphs.block("f")) == graphs.address("f+3")
    assert index.block_at(graphs.address("f+1")) == UNKNOWN
    assert index.block_at(0) == UNKNOWN


def test_the_first_edge_is_an_edge() -> None:
    """0 is a number of an edge, and of a block."""
    graphs = IndexedGraphs(CALLER)
    index, first = graphs.index, graphs.block("main")
    assert index.entry_edge[first] == graphs.edge("ENTRY>main") == first == 0
    assert index.exit_edge[UNKNOWN] == index.slot_edge[first] == UNKNOWN


def test_what_waits_for_a_return_is_found_by_its_address() -> None:
    graphs = IndexedGraphs(CALLER)
    index, back = graphs.index, graphs.address("back")
    assert index.call_block(back) == graphs.block("main")
    assert index.call_block(back + 4) == graphs.block("main")  # behind an `unimp`
    assert index.call_block(back + 8) == UNKNOWN
    assert index.return_edge_to(back) == (graphs.block("main"), graphs.edge("main>back"))
    assert index.return_edge_to(graphs.address("f")) is None


def test_of_parallel_edges_the_kind_decides() -> None:
    """`be,a .+8`: the branch falls through to where its slot block leads."""
    graphs = IndexedGraphs({"main": annulled("e")})
    index: GraphIndex = graphs.index
    main, here = graphs.block("main"), graphs.block("here")
    expected = graphs.edge("main>here")
    assert index.find(main, here, EdgeKind.FALL_THROUGH) == expected
    assert index.find(main, here, EdgeKind.SWITCH) == expected  # the only one there is
    assert index.find(here, main, EdgeKind.TAKEN) is None


def test_entering_crosses_the_entry_edge_if_there_is_one() -> None:
    graphs = IndexedGraphs(CALLER)
    crossed: list[Step] = []
    assert graphs.index.enter(graphs.address("f"), crossed.extend)
    assert crossed == [Cross(graphs.edge("ENTRY>f"))]
    assert not graphs.index.enter(graphs.address("back"), crossed.extend)
    assert len(crossed) == 1


def test_a_branch_to_its_own_annulled_slot_goes_there_and_does_not_execute_it_as_a_slot() -> None:
    """`ba,a .+4`: the next instruction is the target, the first of a block of its own."""
    routine = code(asm.branch("a", "next", True), "next", asm.branch("e", "next"), asm.nop(),
                   *RETURN)  # fmt: skip
    steps = walk({"main": routine})
    steps.begin("main")
    assert steps.over("next") == ["main>next"]
    assert steps.over("next+1", "next") == ["next>next"]


def test_a_jump_to_behind_a_call_in_another_routine_is_a_return() -> None:
    """The 32-bit longjmp: it arrives behind the call of setjmp, whose activation goes on."""
    routines = {**CALLER, "jumper": code(asm.jmpl(R.G1, 0, R.G0), asm.nop())}
    steps = walk(routines)
    steps.begin("jumper")
    assert steps.over("jumper+1", "back") == ["jumper>EXIT", "pop", "main>back"]


def test_a_branch_leads_to_its_target_or_behind_its_slot_and_nowhere_else() -> None:
    steps = walk({"main": BRANCH, "f": code(*RETURN)})
    steps.begin("main")
    assert steps.over("main+1", "f") == ["land f"]


def test_many_instructions_are_walked_as_one_by_one() -> None:
    inner = code(asm.nop(), asm.nop(), "loop", asm.nop(), asm.branch("ne", "loop"), asm.nop())
    outer = code(asm.nop(), asm.branch("e", "out", annul=True), asm.nop(), asm.nop(), "out")
    graphs = IndexedGraphs({"main": (*inner, *outer, asm.nop(), *RETURN)})
    walker, first = Walker(graphs.index), graphs.address("main")
    end = graphs.address("out") + 12
    compared = 0
    for start in range(first, end, 4):
        context = walker.land(start)
        for stop in range(start + 4, end + 8, 4):
            steps, one = [], context
            for address in range(start + 4, stop, 4):
                more, one = walker.step(one, address)
                steps += more
            assert walker.run(context, start + 4, stop) == (steps, one)
            compared += bool(steps)
    assert compared > 30


def test_two_edges_between_two_blocks_are_told_apart_by_kind() -> None:
    graphs = IndexedGraphs({"main": BRANCH})
    recovered = graphs.index.recovered
    main, here = graphs.block("main"), graphs.block("here")
    fallen, taken = graphs.edge("main>here"), graphs.edge("main>there")
    targets = recovered.arrays.edge_target.copy()
    targets[taken] = targets[fallen]
    routines = replace(recovered.arrays, edge_target=targets, _made={}, _known={})
    index = GraphIndex(replace(recovered, routines=routines))
    assert index.find(main, here, EdgeKind.FALL_THROUGH) == fallen
    assert index.find(main, here, EdgeKind.TAKEN) == taken
    assert index.find(main, here, EdgeKind.SWITCH) == min(fallen, taken)
    assert index.find(main, graphs.block("there"), EdgeKind.TAKEN) is None


def test_an_edge_to_exit_is_no_edge_to_the_next_routine() -> None:
    graphs = IndexedGraphs({"main": BRANCH, "other": RETURN})
    first_of_other = int(graphs.index.first_block[1])
    for block in range(first_of_other):
        assert graphs.index.find(block, first_of_other, EdgeKind.TAKEN) is None
        assert graphs.index.find(block, first_of_other + 1, EdgeKind.TAKEN) is None
