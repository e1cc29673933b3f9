"""`simprof doctor`, `cache` and `completion`: the installation, what it keeps, a shell's script."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from simprof.profiler.commands import options, outputs, streams
from simprof.profiler.commands.outputs import STANDARD_STREAM
from simprof.profiler.profiles.cache_files import binaries


@click.command("doctor")
@options.json_option("Write the result as JSON; - is stdout.")
def doctor_command(json_file: Path | None) -> int:
    """Check the installation; exit 0 if runs work."""
    outputs.check_outputs(json_file)
    from simprof.profiler.commands.progress import ready_engine
    from simprof.profiler.reports import doctor
    from simprof.profiler.session.diagnosis import diagnose

    ready_engine()
    diagnosis = diagnose()
    if json_file != STANDARD_STREAM:
        streams.write(streams.STDOUT, doctor.render_text(diagnosis, streams.width(streams.STDOUT)))
    outputs.write_json(partial(doctor.render_json, diagnosis), json_file)
    return 0 if diagnosis.ok else 125


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


VARIABLE = "_SIMPROF_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> int:
    """Print the script by which SHELL completes simprof's commands and options.

    \b
    bash   eval "$(simprof completion bash)"             in ~/.bashrc
    zsh    eval "$(simprof completion zsh)"              in ~/.zshrc
    fish   simprof completion fish | source              in ~/.config/fish/config.fish
    """  # noqa: D301 - click looks for this character
    from click.shell_completion import get_completion_class

    from simprof.profiler.commands.group import simprof

    found = get_completion_class(shell)
    assert found is not None
    streams.write(streams.STDOUT, found(simprof, {}, "simprof", VARIABLE).source() + "\n")
    return 0
