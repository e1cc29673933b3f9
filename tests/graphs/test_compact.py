"""Numbers as arrays: the shortest kind that holds all of them."""

from __future__ import annotations

import pytest

from simprof.profiler.graphs.columns import compact


@pytest.mark.parametrize(
    ("greatest", "kind"), [(1 << 15, "i"), (1 << 31, "q"), ((1 << 15) - 1, "h")]
)
def test_the_shortest_kind_is_taken(greatest: int, kind: str) -> None:
    found = compact([greatest, -3])
    assert not isinstance(found, tuple)
    assert (found.typecode, found.tolist()) == (kind, [greatest, -3])
    assert compact((1 << 63, 0)) == (1 << 63, 0)
