"""What tests of commands are given: a session that only remembers what it was asked."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import pytest

from tests.support.cli import FakeSession


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSession]:
    fake = FakeSession()
    module = types.ModuleType("simprof.profiler.session.session")
    module.run_program = fake.run_program  # type: ignore[attr-defined]
    module.compare_program = fake.compare_program  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "simprof.profiler.session.session", module)
    digits = sys.get_int_max_str_digits()
    yield fake
    sys.set_int_max_str_digits(digits)
