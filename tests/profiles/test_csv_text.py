"""Text in CSV files is no formula, and numbers stay numbers."""

from __future__ import annotations

import pytest

from simprof.profiler.profiles.csv_text import quoted


@pytest.mark.parametrize(
    "text",
    ["=1+1", '=HYPERLINK("x")', "+a", "-a", "-1+cmd", "@SUM(1)", "\t=1", "\r=1", "--1", "+", "-e1"],
)
def test_a_quote_stands_before_what_would_be_executed(text: str) -> None:
    assert quoted(text) == f"'{text}"


@pytest.mark.parametrize(
    "text", ["", "main", "a=b", "-", "-1", "+1.5", "-.5", "-1e-9", "-11.69", "'=1", "operator-="]
)
def test_numbers_and_names_stay_as_they_are(text: str) -> None:
    assert quoted(text) == text
