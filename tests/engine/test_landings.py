"""Landings in native code: on random stacks, the same as in Python, or nothing at all."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simprof.profiler.engine import kernels, landing_kernel
from simprof.profiler.engine.activations import ENDED_BIT, SIGNAL_BIT, Landings
from simprof.profiler.engine.walk import UNKNOWN, Cross, MissingEntry, Step
from tests.support.activations import DEPTH, Stack
from tests.support.event_player import MASK

OPERATION = 1
PLACES = ("main", "deeper", "back", "last", "f", "inner", "g", "last+1")
RETURNS = ("back", "last", "inner", "g", "last+1")


@dataclass(frozen=True)
class _Landing:
    """Where control arrives and what it left."""

    place: str
    pointer: int
    block: str | None
    returned: bool


class _Natives:
    """A stack with native landings; `entry` are the steps of the last entry that was noted."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.entries: list[tuple[Step, ...]] = []
        tally = stack.tally
        index = stack.graphs.index
        self.landings = Landings(stack.memory, index, tally, MASK, self._operation)
        stack.activations.on_end = self.landings.add_end
        stack.memory.add_operations([(kernels.RETURN, 0, 0)])

    def _operation(self, steps: tuple[Step, ...]) -> int:
        self.entries.append(steps)
        return 100 + len(self.entries)

    def add(self, landing: _Landing) -> None:
        """Note the landing as one that Python has handled."""
        graphs = self.stack.graphs
        block = graphs.block(landing.block) if landing.block and not landing.returned else UNKNOWN
        uncrossed = (0,) if landing.returned else None
        self.landings.add(OPERATION, graphs.address(landing.place), block, uncrossed)

    def land(self, landing: _Landing) -> int:
        """Land natively."""
        self.stack.pointer = landing.pointer
        address = self.stack.graphs.address(landing.place)
        return landing_kernel.land(self.stack.memory.address, OPERATION, address)


def _fill(stack: Stack, source: random.Random) -> None:
    """Push random activations; most of their stack pointers go down."""
    pointer = 0x9000
    for _ in range(source.randrange(DEPTH)):
        pointer += source.choice((-0x1000, -0x1000, -0x1000, 0, 0x800, 0x40000, MASK // 2))
        stack.push(source.choice(RETURNS), pointer & MASK >> 1, source.choice((0, 3, 1 << 61)))
        frame = stack.activations.current
        bits = source.choice((0,) * 12 + (ENDED_BIT,) * 3 + (SIGNAL_BIT,))
        stack.memory.state.frames[frame + kernels.FRAME_RETURN] |= bits
        if bits == SIGNAL_BIT:  # of the first record
            stack.memory.state.frames[frame + kernels.FRAME_RETURN] = bits


def _random_landing(source: random.Random) -> _Landing:
    block = source.choice((None, "main", "f", "g"))
    pointer = 0x200 * source.randrange(0x60)
    return _Landing(source.choice(PLACES), pointer, block, source.random() < 0.5)


def _python(stack: Stack, landing: _Landing) -> None:
    block = stack.graphs.block(landing.block) if landing.block else UNKNOWN
    stack.land(landing.place, landing.pointer, block, returned=landing.returned)


def _made(seed: int) -> tuple[Stack, _Landing]:
    source = random.Random(seed)
    stack = Stack(entries=["last"])
    stack.interrupt(stack.graphs.block("f"), stack.graphs.address("f"))
    _fill(stack, source)
    return stack, _random_landing(source)


def _compare(seed: int) -> bool | None:
    """Whether native code did it; if so, it did what Python does, and nothing otherwise.

    None where a coroutine begins: Python handles all landings from then on.
    """
    expected, landing = _made(seed)
    native, _ = _made(seed)
    natives = _Natives(native)
    frames, current = native.memory.state.frames.copy(), native.activations.current
    _python(native, landing)
    if native.activations.stacks.has_any:
        return None
    natives.add(landing)
    native.memory.state.frames[:] = frames
    native.activations.current = current
    native.tally.early.clear()
    entry = natives.land(landing)
    natives.landings.collect()
    if entry == landing_kernel.NOTHING_DONE:
        assert native.memory.state.frames.tolist() == frames.tolist()
        assert native.activations.current == current
        assert native.tally.early == Counter()
        return False
    _python(expected, landing)
    assert native.memory.state.frames.tolist() == expected.memory.state.frames.tolist()
    assert native.activations.current == expected.activations.current
    assert native.tally.early == expected.tally.early
    assert list(native.tally.missing.elements()) == expected.missing
    crossed = Counter(native.tally.crossed)
    if landing.returned:
        crossed[0] += 1  # the edge behind its RETURN
    names = native.graphs.edge_names()
    assert {names[edge] for edge, count in crossed.items() if count} == {
        name for name, _ in expected.crossed
    }
    if expected.crossed:
        assert natives.entries[entry - 101] == (Cross(names.index(expected.crossed[0][0])),)
    else:
        assert entry == 0
    return True


@pytest.mark.long
@given(st.integers(min_value=0))
def test_native_landings_are_pythons(seed: int) -> None:
    _compare(seed)


@pytest.mark.long
def test_most_landings_are_native() -> None:
    """Only handlers in between, and returns that the graphs do not know, need Python."""
    landings = [native for seed in range(400) if (native := _compare(seed)) is not None]
    assert len(landings) > 200
    assert 2 * sum(landings) > len(landings)


def test_an_end_that_was_never_met_is_left_to_python() -> None:
    """As long as native code has no row to count it in."""
    stack, landing = Stack(entries=["last"]), _Landing("last", 0x8800, "g", returned=False)
    natives = _Natives(stack)
    stack.push("back", 0x9000)
    stack.push("back", 0x8000)
    natives.add(landing)
    assert natives.land(landing) == landing_kernel.NOTHING_DONE
    assert stack.depth == 2
    frames, current = stack.memory.state.frames.copy(), stack.activations.current
    _python(stack, landing)
    stack.memory.state.frames[:] = frames
    stack.activations.current = current
    assert natives.land(landing) != landing_kernel.NOTHING_DONE
    assert stack.depth == 1
    natives.landings.collect()
    assert set(stack.tally.early.values()) == {2}


@pytest.mark.long
def test_many_ends_and_landings_find_room() -> None:
    """The tables grow, and keep what they have counted."""
    stack, landing = Stack(entries=["last"]), _Landing("last", 0x9800, "g", returned=False)
    natives = _Natives(stack)
    for register in range(3000):
        stack.memory.state.operations[kernels.OPERATION * OPERATION + 2] = 0
        natives.add(landing)
        stack.push("back", 0x9000, register << 40)
        _python(stack, landing)
        stack.activations.current = 0
        stack.push("back", 0x9000, register << 40)
        assert natives.land(landing) != landing_kernel.NOTHING_DONE
        assert stack.depth == 0
    natives.landings.collect()
    entry = next(edge for edge in stack.tally.crossed)
    assert stack.tally.crossed[entry] == 3000
    by_register = Counter(end.register for end in stack.tally.early.elements() if end.register)
    assert set(by_register.values()) == {2}
    assert len(by_register) == 2999


def test_a_handler_that_returns_goes_on_at_its_signals_trampoline() -> None:
    """In the same frame, which `sigreturn` drops; one landing is noted for all of them."""
    stack, landing = Stack(entries=["last"]), _Landing("last", 0x200, None, returned=True)
    natives = _Natives(stack)
    record = stack.interrupt(stack.graphs.block("f"), stack.graphs.address("f"))
    stack.activations.enter_handler(record, 0x9000, stack.graphs.address("g"))
    for _ in range(3):
        natives.add(landing)
        assert natives.land(landing) == 101
        assert stack.depth == 1
    assert len(natives.entries) == 1
    natives.landings.collect()
    names = stack.graphs.edge_names()
    assert stack.tally.crossed[names.index("ENTRY>last")] == 3
    assert stack.tally.early == {}


def test_a_landing_that_the_graphs_lack_is_reported_each_time() -> None:
    stack, landing = Stack(), _Landing("last", 0x9800, None, returned=False)
    natives = _Natives(stack)
    for _ in range(3):
        stack.push("back", 0x9000)
        if not natives.entries and stack.memory.state.operations[5] == 0:
            _python(stack, landing)
            natives.add(landing)
        else:
            assert natives.land(landing) == 0
    natives.landings.collect()
    assert stack.missing == [MissingEntry(stack.graphs.address("last"), again=True)]
    assert stack.tally.missing == {stack.missing[0]: 2}
