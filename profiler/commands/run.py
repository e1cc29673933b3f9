"""`simprof run`: run a program under one scheme and report what it measured."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profiler.commands import options, streams
from profiler.commands.options import STANDARD_STREAM
from profiler.request import (
    DEFAULT_PATH_LIMIT,
    GuestOptions,
    Mode,
    RunRequest,
    SchemeOptions,
    TableChoice,
    Weights,
)
from simulator.errors import UsageError

if TYPE_CHECKING:
    from profiler.profile import Measurement


@click.command("run", short_help="Run a program under one scheme and report.")
@click.argument("elf", type=options.PROGRAM)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARG...]")
@click.option(
    "--mode",
    type=options.choice(*Mode),
    default=Mode.PP.value,
    show_default=True,
    help="Scheme: pp (acyclic paths), qpt2 (edges), edges (counted by the emulator, no cost).",
)
@click.option(
    "--path-limit",
    type=options.COUNT,
    default=DEFAULT_PATH_LIMIT,
    show_default=True,
    metavar="N",
    help="Truncate the paths of routines that have more potential paths (pp).",
)
@click.option(
    "--weights",
    type=options.weights,
    default=Weights.HEURISTIC.value,
    metavar="heuristic|uniform|FILE",
    show_default=True,
    help="Edge-frequency estimates: heuristic, uniform, or a profile saved by -o.",
)
@click.option(
    "--table",
    type=options.choice(*TableChoice),
    default=TableChoice.AUTO.value,
    show_default=True,
    help="How path counters are kept (pp).",
)
@click.option(
    "--routine",
    "routines",
    multiple=True,
    metavar="GLOB",
    help="Profile only routines whose name matches; repeatable.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Rows in each table of the report.",
)
@click.option(
    "--json",
    "json_file",
    type=options.PATH,
    metavar="FILE",
    help="Write the result as JSON; - is stdout (the program's stdout then goes to stderr).",
)
@click.option(
    "-o", "--output", type=options.PATH, metavar="PROFILE", help="Save the profile to a file."
)
@click.option(
    "--report", type=options.PATH, metavar="FILE", help="Write the report there, not to stderr."
)
@click.option(
    "--stdin", "stdin_file", type=options.PATH, metavar="FILE", help="The program's input."
)
@click.option(
    "--root",
    type=options.PATH,
    default=Path(),
    metavar="DIR",
    help="The directory that the program may read.  [default: the current one]",
)
@click.option(
    "--writable", type=options.PATH, metavar="DIR", help="Let the program write below DIR."
)
@click.option(
    "--env",
    "environment",
    type=options.variable,
    metavar="NAME=VALUE",
    multiple=True,
    help="Set a variable for the program, which inherits none; repeatable.",
)
@click.option("--argv0", metavar="NAME", help="The program's name for itself.  [default: ELF]")
@click.option(
    "--max-instructions", type=options.COUNT, metavar="N", help="Stop after N instructions."
)
@click.option("--timeout", type=options.seconds, metavar="SECONDS", help="Stop after so much time.")
@click.option(
    "--memory-limit",
    type=options.size,
    default="2G",
    show_default=True,
    metavar="SIZE",
    help="Memory that the program may use: bytes, or 64K, 512M, 2G.",
)
@click.option(
    "--stack-size",
    type=options.stack_size,
    default="64M",
    show_default=True,
    metavar="SIZE",
    help="Stack of the program, at most 256M and a quarter of its memory; Linux gives 8M.",
)
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Show a progress bar.  [default: if stderr is a terminal and the program's stdout none]",
)
@click.option("--self-check", is_flag=True, help="Check every intermediate result; slower.")
def run_command(
    elf: str,
    arguments: tuple[str, ...],
    mode: str,
    path_limit: int,
    weights: Weights | Path,
    table: str,
    routines: tuple[str, ...],
    top: int,
    json_file: Path | None,
    output: Path | None,
    report: Path | None,
    stdin_file: Path | None,
    root: Path,
    writable: Path | None,
    environment: tuple[tuple[bytes, bytes], ...],
    argv0: str | None,
    max_instructions: int | None,
    timeout: float | None,
    memory_limit: int,
    stack_size: int,
    progress: bool | None,
    self_check: bool,
) -> int:
    """Run the SPARC program ELF and measure what profiling it costs.

    The program owns stdin, stdout and stderr, and its exit status is simprof's. The report goes
    to stderr. simprof's own failures exit 125, a spent budget 124, a fault or signal 128 plus
    its number.
    """
    program = Path(elf)
    options.check_outputs(json_file, output, report, inputs=(program, stdin_file))
    if output == STANDARD_STREAM or report == STANDARD_STREAM:
        raise UsageError("only --json can write to stdout (-): name a file")
    if stdin_file is not None and not os.access(stdin_file, os.R_OK):
        raise UsageError(f"--stdin {stdin_file} cannot be read: name a readable file")
    guest = GuestOptions(
        root=options.check_directory(root, "--root"),
        writable=None if writable is None else options.check_directory(writable, "--writable"),
        stdin=stdin_file,
        environment=environment,
        argv0=os.fsencode(elf if argv0 is None else argv0),
        stdout=2 if json_file == STANDARD_STREAM else 1,
        max_instructions=max_instructions,
        timeout=timeout,
        memory_limit=memory_limit,
        stack_size=stack_size,
    )
    request = RunRequest(
        program=program,
        guest=guest,
        arguments=tuple(map(os.fsencode, arguments)),
        mode=Mode(mode),
        scheme=SchemeOptions(path_limit, weights, TableChoice(table)),
        routines=routines,
        self_check=self_check,
    )
    measurement = measure(request, progress)
    write_results(measurement, output, json_file, report, top)
    return measurement.ending.code


def measure(request: RunRequest, progress: bool | None) -> Measurement:
    """Run the session, with a progress bar where one is wanted."""
    from profiler import kernel_cache
    from profiler.commands.progress import progress_bar, wanted

    kernel_cache.ensure()
    from profiler.session import run_program

    with progress_bar(wanted(progress, request.guest.stdout)) as callback:
        return run_program(replace(request, progress=callback))


def write_results(
    measurement: Measurement,
    output: Path | None,
    json_file: Path | None,
    report: Path | None,
    top: int,
) -> None:
    """Save the profile, write the JSON, and show the report, in this order."""
    from profiler.output import write_atomically
    from profiler.reports import run_json, text

    if output is not None:
        from profiler.storage import save

        save(measurement, output)
    if json_file == STANDARD_STREAM:
        streams.write(streams.STDOUT, run_json.render(measurement))
    elif json_file is not None:
        write_atomically(json_file, run_json.render(measurement).encode())
    if report is not None:
        write_atomically(report, text.render(measurement, top).encode(errors="backslashreplace"))
        return
    terminal = sys.stderr.isatty()
    shown = text.render(measurement, top, terminal_width(), color=terminal)
    streams.write(streams.STDERR, shown)


def terminal_width() -> int:
    """Columns of the terminal on stderr; 100 where it is none."""
    try:
        return max(os.get_terminal_size(2).columns, 60)
    except OSError:
        return 100
