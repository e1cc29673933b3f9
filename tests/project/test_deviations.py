"""The page of deviations: each mode has its section, each departure its effect."""

from __future__ import annotations

import re

from simprof.profiler.schemes import registry
from tests.conftest import ROOT

MODES = (ROOT / "docs" / "MODES.md").read_text()
TEXT = (ROOT / "docs" / "DEVIATIONS.md").read_text()
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
WITHOUT_EFFECT = ("**Self-loops, extra", "**The trace buffer**")


def anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_mode_has_a_section_that_its_page_and_the_reference_link_to() -> None:
    sections = {anchor(each): each for each in SECTION.findall(TEXT)}
    for mode in registry.planned_modes():
        (name,) = [name for name, each in sections.items() if mode in each.split(", ")]
        assert f"(DEVIATIONS.md#{name})" in MODES, mode
        page = (ROOT / "docs" / "schemes" / f"{mode}.md").read_text()
        assert f"(../DEVIATIONS.md#{name})" in page, mode


def test_every_departure_says_what_it_amounts_to() -> None:
    parts = re.split(r"^#+ ", TEXT, flags=re.MULTILINE)[2:]
    for part in parts:
        title, _, body = part.partition("\n")
        if title.startswith(("Left out", "Misprints")):
            continue
        for bullet in body.split("\n- ")[1:]:
            if not bullet.startswith(WITHOUT_EFFECT):
                assert "*Effect*" in bullet, f"{title}: {bullet[:60]}"
