"""Tables of a suite: which there are, which cells they need, where results
come from, what they rest on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import (
    Cell,
    CellDocument,
    CellKind,
    Versions,
    versions,
)
from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.experiments.cells.sweep import FILE_BUILD, obtain
from simprof.profiler.experiments.suites.suite import Suite
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.tables import bl94, epp, kiter, later, others, tpp, tpp_text
from simprof.profiler.experiments.tables.spec import SuiteMember, TableReport, TableSpec, View, make
from simprof.profiler.experiments.tables.table import Form
from simprof.profiler.request.likeness import unknown
from simprof.profiler.request.request import ALL_ROUTINES, ProgressCallback
from simprof.simulator.errors import UsageError

_PAPERS = (epp, tpp, tpp_text, bl94, kiter)
_ALL = (*chain.from_iterable(each.TABLES for each in _PAPERS), others.CS6120)
# Those of papers, by name.
TABLES: Mapping[str, TableSpec] = MappingProxyType({spec.name: spec for spec in _ALL})


def tables() -> Mapping[str, TableSpec]:
    """Return all tables by name: those of papers, then others."""
    more = (
        others.overheads(),
        others.family(),
        others.GCOV_ARCS,
        others.REWRITING_COSTS,
        others.TIMES,
        *later.TABLES,
    )
    return {**TABLES, **{spec.name: spec for spec in more}}


def find(names: Iterable[str]) -> tuple[TableSpec, ...]:
    """Return tables by their names, each once; raises UsageError if there is no such table."""
    known = tables()
    chosen = {}
    for name in names:
        if name not in known:
            raise UsageError(unknown("table", name, known))
        chosen[name] = known[name]
    return tuple(chosen.values())


# -- tables of a suite, run now or of a results file -----------------------------------------------

NO_SUITE = "(none)"  # What programs of a sweep that belong to no suite go under


def run_tables(
    suite: Suite,
    specs: Sequence[TableSpec],
    view: View,
    *,
    store: Store | None = None,
    workers: int = 2,
    only: Sequence[str] = (),  # Glob patterns of benchmarks; empty: all
    # Glob patterns of those that are instrumented and run; None: those that the suite names.
    executed: Sequence[str] | None = None,
    # A recording of the one run that cells are of (`obtain`).
    replay: Path | None = None,
    progress: ProgressCallback | None = None,
) -> TableReport:
    """Make tables of a suite; what `store` lacks is run.

    Raises UsageError if no benchmark matches, the build is unknown, the store cannot be used, or
    the recording is of another run. A program that cannot be built or run is a row that says so.
    """
    programs = _matching(
        [SuiteMember(each.name, each.group, each.stands_for) for each in suite.benchmarks], only
    )
    view = replace(view, executed=_executed(suite, programs, executed))
    cells = dict.fromkeys(cell for spec in specs for cell in spec.cells(programs, view))
    outcome = obtain(
        suite,
        cells,
        store=store,
        workers=workers,
        replay=replay,
        progress=progress,
    )
    made = versions()
    report = _report(suite.name, suite.title, specs, programs, outcome.cells, view, made)
    return replace(report, files=outcome.files)


def _executed(
    suite: Suite, programs: Sequence[SuiteMember], patterns: Sequence[str] | None
) -> tuple[str, ...]:
    names = [program.name for program in programs]
    if patterns is None:
        return _names(names, suite.executed)
    for pattern in patterns:
        if not _names(names, (pattern,)):
            raise UsageError(f"--executed {pattern!r} matches no benchmark: see simprof suite list")
    return _names(names, patterns)


def _names(names: Sequence[str], patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if any(fnmatchcase(name, glob) for glob in patterns))


def stored_tables(
    path: Path,
    # Which suite of the file, `NO_SUITE` for programs outside of suites; None: the only one.
    suite: str | None,
    specs: Sequence[TableSpec],
    view: View,
    *,
    only: Sequence[str] = (),
    partial: bool = False,  # Leave out tables that the file has no cell for
    # Which of the view's "input", "build" and "selection" somebody has chosen.
    given: Collection[str] = (),
) -> TableReport:
    """Make tables of a file of results, running nothing.

    Input, build and selection of routines that nobody has chosen are those of the file, where it
    has results of one only.

    Raises UsageError if the file is none of simprof's, is damaged, or has no results of the suite.
    """
    with Store(path, create=False) as store:
        known = store.benchmarks()
        name = _only_suite(path, suite, tuple(dict.fromkeys(suite for suite, _, _ in known)))
        results, files = store.cells(name), store.files(name)
        made = store.latest() or versions()
    if not name:
        view = replace(view, build=FILE_BUILD)
    view = _of_file(view, results, given)
    title, stands_for = "", dict[str, str]()
    with suppress(UsageError):  # the suite may not be at hand
        described = load_suite(name)
        title = described.title
        stands_for = {each.name: each.stands_for for each in described.benchmarks}
    programs = _matching(
        [
            SuiteMember(benchmark, group, stands_for.get(benchmark, ""))
            for of, benchmark, group in known
            if of == name
        ],
        only,
    )
    view = replace(view, executed=_stored_executed(specs, programs, results, view))
    if partial:
        predicted = replace(view, executed=())
        kept = [
            spec
            for spec in specs
            if any(
                spec.includes(each)
                and all(cell in results for cell in spec.cells([each], predicted))
                for each in programs
            )
        ]
    else:
        kept = list(specs)
    report = _report(name or NO_SUITE, title, kept, programs, results, view, made)
    left_out = tuple(spec.name for spec in specs if spec not in kept)
    needed = dict.fromkeys(cell for spec in specs for cell in spec.cells(programs, view))
    missing = [cell for cell in needed if cell not in results]
    stored = tuple(_stored_lines(path, results, missing)) if missing or left_out else ()
    used = {(cell.benchmark, cell.build, cell.input) for cell in needed if cell in results}
    kept_files = tuple(f for f in files if (f.benchmark, f.build, f.input) in used)
    return replace(report, left_out=left_out, stored=stored, files=kept_files)


def _of_file(view: View, results: Mapping[Cell, CellDocument], given: Collection[str]) -> View:
    """Return a view with the only input, build and selection of the results, where not given."""
    runs = [cell for cell in results if cell.kind is not CellKind.PLAN]
    found: dict[str, dict[object, None]] = {
        "input": dict.fromkeys(cell.input for cell in runs),
        "build": dict.fromkeys(cell.build for cell in results),
        "selection": dict.fromkeys(
            replace(cell.setting.selection, tolerant=ALL_ROUTINES.tolerant) for cell in results
        ),
    }
    only = {
        name: next(iter(values))
        for name, values in found.items()
        if name not in given and len(values) == 1
    }
    return replace(view, **only)


MOST = 12  # Names that a line on a results file has


def _stored_lines(
    path: Path, results: Mapping[Cell, CellDocument], missing: Sequence[Cell]
) -> Iterator[str]:
    """Yield what a results file has, what it lacks, and how to add that."""
    cells = [cell for cell in results if results[cell].error is None]
    programs = sorted({cell.benchmark for cell in cells})
    inputs = dict.fromkeys(f"{cell.input} {cell.build}".strip() for cell in cells)
    settings = dict.fromkeys(cell.setting.name for cell in cells)
    yield (
        f"{path.name} has {_listed(settings)} of {_listed(programs)}, "
        f"input and build {_listed(inputs)}"
    )
    if missing:
        lacking = dict.fromkeys(cell.setting.name for cell in missing)
        where = dict.fromkeys(f"{cell.input} {cell.build}".strip() for cell in missing)
        yield f"missing for these tables: {_listed(lacking)}, input and build {_listed(where)}"
        yield f"`simprof sweep` of the same programs with these modes and -o {path.name} adds them"


def _listed(names: Iterable[str]) -> str:
    kept = list(names)
    more = f" and {len(kept) - MOST} more" if len(kept) > MOST else ""
    return f"{', '.join(kept[:MOST]) or 'nothing'}{more}"


def _stored_executed(
    specs: Sequence[TableSpec],
    programs: Sequence[SuiteMember],
    results: Mapping[Cell, CellDocument],
    view: View,
) -> tuple[str, ...]:
    """Return the programs of which the file has a run of the instrumented program."""

    def has(program: SuiteMember) -> bool:
        asked = replace(view, executed=(program.name,))
        return any(
            view.cell(need, program.name) in results
            for spec in specs
            for need in (*spec.needs.values(), *spec.executed(program, asked).values())
            if need.kind.of_instrumented
        )

    return tuple(program.name for program in programs if has(program))


def _only_suite(path: Path, suite: str | None, known: Sequence[str]) -> str:
    names = ", ".join(each or NO_SUITE for each in known)
    if suite == NO_SUITE and "" in known:
        return ""
    if suite is None:
        if len(known) == 1:
            return known[0]
        if not known:
            raise UsageError(f"{path} holds no results: run `simprof sweep -o {path}` first")
        raise UsageError(f"{path} has results of several suites: choose one of {names} by --suite")
    if suite not in known:
        raise UsageError(f"{path} has no results of suite {suite}, but of {names or 'none'}")
    return suite


def _matching(programs: Sequence[SuiteMember], only: Sequence[str]) -> tuple[SuiteMember, ...]:
    kept = tuple(each for each in programs if not only or _names([each.name], only))
    if programs and not kept:
        raise UsageError(f"no benchmark matches {', '.join(only)}: see `simprof suite list`")
    return kept


def _report(
    suite: str,
    title: str,
    specs: Sequence[TableSpec],
    programs: tuple[SuiteMember, ...],
    results: Mapping[Cell, CellDocument],
    view: View,
    made: Versions,
) -> TableReport:
    report = TableReport(
        suite, title, view, made.simprof, made.engine, made.cost_model, programs, ()
    )
    tables = []
    for spec in specs:
        table = make(spec, programs, results, view)
        unit = "Costs are simulated instructions, not times"
        if any(column.form is Form.SECONDS for column in table.columns):
            unit = "These are the only numbers that are no simulated instructions"
        tables.append(replace(table, caption=f"{table.caption} {unit} ({report.basis})."))
    return replace(report, tables=tuple(tables))
