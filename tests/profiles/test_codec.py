"""The codec: types that saved files have, and values that they must not."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Struct

from simprof.profiler.profiles.codec import DIGITS, decode, encode, parse_json, parse_toml


class Things(Struct, frozen=True, forbid_unknown_fields=True):
    pairs: frozenset[tuple[int, str]]
    rows: tuple[tuple[int, tuple[int, ...]], ...]
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
    with pytest.raises(ValueError, match=rf"^profile\.{name}.*(must be a |: Expected )"):
        decode(Things, {**GIVEN, name: value})


def test_longer_numbers_than_any_count_are_refused_at_once() -> None:
    assert parse_json("9" * DIGITS) == 10**DIGITS - 1
    assert parse_toml("a = " + "9" * DIGITS) == {"a": 10**DIGITS - 1}
    long = "9" * 3_000_000  # Python would take half a minute
    started = time.process_time()
    with pytest.raises(ValueError, match=r"^a number has more than 100,000 digits$"):
        parse_json(f"[{long}]")
    with pytest.raises(ValueError, match=r"^a number has more than 100,000 digits$"):
        parse_toml(f"a = {long}")
    with pytest.raises(ValueError, match=r"^nested too deeply$"):
        parse_toml("a = " + "[" * 100_000)
    assert time.process_time() - started < 5
