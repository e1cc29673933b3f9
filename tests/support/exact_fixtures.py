"""Shared by tests: what `tests/end_to_end/test_exact_fixtures.py` and others use."""

from __future__ import annotations

WIDTHS = ("v8", "v8plus", "v9")

SMALL = {
    "calls": ["9"],
    "control": [],
    "deep": ["300"],
    "faults": [],
    "floats": [],
    "loops": [],
    "loops_plain": [],
    "manypaths": [],
    "pointers": [],
    "records": [],
    "sieve": ["1"],
    "switches": [],
    "switches_pic": [],
    "tailcalls": [],
    "wide": [],
}
