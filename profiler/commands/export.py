"""`simprof export`: a saved profile in the format of another tool."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from simprof.profiler.commands import options, outputs, profile_options, streams
from simprof.profiler.commands.outputs import STANDARD_STREAM
from simprof.profiler.commands.progress import ready_engine
from simprof.profiler.exports.formats import FORMATS
from simprof.profiler.request.request import Phase
from simprof.simulator.errors import UsageError


class ExportCommand(click.Command):
    """A command whose help also lists the formats."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one row a format: its name, and what it is."""
        rows = [(name, FORMATS[name].summary) for name in sorted(FORMATS)]
        with formatter.section("Formats"):
            formatter.write_dl(rows)


@click.command("export", cls=ExportCommand)
@profile_options.profile_argument
@options.option(
    "--format F",
    "One of the formats below.",
    options.WordChoice(sorted(FORMATS)),
    name="form",
    required=True,
)
@options.output_option("FILE", "Write there.  [default: stdout]")
@options.option(
    "--table NAME",
    "Which table, in formats that hold one: "
    + ", ".join(FORMATS["csv"].tables)
    + ".  [default: routines]",
)
@profile_options.routine_options
@profile_options.program_option
@profile_options.source_dir_option
@options.progress_option
def export_command(
    profile: Path,
    form: str,
    output: Path | None,
    table: str | None,
    routines: tuple[str, ...],
    exclude: tuple[str, ...],
    elf: Path | None,
    moved: tuple[tuple[str, str], ...],
    progress: bool | None,
) -> int:
    """Write PROFILE, saved by `simprof run -o`, for other tools to open."""
    outputs.check_outputs(output, inputs=(profile, elf))
    from simprof.profiler.commands.progress import phase_bar
    from simprof.profiler.exports.formats import ExportSource, export, find, notes, select
    from simprof.profiler.profiles import storage
    from simprof.profiler.profiles.output import write_atomically
    from simprof.profiler.profiles.program_files import SourceFiles
    from simprof.profiler.reports.listings import RowChoice

    ready_engine(progress)
    with phase_bar(progress, Phase.RECOVERING) as told:
        measurement = select(find(form), storage.load(profile), RowChoice(routines, exclude))
        source = ExportSource(measurement, profile, elf, table, SourceFiles(moved), told)
        content = export(find(form), source)
    outputs.write_notes((*notes(find(form), source), *source.unused_directories))
    if output is None:
        output = STANDARD_STREAM
        if b"\0" in content and sys.stdout.isatty():
            raise UsageError(f"--format {form} is not text: name a file with -o, or use a pipe")
    if output != STANDARD_STREAM and not output.name.endswith(ending := find(form).ending):
        outputs.write_notes([f"{output}: name it *{ending} for its reader to find it"])
    if output == STANDARD_STREAM:
        streams.write_bytes(streams.STDOUT, content)
    else:
        write_atomically(output, content)
    return 0
