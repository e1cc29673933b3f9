"""`tpp:first=N`: the edge profile of a run's beginning guides it (TPP 3)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import load, save
from simprof.profiler.request.request import (
    NO_SCHEME,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
)
from simprof.profiler.rewriting.instrument import basis_without_run
from simprof.profiler.schemes.mode_options import read
from simprof.profiler.session.session import compare_program, observe
from simprof.simulator.errors import UsageError

Find = Callable[..., Path]
TPP = SchemeOptions.of(cold=20.0, cold_always=True)


@pytest.fixture
def request_(fixture_elf: Find, tmp_path: Path) -> Iterator[RunRequest]:
    root = tmp_path / "root"
    root.mkdir()
    silent = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root=root, stdin=Path(os.devnull), stdout=silent, stderr=silent)
    yield RunRequest(fixture_elf("loops", "v9"), guest)
    os.close(silent)


def counted(measurement: RunMeasurement) -> list[tuple[object, ...]]:
    return [
        (
            routine.name,
            routine.added,
            [(edge.count, edge.instrumented) for edge in routine.edge_counts],
            [(path.blocks, path.count, path.inferred) for path in routine.path_counts],
        )
        for routine in measurement.routines
    ]


@pytest.mark.parametrize("number", [900, 20_000])
def test_the_beginning_guides_as_a_saved_profile_of_it_does(
    request_: RunRequest, tmp_path: Path, number: int
) -> None:
    cut = replace(request_, guest=replace(request_.guest, max_instructions=number))
    file = tmp_path / "first"
    save(compare_program(cut, (NO_SCHEME,)).measurements[0], file)
    assert number - 50 < load(file).base <= number, "it ends at a block"
    saved = replace(TPP, edge_profile=file)
    staged = TPP.having(first=number)
    settings = [Setting(name, "tpp", each) for name, each in (("f", saved), ("s", staged))]
    by_file, by_stage, whole = compare_program(
        request_, (*settings, Setting("w", "tpp", TPP))
    ).measurements
    assert counted(by_stage) == counted(by_file)
    assert (by_stage.base, by_stage.added, by_stage.lost) == (
        by_file.base,
        by_file.added,
        by_file.lost,
    )
    assert counted(by_stage) != counted(whole), "the beginning is not like the run"
    assert by_stage.guide is not None and not by_stage.guide.same_run
    assert str(by_stage.guide) == f"this run's first {number:,} instructions"


def test_a_beginning_that_is_the_whole_run(request_: RunRequest) -> None:
    settings = [Setting(str(n), "tpp", TPP.having(first=n)) for n in (0, 10**12)]
    whole, staged = compare_program(request_, settings).measurements
    assert counted(staged) == counted(whole)
    assert staged.guide is not None and staged.guide.same_run


def test_output_is_written_once(request_: RunRequest, tmp_path: Path) -> None:
    written = []
    for name, options in (("plain", TPP), ("staged", TPP.having(first=30_000))):
        with (tmp_path / name).open("wb") as file:
            guest = replace(request_.guest, stdout=file.fileno())
            compare_program(replace(request_, guest=guest), (Setting("tpp", "tpp", options),))
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1] != b""


def test_where_it_cannot_be(request_: RunRequest, tmp_path: Path) -> None:
    setting = read("tpp:first=500").setting(SchemeOptions())
    both = replace(setting, options=replace(setting.options, edge_profile=tmp_path / "p"))
    with pytest.raises(UsageError, match="one of both"):
        observe(request_, (both,))
    with pytest.raises(UsageError, match="--max-instructions N -o FILE"):
        basis_without_run(request_.program).order(setting)
