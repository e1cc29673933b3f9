"""What a scheme's counters say against what the run saw, and counters too large for 32 bits."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.plan.decoders import Reading, RoutineCounters
from simprof.profiler.request.errors import CountError
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session import session
from simprof.profiler.session.counters import RoutineEvents, check_reading
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.results import measure_all
from tests.support.figures import named

Find = Callable[..., Path]
CFG = named("A>B A>C B>C", "A", "C", "f")
COUNTS = (3, 5, 3, 8, 8)
"""Of A>B, A>C, B>C, ENTRY>A, C>EXIT."""
BLOCKS = (8, 3, 8)
EVENTS = RoutineEvents(CFG, COUNTS, ())
DEFECT = "this is a defect of simprof, please report the program"


def raised(counts: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*counts[:place], counts[place] + 1, *counts[place + 1 :])


def test_equal_counts_are_passed() -> None:
    check_reading(EVENTS, "m", Reading(edges=COUNTS))
    check_reading(EVENTS, "m", Reading(edges=COUNTS, blocks=BLOCKS))
    check_reading(EVENTS, "m", Reading(edges=None, blocks=BLOCKS))
    check_reading(EVENTS, "m", Reading(edges=None))


def test_a_block_that_a_scheme_tells_nothing_of_may_have_any_count() -> None:
    check_reading(EVENTS, "m", Reading(edges=None, blocks=(8, None, 8)))


@pytest.mark.parametrize(
    ("place", "name"), list(enumerate(["A -> B", "A -> C", "B -> C", "ENTRY -> A", "C -> EXIT"]))
)
def test_each_edge_is_compared(place: int, name: str) -> None:
    message = f"^f: m counts {COUNTS[place] + 1} for edge {name}, which was executed "
    with pytest.raises(CountError, match=f"{message}{COUNTS[place]} times: {DEFECT}$"):
        check_reading(EVENTS, "m", Reading(edges=raised(COUNTS, place)))


@pytest.mark.parametrize(("place", "name"), list(enumerate("ABC")))
def test_each_block_is_compared(place: int, name: str) -> None:
    message = f"^f: m counts {BLOCKS[place] + 1} for block {name}, which was executed "
    with pytest.raises(CountError, match=f"{message}{BLOCKS[place]} times: {DEFECT}$"):
        check_reading(EVENTS, "m", Reading(edges=None, blocks=raised(BLOCKS, place)))


def test_a_count_of_0_is_a_count() -> None:
    with pytest.raises(CountError, match="m counts 0 for block B, which was executed 3 times"):
        check_reading(EVENTS, "m", Reading(edges=None, blocks=(8, 0, 8)))


# In a run


@pytest.fixture(scope="module")
def observation(fixture_elf: Find) -> Observation:
    """A run of `words` under a scheme of edge counters and one of block counters."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        program = fixture_elf("words")
        guest = GuestOptions(
            root=program.parent, stdin=Path(os.devnull), stdout=null, stderr=null
        )  # fmt: skip
        settings = [Setting(mode, mode, SchemeOptions()) for mode in ("naive", "qpt")]
        return session.observe(RunRequest(program, guest), settings)
    finally:
        os.close(null)


@pytest.mark.parametrize("mode", ["naive", "qpt"])
def test_every_reading_of_a_run_is_compared(
    observation: Observation, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder that adds one to the first count of each routine."""
    scheme = next(each for each in observation.schemes if each.name == mode)
    plan = scheme.routine_plan(next(iter(observation.events)))
    assert plan is not None
    kind = type(plan)
    correct = kind.read

    def misread(self: object, counters: RoutineCounters) -> Reading:
        reading = correct(self, counters)  # type: ignore[arg-type]
        if reading.all_edges is None:
            assert reading.blocks is not None and reading.blocks[0] is not None
            return replace(reading, blocks=(reading.blocks[0] + 1, *reading.blocks[1:]))
        return replace(reading, edges=raised(reading.all_edges, 0))

    measure_all(observation)
    monkeypatch.setattr(kind, "read", misread)
    with pytest.raises(CountError, match=f"{mode} counts .*: {DEFECT}$"):
        measure_all(observation)


def test_the_largest_counter_is_that_of_paths_or_events() -> None:
    assert RoutineCounters({}, ()).largest == 0
    assert RoutineCounters({0: 4, 7: 9}, (5, 6)).largest == 9
    assert RoutineCounters({0: 4}, (5, 6)).largest == 6


@pytest.mark.parametrize(
    ("largest", "wraps"), [(2**31, False), (2**32 - 1, False), (2**32, True), (2**40, True)]
)
def test_a_counter_of_32_bits_wraps_at_2_to_the_32(
    observation: Observation, monkeypatch: pytest.MonkeyPatch, largest: int, wraps: bool
) -> None:
    """It holds 4,294,967,295, and is 0 after one more."""
    monkeypatch.setattr(RoutineCounters, "largest", largest)
    for measurement in measure_all(observation):
        warned = [line for line in measurement.warnings if line.startswith("32-bit counters")]
        assert len(warned) == wraps
        assert all("would have wrapped in " in line for line in warned)
