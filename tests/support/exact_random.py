"""Shared by tests: what `tests/end_to_end/test_exact_random.py` and others use."""

from __future__ import annotations

WIDTHS = ("v9", "v8plus", "v8")

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")

BARE = ("-nostdlib", "-ffreestanding", "-w")
