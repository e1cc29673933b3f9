"""Shared by tests: what `tests/commands/test_cli.py` and others use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import (
    RunRequest,
    Setting,
)
from simprof.profiler.session.observation import SchemeComparison
from tests.support.samples import measurement

Session = Callable[[RunRequest], RunMeasurement]


class FakeSession:
    """Stands for `simprof.profiler.session.session`: remembers the request, answers as told."""

    def __init__(self) -> None:
        self.requests: list[RunRequest] = []
        self.settings: tuple[Setting, ...] = ()
        self.answer: Session = lambda request: measurement()

    def run_program(self, request: RunRequest) -> RunMeasurement:
        self.requests.append(request)
        return self.answer(request)

    def compare_program(
        self,
        request: RunRequest,
        settings: Sequence[Setting],
        *,
        brief: bool = False,
        jobs: int = 1,
    ) -> SchemeComparison:
        self.requests.append(request)
        self.settings = tuple(settings)
        answers = [
            replace(self.answer(request), mode=str(setting.mode)) for setting in self.settings
        ]
        return SchemeComparison(tuple(answers), emulations=2, whole_emulations=2)


def simprof(*arguments: str | Path) -> int:
    """Run the command in this process; return its exit status."""
    with pytest.raises(SystemExit) as caught:
        cli.main([str(argument) for argument in arguments])
    assert isinstance(caught.value.code, int)
    return caught.value.code
