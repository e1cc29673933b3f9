"""What the progress bar says: how much is done, and how fast."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from simprof.profiler.commands import progress as bars
from simprof.profiler.commands.progress import Bar, done_text, phase_bar, ready_engine
from simprof.profiler.request.request import Phase, Progress, ProgressCallback
from simprof.simulator.linux.streams import StandardStreams


@pytest.mark.parametrize(
    ("progress", "seconds", "text"),
    [
        (Progress(Phase.RECOVERING), 5.0, ""),
        (Progress(Phase.RUNNING, 8_000_000), 0.5, "8 M instructions"),
        (Progress(Phase.RUNNING, 8_000_000_000), 40.0, "8,000 M instructions, 200 M a second"),
        (Progress(Phase.RUNNING, clock=lambda: 10**9), 4.0, "1,000 M instructions, 250 M a second"),
        (Progress(Phase.EXPANDING, 8_000_000), 9.0, "8 M instructions"),
        (Progress(Phase.GENERATING, done=3_000, total=9_000), 0.1, "3,000 of 9,000"),
        (Progress(Phase.GENERATING, done=30, total=90), 3.0, "30 of 90, 10 a second"),
    ],
)
def test_done_and_rate(progress: Progress, seconds: float, text: str) -> None:
    assert done_text(progress, seconds) == text


def test_a_bar_of_one_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Progress] = []

    @contextmanager
    def noting(choice: bool | None) -> Iterator[ProgressCallback | None]:
        yield seen.append if choice is not False else None

    monkeypatch.setattr(bars, "progress_bar", noting)
    with phase_bar(False, Phase.RECOVERING) as told:
        assert told is None
    with phase_bar(None, Phase.RECOVERING) as told:
        assert told is not None
        told(30, 90)
    assert seen == [Progress(Phase.RECOVERING), Progress(Phase.RECOVERING, done=30, total=90)]


class Screen:
    """Stands for rich's display."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def start(self) -> None:
        self.log.append("shown")

    def stop(self) -> None:
        self.log.append("hidden")

    def refresh(self) -> None:
        """Nothing to draw."""

    def reset(self, _: object) -> None:
        """No estimate to forget."""

    def update(self, _: object, *, description: str, **__: object) -> None:
        self.log.append(description)


def test_a_bar_comes_late_and_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two seconds, below whole lines, half a second after the last of them."""
    screen, clock = Screen(), [0.0]
    monkeypatch.setattr(bars, "monotonic", lambda: clock[0])
    monkeypatch.setattr(bars, "_display", lambda: (screen, 0))
    monkeypatch.setattr(bars, "TICK", 1000.0)
    bar = Bar()
    bar(Progress(Phase.RUNNING))

    def drawn(at: float) -> list[str]:
        clock[0] = at
        screen.log.clear()
        bar.draw()
        return list(screen.log)

    assert drawn(1.9) == []
    assert drawn(2.0) == ["running", "shown"]
    bar.give_way(b"name? ")
    assert screen.log == ["running", "shown", "hidden"]
    assert drawn(9.0) == []  # the line is not at its end
    bar.give_way(b"Ada\n")
    assert drawn(9.4) == []
    assert drawn(9.6) == ["running", "shown"]
    bar.close()
    assert screen.log[-1] == "hidden"


@pytest.mark.parametrize("told", [True, False])
def test_without_a_terminal_long_work_says_one_line(
    told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(bars.VARIABLE, "1")
    monkeypatch.setattr(bars, "LINE_DELAY", 0.01)
    monkeypatch.setattr(bars, "SHORTEST_RATED", 0.0)
    with bars.progress_bar(None if told else False) as bar:
        assert (bar is not None) == told
        if bar is not None:
            bar(Progress(Phase.RUNNING, 8_000_000))
            bar._thread.join(60)
            assert not bar._thread.is_alive()  # one line is all
    said = capsys.readouterr().err
    assert (
        bool(re.fullmatch(r"simprof: running: 8 M instructions, [\d,]+ M a second\n", said)) == told
    )
    assert (said == "") != told


def test_a_program_that_writes_to_a_terminal_takes_the_bar_away() -> None:
    """Before each write, and where it reads, with the user's line end; nowhere else."""
    outer, inner = os.openpty()
    read, write = os.pipe()
    told: list[bytes] = []
    try:
        streams = StandardStreams(inner, inner, write, told.append)
        streams.write(1, b"to the terminal", lambda: False)
        streams.write(2, b"to a pipe", lambda: False)
        os.write(outer, b"x\n")
        assert streams.read(0, 10, lambda: False) == b"x\n"
    finally:
        for each in (outer, inner, read, write):
            os.close(each)
    assert told == [b"to the terminal", b"\n"]


def test_compiling_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Callable[[str], None]] = []
    monkeypatch.setattr("simprof.simulator.cpu.compiled.on_compiling", asked.append)
    ready_engine(False)
    assert not asked
    ready_engine()
    asked[0]("compiling kernels")
    assert capsys.readouterr().err == "simprof: compiling kernels\n"
