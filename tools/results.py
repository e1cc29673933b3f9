#!/usr/bin/env python3
"""Measure the tables of results, docs/data/*.json; and for the site make their pages.

    python tools/results.py [PAGE]... [--workers N] [--fresh]

Without a PAGE all are measured. Cells are kept in build/results, so that work that was interrupted
is resumed, where no file of simprof has changed since; `--fresh` measures all again. A page's data
are a finished table report: numbers as its page shows them, titles and verdicts as they were. The
papers' own numbers are in fixtures/suites/published. The pages, results*.md, are in no folder:
mkdocs.yml names this file as a hook, which adds them to the site.

Steps -> functions
    what to measure                  `PAGES`, `suite_of`
    measure it                       `measure`, `Reporter`
    write the data, read them        `as_data`, `laid_out`, `read`
    make the site's pages            `page`, `on_files`
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import versions
from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.experiments.reports.tables import render_markdown, shown
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.tables.results import TABLES, find, run_tables
from simprof.profiler.experiments.tables.spec import TableReport, View
from simprof.profiler.experiments.tables.table import Form, TableColumn, TableRow, Value, published
from simprof.profiler.request.request import Progress
from tools.benchmarks.rows import ROOT, commit

DATA = ROOT / "docs" / "data"
KEPT = ROOT / "build" / "results"
COMPILER = "sparc64-linux-gnu-gcc-12"
LARGEST = 10**15
"""Numbers from here on are kept as the texts that are shown, infinite ones too."""
PAUSE = 10.0
"""Seconds between two lines of progress."""


class Page(msgspec.Struct, frozen=True):
    """Tables that are measured and shown together. Names are as in `View`."""

    name: str
    suite: str
    tables: tuple[str, ...]
    input: str = "ref"
    build: str = "v9-O2"
    only: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """What makes the same tables."""
        words = ["simprof", "table", *self.tables, "--suite", self.suite]
        given = [("--benchmark", each) for each in self.only]
        given += [("--input", self.input)] if self.input != "ref" else []
        given += [("--build", self.build)] if self.build != "v9-O2" else []
        return shlex.join([*words, *(word for pair in given for word in pair)])


PAPERS = (*TABLES, "gcov-arcs")
LATER = tuple("ppp-parts family sampling sampling-pep kiter-kblpp traces net".split())
EXECUTED = tuple("epp1 tpp2 cs6120 rewriting instrumented".split())
REAL = tuple("compress minigzip tinyscheme stones mesh integrals cjpeg mawk".split())
PAGES = (
    Page("results-executed-micro", "micro", EXECUTED),
    Page("results-executed-wcet", "wcet", EXECUTED),
    Page("results-wcet", "wcet", PAPERS),
    Page(
        "results-executed-32", "spec-like", EXECUTED, build="v8plus-O2", only=REAL[:1] + REAL[5:6]
    ),
    Page("results-executed", "spec-like", EXECUTED, only=REAL),
    Page("results", "spec-like", PAPERS),
    Page("results-family", "spec-like", LATER, input="train"),
)


class Measured(msgspec.Struct, frozen=True):
    """The data of a page: its report, and how that was made; None: that is not known."""

    commit: str | None
    seconds: int | None
    workers: int | None
    report: TableReport


# -- measuring ------------------------------------------------------------------------------------


class Reporter:
    """Prints how far a page is."""

    def __init__(self, name: str) -> None:
        self._name, self._started, self._last = name, time.monotonic(), 0.0
        self._first: int | None = None  # Cells that were there from before

    def __call__(self, progress: Progress) -> None:
        """Take what is reported; print a line at times, and when a phase is over."""
        now = time.monotonic()
        if progress.total and self._first is None:
            self._first = progress.done
        is_over = progress.done == progress.total
        if not progress.total or (now - self._last < PAUSE and not is_over):
            return
        self._last, taken = now, now - self._started
        done, left = progress.done - (self._first or 0), progress.total - progress.done
        more = f", about {clock(taken / done * left)} left" if done and left else ""
        counted = f"{progress.phase.value}: {progress.done:,} of {progress.total:,}"
        print(f"{self._name}: {counted}, {clock(taken)}{more} {progress.text}", flush=True)


def clock(seconds: float) -> str:
    """Return a time as minutes and seconds."""
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s"


def measure(made: Page, workers: int) -> Measured:
    """Measure the tables of a page; raises UsageError if the suite is not there."""
    tables = made.tables
    if "gcov-arcs" in tables and shutil.which(COMPILER) is None:
        tables = tuple(name for name in tables if name != "gcov-arcs")
        print(f"{made.name}: gcov-arcs left out, for there is no {COMPILER}")
    kept = KEPT / versions().engine  # Cells of other code are of no use, nor is their time.
    kept.mkdir(parents=True, exist_ok=True)
    spent = kept / f"{made.name}.seconds"  # by runs that were interrupted
    before = float(spent.read_text()) if spent.exists() else 0.0
    started = time.monotonic()
    try:
        with Store(kept / "cells.sqlite") as store:
            report = run_tables(
                load_suite(made.suite, allow_commands=True),
                find(tables),
                View(made.input, made.build),
                store=store,
                workers=workers,
                only=made.only,
                progress=Reporter(made.name),
            )
    finally:
        seconds = before + time.monotonic() - started
        spent.write_text(f"{seconds:.1f}")
    report = replace(report, command=replace(made, tables=tables).command)
    return Measured(commit(), round(seconds), workers, report)


# -- data -----------------------------------------------------------------------------------------


def as_data(measured: Measured) -> str:
    """Return the text of a data file: numbers have the digits that are shown."""
    tables = [
        replace(
            table,
            columns=tuple(map(_plain, table.columns)),
            rows=tuple(_rounded(table.columns, row) for row in table.rows),
            published=None,
            claims=tuple(replace(claim, conditions=()) for claim in table.claims),
            bars=None,
        )
        for table in measured.report.tables
    ]
    report = replace(measured.report, tables=tuple(tables))
    return laid_out(msgspec.to_builtins(replace(measured, report=report))) + "\n"


def _plain(column: TableColumn) -> TableColumn:
    return TableColumn(column.key, column.title, column.form)


def _rounded(columns: Sequence[TableColumn], row: TableRow) -> TableRow:
    values = (_as_shown(value, each.form) for value, each in zip(row.values, columns, strict=True))
    return replace(row, values=tuple(values))


def _as_shown(value: Value, form: Form) -> Value:
    if not isinstance(value, int | float):
        return value
    text = shown(value, form)
    if not abs(value) < LARGEST:
        return text
    plain = float(text.replace(",", ""))
    return round(plain) if form is Form.COUNT or isinstance(value, int) else plain


def laid_out(value: Any, indent: str = "") -> str:
    """Return JSON in which what holds no further object is on a line."""
    parts: Sequence[Any] = [*value.values()] if isinstance(value, dict) else value
    if not any(isinstance(part, dict) for part in deep(parts)):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    within = f"{indent} "
    if isinstance(value, dict):
        start, end = "{}"
        lines = [f"{json.dumps(key)}: {laid_out(each, within)}" for key, each in value.items()]
    else:
        start, end = "[]"
        lines = [laid_out(each, within) for each in parts]
    return f"{start}\n{within}" + f",\n{within}".join(lines) + f"\n{indent}{end}"


def deep(value: Any) -> Iterator[Any]:
    """Yield what lists hold, and the lists in them."""
    if isinstance(value, list | tuple):
        for each in value:
            yield each
            yield from deep(each)


def read(name: str) -> Measured:
    """Read the data of a page, with the papers' own numbers beside ours."""
    plain = json.loads((DATA / f"{name}.json").read_text())
    measured = msgspec.convert(plain, Measured)
    tables = (replace(each, published=published(each.name)) for each in measured.report.tables)
    return replace(measured, report=replace(measured.report, tables=tuple(tables)))


# -- pages ----------------------------------------------------------------------------------------


def page(measured: Measured) -> str:
    """Return a page as Markdown."""
    head, _, rest = render_markdown(measured.report).partition("\n\n")
    return "\n\n".join([head, *_how(measured), rest])


def _how(measured: Measured) -> Iterator[str]:
    if measured.seconds is not None:
        yield (
            f"Measured at commit {measured.commit}, in {clock(measured.seconds)} with "
            f"{measured.workers} processes."
        )


def pages() -> dict[str, str]:
    """Return file name -> page."""
    return {f"{path.stem}.md": page(read(path.stem)) for path in sorted(DATA.glob("*.json"))}


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages to the site; mkdocs calls this."""
    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit status."""
    known = {each.name: each for each in PAGES}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(known)}")
    parser.add_argument("--workers", type=int, default=2, help="processes that run programs")
    parser.add_argument("--fresh", action="store_true", help="measure all cells again")
    given = parser.parse_args(arguments)
    if unknown := set(given.pages) - set(known):
        parser.error(f"unknown page {unknown.pop()}: choose from {', '.join(known)}")
    if given.fresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    failures, taken = 0, 0
    for name in given.pages or known:
        measured = measure(known[name], given.workers)
        (DATA / f"{name}.json").write_text(as_data(measured))
        taken += measured.seconds or 0
        for program, why in measured.report.failures:
            failures += 1
            print(f"{name}: {program}: {why}")
    print(f"{clock(taken)} in all, {failures} failures")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
