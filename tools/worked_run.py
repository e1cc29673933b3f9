"""The run that the worked example of docs/ARCHITECTURE.md follows, with each stage's value kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from msgspec.structs import replace

from simprof.profiler.cli import main as simprof
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.decoders import RoutineCounters
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.recovery.recovery import Discoveries, Known, ProgramGraphs, recover
from simprof.profiler.request.request import RunRequest
from simprof.profiler.schemes.pp.planner import PathPlan
from simprof.profiler.session.execution import (
    ProgramExecution,
    execute,
)
from simprof.profiler.session.observation import Invocation, Observation, collect
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import Graphs, Planner, make_schemes, saved_profiles
from simprof.profiler.session.world import open_world
from simprof.simulator.binary import elf
from simprof.simulator.binary.program import Program

ROOT = Path(__file__).resolve().parent.parent
ROUTINE, FILE = "strlen", "fixtures/bin/v9/pointers.elf"
COMMAND = ["run", "--mode=pp", "--routine", ROUTINE, FILE]


@dataclass(frozen=True)
class Example:
    """The value that each stage of the run gave, and the routine's share of them."""

    request: RunRequest
    program: Program
    recovered: ProgramGraphs
    execution: ProgramExecution
    observation: Observation
    measurement: RunMeasurement
    routine: int
    plan: PathPlan

    @property
    def cfg(self) -> ControlFlowGraph:
        """The routine's graph."""
        return self.plan.cfg

    @property
    def edges(self) -> tuple[int, ...]:
        """How often the run crossed each edge."""
        return self.observation.events[self.routine].edges

    @property
    def counters(self) -> RoutineCounters:
        """What the scheme's counters hold."""
        return self.observation.counters(self.observation.schemes[0], self.routine)

    def name(self, vertex: int) -> str:
        """What a vertex is called: a block's address in hexadecimal digits, ENTRY or EXIT."""
        return str(self.cfg.name_of(vertex)).replace("0x", "")

    def edge_name(self, edge: int) -> str:
        """What an edge is called."""
        return (
            f"{self.name(self.cfg.edges[edge].source)} → {self.name(self.cfg.edges[edge].target)}"
        )

    def walk(self, edges: Iterable[int]) -> str:
        """The vertices along some edges."""
        path = [self.cfg.edges[edge] for edge in edges]
        return " → ".join(map(self.name, [path[0].source, *(edge.target for edge in path)]))


def make_request() -> RunRequest:
    """Let the command line make its request; nothing is run."""
    requests: list[RunRequest] = []

    def keep(request: RunRequest) -> RunMeasurement:
        requests.append(request)
        raise SystemExit

    with patch("simprof.profiler.session.session.run_program", keep), suppress(SystemExit):
        simprof(COMMAND)
    return requests[0]


def follow() -> Example:
    """Take the stages of `session.observe` one by one, and keep what each gives."""
    request = make_request()
    program = elf.load(request.program)
    invocation = Invocation(request.program, request.arguments, request.selection)
    silent = os.open(os.devnull, os.O_WRONLY)
    with open_world(program, (), replace(request.guest, stdout=silent)) as world:
        recovered = recover(program, Discoveries(), Known())
        planner = Planner(request.setting, saved_profiles(program.sha256))
        schemes = make_schemes(Graphs(recovered, request.selection), [planner])
        execution = execute(world.machine, recovered, schemes)
    os.close(silent)
    observation = collect(execution, invocation, 1)
    (measurement,) = measure_all(observation, self_check=True)
    (routine,) = (n for n, cfg in enumerate(recovered.routines) if cfg.name == ROUTINE)
    plan = schemes[0].routine_plan(routine)
    assert isinstance(plan, PathPlan)
    return Example(request, program, recovered, execution, observation, measurement, routine, plan)
