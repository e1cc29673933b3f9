"""Counts by instruction and by source line: exact sums, branches, and what is charged where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ENTRY, EXIT, EdgeKind, VertexName
from simprof.profiler.profiles.code_counts import Branch, code_counts
from simprof.profiler.profiles.combine import merge_routine, split
from simprof.profiler.profiles.lines import NO_LINES, NO_PROGRAM, SourceCounts
from simprof.profiler.profiles.profile import BlockCount, CutBlock, EdgeCount, RoutineProfile
from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import Program, SourceLine
from simprof.simulator.isa.decode import TransferKind, decode_transfers
from tests.oracles.exact import simulate
from tests.support import samples
from tests.support.turns import turns

HEAD, SLOT, BODY, TAIL = (
    VertexName(0x1000),
    VertexName(0x100C, is_slot=True),
    VertexName(0x1010),
    VertexName(0x1020),
)


def routine() -> RoutineProfile:
    """HEAD ends with `bne,a BODY`; BODY with `b HEAD` and its delay slot; TAIL returns."""
    return samples.routine(
        added=90,
        edge_counts=(
            EdgeCount(HEAD, TAIL, EdgeKind.FALL_THROUGH, 2, True, 4),
            EdgeCount(HEAD, SLOT, EdgeKind.SLOT, 5, False),
            EdgeCount(SLOT, BODY, EdgeKind.TAKEN, 5, True, 10),
            EdgeCount(BODY, HEAD, EdgeKind.TAKEN, 5, True, 30),
            EdgeCount(ENTRY, HEAD, EdgeKind.ENTRY, 2, True, 6),
            EdgeCount(TAIL, EXIT, EdgeKind.EXIT, 1, True, 3),
            EdgeCount(TAIL, EXIT, EdgeKind.EARLY, 1, False),
        ),
        block_counts=(
            BlockCount(0x1000, 3, False, False, 7, 7),
            BlockCount(0x100C, 1, True, False, 5, 0),
            BlockCount(0x1010, 4, False, True, 5, 0),
            BlockCount(0x1020, 3, False, True, 2, 0),
        ),
        cut_blocks=(CutBlock(3, 1, 1),),
    )


def test_executions_stop_where_a_block_was_left() -> None:
    executions = code_counts(routine()).executions
    assert executions == {
        0x1000: 7, 0x1004: 7, 0x1008: 7, 0x100C: 5,
        0x1010: 5, 0x1014: 5, 0x1018: 5, 0x101C: 5,
        0x1020: 2, 0x1024: 1, 0x1028: 1,
    }  # fmt: skip


def test_added_instructions_are_charged_to_transfers() -> None:
    """Slots are charged for the code behind them only; what is left over is in no block."""
    counts = code_counts(routine())
    assert counts.added == {0x1000: 7 + 6, 0x1008: 4, 0x100C: 10, 0x1018: 30, 0x1024: 3}
    assert counts.unplaced == 90 - 60


def test_branches_lead_through_their_slots() -> None:
    assert code_counts(routine()).branches == {0x1008: Branch(0x1008, 5, 2, BODY, TAIL)}


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((EdgeKind.TAKEN, EdgeKind.FALL_THROUGH), (1, 2)),
        ((EdgeKind.FALL_THROUGH, EdgeKind.EXIT), (2, 1)),
        ((EdgeKind.EXIT, EdgeKind.TAKEN), (2, 1)),
        ((EdgeKind.TAKEN,), None),
        ((EdgeKind.FALL_THROUGH,), None),
        ((EdgeKind.SWITCH, EdgeKind.EXIT), None),
        ((EdgeKind.CALL_RETURN, EdgeKind.EARLY), None),
        ((EdgeKind.FALL_THROUGH, EdgeKind.EARLY), None),
    ],
)
def test_a_branch_can_be_left_in_two_ways(
    kinds: tuple[EdgeKind, ...], expected: tuple[int, int] | None
) -> None:
    ends = {kind: EXIT if kind in (EdgeKind.EXIT, EdgeKind.EARLY) else TAIL for kind in kinds}
    edges = tuple(
        EdgeCount(HEAD, end, kind, at, False) for at, (kind, end) in enumerate(ends.items(), 1)
    )
    block = BlockCount(0x1000, 3, False, True, 3, 0)
    found = code_counts(samples.routine(edge_counts=edges, block_counts=(block,))).branches
    sides = {(branch.taken, branch.not_taken) for branch in found.values()}
    assert sides == (set() if expected is None else {expected})


def test_merged_blocks_are_split_where_any_run_entered_them() -> None:
    """One run entered BODY in its middle: the other's executions of it are those of both parts."""
    parts = (
        BlockCount(0x1010, 2, False, False, 1, 4),
        BlockCount(0x1018, 2, False, True, 3, 0),
    )
    whole = routine()
    other = replace(whole, block_counts=(*whole.block_counts[:2], *parts), cut_blocks=())
    for pair in ((whole, other), (other, whole)):
        merged = merge_routine(pair)
        executions = code_counts(merged).executions
        assert [executions[at] for at in range(0x1010, 0x1020, 4)] == [6, 6, 8, 8]
        assert executions[0x1024] == 1
        assert sum(block.added for block in merged.block_counts) == 2 * 7 + 4
    cut = replace(whole, cut_blocks=(CutBlock(2, 1, 1),))
    executions = code_counts(merge_routine((cut, other))).executions
    assert [executions[at] for at in range(0x1010, 0x1020, 4)] == [6, 5, 7, 7]


def test_what_is_split_is_a_profile_of_the_finer_graph() -> None:
    """Flow is conserved, paths are walks, and the early end is where the execution was cut."""
    cut = replace(
        routine(),
        cut_blocks=(CutBlock(2, 1, 1),),
        edge_counts=(
            *routine().edge_counts[:3],
            EdgeCount(BODY, HEAD, EdgeKind.TAKEN, 4, True, 30),
            EdgeCount(ENTRY, HEAD, EdgeKind.ENTRY, 3, True, 6),
            EdgeCount(TAIL, EXIT, EdgeKind.EXIT, 2, True, 3),
            EdgeCount(BODY, EXIT, EdgeKind.EARLY, 1, False),
        ),
    )
    finer = split(cut, [0x1000, 0x1010, 0x1018, 0x1028])
    middle = VertexName(0x1018)
    assert [str(block.name) for block in finer.block_counts] == [
        "0x1000", "slot 0x100c", "0x1010", "0x1018", "0x1020",
    ]  # fmt: skip
    assert (finer.blocks, finer.edges) == (cut.blocks + 1, cut.edges + 1)
    for block in finer.block_counts:
        entered = sum(edge.count for edge in finer.edge_counts if edge.target == block.name)
        left = sum(edge.count for edge in finer.edge_counts if edge.source == block.name)
        assert block.count == entered == left
    early = {e.source: e.count for e in finer.edge_counts if e.kind is EdgeKind.EARLY}
    assert early == {BODY: 1, middle: 0}
    assert code_counts(finer).executions == code_counts(cut).executions
    assert code_counts(finer).added == code_counts(cut).added
    for path, before in zip(finer.path_counts, cut.path_counts, strict=True):
        assert (path.count, path.instructions) == (before.count, before.instructions)
        crossed = [finer.edge_counts[edge] for edge in path.edges]
        for first, second in pairwise(crossed):
            assert first.target == second.source
        vertices = [VertexName(at, place in path.slots) for place, at in enumerate(path.blocks)]
        inner = [edge.target for edge in crossed if edge.target != EXIT]
        assert inner in (vertices, vertices[1:])
        assert (0x1010 in path.blocks) == (0x1018 in path.blocks)
    assert split(finer, [0x1000, 0x1010, 0x1018]) is finer


LINES = {0x1000: SourceLine("loop.c", 4), 0x1010: SourceLine("loop.c", 4)}


def test_a_line_counts_its_entries_and_its_turns() -> None:
    """HEAD and BODY are one line: entered twice, and five times round."""
    run = samples.measurement(routines=(routine(),), lines=LINES)
    counts = SourceCounts(run, None)
    (line,) = counts.lines.values()
    assert (line.executions, line.base, line.added) == (2 + 5, 3 * 7 + 4 * 5, 17 + 30)
    assert line.addresses == [0x1000, 0x1004, 0x1008, 0x1010, 0x1014, 0x1018, 0x101C]
    assert [branch.taken for branch in line.branches] == [5]
    assert counts.notes == (NO_PROGRAM,)
    assert SourceCounts(replace(run, lines={}), None).notes == (NO_LINES,)


def word(program: Program, address: int) -> int:
    (segment,) = (s for s in program.segments if s.address <= address < s.address + len(s.data))
    at = address - segment.address
    return int.from_bytes(segment.data[at : at + 4], "big")


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "name"), turns(["v9", "v8plus", "v8"], ["signals", "control", "tailcalls"], few=2)
)
def test_sums_are_those_of_the_run(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str
) -> None:
    """`signals` leaves blocks in their middle; a branch is what the program's words say."""
    path = fixture_elf(name, width)
    program = load(path)
    for run in simulate(path, directory=tmp_path, modes=("pp", "qpt")).measurements.values():
        counts = SourceCounts(run, program)
        executions: Counter[int] = Counter()
        for code in counts.routines:
            executions.update(code.executions)
            assert sum(code.added.values()) + code.unplaced == code.profile.added
            assert code.unplaced >= 0
            assert set(code.branches) <= set(code.executions)
            for branch in code.branches.values():
                executed = code.executions[branch.address]
                assert branch.taken + branch.not_taken == executed
        assert executions.total() == run.base
        assert sum(line.base for line in counts.lines.values()) <= run.base
        words = np.array([word(program, at) for at in executions], dtype=np.uint32)
        kinds = decode_transfers(words, 0).kind
        found = {at for code in counts.routines for at in code.branches}
        conditional = {
            at
            for at, kind in zip(executions, kinds, strict=True)
            if kind in (TransferKind.BRANCH, TransferKind.COMPARE_BRANCH)
        }
        assert found == conditional
        assert found


def test_lines_that_never_ran_are_known_by_the_program(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    """With a selection, only lines of routines that it takes."""
    path = fixture_elf("calls")
    (run,) = simulate(path, directory=tmp_path, modes=("edges",)).measurements.values()
    files = SourceCounts(run, load(path)).files
    never = {line.line.line for line in files["./runtime/memory.c"].values() if not line.executions}
    assert never
    selected = replace(run, options={**run.options, "routines": ("main",)})
    assert "./runtime/memory.c" not in SourceCounts(selected, load(path)).files
