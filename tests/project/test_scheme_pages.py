"""The pages of schemes are what `simprof explain` says now."""

from __future__ import annotations

import pytest

from simprof.profiler.schemes import registry
from tools import scheme_pages


@pytest.mark.long
@pytest.mark.browser
def test_pages_and_pictures_are_up_to_date() -> None:
    wanted = scheme_pages.files()
    texts = {path.stem for path in wanted if path.suffix == ".md"}
    assert texts == set(registry.planned_modes())
    assert set(scheme_pages.known()) == set(wanted)
    stale = [path.name for path, text in wanted.items() if path.read_text() != text]
    assert stale == [], "run tools/scheme_pages.py"
