"""Recorded runs give what plain runs give: every mode, arrays and hash tables, all builds."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Selection,
    Setting,
)
from simprof.profiler.schemes import registry
from simprof.profiler.session.session import observe
from tests.conftest import FIXTURES
from tests.support.replay import PROGRAMS, measured, replayed_modes, settings
from tests.support.turns import first

WIDTHS = ("v9", "v8plus", "v8")
SOURCES = Path(__file__).resolve().parents[1] / "programs"
Compile = Callable[..., Path]


def check(program: Path, arguments: tuple[str, ...], directory: Path) -> None:
    """Compare all settings on a program's run and on its recording."""
    recording = directory / "recording"
    with Path(os.devnull).open("wb") as output:
        guest = GuestOptions(root=directory, stdout=output.fileno(), stderr=output.fileno())
        given = tuple(argument.encode() for argument in arguments)
        request = RunRequest(program=program, guest=guest, arguments=given)
        observe(replace(request, recording=recording), ())
        plain = measured(request, settings())
        replayed = measured(replace(request, replay=recording), settings())
    assert replayed == plain
    for each in plain:
        assert each.counts["unattributed_transfers"] == 0
        assert each.counts["unattributed_instructions"] == 0


@pytest.mark.parametrize(
    ("name", "width"), first(2, zip(PROGRAMS, itertools.cycle(WIDTHS), strict=False))
)
def test_replay_is_the_run(name: str, width: str, tmp_path: Path) -> None:
    """Every number of every routine is the same."""
    check(FIXTURES / "bin" / width / f"{name}.elf", PROGRAMS[name], tmp_path)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("source", "arguments", "width"),
    [
        ("landing.cc", (), "v9"),
        ("nowhere.c", ("caught",), "v8plus"),
    ],
)
def test_replay_with_exceptions_and_signals(
    compile_c: Compile, source: str, arguments: tuple[str, ...], width: str, tmp_path: Path
) -> None:
    """Activations end early in all ways, some below others of their routine."""
    language = "c++" if source.endswith(".cc") else "c"
    program = compile_c(SOURCES / source, ("-O1", "-lm"), width=width, language=language)
    check(program, arguments, tmp_path)


@pytest.mark.parametrize("mode", [m for m in registry.modes() if m not in replayed_modes()])
def test_modes_that_depend_on_order_are_refused(
    mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recording = str(tmp_path / "recording")
    assert cli.run(["record", str(FIXTURES / "bin/v9/control.elf"), "-o", recording]) == 0
    capfd.readouterr()
    assert cli.run(["run", f"--mode={mode}", "--replay", recording]) == 125
    (line,) = capfd.readouterr().err.splitlines()
    assert f"mode {mode} depends on the order of events of all routines" in line
    assert "run the program without --replay" in line


def test_selected_routines(tmp_path: Path) -> None:
    """A recording has all routines; which of them are profiled is chosen later."""
    program = FIXTURES / "bin" / "v9" / "pointers.elf"
    recording = tmp_path / "recording"
    with Path(os.devnull).open("wb") as output:
        guest = GuestOptions(root=tmp_path, stdout=output.fileno(), stderr=output.fileno())
        request = RunRequest(program=program, guest=guest)
        observe(replace(request, recording=recording), ())
        request = replace(request, selection=Selection(routines=("str*",)))
        pp = [Setting("pp", "pp", SchemeOptions())]
        plain, replayed = measured(request, pp), measured(replace(request, replay=recording), pp)
    assert plain[0].routines
    assert replayed == plain
