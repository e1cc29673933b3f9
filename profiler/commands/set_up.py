"""`simprof doctor` and `completion`: the installation, a shell's script."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from simprof.profiler.commands import options, outputs, streams
from simprof.profiler.commands.outputs import STANDARD_STREAM


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


VARIABLE = "_SIMPROF_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=options.WordChoice(SHELLS))
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
    # bash hands words over in pieces, cut at colons, unless it is told not to: `tpp:cold=20` is one
    whole = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n" if shell == "bash" else ""
    script = found(simprof, {}, "simprof", VARIABLE).source()
    streams.write(streams.STDOUT, f"{whole}{script}\n")
    return 0
