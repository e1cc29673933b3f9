"""Where calls and exits lead, one idiom of leaving a routine a test; read off the code alone."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.engine.walk import UNKNOWN, GraphIndex
from simprof.profiler.recovery.calls import call_sites
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.trace.calls import Callees, CallPath, CallPaths, Exit, number_calls
from simprof.profiler.trace.regeneration import Array, regenerate
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.assembled import code
from tests.support.cli_run import simprof
from tests.support.event_player import IndexedGraphs
from tests.support.turns import first

R = Register
RETURN = (asm.retl(), asm.nop())
OTHERS: dict[str, Sequence[Item]] = {
    "other": code(asm.call("leaf"), asm.nop(), "behind", *RETURN),
    "spin": code(asm.branch("a", "spin"), asm.nop()),
    "leaf": code(*RETURN),
    "tall": code(asm.branch("e", "inside"), asm.nop(), "inside", *RETURN),
}


def graphs_of(*body: Item | str) -> IndexedGraphs:
    """The graphs of `main`, of this code, and of `OTHERS`."""
    main = [item for part in body for item in (code(part) if isinstance(part, str) else [part])]
    return IndexedGraphs({"main": main, **OTHERS})


@pytest.mark.parametrize(
    ("body", "way", "entered"),
    [
        ([asm.retl(), asm.nop()], Exit.RETURN, None),
        ([asm.data_word(0x81CFE008), asm.nop()], Exit.RETURN, None),
        ([asm.branch("a", "leaf"), asm.nop()], Exit.ENTER, "leaf"),
        ([asm.branch("a", "leaf", True), asm.nop()], Exit.ENTER, "leaf"),
        ([asm.call("leaf"), asm.restore()], Exit.ENTER, "leaf"),
        ([asm.jmpl(R.G1, 0, R.O7), asm.restore()], Exit.ENTER, None),
        ([asm.call("spin"), asm.nop(), asm.nop()], Exit.CALL, "spin"),
        ([asm.jmpl(R.G1, 0, R.G0), asm.nop()], Exit.WRITTEN, None),
        ([asm.nop()], Exit.ENTER, "other"),  # falls through into the next routine
        ([asm.mov(1, R.G1), asm.trap_always(0x6D)], Exit.UNKNOWN, None),
    ],
    ids=["retl", "return", "ba", "ba,a", "call, restore", "jmpl, restore", "no return", "jmp",
         "falls", "trap"],
)  # fmt: skip
def test_how_a_block_leaves(body: list[Item], way: Exit, entered: str | None) -> None:
    graphs = graphs_of(*body)
    expected = UNKNOWN if entered is None else graphs.edge(f"ENTRY>{entered}")
    assert Callees(graphs.index).exit(graphs.edge("main>EXIT")) == (way, expected)


def test_a_branch_out_of_the_routine_enters_its_target() -> None:
    graphs = graphs_of(asm.branch("e", "leaf"), asm.nop(), "on", *RETURN)
    found = Callees(graphs.index).exit(graphs.edge("main>EXIT"))
    assert found == (Exit.ENTER, graphs.edge("ENTRY>leaf"))


def test_an_annulled_branch_leaves_from_its_slot() -> None:
    graphs = graphs_of(asm.branch("e", "leaf", True), asm.nop(), "on", *RETURN)
    found = Callees(graphs.index).exit(graphs.edge("main+1s>EXIT"))
    assert found == (Exit.ENTER, graphs.edge("ENTRY>leaf"))


def test_where_the_branch_stays_it_is_the_fall_through_that_leaves() -> None:
    """The branch goes back to the start; behind it comes the next routine."""
    graphs = graphs_of(asm.nop(), "again", asm.branch("e", "again"), asm.nop())
    found = Callees(graphs.index).exit(graphs.edge("again>EXIT"))
    assert found == (Exit.ENTER, graphs.edge("ENTRY>other"))


def test_what_a_call_leads_to() -> None:
    graphs = graphs_of(
        asm.call("leaf"), asm.nop(), "indirect", asm.jmpl(R.G1, 0, R.O7), asm.nop(), "on", *RETURN
    )
    callees = Callees(graphs.index)
    assert callees.callee(graphs.block("main")) == graphs.edge("ENTRY>leaf")
    assert callees.callee(graphs.block("indirect")) == UNKNOWN
    assert callees.callee(graphs.block("on")) == UNKNOWN
    assert not callees.is_indirect(graphs.block("main"))
    assert callees.is_indirect(graphs.block("indirect"))


def test_exits_know_their_blocks() -> None:
    graphs = graphs_of(*RETURN)
    sources = Callees(graphs.index).source
    assert sources[graphs.edge("behind>EXIT")] == graphs.block("behind")
    assert len(sources) == 4  # main, behind, leaf, inside; `spin` never leaves


def test_entries_are_found_by_address() -> None:
    graphs = graphs_of(*RETURN)
    callees = Callees(graphs.index)
    assert callees.entry(graphs.address("leaf")) == graphs.edge("ENTRY>leaf")
    assert callees.entry(graphs.address("leaf+1")) == UNKNOWN
    assert callees.entry(-1) == UNKNOWN


def test_a_jump_behind_a_call_of_another_routine_is_a_return() -> None:
    """As longjmp does; a jump to a routine's start is a tail call, one within it is a switch."""
    graphs = graphs_of(asm.jmpl(R.G1, 0, R.G0), asm.nop())
    callees = Callees(graphs.index)
    main = graphs.block("main")
    assert callees.returns(main, graphs.block("behind"))
    assert not callees.returns(main, graphs.block("leaf"))
    assert not callees.returns(main, graphs.block("inside")), "no call returns there"
    assert not callees.returns(graphs.block("other"), graphs.block("behind"))


Find = Callable[..., Path]


def paths_from(start: int, callees: Mapping[int, list[int]]) -> Iterator[CallPath]:
    yield (start,)
    for callee in callees.get(start, ()):
        yield from ((start, *rest) for rest in paths_from(callee, callees))


@pytest.mark.seeds(range(200))
def test_every_call_path_has_its_own_number(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 8)
    edges = [(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(0, 14))]
    numbering = number_calls(edges, 0)
    callees: dict[int, list[int]] = {}
    for caller, callee in set(edges) - numbering.back_edges:
        callees.setdefault(caller, []).append(callee)
    expected = [path for start in numbering.starts for path in paths_from(start, callees)]
    numbers = [numbering.number(path) for path in expected]
    assert sorted(each for each in numbers if each is not None) == list(range(numbering.total))
    assert {callee for _, callee in numbering.back_edges} | {0} == set(numbering.starts)
    assert all(len(set(path)) == len(path) for path in expected)


def test_what_the_call_graph_lacks_has_no_number() -> None:
    numbering = number_calls([(0, 1), (1, 2), (2, 1)], 0)
    assert numbering.back_edges == {(2, 1)}
    assert numbering.total == 3 + 2
    assert numbering.number((0, 2)) is None
    assert numbering.number((2,)) is None
    assert numbering.number((1, 2)) is not None


def follow(program: Path, directory: Path) -> tuple[CallPaths, ProgramGraphs, dict[str, Any]]:
    trace, answer = directory / "trace", directory / "json"
    done = simprof("run", "--mode=witness", "--trace", trace, "--json", answer, program)
    assert b"Traceback" not in done.stderr
    calls = CallPaths()
    graphs: list[ProgramGraphs] = []

    def receive(recovered: ProgramGraphs, blocks: Array) -> None:
        graphs.append(recovered)
        half = len(blocks) // 2  # pieces may end anywhere
        calls(recovered, blocks[:half])
        calls(recovered, blocks[half:])

    assert regenerate(trace, program, check=True, sink=receive).complete
    return calls, graphs[0], json.loads(answer.read_text())


@pytest.mark.parametrize(
    "name", first(1, ["calls", "nonlocal", "signals", "control", "deep", "pointers", "tailcalls"])
)
def test_activations_are_those_of_the_run(name: str, fixture_elf: Find, tmp_path: Path) -> None:
    """Each activation counts one call path: recursion, tail calls, longjmp, handlers included."""
    calls, recovered, answer = follow(fixture_elf(name), tmp_path)
    counted: Counter[int] = Counter()
    for path, count in calls.counts.items():
        assert len(set(path)) == len(path)
        counted[recovered.routines[path[-1]].address] += count
    entered = {int(each["routine_address"], 16): each["entered"] for each in answer["routines"]}
    assert counted == Counter(entered)


@pytest.mark.parametrize("name", first(1, ["calls", "bench", "records"], at=2))
def test_calls_are_those_of_the_call_sites(name: str, fixture_elf: Find, tmp_path: Path) -> None:
    """Paths that end with a call, against how often the blocks of its sites were executed."""
    calls, recovered, answer = follow(fixture_elf(name), tmp_path)
    made: Counter[tuple[int, int]] = Counter()
    for path, count in calls.counts.items():
        made.update(dict.fromkeys(list(pairwise(path))[-1:], count))
    executed: Counter[object] = Counter()
    for edge in answer["edges"]:
        executed[str(edge["target"])] += edge["executions"]
    index = GraphIndex(recovered)
    expected: Counter[tuple[int, int]] = Counter()
    for call in call_sites(recovered):
        (block,) = (
            block
            for block in recovered.routines[call.caller].blocks
            if block.start <= call.site < block.end and not block.is_slot
        )
        if (call.caller, call.callee) not in calls.numbering.back_edges:
            expected[call.caller, call.callee] += executed[f"{block.start:#x}"]
    known = {edge: count for edge, count in made.items() if edge in calls.numbering.values}
    assert known == {edge: count for edge, count in expected.items() if count}
    assert index.block_count > 0 and known


def test_the_option(fixture_elf: Find, tmp_path: Path) -> None:
    trace, answer = tmp_path / "trace", tmp_path / "json"
    simprof("run", "--mode=bits", "--trace", trace, fixture_elf("pointers"))
    done = simprof("read", trace, "--call-paths", "2", "--json", answer)
    assert done.returncode == 0, done.stderr.decode()
    assert b"24 call paths (25 in the call graph)" in done.stdout
    assert b"_start > runtime_main > main > sort > ascending" in done.stdout
    calls = json.loads(answer.read_text())["call_paths"]
    assert (calls["executed"], calls["potential"], calls["dynamic"]) == (24, 25, 10)
    assert [path["entered"] for path in calls["paths"]] == [3911, 3896]
    assert calls["paths"][0]["number"] is None  # `ascending` is called through a pointer
