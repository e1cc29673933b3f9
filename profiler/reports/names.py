"""Names of routines as reports for people show them."""

from __future__ import annotations

from functools import cache

from simprof.profiler.reports.display import shorten, visible
from simprof.simulator.binary.demangling import demangle

LONGEST_IN_TEXT = 60
"""Cells that a name takes in a sentence or a heading; tables have their own rules."""

HEADING = 24
"""Cells that follow the name in the heading of a listing and stay on its line."""


@cache
def readable(name: str) -> str:
    """Return a symbol's name demangled, and with nothing in it that a terminal would obey."""
    return visible(demangle(name))


def known_as(name: str, alias: str | None) -> str:
    """Return a readable name, and the one that the user selected the routine by, if another."""
    return readable(name) if alias is None else f"{readable(name)} ({readable(alias)})"


def brief(name: str, width: int = LONGEST_IN_TEXT, alias: str | None = None) -> str:
    """Return a readable name, and perhaps an alias, short enough for a sentence."""
    return shorten(known_as(name, alias), width)
