"""`simprof merge`: several saved profiles as one."""

from __future__ import annotations

from pathlib import Path

import click

from simprof.profiler.commands import options, profile_options, streams


@click.command("merge")
@click.argument("profiles", nargs=-1, required=True, type=options.PATH, metavar="PROFILE...")
@click.option(
    "-o", "--output", type=options.PATH, required=True, metavar="OUT", help="Save the sum there."
)
def merge_command(profiles: tuple[Path, ...], output: Path) -> int:
    """Add up saved profiles of one program and mode, with the same options."""
    options.check_outputs(output, inputs=profiles)
    from simprof.profiler.profiles.combine import merge
    from simprof.profiler.profiles.storage import save
    from simprof.profiler.reports.display import plural

    merged = merge([profile_options.load_profile(path) for path in profiles])
    save(merged, output)
    runs, base = plural(merged.runs, "run"), plural(merged.base, "instruction")
    streams.write(streams.STDERR, f"{output}: {runs}, {base}\n")
    return 0
