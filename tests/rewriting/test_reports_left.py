"""Routines that are left alone are named as their source names them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

from simprof.profiler.reports.tables import print_parts, section
from simprof.profiler.rewriting import reports


class Left(NamedTuple):
    routine: str
    instructions: int
    reason: str


def shown(table: Any) -> str:
    return print_parts([*section("Left alone", table)], 200, color=False)


def test_names_are_demangled() -> None:
    mangled, reason = "_ZNKSt6vectorIiE4sizeEv", "no room"
    made: Any = SimpleNamespace(left_names=[(mangled, reason)])
    left = [Left(mangled, 3, reason)]
    result: Any = SimpleNamespace(modes=[SimpleNamespace(left=left)])
    for text in (shown(reports._left_alone(made)), shown(reports._left(result))):
        assert "std::vector<int>::size() const" in text
        assert mangled not in text
