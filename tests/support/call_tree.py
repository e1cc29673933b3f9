"""Shared by tests: what `tests/end_to_end/test_call_tree.py` and others use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simprof.profiler.profiles.calls import CallTree, call_graph
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import (
    ContextChoice,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
)
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.session import observe

MODES = ("pp", "qpt2", "bittrace")


def measured(
    program: Path,
    arguments: Sequence[str],
    directory: Path,
    wanted: ContextChoice,
    modes: Sequence[str] = MODES,
    scheme: SchemeOptions | None = None,
) -> tuple[Observation, dict[str, RunMeasurement]]:
    """Run a program with contexts distinguished."""
    given, output = directory / "stdin", directory / "output"
    given.touch()
    with output.open("wb") as stream:
        guest = GuestOptions(
            root=directory, stdin=given, stdout=stream.fileno(), stderr=stream.fileno()
        )
        guest = guest.with_host_paths(program)
        request = RunRequest(program, guest, tuple(map(str.encode, arguments)), contexts=wanted)
        settings = [Setting(mode, mode, scheme or SchemeOptions()) for mode in modes]
        observation = observe(request, settings)
        return observation, dict(zip(modes, measure_all(observation), strict=True))


def tree_of(measurement: RunMeasurement) -> CallTree:
    """Return a measurement's call tree, whose columns fit together."""
    tree = measurement.call_tree
    assert tree is not None
    return tree


def check_arcs(tree: CallTree) -> None:
    """The calls of a routine make up how often it was called, and what it includes."""
    graph = call_graph(tree)
    for number, routine in enumerate(graph.routines):
        arcs = [arc for arc in graph.arcs if arc.callee == number]
        sums = [
            sum(column) for column in zip(*((a.calls, a.base, a.added) for a in arcs), strict=True)
        ]
        assert sums == [routine.calls, routine.inclusive_base, routine.inclusive_added]
