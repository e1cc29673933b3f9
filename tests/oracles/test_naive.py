"""The slow reference, on graphs and traces small enough to check by hand, and on real traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs, recover
from simprof.simulator.binary.elf import load
from tests.oracles.naive import (
    NaiveError,
    NaivePath,
    NaiveProfile,
    back_edges,
    imbalances,
    profile_of,
)
from tests.oracles.qemu import Trace, trace
from tests.support.turns import first

WIDTHS = ("v8", "v8plus", "v9")
KINDS = {kind.value: kind for kind in EdgeKind}


def graph(name: str, address: int, blocks: str, edges: str) -> ControlFlowGraph:
    """`blocks`: "100:2 108:1s" (address:instructions, s for a slot). `edges`: "in>0 0>1:taken".

    The kind of an edge is fall-through where none is given, entry from `in`, exit to `out`.
    """
    made = []
    for number, text in enumerate(blocks.split()):
        start, size = text.split(":")
        made.append(Block(number, int(start, 16), int(size.rstrip("s")), size.endswith("s")))
    vertices = {str(block.id): block.id for block in made}
    vertices |= {"in": len(made), "out": len(made) + 1}
    lines = []
    for number, text in enumerate(edges.split()):
        ends, _, kind = text.partition(":")
        source, target = ends.split(">")
        default = "entry" if source == "in" else "exit" if target == "out" else "fall-through"
        lines.append(Edge(number, vertices[source], vertices[target], KINDS[kind or default]))
    return ControlFlowGraph(name, address, 0, tuple(made), tuple(lines))


def walk(
    graphs: list[ControlFlowGraph],
    pcs: str,
    breaks: tuple[int, ...] = (),
    sp: list[int] | None = None,
) -> NaiveProfile:
    pc = np.array([int(word, 16) for word in pcs.split()], np.int64)
    marks = np.zeros(len(pc), np.bool_)
    marks[list(breaks)] = True
    return profile_of(graphs, pc, marks, None if sp is None else np.array(sp, np.uint64))


LOOP = graph(
    "loop", 0x100, "100:1 104:2 10c:1", "in>0 0>1 1>2 1>1:taken 2>0:taken 2>out"
)  # fmt: skip
CALLER = graph("caller", 0x100, "100:2 108:1", "in>0 0>1:call-return 1>out")
CALLEE = graph("callee", 0x200, "200:2 208:1", "in>0 0>1 1>out")


def test_loop_paths() -> None:
    """A self-loop does not end a path; a back edge does."""
    after = graph("after", 0x300, "300:1", "in>0 0>out")
    found = walk([LOOP, after], "100 104 108 104 108 10c 100 104 108 10c 300").routines[0x100]
    first = NaivePath(((0x100, False), (0x104, False), (0x10C, False)), (1, 2), "entry", "loop")
    second = NaivePath(first.blocks, first.edges, "loop", "exit")
    assert found.paths == {first: 1, second: 1}
    assert found.edges == {0: 1, 1: 2, 2: 2, 3: 1, 4: 1, 5: 1}
    assert found.by_blocks() == {first.blocks: 2}
    assert not found.early
    assert imbalances(LOOP, found) == []


def test_slot_block() -> None:
    """An annulled branch to the next block: only the slot tells taken from untaken."""
    bank = graph("f", 0x100, "100:1 104:1s 108:1", "in>0 0>2 0>1:slot 1>2:taken 2>out")
    taken = walk([bank], "100 104 108").routines[0x100]
    assert taken.edges == {0: 1, 2: 1, 3: 1, 4: 1}
    untaken = walk([bank], "100 108").routines[0x100]
    assert untaken.edges == {0: 1, 1: 1, 4: 1}
    ((path, count),) = taken.paths.items()
    assert (path.blocks, count) == (((0x100, False), (0x104, True), (0x108, False)), 1)


def test_call_keeps_the_path() -> None:
    found = walk([CALLER, CALLEE], "100 104 200 204 208 108")
    ((path, _),) = found.routines[0x100].paths.items()
    assert path.blocks == ((0x100, False), (0x108, False))
    assert found.routines[0x200].activations == 1
    assert found.instructions == 6


def test_recursion_keeps_paths_apart() -> None:
    recursive = graph("r", 0x100, "100:1 104:2 10c:1", "in>0 0>1 0>2:taken 1>2:call-return 2>out")
    found = walk([recursive], "100 104 108 100 104 108 100 10c 10c 10c").routines[0x100]
    deep = ((0x100, False), (0x104, False), (0x10C, False))
    assert found.by_blocks() == {deep: 2, (deep[0], deep[2]): 1}
    assert found.activations == 3


def test_tail_call_inherits_the_return() -> None:
    tail = graph("tail", 0x200, "200:2", "in>0 0>out")
    target = graph("target", 0x300, "300:1", "in>0 0>out")
    found = walk([CALLER, tail, target], "100 104 200 204 300 108")
    assert [found.routines[a].activations for a in (0x100, 0x200, 0x300)] == [1, 1, 1]
    assert found.routines[0x100].edges[1] == 1
    assert not any(r.early for r in found.routines.values())


def test_end_inside_a_callee() -> None:
    """The program ends in a callee's block that has other successors: both end early."""
    found = walk([CALLER, CALLEE], "100 104 200")
    assert found.routines[0x100].early == {0: 1}
    assert found.routines[0x200].early == {0: 1}
    ((path, _),) = found.routines[0x200].partial.items()
    assert (path.blocks, path.ends) == (((0x200, False),), "early")
    assert not found.routines[0x200].paths


def test_end_by_a_trap_that_does_not_return() -> None:
    ender = graph("ender", 0x200, "200:2", "in>0 0>out")
    found = walk([CALLER, ender], "100 104 200 204")
    assert found.routines[0x200].edges == {0: 1, 1: 1}
    assert not found.routines[0x200].early
    assert found.routines[0x100].early == {0: 1}


def test_non_local_exit() -> None:
    """Main calls save, then work; work calls leave, which returns to behind main's first call."""
    main = graph(
        "main", 0x100, "100:2 108:2 110:1", "in>0 in>1 0>1:call-return 1>2:call-return 2>out"
    )
    save = graph("save", 0x200, "200:1", "in>0 0>out")
    work = graph("work", 0x300, "300:2 308:1", "in>0 0>1:call-return 1>out")
    leave = graph("leave", 0x400, "400:1", "in>0 0>out")
    pcs = "100 104 200 108 10c 300 304 400 108 10c 300"
    for sp in (None, [90] * 5 + [70] * 3 + [90] * 2 + [70]):
        found = walk([main, save, work, leave], pcs, sp=sp)
        assert found.routines[0x100].early == {1: 2}
        assert found.routines[0x100].edges == {0: 1, 1: 1, 2: 1}
        assert found.routines[0x300].early == {0: 2}
        assert found.routines[0x400].edges == {0: 1, 1: 1}
        assert imbalances(main, found.routines[0x100]) == []


def test_handler_returns_into_a_block() -> None:
    """The handler comes inside the caller's first block; the restorer's trap ends it."""
    handler = graph("handler", 0x300, "300:1", "in>0 0>out")
    restorer = graph("restorer", 0x400, "400:2", "in>0 0>out")
    found = walk(
        [CALLER, CALLEE, handler, restorer],
        "100 300 400 404 104 200 204 208 108",
        breaks=(1, 4),
    )
    assert not any(r.early for r in found.routines.values())
    assert found.routines[0x100].edges == {0: 1, 1: 1, 2: 1}
    assert found.routines[0x400].activations == 1
    assert found.instructions == 9


def test_irreducible_back_edge_follows_the_search_order() -> None:
    """Both blocks enter each other; the one that the search meets first is the head."""
    shape = "100:1 104:1 108:1"
    first = graph("f", 0x100, shape, "in>0 0>1 0>2:taken 1>2 2>1:taken 2>out")
    second = graph("f", 0x100, shape, "in>0 0>2 0>1:taken 1>2 2>1:taken 2>out")
    assert back_edges(first) == {4}
    assert back_edges(second) == {3}


def test_wrong_walks_are_refused() -> None:
    with pytest.raises(NaiveError, match="no edge"):
        walk([graph("f", 0x100, "100:1 104:1", "in>0 0>1 1>out")], "100 100")
    with pytest.raises(NaiveError, match="inside the block"):
        walk([CALLER], "100 108")
    with pytest.raises(NaiveError, match="no block starts"):
        walk([CALLER], "100 104 900")


def profile_with_discoveries(path: Path, found: Trace) -> tuple[ProgramGraphs, NaiveProfile]:
    """Walk `found`; where a routine is entered in its interior, tell recovery and walk again."""
    program, discoveries = load(path), Discoveries()
    for _ in range(12):
        recovered = recover(program, discoveries)
        try:
            return recovered, profile_of(recovered.routines, found.pc, found.breaks, found.sp)
        except NaiveError as error:
            if "ENTRY edge" not in str(error):
                raise
            address = int(str(error).rpartition(" ")[2], 16)
            discoveries = discoveries.merged(Discoveries(entries=frozenset([address])))
    raise AssertionError("discoveries without end")


RUNS = [
    ("calls", "9"),
    ("switches", "1"),
    ("switches_pic", "1"),
    ("pointers", "1"),
    ("deep", "300"),
    ("loops", "6"),
    ("loops_plain", "4"),
    ("nonlocal", "12"),
    ("tailcalls", "60"),
    ("manypaths", "12"),
    ("control", "4"),
    ("records", "4"),
    ("signals", "1"),
    ("faults", "unaligned"),
]


@pytest.mark.qemu
@pytest.mark.parametrize(("name", "argument"), first(4, RUNS))
@pytest.mark.parametrize("width", first(1, WIDTHS))
def test_fixture_traces_are_walks(
    fixture_elf: Callable[..., Path], name: str, argument: str, width: str
) -> None:
    """Every instruction belongs to a block, flow is conserved, paths add up to edges."""
    path = fixture_elf(name, width)
    found = trace(path, [argument], stack_pointers=name in {"nonlocal", "signals"})
    recovered, profile = profile_with_discoveries(path, found)
    assert profile.instructions == len(found.pc)  # no instruction that faulted is tried again
    for routine in recovered.routines:
        counts = profile.routines[routine.address]
        assert imbalances(routine, counts) == []
        ended = sum(counts.paths.values()) + sum(counts.partial.values())
        backs = back_edges(routine)
        cuts = sum(
            counts.edges[e] for e in backs if routine.edges[e].source != routine.edges[e].target
        )
        assert ended == counts.activations + cuts
    if name not in {"nonlocal", "signals", "faults"}:
        assert found.run.status == 0
        assert not any(r.early for a, r in profile.routines.items() if a != last_called(recovered))


def last_called(recovered: ProgramGraphs) -> int:
    """Address of the routine that ends the program, where a caller may still wait."""
    return next(r.address for r in recovered.routines if r.name == "system_exit")
