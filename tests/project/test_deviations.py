"""The page of deviations: each mode has its section, each departure its effect, as measured."""

from __future__ import annotations

import re
from itertools import chain

import pytest

from simprof.profiler.schemes import registry
from simprof.profiler.schemes.pp.planner import plan_pp
from tests.conftest import ROOT
from tools import deviations

MODES = (ROOT / "docs" / "MODES.md").read_text()
TEXT = deviations.PAGE.read_text()
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


@pytest.mark.long
def test_numbers_of_graphs_and_plans_and_of_tables_are_those_of_now() -> None:
    routines = deviations.graphs()
    plans = [plan_pp(cfg) for cfg in routines]
    found = dict(
        chain(deviations.of_graphs(routines), deviations.of_paths(plans), deviations.of_tables())
    )
    compared = [(name, value) for name, value in deviations.shown(TEXT) if name in found]
    assert len(compared) > 40
    assert [name for name, value in compared if found[name] != value] == [], (
        "run tools/deviations.py --write"
    )


@pytest.mark.long
def test_all_numbers_are_those_of_now() -> None:
    found = deviations.measures()
    assert deviations.filled(TEXT, found) == TEXT, "run tools/deviations.py --write"


def test_a_name_that_no_measure_has_is_an_error() -> None:
    with pytest.raises(KeyError):
        deviations.filled("<!-- =nothing -->1<!-- = -->", {})
    assert deviations.filled("a <!-- =b -->1<!-- = -->", {"b": "2"}) == "a <!-- =b -->2<!-- = -->"
