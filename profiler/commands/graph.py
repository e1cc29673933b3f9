"""`simprof graph`: the algorithms on graphs written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from profiler.commands import options, streams
from profiler.commands.options import STANDARD_STREAM
from profiler.request import DEFAULT_PATH_LIMIT, Mode, TableChoice, Weights

GRAPH_MODES = (Mode.PP, Mode.QPT2)


@click.command("graph", short_help="Apply a scheme to graphs written by hand.")
@click.argument("files", type=options.PATH, nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--mode",
    type=options.choice(*GRAPH_MODES),
    default=Mode.PP.value,
    show_default=True,
    help="Scheme: pp (acyclic paths) or qpt2 (edges).",
)
@click.option("--enumerate", "enumerate_paths", is_flag=True, help="List every potential path.")
@click.option(
    "--path-limit",
    type=options.COUNT,
    default=DEFAULT_PATH_LIMIT,
    show_default=True,
    metavar="N",
    help="Truncate the paths of graphs that have more potential paths (pp).",
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
    help="How path counters are kept (pp).",
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
    json_file: Path | None,
    report: Path | None,
) -> int:
    """Apply a scheme to the graphs in FILE...: number paths, place code, count the runs given."""
    options.check_outputs(json_file, report, inputs=files)
    from profiler.graphs import GraphOptions, analyse_file

    chosen = GraphOptions(
        mode=Mode(mode),
        enumerate=enumerate_paths,
        path_limit=path_limit,
        weights=None if weights is None else Weights(weights),
        table=TableChoice(table),
    )
    answers = [analyse_file(path, chosen) for path in files]
    write_answers(answers, json_file, report)
    return 0


def write_answers(
    answers: Sequence[Mapping[str, object]], json_file: Path | None, report: Path | None
) -> None:
    """Write the JSON lines, and the report unless stdout is taken by them."""
    from profiler.output import write_atomically
    from profiler.reports.graph_run import render

    lines = "".join(json.dumps(answer) + "\n" for answer in answers)
    if json_file == STANDARD_STREAM:
        streams.write(streams.STDOUT, lines)
    elif json_file is not None:
        write_atomically(json_file, lines.encode())
    if report is not None:
        write_atomically(report, "\n".join(map(render, answers)).encode(errors="backslashreplace"))
    elif json_file is None:
        streams.write(streams.STDOUT, "\n".join(map(render, answers)))
