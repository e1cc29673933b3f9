"""Options that several commands have: written once, with the words that differ as parameters.

Each function returns the decorator that adds its option to a command. Help texts differ where
commands do: some run one program ("the program"), others any of several ("a program").
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from simprof.profiler.commands import options
from simprof.profiler.request.request import Selection

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


def selection_options(verb: str, *, routine: bool = True) -> Decorator[Any]:
    """Return the options that select routines; `selection` reads them.

    `verb`: What is done with the routines: "Profile". `routine`: Whether `--routine` is among them.
    """
    made: list[Decorator[Any]] = [
        click.option(
            "--exclude",
            multiple=True,
            metavar="GLOB",
            help=f"{verb} no routine whose name or alias matches; repeatable.",
        ),
        click.option(
            "--user-only",
            is_flag=True,
            help=f"{verb} the program's own routines only: those compiled with -g from files that "
            "are none of the C, C++ and Fortran libraries.",
        ),
    ]
    if routine:
        only = click.option(
            "--routine",
            "routines",
            multiple=True,
            metavar="GLOB",
            help=f"{verb} only routines whose name or alias matches; repeatable.",
        )
        made.insert(0, only)

    def decorate(command: Any) -> Any:
        for option in reversed(made):
            command = option(command)
        return command

    return decorate


def selection(chosen: Mapping[str, Any]) -> Selection:
    """Return the selection that the options of a command ask for."""
    return Selection(chosen.get("routines", ()), chosen["exclude"], chosen["user_only"])


def json_option(text: str) -> Decorator[Any]:
    """Return `--json`, whose help is `text`."""
    return click.option("--json", "json_file", type=options.PATH, metavar="FILE", help=text)


def report_option(stdout: str = "") -> Decorator[Any]:
    """Return `--report`; `stdout` says what follows where the report goes to stdout."""
    return click.option(
        "--report",
        type=options.PATH,
        metavar="FILE",
        help=f"Write the report there, not to stderr; - is stdout{stdout}.",
    )


def extent_options(rows: str = "5, with --details 10") -> Decorator[Any]:
    """Return `--details` and `--top`, which say how much a report shows; `rows`: the default."""

    def decorate(command: Any) -> Any:
        top = click.option(
            "--top",
            type=options.WholeNumber(0),
            metavar="N",
            help=f"Rows in each table of the report.  [default: {rows}]",
        )
        details = click.option(
            "--details", is_flag=True, help="Report everything that is known, not the answer alone."
        )
        return details(top(command))

    return decorate


class Extent(NamedTuple):
    """How much a report shows."""

    top: int | None = None  # Rows of its tables; None: as many as is usual.
    details: bool = False  # Whether everything
    follow: str | None = None  # Routine whose calls are shown as a tree


def replay_cells_option() -> Decorator[Any]:
    """Return `--replay` of commands that measure cells."""
    return click.option(
        "--replay",
        type=options.PATH,
        metavar="RUN|DIR",
        help="Measure programs by recordings of their runs: by a file of `simprof record`, which "
        "must be of the one program and input, or by those of a directory, where each program and "
        "input is recorded once, if it is not there. Instrumented programs are run all the same.",
    )


def stdin_option(text: str) -> Decorator[Any]:
    """Return `--stdin`, whose help is `text`."""
    return click.option("--stdin", "stdin_file", type=options.PATH, metavar="FILE", help=text)


def env_option(programs: str) -> Decorator[Any]:
    """Return `--env` for `programs`: "the program, which inherits none"."""
    return click.option(
        "--env",
        "environment",
        type=options.variable,
        metavar="NAME=VALUE",
        multiple=True,
        help=f"Set a variable for {programs}; repeatable.",
    )


def max_instructions_option(stopped: str) -> Decorator[Any]:
    """Return `--max-instructions`; `stopped` is "Stop" or says what is stopped, too."""
    return click.option(
        "--max-instructions",
        type=options.COUNT,
        metavar="N",
        help=f"{stopped} at the block that would exceed N instructions.",
    )


def timeout_option(text: str) -> Decorator[Any]:
    """Return `--timeout`, whose help is `text`."""
    return click.option("--timeout", type=options.seconds, metavar="SECONDS", help=text)


def memory_limit_option(program: str) -> Decorator[Any]:
    """Return `--memory-limit` for `program`: "the program"."""
    return click.option(
        "--memory-limit",
        type=options.size,
        default="2G",
        show_default=True,
        metavar="SIZE",
        help=f"Memory that {program} may use: bytes, or 64K, 512M, 2G.",
    )


def stack_size_option(program: str, remark: str = "") -> Decorator[Any]:
    """Return `--stack-size` for `program`: "the program"; `remark` ends the sentence."""
    return click.option(
        "--stack-size",
        type=options.stack_size,
        default="64M",
        show_default=True,
        metavar="SIZE",
        help=f"Stack of {program}, at most 256M and a quarter of its memory{remark}.",
    )


allow_commands_option = click.option(
    "--allow-commands",
    is_flag=True,
    help="Let a suite's file of your own have its commands executed, on this computer.",
)


def progress_option(default: str = "") -> Decorator[Any]:
    """Return `--progress/--no-progress`; `default` says when a bar is shown without it."""
    shown = f"  [default: {default}]" if default else ""
    return click.option(
        "--progress/--no-progress", default=None, help=f"Show a progress bar.{shown}"
    )


def jobs_option(things: str) -> Decorator[Any]:
    """Return `--jobs N`, how many of `things` are done at the same time; `processors` reads it."""
    return click.option(
        "--jobs",
        type=options.WholeNumber(1, 256),
        metavar="N",
        help=f"How many {things} at the same time.  [default: one a processor]",
    )


def processors(jobs: int | None) -> int:
    """Return `jobs`, or how many processors there are where the user has not said."""
    return jobs or len(os.sched_getaffinity(0))


def given(name: str) -> str | None:
    """Return the option of a parameter as the user wrote it on the command line; None: not there.

    `name`: The parameter's; commands have some of those that are asked for.
    """
    context = click.get_current_context()
    if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return None
    (option,) = (each for each in context.command.params if each.name == name)
    negated = option.secondary_opts and not context.params[name]
    return max(option.secondary_opts if negated else option.opts, key=len)
