"""Counters of a program against those simulated: equal ones, and each kind of difference named.

There is no instrumented program here: its counter file is written from the simulated counters, word
by word, and then spoiled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.rewriting.elsewhere.counter_file import table_bytes
from simprof.profiler.session import session
from simprof.profiler.session.observation import Observation
from tests.support.counter_images import Image

Find = Callable[..., Path]
SETTINGS = {
    "pp": SchemeOptions(),
    "pp-hash": SchemeOptions(table=TableChoice.HASH),
    "tpp": SchemeOptions.of(cold_always=True, cold=40, count_obvious=True),
    "ppp": SchemeOptions.of(skip=0.0, global_cold=0.0, loop=0.0),
    "kiter": SchemeOptions(),
    "bittrace": SchemeOptions(),
    "fifo": SchemeOptions.of(branches=4),
    "qpt": SchemeOptions(),
    "qpt2": SchemeOptions(),
    "naive": SchemeOptions(),
    "calls": SchemeOptions(),
    "calls-optimal": SchemeOptions(),
    "witness": SchemeOptions(),
}


@pytest.fixture(scope="module", params=["v9", "v8"])
def observation(fixture_elf: Find, request: pytest.FixtureRequest) -> Observation:
    """A run of `words` under all settings."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        program = fixture_elf("words", request.param)
        guest = GuestOptions(
            root=program.parent, stdin=Path(os.devnull), stdout=null, stderr=null
        )  # fmt: skip
        settings = [Setting(name, name.split("-h")[0], SETTINGS[name]) for name in SETTINGS]
        return session.observe(RunRequest(program, guest), settings)
    finally:
        os.close(null)


@pytest.mark.parametrize("name", SETTINGS)
def test_what_was_simulated_is_no_difference(observation: Observation, name: str) -> None:
    image = Image(observation, name)
    assert image.differences() == []
    assert any([*image.words.values(), *image.tables]) or name == "witness"


def test_a_path_counter_that_differs(observation: Observation) -> None:
    image = Image(observation, "pp")
    number, code = image.first(lambda code: code.plan.table is CounterTable.ARRAY)
    address = code.layout.path_counter(code.plan.path_counters - 1)
    before = image.words.get(address, 0)
    image.words[address] = 123456
    path = code.plan.path_counters - 1
    line = f"{image.name(number)}: the counter of path {path} holds 123456, not {before}"
    assert image.differences() == [line]


def test_a_path_that_is_missing_in_a_table(observation: Observation) -> None:
    image = Image(observation, "pp-hash")
    number, code = image.first(lambda code: len(image.tables[code.layout.path_base]) > 2080)
    assert code.table is not None
    counted = dict(observation.counters(image.scheme, number).paths)
    image.tables[code.layout.path_base] = table_bytes(code.table, {})
    (line,) = image.differences()
    path = min(counted)
    start = f"{image.name(number)}: the counter of path {path} holds 0, not {counted[path]}"
    assert line.startswith(start)
    assert line.count(" holds ") == min(len(counted), 3)
    assert line.endswith(f"; and {len(counted) - 3} more") or len(counted) <= 3


def test_edge_counters_and_pairs_that_differ(observation: Observation) -> None:
    image = Image(observation, "naive")
    number, code = image.first(lambda code: code.plan.edge_counters > 1)
    before = image.words[code.layout.edge_counter(1)]
    image.words[code.layout.edge_counter(1)] += 1 << 31
    now = (before + (1 << 31)) % (1 << 32)
    line = f"{image.name(number)}: edge counter 1 holds {now}, not {before}"
    assert image.differences() == [line]
    image = Image(observation, "calls")
    number, code = image.first(lambda code: len(code.slots) > 1)
    before = image.words[code.slots[1].address + 4]
    image.words[code.slots[1].address + 4] = before + 1
    edge = code.plan.slot_edges[1]
    line = f"{image.name(number)}: the counter of the calls for edge {edge} holds"
    assert image.differences() == [f"{line} {before + 1}, not {before}"]


def test_every_routine_that_differs_has_a_line(observation: Observation) -> None:
    image = Image(observation, "naive")
    entered = [number for number in image.codes if sum(observation.events[number].edges)]
    image.words.clear()
    lines = image.differences()
    assert [line.partition(":")[0] for line in lines] == [image.name(n) for n in entered]


def test_a_routine_that_was_not_entered_has_counted_nothing(observation: Observation) -> None:
    image = Image(observation, "naive")
    absent = next(
        number
        for number in range(len(observation.recovered.routines))
        if number not in observation.events
    )
    image.codes[absent] = next(iter(image.codes.values()))  # whose counters are not 0
    (line,) = image.differences()
    assert line.startswith(f"{image.name(absent)}: edge counter ")
    assert ", not 0" in line
