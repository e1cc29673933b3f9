"""simprof's own standard streams: text is written there whole, or an error says why not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from simprof.simulator import stopping
from simprof.simulator.errors import UsageError

STDIN, STDOUT, STDERR = 0, 1, 2
NAMES = {STDOUT: "stdout", STDERR: "stderr"}
PLAIN_WIDTH = 100
NARROWEST = 40
LONGEST_LINE = 2000  # Characters of a message, which may name what a file holds


def prepare() -> None:
    """Make the three descriptors safe to use, however simprof was started.

    Text that the terminal's encoding lacks is written with backslashes.
    """
    # A descriptor that is closed would be given to the next file opened, and the program's output
    # would land in that file. It is occupied by the null device instead, opened in the direction
    # that nobody uses, so that reads and writes still fail as on a closed one.
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            _occupy(descriptor)
    if sys.stdout is None:
        sys.stdout = open(STDOUT, "w", closefd=False)  # noqa: SIM115 - a descriptor
    if sys.stderr is None:
        sys.stderr = open(STDERR, "w", closefd=False)  # noqa: SIM115 - a descriptor
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _occupy(descriptor: int) -> None:
    unused = os.O_WRONLY if descriptor == STDIN else os.O_RDONLY
    opened = os.open(os.devnull, unused)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)


def write(descriptor: int, text: str) -> None:
    """Write `text` to stdout (1) or stderr (2) at once.

    Raises UsageError if it cannot be written: the stream is closed, its disk is full, nobody reads.
    """
    stream = sys.stdout if descriptor == STDOUT else sys.stderr
    if not text.isascii():  # names in damaged files are no text
        from simprof.profiler.reports.display import bytes_shown

        text = bytes_shown(text).encode(errors="backslashreplace").decode()
    with _whole(descriptor):
        stream.write(text)
        stream.flush()


def complain(text: str) -> None:
    """Write one line to stderr that begins with "simprof: ", whatever the text holds."""
    line = " ".join(text.split())
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    if not line.isprintable():  # names in damaged files may hold what terminals obey
        from simprof.profiler.reports.display import visible

        line = visible(line)
    write(STDERR, f"simprof: {line}\n")


@contextmanager
def _whole(descriptor: int) -> Iterator[None]:
    """Turn a failure to write into the error that says so; write no result after a lost signal."""
    if descriptor == STDOUT:
        stopping.check()
    try:
        yield
    except OSError as error:
        abandon(descriptor)
        reason = "nobody reads it" if isinstance(error, BrokenPipeError) else error.strerror
        raise UsageError(
            f"{NAMES[descriptor]} cannot be written ({reason}): send it somewhere else"
        ) from None


def write_bytes(descriptor: int, content: bytes) -> None:
    """Write `content` to stdout (1) or stderr (2), as it is; errors as of `write`."""
    stream = sys.stdout if descriptor == STDOUT else sys.stderr
    with _whole(descriptor):
        stream.buffer.write(content)
        stream.flush()


def width(descriptor: int | None, plain: int = PLAIN_WIDTH) -> int:
    """Return how wide the lines of a report may be, at least 40 cells.

    That is what the variable COLUMNS says, else the terminal, else `plain`. `descriptor`: where it
    goes: 1, 2, or None for a file.
    """
    wanted = os.environ.get("COLUMNS", "")
    columns = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else 0
    if not columns and descriptor is not None:
        with suppress(OSError):
            columns = os.get_terminal_size(descriptor).columns
    return max(columns or plain, NARROWEST)


def show_together() -> bool:
    """Whether what is written to stdout and to stderr goes to one terminal, pipe or file."""
    with suppress(OSError, ValueError):
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    return False


def colored(descriptor: int) -> bool:
    """Whether text written there has colours: terminals show them, and the user may decide.

    Variables count as they do for rich and for many other tools: NO_COLOR (no-color.org) forbids
    colours, FORCE_COLOR and CLICOLOR_FORCE ask for them where there is no terminal,
    CLICOLOR=0 forbids them, and so does a terminal that calls itself dumb.
    """
    if os.environ.get("NO_COLOR"):
        return False
    forcing = ("FORCE_COLOR", "CLICOLOR_FORCE")
    if any(os.environ.get(name, "0") not in ("", "0") for name in forcing):
        return True
    if os.environ.get("CLICOLOR") == "0" or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    return (sys.stdout if descriptor == STDOUT else sys.stderr).isatty()


def abandon(descriptor: int) -> None:
    """Let what is still buffered go nowhere, so that the exit's flush succeeds."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
