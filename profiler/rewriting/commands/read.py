"""`simprof read`: what runs of instrumented programs have left: their counters, or a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import options, outputs, streams
from simprof.profiler.commands.help import in_sections
from simprof.profiler.commands.options import given
from simprof.profiler.commands.outputs import STANDARD_STREAM
from simprof.profiler.commands.progress import ready_engine
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.recovery.recovery import ProgramGraphs
    from simprof.profiler.rewriting.elsewhere.counter_file import CounterFile
    from simprof.profiler.trace.regeneration import Array, BlockSink

ELF = b"\x7fELF"
LONGEST, THRESHOLD = 8, 1.0  # Of hot subpaths
MOST_PATHS = 100  # Of a subpath: counting takes time by its square.

SECTIONS = {
    "Of counters": ("details", "top", "report"),
    "Of a trace of paths": ("subpaths", "longest", "threshold"),
    "Of a trace": ("check", "shown_paths"),
    "Of both": ("output", "json_file", "program"),
}
# Heading of options -> on what they have no effect.
OTHERS = MappingProxyType(
    {"Of counters": "a trace", "Of a trace": "counters", "Of a trace of paths": "a trace"}
)


class RegenerationError(UsageError):
    """A trace did not lead to the end of its execution, or to another one."""


@click.command("read", cls=in_sections(SECTIONS))
@click.argument("files", type=options.PATH, nargs=-1, required=True, metavar="[OUT] FILE...")
@click.option(
    "-o",
    "--output",
    type=options.PATH,
    metavar="FILE",
    help="Of counters: the profile to save, or the trace to make. Of a trace: a file for the start "
    "addresses of all blocks executed, in order; - is stdout.",
)
@click.option(
    "--program",
    type=options.PATH,
    metavar="ELF",
    help="The program before it was instrumented.  [default: as in the files]",
)
@options.extent_options()
@options.json_option("Write the result as JSON; - is stdout.")
@options.report_option()
@click.option(
    "--subpaths",
    type=options.COUNT,
    metavar="N",
    help="Of wpp: show the whole program path in place of the profile, and the N minimal hot "
    "subpaths that execute most.",
)
@click.option(
    "--longest",
    type=options.WholeNumber(1, MOST_PATHS),
    default=LONGEST,
    show_default=True,
    metavar="N",
    help="Paths of such a subpath, at most.",
)
@click.option(
    "--threshold",
    type=options.Percentage(),
    default=THRESHOLD,
    show_default=True,
    metavar="PERCENT",
    help="Of all instructions: what a subpath executes to be hot.",
)
@click.option(
    "--check", is_flag=True, help="Compare with the execution, whose digests the trace has."
)
@click.option(
    "--call-paths",
    "shown_paths",
    type=options.COUNT,
    metavar="N",
    help="Count call paths, and list the N most frequent.",
)
def read_command(files: tuple[Path, ...], **chosen: Any) -> int:
    """Read the counters that runs of an instrumented program have written to FILE..., or rebuild
    an execution from its trace.

    What several runs have counted adds up. OUT is the instrumented program: where it is given,
    files that another one has written are refused. The profile is that of `simprof run -o`.
    witness and bits count nothing: their trace, FILE.trace, becomes one that -o names.
    wpp counts nothing, either: its profile is read of FILE.trace.

    Of a trace, made so or by `simprof run --trace`, the sequence of blocks that the program
    executed is rebuilt. One that was cut, or does not fit, is followed as far as it leads; then
    the exit status is 125.
    """
    written = chosen["json_file"], chosen["output"], chosen["report"]
    outputs.check_outputs(*written, inputs=(*files, chosen["program"]))
    from simprof.profiler.trace.format import FORMAT

    is_trace = _begins(files[0], FORMAT.magic)
    for heading in ("Of counters", "Of a trace of paths") if is_trace else ("Of a trace",):
        _refuse_unused(heading)
    if chosen["subpaths"] is None:
        for flag in filter(None, map(given, ("longest", "threshold"))):
            raise UsageError(f"{flag} has no effect without --subpaths: leave it out")
    if not is_trace:
        return _read_counters(files, chosen)
    if files[1:]:
        raise UsageError(f"{files[0]} is a trace, which is read alone: leave out {files[1]}")
    return _regenerate(files[0], chosen)


def _begins(path: Path, beginning: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(beginning)) == beginning
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _refuse_unused(heading: str) -> None:
    """Refuse options under a heading."""
    for flag in filter(None, map(given, SECTIONS[heading])):
        raise UsageError(f"{flag} has no effect on {OTHERS[heading]}: leave it out")


def _read_counters(files: tuple[Path, ...], chosen: Mapping[str, Any]) -> int:
    from simprof.profiler.commands.run import write_results
    from simprof.profiler.rewriting.elsewhere.counter_file import load, merged
    from simprof.profiler.rewriting.elsewhere.reading import read_profile
    from simprof.profiler.schemes.registry import definition

    output, program = chosen["output"], chosen["program"]
    instrumented, counted = _instrumented(files)
    loaded = [load(path) for path in counted]
    for file, path in zip(loaded, counted, strict=True):
        _check_writer(instrumented, path)
        if definition(file.recipe.mode).writes_trace and chosen["subpaths"] is None:
            return _make_trace(merged(loaded), path, output, program)
    whole, stream = merged(loaded), b""
    if whole.recipe.trace:  # its paths are in there
        stream = _raw_trace(counted[0])
    if chosen["subpaths"] is not None:
        return _show_subpaths(whole, stream, chosen)
    write_results(read_profile(whole, program, stream), chosen, output)
    return 0


def _show_subpaths(file: CounterFile, stream: bytes, chosen: Mapping[str, Any]) -> int:
    from simprof.profiler.rewriting import read_reports
    from simprof.profiler.rewriting.elsewhere.whole_path import read_whole_path

    if chosen["output"] is not None:
        raise UsageError("-o saves a profile, which --subpaths does not show: leave out one")
    found = read_whole_path(
        file,
        stream,
        chosen["program"],
        longest=chosen["longest"],
        threshold=chosen["threshold"],
    )
    shown, json_file = chosen["subpaths"], chosen["json_file"]
    if json_file is not None:
        outputs.write_text(read_reports.subpaths_json(found, shown), json_file)
    target = streams.STDERR if json_file == STANDARD_STREAM else streams.STDOUT
    streams.write(target, read_reports.subpaths_text(found, shown))
    return 0


def _raw_trace(counted: Path) -> bytes:
    """Return the trace beside a counter file."""
    from simprof.profiler.rewriting.elsewhere.counter_file import TRACE_SUFFIX

    raw = counted.with_name(counted.name + TRACE_SUFFIX)
    try:
        return raw.read_bytes()
    except OSError as error:
        raise UsageError(f"{raw} cannot be read: {error.strerror}") from None


def _instrumented(files: tuple[Path, ...]) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the instrumented program, if it is the first of `files`, and the counter files."""
    first, *others = files
    if not _begins(first, ELF):
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


def _make_trace(file: CounterFile, path: Path, output: Path | None, program: Path | None) -> int:
    from simprof.profiler.rewriting.elsewhere.reading import read_trace

    if output is None:
        raise UsageError(f"{path} is of a program that writes a trace: name that to make with -o")
    content = _raw_trace(path)
    ready_engine()
    problem = read_trace(file, content, output, program)
    if problem is not None:
        streams.write(streams.STDERR, f"simprof: {output} is not whole: {problem}\n")
    return 0


def _regenerate(trace: Path, chosen: Mapping[str, Any]) -> int:
    ready_engine()
    from simprof.profiler.rewriting import read_reports
    from simprof.profiler.trace.calls import CallPaths
    from simprof.profiler.trace.regeneration import regenerate

    output, json_file, shown_paths = chosen["output"], chosen["json_file"], chosen["shown_paths"]
    counted = None if shown_paths is None else CallPaths()
    with _lines(output) as lines:
        wanting = [each for each in (lines, counted) if each is not None]

        def hand_on(recovered: ProgramGraphs, blocks: Array) -> None:
            for sink in wanting:
                sink(recovered, blocks)

        sink = hand_on if wanting else None
        found = regenerate(trace, chosen["program"], check=chosen["check"], sink=sink)
    profile = None if counted is None else counted.profile(shown_paths)
    if json_file is not None:
        outputs.write_text(read_reports.regenerated_json(found, profile), json_file)
    taken = STANDARD_STREAM in (output, json_file)
    streams.write(
        streams.STDERR if taken else streams.STDOUT, read_reports.regenerated_text(found, profile)
    )
    if not found.complete:
        raise RegenerationError(read_reports.problem(found, str(trace)))
    return 0


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
