"""`simprof table`: the papers' tables and graphs, reproduced on a suite."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from simprof.profiler.commands import options, outputs, streams
from simprof.profiler.commands import progress as bars
from simprof.profiler.commands.help import in_sections
from simprof.profiler.commands.options import BUILDS, INPUTS
from simprof.profiler.commands.progress import ready_engine
from simprof.profiler.experiments.commands.suite import complete_suite
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.experiments.tables.spec import TableReport, TableSpec

FAILED = 1
BLOCKS = ("folded", "merged", "split")
FORMATS = ("text", "json", "csv", "markdown", "html")


def _names() -> Iterable[str]:
    from simprof.profiler.experiments.tables.results import tables

    return tables()


SECTIONS = {
    "Which tables": ("listed", "everything"),
    "Of what": ("suite", "only", "input_", "build", "exclude", "user_only", "results"),
    "What to write": ("form", "named"),
    "How": ("jobs", "cache", "progress"),
}


@click.command("table", cls=in_sections(SECTIONS))
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=options.completing(_names))
@options.option("--list", "List the tables and exit.", name="listed")
@options.option("--all", "Make every table of the papers.", name="everything")
@options.option(
    "--suite NAME|FILE.toml", "Suite to run.  [default: micro]", shell_complete=complete_suite
)
@options.option("--benchmark GLOB", "Of it; repeatable.", name="only", multiple=True)
@options.choice_option("--input", "input_", INPUTS, "ref", "Input of the measured runs.")
@options.choice_option(
    "--build", "build", BUILDS.values(), BUILDS["64"], "Build to run: of 64 bits, or of 32."
)
@options.selection_options("Measure", routine=False)
@options.choice_option(
    "--blocks",
    "blocks",
    BLOCKS,
    "folded",
    "BL94's tables: basic blocks as the paper has them, with slots of annulled branches left "
    "blocks, or ending at calls and delay slots.",
)
@options.option(
    "--executed GLOB",
    "Benchmarks that are also instrumented and run, to show what they execute next to what is "
    "predicted (epp1, tpp2, tpp3, cs6120); repeatable.  [default: as the suite says]",
    multiple=True,
)
@options.option("--predicted", "Instrument and run none: predictions only.")
@options.option(
    "--from SWEEP.db", "Take results from there and run nothing.", options.PATH, name="results"
)
@options.option(
    "--results FILE",
    "Keep results there, so that nothing is run twice.  [default: simprof's cache]",
    options.PATH,
    name="cache",
)
@options.option(
    "--jobs N",
    "Processes that run programs.",
    options.WholeNumber(1, 256),
    default=2,
    show_default=True,
)
@options.replay_cells_option()
@click.option("--json", "form", flag_value="json", help="Everything, as JSON.")
@click.option("--csv", "form", flag_value="csv", help="Rows, as CSV.")
@click.option("--markdown", "form", flag_value="markdown", help="A page of Markdown.")
@click.option("--html", "form", flag_value="html", help="A page of HTML with plots.")
@click.option(
    "-o",
    "--output",
    "named",
    metavar="FILE|DIR/",
    help="Write there, not to stdout. A directory, as with --all, is given without a format: a "
    "page with everything, and each table as CSV, Markdown, LaTeX and SVG.",
)
@options.allow_commands_option
@options.progress_option
def table_command(
    names: tuple[str, ...],
    listed: bool,
    everything: bool,
    form: str | None,
    named: str | None,
    **chosen: Any,
) -> int:
    """Make tables and graphs of the papers from runs of a suite's programs.

    Each is shown next to the paper's own numbers, with a verdict on each claim that the paper
    draws from it. Costs are simulated instructions. A program that fails has a row that says so;
    then the exit status is 1.
    """
    from simprof.profiler.experiments.tables.results import tables

    if listed:
        from simprof.profiler.experiments.reports.tables import render_names

        titles = {name: spec.title for name, spec in tables().items()}
        streams.write(streams.STDOUT, render_names(titles, streams.width(streams.STDOUT)))
        return 0
    specs = _chosen(names, everything)
    # A name with / at its end is a directory's, as commands that copy files take it.
    output = None if named is None else options.possible_path(named)
    is_directory = everything or (named or "").endswith("/") or (output and output.is_dir())
    directory = output if is_directory and form is None else None
    if directory is not None:
        if directory.exists() and not directory.is_dir():
            hint = "name a directory, or give a format (--html, ...)"
            raise UsageError(f"{directory} is a file: {hint}")
        outputs.make_directory(directory)
    else:
        outputs.check_outputs(output, inputs=(chosen["results"], chosen["replay"]))
    report = _report(specs, everything, chosen)
    report = replace(report, command=_command(names, everything, form, chosen))
    if directory is not None:
        _write_directory(report, directory)
    else:
        outputs.write_text(_rendered(report, form or "text", output), output)
    for name, reason in report.failures:
        streams.complain(f"{name}: {reason}")
    return FAILED if report.failures else 0


def _chosen(names: tuple[str, ...], everything: bool) -> tuple[TableSpec, ...]:
    """Return the tables that are named; with `--all` those of papers, and then these."""
    from simprof.profiler.experiments.tables.results import TABLES, find

    named = find(names)
    if everything:
        known = [spec.name for spec in named if spec.name in TABLES]
        if known:
            raise UsageError(f"name tables, or give --all: {', '.join(known)} is among all anyway")
        return (*TABLES.values(), *named)
    if not named:
        raise UsageError("name tables, or give --all: `simprof table --list` names them")
    return named


def _report(specs: tuple[TableSpec, ...], everything: bool, chosen: dict[str, Any]) -> TableReport:
    from simprof.profiler.experiments.suites.suite_file import load_suite
    from simprof.profiler.experiments.tables.results import run_tables, stored_tables
    from simprof.profiler.experiments.tables.spec import View

    build = chosen["build"]
    blocks = None if chosen["blocks"] == "folded" else chosen["blocks"]
    view = View(chosen["input_"], build, blocks, options.selection(chosen))
    only, executed = chosen["only"], _executed(chosen)
    if chosen["results"] is not None:
        if chosen["cache"] is not None:
            raise UsageError("--results with --from: with --from nothing is run or kept")
        if executed is not None:
            raise UsageError("--executed or --predicted with --from: with --from nothing is run")
        if chosen["replay"] is not None:
            raise UsageError("--replay with --from: with --from nothing is measured")
        return stored_tables(
            chosen["results"],
            chosen["suite"],
            specs,
            view,
            only=only,
            partial=everything,
            given=_given(),
        )
    from simprof.profiler.experiments.cells.store import Store, default_store_path

    suite = load_suite(chosen["suite"] or "micro", allow_commands=chosen["allow_commands"])
    ready_engine(chosen["progress"])
    cache = chosen["cache"] or default_store_path()
    with Store(cache) as store, bars.progress_bar(chosen["progress"]) as bar:
        return run_tables(
            suite,
            specs,
            view,
            store=store,
            workers=chosen["jobs"],
            only=only,
            executed=executed,
            replay=chosen["replay"],
            progress=bar,
        )


_CHOICES = {"input_": "input", "build": "build", "exclude": "selection", "user_only": "selection"}


def _given() -> set[str]:
    """Return what of a view the user has chosen."""
    context = click.get_current_context()
    return {
        part
        for name, part in _CHOICES.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def _executed(chosen: dict[str, Any]) -> tuple[str, ...] | None:
    """Return patterns of the benchmarks that are instrumented and run; None: the suite's own."""
    patterns: tuple[str, ...] = chosen["executed"]
    if chosen["predicted"] and patterns:
        raise UsageError("--predicted with --executed: give one of them")
    return patterns if patterns or chosen["predicted"] else None


def _command(
    names: tuple[str, ...], everything: bool, form: str | None, chosen: dict[str, Any]
) -> str:
    """Return the command that makes the report again, without where it is written to."""
    words = ["simprof", "table", *(("--all",) if everything else ()), *names]
    if chosen["results"] is not None:
        words += ["--from", chosen["results"].name]
    if chosen["suite"] is not None or chosen["results"] is None:
        words += ["--suite", chosen["suite"] or "micro"]
    given = {
        **{"--benchmark": chosen["only"], "--input": chosen["input_"], "--build": chosen["build"]},
        **{"--blocks": chosen["blocks"], "--executed": chosen["executed"]},
        **{"--predicted": chosen["predicted"], "--exclude": chosen["exclude"]},
        **{"--user-only": chosen["user_only"], f"--{form}": form is not None},
    }
    usual = {"--input": "ref", "--build": BUILDS["64"], "--blocks": BLOCKS[0]}
    for option, value in given.items():
        if isinstance(value, tuple):
            words += (word for each in value for word in (option, each))
        elif value is True:
            words.append(option)
        elif value and value != usual[option]:
            words += [option, value]
    return shlex.join(words)


def _rendered(report: TableReport, form: str, output: Path | None) -> str:
    from simprof.profiler.experiments.reports import tables
    from simprof.profiler.reports.display import visible_lines

    match form:
        case "json":
            return tables.render_json(report)
        case "csv":
            return visible_lines(tables.render_csv(report))
        case "markdown":
            return visible_lines(tables.render_markdown(report))
        case "html":
            from simprof.profiler.experiments.reports.pages import render_tables_page

            return render_tables_page(report)
    on_stdout = output is None or output == outputs.STANDARD_STREAM
    width = streams.width(streams.STDOUT if on_stdout else None)
    return tables.render_text(report, width, color=on_stdout and streams.colored(streams.STDOUT))


def _write_directory(report: TableReport, directory: Path) -> None:
    """Write the page that shows everything, and each table by itself."""
    from simprof.profiler.experiments.reports import pages, tables
    from simprof.profiler.profiles.output import write_atomically
    from simprof.profiler.reports.display import plural

    files = {
        "index.html": pages.render_tables_page(report),
        "results.md": tables.render_markdown(report),
        "results.json": tables.render_json(report),
    }
    for table in report.tables:
        files[f"{table.name}.csv"] = tables.render_csv_table(table)
        files[f"{table.name}.md"] = tables.render_markdown_table(table)
        files[f"{table.name}.tex"] = tables.render_latex(table)
        plot = pages.render_plot(table)
        if plot is not None:
            files[f"{table.name}.svg"] = plot
    for name, text in files.items():
        write_atomically(directory / name, text.encode())
    streams.write(
        streams.STDOUT, f"{directory / 'index.html'}: {plural(len(report.tables), 'table')}\n"
    )
