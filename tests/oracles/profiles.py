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

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.profiles.profile import PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.request import Setting
from simprof.profiler.schemes.kiter.loops import GIVEN_UP
from simprof.profiler.schemes.kiter.planner import GivenUpPlan, IterationPlan
from simprof.profiler.schemes.ppp.planner import PppPlan, PredictedPlan
from simprof.profiler.schemes.pref.planner import PrefPlan
from simprof.profiler.trace.regeneration import regenerate
from tests.oracles import practical, tpp
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
    graphs = [events.cfg for events in observation.events.values()]
    begun = sum(practical.begun_paths(cfg, _edge_counts(cfg, walks[cfg.address])) for cfg in graphs)
    for setting, scheme in zip(settings, observation.schemes, strict=True):
        measured = simulated.measurements[setting.name]
        found = {routine.address: routine for routine in measured.routines}
        assert set(found) == set(walks), setting.name
        for number, events in observation.events.items():
            routine, own = found[events.cfg.address], walks[events.cfg.address]
            place = f"{setting.name}: {events.cfg.name}"
            _check_edges(events.cfg, routine, own, place)
            plan = scheme.routine_plan(number)
            assert plan is None or plan.unit_flow in (None, begun), place
            _check_paths(measured, plan, events.cfg, routine, own, place)


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
    again = [e.id for e in cfg.edges if e.kind is EdgeKind.REENTRY]  # a re-entry is no call
    assert routine.activations == walks.total() - sum(crossed[edge] for edge in again), place


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
        case "kiter" if isinstance(plan, IterationPlan) and plan.outer:
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
        case "ppp" if isinstance(plan, PredictedPlan):
            _check_predicted(measured, plan, cfg, routine, walks, place)
        case "tpp" | "ppp":
            _check_targeted(measured, plan, cfg, routine, walks, place)
        case "pref":
            _check_preferred(measured, plan, cfg, routine, walks, place)
        case "wpp":
            assert _found(cfg, routine) == _pieces(cfg, plan, walks), place
        case "sampled" | "pep":
            _check_sampled(measured, plan, cfg, routine, walks, place)
        case _:
            assert not routine.path_counts, place


def _check_preferred(
    measured: RunMeasurement,
    plan: PrefPlan,
    cfg: ControlFlowGraph,
    routine: RoutineProfile,
    walks: Walks,
    place: str,
) -> None:
    """`pref`: interesting paths are exact, and so are all paths where others are hashed."""
    expected = Counter(_paths(walks, lambda walk: split(cfg, walk, plan.cut_edges)))
    found = _found(cfg, routine)
    for path, count in found.items():
        assert count <= expected[path] if path.partial else count == expected[path], place
    missed = [count for path, count in expected.items() if not (path.partial or path in found)]
    total = sum(count for path, count in expected.items() if not path.partial)
    share = Fraction(str(measured.options["interesting_share"]))
    hashed = measured.options["fall_back"]
    assert not any(hashed or 100 * count >= share * total for count in missed), place


def _check_sampled(
    measured: RunMeasurement,
    plan: Any,
    cfg: ControlFlowGraph,
    routine: RoutineProfile,
    walks: Walks,
    place: str,
) -> None:
    """`sampled`, `pep`: none of the paths has too many samples, and each is one at the interval 1.

    `tests/schemes/sampling` has which ones are samples.
    """
    expected, found = _pieces(cfg, plan, walks), _found(cfg, routine)
    assert all(count <= expected[path] for path, count in found.items()), place
    names = {"sampled": ("interval",), "pep": ("tick", "samples", "stride")}[measured.mode]
    if all(measured.options[name] == 1 for name in names):
        whole = {path: count for path, count in expected.items() if not path.partial}
        assert {path: count for path, count in found.items() if not path.partial} == whole, place


def _pieces(cfg: ControlFlowGraph, plan: Any, walks: Walks) -> Counter[Path]:
    """Cut every activation where the plan's paths end."""
    ended = tpp.ending(cfg, plan.cut_edges, plan.split_edges)
    found: Counter[Path] = Counter()
    for walk, count in walks.items():
        for piece in tpp.pieces(cfg, walk, ended):
            found[Path(piece.blocks, piece.edges, not piece.finished)] += count
    return found


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


def outer_paths(cfg: ControlFlowGraph, plan: IterationPlan, walks: Walks) -> Counter[OuterPath]:
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
    """`tpp`, `ppp`: counted paths are exact; rebuilt ones are never too few; the rest is cold.

    Where `ppp` moved code past cold edges, counted paths have too many by at most what it says.
    """
    pushed = plan.pushed if isinstance(plan, PppPlan) else 0
    over = 0
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
            assert path.count >= whole[key], place
            over += path.count - whole[key]
        counted |= set() if path.partial else {key}
    assert over <= pushed, place
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
    counts = _edge_counts(cfg, walks)
    bodies = [loop.body for loop in plan.disconnection.loops]
    percent = Fraction(str(measured.options.get("cold", 5)))
    if not isinstance(plan, PppPlan):
        assert plan.cold in (frozenset(), tpp.locally_cold(cfg, counts, percent, bodies)), place
        return
    share = Fraction(str(measured.options.get("global_cold", 0.1)))
    # Where there are too many hot paths, the share is doubled.
    shares = [share, *((share or Fraction(1, 10)) * 2**k for k in range(1, 12))]
    flow = plan.unit_flow
    cold = (practical.cold_edges(cfg, counts, flow, percent, each, bodies) for each in shares)
    assert not (share or plan.cold) or any(set(plan.cold) == each for each in cold), place


def _check_predicted(
    measured: RunMeasurement,
    plan: PredictedPlan,
    cfg: ControlFlowGraph,
    routine: RoutineProfile,
    walks: Walks,
    place: str,
) -> None:
    """`ppp` in a routine that it leaves out: its paths are definite flow, a large enough share."""
    counts, cut = _edge_counts(cfg, walks), plan.cut_edges
    found = {(_blocks(cfg, path), path.edges): path.count for path in routine.path_counts}
    assert len(found) == len(routine.path_counts), place
    told = {key: practical.definite_flow(cfg, counts, cut, key) for key in found}
    assert found == told and all(told.values()), place
    ended = tpp.ending(cfg, cut, ())
    whole: Counter[Key] = Counter()
    for walk, count in walks.items():
        for piece in tpp.pieces(cfg, walk, ended):
            whole[piece.key] += count if piece.finished else 0
    assert not any(
        practical.definite_flow(cfg, counts, cut, key) for key in set(whole) - set(found)
    )
    share = Fraction(str(measured.options.get("skip", 75)))
    assert share and 100 * sum(found.values()) >= share * whole.total(), place


def _edge_counts(cfg: ControlFlowGraph, walks: Walks) -> list[int]:
    crossed: Counter[int] = Counter()
    for walk, count in walks.items():
        for edge in walk:
            crossed[edge] += count
    return [crossed[edge.id] for edge in cfg.edges]


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
