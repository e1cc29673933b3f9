"""Recorded runs give what plain runs give, without their inputs: every mode, all builds."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import Input
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.request.request import (
    ContextChoice,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Selection,
    Setting,
)
from simprof.profiler.session.recordings import record_program
from simprof.profiler.session.session import run_program
from tests.conftest import FIXTURES
from tests.support.replay import PROGRAMS, measured, settings
from tests.support.turns import first

WIDTHS = ("v9", "v8plus", "v8")
SOURCES = Path(__file__).resolve().parents[1] / "programs"
SUITES = {name: load_suite(name) for name in ("micro", "wcet")}
Compile = Callable[..., Path]


def request_of(program: Path, directory: Path, given: Input | None = None) -> RunRequest:
    """Return the request for a run in a world that lies in `directory`, an empty one."""
    root, stdin, null = directory / "root", directory / "stdin", os.open(os.devnull, os.O_WRONLY)
    given = given or Input("ref")
    if given.root is None:
        root.mkdir()
    else:
        shutil.copytree(given.root, root)
    stdin.write_bytes(b"" if given.stdin is None else given.stdin.read_bytes())
    environment = tuple((name.encode(), value.encode()) for name, value in given.environment)
    guest = GuestOptions(
        root=root, stdin=stdin, environment=environment, stdout=null, stderr=null, exe=b"/program"
    )
    return RunRequest(program, guest, tuple(map(os.fsencode, given.arguments)))


def check(request: RunRequest, directory: Path, each: int = 1) -> None:
    """Compare settings on a program's run, and on its recording when its world is gone.

    `each`: of the settings, every so many.
    """
    wanted = settings()[::each]
    plain = measured(request, wanted)
    record_program(request, directory / "recording")
    shutil.rmtree(request.guest.root)
    assert request.guest.stdin is not None
    request.guest.stdin.unlink()
    elsewhere = GuestOptions(root=directory)
    bare = RunRequest(request.program, elsewhere, replay=directory / "recording")
    assert measured(bare, wanted) == plain


def benchmarks() -> list[tuple[str, str]]:
    """Kernels, but for the two that run longest, and every fourth one of `micro`.

    `micro` has the fixtures, which `test_replay_is_the_run` has by themselves.
    """
    micro, wcet = (suite.benchmarks for suite in SUITES.values())
    kernels = [each for each in wcet if each.name not in ("ludcmp", "ndes")]
    return [("wcet", each.name) for each in kernels] + [("micro", each.name) for each in micro[::4]]


@pytest.mark.long
@pytest.mark.parametrize(("suite", "name"), first(1, benchmarks()))
def test_programs_of_suites(suite: str, name: str, tmp_path: Path) -> None:
    """Every number of every routine under every second setting is the same."""
    found = SUITES[suite]
    benchmark = found.benchmark(name)
    report = build_suite(replace(found, benchmarks=(benchmark,)), widths=(64,))
    if not report.programs:
        pytest.skip(next(iter(report.failures.values())))
    (program,) = report.programs.values()
    check(request_of(program.path, tmp_path, benchmark.inputs["train"]), tmp_path, each=2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "width"), first(2, zip(PROGRAMS, itertools.cycle(WIDTHS), strict=False))
)
def test_replay_is_the_run(name: str, width: str, tmp_path: Path) -> None:
    """Every number of every routine is the same."""
    given = Input("ref", arguments=PROGRAMS[name])
    check(request_of(FIXTURES / "bin" / width / f"{name}.elf", tmp_path, given), tmp_path, each=2)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("source", "arguments", "width"),
    [
        ("landing.cc", (), "v9"),
        ("nowhere.c", ("caught",), "v8plus"),
        ("threads/counter.c", (), "v9"),
    ],
)
def test_exceptions_signals_and_threads(
    compile_c: Compile, source: str, arguments: tuple[str, ...], width: str, tmp_path: Path
) -> None:
    flags = ("-O1", "-lm", "-pthread", "-w")
    language = "c++" if source.endswith(".cc") else "c"
    program = compile_c(SOURCES / source, flags, width=width, language=language)
    check(request_of(program, tmp_path, Input("ref", arguments=arguments)), tmp_path, each=4)


@pytest.mark.long
def test_call_trees_windows_and_selections(tmp_path: Path) -> None:
    """What is asked of a run can be asked of a recorded one."""
    request = request_of(FIXTURES / "bin" / "v9" / "pointers.elf", tmp_path)
    recording = tmp_path / "recording"
    record_program(request, recording)
    for asked in (
        replace(request, selection=Selection(routines=("str*",))),
        replace(request, contexts=ContextChoice(tree=True)),
        replace(request, contexts=ContextChoice(entry="main", calls=1)),
        replace(request, self_check=True, mode="bits"),
    ):
        assert run_program(replace(asked, replay=recording)) == run_program(asked)


@pytest.mark.parametrize("budget", first(1, [40_000, 1_000_003]))
def test_a_run_that_is_cut_short(budget: int, tmp_path: Path) -> None:
    """It ends at the same instruction, and in the same way."""
    request = request_of(FIXTURES / "bin" / "v9" / "bench.elf", tmp_path)
    request = replace(request, guest=replace(request.guest, max_instructions=budget))
    check(request, tmp_path)


def test_a_recording_prints_and_writes_nothing(tmp_path: Path) -> None:
    request = request_of(FIXTURES / "bin" / "v9" / "words.elf", tmp_path)
    recording, output = tmp_path / "recording", tmp_path / "output"
    with output.open("wb") as file:
        guest = replace(request.guest, stdout=file.fileno(), stderr=file.fileno())
        record_program(replace(request, guest=guest), recording)
        printed = output.stat().st_size
        run_program(replace(request, guest=guest, replay=recording, mode="edges"))
    assert printed
    assert output.stat().st_size == printed


def test_settings_are_of_all_modes() -> None:
    """Those that depend on the order of events of all routines are among them."""
    assert {"calls", "sampled"} <= {each.mode for each in settings()}
    assert Setting("pp auto", "pp", SchemeOptions()) in settings()
