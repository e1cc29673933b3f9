"""What was probably meant by an option or a command that does not exist.

Click compares whole words, dashes included, so that every long option is a little like every
other: `--save` gets `--argv0`. Here only names that are nearly the same count, those that the word
begins, and what is called otherwise here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import click

from simprof.profiler.request.likeness import alike

SHORTEST_BEGINNING = 3

CALLED_HERE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "annotate": ("show",),
        "csv": ("--json",),
        "edges": ("show",),
        "file": ("--output",),
        "format": ("--csv", "--json"),
        "graph": ("explain",),
        "limit": ("--top", "--max-instructions"),
        "order": ("--sort",),
        "paths": ("show",),
        "regenerate": ("read",),
        "report": ("show",),
        "reverse": ("--ascending", "--descending"),
        "routines": ("show",),
        "save": ("--output",),
        "scheme": ("--mode",),
        "verbose": ("--details",),
    }
)
"""Words for what other names stand for here; the names that a command has are suggested."""


def explained(error: click.UsageError) -> str:
    """Return the message of an error in the words of the command line, with what was meant."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        known = _options(error.ctx.command)
        return _asked(error.message, meant(error.option_name, known))
    if isinstance(error, click.exceptions.NoSuchCommand) and error.ctx is not None:
        group = error.ctx.command
        names = group.list_commands(error.ctx) if isinstance(group, click.Group) else []
        return _asked(error.message, meant(error.command_name, names))
    return error.format_message()


def meant(word: str, known: Iterable[str]) -> list[str]:
    """Return the names that a word may stand for, the likeliest first.

    `word`: As the user wrote it. `known`: The names that there are; options with their dashes.

    Examples
    --------
    >>> meant("--save", ["--argv0", "--output", "--trace"])
    ['--output']
    >>> meant("--out", ["--output", "--root"])
    ['--output']
    >>> meant("--modd", ["--mode", "--root"])
    ['--mode']
    >>> meant("rn", ["run", "read"])
    ['run']
    >>> meant("rnu", ["run", "read"])
    ['run']
    """
    bare = word.lstrip("-")
    names = {name.lstrip("-"): name for name in known}
    otherwise = [name for name in CALLED_HERE.get(bare, ()) if name in names.values()]
    if otherwise:
        return otherwise
    if len(bare) >= SHORTEST_BEGINNING:
        begun = sorted(name for name in names if name.startswith(bare))
        if begun:
            return [names[name] for name in begun]
    return [names[name] for name in alike(bare, names)]


def _options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            for name in (*parameter.opts, *parameter.secondary_opts):
                if name.startswith("--"):
                    yield name


def _asked(message: str, names: list[str]) -> str:
    if not names:
        return message
    return f"{message} Did you mean {' or '.join(map(repr, names))}?"
