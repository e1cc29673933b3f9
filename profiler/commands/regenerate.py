"""`simprof regenerate`: the execution that a trace is of."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simprof.profiler.commands import options, shared_options, streams
from simprof.profiler.commands.options import STANDARD_STREAM
from simprof.profiler.commands.progress import ready_engine
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simprof.profiler.recovery.recovery import ProgramGraphs
    from simprof.profiler.trace.regeneration import Array, BlockSink


class RegenerationError(UsageError):
    """A trace did not lead to the end of its execution, or to another one."""


@click.command("regenerate")
@click.argument("trace", type=options.PATH)
@click.option(
    "--check", is_flag=True, help="Compare with the execution, whose digests the trace has."
)
@click.option(
    "--program", type=options.PATH, metavar="ELF", help="The program.  [default: as in the trace]"
)
@click.option(
    "-o",
    "--output",
    type=options.PATH,
    metavar="FILE",
    help="Write the start addresses of all blocks executed, in order; - is stdout.",
)
@click.option(
    "--call-paths",
    "shown_paths",
    type=options.COUNT,
    metavar="N",
    help="Count call paths, and list the N most frequent.",
)
@shared_options.json_option("Write the summary as JSON; - is stdout.")
def regenerate_command(
    trace: Path,
    check: bool,
    program: Path | None,
    output: Path | None,
    shown_paths: int | None,
    json_file: Path | None,
) -> int:
    """Rebuild the sequence of blocks that a program executed from TRACE, a file of `simprof run
    --trace`.

    A trace that was cut, or does not fit, is followed as far as it leads; then the exit status
    is 125.
    """
    options.check_outputs(json_file, output, inputs=(trace, program))

    ready_engine()
    from simprof.profiler.profiles.output import write_atomically
    from simprof.profiler.reports import regeneration
    from simprof.profiler.trace.calls import CallPaths
    from simprof.profiler.trace.regeneration import regenerate

    counted = None if shown_paths is None else CallPaths()
    with _lines(output) as lines:
        sink = _both(lines, counted)
        regeneration_result = regenerate(trace, program, check=check, sink=sink)
    profile = None if counted is None else counted.profile(shown_paths or 0)
    answer = regeneration.render_json(regeneration_result, profile)
    if json_file == STANDARD_STREAM:
        streams.write(streams.STDOUT, answer)
    elif json_file is not None:
        write_atomically(json_file, answer.encode(errors="backslashreplace"))
    taken = STANDARD_STREAM in (output, json_file)
    streams.write(
        streams.STDERR if taken else streams.STDOUT,
        regeneration.render_text(regeneration_result, profile),
    )
    if not regeneration_result.complete:
        raise RegenerationError(regeneration.problem(regeneration_result, str(trace)))
    return 0


def _both(first: BlockSink | None, second: BlockSink | None) -> BlockSink | None:
    """Return what hands blocks to both; None where nobody wants them."""
    if first is None or second is None:
        return first or second

    def receive(recovered: ProgramGraphs, blocks: Array) -> None:
        first(recovered, blocks)
        second(recovered, blocks)

    return receive


@contextmanager
def _lines(output: Path | None) -> Iterator[BlockSink | None]:
    """Yield what writes the regenerated blocks as lines; None where nobody wants them."""
    from simprof.profiler.trace.regeneration import BlockLines

    if output is None:
        yield None
    elif output == STANDARD_STREAM:
        yield BlockLines(lambda text: streams.write(streams.STDOUT, text.decode()))
    else:
        try:
            with output.open("wb") as file:
                yield BlockLines(file.write)
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {error.strerror}") from None
