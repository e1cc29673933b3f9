"""`simprof suite`: list, build and run suites of programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from simprof.profiler.commands import options, outputs, streams
from simprof.profiler.commands import progress as bars
from simprof.profiler.commands.modes import mode_option
from simprof.profiler.commands.options import (
    BUILDS,
    INPUTS,
    one_of,
    several,
    width_of,
)
from simprof.profiler.commands.progress import ready_engine
from simprof.profiler.schemes.mode_options import ModeSetting, read
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.experiments.suites.suite import Suite, Width

WIDTHS: tuple[Width, ...] = (64, 32)
DEFAULT_MODES = ("qpt2", "pp")
jobs_option = options.jobs_option("programs")
benchmark_option = options.option(
    "--benchmark GLOB",
    "Only benchmarks whose name matches; repeatable.",
    name="patterns",
    multiple=True,
)
progress_option = options.progress_option


def _suites() -> Iterable[str]:
    from simprof.profiler.experiments.suites.suite_file import suite_names

    return suite_names()


complete_suite = options.completing(_suites, files=True)


@click.group("suite")
def suite_command() -> None:
    """Benchmark suites (train and ref inputs).

    SUITE is a name (micro, wcet, spec-like, real) or a .toml file.
    """


@suite_command.command("list", short_help="Name the suites, or the benchmarks of one.")
@click.argument("name", metavar="[SUITE]", required=False, shell_complete=complete_suite)
def list_command(name: str | None) -> int:
    """List all suites, or what is in SUITE and what each program stands in for."""
    from simprof.profiler.experiments.reports import suites
    from simprof.profiler.experiments.suites.suite_file import load_suite, suite_names

    width = streams.width(streams.STDOUT)
    if name is None:
        text = suites.render_suites([load_suite(each) for each in suite_names()], width)
    else:
        text = suites.render_suite(load_suite(name), width)
    streams.write(streams.STDOUT, text)
    return 0


@suite_command.command("build", short_help="Fetch and build the programs of a suite.")
@click.argument("name", metavar="SUITE", shell_complete=complete_suite)
@click.argument("programs", nargs=-1, metavar="[PROGRAM]...")
@several(
    "--build",
    "builds",
    one_of(BUILDS.values()),
    "NAME",
    "Only these builds: v9-O2 (64 bits), v8plus-O2 (32).  [default: both]",
)
@benchmark_option
@options.allow_commands_option
@jobs_option
@progress_option
def build_command(
    name: str,
    programs: tuple[str, ...],
    builds: tuple[str, ...] | None,
    patterns: tuple[str, ...],
    allow_commands: bool,
    jobs: int | None,
    progress: bool | None,
) -> int:
    """Build the programs of SUITE into the cache; those that are there are not built again.

    PROGRAM is the name of one, or a pattern of several; without any, all are built.

    Exit status 1 if a program could not be built; all others are.
    """
    from simprof.profiler.experiments.reports import suites
    from simprof.profiler.experiments.suites.builder import build_suite

    suite = chosen_suite(name, (*programs, *patterns), allow_commands=allow_commands)
    wanted = tuple(map(width_of, builds or BUILDS.values()))
    with bars.progress_bar(progress) as bar:
        report = build_suite(suite, widths=wanted, jobs=options.processors(jobs), progress=bar)
    streams.write(streams.STDOUT, suites.render_build(report, streams.width(streams.STDOUT)))
    return finish(report.failures)


@suite_command.command(
    "run",
    short_help="Run the programs of a suite under schemes.",
)
@click.argument("name", metavar="SUITE", shell_complete=complete_suite)
@click.argument("programs", nargs=-1, metavar="[PROGRAM]...")
@mode_option("Schemes, as `simprof run --mode` names them (default: qpt2 and pp)")
@options.choice_option("--input", "input_name", INPUTS, "ref", "Which of the two inputs.")
@options.choice_option(
    "--build",
    "build",
    BUILDS.values(),
    BUILDS["64"],
    "Which of the two builds: of 64 bits, or of 32.",
)
@benchmark_option
@options.selection_options("Profile", routine=False)
@options.option("--html FILE", "Write a page with bars there, too.", options.PATH)
@options.allow_commands_option
@jobs_option
@progress_option
def run_command(
    name: str,
    programs: tuple[str, ...],
    modes: tuple[ModeSetting, ...] | None,
    input_name: str,
    build: str,
    patterns: tuple[str, ...],
    html: Path | None,
    allow_commands: bool,
    jobs: int | None,
    progress: bool | None,
    **selected: Any,
) -> int:
    """Build SUITE where needed, run its programs, show what each scheme costs.

    PROGRAM is the name of one, or a pattern of several; without any, all are run.

    What the programs print is dropped. Exit status 1 if one could not be built, or ended
    otherwise than it should; the table has all others.
    """
    outputs.check_outputs(html)

    ready_engine(progress)
    from simprof.profiler.experiments.cells.cells import Cell
    from simprof.profiler.experiments.cells.settings import selecting, setting
    from simprof.profiler.experiments.cells.store import Store, default_store_path
    from simprof.profiler.experiments.cells.sweep import obtain
    from simprof.profiler.experiments.reports import suites

    suite = chosen_suite(name, (*programs, *patterns), allow_commands=allow_commands)
    selection = options.selection(selected)
    chosen = modes or tuple(map(read, DEFAULT_MODES))
    wanted = [selecting(setting(mode.mode, **dict(mode.own)), selection) for mode in chosen]
    cells = [
        Cell(benchmark.name, scheme, input_name, build=build)
        for benchmark in suite.benchmarks
        for scheme in wanted
    ]
    with bars.progress_bar(progress) as bar, Store(default_store_path()) as store:
        results = obtain(
            suite,
            cells,
            store=store,
            workers=options.processors(jobs),
            progress=bar,
        ).cells
    names = [scheme.name for scheme in wanted]
    rows = [
        (b, [results[cell] for cell in cells if cell.benchmark == b.name]) for b in suite.benchmarks
    ]
    streams.write(streams.STDOUT, suites.render_runs(rows, names, streams.width(streams.STDOUT)))
    if html is not None:
        from simprof.profiler.experiments.reports.pages import render_suite_page

        basis = f"Input {input_name}, {width_of(build)}-bit builds"
        outputs.write_text(render_suite_page(suite, rows, names, basis), html)
    return finish(
        {(b.name, input_name): r.error for b, found in rows for r in found if r.error is not None}
    )


def chosen_suite(name: str, patterns: tuple[str, ...], *, allow_commands: bool) -> Suite:
    """Return the suite with only those benchmarks that a pattern matches, if there are patterns.

    Raises UsageError if a pattern matches none.
    """
    from simprof.profiler.experiments.suites.suite_file import load_suite

    suite = load_suite(name, allow_commands=allow_commands)
    if not patterns:
        return suite
    names = [benchmark.name for benchmark in suite.benchmarks]
    for pattern in patterns:
        if not any(fnmatchcase(each, pattern) for each in names):
            raise UsageError(
                f"{pattern} matches none of {', '.join(names)}: see simprof suite list"
            )
    kept = [b for b in suite.benchmarks if any(fnmatchcase(b.name, p) for p in patterns)]
    return replace(suite, benchmarks=tuple(kept))


def finish(failures: Mapping[tuple[str, str], str]) -> int:
    """List what failed on stderr; return the exit status."""
    for (benchmark, which), message in failures.items():
        streams.complain(f"{benchmark} {which}: {message}")
    return 1 if failures else 0
