"""docs/reliability.md: each promise rests on tests that are there."""

from __future__ import annotations

import re

from tests.conftest import ROOT

PROMISE = re.compile(r"^\| ([A-Z].*\.) \| (.+) \| (.*) \|$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.py)`")


def test_the_tests_that_the_page_names_are_there() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    promises = PROMISE.findall(text)
    assert len(promises) == text.count("`tests/") - text.count(", `tests/") == 14
    for promise, _, tests in promises:
        named = NAMED.findall(tests)
        assert ", ".join(f"`{file}`" for file in named) == tests, promise
        assert all((ROOT / file).is_file() for file in named), promise
    assert len(NAMED.findall(text)) > 38
