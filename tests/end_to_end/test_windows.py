"""`--entry ROUTINE --calls N`: what is counted, against qemu-user's log cut to these calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.request.request import ContextChoice
from simprof.profiler.schemes import registry
from simprof.simulator.errors import UsageError
from tests.oracles import contexts as oracle
from tests.oracles.exact import Simulated, check_profile
from tests.oracles.qemu import trace
from tests.support.call_tree import check_arcs, measured, tree_of
from tests.support.turns import first


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize("calls", first(1, [2, None]))
@pytest.mark.parametrize(
    ("name", "entry"),
    first(
        3,
        [
            ("calls", "ackermann"),
            ("deep", "main"),
            ("nonlocal", "search"),
            ("calls", "print"),
            ("nonlocal", "nested"),
            ("tailcalls", "print"),
        ],
    ),
)
def test_window_counts_what_its_calls_did(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, entry: str, calls: int | None
) -> None:
    program = fixture_elf(name, "v9")
    wanted = ContextChoice(entry=entry, calls=calls)
    arguments = ["30"] if name == "deep" else []
    observation, found = measured(program, arguments, tmp_path, wanted, ["pp", "qpt2"])
    graphs = observation.recovered.routines
    (address,) = (cfg.address for cfg in graphs if cfg.name == entry)
    log = trace(program, arguments, directory=tmp_path, stack_pointers=name == "nonlocal")
    windows = oracle.windows_of(graphs, log, address)
    expected = oracle.profile_in(graphs, log, windows[:calls])
    counted = len(windows) if calls is None else min(calls, len(windows))
    assert counted > 0
    check_profile(Simulated(observation, found, b"", b""), expected)
    for measurement in found.values():
        assert measurement.counts["window_calls"] == counted
        assert measurement.base == expected.instructions


@pytest.mark.long
def test_window_of_the_first_routine_is_the_run(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    """Every scheme counts and costs the same, those with hash tables and with a guide, too."""
    program = fixture_elf("calls", "v9")
    # The cost of a forest's run-time routine is not known by context: it has no call tree.
    modes = [mode for mode in registry.modes() if mode != "kblpp"]
    with pytest.raises(UsageError, match="make call trees under another mode"):
        measured(program, [], tmp_path, ContextChoice(tree=True), ["kblpp"])
    _, whole = measured(program, [], tmp_path, ContextChoice(tree=True), modes)
    _, window = measured(program, [], tmp_path, ContextChoice(tree=True, entry="_start"), modes)
    for mode in modes:
        assert (window[mode].base, window[mode].added) == (whole[mode].base, whole[mode].added)
        assert window[mode].routines == whole[mode].routines
        assert window[mode].call_tree == whole[mode].call_tree


def test_windows_tree_is_what_hangs_below_the_calls(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    program = fixture_elf("calls", "v9")
    _, found = measured(program, [], tmp_path, ContextChoice(tree=True, entry="print", calls=2))
    for measurement in found.values():
        tree = tree_of(measurement)
        check_arcs(tree)
        tops = [place for place, parent in enumerate(tree.parents) if parent == -1]
        assert {tree.routines[tree.callees[place]].name for place in tops} == {"print"}
        assert sum(tree.calls[place] for place in tops) == 2
        assert sum(tree.base) == measurement.base
        assert sum(tree.added) == measurement.added
