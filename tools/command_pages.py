#!/usr/bin/env python3
"""Make the man pages, docs/man/, of the commands; and for the site a page of all commands.

    tools/command_pages.py            write the man pages
    tools/command_pages.py --check    say which of them are not as they would be written now

The texts are those of `simprof COMMAND --help`; click-man writes the man pages. The site's page,
commands.md, is in no folder: mkdocs.yml names this file as a hook, which adds it to the site.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path

import click
from click_man.core import generate_man_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from simprof.profiler.commands.group import SUBCOMMANDS, simprof
from simprof.profiler.profiles.documents import OWN_VERSION
from tools import generated_files

REFERENCE = "commands.md"
MAN = generated_files.ROOT / "docs" / "man"
WIDTH = 90
HEAD = """# Commands

What `simprof COMMAND --help` says, of every command. `man simprof` and `man simprof-run` show the
same where simprof was installed with pip into a prefix that `man` looks at. `simprof completion`
prints what a shell needs to complete commands, options and files.
"""


def contexts(
    command: click.Command, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yield the context of a command, then those of its subcommands."""
    name = "simprof" if parent is None else command.name
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, parent=parent, info_name=name, **settings)
    command.short_help = summary(command)
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            subcommand = command.get_command(context, each)
            if subcommand is not None and not subcommand.hidden:
                yield from contexts(subcommand, context)


def summary(command: click.Command) -> str:
    """Return what a command does, in one whole line without a dot."""
    known = SUBCOMMANDS.get(command.name or "")
    told = command.short_help or cleandoc(command.help or "").split("\n\n")[0]
    if known is not None:
        told = known.summary
    return " ".join(told.split()).split(". ")[0].rstrip(".")


def reference() -> str:
    """Return the page of all commands."""
    parts = [HEAD]
    for context in list(contexts(simprof)):
        level = "##" if context.parent is None or context.parent.parent is None else "###"
        parts.append(f"{level} {context.command_path}\n\n```text\n{context.get_help()}\n```\n")
    return "\n".join(parts)


def man_pages() -> dict[str, str]:
    """Return file name -> page; what belongs to a group, its page lists."""
    pages = {}
    for context in list(contexts(simprof)):
        command = context.command
        if isinstance(command, click.Group):
            names = command.list_commands(context)
            found = {name: command.get_command(context, name) for name in names}
            command.commands = {name: each for name, each in found.items() if each is not None}
        name = context.command_path.replace(" ", "-")
        pages[f"{name}.1"] = generate_man_page(context, OWN_VERSION, date="simprof")
    return pages


@cache
def files() -> dict[Path, str]:
    """Return all that this tool writes."""
    return {MAN / name: page for name, page in man_pages().items()}


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the page of all commands to the site; mkdocs calls this."""
    files.append(File.generated(config, REFERENCE, content=reference()))


if __name__ == "__main__":
    sys.exit(generated_files.run(__doc__, files(), MAN.glob("*.1")))
