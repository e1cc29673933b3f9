"""`simprof routines`, `simprof edges`, `simprof paths`: what a saved profile has counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import options, profile_options
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.profiles.profile import RunMeasurement
    from simprof.profiler.reports.listings import Listing, RowChoice

DEFAULT_TOP = 20


def _listing_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that the three commands share."""
    added = (
        click.option(
            "--file",
            "files",
            multiple=True,
            metavar="GLOB",
            help="Only code from source files whose path, or its last part, matches; repeatable.",
        ),
        click.option(
            "--min-count",
            "least",
            type=options.WholeNumber(0),
            default=1,
            show_default=True,
            metavar="N",
            help="Only what was executed so often; 0 shows what never was, too.",
        ),
        click.option(
            "--sort",
            metavar="COLUMN",
            help="Sort by a column, as its heading or CSV names it.  [default: added, count or "
            "flow]",
        ),
        click.option(
            "--ascending/--descending",
            "ascending",
            default=None,
            help="Begin with the smallest, or with the largest.  [default: numbers descending, "
            "texts ascending]",
        ),
        click.option(
            "--top",
            type=options.WholeNumber(0),
            metavar="N",
            help=f"Rows.  [default: {DEFAULT_TOP} in a table, all in CSV and JSON]",
        ),
        click.option("--csv", "as_csv", is_flag=True, help="Write CSV."),
        click.option("--json", "as_json", is_flag=True, help="Write JSON."),
        click.option(
            "-o", "--output", type=options.PATH, metavar="FILE", help="Write there, not to stdout."
        ),
    )
    for option in reversed(added):
        command = option(command)
    return profile_options.profile_argument(profile_options.routine_options(command))


def _list(
    profile: Path,
    make: Callable[[RunMeasurement, RowChoice], Listing],
    subject: str,
    chosen: dict[str, Any],
) -> int:
    """Write one of the listings."""
    from simprof.profiler.reports import listings

    as_csv, as_json, output = (chosen.pop(name) for name in ("as_csv", "as_json", "output"))
    options.check_outputs(output, inputs=(profile,))
    profile_options.check_form(as_csv=as_csv, as_json=as_json)
    names = [field.name for field in listings.FIELDS[subject]]
    if (chosen["sort"] or "").lstrip("-+") in names and chosen["sort"] not in names:
        raise UsageError(
            f"--sort {chosen['sort']}: name the column alone, and --ascending or --descending"
        )
    if chosen["sort"] is not None:
        name = listings.field_name(subject, chosen["sort"])
        if name is None:
            raise UsageError(f"--sort {chosen['sort']}: the columns are {', '.join(names)}")
        chosen["sort"] = name
    if chosen["top"] is None and not (as_csv or as_json):
        chosen["top"] = DEFAULT_TOP
    measurement, choice = profile_options.load_profile(profile), listings.RowChoice(**chosen)
    listings.check_matches(measurement, choice)
    listing = make(measurement, choice)
    if as_csv:
        profile_options.write_text(listings.render_csv(listing), output)
    elif as_json:
        profile_options.write_text(listings.render_json(listing), output)
    else:
        profile_options.show(
            lambda width, color: listings.render_text(listing, width, color), output
        )
    return 0


@click.command("routines")
@_listing_options
def routines_command(profile: Path, **chosen: Any) -> int:
    """List the routines of a saved profile: what they executed, and what profiling them cost."""
    from simprof.profiler.reports.listings import routines

    return _list(profile, routines, "routines", chosen)


@click.command("edges")
@_listing_options
def edges_command(profile: Path, **chosen: Any) -> int:
    """List the edges of a saved profile: how often each was crossed, and what its code cost."""
    from simprof.profiler.reports.listings import edges

    return _list(profile, edges, "edges", chosen)


@click.command("paths")
@_listing_options
def paths_command(profile: Path, **chosen: Any) -> int:
    """List the executed paths of a saved profile."""
    return _list(profile, _paths, "paths", chosen)


def _paths(measurement: RunMeasurement, choice: RowChoice) -> Listing:
    from simprof.profiler.reports.listings import paths
    from simprof.profiler.reports.mode_facts import collects_paths

    if not collects_paths(measurement):
        raise UsageError(
            f"the profile is of mode {measurement.mode}, which collects no paths: record one of a "
            "mode that does, such as pp"
        )
    return paths(measurement, choice)
