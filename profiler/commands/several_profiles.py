"""`simprof diff` and `simprof merge`: what saved profiles differ in, and what they add up to."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from simprof.profiler.commands import options, outputs, profile_options, streams


@click.command("diff")
@click.argument("before", type=options.PATH, metavar="A")
@click.argument("after", type=options.PATH, metavar="B")
@options.option(
    "--top N", "Rows in each table.", options.WholeNumber(0), default=10, show_default=True
)
@options.option(
    "--truth PROFILE",
    "Saved profile by which both are judged.  [default: the one of them that counts all acyclic "
    "paths, else A]",
    options.PATH,
)
@options.option(
    "--hot PERCENT",
    "Share of all flow above which a path is hot.",
    options.Percentage(),
    default=0.125,
    show_default=True,
)
@options.option(
    "--flow WEIGHT",
    "What an execution of a path weighs: unit, its branches (branch) or its blocks (block).",
    options.WordChoice(("unit", "branch", "block")),
    default="branch",
    show_default=True,
)
@profile_options.form_options(", which has all differences")
def diff_command(
    before: Path, after: Path, top: int, truth: Path | None, hot: float, flow: str, **chosen: Any
) -> int:
    """Compare saved profiles A and B by routine, edge and path, the largest change first.

    Profiles of one program are compared by address, and judged: how good one is by the other, or
    both by a third. Of two builds, routines are matched by name, edges and paths by source line.
    """
    outputs.check_outputs(chosen["output"], inputs=[before, after, *([truth] if truth else [])])
    outputs.check_form(chosen)
    from simprof.profiler.profiles.differences import difference
    from simprof.profiler.profiles.measures import PathFlow
    from simprof.profiler.reports.difference_report import render_csv, render_json, render_text
    from simprof.profiler.reports.quality import judge_pair

    first, second = map(profile_options.load_profile, (before, after))
    third = None if truth is None else (str(truth), profile_options.load_profile(truth))
    verdict = judge_pair(first, second, third, hot=hot, flow=PathFlow(flow))
    csv, json = (partial(form, verdict=verdict) for form in (render_csv, render_json))
    text = partial(render_text, top=top, verdict=verdict)
    outputs.write_form(chosen, difference(first, second), csv, json, text)
    return 0


@click.command("merge")
@click.argument("profiles", nargs=-1, required=True, type=options.PATH, metavar="PROFILE...")
@options.output_option("OUT", "Save the sum there.", required=True)
def merge_command(profiles: tuple[Path, ...], output: Path) -> int:
    """Add up saved profiles of one program and mode, with the same options."""
    outputs.check_outputs(output, inputs=profiles)
    from simprof.profiler.profiles.combine import merge
    from simprof.profiler.profiles.storage import save
    from simprof.profiler.reports.display import plural

    merged = merge([profile_options.load_profile(path) for path in profiles])
    save(merged, output)
    runs, base = plural(merged.runs, "run"), plural(merged.base, "instruction")
    streams.write(streams.STDERR, f"{output}: {runs}, {base}\n")
    return 0
