"""The logging library on whole programs: fed with what qemu-user executed, it counts every edge.

Signals, non-local exits, tail calls, recursion and faults happen for real here, and the calls come
in the order of the execution, all routines mixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.schemes.cs6120.planner import CallsPlan
from tests.oracles.exact import Simulated, simulate
from tests.oracles.log_machine import Library
from tests.oracles.naive import Walker
from tests.oracles.qemu import trace
from tests.support.turns import turns

WIDTHS = ("v8", "v8plus", "v9")
MODES = ("calls", "calls-optimal")
PROGRAMS = {
    "calls": (["7"], False),
    "control": ([], False),
    "faults": ([], False),
    "nonlocal": ([], True),
    "signals": ([], True),
    "tailcalls": ([], False),
}


class Crossings(Counter[int]):
    """Counts an edge and makes its calls: the end of its source, itself, the top of its target."""

    def __init__(self, routine: int, plan: CallsPlan, library: Library) -> None:
        super().__init__()
        self._routine, self._plan, self._library = routine, plan, library

    def __setitem__(self, edge: int, count: int) -> None:
        super().__setitem__(edge, count)
        plan, ends = self._plan.plan, self._plan.cfg.edges[edge]
        for actions in (
            plan.block_ends.get(ends.source, ()),
            plan.actions.get(edge, ()),
            plan.blocks.get(ends.target, ()),
        ):
            for action in actions:
                self._library.call(self._routine, action)


def logged_plans(simulated: Simulated, mode: str) -> dict[int, CallsPlan]:
    """Routine number -> plan, of every routine."""
    observation = simulated.observation
    scheme = observation.schemes[MODES.index(mode)]
    plans = {}
    for routine in range(len(observation.recovered.routines)):
        plan = scheme.routine_plan(routine)
        assert isinstance(plan, CallsPlan)
        plans[routine] = plan
    return plans


@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), turns(PROGRAMS, WIDTHS, few=1))
def test_the_library_counts_every_logged_edge(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str
) -> None:
    path, (arguments, stack_pointers) = fixture_elf(name, width), PROGRAMS[name]
    simulated = simulate(path, arguments, directory=tmp_path, modes=MODES)
    reference = trace(path, arguments, directory=tmp_path, stack_pointers=stack_pointers)
    for mode in MODES:
        plans = logged_plans(simulated, mode)
        library = Library.of([plans[routine] for routine in sorted(plans)])
        graphs = [plan.cfg for plan in plans.values()]
        walker = Walker(
            graphs,
            reference.pc,
            reference.breaks,
            reference.sp,
            faulted=not reference.executed[-1],
        )
        for routine, plan in plans.items():
            walker.profile.routines[plan.cfg.address].edges = Crossings(routine, plan, library)
        walker.walk()
        for routine, plan in plans.items():
            crossed = walker.profile.routines[plan.cfg.address].edges
            for pair in plan.logged:
                counted = library.counts[routine, pair.edge]
                assert counted == crossed[pair.edge], (mode, plan.cfg.name, pair)
