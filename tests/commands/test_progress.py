"""What the progress bar says: how much is done, and how fast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from profiler.commands import progress as bars
from profiler.commands.progress import Callback, done_text, phase_bar
from profiler.request.request import Phase, Progress


@pytest.mark.parametrize(
    ("progress", "seconds", "text"),
    [
        (Progress(Phase.RECOVERING), 5.0, ""),
        (Progress(Phase.RUNNING, 8_000_000), 0.5, "8 M instructions"),
        (Progress(Phase.RUNNING, 8_000_000_000), 40.0, "8,000 M instructions, 200 M a second"),
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
    def noting(shown: bool) -> Iterator[Callback | None]:
        yield seen.append if shown else None

    monkeypatch.setattr(bars, "progress_bar", noting)
    with phase_bar(None, Phase.RECOVERING) as told:
        assert told is None  # stderr is no terminal
    monkeypatch.setattr(bars, "wanted", lambda choice, _: choice)
    with phase_bar(False, Phase.RECOVERING) as told:
        assert told is None
    with phase_bar(None, Phase.RECOVERING) as told:
        assert told is not None
        told(30, 90)
    assert seen == [Progress(Phase.RECOVERING), Progress(Phase.RECOVERING, done=30, total=90)]
