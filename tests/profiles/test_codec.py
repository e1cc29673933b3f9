"""The codec: types that saved files have, and values that they must not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from profiler.profiles.codec import decode, encode


@dataclass(frozen=True)
class Things:
    pairs: frozenset[tuple[int, str]]
    rows: Sequence[tuple[int, Sequence[int]]]
    rest: Mapping[str, Any]


GIVEN = {"pairs": [[1, "a"], [2, "b"]], "rows": [[7, [1, 2]]], "rest": {"x": [None, 1.5]}}


def test_rows_sets_and_anything() -> None:
    found = decode(Things, GIVEN)
    assert found == Things(frozenset({(1, "a"), (2, "b")}), ((7, (1, 2)),), {"x": [None, 1.5]})
    assert json.loads(json.dumps(encode(found.rows))) == GIVEN["rows"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pairs", [[1]]),
        ("pairs", [[1, 2]]),
        ("pairs", [1]),
        ("pairs", [["1", "a"]]),
        ("rows", [[7, [1, 2], 3]]),
        ("rows", [[7, [True]]]),
        ("rows", {"7": []}),
        ("rest", []),
    ],
)
def test_other_values_are_errors(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"length|type|not a"):
        decode(Things, {**GIVEN, name: value})
