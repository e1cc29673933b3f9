"""`simprof show`: what saved profiles hold, as a report, as one of five views, or as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from simprof.profiler.commands import options, outputs, profile_options
from simprof.profiler.commands.help import in_sections
from simprof.profiler.commands.options import given
from simprof.profiler.commands.progress import progress_bar, ready_engine
from simprof.profiler.request.likeness import alike, unknown
from simprof.profiler.request.request import Phase, report_progress
from simprof.simulator.errors import UsageError

LISTINGS = ("routines", "edges", "paths")
VIEWS = (*LISTINGS, "source", "tree")  # Words of the command line
REPORT, PAGE = "report", "page"  # What is shown without one, and what `--html` makes
DEFAULT_TOP = 20  # Rows of a listing for people
# What messages call that which has no word of its own
NAMES = MappingProxyType({REPORT: "the report", PAGE: "the page of --html"})

_OF_ROWS = ("routines", "exclude", "files", "least", "sort", "ascending", "descending")
SECTIONS = {
    "How much": ("details", "top", "code"),
    "Which rows, of routines, edges and paths": ("routines", "files", "least", "sort"),
    "Where files are, for source and --html": ("elf", "moved"),
    "What to write": ("as_csv", "as_json", "output", "html"),
}
# Parameter -> what it has an effect on
USED_BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "details": (REPORT,),
        "top": (REPORT, *LISTINGS),
        "code": ("source",),
        **dict.fromkeys(_OF_ROWS, LISTINGS),
        **dict.fromkeys(("elf", "moved"), ("source", PAGE)),
        "as_csv": VIEWS,
        **dict.fromkeys(("as_json", "output"), (REPORT, *VIEWS)),
        "progress": (PAGE,),
    }
)


class Shown(NamedTuple):
    """What the words of the command line ask for."""

    profiles: tuple[Path, ...]
    view: str  # One of VIEWS, or REPORT
    target: str | None = None  # The routine or file that follows a view


@click.command("show", cls=in_sections(SECTIONS))
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="PROFILE... [VIEW [ROUTINE|FILE]]",
    shell_complete=options.completing(lambda: VIEWS, files=True),
)
@options.extent_options("5, with --details 10; of listings 20, in CSV and JSON all")
@options.option("--code", "Show instructions, with source lines between, not source lines.")
@profile_options.routine_options
@profile_options.row_options
@profile_options.program_option
@profile_options.source_dir_option
@profile_options.form_options()
@options.option(
    "--html FILE",
    "Write a page to explore in a browser: one file that needs nothing else.",
    options.PATH,
)
@options.progress_option
def show_command(words: tuple[str, ...], html: Path | None, **chosen: Any) -> int:
    """Show what saved profiles (`simprof run -o PROFILE`) hold.

    Without VIEW, the report of the run is shown again. Views are of one profile:

    \b
    routines              what each executed, and what profiling it cost
    edges                 how often each was crossed, and what its code cost
    paths                 which were executed, and how often
    source [ROUTINE|FILE] how often lines (or instructions) were executed, and branches taken
    tree [ROUTINE]        what the program, or calls of a routine, executed, by calling context

    In `source`, ROUTINE is a name or a pattern, FILE a source file, as
    its path or the end of it; without either, all files that ran are shown. A line is executed as
    often as gcov says; "instructions" are those that it executed, "added" those of the scheme's
    code. For `tree`, run with `--call-tree`.

    With --html, a page about all profiles: what each costs, routines with their graphs and the
    code on them, hot paths as source and instructions, profiles side by side.
    """  # noqa: D301 - click looks for this character
    shown = _asked(words)
    outputs.check_outputs(chosen["output"], html, inputs=(*shown.profiles, chosen["elf"]))
    _refuse_unused(shown.view, html)
    if html is not None:
        _page(shown.profiles, html, chosen)
        return 0
    outputs.check_form(chosen)
    if shown.view == REPORT:
        _report(shown.profiles, chosen)
    elif shown.view == "source":
        _source(shown, chosen)
    elif shown.view == "tree":
        _tree(shown, chosen)
    else:
        _listing(shown, chosen)
    return 0


def _asked(words: Sequence[str]) -> Shown:
    # A profile of such a name is written ./paths.
    at = next((place for place, word in enumerate(words) if word in VIEWS), len(words))
    profiles = tuple(map(options.possible_path, words[:at]))
    if at == len(words):
        for profile in profiles[1:]:
            near = [] if profile.exists() else alike(str(profile), VIEWS)
            if near:
                asked = f"did you mean {' or '.join(map(repr, near))}?"
                raise UsageError(f"{profile} is neither a profile nor a view: {asked}")
        return Shown(profiles, REPORT)
    view, *more = words[at:]
    if not profiles:
        raise UsageError(f"{view}: name the PROFILE before it (a file of this name: ./{view})")
    if len(profiles) > 1:
        raise UsageError(f"{view} is of one profile: `simprof diff` compares two")
    if view in LISTINGS and more:
        raise UsageError(f"{view} {more[0]}: nothing follows it; --routine chooses routines")
    if more[1:]:
        raise UsageError(f"{view} {more[0]} {more[1]}: name one of them")
    if more == [""]:
        raise UsageError("the name of a routine or file is empty: leave it out to see all")
    return Shown(profiles, view, more[0] if more else None)


def _refuse_unused(view: str, html: Path | None) -> None:
    if html is not None and view != REPORT:
        raise UsageError(f"--html with {view}: the page has all of them")
    shown = view if html is None else PAGE
    for name, users in USED_BY.items():
        flag = given(name)
        if flag is not None and shown not in users:
            *most, last = (NAMES.get(user, user) for user in users)
            listed = f"{', '.join(most)} and {last}" if most else last
            what = f"{flag} has no effect on {NAMES.get(shown, shown)}"
            raise UsageError(f"{what}: leave it out, it is for {listed}")
    if view == REPORT and html is None and given("as_json") is not None:
        for flag in filter(None, map(given, ("details", "top"))):
            raise UsageError(f"{flag} has no effect on --json, which has everything: leave it out")


def _report(profiles: Sequence[Path], chosen: Mapping[str, Any]) -> None:
    """Write the reports of profiles one below the other, or their JSON, one line each."""
    from simprof.profiler.reports import run_json, run_text

    measurements = list(map(profile_options.load_profile, profiles))
    if chosen["as_json"]:
        outputs.write_text("".join(map(run_json.render, measurements)), chosen["output"])
        return
    top, details = chosen["top"], chosen["details"]

    def text(width: int, color: bool) -> str:
        return "\n".join(run_text.render(each, top, width, color, details) for each in measurements)

    outputs.show(text, chosen["output"])


def _listing(shown: Shown, chosen: Mapping[str, Any]) -> None:
    from simprof.profiler.reports import listings, mode_facts

    subject, sort, top = shown.view, chosen["sort"], chosen["top"]
    names = list(listings.places(subject))
    if (sort or "").lstrip("-+") in names and sort not in names:
        raise UsageError(f"--sort {sort}: name the column alone, and --ascending or --descending")
    column = None if sort is None else listings.field_name(subject, sort)
    if sort is not None and column is None:
        raise UsageError(f"--sort: {unknown('column', sort, names)}")
    for_people = not (chosen["as_csv"] or chosen["as_json"])
    if top is None and for_people:
        top = DEFAULT_TOP
    if chosen["ascending"] and chosen["descending"]:
        raise UsageError("--ascending and --descending: leave out one of them")
    least = int(for_people) if chosen["least"] is None else chosen["least"]
    ascending = chosen["ascending"] or (False if chosen["descending"] else None)
    names_wanted = chosen["routines"], chosen["exclude"], chosen["files"]
    choice = listings.RowChoice(*names_wanted, least, column, ascending, top)
    measurement = profile_options.load_profile(shown.profiles[0])
    listings.check_matches(measurement, choice)
    if subject == "paths" and not mode_facts.collects_paths(measurement):
        raise UsageError(
            f"the profile is of mode {measurement.mode}, which collects no paths: record one of a "
            "mode that does, such as pp"
        )
    listing = listings.listing(subject, measurement, choice)
    renderers = listings.render_csv, listings.render_json, listings.render_text
    outputs.write_form(chosen, listing, *renderers)


def _source(shown: Shown, chosen: Mapping[str, Any]) -> None:
    from simprof.profiler.profiles.lines import SourceCounts
    from simprof.profiler.profiles.program_files import SourceFiles, find_program
    from simprof.profiler.reports import annotation
    from simprof.profiler.reports.annotation import Annotator
    from simprof.profiler.reports.display import UNFOLDED

    profile, target, code = shown.profiles[0], shown.target, chosen["code"]
    measurement = profile_options.load_profile(profile)
    program = find_program(measurement, chosen["elf"], profile)
    sources = SourceFiles(chosen["moved"])
    notes = () if program.note is None else (program.note,)
    counts = SourceCounts(program.named(measurement), program.program)
    annotator = Annotator(counts, sources, notes)
    found = annotator.everything(code) if target is None else annotator.target(target, code)
    outputs.write_notes(found.notes)
    renderers = annotation.render_csv, annotation.render_json, annotation.render_text
    outputs.write_form(chosen, found, *renderers, UNFOLDED)


def _tree(shown: Shown, chosen: Mapping[str, Any]) -> None:
    """Write what the program, or a routine's calls, executed, as a tree."""
    from simprof.profiler.reports import call_tree
    from simprof.profiler.reports.run_json import measurement_head

    (profile,) = shown.profiles
    measurement = profile_options.load_profile(profile)
    if measurement.call_tree is None:
        raise UsageError(
            f"{profile} has no call tree: record it by `simprof run --call-tree -o PROFILE`"
        )
    tree = call_tree.followed(measurement.call_tree, shown.target)
    json = partial(call_tree.render_json, measurement_head("tree", measurement))
    outputs.write_form(chosen, tree, call_tree.render_csv, json, call_tree.render_tree)


def _page(paths: Sequence[Path], html: Path, chosen: Mapping[str, Any]) -> None:
    from simprof.profiler.profiles import storage
    from simprof.profiler.profiles.program_files import SourceFiles
    from simprof.profiler.reports.display import bytes_shown
    from simprof.profiler.reports.html import report

    with progress_bar(chosen["progress"]) as bar:
        measurements = []
        for done, path in enumerate(paths):
            report_progress(bar, Phase.READING, done, len(paths))
            measurements.append(storage.load(path))
        ready_engine(chosen["progress"])
        runs = report.shown_runs(paths, measurements, chosen["elf"], bar)
        sources = SourceFiles(chosen["moved"])
        page = report.render(runs, sources, bar)
    files = frozenset[str]().union(*(run.counts.source_files for run in runs))
    outputs.write_notes(sources.unused(files))
    outputs.write_text(bytes_shown(page), html)
