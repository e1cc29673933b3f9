"""`simprof report`: look at saved profiles."""

from __future__ import annotations

from pathlib import Path

import click

from profiler.commands import options, report_page
from simulator.errors import UsageError


@click.command("report")
@click.argument("profiles", nargs=-1, required=True, type=options.PATH, metavar="PROFILE...")
@click.option(
    "--html",
    type=options.PATH,
    metavar="FILE",
    help="Write a page to explore in a browser: one file, which needs nothing else.",
)
def report_command(profiles: tuple[Path, ...], html: Path | None) -> int:
    """Show what saved profiles (`simprof run -o PROFILE`) hold."""
    if html is None:
        raise UsageError("give --html FILE")
    options.check_outputs(html, inputs=profiles)
    report_page.write(profiles, html)
    return 0
