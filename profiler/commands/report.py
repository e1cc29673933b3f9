"""`simprof report`: look at saved profiles."""

from __future__ import annotations

from pathlib import Path

import click

from profiler.commands import options, report_text, shared_options
from profiler.commands.report_text import Extent


@click.command("report")
@click.argument("profiles", nargs=-1, required=True, type=options.PATH, metavar="PROFILE...")
@shared_options.extent_options()
@shared_options.json_option("Write the run as JSON, as `simprof run --json` does; - is stdout.")
@click.option(
    "-o", "--output", type=options.PATH, metavar="FILE", help="Write there, not to stdout."
)
def report_command(
    profiles: tuple[Path, ...],
    top: int | None,
    details: bool,
    json_file: Path | None,
    output: Path | None,
) -> int:
    """Show what saved profiles (`simprof run -o PROFILE`) hold: the report of the run again."""
    options.check_outputs(json_file, output, inputs=profiles)
    report_text.write(profiles, Extent(top, details), json_file, output)
    return 0
