"""`simprof completion`: a script by which a shell completes commands, options and file names."""

from __future__ import annotations

import click

from simprof.profiler.commands import streams

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
