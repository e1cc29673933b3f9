"""Memory of instrumented programs and counter files, made word by word as they are described."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simprof.profiler.code.hash_routine import key_code
from simprof.profiler.code.layout import CounterSpace
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.rewriting.elsewhere import counter_file as cf
from simprof.profiler.rewriting.elsewhere.counter_file import table_bytes
from simprof.profiler.rewriting.elsewhere.memory import (
    PlacedPlan,
    differences,
    placed,
    program_memory,
)
from simprof.profiler.rewriting.elsewhere.runtime import StartMemory
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.scheme_runs import SchemeRun
from tests.support.code_bench import SPANS, CodeBench


def prepare(bench: CodeBench, memory: StartMemory) -> None:
    """Do what the start of an instrumented program does: map, and fill."""
    for address, size in memory.regions:
        base = max(base for base in SPANS if base <= address)
        bench.write(address, bytes(min(size, base + SPANS[base] - address)))
    for address, data in memory.fills:
        bench.write(address, data)


def content_of(
    header: bytes,
    regions: Sequence[Mapping[str, Any]],
    read: Callable[[int, int], bytes],
    frames: Sequence[int] = (),
    width: int = 8,
    end: int = 0x100,
) -> bytes:
    """Do what the end of an instrumented program does: return its counter file.

    `regions` are those of the header, as it has them.
    """
    parts = [header]
    for region in regions:
        address, size = region["address"], region["size"]
        if region["kind"] == "table":
            end = {1: 28, 2: 36, 3: 44, 4: 52}[region.get("words", 1)]
            size = int.from_bytes(read(address + end, 4), "big") - address
        parts.append(read(address, size))
    parts += [len(frames).to_bytes(4, "big"), end.to_bytes(4, "big")]
    parts += [frame.to_bytes(width, "big") for frame in frames]
    return b"".join([*parts, b"simprof\n"])


def header_fields(header: bytes) -> dict[str, Any]:
    """Return the JSON object in the first two lines of a counter file."""
    kind, text, rest = header.split(b"\n")
    assert (kind, rest) == (b"simprof-counters/2", b"")
    fields: dict[str, Any] = json.loads(text)
    return fields


class Image:
    """The memory that an instrumented program would leave, from the simulated counters of a run.

    All routines that were entered are instrumented.
    """

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
        counters, plan = self.observation.counters(self.scheme, number), code.plan
        paths = dict(counters.paths)
        if -1 in paths:
            self.words[code.layout.named] = paths.pop(-1)
        if plan.table is CounterTable.HASH:
            assert code.table is not None
            words = code.table.words
            keys = {key_code(path, words): count for path, count in paths.items()}
            self.tables[code.layout.path_base] = table_bytes(code.table, keys)
        else:
            self.words |= {code.layout.path_base + 4 * n: count for n, count in paths.items()}
        for at in range(plan.edge_counters):
            self.words[code.layout.edge_base + 4 * at] = counters.events[at]
        for at, (address, _) in enumerate(code.slots):
            self.words[address + 4] = counters.events[plan.edge_counters + at]

    def read(self, address: int, size: int) -> bytes:
        """Return memory, word by word."""
        for base, table in self.tables.items():
            if base <= address < base + len(table):
                return table[address - base : address - base + size]
        words = (self.words.get(at, 0) for at in range(address, address + size, 4))
        return b"".join(word.to_bytes(4, "big") for word in words)

    def content(
        self,
        frames: Sequence[int] = (),
        *,
        options: Mapping[str, Any] | None = None,
        more: Mapping[str, Any] | None = None,  # fields of the recipe
        changed: Mapping[str, Any] | None = None,  # fields of the JSON
    ) -> bytes:
        """The counter file of this memory."""
        program, regions = self.observation.program, self.memory.dumped
        header = cf.CounterRecipe(
            program=cf.InstrumentedProgram(str(program.path), program.sha256, program.machine),
            mode=self.scheme.setting.mode,
            options=options or {},
            regions=regions,
            **(more or {}),
        ).header()
        fields = header_fields(header)
        if changed:
            text = json.dumps(fields | dict(changed))
            header = cf.FIRST_LINE + text.encode() + b"\n"
        described = fields["regions"]
        width = 8 if program.is64 else 4
        return content_of(header, described, self.read, frames, width)

    def differences(self) -> list[str]:
        """Compare a file of this memory with the run."""
        file = cf.parse(self.content())
        return differences(self.observation, self.scheme, self.codes, file)

    def name(self, number: int) -> str:
        """The name of routine number `number`."""
        return self.observation.recovered.routines[number].name

    def first(self, wanted: Callable[[PlacedPlan], bool]) -> tuple[int, PlacedPlan]:
        """The first routine of a kind."""
        return next(item for item in self.codes.items() if wanted(item[1]))
