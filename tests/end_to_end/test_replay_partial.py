"""`--replay RUN --partial`: recordings that are cut are measured as far as they are whole."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.engine import recording
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.session.session import compare_program, observe
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES
from tests.support.replay import replayed_modes
from tests.support.turns import first

PROGRAMS = {"pointers": (), "calls": ("7",), "deep": ("2000",), "nonlocal": (), "signals": ()}
CUTS = (0.3, 0.6, 0.95)


def settings() -> list[Setting]:
    """Every mode that recordings have enough for, with arrays; hash tables of paths as well."""
    made = [Setting(mode, mode, SchemeOptions()) for mode in replayed_modes()]
    hashed = SchemeOptions(table=TableChoice.HASH)
    return [*made, Setting("hashed pp", "pp", hashed)]


@pytest.fixture(params=first(1, PROGRAMS))
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> RunRequest:
    """A recording in many small pieces, as the request to replay it."""
    name = request.param
    path = tmp_path / "whole"
    with Path(os.devnull).open("wb") as output, pytest.MonkeyPatch.context() as patched:
        patched.setattr(recording, "BUFFER_WORDS", 1 << 9)
        guest = GuestOptions(root=tmp_path, stdout=output.fileno(), stderr=output.fileno())
        arguments = tuple(argument.encode() for argument in PROGRAMS[name])
        asked = RunRequest(FIXTURES / "bin" / "v9" / f"{name}.elf", guest, arguments)
        observe(replace(asked, recording=path), ())
    return replace(asked, replay=path, partial=True)


def cut(asked: RunRequest, size: int) -> RunRequest:
    """Return the request with the recording cut to so many bytes."""
    assert asked.replay is not None
    path = asked.replay.with_name("cut")
    path.write_bytes(asked.replay.read_bytes()[:size])
    return replace(asked, replay=path)


def counts(measurement: RunMeasurement) -> object:
    """What was counted, apart from how the run ended and what only its end knows.

    That is, too, which blocks a signal interrupted or a fault left: they count as executed.
    """
    base = 0 if measurement.program.file.endswith("signals.elf") else measurement.base
    return base, measurement.added, [replace(each, cut_blocks=()) for each in measurement.routines]


def test_without_its_end_a_recording_has_all_of_the_run(recorded: RunRequest) -> None:
    """Activations that are alive at the end of the run end early either way."""
    whole = compare_program(replace(recorded, partial=False), settings()).measurements
    assert recorded.replay is not None
    ended = cut(recorded, recorded.replay.stat().st_size - 20)
    with pytest.raises(UsageError, match="--partial"):
        compare_program(replace(ended, partial=False), settings())
    partial = compare_program(ended, settings()).measurements
    assert partial[0].partial and partial[0].ending.code == 130
    assert list(map(counts, partial)) == list(map(counts, whole))


@pytest.mark.parametrize("share", first(1, CUTS))
def test_a_part_is_consistent(recorded: RunRequest, share: float) -> None:
    """All modes find the same edges in it, and every flow is conserved; nothing is made up."""
    assert recorded.replay is not None
    (whole,) = compare_program(recorded, settings()[:1]).measurements
    part = cut(recorded, int(recorded.replay.stat().st_size * share))
    try:
        found = compare_program(replace(part, self_check=True), settings()).measurements
    except UsageError as error:
        assert "before its first whole piece" in str(error) or "in its header" in str(error)
        return
    assert {each.base for each in found} == {found[0].base}
    assert 0 < found[0].base <= sum(routine.instructions for routine in whole.routines)
    known = {routine.address: routine for routine in whole.routines}
    for routine in found[0].routines:
        assert routine.activations <= known[routine.address].activations


def test_options(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    elf = str(FIXTURES / "bin" / "v9" / "control.elf")
    assert cli.run(["run", "--partial", elf]) == 125
    assert "--partial without --replay" in capfd.readouterr().err
    path = tmp_path / "run"
    assert cli.run(["record", elf, "-o", str(path)]) == 0
    path.write_bytes(path.read_bytes()[:-900])
    capfd.readouterr()
    assert cli.run(["compare", "--partial", "--replay", str(path)]) == 125
    assert "record it again" in capfd.readouterr().err
