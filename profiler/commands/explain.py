"""`simprof explain`: how a scheme works on a small graph, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simprof.profiler.commands import options, streams
from simprof.profiler.commands.graph import write_lessons
from simprof.profiler.commands.modes import collect, mode_option, refuse_unused, scheme_options
from simprof.profiler.request.request import DEFAULT_MODE, Weights
from simprof.profiler.schemes.mode_options import ModeSetting, own_options_text, read


@click.command("explain")
@click.argument("file", type=options.PATH, required=False)
@mode_option(f"Schemes to explain (default: {DEFAULT_MODE}; with --html all)")
@click.option(
    "--weights",
    type=options.choice(*Weights),
    help="Edge-frequency estimates.  [default: the file's own, else heuristic]",
)
@click.option("--enumerate", "enumerate_paths", is_flag=True, help="List every potential path.")
@scheme_options("answer (--json) about the same graph that guides it.  [default: its own runs]")
@click.option(
    "--html",
    type=options.PATH,
    metavar="PAGE",
    help="Write a page with pictures, one a step, to PAGE instead; - is stdout.",
)
def explain_command(
    file: Path | None,
    modes: tuple[ModeSetting, ...] | None,
    weights: str | None,
    enumerate_paths: bool,
    html: Path | None,
    **scheme: Any,
) -> int:
    """Explain on the graph in FILE what a scheme computes, step by step.

    Weights, numbering, spanning tree, increments, code, paths and costs, each with its numbers on
    the edges. FILE is what `simprof graph` reads. Without FILE, `--mode tpp` lists the options
    that stand behind a mode, with their defaults.
    """
    if file is None:
        if modes is None or html is not None:
            raise click.UsageError("Missing argument 'FILE'.", click.get_current_context())
        listed = "\n".join(own_options_text(mode.mode) for mode in modes)
        streams.write(streams.STDOUT, listed)
        return 0
    options.check_outputs(html, inputs=(file, scheme["edge_profile"]))
    from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
    from simprof.profiler.graphfiles.lesson import lesson
    from simprof.profiler.schemes import registry

    usual = registry.planned_modes() if html is not None else (DEFAULT_MODE,)
    chosen = modes or tuple(map(read, usual))
    refuse_unused([mode.mode for mode in chosen])
    lessons = []
    for mode in chosen:
        wanted = AnalysisOptions(
            mode=mode.mode,
            enumerate=enumerate_paths and registry.definition(mode.mode).counts_paths,
            weights=None if weights is None else Weights(weights),
            scheme=mode.setting(collect(scheme)).options,
        )
        lessons.append(lesson(analyse_file(file, wanted)))
    if html is None:
        from simprof.profiler.reports import graph_run

        width = streams.width(streams.STDOUT)
        text = "\n".join(graph_run.render_lesson(each, width) for each in lessons)
        streams.write(streams.STDOUT, text)
        return 0
    write_lessons(lessons, html)
    return 0
