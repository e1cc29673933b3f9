"""Shared by tests: what `tests/rewriting/test_reading.py` and others use."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.profiles import storage
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.profiler.request import request
from simprof.profiler.rewriting.elsewhere.counter_file import CounterFile, parse
from simprof.profiler.rewriting.elsewhere.recipe import option_fields
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session import session
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.results import measure_all
from simprof.profiler.trace.calls import Callees, Exit
from simprof.profiler.trace.format import discovery_fields
from tests.support.counter_images import Image

Find = Callable[..., Path]

SETTINGS = {
    "pp": request.SchemeOptions(),
    "pp-hash": request.SchemeOptions(table=request.TableChoice.HASH),
    "tpp": request.SchemeOptions.of(cold_always=True, cold=40, count_obvious=True),
    "kiter": request.SchemeOptions.of(iterations=3),
    "bittrace": request.SchemeOptions(),
    "fifo": request.SchemeOptions(),
    "qpt2": request.SchemeOptions(),
    "naive": request.SchemeOptions(),
    "calls": request.SchemeOptions(),
    "calls-optimal": request.SchemeOptions(),
    "qpt": request.SchemeOptions(),
    "witness": request.SchemeOptions(),
    "bits": request.SchemeOptions(),
    "bytes": request.SchemeOptions(),
    "block-trace": request.SchemeOptions(),
}


@dataclass(frozen=True)
class Observed:
    """A simulated run, and the counter files that its program would write, instrumented."""

    observation: Observation

    def image(self, name: str) -> Image:
        """The memory of the program instrumented under one setting."""
        return Image(self.observation, name)

    def file(self, name: str, **changed: Any) -> CounterFile:
        """The counter file of the program instrumented under one setting, read."""
        return parse(self.content(name, **changed), "out")

    def content(self, name: str, **changed: Any) -> bytes:
        """The counter file of the program instrumented under one setting."""
        image = self.image(name)
        setting = image.scheme.setting
        edges = {n: events.edges for n, events in self.observation.events.items()}
        more = {
            "discoveries": discovery_fields(self.observation.discoveries),
            "routines": tuple(image.codes),
            "edge_counts": edges if setting.mode == "tpp" else {},
            "trace": definition(setting.mode).code().stream is not None,
        }
        frames = changed.pop("frames", self.frames())
        words = changed.pop("words", {})
        image.words |= words
        options = option_fields(setting.options)
        return image.content(frames, options=options, more=more, changed=changed)

    def frames(self) -> list[int]:
        """The stack at the run's end: the calls in which activations wait."""
        calls = [0]
        for events in self.observation.events.values():
            for block, count in events.early.items():
                calls += [events.cfg.blocks[block].end - 8] * count
        return calls

    def stack(self) -> list[int]:
        """The stack of a fixture's end: its exit is in a routine without a window."""
        recovered = self.observation.recovered
        index = GraphIndex(recovered)
        callees = Callees(index)
        leaf = next(cfg.address for cfg in recovered.routines if cfg.name == "system_exit")
        (call,) = (
            block
            for block, edge in enumerate(index.exit_edge)
            if edge >= 0 and callees.exit(edge) == (Exit.CALL, callees.entry(leaf))
        )
        return [index.block_end(call) - 8, *self.frames()[1:]]

    def simulated(self, name: str) -> RunMeasurement:
        """The profile that the run itself saves."""
        scheme = next(s for s in self.observation.schemes if s.name == name)
        (measurement,) = measure_all(replace(self.observation, schemes=(scheme,)))
        return measurement


def observe(program: Path, names: Sequence[str] = tuple(SETTINGS)) -> Observed:
    """Run a program under these settings."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        guest = request.GuestOptions(
            root=program.parent, stdin=Path(os.devnull), stdout=null, stderr=null
        )  # fmt: skip
        settings = [request.Setting(name, name.split("-h")[0], SETTINGS[name]) for name in names]
        observation = session.observe(request.RunRequest(program, guest), settings)
    finally:
        os.close(null)
    return Observed(observation)


def counted(routine: RoutineProfile, mode: str) -> RoutineProfile:
    """A routine without what counters do not tell: what hash tables and conditional code cost.

    Only kiter has code on edges of which a part is executed under a condition.
    """
    edges = routine.edge_counts
    if mode == "kiter":
        edges = tuple(replace(edge, added=0) for edge in edges)
    return replace(routine, added=0, edge_counts=edges)


def compare(read: RunMeasurement, wanted: RunMeasurement) -> None:
    """Compare all that counters tell."""
    assert [routine.key for routine in read.routines] == [r.key for r in wanted.routines]
    for ours, theirs in zip(read.routines, wanted.routines, strict=True):
        assert counted(ours, read.mode) == counted(theirs, read.mode)
    assert (read.base, read.mode, read.lines) == (wanted.base, wanted.mode, wanted.lines)
    assert read.program == replace(wanted.program, arguments=())
    storage.validate(read)


LEAVES = """
#include <stdlib.h>
static volatile int sink;
__attribute__((noinline)) static void work(int n) { for (int i = 0; i < n; i++) sink += i & 3; }
__attribute__((noinline)) static int stop(int n) {
    work(n);
    if (n == 7) exit(3);
    return n;
}
__attribute__((noinline)) static int middle(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += stop(i);
    return sum;
}
int main(int argc, char **argv) {
    work(argc);
    sink += middle(9 + argc);
    return sink & 1;
}
"""


def waiting(run: Observed) -> set[str]:
    routines = run.observation.recovered.routines
    return {routines[n].name for n, events in run.observation.events.items() if events.early}
