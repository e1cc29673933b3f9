"""How a table is made: which cells it needs, and how their results become rows and verdicts.

A `TableSpec` is declarative; `make` does the same for all: a row for each program, the row of
one that failed, averages, the paper's numbers, and the verdicts on its claims.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simprof.profiler.experiments.cells.cells import (
    DEFAULT_BUILD,
    Cell,
    CellKind,
    CellResult,
    failure,
)
from simprof.profiler.experiments.cells.settings import CellSetting, selecting, setting
from simprof.profiler.experiments.suites.suite import CounterBuild, with_counters
from simprof.profiler.experiments.tables.executed import (
    CAPTION,
    Predictions,
    executed_columns,
    executed_row,
    problems,
)
from simprof.profiler.experiments.tables.published import published
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    ReportTable,
    TableColumn,
    TableRow,
    Value,
    beside,
    failed_row,
    with_averages,
)
from simprof.profiler.request.request import ALL_ROUTINES, Selection

MAELARDALEN = "Mälardalen"
"""The benchmarks of worst-case execution times that KITER uses."""

RELEASE = re.compile(r"\((SPEC\d+)\)")


@dataclass(frozen=True)
class SuiteMember:
    """A program of a suite, as tables know it."""

    name: str
    group: str = ""
    # As in `suite.Benchmark`, e.g. "129.compress (SPEC95), 164.gzip (SPEC2000)".
    stands_for: str = ""

    @property
    def releases(self) -> frozenset[str]:
        """SPEC's releases whose programs it stands in for: "SPEC95", "SPEC2000"."""
        return frozenset(RELEASE.findall(self.stands_for))

    def partners(self, family: str) -> tuple[str, ...]:
        """Return the names of a family's programs that it stands in for.

        Those of SPEC are written "129.compress", with or without "(SPEC95)", those of Mälardalen
        "Mälardalen crc".
        """
        found = []
        for part in self.stands_for.split(","):
            words = part.split()
            if words and words[0] == MAELARDALEN:
                found.append((MAELARDALEN, words[-1]))
            elif words and words[0].partition(".")[0].isdigit():
                found.append(("SPEC", words[0]))
        return tuple(name for its, name in found if its == family)


@dataclass(frozen=True)
class CellNeed:
    """A cell that a table needs of each program."""

    setting: CellSetting
    input: str = "ref"
    kind: CellKind = CellKind.RUN
    counters: CounterBuild = CounterBuild.NONE  # Whose counters the program that runs has in it
    # Whether libraries' routines are profiled too where the view is of own ones: the table tells
    # them apart by itself.
    whole: bool = False

    def cell(self, program: str, build: str = DEFAULT_BUILD) -> Cell:
        """Return the cell of a program; that of an input other than "ref" keeps its input."""
        name = "" if self.kind is CellKind.PLAN else self.input
        return Cell(program, self.setting, name, self.kind, with_counters(build, self.counters))


Found = Mapping[str, CellResult]
"""Results of one program by the table's own name of each need."""

Rows = Callable[[SuiteMember, Found], Iterable[Sequence[Value]]]
Claims = Callable[[ReportTable], Iterable[Claim]]


def _any(program: SuiteMember) -> bool:
    return True


@dataclass(frozen=True)
class TableSpec:
    """What `make` makes a table of. Names are as in `ReportTable`."""

    name: str
    title: str
    source: str
    caption: str
    columns: tuple[TableColumn, ...]
    needs: Mapping[str, CellNeed]  # Our name -> the cell of each program
    # Values of the rows of one program, its name first; none where it has nothing to tell.
    rows: Rows
    claims: Claims  # Judge the paper's claims by the finished table
    notes: tuple[str, ...] = ()
    bars: Bars | None = None
    compared: tuple[str, ...] = ()
    averaged: bool = True  # Whether rows of averages are added
    includes: Callable[[SuiteMember], bool] = _any  # Whether a program has a row in it
    # Columns beside which what was executed is shown, where that is asked for (`View.executed`)
    predictions: Predictions = field(default_factory=dict)
    # Whether it is about instrumented programs only: then it has rows of those that `View.executed`
    # chooses, or of all where it chooses none.
    of_instrumented: bool = False
    # Whether a row can be made of some of its cells; `rows` then gets those that are there.
    is_partial: bool = False

    def cells(self, programs: Iterable[SuiteMember], view: View) -> Iterator[Cell]:
        """Yield the cells that it needs."""
        for program in self.chosen(programs, view):
            for need in (*self.needs.values(), *self.executed(program, view).values()):
                yield view.cell(need, program.name)

    def chosen(self, programs: Iterable[SuiteMember], view: View) -> tuple[SuiteMember, ...]:
        """Return the programs that it has rows of."""
        names = view.executed if self.of_instrumented else ()
        return tuple(
            each for each in programs if self.includes(each) and (not names or each.name in names)
        )

    def executed(self, program: SuiteMember, view: View) -> Mapping[str, CellNeed]:
        """Return the cells of what a program executed, by the needs that predict it."""
        if program.name not in view.executed:
            return {}
        needs = dict.fromkeys(each.need for each in self.predictions.values())
        return {name: replace(self.needs[name], kind=CellKind.EXECUTE) for name in needs}


@dataclass(frozen=True)
class View:
    """Which input, build and blocks tables are made of."""

    input: str = "ref"  # The input that stands where papers have "ref"; needs of "train" keep that.
    build: str = DEFAULT_BUILD
    # The value of the option `blocks` for needs that give it one (BL94's); None: their own.
    blocks: str | None = None
    # Which routines are profiled; `--routine` has no meaning for programs that differ.
    selection: Selection = ALL_ROUTINES
    # Programs that are instrumented and run, to show what they execute beside predictions
    executed: tuple[str, ...] = ()

    @property
    def selected(self) -> str:
        """Which routines, as part of a sentence; "" where all are."""
        parts = []
        if self.selection.user_only:
            parts.append("the programs' own routines only")
        if self.selection.exclude:
            parts.append(f"without routines {' '.join(self.selection.exclude)}")
        return "".join(f"{part}, " for part in parts)

    def cell(self, need: CellNeed, program: str) -> Cell:
        """Return the cell that meets a need."""
        chosen = self.input if need.input == "ref" else need.input
        return replace(need, setting=self._setting(need), input=chosen).cell(program, self.build)

    def _setting(self, need: CellNeed) -> CellSetting:
        options: dict[str, object] = dict(need.setting.options)
        selection = replace(self.selection, user_only=self.selection.user_only and not need.whole)
        if self.blocks is None or "blocks" not in options:
            return selecting(need.setting, selection)
        chosen = setting(need.setting.mode, **{**options, "blocks": self.blocks})
        return selecting(chosen, selection)


def make(
    spec: TableSpec,
    programs: Sequence[SuiteMember],
    results: Mapping[Cell, CellResult],
    view: View,
) -> ReportTable:
    """Make a table of results; a cell that is missing among them is a failure of its program."""
    programs = spec.chosen(programs, view)
    executed = {program: _executed(spec, program, results, view) for program in programs}
    columns, caption = spec.columns, f"{spec.caption}{_about_blocks(spec, view)}"
    rows: list[TableRow] = []
    for program in programs:
        predicted = _results(spec.needs, program, results, view, spec.is_partial)
        made: Iterable[TableRow] = _rows(spec, program, predicted)
        if any(executed.values()):
            made = (
                executed_row(row, columns, spec.predictions, predicted, executed[program])
                for row in made
            )
        rows += made
    if any(executed.values()):
        columns, caption = executed_columns(columns, spec.predictions), caption + CAPTION
    table = ReportTable(
        spec.name,
        spec.title,
        spec.source,
        caption,
        columns,
        with_averages(columns, rows) if spec.averaged else tuple(rows),
        published(spec.name),
        (),
        spec.notes,
        spec.bars,
        spec.compared,
    )
    claims = tuple(spec.claims(table))
    family = table.published.family if table.published else ""
    compared = beside(table, {program.name: program.partners(family) for program in programs})
    return replace(compared, claims=claims)


def _about_blocks(spec: TableSpec, view: View) -> str:
    """Say what a basic block is in a table that has a choice (BL94's)."""
    if not any("blocks" in dict(need.setting.options) for need in spec.needs.values()):
        return ""
    return f" Basic blocks {_BLOCKS[view.blocks or 'folded']}."


_BLOCKS = {
    "split": "end at calls and delay slots (--blocks split)",
    "merged": "are straight-line code, calls included; a slot of an annulled branch may be one "
    "(--blocks merged)",
    "folded": "as BL94 has them: straight-line code, calls included, without delay slots of their "
    "own",
}


def _executed(
    spec: TableSpec, program: SuiteMember, results: Mapping[Cell, CellResult], view: View
) -> Found:
    """Return what a program executed, by need; {} where it was not run for this table."""
    needs = spec.executed(program, view)
    if any(view.cell(need, program.name) not in results for need in needs.values()):
        return {}
    return _results(needs, program, results, view)


def _results(
    needs: Mapping[str, CellNeed],
    program: SuiteMember,
    results: Mapping[Cell, CellResult],
    view: View,
    partial: bool = False,
) -> Found:
    """Return the result of each need; one that is missing is left out, or a failure."""
    cells = {name: view.cell(need, program.name) for name, need in needs.items()}
    missing = list(dict.fromkeys(cell for cell in cells.values() if cell not in results))
    if partial and len(missing) < len(cells):
        return {name: results[cell] for name, cell in cells.items() if cell in results}
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    lacking = failure(f"no result of {missing[0].name}{more}" if missing else "")
    return {name: results.get(cell, lacking) for name, cell in cells.items()}


def _rows(spec: TableSpec, program: SuiteMember, found: Found) -> Iterator[TableRow]:
    for result in found.values():
        if result.error is not None:
            yield failed_row(program.name, program.group, len(spec.columns), result.error)
            return
    differing = "; ".join(line for result in found.values() for line in problems(result))
    for values in spec.rows(program, found):
        yield TableRow(tuple(values), "program", program.group, differing or None)
