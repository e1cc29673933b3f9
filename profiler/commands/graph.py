"""`simprof graph`: the algorithms on graphs written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import options, shared_options, streams
from simprof.profiler.commands.modes import (
    METAVAR,
    OneMode,
    collect,
    named,
    refuse_unused,
    scheme_options,
)
from simprof.profiler.commands.options import STANDARD_STREAM
from simprof.profiler.request.request import DEFAULT_MODE, Weights
from simprof.profiler.schemes.mode_options import ModeSetting

if TYPE_CHECKING:
    from simprof.profiler.graphfiles.lesson import Lesson


@click.command("graph")
@click.argument("files", type=options.PATH, nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--mode",
    type=OneMode(planned=True, several="simprof explain"),
    metavar=METAVAR,
    default=DEFAULT_MODE,
    show_default=True,
    help="Scheme.",
)
@click.option(
    "--enumerate",
    "enumerate_paths",
    is_flag=True,
    help=f"List every potential path ({named(lambda scheme: scheme.counts_paths)}).",
)
@click.option(
    "--weights",
    type=options.choice(*Weights),
    help="Edge-frequency estimates.  [default: the file's own, else heuristic]",
)
@scheme_options("answer (--json) about the same graph that guides it.  [default: its own runs]")
@shared_options.json_option("Write one JSON object a graph, one a line; - is stdout.")
@click.option(
    "--report",
    type=options.PATH,
    metavar="FILE",
    help="Write the report there, not to stdout, which - is, too.",
)
@click.option(
    "--html",
    type=options.PATH,
    metavar="PAGE",
    help="Write a page too, with a picture for each step (as `simprof explain --html`).",
)
def graph_command(
    files: tuple[Path, ...],
    mode: ModeSetting,
    enumerate_paths: bool,
    weights: str | None,
    json_file: Path | None,
    report: Path | None,
    html: Path | None,
    **scheme: Any,
) -> int:
    """Apply a scheme to the graphs in FILE...: number paths, place code, count the runs given.

    A file is JSON (simprof's own, or node-link data), GraphML (.graphml) or GML (.gml).
    """
    refuse_unused([mode.mode])
    options.check_outputs(json_file, report, html, inputs=(*files, scheme["edge_profile"]))
    from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file

    chosen = AnalysisOptions(
        mode=mode.mode,
        enumerate=enumerate_paths,
        weights=None if weights is None else Weights(weights),
        scheme=mode.setting(collect(scheme)).options,
    )
    answers = [analyse_file(path, chosen) for path in files]
    if html is not None:
        from simprof.profiler.graphfiles.lesson import lesson

        write_lessons([lesson(answer) for answer in answers], html)
    write_answers(answers, json_file, report)
    return 0


def write_lessons(lessons: Sequence[Lesson], html: Path) -> None:
    """Write lessons as one page, to a file or stdout."""
    from simprof.profiler.profiles.output import write_atomically
    from simprof.profiler.reports.html import lesson as lesson_page

    page = lesson_page.render(lessons)
    if html == STANDARD_STREAM:
        streams.write(streams.STDOUT, page)
    else:
        write_atomically(html, page.encode(errors="backslashreplace"))


def write_answers(
    answers: Sequence[Mapping[str, object]], json_file: Path | None, report: Path | None
) -> None:
    """Write the JSON lines, and the report unless stdout is taken by them."""
    from simprof.profiler.profiles.codec import big_integers
    from simprof.profiler.profiles.output import write_atomically
    from simprof.profiler.reports.graph_run import render

    with big_integers():
        lines = "".join(json.dumps(answer) + "\n" for answer in answers)
    if json_file == STANDARD_STREAM:
        streams.write(streams.STDOUT, lines)
    elif json_file is not None:
        write_atomically(json_file, lines.encode())
    if report is None and json_file is not None:
        return
    if report == STANDARD_STREAM:
        report = None
    width = streams.width(streams.STDOUT if report is None else None)
    text = "\n".join(render(answer, width) for answer in answers)
    if report is None:
        streams.write(streams.STDOUT, text)
    else:
        write_atomically(report, text.encode(errors="backslashreplace"))
