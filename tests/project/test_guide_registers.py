"""The guide's line on `--registers` has every choice, and every scheme that takes them."""

from __future__ import annotations

from simprof.profiler.request.request import RegisterUse
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.options import RegisterOptions
from tests.conftest import ROOT


def test_the_guide_has_every_choice_of_registers() -> None:
    lines = (ROOT / "docs" / "GUIDE.md").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("| `--registers R` |"))
    taking = registry.users(RegisterOptions.registers)
    assert taking
    assert not [word for word in (*taking, *RegisterUse) if f"`{word}`" not in line]
