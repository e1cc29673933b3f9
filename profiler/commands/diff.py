"""`simprof diff`: how two saved profiles differ."""

from __future__ import annotations

from pathlib import Path

import click

from simprof.profiler.commands import options, profile_options


@click.command("diff")
@click.argument("before", type=options.PATH, metavar="A")
@click.argument("after", type=options.PATH, metavar="B")
@click.option(
    "--top",
    type=options.WholeNumber(0),
    default=10,
    show_default=True,
    metavar="N",
    help="Rows in each table.",
)
@profile_options.form_options(", which has all differences")
def diff_command(
    before: Path, after: Path, top: int, as_csv: bool, as_json: bool, output: Path | None
) -> int:
    """Compare saved profiles A and B by routine, edge and path, the largest change first.

    Profiles of one program are compared by address. Of two builds, routines are matched by name,
    edges and paths by source line.
    """
    options.check_outputs(output, inputs=(before, after))
    profile_options.check_form(as_csv=as_csv, as_json=as_json)
    from simprof.profiler.profiles.differences import difference
    from simprof.profiler.reports import difference_report

    found = difference(*map(profile_options.load_profile, (before, after)))
    if as_csv:
        profile_options.write_text(difference_report.render_csv(found), output)
    elif as_json:
        profile_options.write_text(difference_report.render_json(found), output)
    else:
        profile_options.show(
            lambda width, color: difference_report.render_text(found, top, width, color), output
        )
    return 0
