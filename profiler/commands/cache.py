"""`simprof cache`: what earlier runs have shown of programs, in the user's cache directory."""

from __future__ import annotations

import click

from simprof.profiler.commands import streams
from simprof.profiler.profiles.cache_files import binaries


@click.group("cache")
def cache_command() -> None:
    """List or clear the analysis cache: what earlier runs have shown of programs.

    These are graphs of routines, plans, what their code costs, and where jumps lead that only a run
    shows. Results do not depend on them, only how long they take. What was not used for long makes
    room for other programs.
    """


@cache_command.command("list", short_help="List what is kept.")
def list_command() -> int:
    """List the files of the cache, those used last at first."""
    from simprof.profiler.reports import cache_text

    files = binaries()
    width = streams.width(streams.STDOUT)
    text = cache_text.render(files.entries(), str(files.directory), width)
    streams.write(streams.STDOUT, text)
    return 0


@cache_command.command("clear", short_help="Remove what is kept.")
def clear_command() -> int:
    """Remove all files of the cache."""
    from simprof.profiler.reports import cache_text

    files = binaries()
    gone = files.clear()
    streams.write(streams.STDOUT, "removed from " + cache_text.total(gone, str(files.directory)))
    return 0
