"""The native core: operations, successor cache, hashing; jitted and as plain Python."""

import ctypes
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from simprof.profiler.code.hash_routine import BUCKETS, HashTableModel, hash_costs
from simprof.profiler.engine import block_kernel, kernels
from simprof.profiler.engine.lowering import cost_words
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.cpu.traps import RESUME_STATE, ClockWord, Interruption
from tests.support.event_player import replay
from tests.support.operation_lists import joined

ROOT = Path(__file__).parents[2]
MOVER = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def make_state(
    operations: Sequence[tuple[int, int, int]] = (),
    tables: int = 0,
    machine: MachineKind = MachineKind.SPARCV9,
) -> kernels.KernelState:
    """A kernel state with room for everything, and `operations` from number 1."""
    clock = np.zeros(kernels.CLOCK_WORDS, np.int64)
    clock[kernels.LIMIT] = 1 << 60
    clock[kernels.FRAME_LIMIT] = 16 * kernels.STRIDE
    clock[kernels.SPILL_MASK] = 63
    clock[kernels.STATE] = kernels.FIRST_STATE
    clock[kernels.NODE_LIMIT] = 4096
    flat = [0, 0, 0]
    for place, (code, a, b) in enumerate(operations):
        last = kernels.LAST if place == len(operations) - 1 else 0
        flat += [code | last, a, b]
    headers = np.zeros((max(tables, 1), kernels.TABLE_WORDS), np.int64)
    headers[:, kernels.TABLE_HEADS] = np.arange(len(headers)) * BUCKETS
    state = kernels.KernelState(
        clock=clock,
        rows=np.zeros(64 * kernels.ROW, np.int64),
        spill=np.zeros(64 * kernels.SPILL, np.int64),
        operations=np.array(flat, np.int64),
        frames=np.zeros(32 * kernels.STRIDE, np.int64),
        segments=np.zeros(256 * kernels.SUCCESSOR, np.int64),
        tables=headers.ravel(),
        heads=np.zeros(BUCKETS * max(tables, 1), np.int64),
        nodes=np.zeros(4096 * kernels.NODE, np.int64),
        costs=cost_words(machine),
    )
    state.publish()
    return state


def test_clock_words_are_those_of_the_simulator() -> None:
    for word in ClockWord:
        assert getattr(kernels, word.name) == word.value
    assert kernels.RESUME == RESUME_STATE
    assert kernels.FAILED == Interruption.ERROR


SEGMENTS = kernels.FIRST_STATE + 8 * kernels.START
"""A segment state that the tests below use."""


def add_segment(
    state: kernels.KernelState, source: int, key: int, target: int, operation: int = 0
) -> NDArray[np.int64]:
    """Enter the transition of segment state `source` by `key`; return where it is counted."""
    row = state.rows[source // 8 :]
    row[kernels.PLACES], row[kernels.PLACE_MASK] = source, 32
    address = kernels.segment_place(state.address, source, key)
    at = (address - state.segments.ctypes.data) // 8
    if state.segments[at] == 0:
        state.segments[at : at + kernels.SUCCESSOR] = key, 0, target, operation
        return state.segments[at : at + kernels.SUCCESSOR]
    assert kernels.spilled(state.address, source, key) == 0
    at = int(state.clock[kernels.MISS_SLOT]) * kernels.SPILL
    state.spill[at : at + kernels.SPILL] = key, 0, target, operation, source
    return state.spill[at : at + kernels.SPILL]


def test_segments_lead_from_state_to_state() -> None:
    state = make_state(
        [(kernels.BEGIN, 3, SEGMENTS), (kernels.ADD, 2, 0), (kernels.SEGMENT, 6, 40)]
    )
    first = add_segment(state, SEGMENTS, 11, 1 << 10)
    add_segment(state, SEGMENTS, 9, 0)
    for _ in range(3):
        assert block_kernel.execute(state.address, 1, 0) == kernels.OK
    assert state.frames[: kernels.STRIDE].tolist() == [0, 0, 40, 1 << 10]
    assert first[kernels.COUNT_OF] == 3


def test_an_unknown_segment_stops_before_anything_is_done() -> None:
    state = make_state([(kernels.SEGMENT, 6, 40)])
    state.frames[: kernels.STRIDE] = 0, 0, 5, SEGMENTS
    assert block_kernel.execute(state.address, 1, 0) == kernels.NEW_SEGMENT
    assert state.clock[kernels.FAILED_OPERATION] == 1
    assert state.frames[: kernels.STRIDE].tolist() == [0, 0, 5, SEGMENTS]
    add_segment(state, SEGMENTS, 11, SEGMENTS)
    assert block_kernel.execute(state.address, 1, 0) == kernels.OK


def test_segments_are_counted_wherever_they_are_kept() -> None:
    state = make_state([(kernels.SEGMENT, 0, 0)])
    places = [add_segment(state, SEGMENTS, 2 * k + 1, SEGMENTS) for k in range(9)]
    source = random.Random(5)
    picks = [source.randrange(9) for _ in range(300)]
    for pick in picks:
        state.frames[kernels.FRAME_PATH : kernels.STRIDE] = 2 * pick + 1, SEGMENTS
        assert block_kernel.execute(state.address, 1, 0) == kernels.OK
    assert [place[kernels.COUNT_OF] for place in places] == [picks.count(k) for k in range(9)]


def test_a_segment_without_a_state_is_unknown() -> None:
    state = make_state([(kernels.SEGMENT, 1, 0)])
    assert block_kernel.execute(state.address, 1, 0) == kernels.NEW_SEGMENT


def test_a_segments_hashed_counts_happen_once_or_not_at_all() -> None:
    hashed = [(kernels.HASH, 70, 2), (kernels.HASH | kernels.HASH_BACK_EDGE, 71, 2)]
    state = make_state([*hashed, (kernels.SEGMENT, 1, 0)], tables=1)
    state.operations[2 * kernels.OPERATION] |= kernels.LAST
    add_segment(state, SEGMENTS, 1, SEGMENTS, operation=1)
    state.frames[kernels.FRAME_SEGMENTS] = SEGMENTS
    state.clock[kernels.NODE_LIMIT] = 1
    assert block_kernel.execute(state.address, 3, 0) == kernels.NO_NODES
    assert counts(state, 0) == {}
    state.clock[kernels.NODE_LIMIT] = 8
    for _ in range(4):
        assert block_kernel.execute(state.address, 3, 0) == kernels.OK
    assert counts(state, 0) == {70: 4, 71: 4}
    assert state.tables[kernels.TABLE_REMEMBERED] == 3


def test_calls_keep_the_callers_register_and_returns_check_the_address() -> None:
    state = make_state(
        [
            (kernels.BEGIN, 5, SEGMENTS),
            (kernels.CALL, 0x1008, 0),
            (kernels.BEGIN, 1, SEGMENTS),
            (kernels.RETURN, 0, 0),
            (kernels.SEGMENT, 4, 0),
        ]
    )
    counted = add_segment(state, SEGMENTS, 9, 0)
    assert block_kernel.execute(state.address, 1, 0x1008) == kernels.OK
    assert counted[kernels.COUNT_OF] == 1
    assert state.clock[kernels.FRAME] == 0
    assert block_kernel.execute(state.address, 1, 0x100C) == kernels.MISMATCH
    assert state.clock[kernels.FAILED_OPERATION] == 4
    assert state.clock[kernels.FRAME] == kernels.STRIDE


def test_returns_check_the_callers_stack_pointer() -> None:
    state = make_state([(kernels.CALL, 0x1008, 0), (kernels.RETURN, 0, 0)])
    state.operations[kernels.OPERATION] |= kernels.LAST
    outs = np.zeros(8, np.int64)
    window = np.array([outs.ctypes.data], np.int64)
    state.clock[kernels.WINDOW_POINTER] = window.ctypes.data
    for called_at, returned_at, expected in (
        (0x9000, 0x9000, kernels.OK),
        (0x9000, 0xA000, kernels.MISMATCH),
        (0x9000, 0x8000, kernels.MISMATCH),
    ):
        state.clock[kernels.FRAME] = 0
        outs[6] = called_at
        assert block_kernel.execute(state.address, 1, 0) == kernels.OK
        outs[6] = returned_at
        assert block_kernel.execute(state.address, 2, 0x1008) == expected


def test_frames_run_out_before_they_overflow() -> None:
    state = make_state([(kernels.CALL, 0x1008, 0)])
    outcomes = [block_kernel.execute(state.address, 1, 0) for _ in range(17)]
    assert outcomes[:15] == [kernels.OK] * 15
    assert set(outcomes[15:]) == {kernels.TOO_DEEP}


@pytest.mark.parametrize("machine", list(MachineKind))
def test_hashing_is_exactly_the_models(machine: MachineKind) -> None:
    source = random.Random(7)
    kinds = [kernels.HASH_BACK_EDGE, 0]
    for _ in range(20):
        keys = [source.randrange(1 << source.choice([4, 10, 20, 31])) for _ in range(40)]
        choices = list(itertools.product(range(2), kinds, keys))
        operations = [
            (kernels.HASH | back | table << kernels.TABLE_SHIFT | kernels.LAST, key, 1)
            for table, back, key in choices
        ]
        state = make_state(operations, tables=2, machine=machine)
        models = [HashTableModel(hash_costs(machine)) for _ in range(2)]
        spent = [0, 0]
        for _ in range(1200):
            pick = source.randrange(len(choices))
            table, back, key = choices[pick]
            assert block_kernel.execute(state.address, 1 + pick, 0) == kernels.OK
            spent[table] += models[table].count(key, bool(back))
            header = state.tables[table * kernels.TABLE_WORDS :][: kernels.TABLE_WORDS]
            remembered = header[kernels.TABLE_REMEMBERED] * state.costs[kernels.COST_REMEMBERED]
            assert header[kernels.TABLE_INSTRUCTIONS] + remembered == spent[table]
        for table, model in enumerate(models):
            assert chains(state, table) == model.chains
            assert counts(state, table) == model.counts


def chains(state: kernels.KernelState, table: int) -> list[list[int]]:
    found = []
    first = int(state.tables[table * kernels.TABLE_WORDS])
    for node in state.heads[first : first + BUCKETS].tolist():
        chain: list[int] = []
        while node:
            words = state.nodes[(node - 1) * kernels.NODE :][: kernels.NODE].tolist()
            key, _, node, before = words
            assert before == len(chain)
            chain.append(key)
        found.append(chain)
    return found


def counts(state: kernels.KernelState, table: int) -> dict[int, int]:
    keys = {key for chain in chains(state, table) for key in chain}
    used = state.nodes[: int(state.clock[kernels.NODES]) * kernels.NODE].reshape(-1, kernels.NODE)
    mine = {}
    first = int(state.tables[table * kernels.TABLE_WORDS])
    for node in state.heads[first : first + BUCKETS].tolist():
        while node:
            key, count, node, _ = used[node - 1].tolist()
            mine[key] = count
    assert set(mine) == keys
    return mine


def test_hashing_stops_when_nodes_run_out_and_can_go_on() -> None:
    state = make_state([(kernels.HASH, 3, 1)], tables=1)
    state.clock[kernels.NODE_LIMIT] = 0
    assert block_kernel.execute(state.address, 1, 0) == kernels.NO_NODES
    assert state.tables[kernels.TABLE_CALLS] == 0
    state.clock[kernels.NODE_LIMIT] = 1
    assert block_kernel.execute(state.address, 1, 0) == kernels.OK
    assert state.tables[kernels.TABLE_CALLS] == 1


def link_up(
    state: kernels.KernelState, transitions: Mapping[tuple[int, int, int], tuple[int, int]]
) -> None:
    """Enter (state, address, size) -> (next, operation) into rows, then the spill table."""
    used: dict[int, int] = {}
    for (source, address, size), (target, operation) in transitions.items():
        place = used[source] = used.get(source, -1) + 1
        successor = (address | size << 48, 0, target, operation)
        if place < 2:
            at = source // 8 + kernels.SUCCESSOR * place
            state.rows[at : at + kernels.SUCCESSOR] = successor
        else:
            assert kernels.spilled(state.address, source, successor[0]) == 0
            at = int(state.clock[kernels.MISS_SLOT]) * kernels.SPILL
            state.spill[at : at + kernels.SPILL] = *successor, source


def test_every_successor_is_counted_wherever_it_is_kept() -> None:
    state = make_state([(kernels.ADD, 1, 0)])
    first = kernels.FIRST_STATE
    targets = {(first, 0x1000 + 16 * i, 8): (first, i % 2) for i in range(9)}
    link_up(state, targets)
    source = random.Random(3)
    picks = [source.randrange(9) for _ in range(500)]
    addresses = np.array([0x1000 + 16 * pick for pick in picks], np.int64)
    sizes = np.full(len(picks), 8, np.int64)
    assert replay(state.address, addresses, sizes, 0) == (500, kernels.OK)
    row = state.rows[first // 8 :][: kernels.ROW].reshape(2, kernels.SUCCESSOR).tolist()
    spilled = state.spill.reshape(-1, kernels.SPILL).tolist()
    assert len([True for *_, owner in spilled if owner]) == 7
    found = {key & 0xFFFF: count for key, count, *_ in [*row, *spilled] if key}
    assert found == {0x1000 + 16 * i: picks.count(i) for i in range(9)}
    assert state.frames[kernels.FRAME_PATH] == sum(pick % 2 for pick in picks)


def test_unknown_successors_are_misses_and_resumed_blocks_are_not() -> None:
    state = make_state()
    one = np.array([0x2004], np.int64)
    assert replay(state.address, one, one * 0 + 8, 0) == (0, kernels.MISS)
    state.clock[kernels.STATE] = kernels.RESUME
    state.clock[kernels.RESUMED_STATE] = 9
    state.clock[kernels.RESUME_PC] = 0x2004
    state.clock[kernels.RESUME_END] = 0x200C
    assert replay(state.address, one, one * 0 + 8, 0) == (1, kernels.OK)
    assert state.clock[kernels.STATE] == 9


PLAIN = """
import json, sys
import numpy as np
from tests.engine import test_kernels as t
from simprof.profiler.engine import kernels
print(json.dumps(t.scenario()))
"""


def scenario() -> list[object]:
    """A run through everything that `advance` does; its whole final state."""
    state = make_state(
        [
            (kernels.BEGIN, 1, SEGMENTS),
            (kernels.ADD, 2, 0),
            (kernels.CALL, 0x1010, 0),
            (kernels.HASH, 70000, 1),
            (kernels.HASH | kernels.HASH_BACK_EDGE, 5, 1),
            (kernels.RETURN, 0, 0),
            (kernels.SEGMENT, 4, 2),
            (kernels.SEGMENT, 9, 0),
            (kernels.ADD, 2, 0),
            (kernels.HASH | kernels.HASH_BACK_EDGE, 5, 1),
        ],
        tables=1,
    )
    state.operations[8 * kernels.OPERATION] |= kernels.LAST
    add_segment(state, SEGMENTS, 7, SEGMENTS + kernels.START, operation=10)
    add_segment(state, SEGMENTS + kernels.START, 11, SEGMENTS, operation=0)
    first, second = kernels.FIRST_STATE, kernels.FIRST_STATE + kernels.START
    link_up(
        state,
        {
            (first, 0x1010, 8): (second, 1),
            (second, 0x1000, 8): (first, 0),
            (first, 0x1020, 8): (first, 0),
            (first, 0x1030, 8): (first, 0),
            (first, 0x1040, 8): (second, 9),
        },
    )
    events = [0x1010, 0x1000, 0x1020, 0x1030, 0x1040, 0x1000] * 5 + [0x9000]
    addresses = np.array(events, np.int64)
    outcome = replay(state.address, addresses, addresses * 0 + 8, 0)
    arrays = [state.clock[: kernels.ROWS_POINTER], *state[1:]]
    return [list(outcome), *[array.tolist() for array in arrays]]


def test_plain_python_does_what_compiled_code_does() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    plain = subprocess.run(
        [sys.executable, "-c", PLAIN], cwd=ROOT, env=environment, capture_output=True, check=True
    )
    assert json.loads(plain.stdout) == scenario()
    assert scenario()[0] == [30, kernels.MISS]


@pytest.mark.skipif(kernels.PLAIN, reason="the hook is machine code")
@pytest.mark.parametrize(("limit", "done"), [(15, 1), (16, 2), (17, 2), (23, 2), (24, 3)])
def test_events_are_charged_up_to_the_limit_and_not_beyond(limit: int, done: int) -> None:
    """Three blocks of eight instructions; the hook stops the engine at the first that is beyond."""
    state = make_state()
    first = kernels.FIRST_STATE
    link_up(state, {(first, 0x1000, 32): (first, 0)})
    state.clock[kernels.LIMIT] = limit
    stops: list[int] = []

    def stop(engine: int) -> int:
        stops.append(engine)
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(stop)
    following = np.array([0x1004], np.int64)
    state.clock[kernels.NPC_POINTER] = following.ctypes.data
    state.clock[kernels.STOP_FUNCTION] = ctypes.cast(function, ctypes.c_void_p).value or 0
    state.clock[kernels.ENGINE] = 7
    words = ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32, ctypes.c_int64
    hook = ctypes.CFUNCTYPE(None, *words)(block_kernel.block_hook_address())
    for _ in range(3):
        hook(7, 0x1000, 32, state.address)
    assert state.clock[kernels.INSTRUCTIONS] == 8 * done
    assert stops == [7] * (3 - done)


@pytest.mark.parametrize(
    ("address", "windows", "status", "moved"),
    [
        (0x1008, 0, kernels.OK, [1]),
        (0x1008, 1, kernels.OK, []),
        (0x100C, 0, kernels.MISMATCH, []),
    ],
)
def test_a_return_fetches_its_callers_window_if_that_is_missing(
    address: int, windows: int, status: int, moved: list[int]
) -> None:
    move = kernels.WINDOW, kernels.CAN_RESTORE, 0
    returning = joined([(kernels.RETURN, 0, 0), move])
    assert len(returning) == 1
    assert joined([(kernels.RETURN, 0, 0), (kernels.ADD, 1, 0), move])[0] == returning[0]
    state = make_state([(kernels.CALL, 0x1008, 0), *returning])
    state.operations[kernels.OPERATION] |= kernels.LAST
    moves: list[int] = []
    mover = MOVER(lambda words, is_fill, unused: moves.append(is_fill))
    held = np.array([windows], np.int64)
    state.clock[kernels.CAN_RESTORE] = held.ctypes.data
    state.clock[kernels.WINDOW_MOVER] = ctypes.cast(mover, ctypes.c_void_p).value or 0
    assert block_kernel.execute(state.address, 1, 0) == kernels.OK
    assert block_kernel.execute(state.address, 2, address) == status
    assert moves == moved


@pytest.mark.parametrize(("windows", "moved"), [(0, [0]), (1, [])])
def test_an_addition_makes_room_for_a_window_if_there_is_none(
    windows: int, moved: list[int]
) -> None:
    adding = joined([(kernels.ADD, 3, 0), (kernels.WINDOW, kernels.CAN_SAVE, 0)])
    assert len(adding) == 1
    state = make_state(adding)
    moves: list[int] = []
    mover = MOVER(lambda words, is_fill, unused: moves.append(is_fill))
    held = np.array([windows], np.int64)
    state.clock[kernels.CAN_SAVE] = held.ctypes.data
    state.clock[kernels.WINDOW_MOVER] = ctypes.cast(mover, ctypes.c_void_p).value or 0
    assert block_kernel.execute(state.address, 1, 0) == kernels.OK
    assert state.frames[kernels.FRAME_PATH] == 3
    assert moves == moved
