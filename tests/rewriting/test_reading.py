"""Profiles read from counter files are those that the simulated run saves.

The counter files are written from simulated counters, as in `test_comparison`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.rewriting.elsewhere.reading import read_profile
from simprof.profiler.rewriting.elsewhere.recipe import chosen
from simprof.profiler.trace.format import read_discoveries
from simprof.simulator.errors import SimulatorError, UsageError
from tests.support.reading import (
    LEAVES,
    SETTINGS,
    Find,
    Observed,
    compare,
    observe,
    waiting,
)
from tests.support.turns import first

READ = [name for name in SETTINGS if name not in ("qpt", "witness", "bits", "bytes", "block-trace")]


@pytest.fixture(scope="module", params=first(1, ["v9", "v8plus", "v8"], at=2))
def words(fixture_elf: Find, request: pytest.FixtureRequest) -> Observed:
    """A run of `words` under all settings."""
    return observe(fixture_elf("words", request.param))


def check(run: Observed, name: str) -> None:
    """The profile that is read is the one that was measured, but for what only a run tells."""
    compare(read_profile(run.file(name)), run.simulated(name))


@pytest.mark.parametrize("name", first(5, READ))
def test_a_profile_is_read(words: Observed, name: str) -> None:
    check(words, name)


@pytest.mark.parametrize("name", first(0, ["control", "loops", "switches", "tailcalls"]))
def test_profiles_of_other_programs(name: str, fixture_elf: Find) -> None:
    run = observe(fixture_elf(name))
    for setting in READ:
        check(run, setting)


@pytest.fixture(scope="module")
def leaving(compile_c: Callable[..., Path]) -> Observed:
    """A run that ends by `exit` while `main` and `middle` wait."""
    return observe(compile_c(LEAVES, flags=("-O1",)))


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    "name", first(1, [name for name in READ if name not in ("tpp", "kiter")][::2])
)
def test_activations_that_ended_early(leaving: Observed, name: str) -> None:
    assert waiting(leaving) >= {"main", "middle"}
    check(leaving, name)


FORK = LEAVES.replace("work(argc);\n    sink", "if (sink & 4) work(3);\n    work(argc);\n    sink")
FORKS = FORK.replace("return sink & 1;", "if (sink & 8) work(2);\n    return sink & 1;")


@pytest.mark.long
@pytest.mark.toolchain
def test_a_way_that_path_counters_do_not_tell(compile_c: Callable[..., Path]) -> None:
    """Two ways of `main` lead to the call in which it waits; edge counters tell them apart.

    Path counters do if they count ahead of the call, where only one way leads on.
    """
    check(observe(compile_c(FORK, flags=("-O1",)), ["pp"]), "pp")
    run = observe(compile_c(FORKS, flags=("-O1",)), ["pp", "naive"])
    with pytest.raises(UsageError, match=r"^main was active when the program ended, and its path"):
        read_profile(run.file("pp"))
    check(run, "naive")


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("name", first(1, ["tpp", "kiter"]))
def test_what_path_counters_do_not_tell(leaving: Observed, name: str) -> None:
    with pytest.raises(UsageError, match=r"^\w+: its counters do not show .* use another mode"):
        read_profile(leaving.file(name))


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("name", first(1, ["pp", "naive"]))
def test_a_stack_that_is_not_the_run_s_breaks_flow(leaving: Observed, name: str) -> None:
    with pytest.raises(SimulatorError) as caught:
        read_profile(leaving.file(name, frames=[0]))
    file, routine, _ = str(caught.value).split(": ", 2)
    assert file == "out" and routine in waiting(leaving)


@pytest.mark.long
@pytest.mark.toolchain
def test_return_addresses_of_copies(leaving: Observed) -> None:
    """The stack of an instrumented program has addresses of copies; the header maps them."""
    frames = leaving.frames()
    moved = [0, *(0x7000_0000 + 16 * n for n in range(len(frames) - 1))]
    copies = [list(pair) for pair in zip(moved[1:], frames[1:], strict=True)]
    read = read_profile(leaving.file("qpt2", frames=moved, copies=copies))
    assert read == read_profile(leaving.file("qpt2"))
    with pytest.raises(UsageError, match=r"behind none of its calls \(0x70000000\)"):
        read_profile(leaving.file("qpt2", frames=moved))


# What is refused


def test_counters_that_break_flow(words: Observed) -> None:
    image = words.image("naive")
    number, code = image.first(lambda code: code.plan.edge_counters > 2)
    file = words.file("naive")
    (array,) = file.memory.items()
    at = code.layout.edge_base - array[0]
    spoiled = bytearray(array[1])
    spoiled[at : at + 4] = (123456).to_bytes(4, "big")
    broken = replace(file, memory={array[0]: bytes(spoiled)})
    said = f"^out: {image.name(number)}: block .* more than left: the file is damaged, or "
    with pytest.raises(SimulatorError, match=said):
        read_profile(broken)


def test_modes_whose_counters_tell_no_edges(words: Observed) -> None:
    with pytest.raises(UsageError, match=r"only its blocks: use another mode, such as qpt2$"):
        read_profile(words.file("qpt"))
    with pytest.raises(UsageError, match=r"^out is of mode witness, which counts nothing but"):
        read_profile(words.file("witness"))


def test_another_program(words: Observed, fixture_elf: Find, tmp_path: Path) -> None:
    file = words.file("naive")
    with pytest.raises(ProfileMismatchError, match=r"^out is of another program than .*loops"):
        read_profile(file, fixture_elf("loops"))
    with pytest.raises(UsageError, match=r"is not there: name it with --program$"):
        read_profile(file, tmp_path / "absent")
    there = file.recipe.program.file
    gone = replace(file.recipe.program, file="gone")
    moved = replace(file, recipe=replace(file.recipe, program=gone))
    assert read_profile(moved, Path(there)).base == read_profile(file).base


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"routines": ["x"]}, "is damaged in its header"),
        ({"routines": 3}, "is damaged in its header"),
        ({"discoveries": {"entrys": []}}, "is damaged in its discoveries"),
        ({"copies": [1]}, "is damaged in its header"),
        ({"edge_counts": []}, "is damaged in its header"),
        ({"options": {}}, "has options that this simprof does not understand"),
    ],
)
def test_a_header_that_makes_no_sense(words: Observed, changed: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=f"^out {what}"):
        read_profile(words.file("naive", **changed))


@pytest.mark.parametrize("routines", [[], [100_000], [-1]])
def test_other_plans_than_those_of_the_program(words: Observed, routines: list[int]) -> None:
    with pytest.raises(ProfileMismatchError, match=r"another version of simprof has instrumented"):
        read_profile(words.file("naive", routines=routines))


@pytest.mark.parametrize("name", SETTINGS)
def test_options_survive_the_header(words: Observed, name: str) -> None:
    file = words.file(name)
    assert chosen(file) == SETTINGS[name]
    assert read_discoveries(file.recipe.discoveries) == words.observation.discoveries
