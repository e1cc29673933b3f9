"""`simprof sweep`: a grid of cells as one experiment, in one results file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import options, outputs, streams
from simprof.profiler.commands import progress as bars
from simprof.profiler.commands.help import in_sections
from simprof.profiler.commands.modes import mode_option
from simprof.profiler.commands.options import INPUTS, one_of, parts, several
from simprof.profiler.commands.progress import ready_engine
from simprof.profiler.experiments.commands.suite import complete_suite
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.experiments.cells.sweep import Grid, Outcome

FAILED = 1
# How the user knows what the command calls so.
NAMES = {
    "programs": "a program",
    "benchmarks": "--benchmark",
    "inputs": "--input",
    "builds": "--build",
    "kinds": "--kind",
    "modes": "--mode",
}


GRID = ".toml"  # How the name of a grid file ends; every other file is a program


SECTIONS = {
    "What to run": ("suite", "benchmarks", "inputs", "builds", "kinds"),
    "Under what": ("modes", "settings", "weights", "user_only"),
    "How": ("output", "workers", "scheduler", "retry_failed"),
}


@click.command("sweep", cls=in_sections(SECTIONS))
@click.argument("files", type=options.PATH, nargs=-1, metavar="[GRID.toml | ELF...]")
@options.option(
    "--suite NAME",
    "Suite whose programs are run, in place of a grid.",
    shell_complete=complete_suite,
)
@options.option("--benchmark GLOB", "Of the suite; repeatable.", name="benchmarks", multiple=True)
@several(
    "--input", "inputs", one_of(INPUTS), "NAME", "Inputs of the suite: train, ref.  [default: ref]"
)
@several("--build", "builds", parts, "NAME", "Builds of the suite.  [default: v9-O2]")
@several("--kind", "kinds", parts, "NAME", "run, plan, execute, time, analyse.  [default: run]")
@mode_option("Schemes (default: all that instrument)")
@options.option(
    "--settings OPTION=VALUE:...",
    "One set of options for all modes that have them: path-limit, table, layout, "
    "registers, guide; repeatable. A mode's own options follow it (--mode tpp:cold=20).",
    multiple=True,
)
@options.selection_options("Profile", routine=False)
@options.option(
    "--weights NAME,...",
    "heuristic, uniform, postorder, wall, forman, exact (an earlier run's edge counts).  "
    "[default: heuristic]",
    parts,
)
@options.output_option("SWEEP.db", "Results file.", required=True)
@options.option(
    "--jobs N",
    "Processes on this machine; each takes less than 2 GB.",
    options.WholeNumber(1, 256),
    name="workers",
    default=2,
    show_default=True,
)
@options.option("--scheduler ADDRESS", "Use the Dask cluster there instead.")
@options.replay_cells_option()
@options.option("--retry-failed", "Run again what failed in an earlier sweep.")
@options.allow_commands_option
@options.progress_option
def sweep_command(
    files: tuple[Path, ...],
    output: Path,
    workers: int,
    scheduler: str | None,
    replay: Path | None,
    retry_failed: bool,
    allow_commands: bool,
    progress: bool | None,
    **chosen: Any,
) -> int:
    """Run a grid of programs x modes x settings x weights; results go to one SQLite file.

    The grid is described by GRID.toml, or else by options for each ELF, run without arguments.

    Started again, it runs only what the file lacks, however the last sweep ended. A cell that
    fails is a row with its error; then the exit status is 1. The end shows what each scheme costs
    each program. `simprof table --from SWEEP.db` makes tables of the results.
    """
    from simprof.profiler.experiments.cells.store import Store
    from simprof.profiler.experiments.cells.sweep import local_runner, make_order, sweep

    grids = [file for file in files if file.suffix == GRID]
    if len(grids) > 1:
        raise UsageError(f"{grids[1]} is a second grid: sweep one at a time")
    programs = tuple(file for file in files if file not in grids)
    wanted = _grid(grids[0] if grids else None, {"programs": programs, **chosen})
    outputs.check_outputs(output, inputs=(replay, *files))
    if replay is not None and scheduler is not None:
        raise UsageError("--replay with --scheduler: the cluster cannot read recordings here")
    if output.exists():
        with Store(output):
            pass  # whether it can be used is found out before programs are built
    ready_engine(progress)
    run = local_runner(workers)
    if scheduler is not None:
        from simprof.profiler.experiments.cells.workers import run_on_cluster

        run = partial(run_on_cluster, address=scheduler)
    with bars.progress_bar(progress) as bar:
        order = make_order(wanted, progress=bar, allow_commands=allow_commands)
        outcome = sweep(order, output, run, replay=replay, progress=bar, retry=retry_failed)
    return _tell(outcome, output)


def _grid(file: Path | None, chosen: dict[str, Any]) -> Grid:
    from simprof.profiler.experiments.cells.settings import parse_options, selection_options
    from simprof.profiler.experiments.cells.sweep import Grid, GridProgram, kind, read_grid

    if file is not None:
        given = [name for name, value in chosen.items() if value]
        if given:
            name = NAMES.get(given[0], f"--{given[0].replace('_', '-')}")
            raise UsageError(f"{name} with {file}: write it in the grid file")
        return read_grid(file)
    plain = Grid()
    selecting = selection_options(options.selection(chosen))
    settings = tuple(map(parse_options, chosen["settings"])) or plain.options
    if missing := [path for path in chosen["programs"] if not path.exists()]:
        raise UsageError(
            f"{missing[0]} cannot be read: there is no such file (a program's arguments stand in a "
            "grid file)"
        )
    programs = tuple(GridProgram(path, path.stem) for path in chosen["programs"])
    return Grid(
        suite=chosen["suite"],
        programs=programs,
        benchmarks=chosen["benchmarks"],
        builds=chosen["builds"] or plain.builds,
        inputs=chosen["inputs"] or plain.inputs,
        kinds=tuple(map(kind, chosen["kinds"] or ())) or plain.kinds,
        modes=tuple(mode.label for mode in chosen["modes"] or ()) or plain.modes,
        options=tuple({**each, **selecting} for each in settings),
        weights=chosen["weights"] or plain.weights,
    )


def _tell(outcome: Outcome, output: Path) -> int:
    """Say what was done, what it costs, and what failed; return the exit status."""
    from simprof.profiler.experiments.reports.suites import render_sweep
    from simprof.profiler.reports.display import plural

    failures = outcome.failures
    total, reused = len(outcome.results), outcome.reused
    summary = f"{total - reused} run now, {reused} from before, {len(failures)} failed"
    streams.write(streams.STDOUT, f"{output}: {plural(total, 'cell')}: {summary}\n")
    width, color = streams.width(streams.STDOUT), streams.colored(streams.STDOUT)
    streams.write(streams.STDOUT, render_sweep(outcome.results, output, width, color))
    for job, error in failures:
        streams.complain(f"{job.cell.name}: {error}")
    return FAILED if failures else 0
