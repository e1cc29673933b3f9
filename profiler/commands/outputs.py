"""Outputs of commands: files, which are whole or not there, and simprof's own streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from simprof.profiler.commands import streams
from simprof.simulator.errors import UsageError

T = TypeVar("T")
STANDARD_STREAM = Path("-")


def check_outputs(*paths: Path | None, inputs: Iterable[Path | None] = ()) -> None:
    """Check early that every output can be written, and is neither an input nor another output.

    Raises UsageError, naming the first that cannot be.
    """
    from simprof.profiler.profiles.output import check_writable

    read = {path.resolve() for path in inputs if path is not None and path.is_file()}
    seen: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        if path == STANDARD_STREAM:
            target = path
        else:
            check_writable(path)
            target = path.resolve()
            if target in read:
                raise UsageError(f"{path} is read as well: write to another file")
        if target in seen and (path == STANDARD_STREAM or path.is_file() or not path.exists()):
            raise UsageError(f"{path} is named for two outputs: give each its own file")
        seen.add(target)


def make_directory(directory: Path) -> None:
    """Make a directory for outputs; UsageError if it cannot be made."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{directory} cannot be made a directory: {error.strerror}") from None


def write_text(text: str | Iterable[str], output: Path | None) -> None:
    """Write a text that programs read, or people, to a file or to stdout (None or `-`).

    `text`: whole, or in pieces.
    """
    given = [text] if isinstance(text, str) else text
    if output is None or output == STANDARD_STREAM:
        for piece in given:
            streams.write(streams.STDOUT, piece)
        return
    from simprof.profiler.profiles.output import write_atomically

    write_atomically(output, (piece.encode(errors="backslashreplace") for piece in given))


def write_json(text: Callable[[], str | Iterable[str]], file: Path | None) -> None:
    """Write the JSON where it is wanted; `text` is called only then."""
    if file is not None:
        write_text(text(), file)


# Makes a text for people from the columns that there are and whether it has colours
Render = Callable[[int, bool], str]


def show(render: Render, output: Path | None = None, plain: int = streams.PLAIN_WIDTH) -> None:
    """Write what people read to a file, or to stdout (None or `-`).

    `plain`: how many columns there are where neither the user nor a terminal says.
    """
    on_stdout = output is None or output == STANDARD_STREAM
    width = streams.width(streams.STDOUT if on_stdout else None, plain)
    write_text(render(width, on_stdout and streams.colored(streams.STDOUT)), output)


def write_report(
    render: Render, file: Path | None, quiet: bool = False, *, after_output: bool = False
) -> None:
    """Write the report to its file, to stdout (`-`) or, where none was asked for, to stderr.

    `quiet`: Whether only what was asked for is written. `after_output`: Whether a program may have
    written to the same terminal before.
    """
    if file is not None:
        show(render, file)
    elif not quiet:
        stream = streams.STDERR
        if after_output and streams.show_together():
            streams.write(stream, "\n")  # between the program's output and the report
        streams.write(stream, render(streams.width(stream), streams.colored(stream)))


def check_form(chosen: Mapping[str, Any]) -> None:
    """Check that at most one form other than the text for people is asked for."""
    if chosen["as_csv"] and chosen["as_json"]:
        raise UsageError("--csv and --json: give one of them")


def write_form(
    chosen: Mapping[str, Any],
    value: T,
    csv: Callable[[T], str],
    json: Callable[[T], str],
    text: Callable[[T, int, bool], str],
    plain: int = streams.PLAIN_WIDTH,
) -> None:
    """Write a value in the form that `profile_options.form_options` asks for."""
    if chosen["as_csv"] or chosen["as_json"]:
        write_text((csv if chosen["as_csv"] else json)(value), chosen["output"])
    else:
        show(partial(text, value), chosen["output"], plain)


def write_notes(notes: Iterable[str]) -> None:
    """Write to stderr what the reader of an output must know beside it, one line each."""
    from simprof.profiler.reports.display import visible

    for note in notes:
        streams.write(streams.STDERR, f"simprof: note: {visible(note)}\n")
