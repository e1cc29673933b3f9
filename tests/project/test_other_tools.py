"""The page that compares other tools: what it says of their counts is measured again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.other_tools import END, PAGE, ROUTINES, Tool, agreement, native_tools, sparc_tools, table

ROUNDS = "3"


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.viewers
@pytest.mark.long
def test_every_tool_counts_what_the_page_says(tmp_path: Path) -> None:
    rows = sparc_tools(ROUNDS, tmp_path) + native_tools(ROUNDS, tmp_path)
    page = PAGE.read_text().partition(END)[0].splitlines()
    lines = table(rows).splitlines()
    columns = 5  # Times, which stand behind these, are another machine's.
    measured = {row.name: row.seconds is not None for row in rows}
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.split("|")][1 : columns + 1]
        # perf and BOLT are no packages that tests ask for.
        if measured[cells[0]]:
            assert any(row.startswith(f"| {' | '.join(cells)} |") for row in page), cells
    assert sum(measured.values()) >= 7


def test_unequal_counts_are_said() -> None:
    truth = Tool("truth", "", "", "", 1.0, 1.0, dict.fromkeys(ROUTINES, 3), 100)
    other = Tool("other", "", "", "", 2.0, 1.0, {**dict.fromkeys(ROUTINES, 3), ROUTINES[0]: 4}, 99)
    assert agreement(other, truth) == "9 equal"
    assert agreement(Tool("sum", "", "", "", total=99), truth) == "total differs"
    assert "| not installed |" in table([truth, Tool("none", "", "", "")])
