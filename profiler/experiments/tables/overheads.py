"""The overheads of all schemes side by side, those of other distributions too.

No table of a paper, and so not among those of `simprof table --all`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.epp import overhead
from simprof.profiler.experiments.tables.spec import CellNeed, Found, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import Claim, Form, ReportTable, TableColumn, Value
from simprof.profiler.schemes import registry


def rows(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return the overheads of one program, by mode."""
    costs = {mode: overhead(result) for mode, result in found.items()}
    yield (program.name, *(costs.get(mode) for mode in registry.planned_modes()))


def claims(table: ReportTable) -> Iterable[Claim]:
    """Nobody claims anything."""
    return ()


@cache
def overheads() -> TableSpec:
    """Return the table; its columns are the modes that are installed."""
    modes = registry.planned_modes()
    return TableSpec(
        "overheads",
        "Overheads of all schemes",
        "simprof",
        "Added instructions in percent of the uninstrumented run's, under each scheme's default "
        "options.",
        (
            TableColumn("program", "program"),
            *(TableColumn(mode, mode, Form.PERCENT) for mode in modes),
        ),
        {mode: CellNeed(setting(mode)) for mode in modes},
        rows,
        claims,
        is_partial=True,
    )
