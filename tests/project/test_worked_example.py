"""The worked example of docs/ARCHITECTURE.md is what the code gives."""

from __future__ import annotations

from tools.worked_example import BEGIN, DOCUMENT, END, section


def test_the_worked_example_is_up_to_date() -> None:
    committed = DOCUMENT.read_text().split(f"{BEGIN}\n")[1].split(END)[0]
    assert committed == section(), "run tools/worked_example.py --write"
