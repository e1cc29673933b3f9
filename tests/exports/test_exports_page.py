"""docs/EXPORTS.md: it lists all formats, and its commands print what it shows."""

from __future__ import annotations

import re

import pytest

from simprof.profiler.exports.formats import FORMATS
from tests.conftest import ROOT
from tools.document_outputs import rewritten

PAGE = ROOT / "docs" / "EXPORTS.md"


def test_every_format_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(FORMATS)


@pytest.mark.long
@pytest.mark.viewers
def test_its_commands_print_what_it_shows() -> None:
    text = PAGE.read_text()
    assert rewritten(text) == text, "run tools/document_outputs.py --write docs/EXPORTS.md"
