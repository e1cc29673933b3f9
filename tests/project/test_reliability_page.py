"""docs/reliability.md: each promise rests on tests that are there."""

from __future__ import annotations

import re

from tests.conftest import ROOT

TESTS = re.compile(r"^Tests: (.*?)\.$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(tests/[\w/]+\.py)`(?:\s\(([^)]*)\))?")


def test_the_tests_that_the_page_names_are_there() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    promises = text.split("\n### ")[1:]
    for promise in promises:
        title, _, body = promise.partition("\n")
        listed = TESTS.search(body)
        # Scale alone was measured once, by hand.
        assert listed or title == "Time and memory grow with the work", title
        for file, names in NAMED.findall(listed[1] if listed else ""):
            source = (ROOT / file).read_text()
            for name in re.findall(r"`(\w+)`", names):
                assert f"def {name}(" in source, f"{title}: {file}: {name}"
    assert len(NAMED.findall(text)) > 40
