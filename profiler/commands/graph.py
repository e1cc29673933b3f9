"""`simprof graph`: the algorithms on graphs written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from profiler.commands import options, streams
from profiler.commands.options import STANDARD_STREAM
from profiler.request import (
    DEFAULT_COLD,
    DEFAULT_ITERATIONS,
    DEFAULT_LOOP,
    DEFAULT_PATH_LIMIT,
    Mode,
    SchemeOptions,
    TableChoice,
    VertexPlacement,
    Weights,
)

GREATEST_ITERATIONS = 1000
GRAPH_MODES = tuple(mode for mode in Mode if mode is not Mode.EDGES)


def percentage(value: str | float) -> float:
    """Return a number from 0 to 100."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 100.0:
        raise click.BadParameter(f"{value!r} is not a percentage: write a number from 0 to 100")
    return number


@click.command("graph", short_help="Apply a scheme to graphs written by hand.")
@click.argument("files", type=options.PATH, nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--mode",
    type=options.choice(*GRAPH_MODES),
    default=Mode.PP.value,
    show_default=True,
    help="Scheme.",
)
@click.option(
    "--enumerate",
    "enumerate_paths",
    is_flag=True,
    help="List every potential path (pp, bittrace, tpp, kiter).",
)
@click.option(
    "--path-limit",
    type=options.COUNT,
    default=DEFAULT_PATH_LIMIT,
    show_default=True,
    metavar="N",
    help="Truncate the paths of graphs that have more potential paths.",
)
@click.option(
    "--weights",
    type=options.choice(*Weights),
    help="Edge-frequency estimates.  [default: the file's own, else heuristic]",
)
@click.option(
    "--table",
    type=options.choice(*TableChoice),
    default=TableChoice.AUTO.value,
    show_default=True,
    help="How path counters are kept.",
)
@click.option(
    "--cold",
    type=percentage,
    default=DEFAULT_COLD,
    show_default=True,
    metavar="I",
    help="Percentage of a block's executions below which an edge out of it is cold (tpp).",
)
@click.option(
    "--loop",
    type=percentage,
    default=DEFAULT_LOOP,
    show_default=True,
    metavar="J",
    help="Percentage of a loop head's executions below which entries disconnect the loop (tpp).",
)
@click.option(
    "--cold-always",
    is_flag=True,
    help="Remove cold edges even where no hash table becomes an array by that (tpp).",
)
@click.option(
    "--edge-profile",
    type=options.PATH,
    metavar="FILE",
    help="Answer (--json) about the same graph that guides tpp.  [default: the file's own runs]",
)
@click.option(
    "-k",
    "--iterations",
    type=click.IntRange(min=1, max=GREATEST_ITERATIONS),
    default=DEFAULT_ITERATIONS,
    show_default=True,
    metavar="K",
    help="Iterations of innermost loops that a path spans (kiter).",
)
@click.option(
    "--placement",
    type=options.choice(*VertexPlacement),
    default=VertexPlacement.REDUNDANT.value,
    show_default=True,
    help="Where counters of blocks are (qpt).",
)
@click.option(
    "--json",
    "json_file",
    type=options.PATH,
    metavar="FILE",
    help="Write one JSON object a graph, one a line; - is stdout.",
)
@click.option(
    "--report", type=options.PATH, metavar="FILE", help="Write the report there, not to stdout."
)
def graph_command(
    files: tuple[Path, ...],
    mode: str,
    enumerate_paths: bool,
    path_limit: int,
    weights: str | None,
    table: str,
    cold: float,
    loop: float,
    cold_always: bool,
    edge_profile: Path | None,
    iterations: int,
    placement: str,
    json_file: Path | None,
    report: Path | None,
) -> int:
    """Apply a scheme to the graphs in FILE...: number paths, place code, count the runs given."""
    options.check_outputs(json_file, report, inputs=(*files, edge_profile))
    from profiler.graphs import GraphOptions, analyse_file

    chosen = GraphOptions(
        mode=Mode(mode),
        enumerate=enumerate_paths,
        weights=None if weights is None else Weights(weights),
        scheme=SchemeOptions(
            path_limit=path_limit,
            table=TableChoice(table),
            cold=cold,
            loop=loop,
            cold_always=cold_always,
            edge_profile=edge_profile,
            iterations=iterations,
            placement=VertexPlacement(placement),
        ),
    )
    answers = [analyse_file(path, chosen) for path in files]
    write_answers(answers, json_file, report)
    return 0


def write_answers(
    answers: Sequence[Mapping[str, object]], json_file: Path | None, report: Path | None
) -> None:
    """Write the JSON lines, and the report unless stdout is taken by them."""
    from profiler.codec import big_integers
    from profiler.output import write_atomically
    from profiler.reports.graph_run import render

    with big_integers():
        lines = "".join(json.dumps(answer) + "\n" for answer in answers)
    if json_file == STANDARD_STREAM:
        streams.write(streams.STDOUT, lines)
    elif json_file is not None:
        write_atomically(json_file, lines.encode())
    if report is not None:
        write_atomically(report, "\n".join(map(render, answers)).encode(errors="backslashreplace"))
    elif json_file is None:
        streams.write(streams.STDOUT, "\n".join(map(render, answers)))
