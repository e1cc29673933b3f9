"""`simprof explain`: how a scheme works on small graphs, step by step, as a table, page or JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import options, outputs, streams
from simprof.profiler.commands.help import in_sections
from simprof.profiler.commands.modes import (
    collect,
    mode_option,
    named,
    refuse_unused,
    scheme_options,
)
from simprof.profiler.commands.outputs import STANDARD_STREAM
from simprof.profiler.request.request import DEFAULT_MODE
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.mode_options import ModeSetting, own_options_text, read
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.graphfiles.lesson import Lesson

SECTIONS = {
    "What to explain": ("modes", "weights", "order", "enumerate_paths"),
    "What to write": ("summary", "report", "html", "svg", "json_file"),
}


@click.command("explain", cls=in_sections(SECTIONS))
@click.argument("files", type=options.PATH, nargs=-1, metavar="[FILE...]")
@mode_option(f"Schemes to explain (default: {DEFAULT_MODE}; with --html all)")
@click.option(
    "--weights",
    type=options.named_weights,
    metavar="|".join(Weights.names),
    help="Edge-frequency estimates, maybe with options (heuristic+loops=0.9).  "
    "[default: the file's own, else heuristic]",
)
@options.option(
    "--enumerate",
    f"List every potential path ({named(lambda scheme: scheme.counts_paths)}).",
    name="enumerate_paths",
)
@scheme_options(
    "answer (--json) about the same graph that guides it.  [default: its own runs]",
    without="registers",  # code on a graph has every register
)
@click.option(
    "--order",
    type=options.WordChoice(["fewest", "file"]),
    default="fewest",
    show_default=True,
    help="How a block's successors are numbered: fewest paths first, ties in the file's order "
    "(EPP 5.2), or all in the file's order, as in papers' figures.",
)
@options.option("--summary", "Show all that is computed in one table, not step by step.")
@options.json_option("Write one JSON object for each graph and mode, one a line; - is stdout.")
@options.option("--html PAGE", "Write a page with pictures, one a step; - is stdout.", options.PATH)
@options.option("--svg DIR", "Write the picture of each step there, as SVG.", options.PATH)
@options.option(
    "--report FILE",
    "Write the text there; - is stdout.  [default: stdout, without --json, --html and --svg]",
    options.PATH,
)
def explain_command(
    files: tuple[Path, ...],
    modes: tuple[ModeSetting, ...] | None,
    weights: Weights | None,
    enumerate_paths: bool,
    order: str,
    summary: bool,
    json_file: Path | None,
    html: Path | None,
    svg: Path | None,
    report: Path | None,
    **scheme: Any,
) -> int:
    """Explain on the graphs in FILE... what a scheme computes, step by step.

    Weights, numbering, spanning tree, increments, code, paths, counts of the runs that a file
    gives, and costs, each with its numbers on the edges. A file is JSON (simprof's own, or
    node-link data), GraphML (.graphml), GML (.gml), DOT (.dot, .gv), or lines `A B 3`: source,
    target, and a weight if any.

    Without FILE, `--mode tpp` lists the options that follow a mode, with their defaults.
    """
    if not files:
        listed = _listed_modes(modes)
        streams.write(streams.STDOUT, "\n".join(map(own_options_text, listed)))
        return 0
    shows_text = report is not None or not (json_file or html or svg)
    if summary and not shows_text:
        raise UsageError("--summary is about the text: leave it out, or ask for one by --report")
    outputs.check_outputs(json_file, report, html, inputs=(*files, scheme["edge_profile"]))
    usual = registry.planned_modes() if html is not None else (DEFAULT_MODE,)
    if svg is not None:
        outputs.make_directory(svg)
    chosen = modes or tuple(map(read, usual))
    refuse_unused([mode.mode for mode in chosen])
    from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
    from simprof.profiler.graphfiles.lesson import lesson
    from simprof.profiler.graphs.numbering import SuccessorOrder
    from simprof.profiler.reports import graph_run

    shared = collect(scheme)
    answers = []
    for file in files:
        for mode in chosen:
            # A mode that lists no paths is refused alone; among others, it is not what was meant.
            lists = len(chosen) == 1 or registry.definition(mode.mode).counts_paths
            wanted = AnalysisOptions(
                mode=mode.mode,
                enumerate=enumerate_paths and lists,
                weights=weights,
                scheme=mode.setting(shared).options,
                order=SuccessorOrder(order),
            )
            answers.append(analyse_file(file, wanted))
    if html is not None:
        from simprof.profiler.reports.html import page

        outputs.write_text(page.render_lessons(list(map(lesson, answers))), html)
    if svg is not None:
        for answer in answers:
            _draw(lesson(answer), svg)
    if json_file is not None:
        outputs.write_text(graph_run.render_json(answers), json_file)
    if not shows_text:
        return 0
    width = streams.width(None if report not in (None, STANDARD_STREAM) else streams.STDOUT)
    if summary:
        text = "\n".join(graph_run.render(answer, width) for answer in answers)
    else:
        text = "\n".join(graph_run.render_lesson(lesson(answer), width) for answer in answers)
    outputs.write_text(text, report)
    return 0


def _draw(lesson: Lesson, directory: Path) -> None:
    """Write a picture a step."""
    from simprof.profiler.reports.graph_run import render_svg

    for number, step in enumerate(lesson.steps, 1):
        name = f"{lesson.title}-{lesson.mode}-{number:02}-{step.title.lower()}.svg"
        outputs.write_text(render_svg(step), directory / re.sub(r"[^\w.+-]+", "-", name))


def _listed_modes(modes: tuple[ModeSetting, ...] | None) -> list[str]:
    """Return the modes whose options are listed; refuse what has an effect on graphs only."""
    context = click.get_current_context()
    if modes is None:
        raise click.UsageError("Missing argument 'FILE...'.", context)
    for name in context.params:
        flag = None if name in ("files", "modes") else options.given(name)
        if flag is not None:
            raise UsageError(f"{flag} has no effect without FILE...: name a graph, or leave it out")
    for mode in modes:
        if mode.own:
            raise UsageError(
                f"{mode.name} without FILE...: `--mode {mode.mode}` lists the options; name a graph"
            )
    return [mode.mode for mode in modes]
