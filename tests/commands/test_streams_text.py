"""What is written is text, whatever damaged files call things."""

from __future__ import annotations

import io
import sys

import pytest

from simprof.profiler.commands import streams


def test_halves_of_characters_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON may have them alone, and UTF-8 cannot."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(written, "utf-8"))
    streams.write(streams.STDERR, "a\ud800b ü\n")
    assert written.getvalue() == "a\\ud800b ü\n".encode()
