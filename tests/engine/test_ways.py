"""Ways that earlier runs have taken: their operations, and runs that know them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import Lowering, StepOperations, cost_words
from simprof.profiler.engine.memory import EdgeOperations, Operation
from simprof.profiler.engine.walk import (
    BEGINNING,
    Cross,
    Land,
    MissingEntry,
    Pop,
    Push,
    Step,
    Walker,
)
from simprof.profiler.engine.ways import KnownWays, LearntWays, WaysToKeep
from simprof.profiler.profiles.cache_files import CacheFiles, dumps, loads
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.session import session
from simprof.profiler.session.session import compare_program
from simprof.simulator.binary.program import MachineKind
from tests.support.operation_lists import fuse
from tests.support.turns import first

MASK = (1 << 64) - 1
ROUTINES, EDGES = 6, 8
MOVES: tuple[tuple[Operation, ...], ...] = (
    (),
    ((kernels.WINDOW, kernels.CAN_SAVE, 0),),
    ((kernels.WINDOW, kernels.CAN_RESTORE, 0),),
)


class _Given(Lowering):
    """Has operations by edge that are given, for routines of eight edges each."""

    def __init__(self, given: dict[int, tuple[Operation, ...]]) -> None:
        first = np.arange(ROUTINES + 1) * EDGES
        super().__init__([lambda _: None], (), first, cost_words(MachineKind.SPARCV9), MASK)
        self._given = given

    def _lower(self, routine: int) -> EdgeOperations:
        given = {e: each for e, each in self._given.items() if e // EDGES == routine}
        return EdgeOperations.of(given)

    def words(self, number: int) -> list[Operation]:
        """Return the list of operations that begins with `number`; none where that is 0."""
        found: list[Operation] = []
        while number and (not found or not self.memory.is_last(number - 1)):
            code, a, b = self.memory.state.operations[3 * number : 3 * number + 3].tolist()
            found.append((code & ~kernels.LAST, a, b))
            number += 1
        return found


def _some_operations(generator: random.Random) -> tuple[Operation, ...]:
    hashed = kernels.HASH | generator.randrange(3) << kernels.TABLE_SHIFT
    kinds = [
        (kernels.ADD, generator.randrange(1, 9), 0),
        (kernels.BEGIN, generator.randrange(9), 640),
        (kernels.SEGMENT, generator.randrange(9), generator.randrange(9)),
        (hashed, generator.randrange(99), 1),
    ]
    return tuple(generator.choices(kinds, k=generator.randrange(3)))


def _some_steps(generator: random.Random) -> tuple[Step, ...]:
    def crosses(most: int) -> list[Step]:
        edges = range(ROUTINES * EDGES)
        return [Cross(generator.choice(edges)) for _ in range(generator.randrange(most))]

    middle: list[list[Step]] = [
        [],
        [Push(0x1000 + 8 * generator.randrange(9))],
        [Pop()],
        [Land(0x2000 + 4 * generator.randrange(9), generator.randrange(-1, 4), returned=False)],
        [Land(0x2000, 3, returned=True)],
    ]
    return (*crosses(4), *generator.choice(middle), *crosses(3))


@pytest.mark.seeds(range(20))
def test_known_ways_have_the_operations_of_ways_that_are_met(seed: int) -> None:
    """Each list is that of the steps one by one, joined in Python; counts are of all edges."""
    generator = random.Random(seed)
    given = {edge: _some_operations(generator) for edge in range(ROUTINES * EDGES)}
    given = {edge: each for edge, each in given.items() if each}
    states = [(0x4000 + 16 * number, 16, BEGINNING) for number in range(60)]
    ways = [
        (generator.randrange(-1, 60), 0x9000 + number, generator.randrange(60), steps, move)
        for number in range(300)
        for steps, move in [(_some_steps(generator), generator.choice(MOVES))]
    ]
    first = [way for way in ways if max(way[0], way[2]) < 30]
    half = WaysToKeep(KnownWays.none()).with_more(states[:30], {}, first)
    rest = [way for way in ways if max(way[0], way[2]) >= 30]
    known = loads(dumps(WaysToKeep(half).with_more(states[30:], {}, rest)))
    lowering = _Given(given)
    memory = lowering.memory
    numbers = np.array(memory.new_states(len(states)), np.int64)
    learnt = LearntWays(known, numbers, lowering)
    operations = StepOperations(lowering)
    operations.of_known_ways = learnt.stopped_at
    expected: Counter[int] = Counter()
    for place, key, target, steps, move in generator.sample(ways, 200):
        source = kernels.START if place < 0 else int(numbers[place])
        found = memory.take(source, key)
        edges = [step.edge for step in steps if isinstance(step, Cross)]
        all_lowered = {routine for routine, _ in lowering.lowered} >= {e // EDGES for e in edges}
        assert (found is not None) == all_lowered
        if found is None:
            assert learnt.take_over(source, key)
            found = memory.take(source, key)
        assert found is not None
        expected.update(edges)
        plain: list[Operation] = []
        for step in steps:
            match step:
                case Cross(edge):
                    plain += given.get(edge, ())
                case Push(address):
                    plain.append((kernels.CALL, address, 0))
                case Pop():
                    plain.append((kernels.RETURN, 0, 0))
                case Land():
                    plain.append((kernels.SLOW, 0, 0))
        assert found[0] == numbers[target]
        words = lowering.words(found[1])
        assert words == fuse([*plain, *move])
        for number, (code, _, _) in enumerate(words, found[1]):
            if code == kernels.SLOW:
                assert operations.landing(number) in steps
                assert operations.after_pop(number) == ()
            elif code == kernels.RETURN:
                behind = steps[steps.index(Pop()) :]
                crossed = [step.edge for step in behind if isinstance(step, Cross)]
                assert list(operations.after_pop(number)) == crossed
    assert not learnt.take_over(int(numbers[0]), 0x9000 + 300)
    counts = np.zeros(ROUTINES * EDGES, np.int64)
    learnt.add_edge_counts(counts)
    assert dict(enumerate(counts.tolist())) == {e: expected[e] for e in range(len(counts))}


def test_ways_on_which_the_graphs_lack_something_are_not_kept() -> None:
    both: tuple[Step, ...] = Pop(), Land(1, 2, returned=True)
    ways = [(-1, 1, 0, (MissingEntry(0x10),), ()), (-1, 2, 0, both, ())]
    kept = WaysToKeep(KnownWays.none()).with_more([(16, 16, BEGINNING)], {}, ways)
    assert len(kept.states) == 1 and len(kept.ways) == 0


def test_ways_have_other_numbers_in_graphs_with_more_edges() -> None:
    generator = random.Random(5)
    ways = [(-1, n, 0, tuple(Cross(generator.randrange(50)) for _ in range(9)), ()) for n in (1, 2)]
    known = WaysToKeep(KnownWays.none()).with_more([(16, 16, BEGINNING)], {}, ways)
    added = [0, 7, 8, 30, 57]
    left = [edge for edge in range(60) if edge not in added]
    more = known.with_edges(added)
    for _, key, _, steps, _ in ways:
        found = [step.edge for step in more.sequence(key - 1) if isinstance(step, Cross)]
        assert found == [left[step.edge] for step in steps]
        assert more.without_edges(added).sequence(key - 1) == steps


GUESTS = {"words": (), "bench": (b"1",), "nonlocal": (), "signals": ()}
SETTINGS = (
    [Setting("edges", "edges", SchemeOptions())],
    [Setting("pp", "pp", SchemeOptions())],
    [Setting("hashed", "pp", SchemeOptions(table=TableChoice.HASH))],
    [Setting("tpp", "tpp", SchemeOptions(cold=20.0))],
    [Setting("pp", "pp", SchemeOptions()), Setting("bittrace", "bittrace", SchemeOptions())],
)


@pytest.mark.parametrize("name", first(2, GUESTS, at=2))
def test_a_run_walks_no_way_that_another_mode_has_taken(
    name: str, fixture_elf: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "binaries", lambda: CacheFiles(tmp_path / "cache"))
    stepped: list[int] = []
    step = Walker.step

    def noting(self: Walker, context: object, address: int) -> object:
        stepped.append(address)
        return step(self, context, address)  # type: ignore[arg-type]

    monkeypatch.setattr(Walker, "step", noting)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root=tmp_path, stdin=Path(os.devnull), stdout=nowhere, stderr=nowhere)
    request = RunRequest(fixture_elf(name, "v9"), guest, arguments=GUESTS[name])
    steps = []
    for settings in SETTINGS:
        plain = compare_program(request, settings)
        stepped.clear()
        known = compare_program(replace(request, remember=True), settings)
        steps.append(len(stepped))
        for mine, other in zip(known.measurements, plain.measurements, strict=True):
            runs = {name: other.counts[name] for name in ("runs", "whole_runs")}
            assert replace(mine, counts={**mine.counts, **runs}) == other
    os.close(nowhere)
    if name in ("words", "bench"):  # what signals and jumps interrupt is walked again, in part
        assert steps[0] > 0 and steps[1:] == [0] * 4
    assert max(steps[1:]) < steps[0] / 2
