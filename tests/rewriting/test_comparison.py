"""Counters of a program against those simulated: equal ones, and each kind of difference named.

There is no instrumented program here: its counter file is written from the simulated counters, word
by word, and then spoiled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler.code.layout import CounterSpace
from profiler.code.runtime.word_hash_routine import key_code
from profiler.plan.actions import COLD_COUNTER
from profiler.plan.plan import Table
from profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting, TableChoice
from profiler.rewriting import counter_file as cf
from profiler.rewriting.memory import PlacedPlan, differences, placed, program_memory
from profiler.rewriting.tables import table_bytes
from profiler.session import session
from profiler.session.observation import Observation
from profiler.session.scheme_runs import SchemeRun
from tests.support.counter_images import content_of, header_fields

Find = Callable[..., Path]
SETTINGS = {
    "pp": SchemeOptions(),
    "pp-hash": SchemeOptions(table=TableChoice.HASH),
    "tpp": SchemeOptions(cold_always=True, cold=40, count_obvious=True),
    "kiter": SchemeOptions(),
    "bittrace": SchemeOptions(),
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


class Image:
    """The memory that an instrumented program would leave."""

    def __init__(self, observation: Observation, name: str) -> None:
        self.observation = observation
        self.scheme: SchemeRun = next(s for s in observation.schemes if s.name == name)
        self.codes: dict[int, PlacedPlan] = {}
        space = CounterSpace()
        for number in sorted(observation.events):
            plan = self.scheme.routine_plan(number)
            assert plan is not None
            layout = space.place(plan.plan)
            self.codes[number] = placed(self.scheme.definition, plan, layout)
        self.memory = program_memory(self.codes)
        self.words: dict[int, int] = {}
        self.tables: dict[int, bytes] = {}
        for number, code in self.codes.items():
            self._write(number, code)

    def _write(self, number: int, code: PlacedPlan) -> None:
        counters, plan = self.observation.counters.of(self.scheme, number), code.plan
        paths = dict(counters.paths)
        if COLD_COUNTER in paths:
            self.words[code.layout.cold] = paths.pop(COLD_COUNTER)
        if plan.table is Table.HASH:
            assert code.table is not None
            words = code.table.words
            keys = {key_code(path, words): count for path, count in paths.items()}
            self.tables[code.layout.path_base] = table_bytes(code.table, keys)
        else:
            self.words |= {code.layout.path_base + 4 * n: count for n, count in paths.items()}
        for at in range(plan.edge_counters):
            self.words[code.layout.edge_base + 4 * at] = counters.events[at]
        for at, (address, _) in enumerate(code.pairs):
            self.words[address + 4] = counters.events[plan.edge_counters + at]

    def read(self, address: int, size: int) -> bytes:
        """Return memory, word by word."""
        for base, table in self.tables.items():
            if base <= address < base + len(table):
                return table[address - base : address - base + size]
        words = (self.words.get(at, 0) for at in range(address, address + size, 4))
        return b"".join(word.to_bytes(4, "big") for word in words)

    def differences(self) -> list[str]:
        """Compare a file of this memory with the run."""
        program, regions = self.observation.program, self.memory.regions
        header = cf.header(
            file="f", sha256="", machine=program.machine, mode="m", options={}, regions=regions
        )
        described = header_fields(header)["regions"]
        width = 8 if program.is64 else 4
        file = cf.parse(content_of(header, described, self.read, (), width))
        return differences(self.observation, self.scheme, self.codes, file)

    def name(self, number: int) -> str:
        """The name of routine number `number`."""
        return self.observation.recovered.routines[number].name

    def first(self, wanted: Callable[[PlacedPlan], bool]) -> tuple[int, PlacedPlan]:
        """The first routine of a kind."""
        return next(item for item in self.codes.items() if wanted(item[1]))


@pytest.mark.parametrize("name", SETTINGS)
def test_what_was_simulated_is_no_difference(observation: Observation, name: str) -> None:
    image = Image(observation, name)
    assert image.differences() == []
    assert any([*image.words.values(), *image.tables]) or name == "witness"


def test_a_path_counter_that_differs(observation: Observation) -> None:
    image = Image(observation, "pp")
    number, code = image.first(lambda code: code.plan.table is Table.ARRAY)
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
    counted = dict(observation.counters.of(image.scheme, number).paths)
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
    number, code = image.first(lambda code: len(code.pairs) > 1)
    before = image.words[code.pairs[1].address + 4]
    image.words[code.pairs[1].address + 4] = before + 1
    edge = code.plan.pair_edges[1]
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
