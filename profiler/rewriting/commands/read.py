"""`simprof read`: what instrumented programs have counted, as a saved profile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from simprof.profiler.commands import options, shared_options, streams
from simprof.profiler.commands.progress import ready_engine
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.rewriting.elsewhere.counter_file import CounterFile

ELF = b"\x7fELF"
TRACE = ".trace"
"""What a program appends to its counter file's name for its trace."""


@click.command("read")
@click.argument("files", type=options.PATH, nargs=-1, required=True, metavar="[OUT] FILE...")
@click.option(
    "-o",
    "--output",
    type=options.PATH,
    metavar="PROFILE",
    help="Save the profile to a file; of modes that write a trace, the trace.",
)
@click.option(
    "--program",
    type=options.PATH,
    metavar="ELF",
    help="The program before it was instrumented.  [default: as in the files]",
)
@shared_options.extent_options()
@shared_options.json_option("Write the result as JSON; - is stdout.")
@shared_options.report_option()
def read_command(
    files: tuple[Path, ...],
    output: Path | None,
    program: Path | None,
    top: int | None,
    details: bool,
    json_file: Path | None,
    report: Path | None,
) -> int:
    """Read the counters that runs of an instrumented program have written to FILE....

    What several runs have counted adds up. OUT is the instrumented program: where it is given,
    files that another one has written are refused. The profile is that of `simprof run -o`.

    witness and bits count nothing: their trace, FILE.trace, becomes one for `simprof regenerate`,
    which -o names.
    """
    options.check_outputs(json_file, output, report, inputs=(*files, program))
    from simprof.profiler.rewriting.elsewhere.counter_file import load, merged
    from simprof.profiler.rewriting.elsewhere.reading import read_profile
    from simprof.profiler.schemes.registry import definition

    instrumented, counted = _instrumented(files)
    loaded = [load(path) for path in counted]
    for file, path in zip(loaded, counted, strict=True):
        _check_writer(instrumented, path)
        if definition(file.header["mode"]).writes_trace:
            return _read_trace(merged(loaded), path, output, program)
    from simprof.profiler.commands.run import write_results

    profile = read_profile(merged(loaded), program)
    write_results(profile, output, json_file, report, shared_options.Extent(top, details))
    return 0


def _instrumented(files: tuple[Path, ...]) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the instrumented program, if it is the first of `files`, and the counter files."""
    first, *others = files
    try:
        with first.open("rb") as file:
            is_program = file.read(len(ELF)) == ELF
    except OSError as error:
        raise UsageError(f"{first} cannot be read: {error.strerror}") from None
    if not is_program:
        return None, files
    if not others:
        raise UsageError(f"{first} is a program: name the counter files that it has written, too")
    return first, tuple(others)


def _check_writer(instrumented: Path | None, path: Path) -> None:
    """Check that a counter file begins with the header that is in the instrumented program."""
    if instrumented is None:
        return
    first, second, _ = path.read_bytes().split(b"\n", 2)
    if first + b"\n" + second + b"\n" not in instrumented.read_bytes():
        raise UsageError(
            f"{path} was not written by {instrumented}: it is of another program, or mode"
        )


def _read_trace(file: CounterFile, path: Path, output: Path | None, program: Path | None) -> int:
    from simprof.profiler.rewriting.elsewhere.trace import read_trace

    if output is None:
        raise UsageError(f"{path} is of a program that writes a trace: name that to make with -o")
    raw = path.with_name(path.name + TRACE)
    try:
        content = raw.read_bytes()
    except OSError as error:
        raise UsageError(f"{raw} cannot be read: {error.strerror}") from None
    ready_engine()
    problem = read_trace(file, content, output, program)
    if problem is not None:
        streams.write(streams.STDERR, f"simprof: {output} is not whole: {problem}\n")
    return 0
