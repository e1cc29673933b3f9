"""Declared tables: which cells they need, and how their results become rows and verdicts.

A table is declared by a `TableSpec`: the cells that it needs of each program, its columns with
what each shows of their results, and the rules (`claims`) that judge what a paper concludes. `make`
evaluates them all: a row for each program, the row of one that failed, averages, the paper's own
numbers, verdicts.

Columns that show predictions (`ColumnSpec.predicts`) get a column "executed" beside them: the same,
of what the code executed in the programs that are instrumented and run (`View.executed`), and the
table a last one with the instructions by which the two differ. A program where they do differ has
an error in its row, but keeps its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import (
    ALONE_ROUTINES,
    PREDICTED,
    Cell,
    CellDocument,
    CellKind,
    RunFiles,
    failure,
)
from simprof.profiler.experiments.cells.settings import CellSetting, selecting, setting
from simprof.profiler.experiments.suites.suite import DEFAULT_BUILD, CounterBuild, with_counters
from simprof.profiler.experiments.tables.averages import beside, likeness, with_averages
from simprof.profiler.experiments.tables.expressions import PROGRAM, ColumnSpec, Found
from simprof.profiler.experiments.tables.table import (
    EXECUTED,
    Bars,
    Claim,
    Form,
    ReportTable,
    TableColumn,
    TableRow,
    Value,
    program_key,
    published,
)
from simprof.profiler.request.request import ALL_ROUTINES, Selection

MAELARDALEN = "Mälardalen"  # The benchmarks of worst-case execution times that KITER uses

RELEASE = re.compile(r"\((SPEC\d+)\)")


class SuiteMember(Struct, frozen=True, omit_defaults=True):
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


# -- declarations ---------------------------------------------------------------------------------


class CellNeed(Struct, frozen=True):
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


class TableSpec(Struct, frozen=True):
    """What `make` makes a table of. Names are as in `ReportTable`."""

    name: str
    title: str
    source: str
    caption: str
    needs: Mapping[str, CellNeed]  # Our name -> the cell of each program
    columns: tuple[ColumnSpec, ...]
    claims: tuple[
        Callable[[ReportTable], Claim], ...
    ] = ()  # Judge the paper's claims by the finished table
    notes: tuple[str, ...] = ()
    bars: Bars | None = None
    # Name of the published table whose programs are those that the paper speaks of: stand-ins of
    # these alone are averaged and judged, where there are any. "": all programs are.
    originals: str = ""
    # The subjects of a program's rows; none where it has nothing to tell.
    rows: Callable[[SuiteMember, Found], Iterable[Any]] = lambda _, found: (found,)
    # Whether a subject is judged, of programs that are.
    judges: Callable[[Any], bool] = lambda _: True
    averaged: bool = True  # Whether rows of averages are added
    includes: Callable[[SuiteMember], bool] = lambda _: True  # Whether it has rows of it
    # Whether it is about instrumented programs only: then it has rows of those that `View.executed`
    # chooses, or of all where it chooses none.
    of_instrumented: bool = False
    # Whether a row can be made of some of its cells; subjects then have those that are there.
    is_partial: bool = False
    # The subjects of all rows, of the results of all programs that did not fail; None: a program's
    # rows are about it alone (`rows`).
    across: Callable[[Sequence[Found]], Iterable[Any]] | None = None

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
        predicted = (column.predicts for column in self.columns if column.predicts)
        return {name: replace(self.needs[name], kind=CellKind.EXECUTE) for name in predicted}

    def judge(self, table: ReportTable) -> tuple[Claim, ...]:
        """Return the claims with what the finished table says about them."""
        return tuple(each(table) for each in self.claims)


class View(Struct, frozen=True, omit_defaults=True):
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
        options: dict[str, object] = dict(need.setting.own)
        selection = replace(self.selection, user_only=self.selection.user_only and not need.whole)
        if self.blocks is None or "blocks" not in options:
            return selecting(need.setting, selection)
        chosen = setting(need.setting.mode, **{**options, "blocks": self.blocks})
        return selecting(chosen, selection)


# -- evaluation -----------------------------------------------------------------------------------

OFF = TableColumn("off", "off", Form.COUNT, average=False)
# Share of base by which two runs of a program may differ because its file lies elsewhere: the C
# library copies its path at the start, which takes some more instructions where that is longer.
ELSEWHERE = 1e-3
# Share of base by which what was predicted for it may differ from what is for a run. Each is exact
# on graphs of its own: a program is instrumented for every place that a jump may lead to by its
# file, a run is planned with those that it has found (the switches in mawk's interpreter: 0.65 %).
OTHER_GRAPHS = 1e-2
CAPTION = (
    " Executed: the same, counted while the instrumented program ran, without what rewriting "
    "itself costs; of the programs for which this is done. Routines that are left alone have no "
    "code that could execute. Off: by how many instructions executed and predicted differ in the "
    "others, over all of the row."
)


class _Results(NamedTuple):
    """Results as a view chooses them."""

    known: Mapping[Cell, CellDocument]
    view: View

    def of(
        self, needs: Mapping[str, CellNeed], program: SuiteMember, *, partial: bool = False
    ) -> Found:
        """Return the result of each need; one that is missing is left out, or a failure."""
        cells = {name: self.view.cell(need, program.name) for name, need in needs.items()}
        missing = list(dict.fromkeys(cell for cell in cells.values() if cell not in self.known))
        if partial and len(missing) < len(cells):
            return {name: self.known[cell] for name, cell in cells.items() if cell in self.known}
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        lacking = failure(f"no result of {missing[0].name}{more}" if missing else "")
        return {name: self.known.get(cell, lacking) for name, cell in cells.items()}

    def executed(self, spec: TableSpec, program: SuiteMember) -> Found:
        """Return what a program executed, by need; {} where it was not run for this table."""
        needs = spec.executed(program, self.view)
        cells = (self.view.cell(need, program.name) for need in needs.values())
        return self.of(needs, program) if all(cell in self.known for cell in cells) else {}


def make(
    spec: TableSpec,
    programs: Sequence[SuiteMember],
    results: Mapping[Cell, CellDocument],
    view: View,
) -> ReportTable:
    """Make a table of results; a cell that is missing among them is a failure of its program."""
    programs, found = spec.chosen(programs, view), _Results(results, view)
    shown = any(found.executed(spec, program) for program in programs)
    originals = _originals(spec, programs)
    columns = tuple(_columns(spec, shown))
    if spec.across is not None:
        rows = list(_across(spec, spec.across, programs, found))
    else:
        rows = [
            replace(
                row,
                original=originals.get(program.name, ""),
                judged=row.judged and (not originals or program.name in originals),
            )
            for program in programs
            for row in _rows(spec, program, found, len(columns), shown)
        ]
    if spec.is_partial and not shown:
        # A file of a few modes has nothing for the columns of the others.
        kept = [at for at in range(len(columns)) if any(row.values[at] is not None for row in rows)]
        if len(kept) > 1:
            columns = tuple(columns[at] for at in kept)
            rows = [replace(row, values=tuple(row.values[at] for at in kept)) for row in rows]
    caption = spec.caption
    if any("blocks" in dict(need.setting.own) for need in spec.needs.values()):
        caption += f" Basic blocks {_BLOCKS[view.blocks or 'folded']}."
    table = ReportTable(
        spec.name,
        spec.title,
        spec.source,
        caption + (CAPTION if shown else ""),
        columns,
        tuple(rows),
        published(spec.name),
        (),
        (*spec.notes, *_not_judged(programs, originals)),
        spec.bars,
    )
    family = table.published.family if table.published else ""
    table = beside(table, {program.name: program.partners(family) for program in programs})
    if spec.averaged:
        table = replace(table, rows=with_averages(table.columns, table.rows))
    return replace(table, claims=spec.judge(table), likeness=likeness(table))


def _across(
    spec: TableSpec,
    subjects: Callable[[Sequence[Found]], Iterable[Any]],
    programs: Sequence[SuiteMember],
    results: _Results,
) -> Iterator[TableRow]:
    """Yield the rows that are about all programs, then those of programs that failed."""
    found, failed = [], []
    for program in programs:
        every = results.of(spec.needs, program, partial=True)
        found.append({need: result for need, result in every.items() if result.error is None})
        errors = dict.fromkeys(result.error for result in every.values() if result.error)
        if errors:
            failed.append(_failed(program, len(spec.columns), "; ".join(errors)))
    for subject in subjects(found):
        yield TableRow(tuple(column.value(subject) for column in spec.columns))
    yield from failed


def _failed(program: SuiteMember, width: int, error: str) -> TableRow:
    return TableRow((program.name, *[None] * (width - 1)), "failed", program.group, error)


def _originals(spec: TableSpec, programs: Sequence[SuiteMember]) -> Mapping[str, str]:
    """Return which of the paper's programs each one stands in for, of those that do."""
    theirs = published(spec.originals) if spec.originals else None
    if theirs is None:
        return {}
    known = {program_key(str(row.values[0])) for row in theirs.rows if row.kind == "program"}
    found = {}
    for program in programs:
        keys = (program_key(name) for name in program.partners(theirs.family))
        if (original := next((key for key in keys if key in known), None)) is not None:
            found[program.name] = original
    return found


def _not_judged(programs: Sequence[SuiteMember], originals: Mapping[str, str]) -> Iterator[str]:
    """Yield a note on the programs that count in no average and no verdict."""
    others = [program.name for program in programs if program.name not in originals]
    if originals and others:
        yield (
            "In no average and no verdict, for they stand in for none of the paper's programs: "
            f"{', '.join(others)}."
        )


# What a basic block is in a table that has a choice (BL94's)
_BLOCKS = {
    "split": "end at calls and delay slots (--blocks split)",
    "merged": "are straight-line code, calls included; a slot of an annulled branch may be one "
    "(--blocks merged)",
    "folded": "as BL94 has them: straight-line code, calls included, without delay slots of their "
    "own",
}


def _columns(spec: TableSpec, executed: bool) -> Iterator[TableColumn]:
    for column in spec.columns:
        yield column
        if executed and column.predicts:
            yield TableColumn(f"{column.key}{EXECUTED}", "executed", column.form)
    if executed:
        yield OFF


def _rows(
    spec: TableSpec, program: SuiteMember, results: _Results, width: int, shown: bool
) -> Iterator[TableRow]:
    """Yield the rows of a program; `shown`: whether the table has what was executed."""
    found = results.of(spec.needs, program, partial=spec.is_partial)
    failures = [result.error for result in found.values() if result.error is not None]
    if failures:
        yield _failed(program, width, failures[0])
        return
    executed = results.executed(spec, program) if shown else None
    lines: Iterable[str]
    if executed is None:
        lines = (line for result in found.values() for line in problems(result))
    else:
        lines = (
            f"executed under {need}: {line}"
            for need, result in executed.items()
            for line in problems(result, found[need])
        )
    error = "; ".join(lines) or None
    for subject in spec.rows(program, found):
        values = tuple(_values(spec, program, subject, executed))
        yield TableRow(values, "program", program.group, error, judged=spec.judges(subject))


def _values(
    spec: TableSpec, program: SuiteMember, subject: Any, executed: Found | None
) -> Iterator[Value]:
    ran = {need: result for need, result in (executed or {}).items() if not result.failed}
    for column in spec.columns:
        yield program.name if column is PROGRAM else column.value(subject)
        if executed is not None and column.predicts:
            yield column.value(ran) if column.predicts in ran else None
    if executed is not None:
        off = (abs(result.added - result.counts[PREDICTED]) for result in ran.values())
        yield sum(off) if ran else None


def problems(result: CellDocument, predicted: CellDocument | None = None) -> Iterator[str]:
    """Yield what is not as it should be with a run of an instrumented program.

    `predicted`: The result whose prediction stands beside it; None: its own.
    """
    if result.error is not None:
        yield result.error
        return
    yield from result.document.get("differences", ())
    if predicted is None:
        return
    compared = [("base is", result.base, predicted.base, ELSEWHERE)]
    if not result.counts[ALONE_ROUTINES]:
        promised = result.counts[PREDICTED]
        compared.append(("predicted were", promised, predicted.added, OTHER_GRAPHS))
    for what, here, there, share in compared:
        if abs(here - there) > share * predicted.base:
            yield f"{what} {here:,} instructions there, not {there:,}"


class TableReport(Struct, frozen=True, omit_defaults=True):
    """Tables with what they were made of: what `reports` render."""

    # suite, title: Name of the suite and its title ("" where only results of it are there).
    suite: str
    title: str
    view: View
    # simprof, engine, cost_model: What made the results (see `cells.Versions`).
    simprof: str
    engine: str
    cost_model: str
    programs: tuple[SuiteMember, ...]  # Those that the tables are of
    tables: tuple[ReportTable, ...]  # In the order asked for
    left_out: tuple[str, ...] = ()  # Names of tables that the results file has nothing for
    command: str = ""  # What makes this report again; "" where nobody said.
    # Of a results file: what it has, and what it lacks for these tables, a line each.
    stored: tuple[str, ...] = ()
    files: tuple[RunFiles, ...] = ()  # What was run for the tables

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
