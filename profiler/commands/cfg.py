"""`simprof cfg`: show the recovered control-flow graphs."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profiler.commands import options, streams
from profiler.commands.options import STANDARD_STREAM
from simulator.errors import UsageError

if TYPE_CHECKING:
    from profiler.cfg import ControlFlowGraph
    from profiler.recovery import RecoveredProgram

FORMATS = ("text", "dot", "graphml", "json")


@click.command("cfg", short_help="Show a program's control-flow graphs.")
@click.argument("elf", type=options.PATH)
@click.option(
    "--routine",
    "routines",
    multiple=True,
    metavar="GLOB",
    help="Show only routines whose name matches; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "-o", "--output", type=options.PATH, metavar="FILE", help="Write there, not to stdout."
)
def cfg_command(elf: Path, routines: tuple[str, ...], form: str, output: Path | None) -> int:
    """Show the control-flow graphs of the SPARC program ELF, recovered from its code alone."""
    options.check_outputs(output, inputs=(elf,))
    from profiler.output import write_atomically
    from profiler.recovery import recover
    from simulator.elf import load

    recovered = recover(load(elf))
    text = render(recovered, select(recovered.routines, routines), form)
    if output is None or output == STANDARD_STREAM:
        streams.write(streams.STDOUT, text)
    else:
        write_atomically(output, text.encode(errors="backslashreplace"))
    return 0


def select(graphs: Sequence[ControlFlowGraph], patterns: Sequence[str]) -> list[int]:
    """Return the positions of the routines whose names match any pattern; without patterns, all.

    Raises
    ------
    UsageError
        If a pattern matches none.
    """
    for pattern in patterns:
        if not any(fnmatchcase(graph.name, pattern) for graph in graphs):
            raise UsageError(f"no routine matches {pattern!r}: `simprof cfg` lists them all")
    return [
        position
        for position, graph in enumerate(graphs)
        if not patterns or any(fnmatchcase(graph.name, pattern) for pattern in patterns)
    ]


def render(recovered: RecoveredProgram, selected: Sequence[int], form: str) -> str:
    """Return the graphs of the routines at positions `selected` in one of the formats."""
    from profiler.reports import graph_dot, graph_json, graph_text, graphml

    renderers = {
        "text": graph_text.render,
        "dot": graph_dot.render,
        "graphml": graphml.render,
        "json": graph_json.render,
    }
    return renderers[form](recovered, selected)
