"""Comparing every mode's profile of a real program with the steps of qemu-user's log.

Paths are enumerated from the steps by the oracles for graphs (`brute`, `iterations`, `tpp`). Asked
of a plan is only what it chose, where the papers leave it a choice: where it truncates, which loops
it iterates how often, which loops it disconnects, which paths it does not count but rebuilds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.profiles.profile import PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.request import Setting
from simprof.profiler.schemes.kiter.choice import GIVEN_UP
from simprof.profiler.schemes.kiter.nested import NestedPlan
from simprof.profiler.schemes.kiter.planner import GivenUpPlan
from simprof.profiler.trace.regeneration import regenerate
from tests.oracles import tpp
from tests.oracles.brute import Path, branch_windows, split, split_sequences
from tests.oracles.collapsed import OuterPath, every_loop, levels, split_outer
from tests.oracles.exact import Simulated, early_of, edges_of
from tests.oracles.iterations import KLoop, iterated_loops, split_iterations
from tests.oracles.steps import Kind, Step

Walks = Counter[tuple[int, ...]]
"""Activations of one routine by the edges that they crossed."""
MOST_PATHS = 1000
"""Routines with more paths are not enumerated."""
Key = tuple[tuple[int, ...], tuple[int, ...]]


def walks_of(steps: Iterable[Step]) -> dict[int, Walks]:
    """Return what the activations of each routine crossed, by the routine's address."""
    crossed: dict[int, list[int]] = {}
    found: dict[int, Walks] = {}
    for step in steps:
        if step.kind in (Kind.BEGIN, Kind.CROSS, Kind.EXIT):
            crossed.setdefault(step.activation, []).append(step.what)
        if step.kind in (Kind.EXIT, Kind.EARLY):
            walks = found.setdefault(step.routine, Counter())
            walks[tuple(crossed.pop(step.activation))] += 1
    assert not crossed
    return found


def check_profiles(
    simulated: Simulated, settings: Sequence[Setting], steps: Sequence[Step]
) -> None:
    """Compare every routine under every setting."""
    observation, walks = simulated.observation, walks_of(steps)
    for setting, scheme in zip(settings, observation.schemes, strict=True):
        measured = simulated.measurements[setting.name]
        found = {routine.address: routine for routine in measured.routines}
        assert set(found) == set(walks), setting.name
        for number, events in observation.events.items():
            routine, own = found[events.cfg.address], walks[events.cfg.address]
            place = f"{setting.name}: {events.cfg.name}"
            _check_edges(events.cfg, routine, own, place)
            _check_paths(measured, scheme.routine_plan(number), events.cfg, routine, own, place)


def _check_edges(cfg: ControlFlowGraph, routine: RoutineProfile, walks: Walks, place: str) -> None:
    crossed: Counter[int] = Counter()
    early: Counter[tuple[int, bool]] = Counter()
    for walk, count in walks.items():
        for edge in walk:
            crossed[edge] += count
        last = cfg.edges[walk[-1]].target
        if last != cfg.exit:
            early[cfg.blocks[last].start, cfg.blocks[last].is_slot] += count
    assert edges_of(cfg, routine) == crossed, place
    assert early_of(routine) == early, place
    assert routine.activations == walks.total(), place


def _check_paths(
    measured: RunMeasurement,
    plan: Any,
    cfg: ControlFlowGraph,
    routine: RoutineProfile,
    walks: Walks,
    place: str,
) -> None:
    match measured.mode:
        case "pp" | "bittrace":
            expected = _paths(walks, lambda walk: split(cfg, walk, plan.cut_edges))
            assert _found(cfg, routine) == expected, place
        case "fifo":
            k = plan.codes.branches
            assert _found(cfg, routine) == _paths(walks, lambda w: branch_windows(cfg, w, k)), place
        case "kiter" if isinstance(plan, GivenUpPlan):
            assert not routine.path_counts and measured.lost[GIVEN_UP], place
        case "kiter" if isinstance(plan, NestedPlan):
            assert _outer(cfg, routine) == outer_paths(cfg, plan, walks), place
        case "kiter":
            loops = _loops(cfg, plan)
            expected = _paths(
                walks, lambda walk: split_iterations(cfg, walk, loops, plan.cut_edges)
            )
            assert _found(cfg, routine) == expected, place
        case "kblpp":
            cut, k = plan.cut_edges, plan.length
            expected = _paths(walks, lambda walk: split_sequences(cfg, walk, cut, k))
            assert _found(cfg, routine) == expected, place
        case "tpp":
            _check_targeted(measured, plan, cfg, routine, walks, place)
        case _:
            assert not routine.path_counts, place


def _paths(walks: Walks, cut: Callable[[tuple[int, ...]], list[Path]]) -> dict[Path, int]:
    """Cut every activation; self-loops end no path and are in none."""
    found: Counter[Path] = Counter()
    for walk, count in walks.items():
        for path in cut(walk):
            found[path] += count
    return dict(found)


def _found(cfg: ControlFlowGraph, routine: RoutineProfile) -> dict[Path, int]:
    """What was measured, by blocks and edges alone."""
    found: Counter[Path] = Counter()
    for path in routine.path_counts:
        found[Path(_blocks(cfg, path), path.edges, path.partial)] += path.count
    return dict(found)


def _outer(cfg: ControlFlowGraph, routine: RoutineProfile) -> Counter[OuterPath]:
    """What was measured, with how paths start and end, and what is collapsed on them."""
    found: Counter[OuterPath] = Counter()
    for path in routine.path_counts:
        ends = str(path.start), str(path.end)
        key = OuterPath(ends[0], _blocks(cfg, path), path.edges, path.collapsed, ends[1])
        found[key] += path.count
    return found


def outer_paths(cfg: ControlFlowGraph, plan: NestedPlan, walks: Walks) -> Counter[OuterPath]:
    """Cut every activation into the paths around collapsed loops and inside of them."""
    got = {frozenset(loop.back_edges): loop.iterations for loop in plan.loops}
    every = [*levels(cfg, every_loop(cfg), got, set(plan.cut_edges))]
    found: Counter[OuterPath] = Counter()
    for walk, count in walks.items():
        for path in split_outer(cfg, walk, every):
            found[path] += count
    return found


def _loops(cfg: ControlFlowGraph, plan: Any) -> list[KLoop]:
    """The loops that are iterated, as the oracle sees them, with the k that the plan chose."""
    chosen = {loop.head: loop.iterations for loop in plan.loops}
    loops = [loop for loop in iterated_loops(cfg, 2) if loop.head in chosen]
    assert {loop.head for loop in loops} == set(chosen)
    return [KLoop(loop.head, loop.body, loop.back, chosen[loop.head]) for loop in loops]


def _check_targeted(
    measured: RunMeasurement,
    plan: Any,
    cfg: ControlFlowGraph,
    routine: RoutineProfile,
    walks: Walks,
    place: str,
) -> None:
    """`tpp`: counted paths are exact; rebuilt ones are never too few; the rest is cold."""
    ended = tpp.ending(cfg, plan.cut_edges, plan.split_edges)
    whole: Counter[Key] = Counter()
    unfinished: Counter[Key] = Counter()
    for walk, count in walks.items():
        for piece in tpp.pieces(cfg, walk, ended):
            (whole if piece.finished else unfinished)[piece.key] += count
    counted: set[Key] = set()
    for path in routine.path_counts:
        key = _blocks(cfg, path), path.edges
        if path.partial:
            assert path.count <= unfinished[key], place
        elif plan.is_obvious(path.id):
            assert path.count >= whole[key], place
        else:
            assert path.count == whole[key], place
        counted |= set() if path.partial else {key}
    missed = set(whole) - counted
    if plan.num_paths <= MOST_PATHS:
        is_literal = measured.options.get("literal_cold")
        cold = tpp.literally_cold(cfg, plan.cold) if is_literal else plan.cold
        assert not missed & tpp.hot_paths(cfg, ended, cold), place
    assert plan.cold or not missed, place
    _check_cold(plan, cfg, walks, measured, place)


def _check_cold(
    plan: Any, cfg: ControlFlowGraph, walks: Walks, measured: RunMeasurement, place: str
) -> None:
    """The edges left out, if any are, are the rarely taken ones of this very run."""
    crossed: Counter[int] = Counter()
    for walk, count in walks.items():
        for edge in walk:
            crossed[edge] += count
    counts = [crossed[edge.id] for edge in cfg.edges]
    bodies = [loop.body for loop in plan.disconnection.loops]
    percent = Fraction(str(measured.options.get("cold", 5)))
    assert plan.cold in (frozenset(), tpp.locally_cold(cfg, counts, percent, bodies)), place


def _blocks(cfg: ControlFlowGraph, path: PathCount) -> tuple[int, ...]:
    """The path's blocks as vertices."""
    vertices = {(block.start, block.is_slot): block.id for block in cfg.blocks}
    return tuple(vertices[int(b), k in path.slots] for k, b in enumerate(path.blocks))


def blocks_of(steps: Iterable[Step], recovered: ProgramGraphs) -> Iterator[int]:
    """Yield the blocks that were entered, by their numbers in the program."""
    numbers = {cfg.address: number for number, cfg in enumerate(recovered.routines)}
    for step in steps:
        if step.kind in (Kind.BEGIN, Kind.CROSS):
            number = numbers[step.routine]
            target = recovered.routines[number].edges[step.what].target
            yield int(recovered.first_block[number]) + target


def check_trace(trace: Any, program: Any, steps: Sequence[Step]) -> None:
    """Regenerate a trace; the blocks must be those of the log, in the same order."""
    found: list[int] = []
    graphs: list[ProgramGraphs] = []

    def receive(recovered: ProgramGraphs, blocks: Any) -> None:
        graphs.append(recovered)
        found.extend(blocks.tolist())

    done = regenerate(trace, program, check=True, sink=receive)
    assert done.complete
    assert found == list(blocks_of(steps, graphs[0]))
