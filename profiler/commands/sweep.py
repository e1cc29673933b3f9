"""`simprof sweep`: a grid of cells as one experiment, in one results file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profiler.commands import options, shared_options, streams
from profiler.commands.cell_progress import cell_bar
from simulator.errors import UsageError

if TYPE_CHECKING:
    from profiler.experiments.cells.obtain import Outcome, Runner
    from profiler.experiments.cells.sweep import Grid

FAILED = 1


def names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of a list such as "pp,tpp"."""
    if not isinstance(value, str):
        return value
    parts = tuple(part.strip() for part in value.split(","))
    if not all(parts):
        raise click.BadParameter(f"{value!r} is no list: write NAME,NAME,...")
    return parts


@click.command("sweep")
@click.argument("grid", type=options.PATH, required=False, metavar="[GRID.toml]")
@click.option("--suite", metavar="NAME", help="Suite whose programs are run, in place of a grid.")
@click.option(
    "--program",
    "programs",
    type=options.PATH,
    multiple=True,
    metavar="ELF",
    help="Program outside of suites, run without arguments; repeatable.",
)
@click.option(
    "--benchmark", "benchmarks", multiple=True, metavar="GLOB", help="Of the suite; repeatable."
)
@click.option("--inputs", type=names, metavar="NAME,...", help="train, ref.  [default: ref]")
@click.option("--builds", type=names, metavar="NAME,...", help="[default: v9-O2]")
@click.option(
    "--kinds", type=names, metavar="NAME,...", help="run, plan, execute, time.  [default: run]"
)
@click.option("--modes", type=names, metavar="MODE,...", help="[default: all that instrument]")
@click.option(
    "--settings",
    multiple=True,
    metavar="OPTION=VALUE,...",
    help="One set of options: path_limit, table, cold, loop, cold_always, iterations, "
    "placement; repeatable.",
)
@shared_options.selection_options("Profile", routine=False)
@click.option(
    "--weights",
    type=names,
    metavar="NAME,...",
    help="heuristic, uniform, postorder, exact (an earlier run's edge counts).  "
    "[default: heuristic]",
)
@click.option(
    "-o", "--output", type=options.PATH, required=True, metavar="SWEEP.db", help="Results file."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=2,
    show_default=True,
    metavar="N",
    help="Processes on this machine; each takes less than 2 GB.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Use the Dask cluster there instead.")
@shared_options.replay_cells_option()
@click.option("--retry-failed", is_flag=True, help="Run again what failed in an earlier sweep.")
@shared_options.progress_option("on a terminal")
def sweep_command(
    grid: Path | None,
    output: Path,
    workers: int,
    scheduler: str | None,
    replay: Path | None,
    retry_failed: bool,
    progress: bool | None,
    **chosen: Any,
) -> int:
    """Run a grid of programs x modes x settings x weights; results go to one SQLite file.

    Started again, it runs only what the file lacks, however the last sweep ended. A cell that
    fails is a row with its error; then the exit status is 1. `simprof table --from SWEEP.db`
    makes tables of the results.
    """
    from profiler.engine import kernel_cache
    from profiler.experiments.cells.sweep import make_order, sweep

    wanted = _grid(grid, chosen)
    options.check_outputs(output, inputs=(grid, replay, *chosen["programs"]))
    if replay is not None and scheduler is not None:
        raise UsageError("--replay beside --scheduler: the cluster cannot read recordings here")
    _check_results(output)
    kernel_cache.ensure()
    run = _runner(workers, scheduler)
    with cell_bar(progress) as shown:
        order = make_order(wanted, building=shown.building)
        outcome = sweep(
            order, output, run, replay=replay, progress=shown.running, retry=retry_failed
        )
    return _tell(outcome, output)


def _grid(file: Path | None, chosen: dict[str, Any]) -> Grid:
    """Return the grid of a file, or the one that options describe."""
    from profiler.experiments.cells.settings import parse_options, selection_options
    from profiler.experiments.cells.sweep import Grid, GridProgram, kind, read_grid

    if file is not None:
        given = [name for name, value in chosen.items() if value]
        if given:
            name = given[0].replace("_", "-")
            raise UsageError(f"--{name} beside {file}: write it in the grid file")
        return read_grid(file)
    plain = Grid()
    selecting = selection_options(shared_options.selection(chosen))
    settings = tuple(map(parse_options, chosen["settings"])) or plain.options
    programs = tuple(GridProgram(path, path.stem) for path in chosen["programs"])
    return Grid(
        suite=chosen["suite"],
        programs=programs,
        benchmarks=chosen["benchmarks"],
        builds=chosen["builds"] or plain.builds,
        inputs=chosen["inputs"] or plain.inputs,
        kinds=tuple(map(kind, chosen["kinds"] or ())) or plain.kinds,
        modes=chosen["modes"] or plain.modes,
        options=tuple({**each, **selecting} for each in settings),
        weights=chosen["weights"] or plain.weights,
    )


def _check_results(path: Path) -> None:
    """Find out before programs are built whether the results file can be used."""
    from profiler.experiments.cells.store import Store

    if path.exists():
        with Store(path):
            pass


def _runner(workers: int, scheduler: str | None) -> Runner:
    from functools import partial

    from profiler.experiments.cells.cluster import run_on_cluster
    from profiler.experiments.cells.obtain import local_runner

    if scheduler is not None:
        return partial(run_on_cluster, address=scheduler)
    return local_runner(workers)


def _tell(outcome: Outcome, output: Path) -> int:
    """Say what was done, and what failed; return the exit status."""
    failures = outcome.failures
    total, reused = len(outcome.results), outcome.reused
    summary = f"{total - reused} run now, {reused} from before, {len(failures)} failed"
    streams.write(streams.STDOUT, f"{output}: {total} cells: {summary}\n")
    for job, error in failures:
        streams.write(streams.STDERR, f"simprof: {job.cell.name}: {error}\n")
    return FAILED if failures else 0
