"""Schemes that several processes measure give what one process measures in the run itself."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simprof.profiler.code import layout
from simprof.profiler.code.layout import NOTHING_USED, CounterSpace
from simprof.profiler.profiles import storage
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session import pool, session, shared
from simprof.profiler.session.results import Measuring, measure_all
from simprof.profiler.session.session import compare_program, observe
from simprof.profiler.trace.recording_format import RecordingFile
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES
from tests.support.replay import PROGRAMS, measured, settings
from tests.support.turns import first

SOURCES = Path(__file__).resolve().parents[1] / "programs"
JOBS = 3
MODES = ("pp", "qpt", "tpp", "kiter", "calls", "witness")
Compile = Callable[..., Path]


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "LARGE_PROGRAM", 0)
    monkeypatch.setattr(session, "FEW_ROUTINES", 0)


@pytest.fixture
def quiet(tmp_path: Path) -> GuestOptions:
    null = os.open(os.devnull, os.O_WRONLY)
    return GuestOptions(root=tmp_path, stdout=null, stderr=null)


def some() -> list[Setting]:
    return [Setting(mode, mode, SchemeOptions()) for mode in MODES]


@pytest.mark.parametrize(
    ("name", "width"), first(1, zip(PROGRAMS, ("v9", "v8plus", "v8") * 5, strict=False))
)
def test_all_schemes(name: str, width: str, quiet: GuestOptions) -> None:
    """Every number of every routine is the same, arrays or hash tables."""
    given = tuple(argument.encode() for argument in PROGRAMS[name])
    request = RunRequest(FIXTURES / "bin" / width / f"{name}.elf", quiet, given)
    assert measured(request, settings(), jobs=JOBS) == measured(request, settings())


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("source", ["landing.cc", "signals.c"])
def test_early_ends(source: str, compile_c: Compile, quiet: GuestOptions) -> None:
    """Activations that end by exceptions, signals and exits are with their routines."""
    language = "c++" if source.endswith(".cc") else "c"
    program = compile_c(SOURCES / source, ("-O1", "-lm"), language=language)
    request = RunRequest(program, quiet)
    assert measured(request, some(), jobs=JOBS) == measured(request, some())


@pytest.mark.parametrize("budget", first(1, [40_000, 1_000_003]))
def test_a_run_that_is_cut_short(budget: int, quiet: GuestOptions) -> None:
    """What it had under way is with the routines that had it under way."""
    guest = replace(quiet, max_instructions=budget)
    request = RunRequest(FIXTURES / "bin" / "v9" / "bench.elf", guest)
    assert measured(request, some(), jobs=JOBS) == measured(request, some())


@pytest.mark.long
@pytest.mark.toolchain
def test_a_second_thread(compile_c: Compile, quiet: GuestOptions) -> None:
    """Nothing is recorded of threads: such a run is made again, and one process measures it."""
    program = compile_c(SOURCES / "threads" / "counter.c", ("-O1", "-pthread", "-w"))
    request = RunRequest(program, quiet)
    assert measured(request, some(), jobs=JOBS) == measured(request, some())


@pytest.mark.long
def test_a_recording_that_is_there(
    quiet: GuestOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is measured by several processes, too, but for a small one."""
    recording = tmp_path / "recording"
    request = RunRequest(FIXTURES / "bin" / "v9" / "bench.elf", quiet)
    observe(replace(request, recording=recording), ())
    replayed = replace(request, recording=None, replay=recording)
    expected = measured(request, some())
    assert measured(replayed, some(), jobs=JOBS) == expected
    monkeypatch.setattr(session, "FEW_ROUTINES", 1_000_000)
    assert measured(replayed, some(), jobs=JOBS) == expected


@pytest.mark.long
def test_what_a_process_cannot_do_is_done_here(
    quiet: GuestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that are killed while they plan or measure cost time and nothing else."""
    request = RunRequest(FIXTURES / "bin" / "v9" / "bench.elf", quiet)
    expected = measured(request, some())
    parent, methods = os.getpid(), []
    for name in ("plan", "measure"):
        done = getattr(shared._ProcessPart, name)

        def dies(
            part: shared._ProcessPart, *given: object, done: Callable[..., object] = done
        ) -> object:
            if os.getpid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)
            methods.append(done.__name__)
            return done(part, *given)

        with monkeypatch.context() as patch:
            patch.setattr(shared._ProcessPart, name, dies)
            methods.clear()
            assert measured(request, some(), jobs=JOBS) == expected
            assert methods.count(name) == JOBS


@pytest.mark.long
def test_no_room_for_the_recording(
    quiet: GuestOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody asked for it: the run is made again without."""
    output = tmp_path / "output"
    with output.open("wb") as file:
        guest = replace(quiet, stdout=file.fileno())
        request = RunRequest(FIXTURES / "bin" / "v9" / "bench.elf", guest)
        expected = measured(request, some())
        printed = output.stat().st_size

        def full(file: RecordingFile, *given: object) -> None:
            raise UsageError("-o recording cannot be written (No space left on device)")

        monkeypatch.setattr(RecordingFile, "piece", full)
        assert measured(request, some(), jobs=JOBS) == expected
    assert output.stat().st_size == 2 * printed


def test_a_profile_of_another_program_is_refused_before_the_run(
    quiet: GuestOptions, tmp_path: Path
) -> None:
    """Nothing has been printed then."""
    profile, output = tmp_path / "profile", tmp_path / "output"
    other = RunRequest(FIXTURES / "bin" / "v9" / "loops.elf", quiet)
    edges = Setting("edges", "edges", SchemeOptions())
    storage.save(compare_program(other, [edges]).measurements[0], profile)
    guided = [Setting("tpp", "tpp", SchemeOptions(edge_profile=profile)), *some()[:1]]
    with output.open("wb") as file:
        guest = replace(quiet, stdout=file.fileno())
        request = RunRequest(FIXTURES / "bin" / "v9" / "bench.elf", guest)
        with pytest.raises(ProfileMismatchError):
            compare_program(request, guided, jobs=JOBS)
    assert output.read_bytes() == b""


@pytest.mark.long
def test_a_process_that_may_have_no_children(
    quiet: GuestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does everything itself."""
    request = RunRequest(FIXTURES / "bin" / "v9" / "bench.elf", quiet)
    expected = measured(request, some())
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert measured(request, some(), jobs=JOBS) == expected


def test_errors_are_raised_here(quiet: GuestOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in another process is the user's to see, as if it were in this one."""
    request = RunRequest(FIXTURES / "bin" / "v9" / "bench.elf", quiet)

    def fails(space: CounterSpace, plan: object) -> None:
        raise UsageError("no room")

    monkeypatch.setattr(CounterSpace, "place", fails)
    with pytest.raises(UsageError, match="no room"):
        compare_program(request, some(), jobs=JOBS)


def test_a_scheme_whose_counters_do_not_fit_leaves_the_others(
    quiet: GuestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RunRequest(FIXTURES / "bin" / "v9" / "loops.elf", quiet)
    qpt2, fifo = (Setting(mode, mode, SchemeOptions()) for mode in ("qpt2", "fifo"))
    expected = compare_program(request, [qpt2])
    monkeypatch.setattr(layout, "LIMIT", layout.TABLES_BASE + 4096)
    shared_out = compare_program(request, [fifo, qpt2], jobs=JOBS)
    assert shared_out.measurements == expected.measurements
    assert shared_out.refused.keys() == {fifo}
    assert shared_out.refused == compare_program(request, [fifo, qpt2]).refused


@pytest.mark.long
def test_code_that_needs_words_moves_the_counters_behind_it(
    quiet: GuestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That shows when code is generated; one process then measures everything."""
    alone = []

    def noted(*given: object, **named: object) -> object:
        alone.append(given)
        return measure_all(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("simprof.profiler.session.shared.measure_all", noted)
    request = RunRequest(FIXTURES / "bin" / "v9" / "bench.elf", quiet)
    expected = measured(request, some())
    assert measured(request, some(), jobs=JOBS) == expected
    assert not alone
    # as if code needed more than was planned
    monkeypatch.setattr(Measuring, "room", lambda scheme, routines: NOTHING_USED)
    assert measured(request, some(), jobs=JOBS) == expected
    assert alone


def test_nothing_is_left_of_processes(quiet: GuestOptions) -> None:
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
