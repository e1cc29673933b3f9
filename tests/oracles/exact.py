"""Comparing what simprof measures with what qemu-user executed, to the last count."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.plan.path_plan import PathPlan
from simprof.profiler.profiles.profile import PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.reports import mode_facts
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.session import observe
from tests.oracles.naive import BlockName, NaiveProfile, profile_of
from tests.oracles.qemu import Trace, trace

MODES = ("pp", "qpt2")


@dataclass(frozen=True)
class Simulated:
    """A run under simprof: what was observed, what each mode measured, what it printed."""

    observation: Observation
    measurements: dict[str, RunMeasurement]
    output: bytes
    errors: bytes


def simulate(
    path: Path,
    arguments: Sequence[str] = (),
    stdin: bytes = b"",
    *,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    modes: Sequence[str] = MODES,
    options: SchemeOptions | None = None,
    max_instructions: int | None = None,
    thread_seed: int = 0,
    sysroot: Path | None = None,
) -> Simulated:
    """Run `path` under simprof, every intermediate structure checked."""
    scheme = options or SchemeOptions()
    return simulate_settings(
        path,
        arguments,
        stdin,
        directory=directory,
        settings=[Setting(str(mode), mode, scheme) for mode in modes],
        environment=environment,
        max_instructions=max_instructions,
        thread_seed=thread_seed,
        sysroot=sysroot,
    )


def simulate_settings(
    path: Path,
    arguments: Sequence[str] = (),
    stdin: bytes = b"",
    *,
    directory: Path,
    settings: Sequence[Setting],
    environment: Mapping[str, str] | None = None,
    max_instructions: int | None = None,
    thread_seed: int = 0,
    sysroot: Path | None = None,
    self_check: bool = True,
) -> Simulated:
    """Run `path` under simprof with modes that have options; measurements are by their names."""
    given = directory / "stdin"
    given.write_bytes(stdin)
    files = [directory / name for name in ("stdout", "stderr")]
    descriptors = [os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for file in files]
    pairs = [(k.encode(), v.encode()) for k, v in (environment or {}).items()]
    guest = GuestOptions(
        root=directory,
        stdin=given,
        environment=tuple(pairs),
        stdout=descriptors[0],
        stderr=descriptors[1],
        max_instructions=max_instructions,
        thread_seed=thread_seed,
        sysroot=sysroot,
    )
    request = RunRequest(
        program=path,
        guest=guest.with_host_paths(path),
        arguments=tuple(argument.encode() for argument in arguments),
        self_check=self_check,
    )
    try:
        observation = observe(request, settings)
        measured = measure_all(observation, self_check=self_check)
        found = {s.name: m for s, m in zip(settings, measured, strict=True)}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return Simulated(observation, found, files[0].read_bytes(), files[1].read_bytes())


def cut_edges(simulated: Simulated) -> dict[int, tuple[int, ...]]:
    """Routine address -> edges that `pp` cut."""
    observation = simulated.observation
    plans = [observation.schemes[0].routine_plan(routine) for routine in observation.events]
    return {
        plan.cfg.address: plan.cut_edges
        for plan in plans
        if isinstance(plan, PathPlan) and plan.cut_edges
    }


def check_against_qemu(
    path: Path,
    arguments: Sequence[str] = (),
    stdin: bytes = b"",
    *,
    directory: Path,
    stack_pointers: bool = False,
    same_instructions: bool = True,
    options: SchemeOptions | None = None,
) -> Simulated:
    """Run `path` under both and compare output, status, totals, edges and paths."""
    simulated = simulate(path, arguments, stdin, directory=directory, options=options)
    reference = trace(path, arguments, stdin, directory=directory, stack_pointers=stack_pointers)
    result = simulated.observation.result
    assert (simulated.output, simulated.errors) == (reference.run.output, reference.run.errors)
    assert result.status == reference.run.status
    if same_instructions:
        assert result.instructions == reference.instructions
    check_profile(simulated, naive_profile(simulated, reference))
    return simulated


def naive_profile(simulated: Simulated, reference: Trace) -> NaiveProfile:
    """The oracle's profile on simprof's graphs."""
    return profile_of(
        simulated.observation.recovered.routines,
        reference.pc,
        reference.breaks,
        reference.sp,
        cut_edges(simulated),
        faulted=not reference.executed[-1],
        executed=reference.executed,
    )


def check_profile(simulated: Simulated, expected: NaiveProfile) -> None:
    """Compare every routine, in every mode."""
    for mode, measurement in simulated.measurements.items():
        assert measurement.counts["unattributed_transfers"] == 0
        assert measurement.counts["unattributed_instructions"] == 0
        assert not [w for w in measurement.warnings if "attributed" in w]
        # `(generated code)` has no blocks
        found = {each.address: each for each in measurement.routines if each.blocks}
        entered = {a for a, routine in expected.routines.items() if routine.activations}
        assert set(found) == entered, mode
        for number, events in simulated.observation.events.items():
            cfg = events.cfg
            reference = expected.routines[cfg.address]
            routine = found[cfg.address]
            assert edges_of(cfg, routine) == nonzero(reference.edges), (mode, cfg.name, number)
            assert early_of(routine) == early_names(cfg, reference.early), (mode, cfg.name)
            again = [e.count for e in routine.edge_counts if e.kind is EdgeKind.REENTRY]
            calls = reference.activations - sum(again)  # a re-entry is no call
            assert routine.activations == calls, (mode, cfg.name)
            if mode_facts.collects_paths(measurement):
                assert paths_of(routine, False) == reference.by_blocks(), cfg.name
                partial: Counter[tuple[BlockName, ...]] = Counter()
                for path, count in reference.partial.items():
                    partial[path.blocks] += count
                assert paths_of(routine, True) == partial, cfg.name


def nonzero(counts: Mapping[int, int]) -> dict[int, int]:
    return {edge: count for edge, count in counts.items() if count}


def edges_of(cfg: ControlFlowGraph, routine: RoutineProfile) -> dict[int, int]:
    return {
        edge: count.count
        for edge, count in zip(range(len(cfg.edges)), routine.edge_counts, strict=False)
        if count.count
    }


def early_of(routine: RoutineProfile) -> dict[BlockName, int]:
    return {
        (int(edge.source.start), edge.source.is_slot): edge.count
        for edge in routine.edge_counts
        if edge.kind is EdgeKind.EARLY
    }


def early_names(cfg: ControlFlowGraph, early: Mapping[int, int]) -> dict[BlockName, int]:
    blocks = cfg.blocks
    return {(blocks[b].start, blocks[b].is_slot): count for b, count in early.items() if count}


def paths_of(routine: RoutineProfile, partial: bool) -> Counter[tuple[BlockName, ...]]:
    found: Counter[tuple[BlockName, ...]] = Counter()
    for path in routine.path_counts:
        if path.partial is partial:
            found[names_of(path)] += path.count
    return found


def names_of(path: PathCount) -> tuple[BlockName, ...]:
    return tuple((int(start), place in path.slots) for place, start in enumerate(path.blocks))
