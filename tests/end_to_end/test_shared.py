"""Modes that several processes share give what one process measures."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.code import layout
from simprof.profiler.code.layout import CounterSpace
from simprof.profiler.profiles import storage
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session import pool, session, shared
from simprof.profiler.session.session import compare_program
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES
from tests.support.replay import PROGRAMS, measured
from tests.support.turns import first

SOURCES = Path(__file__).resolve().parents[1] / "programs"
JOBS = 3
MODES = ("pp", "qpt", "tpp", "kiter", "bittrace", "ppp", "calls", "sampled")
Compile = Callable[..., Path]


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "LARGE_PROGRAM", 0)


@pytest.fixture
def quiet(tmp_path: Path) -> GuestOptions:
    null = os.open(os.devnull, os.O_WRONLY)
    return GuestOptions(root=tmp_path, stdout=null, stderr=null)


def some() -> list[Setting]:
    return [Setting(mode, mode, SchemeOptions()) for mode in MODES]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "width"), first(1, zip([*PROGRAMS][::2], ("v9", "v8plus", "v8") * 3, strict=False))
)
def test_all_schemes(name: str, width: str, quiet: GuestOptions) -> None:
    """Every number of every routine is the same, and so is the order."""
    given = tuple(argument.encode() for argument in PROGRAMS[name])
    request = RunRequest(FIXTURES / "bin" / width / f"{name}.elf", quiet, given)
    assert shared.may_be_worth_it(request, some(), JOBS)
    assert measured(request, some(), jobs=JOBS) == measured(request, some())


@pytest.mark.long
@pytest.mark.toolchain
def test_a_second_thread(compile_c: Compile, quiet: GuestOptions) -> None:
    program = compile_c(SOURCES / "threads" / "counter.c", ("-O1", "-pthread", "-w"))
    request = RunRequest(program, quiet)
    assert measured(request, some(), jobs=JOBS) == measured(request, some())


@pytest.mark.long
def test_what_a_process_cannot_do_is_done_here(
    quiet: GuestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that are killed cost time and nothing else."""
    request = RunRequest(FIXTURES / "bin" / "v9" / "loops.elf", quiet)
    expected, parent, made, done = measured(request, some()), os.getpid(), [], session._compare

    def dies(*given: object, **named: object) -> object:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        made.append(given)
        return done(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "_compare", dies)
    assert measured(request, some(), jobs=JOBS) == expected
    assert len(made) == JOBS


def test_a_profile_of_another_program_is_refused_before_the_run(
    quiet: GuestOptions, tmp_path: Path
) -> None:
    """Nothing has been printed then."""
    profile, output = tmp_path / "profile", tmp_path / "output"
    other = RunRequest(FIXTURES / "bin" / "v9" / "loops.elf", quiet)
    edges = Setting("edges", "edges", SchemeOptions())
    storage.save(compare_program(other, [edges]).measurements[0], profile)
    guided = [Setting("tpp", "tpp", SchemeOptions(edge_profile=profile)), *some()[:3]]
    with output.open("wb") as file:
        guest = replace(quiet, stdout=file.fileno())
        request = RunRequest(FIXTURES / "bin" / "v9" / "bench.elf", guest)
        with pytest.raises(ProfileMismatchError):
            compare_program(request, guided, jobs=JOBS)
    assert output.read_bytes() == b""


def test_errors_are_raised_here(quiet: GuestOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in another process is the user's to see, as if it were in this one."""
    request = RunRequest(FIXTURES / "bin" / "v9" / "loops.elf", quiet)

    def fails(space: CounterSpace, plan: object) -> None:
        raise UsageError("no room")

    monkeypatch.setattr(CounterSpace, "place", fails)
    with pytest.raises(UsageError, match="no room"):
        compare_program(request, some(), jobs=JOBS)


def test_a_scheme_whose_counters_do_not_fit_leaves_the_others(
    quiet: GuestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RunRequest(FIXTURES / "bin" / "v9" / "loops.elf", quiet)
    chosen = [Setting(mode, mode, SchemeOptions()) for mode in ("fifo", "qpt2", "naive", "qpt")]
    monkeypatch.setattr(layout, "LIMIT", layout.TABLES_BASE + 4096)
    alone, together = (compare_program(request, chosen, jobs=jobs) for jobs in (1, JOBS))
    assert together.measurements == alone.measurements
    assert together.refused == alone.refused
    assert together.refused.keys() == {chosen[0]}


def test_nothing_is_left_of_processes() -> None:
    """They are ended, and waited for."""
    started = []

    def start(number: int) -> pool.Forked:
        process = pool.Forked(lambda pipe: pool.answer_all(pipe, lambda _: signal.pause()))
        started.append(process.process.pid)
        return process

    with pool.Pool(start, 2) as others:
        others.ask(0, "sleep")
        others.ask(1, "sleep")
    assert len(started) == 2
    for pid in started:
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
