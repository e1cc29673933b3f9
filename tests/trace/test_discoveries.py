"""Discoveries in headers: written, read again, and refused where they cannot be."""

from __future__ import annotations

import json

import pytest

from simprof.profiler.recovery.recovery import Discoveries
from simprof.profiler.trace.discoveries import discovery_fields, read_discoveries

SOME = Discoveries(
    frozenset({(0x1000, 0x2000)}), frozenset({4, 8}), frozenset(), frozenset({(0x3000, 1)})
)


def test_they_are_read_as_they_were_written() -> None:
    assert read_discoveries(json.loads(json.dumps(discovery_fields(SOME)))) == SOME
    assert read_discoveries({}) == Discoveries()


@pytest.mark.parametrize(
    "given",
    [
        {"entries": [[1, 2]]},
        {"entries": ["x"]},
        {"entries": [-4]},
        {"entries": [1 << 64]},
        {"entries": 5},
        {"late_words": [[4]]},
        {"late_words": [[4, 1 << 32]]},
        {"indirect_targets": [[4, 8, 12]]},
        {"nonsense": []},
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        read_discoveries(given)
