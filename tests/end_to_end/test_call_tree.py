"""Call trees: every context, call and inclusive number against qemu-user's log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.profiles import storage
from simprof.profiler.profiles.calls import BEYOND, TOP, CallTree, call_graph
from simprof.profiler.profiles.combine import merge
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.reports import run_text
from simprof.profiler.request.request import (
    ContextChoice,
)
from tests.oracles import contexts as oracle
from tests.oracles.qemu import trace
from tests.support.call_tree import MODES, check_arcs, measured, tree_of
from tests.support.turns import first

PROGRAMS = Path(__file__).resolve().parents[1] / "programs" / "exact"
FIXTURES = [
    ("calls", ["9"]),
    ("deep", ["300"]),
    ("faults", []),
    ("nonlocal", []),
    ("signals", []),
    ("switches", []),
    ("tailcalls", []),
]


def routines_above(tree: CallTree) -> list[frozenset[int]]:
    """Return the addresses of the routines on the way to each context, its own among them."""
    found: list[frozenset[int]] = []
    for parent, callee in zip(tree.parents, tree.callees, strict=True):
        own = frozenset((tree.routines[callee].address,))
        found.append(own if parent == TOP else own | found[parent])
    return found


def check_tree(measurement: RunMeasurement, expected: oracle.Contexts) -> None:
    """Compare a call tree with what a log tells."""
    tree = tree_of(measurement)
    address = [routine.address for routine in tree.routines]
    executed: Counter[tuple[frozenset[int], int]] = Counter()
    begun: Counter[tuple[frozenset[int], int]] = Counter()
    for place, above in enumerate(routines_above(tree)):
        key = above, address[tree.callees[place]]
        executed[key] += tree.base[place]
        begun[key] += tree.calls[place] + tree.landings[place]
    assert +executed == expected.executed
    assert begun == expected.begun
    graph = call_graph(tree)
    assert {r.address: r.inclusive_base for r in graph.routines} == expected.inclusive
    calls: Counter[tuple[int | None, int]] = Counter()
    for arc in graph.arcs:
        caller = None if arc.caller == TOP else address[arc.caller]
        calls[caller, address[arc.callee]] += arc.calls
    landed = sum(tree.landings)
    assert calls.total() + landed == begun.total()
    assert +calls == expected.calls
    assert sum(tree.base) == measurement.base
    by_routine = {routine.address: routine.added for routine in measurement.routines}
    assert {r.address: r.added for r in graph.routines} == by_routine
    assert sum(tree.added) == measurement.added
    check_arcs(tree)


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("name", "arguments"), first(3, FIXTURES), ids=[name for name, _ in FIXTURES]
)
@pytest.mark.parametrize("width", first(1, ["v8", "v9"]))
def test_fixture_has_the_contexts_of_its_log(
    fixture_elf: Callable[..., Path],
    tmp_path: Path,
    name: str,
    arguments: list[str],
    width: str,
) -> None:
    program = fixture_elf(name, width)
    observation, found = measured(program, arguments, tmp_path, ContextChoice(tree=True))
    jumps = name in ("nonlocal", "signals")
    log = trace(program, arguments, directory=tmp_path, stack_pointers=jumps)
    expected = oracle.contexts_of(observation.recovered.routines, log)
    for measurement in found.values():
        check_tree(measurement, expected)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ("jumping.c", ("-O3", "-s")),
        ("calling.c", ("-O1",)),
        ("unwinding.cc", ("-O2",)),
    ],
    ids=["longjmp", "recursion", "exceptions"],
)
def test_program_has_the_contexts_of_its_log(
    compile_c: Callable[..., Path], tmp_path: Path, source: str, flags: tuple[str, ...]
) -> None:
    language = "c++" if source.endswith("cc") else "c"
    program = compile_c(PROGRAMS / source, (*flags, "-lm"), width="v9", language=language)
    observation, found = measured(program, [], tmp_path, ContextChoice(tree=True), ["pp"])
    log = trace(program, directory=tmp_path, stack_pointers=source != "calling.c")
    expected = oracle.contexts_of(observation.recovered.routines, log)
    check_tree(found["pp"], expected)


@pytest.mark.long
@pytest.mark.parametrize("limit", [2, 5, 20])
def test_tree_at_its_limit_keeps_all_counts(
    fixture_elf: Callable[..., Path], tmp_path: Path, limit: int
) -> None:
    """What has no context of its own is distinguished by routine, below where it was called."""
    program = fixture_elf("calls", "v9")
    _, whole = measured(program, [], tmp_path, ContextChoice(tree=True))
    _, cut = measured(program, [], tmp_path, ContextChoice(tree=True, limit=limit))
    for mode in MODES:
        tree, graph = tree_of(cut[mode]), call_graph(tree_of(cut[mode]))
        assert 0 < sum(site != BEYOND for site in tree.sites) < limit
        beyond = [place for place, site in enumerate(tree.sites) if site == BEYOND]
        assert tree.beyond == sum(tree.calls[place] for place in beyond) > 0
        expected = call_graph(tree_of(whole[mode]))
        kept = {r.name: (r.calls, r.base, r.added) for r in graph.routines}
        assert kept == {r.name: (r.calls, r.base, r.added) for r in expected.routines}
        said = run_text.render(cut[mode])
        assert f"warning: the call tree is cut at {limit} contexts" in said
        assert "warning: the call tree" not in run_text.render(whole[mode])


def test_saved_profile_has_the_tree(fixture_elf: Callable[..., Path], tmp_path: Path) -> None:
    _, found = measured(fixture_elf("nonlocal", "v9"), [], tmp_path, ContextChoice(tree=True))
    for measurement in found.values():
        storage.save(measurement, tmp_path / "profile")
        assert storage.load(tmp_path / "profile") == measurement


def test_tree_whose_columns_do_not_fit_is_refused(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    _, found = measured(
        fixture_elf("calls", "v9"), ["3"], tmp_path, ContextChoice(tree=True), ["pp"]
    )
    tree = tree_of(found["pp"])
    with pytest.raises(ValueError, match="columns of its call tree"):
        replace(tree, parents=(7, *tree.parents[1:]))
    with pytest.raises(ValueError, match="columns of its call tree"):
        replace(tree, calls=tree.calls[1:])


def test_merged_profiles_have_the_sum_of_their_trees(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    runs = [
        measured(fixture_elf("calls", "v9"), [depth], tmp_path, ContextChoice(tree=True), ["pp"])[
            1
        ]["pp"]
        for depth in ("3", "5")
    ]
    graph = call_graph(tree_of(merge(runs)))
    sums: Counter[str] = Counter()
    for run in runs:
        for routine in call_graph(tree_of(run)).routines:
            sums[routine.name] += routine.inclusive_base
    assert {routine.name: routine.inclusive_base for routine in graph.routines} == sums
    assert merge([runs[0], replace(runs[1], call_tree=None)]).call_tree is None
