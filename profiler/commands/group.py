"""The command `simprof` with its subcommands, each imported when it is first asked for.

The list of subcommands is shown, and one of them is started, without importing the others.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple

import click

from simprof.profiler import OWN_VERSION


class Subcommand(NamedTuple):
    """A subcommand, a function NAME_command."""

    module: str  # Its name: modules of the wings lie above this package, which must not import them
    summary: str  # What it does, in one line


# Heading -> subcommands, in the order in which help shows them
GROUPS = MappingProxyType(
    {
        "Measure": {
            "run": Subcommand(
                "simprof.profiler.commands.run", "Run a program under one scheme and report."
            ),
            "compare": Subcommand(
                "simprof.profiler.commands.compare",
                "Run a program under many schemes and show them in a table.",
            ),
            "record": Subcommand(
                "simprof.profiler.commands.run",
                "Run a program once, for schemes to be measured by later.",
            ),
            "instrument": Subcommand(
                "simprof.profiler.rewriting.commands.instrument",
                "Write a program with a scheme's code in its place.",
            ),
            "verify": Subcommand(
                "simprof.profiler.rewriting.commands.verify",
                "Run instrumented programs, and compare with what is predicted.",
            ),
            "read": Subcommand(
                "simprof.profiler.rewriting.commands.read",
                "Read what an instrumented program has counted, or a trace.",
            ),
        },
        "Look": {
            "show": Subcommand(
                "simprof.profiler.commands.show",
                "Show what saved profiles hold: report, rows, source, tree, page.",
            ),
            "diff": Subcommand(
                "simprof.profiler.commands.several_profiles", "Compare two saved profiles."
            ),
            "merge": Subcommand(
                "simprof.profiler.commands.several_profiles", "Add up saved profiles."
            ),
            "export": Subcommand(
                "simprof.profiler.commands.export",
                "Write a saved profile in the format of another tool.",
            ),
            "cfg": Subcommand(
                "simprof.profiler.commands.cfg", "Show a program's control-flow graphs."
            ),
        },
        "Learn": {
            "explain": Subcommand(
                "simprof.profiler.commands.explain",
                "Explain a scheme on small graphs, step by step.",
            )
        },
        "Evaluate": {
            "suite": Subcommand(
                "simprof.profiler.experiments.commands.suite",
                "List, build and run suites of programs.",
            ),
            "sweep": Subcommand(
                "simprof.profiler.experiments.commands.sweep",
                "Run a grid of programs, modes and options into one file.",
            ),
            "table": Subcommand(
                "simprof.profiler.experiments.commands.table",
                "Reproduce the papers' tables and graphs on a suite.",
            ),
            "regress": Subcommand(
                "simprof.profiler.experiments.commands.regress",
                "Record what programs count, and check that it stays so.",
            ),
        },
        "Set up": {
            "doctor": Subcommand(
                "simprof.profiler.commands.set_up",
                "Say what is installed, what works, what is missing.",
            ),
            "completion": Subcommand(
                "simprof.profiler.commands.set_up", "Print what a shell needs to complete commands."
            ),
        },
    }
)
SUBCOMMANDS = MappingProxyType(
    {name: each for group in GROUPS.values() for name, each in group.items()}
)


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a subcommand; None where there is none of that name."""
        if cmd_name not in SUBCOMMANDS:
            return None
        module = import_module(SUBCOMMANDS[cmd_name].module)
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands by what they are for, without importing them."""
        widest = max(map(len, SUBCOMMANDS))
        for heading, group in GROUPS.items():
            with formatter.section(heading):
                rows = [(name.ljust(widest), each.summary) for name, each in group.items()]
                formatter.write_dl(rows)


@click.group(
    name="simprof",
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(OWN_VERSION, prog_name="simprof", message="%(prog)s %(version)s")
@click.pass_context
def simprof(ctx: click.Context) -> None:
    """Exact profiles of SPARC programs, and what each published scheme would have cost."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
