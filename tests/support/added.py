"""Shared by tests: what `tests/end_to_end/test_added.py` and others use."""

from __future__ import annotations

from tests.support.exact_fixtures import SMALL

TEXT = b"the quick brown fox\njumps over the lazy dog\n" * 3

ARGUMENTS = {**SMALL, "words": [], "nonlocal": [], "signals": [], "bench": ["1"]}

JUMPING = ("nonlocal", "signals")
