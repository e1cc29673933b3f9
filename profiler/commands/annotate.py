"""`simprof annotate`: source or code with the counts of a saved profile beside it."""

from __future__ import annotations

from pathlib import Path

import click

from simprof.profiler.commands import options, profile_options
from simprof.simulator.errors import UsageError


@click.command("annotate")
@profile_options.profile_argument
@click.argument("target", required=False, metavar="[ROUTINE|FILE]")
@click.option(
    "--source/--code",
    "as_source",
    default=None,
    help="Show source lines, or instructions with source lines between.  [default: instructions "
    "of a routine, source of a file]",
)
@profile_options.program_option
@profile_options.source_dir_option
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option(
    "-o", "--output", type=options.PATH, metavar="FILE", help="Write there, not to stdout."
)
def annotate_command(
    profile: Path,
    target: str | None,
    as_source: bool | None,
    elf: Path | None,
    moved: tuple[tuple[str, str], ...],
    as_csv: bool,
    as_json: bool,
    output: Path | None,
) -> int:
    """Show how often source lines and instructions were executed, and branches taken.

    ROUTINE is the name of a routine, or a pattern for names; FILE a source file, as its path or
    the end of it. Without either, all files that ran are shown. A line is executed as often as
    gcov says; "base" are the instructions that it executed, "added" those of the scheme's code.
    """
    options.check_outputs(output, inputs=(profile, elf))
    profile_options.check_form(as_csv=as_csv, as_json=as_json)
    if target == "":
        raise UsageError("the name of a routine or file is empty: leave it out to see all")
    from simprof.profiler.profiles.lines import SourceCounts
    from simprof.profiler.profiles.program_files import SourceFiles
    from simprof.profiler.reports import annotation
    from simprof.profiler.reports.annotation import Annotator
    from simprof.profiler.reports.display import UNFOLDED

    measurement = profile_options.load_profile(profile)
    program, notes = profile_options.find_program(measurement, elf, profile)
    annotator = Annotator(SourceCounts(measurement, program), SourceFiles(moved), notes)
    as_code = None if as_source is None else not as_source
    shown = annotator.everything(as_code) if target is None else annotator.target(target, as_code)
    profile_options.write_notes(shown.notes)
    if as_csv:
        profile_options.write_text(annotation.render_csv(shown), output)
    elif as_json:
        profile_options.write_text(annotation.render_json(shown), output)
    else:
        profile_options.show(
            lambda width, color: annotation.render_text(shown, width, color),
            output,
            plain=UNFOLDED,
        )
    return 0
