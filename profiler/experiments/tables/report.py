"""Tables with what they rest on: what `reports` render."""

from __future__ import annotations

from dataclasses import dataclass

from simprof.profiler.experiments.tables.spec import SuiteMember, View
from simprof.profiler.experiments.tables.table import ReportTable


@dataclass(frozen=True)
class TableReport:
    """Tables with what they were made of."""

    # suite, title: Name of the suite and its title ("" where only results of it are there).
    suite: str
    title: str
    view: View  # Input, build and blocks
    # simprof, engine, cost_model: What made the results (see `provenance.Versions`).
    simprof: str
    engine: str
    cost_model: str
    programs: tuple[SuiteMember, ...]  # Those that the tables are of
    tables: tuple[ReportTable, ...]  # In the order asked for
    left_out: tuple[str, ...] = ()  # Names of tables that the results file has nothing for
    command: str = ""  # What makes this report again; "" where nobody said.
    # Of a results file: what it has, and what it lacks for these tables, a line each.
    stored: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """Programs with a row that could not be made and the reason, each once."""
        found = (failure for table in self.tables for failure in table.failures)
        return tuple(dict.fromkeys(found))

    @property
    def basis(self) -> str:
        """What all numbers rest on, in one line."""
        blocks = "" if self.view.blocks is None else f", BL94's tables on {self.view.blocks} blocks"
        return (
            f"suite {self.suite}, input {self.view.input}, build {self.view.build}{blocks}, "
            f"{self.view.selected}"
            f"simprof {self.simprof}, cost model {self.cost_model}"
        )
