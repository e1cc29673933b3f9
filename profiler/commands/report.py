"""`simprof report`: look at saved profiles."""

from __future__ import annotations

from pathlib import Path

import click

from simprof.profiler.commands import (
    options,
    profile_options,
    report_page,
    report_text,
    shared_options,
)
from simprof.profiler.commands.report_text import Extent
from simprof.simulator.errors import UsageError


@click.command("report")
@click.argument("profiles", nargs=-1, required=True, type=options.PATH, metavar="PROFILE...")
@shared_options.extent_options()
@click.option(
    "--follow",
    metavar="ROUTINE",
    help="Show what calls of ROUTINE execute, as a tree, in profiles that have a call tree.",
)
@shared_options.json_option("Write the run as JSON, as `simprof run --json` does; - is stdout.")
@click.option(
    "-o", "--output", type=options.PATH, metavar="FILE", help="Write there, not to stdout."
)
@click.option(
    "--html",
    type=options.PATH,
    metavar="FILE",
    help="Write a page to explore in a browser, in place of the report: one file that needs "
    "nothing else.",
)
@profile_options.program_option
@profile_options.source_dir_option
@shared_options.progress_option("on a terminal, for --html")
def report_command(
    profiles: tuple[Path, ...],
    top: int | None,
    details: bool,
    follow: str | None,
    json_file: Path | None,
    output: Path | None,
    html: Path | None,
    elf: Path | None,
    moved: tuple[tuple[str, str], ...],
    progress: bool | None,
) -> int:
    """Show what saved profiles (`simprof run -o PROFILE`) hold: the report of the run again.

    With --html, a page about all of them: what each costs, routines with their graphs and the code
    on them, hot paths as source and instructions, profiles side by side. --program and
    --source-dir are for this page.
    """
    options.check_outputs(json_file, output, html, inputs=(*profiles, elf))
    if html is not None:
        if json_file is not None or output is not None or follow is not None:
            raise UsageError(
                "--html beside --json, -o or --follow: it is written in place of the report"
            )
        report_page.write(profiles, html, report_page.GivenPlaces(elf, moved), progress)
        return 0
    report_text.write(profiles, Extent(top, details, follow), json_file, output)
    return 0
