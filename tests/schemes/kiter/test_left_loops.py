"""Nested loops that are left from inside, by landings and by the exit, under `kiter:outer`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.request.request import SchemeOptions, Setting
from simprof.profiler.schemes.kiter.planner import IterationPlan
from tests.conftest import FIXTURES
from tests.oracles.exact import simulate_settings
from tests.oracles.profiles import check_profiles
from tests.oracles.qemu import trace
from tests.oracles.steps import record

LEAVING = """
#include "runtime.h"
static Landing around;
static volatile unsigned state = 7, left;
static unsigned next(void) { return state = state * 1103515245u + 12345u, state >> 16; }
__attribute__((noinline)) static void leave(int last)
{
    if (last && next() % 5 == 0) system_exit(left & 63);
    if (next() % 40 == 0) { left++; go_to_landing(&around, 1); }
}
__attribute__((noinline)) static unsigned nest(int last)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < 4 + next() % 4; i++) {
        if (next() & 1) sum += 3;
        for (unsigned j = 0; j < 2 + next() % 3; j++) {
            do {
                if (next() & 2) sum ^= 5;
                leave(last && i > 1);
            } while (next() & 1);
            if (next() & 4) leave(0);
        }
        for (unsigned j = next() % 3; j; j--) sum += j;
    }
    return sum;
}
int main(int argc, char **argv)
{
    for (volatile int i = 0; ; i++) {
        if (set_landing(&around)) continue;
        state += nest(i > 12);
    }
}
"""
RUNTIME = FIXTURES / "runtime"
FLAGS = (
    *("-O1", "-nostdlib", "-ffreestanding", "-ffunction-sections", "-Wl,--gc-sections"),
    *(f"-I{RUNTIME}", *map(str, sorted(RUNTIME.glob("*.[cS]")))),
)
"""The fixtures' runtime: a C library's routines take ten times as long to plan."""

OUTER = [
    Setting(f"kiter:outer:k={k}", "kiter", SchemeOptions().having(outer=True, iterations=k))
    for k in (2, 3)
]


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v9"])
def test_unfinished_paths_of_all_graphs_are_told(
    compile_c: Callable[..., Path], tmp_path: Path, width: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """In each graph that an activation was in when it was left; the code executes as predicted."""
    program = compile_c(LEAVING, FLAGS, width)
    simulated = simulate_settings(program, directory=tmp_path, settings=OUTER)
    log = trace(program, directory=tmp_path, stack_pointers=True)
    check_profiles(simulated, OUTER, record(simulated.observation.recovered.routines, log))
    for setting, scheme in zip(OUTER, simulated.observation.schemes, strict=True):
        found = simulated.measurements[setting.name]
        (nest,) = (each for each in found.routines if each.name.startswith("nest"))
        (number,) = (
            number
            for number, events in simulated.observation.events.items()
            if events.cfg.address == nest.address
        )
        plan = scheme.routine_plan(number)
        assert isinstance(plan, IterationPlan) and plan.outer
        assert len(plan.dag.regions) > 2
        unfinished = [path for path in nest.path_counts if path.partial]
        assert any(path.collapsed for path in unfinished)  # in the loop around
        assert any(path.start == "loop-entry" for path in unfinished)  # and in the one inside
    command = ["verify", "--json", "-", "--mode", "kiter:outer", "--mode", "kiter:outer:k=3"]
    capfd.readouterr()
    assert cli.run([*command, str(program)]) == 0
    for mode in json.loads(capfd.readouterr().out)["modes"].values():
        assert set(mode["executed"].values()) == {mode["predicted"]}
        assert mode["routines_left"] == []
